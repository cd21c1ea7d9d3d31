"""Cost for each event: the same for half a million events and for four, and the same early and late in a stream."""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping
from statistics import median
from typing import Any

from benchmarks.harness import Limit, Options, Paths, Report, cached, trades
from benchmarks.sliding_aggregate import QUERY as AGGREGATE
from benchmarks.three_way import QUERY as JOIN

SIZES = (500_000, 1_000_000, 2_000_000, 4_000_000)
ROUNDS = 2
BATCH = 16_384  # rows read at once: small, to see the course of time


def _join_data(events: int) -> Paths:
    seconds = events * 600 // 1_500_000  # the same rate, so the same windows

    def make() -> Mapping[str, Any]:
        from eddyline.datasets.joins import three_way

        return three_way(events, seconds, 100_000)

    return cached(f"linear-{events}", make)


class Linearity:
    name = "linearity"
    title = "cost for each event as the stream gets longer, microseconds"

    def run(self, options: Options) -> Report:
        report = Report(self.name, self.title)
        sizes = [options.scaled(n) for n in SIZES]
        report.lines = [f"  {'':20s}" + "".join(f"{n / 1e6:9.2f} M" for n in sizes) + "   last quarter ÷ first"]
        report.details = {"measurements": []}
        for name, text, data in (("sliding aggregate", AGGREGATE, trades), ("three-way join", JOIN, _join_data)):
            costs: dict[int, float] = {}
            history = 0.0
            for n in sizes:
                paths = data(n)
                rounds = [steps(text, paths) for _ in range(ROUNDS)]
                costs[n] = min(sum(s for _, s in r) for r in rounds) / n * 1e6
                if n == sizes[-1]:
                    history = min(late_to_early(r) for r in rounds)
            report.lines.append(f"  {name:20s}" + "".join(f"{costs[n]:11.3f}" for n in sizes) + f"{history:13.2f}")
            report.details["measurements"].append(
                {"query": text, "microseconds_per_event": {str(n): c for n, c in costs.items()}, "history": history}
            )
            report.limits += [
                Limit(f"{name}: {sizes[-1]:,} events against {sizes[0]:,}", costs[sizes[-1]] / costs[sizes[0]], 1.3),
                Limit(f"{name}: last quarter against first", history, 1.3),
            ]
        return report


def steps(text: str, paths: Paths) -> list[tuple[int, float]]:
    """(events, seconds) of every batch that was read."""
    import eddyline as ed

    session = ed.Session()
    for name, path in paths.items():
        session.stream(name, str(path), timestamp="ts")
    for feed in session.feeds.values():
        feed.batch_rows = BATCH
    query = session.query(text)
    out = []
    seen = 0
    gc.collect()
    more = True
    while more:
        begin = time.perf_counter()
        more = session.step()
        query.fetch()
        spent = time.perf_counter() - begin
        now = sum(s.arrived for s in session.inputs.values())
        out.append((now - seen, spent))
        seen = now
    return out


def late_to_early(batches: list[tuple[int, float]]) -> float:
    """The cost of an event in the last quarter over that in the first: each the median over groups of eight batches,
    without the first eighth of all, while windows fill.

    >>> late_to_early([(10, 0.1)] * 64 + [(10, 0.2)] * 64)
    2.0
    """
    groups = [batches[i : i + 8] for i in range(0, len(batches) - 7, 8)]
    costs = [sum(s for _, s in g) / max(1, sum(n for n, _ in g)) for g in groups]
    skip, quarter = len(costs) // 8, max(1, len(costs) // 4)
    return median(costs[-quarter:]) / median(costs[skip : skip + quarter])
