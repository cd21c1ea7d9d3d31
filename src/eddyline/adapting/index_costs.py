"""What the operations of an index cost on this machine: measured once in a process, when the kernels are compiled.

Small runs are timed: insertions without an index, with one and with hashes; searches of two indexes of the same rows,
one with many buckets and one with few, and searches without an index that compare all rows; then calls with hardly any
rows, for what a search of one index more and a new index cost in themselves. Of three repetitions the quickest counts.

Both indexes are searched as those of a join: chains have random lengths and no search comes twice, so that a processor
often guesses wrongly whether a bucket is empty and which row is the last. To visit buckets that are all empty, to walk
along one long chain, or to repeat the same searches takes a third of the time.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eddyline.adaptive.indexes.cost import TYPICAL_COSTS, UnitCosts
from eddyline.core.delta import Int64s
from eddyline.core.time import Clock, SystemClock
from eddyline.kernels import bit_address
from eddyline.kernels.value_search import SEARCH_BITS_BY_VALUE
from eddyline.synopses.index_maps import BitAddress
from eddyline.synopses.state_module import Search, StateModule, Weights

ROWS, REQUESTS = 2_048, 64  # of each run: milliseconds in all
MANY_BITS, FEW_BITS = (6, 6, 0, 0), (3, 3, 0, 0)  # of the first attribute, by which is searched, and of the second
REPETITIONS = 3
FEW, CALLS = 4, 16  # rows of an index that hardly cost anything, and calls that are timed together

_measured: UnitCosts | None = None


def unit_costs(clock: Clock | None = None) -> UnitCosts:
    """The costs in nanoseconds; typical ones while the kernels are not compiled."""
    global _measured
    if _measured is None:
        used = (SEARCH_BITS_BY_VALUE[0], bit_address.INSERT_BITS[0], bit_address.search_all)
        if not all(getattr(k, "overloads", True) for k in used):
            return TYPICAL_COSTS
        _measured = measure(clock or SystemClock())
    return _measured


def measure(clock: Clock) -> UnitCosts:
    """Time each operation."""
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 1 << 40, (ROWS, 4))
    times = np.zeros(ROWS, np.int64)

    def insert(*bits: tuple[int, ...]) -> Callable[[], None]:
        def run() -> None:
            StateModule(4, ROWS, tuple(map(BitAddress, bits))).insert(codes, times, times + 1)

        return run

    none, one, all_bits = (), (0, 0, 0, 0), (2, 2, 2, 2)
    bare, plain, hashed = (_least(clock, insert(*indexes)) for indexes in (none, (one,), (all_bits,)))
    hash_cost, insert_cost = max(0.5, (hashed - plain) / (4 * ROWS)), max(0.5, (plain - bare) / ROWS)
    visit, compare = _two_unknowns(*(_searched(clock, bits, codes, times) for bits in (MANY_BITS, FEW_BITS)))
    asked = _by_first(codes[:REQUESTS])
    plain_rows = StateModule(4, ROWS, ())
    plain_rows.insert(codes, times, times + 1)
    scanned = _least(clock, lambda: plain_rows.search(asked)) / (REQUESTS * ROWS)
    call, build = _fixed_costs(clock, codes, times)
    return UnitCosts(hash_cost, max(0.2, compare), max(0.2, visit), insert_cost, 0.5, max(0.05, scanned), call, build)


def _by_first(rows: Int64s) -> Search:
    """Searches by the first attribute for the values of these rows."""
    at, values = np.zeros(len(rows), np.int64), rows[:, :1].copy()
    return Search(np.array([0]), values, values, at, at, frozenset({0}))


def _searched(clock: Clock, bits: tuple[int, ...], codes: Int64s, times: Int64s) -> tuple[float, float, float]:
    """Bucket visits and comparisons of searches for a third of the rows, and the nanoseconds that they take."""
    module = StateModule(4, ROWS, (BitAddress(bits),))
    module.insert(codes, times, times + 1)
    module.weights = Weights(visit=0.0, compare=0.0)  # whatever it costs: the index is used
    others = iter([_by_first(codes[part::REPETITIONS]) for part in range(REPETITIONS)])
    least = _least(clock, lambda: module.search(next(others)))
    _, visits, comparisons, _ = (module.counts / REPETITIONS).tolist()
    return visits, comparisons, least


def _two_unknowns(many: tuple[float, float, float], few: tuple[float, float, float]) -> tuple[float, float]:
    """The cost of a visit and that of a comparison, from the visits, comparisons and times of two runs.

    >>> _two_unknowns((4096, 2048, 4096 * 3.0 + 2048 * 5.0), (512, 2048, 512 * 3.0 + 2048 * 5.0))
    (3.0, 5.0)
    """
    (visits, compared, time), (fewer, others, less) = many, few
    visit = max(0.0, (time * others - less * compared) / max(1.0, visits * others - fewer * compared))
    return visit, max(0.0, (less - fewer * visit) / max(1.0, others))


def _fixed_costs(clock: Clock, codes: Int64s, times: Int64s) -> tuple[float, float]:
    """What it costs to search one index more for a batch, and to index stored rows anew, both beside their rows."""
    one, two = (StateModule(4, FEW, (BitAddress((1, 0, 0, 0)),)) for _ in range(2))
    for module in (one, two):
        module.insert(codes[:FEW], times[:FEW], times[:FEW] + 1)
    two.spec = (BitAddress((0, 1, 0, 0)),)
    for module in (one, two):
        module.insert(codes[FEW : 2 * FEW], times[:FEW], times[:FEW] + 1)
    at = np.zeros(1, np.int64)
    asked = Search(np.arange(2), codes[-1:, :2].copy(), codes[-1:, :2].copy(), at, at, frozenset({0, 1}))

    def search(module: StateModule) -> Callable[[], None]:
        def run() -> None:
            for _ in range(CALLS):
                module.search(asked)

        return run

    def rebuild() -> None:
        for _ in range(CALLS):
            one.migrate([0, 1], one.spec)

    single, double, rebuilt = (_least(clock, run) / CALLS for run in (search(one), search(two), rebuild))
    return max(100.0, double - single), max(100.0, rebuilt)


def _least(clock: Clock, run: Callable[[], object]) -> float:
    """Nanoseconds of the quickest of the repetitions."""
    times = []
    for _ in range(REPETITIONS):
        began = clock.nanoseconds()
        run()
        times.append(clock.nanoseconds() - began)
    return float(min(times))
