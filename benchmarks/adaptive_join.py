"""Joins that re-order and cache themselves, against plans that stay.

- *Nothing to gain*: the three-way join of uniform data. Adapting is compared with the same kernel under the written
  order and without caches, in pairs.
- *Skewed*: keys by Zipf's law, rates and selectivities that drift from phase to phase: one stream has next to no key in
  common with the others, so that to ask it first spares all the rest, and which one it is changes, as does the stream
  that comes four times as fast. Fixed orders are the orders in which one can write the streams; the best and the worst
  of each phase are found by counting accesses of all of them over a tenth of the data.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise, permutations
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.filters_equal import interval
from benchmarks.harness import Limit, Options, Report
from benchmarks.three_way import EVENTS, QUERY

PHASES = 4
SECOND = 1_000_000
STAYS = {"joins": "static", "caches": "none"}


class Adaptive:
    name = "join-adaptive"
    title = (
        "joins that re-order and cache themselves: what it costs where nothing helps, what it gains where data drift"
    )

    def run(self, options: Options) -> Report:
        report = Report(self.name, self.title)
        rounds = 3 if options.quick else 15
        ratios = paired(options.scaled(EVENTS), options.scaled(600), rounds)
        low, high = interval(ratios)
        report.lines.append(f"  nothing to gain: {median(ratios):.3f} × the plan that stays [{low:.3f}, {high:.3f}]")
        report.limits.append(Limit("time where nothing can be gained", median(ratios), 1.03))
        report.details["nothing"] = ratios
        for streams in ("RST", "RSTUV"):
            self._skewed(streams, options, report)
        return report

    def _skewed(self, streams: str, options: Options, report: Report) -> None:
        events = options.scaled(1_000_000 * PHASES)
        data = skewed(streams, events)
        small = skewed(streams, max(events // 10, 60_000))
        counted = {order: accesses(small, order) for order in map("".join, permutations(streams))}
        best = [min(counted, key=lambda o: counted[o][p]) for p in range(PHASES)]
        worst = [max(counted, key=lambda o: counted[o][p]) for p in range(PHASES)]
        whole = sorted(counted, key=lambda o: sum(counted[o]))
        chosen = sorted({*best, *worst, whole[0], whole[-1]})
        seconds: dict[str, list[list[float]]] = {o: [] for o in (*chosen, "adaptive")}
        results = set()
        for _ in range(1 if options.quick else 3):
            for order in chosen:
                took, found, _ = phases(data, order, STAYS)
                seconds[order].append(took)
                results.add(found)
            took, found, work = phases(data, streams, {})
            seconds["adaptive"].append(took)
            results.add(found)
        if len(results) != 1:
            raise AssertionError(f"different numbers of results: {results}")
        fastest = {o: [min(r[p] for r in runs) for p in range(PHASES)] for o, runs in seconds.items()}
        ours = fastest["adaptive"]
        title = f"{len(streams)} streams, {events:,} events, {results.pop():,} results"
        report.lines.append(f"  skewed, {title}: seconds by phase, then of its best and its worst order")
        for p in range(PHASES):
            report.lines.append(
                f"    {ours[p]:.3f}   {fastest[best[p]][p]:.3f} {best[p]}   {fastest[worst[p]][p]:.3f} {worst[p]}"
            )
        fixed = [o for o in fastest if o != "adaptive"]
        slowest, quickest = max(sum(fastest[o]) for o in fixed), min(sum(fastest[o]) for o in fixed)
        report.lines.append(f"    in all {sum(ours):.3f}; best fixed order {quickest:.3f}, worst {slowest:.3f}")
        behind = sum(ours) / sum(fastest[best[p]][p] for p in range(PHASES))
        n = len(streams)
        report.limits.append(Limit(f"{n} streams: time of the worst fixed order", slowest / sum(ours), 2.0, "at least"))
        report.limits.append(Limit(f"{n} streams: time against the best order of each phase", behind, 1.10))
        counts = [sum(c) for c in counted.values()]
        report.details[f"skewed_{n}"] = {
            "seconds": fastest, "accesses": {o: list(c) for o, c in counted.items()},
            "accesses_adaptive": work, "accesses_best_worst": [min(counts), max(counts)],
        }  # fmt: skip


def paired(events: int, seconds: int, rounds: int) -> list[float]:
    from eddyline.datasets.joins import three_way

    data = three_way(events, seconds)
    for options in ({}, STAYS):
        _join(data, QUERY, options)
    ratios = []
    for n in range(rounds):
        took = {}
        for options in ({}, STAYS) if n % 2 else (STAYS, {}):
            took[bool(options)] = _join(data, QUERY, options)
        ratios.append(took[False] / took[True])
    return ratios


def _join(data: Mapping[str, pa.Table], text: str, options: Mapping[str, Any]) -> float:
    import eddyline as ed

    session = ed.Session()
    for name, table in data.items():
        session.stream(name, table, timestamp="ts")
    query = session.query(text, **options)
    start = time.perf_counter()
    session.run()
    query.fetch()
    return time.perf_counter() - start


@cache
def skewed(streams: str, events: int, seed: int = 7, keys: int = 30_000) -> Mapping[str, pa.Table]:
    """Phases of 100 s. In each another stream is *rare*: of its keys 0.5 % are shared with the others; and another
    *bursts*, at four times the rate of the others."""
    rng = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, keys + 1) ** 0.3
    weights /= weights.sum()
    parts: dict[str, list[pa.Table]] = {s: [] for s in streams}
    for phase in range(PHASES):
        rare, fast = phase % len(streams), (phase + 1) % len(streams)
        for i, s in enumerate(streams):
            share = (4 if i == fast else 1) / (len(streams) + 3)
            n = int(events / PHASES * share)
            ts = np.sort(rng.integers(phase * 100 * SECOND, (phase + 1) * 100 * SECOND, n))
            shared = rng.choice(keys, n, p=weights)
            own = keys * (2 + i) + rng.choice(keys, n, p=weights)
            key = np.where(rng.random(n) < (0.005 if i == rare else 0.9), shared, own)
            columns = {"ts": pa.array(ts, pa.timestamp("us")), "key": key, "val": rng.integers(0, 1000, n)}
            parts[s].append(pa.table(columns))
    return {s: pa.concat_tables(p) for s, p in parts.items()}


def query(order: Sequence[str], events: int) -> str:
    """Windows hold some 32,000 rows in all, whatever the number of events: two of each shared key in most streams."""
    width = max(1, round(100 * SECOND * PHASES * 160_000 / events))
    chain = " AND ".join(f"{a}.key = {b}.key" for a, b in pairwise(order))
    windows = ", ".join(f"{s} [RANGE {width} MICROSECONDS]" for s in order)
    return f"SELECT Istream({', '.join(f'{s}.val AS {s.lower()}' for s in sorted(order))}) FROM {windows} WHERE {chain}"


def phases(
    data: Mapping[str, pa.Table], order: Sequence[str], options: Mapping[str, Any]
) -> tuple[list[float], int, list[int]]:
    """Seconds and accesses of each phase, and the number of results."""
    import eddyline as ed

    session = ed.Session()
    for name, table in data.items():
        session.stream(name, schema=table.schema, timestamp="ts")
    running = session.query(query(order, sum(t.num_rows for t in data.values())), **options)
    operators = [n.operator for n in running.running.physical.nodes if n.operator is not None]
    join = next(o for o in operators if o.name.startswith("mjoin"))
    took, work, found = [], [], 0
    times = {name: _times(table) for name, table in data.items()}
    for phase in range(PHASES):
        low, high = (np.datetime64((phase + p) * 100 * SECOND, "us") for p in (0, 1))
        start, before = time.perf_counter(), int(join.arrays.counters[:2].sum())
        for cut in range(20):  # as it would arrive: twenty pieces a phase
            span = (high - low) / 20
            for name, table in data.items():
                a, b = np.searchsorted(times[name], [low + cut * span, low + (cut + 1) * span])
                session.push(name, table.slice(a, b - a))
            found += sum(b.num_rows for b in running.fetch())
        took.append(time.perf_counter() - start)
        work.append(int(join.arrays.counters[:2].sum()) - before)
    session.finish()
    found += sum(b.num_rows for b in running.fetch())
    return took, found, work


def _times(table: pa.Table) -> Any:
    return table["ts"].combine_chunks().to_numpy(zero_copy_only=False)


def accesses(data: Mapping[str, pa.Table], order: str) -> tuple[int, ...]:
    return tuple(phases(data, order, STAYS)[2])
