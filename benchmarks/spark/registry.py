"""All benchmarks on Spark, in the order in which they run."""

from __future__ import annotations

from benchmarks.harness import Benchmark
from benchmarks.spark import contests, filters, nexmark
from benchmarks.spark.breakdown import Floor
from benchmarks.spark.scaling import Creep, Scaling

ALL: tuple[Benchmark, ...] = (
    contests.THREE_WAY,
    Floor(),
    *contests.ALL[1:],
    Creep(),
    *filters.ALL,
    nexmark.BENCHMARK,
    Scaling(),
)
