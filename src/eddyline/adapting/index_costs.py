"""What the operations of an index cost on this machine: measured once in a process, when the kernels are compiled.

Small runs are timed, each dominated by one operation: insertions without an index, with one and with hashes;
searches that visit empty buckets, searches that compare the rows of one long chain, and searches without an index that
compare all rows; then calls with hardly any rows, for what a search of one index more and a new index cost in
themselves. Of three repetitions the quickest counts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eddyline.adaptive.indexes.cost import TYPICAL_COSTS, UnitCosts
from eddyline.core.delta import Int64s
from eddyline.core.time import Clock, SystemClock
from eddyline.kernels import bit_address
from eddyline.synopses.index_maps import BitAddress
from eddyline.synopses.state_module import Search, StateModule, Weights

ROWS, REQUESTS = 2_048, 64  # of each run: milliseconds in all
FEW, CALLS = 4, 16  # rows of an index that hardly cost anything, and calls that are timed together

_measured: UnitCosts | None = None


def unit_costs(clock: Clock | None = None) -> UnitCosts:
    """The costs in nanoseconds; typical ones while the kernels are not compiled."""
    global _measured
    if _measured is None:
        used = (bit_address.SEARCH_BITS[0], bit_address.INSERT_BITS[0], bit_address.search_all)
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
    empty, chain = StateModule(4, ROWS, (BitAddress((12, 0, 0, 0)),)), StateModule(4, ROWS, (BitAddress((0, 0, 0, 0)),))
    chain.insert(codes, times, times + 1)
    at = np.zeros(REQUESTS, np.int64)
    asked = Search(np.array([1]), codes[:REQUESTS, 1:2].copy(), codes[:REQUESTS, 1:2].copy(), at, at, frozenset({1}))
    empty.insert(codes[:1], times[:1], times[:1] + 1)
    empty.weights = chain.weights = Weights(visit=0.0, compare=0.0)  # whatever it costs: the index is used
    visits = _least(clock, lambda: empty.search(asked)) / (REQUESTS << 12)
    compared = _least(clock, lambda: chain.search(asked)) / (REQUESTS * ROWS)
    plain_rows = StateModule(4, ROWS, ())
    plain_rows.insert(codes, times, times + 1)
    scanned = _least(clock, lambda: plain_rows.search(asked)) / (REQUESTS * ROWS)
    call, build = _fixed_costs(clock, codes, times)
    return UnitCosts(hash_cost, max(0.2, compared), max(0.2, visits), insert_cost, 0.5, max(0.05, scanned), call, build)


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
    """Nanoseconds of the quickest of three runs."""
    times = []
    for _ in range(3):
        began = clock.nanoseconds()
        run()
        times.append(clock.nanoseconds() - began)
    return float(min(times))
