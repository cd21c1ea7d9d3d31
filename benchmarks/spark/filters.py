"""Filters on DataFrames: ``eds.adaptive_filter`` against Spark's own conjunction of the same functions.

Both sides read the same Parquet files, in as many partitions as there are cores, in one session and in turns, and add
up what they keep, which is compared with the truth. Spark's own conjunction is tried in every form that it has (the
conditions in one filter or in a filter each; plain functions, or with Arrow; small and large Arrow batches) on a part
of the data, and the fastest form is the peer. Ours runs with Spark's default batches, and is made anew in each round:
it has to learn in each of them.

Not Spark's own, but shown: the conditions in filters of their own whose functions are declared *not deterministic*.
That is a lie that keeps Spark from putting the filters together again, so that each is asked only about the rows that
the filters before it have kept, in the written order.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.filter_cases import FilterCase, cheap, expensive
from benchmarks.harness import HERE, Limit, Options, Report, cached, python, timed

CASES: Mapping[str, tuple[Callable[[int], FilterCase], int]] = {
    "expensive": (expensive, 300_000),
    "cheap": (cheap, 2_000_000),
}
TASKS = 2
ROUNDS = 3  # at least
BATCHES = ("10000", "100000")  # rows of an Arrow batch: Spark's default, and what large machines are set to
ROWS_PER_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": str(TASKS),
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
}


@dataclass(frozen=True, slots=True)
class Form:
    """A way to write the conjunction: ``filtered(df, case)`` is what is kept."""

    name: str
    filtered: Callable[[Any, FilterCase], Any]
    own: bool = True  # Spark's own conjunction; not a trick, not ours


@dataclass(slots=True)
class Contestant:
    form: Form
    batch: str  # rows of an Arrow batch
    seconds: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.form.name}, batches of {int(self.batch):,}"


def forms(case: FilterCase) -> list[Form]:
    rows = case.predicates[0].kind == "row"
    kinds = {"plain functions": False, "functions with Arrow": True} if rows else {"pandas functions": False}
    found = [
        Form(f"{kind} in {shape}", _spark(arrow, chained))
        for kind, arrow in kinds.items()
        for shape, chained in (("one filter", False), ("a filter each", True))
    ]
    found += [
        Form(f"{kind}, said to be random", _spark(arrow, True, lie=True), own=False) for kind, arrow in kinds.items()
    ]
    return found


def _spark(arrow: bool, chained: bool, lie: bool = False) -> Callable[[Any, FilterCase], Any]:
    def filtered(df: Any, case: FilterCase) -> Any:
        from pyspark.sql import functions as F

        conditions = []
        for p in case.predicates:
            made: Any = _pandas(p.function) if p.kind == "pandas" else F.udf(p.function, "boolean", useArrow=arrow)
            conditions.append((made.asNondeterministic() if lie else made)(*p.columns))
        if not chained:
            return df.filter(reduce(and_, conditions))
        return reduce(lambda kept, c: kept.filter(c), conditions, df)

    return filtered


def _pandas(function: Callable[..., Any]) -> Any:
    from pyspark.sql import functions as F

    with warnings.catch_warnings():  # Spark would rather read type hints, and the functions have others
        warnings.simplefilter("ignore")
        return F.pandas_udf(function, "boolean", F.PandasUDFType.SCALAR)


def _ours(df: Any, case: FilterCase) -> Any:
    import eddyline.spark as eds

    return eds.adaptive_filter(df, *case.predicates)


OURS = Form("eddyline", _ours, own=False)


# ── in a driver of its own ────────────────────────────────────────────────────────────────────────────────────────


def race(name: str, quick: bool, rounds: int) -> dict[str, Any]:
    make, rows = CASES[name]
    rows = rows // 10 if quick else rows
    case = make(rows)
    data = _data(name, rows, case)
    part = _data(name, rows // 10, make(rows // 10))
    with tempfile.TemporaryDirectory(prefix="benchmark-", ignore_cleanup_errors=True) as folder:
        spark = _session(folder)
        try:
            return _race(spark, case, data, part, max(rounds, ROUNDS))
        finally:
            spark.stop()


def _race(spark: Any, case: FilterCase, data: Path, part: Path, rounds: int) -> dict[str, Any]:
    tried = [Contestant(f, b) for f in forms(case) for b in BATCHES] + [Contestant(OURS, BATCHES[0])]
    for turn in range(2):  # in the first Java compiles, and workers start
        for c in tried:
            seconds, _ = _run(spark, c, case, part)
            c.seconds = [seconds] if turn else []

    def best(among: Sequence[Contestant]) -> Contestant:
        chosen = min(among, key=lambda c: c.seconds[0])
        return Contestant(chosen.form, chosen.batch)

    racing = {
        "eddyline": best([c for c in tried if c.form is OURS]),
        "Spark's own": best([c for c in tried if c.form.own]),
        "by hand": best([c for c in tried if not c.form.own and c.form is not OURS]),
    }
    expected = np.flatnonzero(~case.drops.any(1))
    truth = (len(expected), int(expected.sum()), int((expected * expected % 1_000_003).sum()))
    for _ in range(rounds):
        for c in racing.values():
            seconds, kept = _run(spark, c, case, data)
            if kept != truth:
                raise AssertionError(f"{c.name} keeps {kept} instead of {truth} (rows and checksums)")
            c.seconds.append(seconds)
    return {
        "rows": len(case.drops),
        "kept": truth[0],
        "tried": {c.name: c.seconds[0] for c in tried},
        "seconds": {name: c.seconds for name, c in racing.items()},
        "forms": {name: c.name for name, c in racing.items()},
    }


def _run(spark: Any, c: Contestant, case: FilterCase, data: Path) -> tuple[float, tuple[int, ...]]:
    spark.conf.set(ROWS_PER_BATCH, c.batch)
    df = spark.read.parquet(str(data))
    if df.rdd.getNumPartitions() != TASKS:
        raise AssertionError(f"{df.rdd.getNumPartitions()} tasks instead of {TASKS}")
    kept: list[Any] = []

    def act() -> None:
        found = c.form.filtered(df, case).selectExpr("count(*)", "sum(id)", "sum(id * id % 1000003)").first()
        kept.append(tuple(int(v or 0) for v in found))

    return timed(act)[0], kept[0]


def _session(folder: str) -> Any:
    from eddyline.spark import local

    settings = {**SETTINGS, "spark.local.dir": folder, "spark.sql.warehouse.dir": f"{folder}/warehouse"}
    settings["spark.executorEnv.PYTHONPATH"] = str(HERE.parent)  # where the functions are
    return local.local_session(f"local[{TASKS}]", name="eddyline benchmarks", settings=settings)


def _data(name: str, rows: int, case: FilterCase) -> Path:
    """The rows in order, cut into as many files as there are tasks."""
    cut = -(-rows // TASKS)
    files = cached(f"filters-{name}-{rows}", lambda: {f"{i}": case.table.slice(i * cut, cut) for i in range(TASKS)})
    return files["0"].parent


# ── as a benchmark ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Filters:
    case: str
    title: str
    bound: Limit  # with the wanted ratio

    @property
    def name(self) -> str:
        return f"filters-{self.case}"

    def run(self, options: Options) -> Report:
        flags = ["--quick"] if options.quick else []
        told = python(["-m", "benchmarks.spark.filters", self.case, str(options.rounds), *flags])
        found = json.loads(told.splitlines()[-1])
        seconds = found["seconds"]
        ratios = {n: median(b / a for a, b in zip(seconds["eddyline"], s, strict=True)) for n, s in seconds.items()}
        report = Report(self.name, self.title, details=found | {"ratio": ratios})
        report.lines.append(f"  {'seconds':16s} {'median':>8s} {'min':>8s} {'× ours':>8s}   fastest form")
        for name, s in seconds.items():
            report.lines.append(
                f"  {name:16s} {median(s):8.2f} {min(s):8.2f} {ratios[name]:8.2f}   {found['forms'][name]}"
            )
        report.lines.append(f"  the same {found['kept']:,} of {found['rows']:,} rows on all sides")
        report.lines.append("  tried on a tenth of the rows, seconds:")
        report.lines += [f"    {s:6.2f}  {name}" for name, s in sorted(found["tried"].items(), key=lambda x: x[1])]
        b = self.bound
        report.limits = [Limit(b.what, ratios["Spark's own"], b.bound, "at least")]
        return report


ALL = (
    Filters(
        "expensive",
        "six Python functions of 20 to 50 µs over 300,000 rows, the best order changing every 40,000",
        Limit("faster than Spark's own conjunction", 0, 3.0),
    ),
    Filters(
        "cheap",
        "six pandas functions over 2 million rows, the best order changing every 40,000",
        Limit("as fast as Spark's own conjunction", 0, 1.0),
    ),
)


if __name__ == "__main__":
    print(json.dumps(race(sys.argv[1], "--quick" in sys.argv, int(sys.argv[2]))))
