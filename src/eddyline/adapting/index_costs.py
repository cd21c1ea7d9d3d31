"""What the operations of an index cost on this machine: measured once in a process, when the kernels are compiled.

Small runs are timed: insertions without an index, with one and several; searches of two indexes of the same rows,
one with many buckets and one with few, and searches without an index that compare all rows; then calls with hardly any
rows, for what a search of one index more, a batch of arriving rows and a new index cost in themselves. Of some
repetitions the quickest counts: others were interrupted.

Both indexes are searched as those of a join: chains have random lengths and no search comes twice, so that a processor
often guesses wrongly whether a bucket is empty and which row is the last. To visit buckets that are all empty, to walk
along one long chain, or to repeat the same searches takes a third of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import cycle

import numpy as np

from eddyline.adaptive.indexes.cost import TYPICAL_COSTS, UnitCosts
from eddyline.core.delta import Int64s
from eddyline.core.time import Clock, ProcessorClock
from eddyline.kernels import bit_address
from eddyline.kernels.compile import is_compiled, load_compiled
from eddyline.kernels.value_search import SEARCH_BITS_BY_VALUE, SEARCH_HASHED_BY_VALUE
from eddyline.synopses.index_maps import BitAddress, Hashed, IndexSpec
from eddyline.synopses.state_module import Search, StateModule, Weights

ROWS, REQUESTS = 2_048, 64  # of each run: milliseconds in all
MANY_BITS, FEW_BITS = (6, 6, 0, 0), (3, 3, 0, 0)  # of the first attribute, by which is searched, and of the second
REPETITIONS = 5
FEW_ROWS, BATCH, CALLS = 4, 256, 16  # rows of a batch that hardly cost anything, or much; calls that are timed together
VALUES = 16  # of an attribute that repeats
ALIVE = 512  # rows of a state whose rows come and leave
HASHES = 4  # indices whose insertion is compared with that of one

_measured: UnitCosts | None = None


def unit_costs(clock: Clock | None = None) -> UnitCosts:
    """The costs in nanoseconds; typical ones while the kernels are not compiled. A join uses some of them only: as soon
    as it searches with one that is compiled, the others are loaded where the cache has them."""
    global _measured
    if _measured is None:
        searches = (SEARCH_BITS_BY_VALUE[0], SEARCH_HASHED_BY_VALUE[0], bit_address.search_all)
        insertions = (bit_address.INSERT_BITS[0], bit_address.INSERT_HASHED[0], bit_address.CLEAR_HEADS[0])
        if not any(map(is_compiled, searches)) or not all(map(load_compiled, (*searches, *insertions))):
            return TYPICAL_COSTS
        _measured = measure(clock or ProcessorClock())
    return _measured


def measure(clock: Clock) -> UnitCosts:
    """Time each operation."""
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 1 << 40, (ROWS, 4))
    times = np.zeros(ROWS, np.int64)
    asked, plain_rows = _by_first(codes[:REQUESTS]), _stored((), codes, times)
    repeating, repeated = _stored((), codes % VALUES, times), _by_first(codes[:REQUESTS] % VALUES)
    hits = REQUESTS * ROWS // VALUES
    many, few = (_Searches(bits, codes, times) for bits in (MANY_BITS, FEW_BITS))
    single, double = _one_index(codes, times), _two_indexes(codes, times)
    little = _by_first(codes[FEW_ROWS : FEW_ROWS + 1])
    hashed, two, all_bits = Hashed((0,)), BitAddress((4, 4, 0, 0)), BitAddress((2, 2, 2, 2))
    more = tuple(Hashed((a,)) for a in range(HASHES))
    runs: dict[str, Callable[[], object]] = {
        "many": many.next,
        "few": few.next,
        "scan": lambda: plain_rows.search(asked),
        "hits": lambda: repeating.search(repeated, room=2 * hits),
        "single": _often(lambda: single.search(little)),
        "double": _often(lambda: double.search(little)),
        "rebuild": _often(lambda: single.migrate([0, 1], single.spec)),
        "few rows": _often(_batch((), codes, FEW_ROWS)),
        "few rows hashed": _often(_batch((hashed,), codes, FEW_ROWS)),
        "few rows hashed more": _often(_batch(more, codes, FEW_ROWS)),
        "rows": _often(_batch((), codes, BATCH)),
        "rows hashed": _often(_batch((hashed,), codes, BATCH)),
        "rows by two": _often(_batch((two,), codes, BATCH)),
        "rows by all": _often(_batch((all_bits,), codes, BATCH)),
    }
    least = _least(clock, runs)
    each = {name: least[name] / CALLS for name in runs if name not in ("many", "few", "scan", "hits")}
    visit, compare = _two_unknowns((*many.counts, least["many"]), (*few.counts, least["few"]))
    hash_cost = max(0.5, (each["rows by all"] - each["rows by two"]) / (2 * BATCH))
    one_few, one_many = each["few rows hashed"] - each["few rows"], each["rows hashed"] - each["rows"]
    a_row = max(1.0, (one_many - one_few) / (BATCH - FEW_ROWS))  # in a hash index on one attribute
    further = (each["few rows hashed more"] - each["few rows hashed"]) / (HASHES - 1)
    return UnitCosts(
        hash_cost,
        compare=max(0.2, compare),
        visit=max(0.2, visit),
        insert=max(0.5, a_row - hash_cost),
        delete=0.5,
        scan=max(0.05, least["scan"] / (REQUESTS * ROWS)),
        call=max(100.0, each["double"] - each["single"]),
        build=max(100.0, each["rebuild"]),
        put=max(100.0, one_few - FEW_ROWS * a_row),
        put_more=max(10.0, further - FEW_ROWS * a_row),
        hit=max(0.0, (least["hits"] - least["scan"]) / hits),
    )


def _least(clock: Clock, runs: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Nanoseconds of the quickest of the repetitions of each run. Runs take turns: what interrupts one repetition of a
    run on a busy machine has gone by when the next one comes."""
    least = dict.fromkeys(runs, float("inf"))
    for _ in range(REPETITIONS):
        for name, run in runs.items():
            began = clock.nanoseconds()
            run()
            least[name] = min(least[name], float(clock.nanoseconds() - began))
    return least


def _often(run: Callable[[], object]) -> Callable[[], None]:
    """As many calls of a run as are timed together."""

    def calls() -> None:
        for _ in range(CALLS):
            run()

    return calls


def _by_first(rows: Int64s) -> Search:
    """Searches by the first attribute for the values of these rows."""
    at, values = np.zeros(len(rows), np.int64), rows[:, :1].copy()
    return Search(np.array([0]), values, values, at, at, frozenset({0}))


def _stored(spec: IndexSpec, codes: Int64s, times: Int64s) -> StateModule:
    """A state with rows."""
    module = StateModule(4, ROWS, spec)
    module.insert(codes, times, times + 1)
    return module


class _Searches:
    """Searches for all rows, a part of them in each repetition, by the bits of an index."""

    def __init__(self, bits: tuple[int, ...], codes: Int64s, times: Int64s) -> None:
        self.module = _stored((BitAddress(bits),), codes, times)
        self.module.weights = Weights(visit=0.0, compare=0.0)  # whatever it costs: the index is used
        self.parts = iter([_by_first(codes[part::REPETITIONS]) for part in range(REPETITIONS)])

    def next(self) -> None:
        self.module.search(next(self.parts))

    @property
    def counts(self) -> tuple[float, float]:
        """Bucket visits and comparisons of a repetition."""
        _, visits, comparisons, _ = (self.module.counts / REPETITIONS).tolist()
        return visits, comparisons


def _two_unknowns(many: tuple[float, float, float], few: tuple[float, float, float]) -> tuple[float, float]:
    """The cost of a visit and that of a comparison, from the visits, comparisons and times of two runs.

    >>> _two_unknowns((4096, 2048, 4096 * 3.0 + 2048 * 5.0), (512, 2048, 512 * 3.0 + 2048 * 5.0))
    (3.0, 5.0)
    """
    (visits, compared, time), (fewer, others, less) = many, few
    visit = max(0.0, (time * others - less * compared) / max(1.0, visits * others - fewer * compared))
    return visit, max(0.0, (less - fewer * visit) / max(1.0, others))


def _one_index(codes: Int64s, times: Int64s) -> StateModule:
    """Few rows in two partitions with one index: a search of it costs a call."""
    module = StateModule(4, FEW_ROWS, (BitAddress((1, 0, 0, 0)),))
    module.insert(codes[: 2 * FEW_ROWS], times[: 2 * FEW_ROWS], times[: 2 * FEW_ROWS] + 1)
    return module


def _two_indexes(codes: Int64s, times: Int64s) -> StateModule:
    """The same with an index for each partition."""
    module = StateModule(4, FEW_ROWS, (BitAddress((1, 0, 0, 0)),))
    module.insert(codes[:FEW_ROWS], times[:FEW_ROWS], times[:FEW_ROWS] + 1)
    module.spec = (BitAddress((0, 1, 0, 0)),)
    module.insert(codes[FEW_ROWS : 2 * FEW_ROWS], times[:FEW_ROWS], times[:FEW_ROWS] + 1)
    return module


def _batch(spec: IndexSpec, codes: Int64s, rows: int) -> Callable[[], None]:
    """A batch of so many rows comes to a state with some indexes, other rows each time, and as many leave. The state is
    there already: to allocate it takes longer on some machines than to fill it."""
    at, batches = np.zeros(rows, np.int64), cycle(range(0, len(codes) - rows + 1, rows))
    module = StateModule(4, ROWS, spec)
    module.insert(codes[:ALIVE], np.zeros(ALIVE, np.int64), np.zeros(ALIVE, np.int64))

    def run() -> None:
        first = next(batches)
        module.insert(codes[first : first + rows], at, at)
        module.drop(module.end - ALIVE)

    return run
