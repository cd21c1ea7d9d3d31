"""Scheduling: the tables of thesis 2.3.2, by the executor and the schedulers that run real plans, under a test clock.

The tables were checked by hand: all rows and all averages are right (16.6/7 = 2.37, 11.2/7 = 1.6; 22.6/7 = 3.23,
25.9/7 = 3.7). "After time t = 13" holds for the first plan: it has 14 units of work, one of which is done in each of
0…13. The second plan has 21, so it is empty after t = 20; the text does not say otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.core.delta import Delta
from eddyline.core.schema import Field, Schema
from eddyline.core.time import BEGINNING
from eddyline.engine.executor import Executor
from eddyline.engine.queues import Queue
from eddyline.engine.scheduler import Chain, Fifo, Greedy, Scheduler
from eddyline.engine.task import Estimate, Task
from eddyline.streamon.decision import Decision
from eddyline.streamon.strategies import strategies
from eddyline.testing.clock import ManualClock

SCHEMA = Schema((Field("a", pa.int64()),))
NAMES = sorted(strategies("scheduler"))
UNIT = 1000  # nanoseconds: one microsecond of the test clock
N = 10  # elements that arrive at each instant


def elements(time: int, count: int = N) -> Delta:
    return Delta(np.full(count, time, np.int64), {"a": pa.array(range(count), pa.int64())})


class Prompt:
    """Its output is complete as far as its input."""

    def complete_to(self, frontier: int) -> int:
        return frontier


@dataclass
class Worker(Prompt):
    """Takes one unit of time for up to ``capacity`` elements and lets the share ``keeps`` (in tenths) through."""

    name: str
    clock: ManualClock
    capacity: int
    keeps: int
    frontiers: list[int] = field(default_factory=list)

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        (delta,) = deltas
        assert len(delta) <= self.capacity
        self.frontiers.append(frontier)
        self.clock.advance(1)
        out = len(delta) * self.keeps // 10
        return delta.slice(0, out)


# (capacity per time unit, tenths that pass), as the text gives them for n = 10
FIRST = ((10, 2), (2, 0))
SECOND = ((10, 9), (9, 10), (9, 0))


def plan(shape: Sequence[tuple[int, int]], scheduler: Scheduler, declared: bool = True) -> tuple[Executor, Queue]:
    clock = ManualClock()
    queues = [Queue(SCHEMA) for _ in shape]
    tasks = [
        Task(
            Worker(f"O{i + 1}", clock, capacity, keeps),
            [queues[i]],
            queues[i + 1 : i + 2],
            quantum=capacity,
            declared=Estimate(UNIT / capacity, keeps / 10) if declared else None,
        )
        for i, (capacity, keeps) in enumerate(shape)
    ]
    return Executor(tasks, clock, scheduler), queues[0]


def sizes(executor: Executor, source: Queue, begin: int = 0, burst: int = 7, last: int = 13) -> list[float]:
    """The total queue size at each instant, in multiples of n: arrivals first, then one unit of work."""
    assert isinstance(executor.clock, ManualClock)
    row = []
    for t in range(begin, begin + last + 1):
        if t < begin + burst:
            source.push(elements(t), t)
        row.append(executor.queued / N)
        if not executor.run(nanoseconds=UNIT):
            executor.clock.advance(1)
        assert executor.clock.now() == t + 1
    return row


FIRST_FIFO = [1.0, 1.2, 2.0, 2.2, 3.0, 3.2, 4.0]
FIRST_GREEDY = [1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2]
SECOND_FIFO = [1.0, 1.9, 2.9, 3.0, 3.9, 4.9, 5.0]
SECOND_GREEDY = [1.0, 1.9, 2.8, 3.7, 4.6, 5.5, 6.4]


@pytest.mark.parametrize(
    ("shape", "scheduler", "expected", "average"),
    [
        (FIRST, Fifo(), FIRST_FIFO, 2.4),
        (FIRST, Greedy(), FIRST_GREEDY, 1.6),
        (FIRST, Chain(), FIRST_GREEDY, 1.6),
        (SECOND, Fifo(), SECOND_FIFO, 3.2),
        (SECOND, Greedy(), SECOND_GREEDY, 3.7),
        (SECOND, Chain(), SECOND_FIFO, 3.2),
    ],
)
def test_the_tables_of_section_2_3_2(
    shape: Sequence[tuple[int, int]], scheduler: Scheduler, expected: list[float], average: float
) -> None:
    executor, source = plan(shape, scheduler)
    work = 7 * len(shape)
    row = sizes(executor, source, last=work)
    assert row[:7] == pytest.approx(expected)
    assert round(sum(row[:7]) / 7, 1) == average
    # From the last arrival on it only declines, and it is empty when all the work is done, not before.
    assert all(a >= b for a, b in pairwise(row[6:]))
    assert row[work - 1] > 0
    assert row[work] == 0
    assert executor.queued == 0


def test_the_chains_that_are_formed() -> None:
    for shape, expected in ((FIRST, [["O1"], ["O2"]]), (SECOND, [["O1", "O2", "O3"]])):
        chain = Chain()
        plan(shape, chain)
        assert [[t.name for t in block] for block in chain.chains] == expected


@pytest.mark.parametrize(
    ("shape", "name"), [(FIRST, "greedy"), (FIRST, "chain"), (SECOND, "greedy"), (SECOND, "chain")]
)
def test_measured_statistics_lead_to_the_same_tables(shape: Sequence[tuple[int, int]], name: str) -> None:
    """Nothing is declared: a first burst teaches what the second one is scheduled by."""
    decisions: list[Decision] = []
    kind = {"greedy": Greedy, "chain": Chain}[name]
    executor, source = plan(shape, kind(period=4, report=decisions.append), declared=False)
    first = sizes(executor, source, last=22)
    assert first[0] == 1.0
    second = sizes(executor, source, begin=23, last=22)
    expected = {
        (FIRST, "greedy"): FIRST_GREEDY,
        (FIRST, "chain"): FIRST_GREEDY,
        (SECOND, "greedy"): SECOND_GREEDY,
        (SECOND, "chain"): SECOND_FIFO,
    }
    assert second[:7] == pytest.approx(expected[shape, name])  # type: ignore[index]
    assert len(decisions) == 1
    assert decisions[0].evidence["O1"] == pytest.approx((UNIT / shape[0][0], shape[0][1] / 10))
    estimate = executor.tasks[0].statistics.estimate
    assert estimate is not None
    assert executor.tasks[0].statistics.elements_in == 14 * N


def test_small_drift_changes_nothing_and_large_drift_does() -> None:
    decisions: list[Decision] = []
    executor, source = plan(((10, 5), (5, 0)), Greedy(period=1, report=decisions.append), declared=False)
    one = executor.tasks[0].operator
    assert isinstance(one, Worker)

    def bursts(begin: int) -> None:
        for t in range(begin, begin + 400, 2):
            source.push(elements(t), t)
            source.push(elements(t + 1), t + 1)  # two batches, so that there is something to choose
            executor.run()

    bursts(0)
    assert [d.after for d in decisions] == [[["O1"], ["O2"]]]
    one.keeps = 4  # a fifth less: within the drift that is ignored
    bursts(400)
    assert len(decisions) == 1
    one.keeps = 1
    bursts(800)
    assert len(decisions) == 1  # statistics moved and priorities with them, but not the order
    one.capacity, executor.tasks[0].quantum = 1, 1
    executor.tasks[1].quantum = 10
    two = executor.tasks[1].operator
    assert isinstance(two, Worker)
    two.capacity, one.keeps = 10, 10
    for t in range(1200, 1600, 2):
        source.push(elements(t, 1), t)
        source.push(elements(t + 1, 1), t + 1)
        executor.run()
    assert decisions[-1].before == [["O1"], ["O2"]]
    assert decisions[-1].after == [["O2"], ["O1"]]
    assert len(decisions) == 2


class Union(Prompt):
    """Two inputs, all changes by time; remembers what it was given."""

    def __init__(self, name: str = "union") -> None:
        self.name = name
        self.calls: list[tuple[list[int], int]] = []

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        self.calls.append(([len(d) for d in deltas], frontier))
        return Delta.merge(deltas)


class Pass(Prompt):
    def __init__(self, name: str) -> None:
        self.name = name

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        return deltas[0]


def test_several_inputs_run_up_to_their_common_frontier() -> None:
    left, right, out = Queue(SCHEMA), Queue(SCHEMA), Queue(SCHEMA)
    union = Union()
    executor = Executor([Task(union, [left, right], [out])], ManualClock())
    left.push(elements(1, 2), 1)
    left.push(elements(5, 3), 7)
    assert executor.run() == 0  # nothing is known of the right input
    right.push(elements(2, 1), 4)
    assert executor.run() == 1
    assert (union.calls, out.frontier, left.size) == ([([2, 1], 4)], 4, 3)
    right.push(Delta.empty(SCHEMA), 6)  # progress without changes is progress
    executor.run()
    assert union.calls[-1] == ([3, 0], 6)
    assert out.pop_all().time.tolist() == [1, 1, 2, 5, 5, 5]
    right.push(Delta.empty(SCHEMA), 9)
    executor.run()
    assert union.calls[-1] == ([0, 0], 7)
    assert executor.run() == 0


def test_a_diamond_every_consumer_gets_every_change() -> None:
    source, a, b, a2, b2, out = (Queue(SCHEMA) for _ in range(6))
    tasks = [
        Task(Pass("split"), [source], [a, b]),
        Task(Pass("left"), [a], [a2]),
        Task(Pass("right"), [b], [b2]),
        Task(Union(), [a2, b2], [out]),
    ]
    for scheduler in (s.make for s in strategies("scheduler").values()):
        executor = Executor(tasks, ManualClock(), scheduler())
        begin = max(out.frontier, 0)
        source.push(elements(begin + 1, 3), begin + 2)
        assert executor.run() == 4
        assert out.frontier == begin + 2
        assert len(out.pop_all()) == 6
        assert executor.queued == 0


def test_plan_order_is_checked_and_errors_name_the_operator() -> None:
    class Broken(Pass):
        def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
            raise ZeroDivisionError("division by zero")

    a, b, c = Queue(SCHEMA), Queue(SCHEMA), Queue(SCHEMA)
    first, second = Task(Pass("first"), [a], [b]), Task(Broken("second"), [b], [c])
    with pytest.raises(ValueError, match="'second' reads from 'first'"):
        Executor([second, first], ManualClock())
    executor = Executor([first, second], ManualClock())
    a.push(elements(1), 3)
    with pytest.raises(ZeroDivisionError) as caught:
        executor.run()
    assert "'second'" in caught.value.__notes__[0]


def test_queues_refuse_changes_of_closed_instants() -> None:
    q = Queue(SCHEMA)
    q.push(elements(1), 5)
    with pytest.raises(ValueError, match="outside the instants"):
        q.push(elements(5), 6)
    with pytest.raises(ValueError, match="outside the instants"):
        q.push(elements(9), 8)
    with pytest.raises(ValueError, match="cannot go back"):
        q.push(Delta.empty(SCHEMA), 4)
    for t in range(6, 1000):
        q.push(Delta.empty(SCHEMA), t)
    assert len(q._entries) == 2  # a quiet source does not fill a queue
    assert len(q.pop(3)) == N
    assert (len(q.pop_all()), q.size, q.frontier) == (0, 0, 999)


def test_a_quantum_never_divides_an_instant() -> None:
    source, out = Queue(SCHEMA), Queue(SCHEMA)
    union = Union("one")
    executor = Executor([Task(union, [source], [out])], ManualClock(), most=4)
    parts = [elements(1, 3), elements(3, 2), elements(4, 9), elements(8, 1)]
    source.push(Delta.concat(parts), 10)
    executor.run()
    assert union.calls == [([3], 2), ([2], 3), ([9], 4), ([1], 10)]


def test_a_snapshot_in_the_middle_of_a_burst() -> None:
    def diamond() -> tuple[Executor, Queue, Queue]:
        source, a, b, out = (Queue(SCHEMA) for _ in range(4))
        tasks = [Task(Pass("split"), [source], [a, b]), Task(Union(), [a, b], [out])]
        return Executor(tasks, ManualClock(), most=3), source, out

    executor, source, out = diamond()
    for t in range(5):
        source.push(elements(t, 3), t)
    executor.run(steps=4)
    begun = len(out.pop_all())
    again, source, rest = diamond()
    again.load(executor.state())
    rest.load(out.state())
    assert again.queued == executor.queued > 0
    source.push(elements(5, 3), 6)
    again.run()
    assert begun + len(rest.pop_all()) == 6 * 3 * 2
    assert (rest.frontier, again.queued) == (6, 0)


@st.composite
def pipelines(draw: st.DrawFn) -> tuple[int, list[list[int]], list[tuple[int, int, int]]]:
    """Operators with one or two inputs among the earlier outputs; pushes (source, number of instants, count)."""
    sources = draw(st.integers(1, 2))
    nodes: list[list[int]] = []
    for i in range(draw(st.integers(1, 5))):
        known = list(range(sources + i))
        nodes.append(draw(st.lists(st.sampled_from(known), min_size=1, max_size=2)))
    pushes = draw(st.lists(st.tuples(st.integers(0, sources - 1), st.integers(1, 4), st.integers(0, 5)), max_size=20))
    return sources, nodes, pushes


@settings(max_examples=150, deadline=None)
@given(
    pipelines(),
    st.sampled_from(sorted(strategies("scheduler"))),
    st.one_of(st.none(), st.integers(1, 6)),
    st.integers(1, 3),
)
def test_no_scheduler_and_no_quantum_changes_an_answer(
    case: tuple[int, list[list[int]], list[tuple[int, int, int]]], name: str, most: int | None, steps: int
) -> None:
    sources, nodes, pushes = case

    def answer(scheduler: Scheduler, most: int | None, steps: int | None) -> list[list[tuple[int, int]]]:
        feeds: list[list[Queue]] = [[] for _ in range(sources + len(nodes))]
        tasks, results = [], []
        inputs_of = []
        for node in nodes:
            inputs = []
            for i in node:
                q = Queue(SCHEMA)
                feeds[i].append(q)
                inputs.append(q)
            inputs_of.append(inputs)
        for i, inputs in enumerate(inputs_of):
            result = Queue(SCHEMA)
            results.append(result)
            outputs = [*feeds[sources + i], result]
            tasks.append(Task(Union(f"{i}"), inputs, outputs))
        executor = Executor(tasks, ManualClock(), scheduler, most=most)
        reached = [0] * sources
        for number, (s, instants, count) in enumerate(pushes):
            begin, reached[s] = reached[s], reached[s] + instants
            times = np.sort(np.arange(count) % instants) + begin + 1
            delta = Delta(times.astype(np.int64), {"a": pa.array([number * 10 + j for j in range(count)], pa.int64())})
            for q in feeds[s]:
                q.push(delta, reached[s])
            executor.run(steps=steps)
        executor.run()
        for t in tasks:
            assert t.frontier == min(q.frontier for q in t.inputs) or t.frontier == BEGINNING
        out = []
        for q in results:
            delta = q.pop_all()
            out.append(sorted(zip(delta.time.tolist(), delta.columns["a"].to_pylist(), strict=True)))
        return out

    assert answer(strategies("scheduler")[name].make(), most, steps) == answer(Fifo(), None, None)
