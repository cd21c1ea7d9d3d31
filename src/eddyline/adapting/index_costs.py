"""What the operations of an index cost on this machine: measured once in a process, when the kernels are compiled.

Four small runs are timed, each dominated by one operation: insertions with and without hashed attributes, searches
that visit empty buckets, searches that compare rows of one long chain. Of three repetitions the quickest counts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from eddyline.adaptive.indexes.cost import UnitCosts
from eddyline.core.time import Clock, SystemClock
from eddyline.kernels import bit_address
from eddyline.synopses.index_maps import BitAddress
from eddyline.synopses.state_module import Search, StateModule

TYPICAL = UnitCosts(hash=4.0, compare=3.0, visit=4.0, insert=6.0, delete=1.0)  # nanoseconds, where nothing is measured
ROWS, REQUESTS = 2_048, 64  # of each run: milliseconds in all

_measured: UnitCosts | None = None


def unit_costs(clock: Clock | None = None) -> UnitCosts:
    """The costs in nanoseconds; ``TYPICAL`` ones while the kernels are not compiled."""
    global _measured
    if _measured is None:
        if not all(getattr(k, "overloads", True) for k in (bit_address.SEARCH_BITS[0], bit_address.INSERT_BITS[0])):
            return TYPICAL
        _measured = measure(clock or SystemClock())
    return _measured


def measure(clock: Clock) -> UnitCosts:
    """Time each operation."""
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 1 << 40, (ROWS, 4))
    times = np.zeros(ROWS, np.int64)

    def insert(bits: tuple[int, ...]) -> Callable[[], None]:
        def run() -> None:
            StateModule(4, ROWS, (BitAddress(bits),)).insert(codes, times, times + 1)

        return run

    plain, hashed = _least(clock, insert((0, 0, 0, 0))), _least(clock, insert((2, 2, 2, 2)))
    hash_cost = max(0.5, (hashed - plain) / (4 * ROWS))
    empty, chain = StateModule(4, ROWS, (BitAddress((12, 0, 0, 0)),)), StateModule(4, ROWS, (BitAddress((0, 0, 0, 0)),))
    chain.insert(codes, times, times + 1)
    at = np.zeros(REQUESTS, np.int64)
    asked = Search(np.array([1]), codes[:REQUESTS, 1:2].copy(), codes[:REQUESTS, 1:2].copy(), at, at, frozenset({1}))
    empty.insert(codes[:1], times[:1], times[:1] + 1)
    visits = _least(clock, lambda: empty.search(asked)) / (REQUESTS << 12)
    compared = _least(clock, lambda: chain.search(asked)) / (REQUESTS * ROWS)
    return UnitCosts(hash_cost, max(0.2, compared), max(0.2, visits), max(0.5, plain / ROWS), 0.5)


def _least(clock: Clock, run: Callable[[], object]) -> float:
    """Nanoseconds of the quickest of three runs."""
    times = []
    for _ in range(3):
        began = clock.nanoseconds()
        run()
        times.append(clock.nanoseconds() - began)
    return float(min(times))
