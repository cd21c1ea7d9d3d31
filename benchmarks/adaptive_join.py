"""Joins that re-order and cache themselves, against plans that stay.

- *Nothing to gain*: the three-way join of uniform data. Adapting is compared with the same kernel under the written
  order and without caches, in pairs: both get the same piece of the data, one after the other, before the next piece
  comes. Whole runs one after the other would differ by a tenth for what neighbours do to memory and caches meanwhile,
  whoever runs: three times what is to be measured.
- *Skewed*: the join of ``skewed_star``, whose best order changes with each phase. Fixed orders are the orders in which
  one can write the streams. The accesses of all of them are counted over a tenth of the data; those that are the best
  or the worst of a phase or of the whole are then timed beside adapting, which starts from the worst of all: each piece
  of the data goes to all of them in turn before the next piece comes, several times over, and by piece the fastest
  counts. One phase of one plan took from 0.63 to 1.09 seconds when whole runs came one after the other.
  Memory that is given back stays with the process meanwhile: to get it again from a virtual machine's host can take
  longer than a third of a phase, whichever plan happens to ask for it.
"""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, permutations
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import skewed_star as skewed
from benchmarks.harness import Limit, Options, Report
from benchmarks.interval import interval
from benchmarks.three_way import EVENTS, QUERY

PHASE, SECONDS = 800_000, 400  # elements of R a phase; the whole lasts so long
ROUNDS = 5  # of which the fastest counts, by piece and plan: the best of many plans would else be the luckiest
PIECES = 20  # of a phase, in which it arrives
PAIRED = 32  # pieces of the join where nothing is to be gained
Plan = tuple[str, Mapping[str, Any]]  # the order in which streams are written, and the query's options
STAYS = {"joins": "static", "caches": "none"}
ADAPTIVE = "adaptive"
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of malloc.h


class Adaptive:
    name = "join-adaptive"
    title = (
        "joins that re-order and cache themselves: what it costs where nothing helps, what it gains where data drift"
    )

    def run(self, options: Options) -> Report:
        report = Report(self.name, self.title)
        ratios = paired(options.scaled(EVENTS), options.scaled(600), 3 if options.quick else 31)
        low, high = interval(ratios)
        report.lines.append(f"  nothing to gain: {median(ratios):.3f} × the plan that stays [{low:.3f}, {high:.3f}]")
        report.limits.append(Limit("time where nothing can be gained", median(ratios), 1.03))
        report.details["nothing"] = ratios
        self._skewed(options, report)
        return report

    def _skewed(self, options: Options, report: Report) -> None:
        keep_memory()
        small, data = (skewed_data(options.scaled(n)) for n in (PHASE // 10, PHASE))
        orders = ["".join(o) for o in permutations(skewed.OTHERS)]
        counted = {o: r.accesses for o, r in together(small, {o: (o, STAYS) for o in orders}).items()}
        chosen, worst = extremes(counted)
        plans: dict[str, Plan] = {**{o: (o, STAYS) for o in chosen}, ADAPTIVE: (worst, {})}
        rounds = [together(data, plans, turn) for turn in range(1 if options.quick else ROUNDS)]
        runs = {o: [r[o] for r in rounds] for o in plans}
        answers = {r.answer for mine in runs.values() for r in mine}
        if len(answers) != 1:
            raise AssertionError(f"different answers: {answers}")
        ((results, _),) = answers
        events = sum(t.num_rows for t in data.values())
        report.lines.append(
            f"  skewed, {events:,} events, {results:,} results: seconds (accesses in millions) by phase"
        )
        for order, mine in runs.items():
            cells = [f"{fastest(mine, p):6.3f} ({usual(mine, p) / 1e6:5.2f})" for p in range(skewed.PHASES)]
            report.lines.append(f"    {order:8s} {'  '.join(cells)}   in all {fastest(mine):6.3f}")
        best = [min(chosen, key=lambda o: fastest(runs[o], p)) for p in range(skewed.PHASES)]
        behind = [fastest(runs[ADAPTIVE], p) / fastest(runs[o], p) for p, o in enumerate(best)]
        more = [usual(runs[ADAPTIVE], p) / min(usual(runs[o], p) for o in chosen) for p in range(skewed.PHASES)]
        slower = {o: median(b.total / a.total for a, b in zip(runs[ADAPTIVE], runs[o], strict=True)) for o in chosen}
        told = ", ".join(f"{b:.2f} × {o} ({m:.2f} × accesses)" for b, o, m in zip(behind, best, more, strict=True))
        report.lines.append(f"    adaptive against the best of each phase: {told}")
        slowest, quickest = (pick(slower, key=slower.__getitem__) for pick in (max, min))
        report.lines.append(f"    fixed orders over all phases: {slower[quickest]:.2f} × adaptive's time at best, "
                            f"{quickest}; {slower[slowest]:.2f} × at worst, {slowest}")  # fmt: skip
        report.limits += [
            Limit("skewed: throughput against the worst fixed order", slower[slowest], 2.0, "at least"),
            Limit("skewed: time against the best fixed order of a phase, at worst", max(behind), 1.10),
        ]
        report.details["skewed"] = {
            "seconds": {o: [r.seconds for r in mine] for o, mine in runs.items()},
            "accesses": {o: [r.accesses for r in mine] for o, mine in runs.items()},
            "accesses_of_a_tenth": counted,
            "behind": behind,
        }


def extremes(counted: Mapping[str, Sequence[int]]) -> tuple[list[str], str]:
    """The orders with fewest and most accesses, in a phase and in all; and the one with most in all. Of orders that do
    the same one stands for all.

    >>> extremes({"ST": [1, 5], "TS": [4, 1], "XY": [4, 1]})
    (['ST', 'TS'], 'ST')
    """
    found = set()
    for pick in (min, max):
        found.add(pick(counted, key=lambda o: sum(counted[o])))
        for p in range(len(next(iter(counted.values())))):
            found.add(pick(counted, key=lambda o: counted[o][p]))
    return sorted(found), max(counted, key=lambda o: sum(counted[o]))


# ── nothing to gain ───────────────────────────────────────────────────────────────────────────────────────────────


def paired(events: int, seconds: int, rounds: int) -> list[float]:
    """Time of adapting over that of staying, by round; the first round warms up."""
    from eddyline.datasets.joins import three_way

    pieces = cut(three_way(events, seconds), 0, seconds * 1_000_000, PAIRED)
    ratios = []
    for n in range(rounds + 1):
        took = {False: 0.0, True: 0.0}
        sides = [(stays, *_started(pieces[0], STAYS if stays else {})) for stays in (n % 2 == 0, n % 2 == 1)]
        gc.collect()
        for at, piece in enumerate(pieces):
            for stays, session, query in sides if at % 2 else reversed(sides):
                start = time.perf_counter()
                for name, table in piece.items():
                    session.push(name, table)
                query.fetch()
                took[stays] += time.perf_counter() - start
        ratios.append(took[False] / took[True])
    return ratios[1:]


def _started(like: Mapping[str, pa.Table], options: Mapping[str, Any]) -> tuple[Any, Any]:
    import eddyline as ed

    session = ed.Session()
    for name, table in like.items():
        session.stream(name, schema=table.schema, timestamp="ts")
    return session, session.query(QUERY, **options)


def cut(data: Mapping[str, pa.Table], low: int, high: int, pieces: int) -> list[dict[str, pa.Table]]:
    """What comes from ``low`` to before ``high``, in pieces of equal time.

    >>> data = {"R": pa.table({"ts": pa.array([1, 4, 5], pa.int64())})}
    >>> [piece["R"]["ts"].to_pylist() for piece in cut(data, 0, 6, 2)]
    [[1], [4, 5]]
    """
    times = {n: t["ts"].combine_chunks().cast(pa.int64()).to_numpy() for n, t in data.items()}
    borders = [low + (high - low) * p // pieces for p in range(pieces + 1)]
    at = {n: np.searchsorted(t, borders).tolist() for n, t in times.items()}
    return [{n: t.slice(at[n][p], at[n][p + 1] - at[n][p]) for n, t in data.items()} for p in range(pieces)]


def keep_memory() -> None:
    """Have freed memory kept for the next who asks, where the C library is GNU's; for the rest of this process."""
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(M_MMAP_MAX, 0)
        library.mallopt(M_TRIM_THRESHOLD, -1)


# ── skewed ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Run:
    """Seconds by phase and piece, accesses by phase; the number of results and a hash of them all."""

    seconds: list[list[float]]
    accesses: list[int]
    answer: tuple[int, int]

    @property
    def total(self) -> float:
        return sum(map(sum, self.seconds))


def fastest(runs: Sequence[Run], phase: int | None = None) -> float:
    """Of each piece the fastest of all runs, added up.

    >>> fastest([Run([[1.0, 5.0]], [], (0, 0)), Run([[2.0, 3.0]], [], (0, 0))])
    4.0
    """
    if phase is None:
        return sum(fastest(runs, p) for p in range(len(runs[0].seconds)))
    return sum(map(min, zip(*(r.seconds[phase] for r in runs), strict=True)))


def usual(runs: Sequence[Run], phase: int) -> float:
    """Accesses of a phase, the median: looks may come at other times, and then so do new orders."""
    return median(r.accesses[phase] for r in runs)


@cache
def skewed_data(phase: int) -> Mapping[str, pa.Table]:
    return skewed.star(phase, SECONDS)


class _Contender:
    """A session with one plan."""

    def __init__(self, data: Mapping[str, pa.Table], plan: Plan) -> None:
        import eddyline as ed

        order, options = plan
        self.session = ed.Session()
        for name, table in data.items():
            self.session.stream(name, schema=table.schema, timestamp="ts")
        self.query = self.session.query(skewed.query(SECONDS, order), **options)
        operators = [n.operator for n in self.query.running.physical.nodes if n.operator is not None]
        self.join: Any = next(o for o in operators if o.name.startswith("mjoin"))
        self.found: list[pa.RecordBatch] = []
        self.seconds: list[list[float]] = []
        self.reached: list[int] = []  # accesses, by phase

    def push(self, piece: Mapping[str, pa.Table]) -> float:
        start = time.perf_counter()
        for name, table in piece.items():
            self.session.push(name, table)
        self.found += self.query.fetch()
        return time.perf_counter() - start

    @property
    def accesses(self) -> int:
        return int(self.join.arrays.counters[:2].sum())

    def finish(self) -> Run:
        self.session.finish()
        self.found += self.query.fetch()
        work = [b - a for a, b in pairwise(self.reached)]
        return Run(self.seconds, work, (sum(b.num_rows for b in self.found), hashed(self.found)))


def together(data: Mapping[str, pa.Table], plans: Mapping[str, Plan], turn: int = 0) -> dict[str, Run]:
    """Push all phases, piece by piece to all plans, the filling of the windows first, which is not counted. Who comes
    first changes with each piece and with ``turn``."""
    contenders = {name: _Contender(data, plan) for name, plan in plans.items()}
    length = SECONDS * 1_000_000 // skewed.PHASES
    filling = skewed.WINDOW * PIECES
    for at, piece in enumerate(cut(data, -skewed.WINDOW * length, 0, filling)):
        for c in contenders.values():
            c.push(piece)
            # R has not begun: without this promise all would wait for it, and be joined in the first piece of a phase.
            c.session.heartbeat("R", (at + 1 - filling) * length // PIECES)
    gc.collect()
    line = list(contenders.values())
    for c in line:
        c.reached.append(c.accesses)
    for phase in range(skewed.PHASES):
        for c in line:
            c.seconds.append([])
        for at, piece in enumerate(cut(data, phase * length, (phase + 1) * length, PIECES)):
            first = (turn + at) % len(line)
            for c in (*line[first:], *line[:first]):
                c.seconds[-1].append(c.push(piece))
        for c in line:
            c.reached.append(c.accesses)
    return {name: c.finish() for name, c in contenders.items()}


def hashed(batches: Sequence[pa.RecordBatch]) -> int:
    """The sum of the hashes of all rows.

    >>> rows = pa.record_batch({"x": [1.0, 2.0], "y": [3.0, 4.0]})
    >>> hashed([rows]) == hashed([rows.slice(1), rows.slice(0, 1)]), hashed([rows]) == hashed([rows.slice(1)] * 2)
    (True, False)
    """
    total = 0
    for batch in batches:
        row = np.zeros(batch.num_rows, np.uint64)
        for name in sorted(n for n in batch.schema.names if not n.startswith("_")):
            value = batch[name].to_numpy(zero_copy_only=False).astype(np.float64).view(np.uint64)
            row = (row ^ value) * np.uint64(0x9E3779B97F4A7C15)
            row ^= row >> np.uint64(29)
        total += int(row.sum(dtype=np.uint64))
    return total % (1 << 64)
