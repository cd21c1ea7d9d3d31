"""What index operations cost: measured by a clock, in proportion, and known whichever of the kernels a join uses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from eddyline.adapting import index_costs
from eddyline.adaptive.indexes.cost import TYPICAL_COSTS, UnitCosts
from eddyline.core.time import ProcessorClock, SystemClock, processor_clock
from eddyline.kernels import bit_address, value_search
from eddyline.testing.clock import ManualClock

SEARCHES = (
    value_search.SEARCH_BITS_BY_VALUE[0], value_search.SEARCH_HASHED_BY_VALUE[0], bit_address.search_all
)  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_costs, "_measured", None)


@pytest.mark.parametrize("used", range(3))
def test_one_compiled_search_is_enough_to_measure_all(used: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A join that searches hash indices alone never calls the kernels of the others."""
    loaded: list[object] = []
    monkeypatch.setattr(index_costs, "is_compiled", lambda kernel: kernel is SEARCHES[used] or kernel in loaded)
    monkeypatch.setattr(index_costs, "load_compiled", lambda kernel: loaded.append(kernel) or True)
    costs = index_costs.unit_costs(SystemClock())
    assert costs != TYPICAL_COSTS and set(loaded) >= set(SEARCHES)
    assert index_costs.unit_costs() is costs  # once in a process


@pytest.mark.parametrize("compiled", [False, True])
def test_costs_are_typical_ones_as_long_as_a_kernel_is_missing(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_costs, "is_compiled", lambda kernel: compiled and kernel is SEARCHES[0])
    monkeypatch.setattr(index_costs, "load_compiled", lambda kernel: kernel is SEARCHES[0])
    assert index_costs.unit_costs() == TYPICAL_COSTS


class Interrupted:
    """A clock of a machine that does something else for a second in most of the measurements."""

    def __init__(self, pauses: Iterator[int]) -> None:
        self.real, self.pauses, self.lost = ProcessorClock(), pauses, 0

    def now(self) -> int:
        return self.real.now()

    def nanoseconds(self) -> int:
        self.lost += next(self.pauses)
        return self.real.nanoseconds() + self.lost


def test_interruptions_are_no_costs() -> None:
    index_costs.measure(ProcessorClock())  # loads
    every = iter(lambda: 0, 1)
    lengths = (10**9 if i % 3 == 1 else 0 for i, _ in enumerate(every))  # an odd number: each run has quiet repetitions
    costs = index_costs.measure(Interrupted(lengths))
    assert max(costs.hash, costs.compare, costs.visit, costs.insert, costs.scan, costs.hit) < 100_000


def test_costs_are_in_proportion() -> None:
    costs = index_costs.measure(ProcessorClock())
    assert 0 < costs.scan < costs.compare + costs.hit
    assert costs.put_more < costs.put < costs.build


def test_durations_are_those_of_the_processor_unless_a_test_sets_them() -> None:
    manual = ManualClock()
    assert processor_clock(manual) is manual
    clock = processor_clock(SystemClock())
    assert isinstance(clock, ProcessorClock) and clock.nanoseconds() <= clock.nanoseconds()


def test_operations_cost_one_where_they_are_counted_and_calls_nothing() -> None:
    counted = UnitCosts()
    assert (counted.call, counted.build, counted.put, counted.put_more, counted.hit) == (0.0,) * 5
