"""All benchmarks, in the order in which they run."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks import (
    adaptive_join,
    as_of,
    constraints,
    filter_project,
    filters,
    filters_equal,
    latency,
    linearity,
    macd,
    models,
    models_online,
    multiway,
    nexmark,
    roots,
    shared_graph,
    short_join,
    sliding_aggregate,
    startup,
    system_streams,
    three_way,
    top_n,
)
from benchmarks.harness import Benchmark

ALL: tuple[Benchmark, ...] = (
    three_way.CONTEST,
    three_way.ALL_COLUMNS,
    multiway.CHAIN,
    multiway.FOUR_WAY,
    adaptive_join.Adaptive(),
    short_join.Short(),
    constraints.Constraints(),
    sliding_aggregate.CONTEST,
    macd.CONTEST,
    models.Models(),
    models_online.Online(),
    roots.Roots(),
    top_n.CONTEST,
    as_of.CONTEST,
    nexmark.BENCHMARK,
    filter_project.CONTEST,
    filters.Expensive(),
    filters.Cheap(),
    filters_equal.Equal(),
    system_streams.System(),
    latency.Latency(),
    shared_graph.SharedGraph(),
    linearity.Linearity(),
    startup.Startup(),
)


def find(name: str, among: Sequence[Benchmark] = ALL) -> Benchmark:
    for b in among:
        if b.name == name:
            return b
    raise SystemExit(f"there is no benchmark {name!r}; there are: {', '.join(b.name for b in among)}")
