"""Nexmark beside Spark's own Structured Streaming, query by query, in one Spark session.

All sides read the same Parquet files in the same micro-batches (``availableNow``, one file of each stream for each) and
write into a sink that does nothing. They take turns, query by query: Spark's own, ours over DataFrames that Spark
reads, ours over paths that our readers read; the same query inline, without Spark, stands beside them. Every answer is
first compared with DuckDB's over a smaller stream. Each stream ends with a row an hour later, so that windows close.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import nexmark as inline
from benchmarks.harness import FOLDER, Limit, Options, Report, python
from benchmarks.nexmark import Example, comparable
from benchmarks.spark.configuration import Configuration, steady
from benchmarks.spark.driver import PROVIDER, PROVIDERS, session
from benchmarks.spark.nexmark_native import NATIVE, REFUSED, Native
from benchmarks.spark.processes import Sampler

EVENTS, BATCH = 500_000, 100_000
CHECKED, CHECKED_BATCH, CHECKED_RATE = 40_000, 10_000, 1_000.0  # 40 seconds, in which windows close
QUICK = ("q2", "q11")
ROUNDS = 2  # at least
SHARDS = 2
STREAMS = ("person", "auction", "bid")
HOUR = 3_600_000_000  # microseconds
SIDES = ("spark", "frames", "paths")
OURS = ("frames", "paths")
# The rows that end the streams: no other row has negative numbers, and none of them meets another.
LAST = {"person": {"id": -1}, "auction": {"id": -1, "seller": -2}, "bid": {"auction": -3, "bidder": -1}}


# ── data ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def slices(events: int, batch: int, rate: float) -> dict[str, Path]:
    """A folder of files for each stream, one for each stretch of time and one for the last row, dated in that order."""
    folder = FOLDER / "spark" / f"nexmark-{events}-{batch}-{rate:g}"
    if not folder.exists():
        unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")
        for stream in STREAMS:
            _write(stream, unfinished / stream, events, batch, rate)
        unfinished.rename(folder)
    return {s: folder / s for s in STREAMS}


def _write(stream: str, folder: Path, events: int, batch: int, rate: float) -> None:
    table = pq.read_table(inline.data(events, rate)[stream])
    for i, f in enumerate(table.schema):
        if pa.types.is_timestamp(f.type):
            table = table.set_column(i, f.name, table.column(i).cast(pa.timestamp("us", tz="UTC")))
    times = table["dateTime"].cast(pa.int64()).to_numpy()
    width = int(batch / rate * 1_000_000)
    begin = int(pq.read_table(inline.data(events, rate)["person"])["dateTime"][0].value)
    cuts = [0, *(int(times.searchsorted(begin + k * width)) for k in range(1, events // batch)), len(table)]
    parts = [table.slice(a, b - a) for a, b in pairwise(cuts)]
    ending = begin + int(events / rate * 1_000_000) + HOUR
    row = {n: ending if pa.types.is_timestamp(t) else -1 if t == pa.int64() else "" for n, t in _columns(table)}
    parts.append(pa.Table.from_pylist([{**row, **LAST[stream]}], table.schema))
    folder.mkdir(parents=True)
    for k, part in enumerate(parts):
        path = folder / f"{k:05d}.parquet"
        pq.write_table(part, path)
        os.utime(path, (1_700_000_000 + k,) * 2)  # Spark takes files in the order of these times


def _columns(table: Any) -> list[tuple[str, Any]]:
    return [(f.name, f.type) for f in table.schema]


# ── one query on one side ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Job:
    """A query over the slices of its streams."""

    example: Example
    folders: Mapping[str, Path]
    side_input: Path
    batch: int

    @property
    def native(self) -> Native:
        return NATIVE.get(self.example.name, Native())

    @property
    def streams(self) -> list[str]:
        return [s for s in self.example.streams if s in STREAMS]

    def frame(self, spark: Any, side: str) -> Any:
        if side == "paths":
            import eddyline as ed

            made = ed.Session(spark, shards=SHARDS, rows_per_batch=self.batch)
            for s in self.streams:
                made.stream(s, f"{self.folders[s]}/*.parquet", timestamp="dateTime")
            if "side_input" in self.example.streams:
                made.relation("side_input", str(self.side_input))
            return made.query(self.example.query).dataframe()
        frames = {s: self._source(spark, s) for s in self.streams}
        if side == "frames":
            import eddyline.spark as eds

            constant = {"side_input": str(self.side_input)} if "side_input" in self.example.streams else {}
            return eds.query(self.example.query, frames, timestamp="dateTime", relations=constant, shards=SHARDS)
        for s, frame in frames.items():
            frame.withWatermark("dateTime", "0 seconds").createOrReplaceTempView(s)
        spark.read.parquet(str(self.side_input)).createOrReplaceTempView("side_input")
        return spark.sql(self.native.sql(self.example))

    def _source(self, spark: Any, stream: str) -> Any:
        folder = str(self.folders[stream])
        schema = spark.read.parquet(folder).schema
        return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder)

    def start(self, spark: Any, side: str, checkpoint: str, writer: Callable[[Any], Any]) -> Any:
        spark.conf.set(PROVIDER, PROVIDERS["hdfs" if side == "spark" else "rocksdb"])
        mode = self.native.mode if side == "spark" else "append"
        made = writer(self.frame(spark, side)).outputMode(mode).trigger(availableNow=True)
        return made.option("checkpointLocation", checkpoint).start()


def rows(spark: Any, job: Job, side: str, folder: str) -> Counter[Any]:
    """The answer that the results of all micro-batches lead to."""
    found: list[Any] = []

    def keep(batch: Any, _: int) -> None:
        found.append(batch.toArrow())

    with tempfile.TemporaryDirectory(dir=folder) as checkpoint:
        job.start(spark, side, checkpoint, lambda df: df.writeStream.foreachBatch(keep)).awaitTermination()
    if side in OURS:
        answer = inline.last(job.example, pa.concat_tables(found))
        return without_last(Counter({_plain(r): n for r, n in answer.items()}))
    every = [tuple(row.values()) for table in found for row in table.to_pylist()]
    if job.native.mode == "update":  # what was said last about each group
        every = list({row[: job.native.key]: row for row in every}.values())
    return without_last(Counter(_plain(comparable(r)) for r in every))


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Times without a zone, as DuckDB has them."""
    return tuple(v.astimezone(UTC).replace(tzinfo=None) if isinstance(v, datetime) and v.tzinfo else v for v in row)


def without_last(found: Counter[Any]) -> Counter[Any]:
    """Without what comes of the rows that end the streams.

    >>> without_last(Counter({(-3, 5): 1, (7, "a"): 2}))
    Counter({(7, 'a'): 2})
    """
    return Counter({r: n for r, n in found.items() if not any(isinstance(v, int | float) and v < 0 for v in r)})


def timed(spark: Any, job: Job, side: str, folder: str, sampler: Sampler) -> dict[str, float]:
    """Seconds from the start of the query to its end, processor seconds of all processes, seconds of a steady
    micro-batch, and how many rows came out."""
    import pyspark.sql.functions as F

    def counted(df: Any) -> Any:
        return df.observe("found", F.count(F.lit(1)).alias("results")).writeStream.format("noop")

    with tempfile.TemporaryDirectory(dir=folder) as checkpoint:
        begin = time.time()
        query = job.start(spark, side, checkpoint, counted)
        query.awaitTermination()
        end = time.time()
    time.sleep(0.3)  # samples up to the end
    told = query.recentProgress
    results = [t["observedMetrics"]["found"]["results"] for t in told if "found" in t["observedMetrics"]]
    batches = [t["durationMs"]["triggerExecution"] / 1000 for t in told if t["numInputRows"]]
    return {
        "seconds": end - begin,
        "processor": sampler.usage.spent(begin, end),
        "steady": steady(batches[:-1] or batches),  # the last has the rows that end the streams
        "results": sum(int(r or 0) for r in results),
    }


def refusal(spark: Any, job: Job, folder: str) -> str:
    """What Spark says to a query that it cannot run, in either mode that keeps no whole answers."""
    from pyspark.errors import AnalysisException, StreamingQueryException

    said = []
    for mode in ("append", "update"):
        try:
            with tempfile.TemporaryDirectory(dir=folder) as checkpoint:
                writer = job.frame(spark, "spark").writeStream.format("noop").outputMode(mode)
                query = writer.trigger(availableNow=True).option("checkpointLocation", checkpoint).start()
                query.awaitTermination()
        except (AnalysisException, StreamingQueryException) as error:
            said.append(f"{mode}: {str(error).splitlines()[0][:200]}")
        else:
            raise AssertionError(f"{job.example.name} runs in Spark's own streaming ({mode}): measure it")
    return "; ".join(said)


# ── in a driver of its own ────────────────────────────────────────────────────────────────────────────────────────


def asked() -> dict[str, Example]:
    """Of every query; q12 by event time, since windows by the clock compare nothing."""
    return {e.name: replace(e, arrival=False) for e in inline.examples()}


def truth(example: Example, paths: Mapping[str, Path]) -> Counter[Any]:
    if example.name == "q12":
        bucket = "time_bucket(INTERVAL 10 SECONDS, dateTime)"
        text = f"SELECT bidder, count(*), {bucket} AS s, {bucket} + INTERVAL 10 SECONDS FROM bid GROUP BY bidder, s"
        return Counter(comparable(r) for r in _duckdb(text, paths))
    return Counter(comparable(r.values()) for r in inline.duckdb_batch(example, paths).to_pylist())


def _duckdb(text: str, paths: Mapping[str, Path]) -> list[Any]:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW bid AS FROM read_parquet('{paths['bid']}')")
        return connection.sql(text).fetchall()


def race(quick: bool, rounds: int, only: Sequence[str] = ()) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="benchmark-", ignore_cleanup_errors=True) as folder:
        spark = session(Configuration("nexmark", "native", EVENTS, BATCH, memory="2g" if quick else "6g"), folder)
        sampler = Sampler(os.getpid())
        sampler.start()
        try:
            return _race(spark, quick, rounds, only or (QUICK if quick else tuple(NATIVE)), folder, sampler)
        finally:
            sampler.stop()
            spark.stop()


def _race(spark: Any, quick: bool, rounds: int, names: Sequence[str], folder: str, sampler: Sampler) -> dict[str, Any]:
    small = inline.data(CHECKED, CHECKED_RATE)
    large = slices(CHECKED, CHECKED_BATCH, CHECKED_RATE) if quick else slices(EVENTS, BATCH, inline.RATE)
    batch = CHECKED_BATCH if quick else BATCH
    found: dict[str, Any] = {"events": CHECKED if quick else EVENTS, "batch": batch, "queries": {}, "refused": {}}
    examples = asked()
    for name in names:
        checked = Job(examples[name], slices(CHECKED, CHECKED_BATCH, CHECKED_RATE), small["side_input"], CHECKED_BATCH)
        expected = truth(examples[name], small)
        for side in SIDES:
            answer = rows(spark, checked, side, folder)
            if answer != expected:
                lacks, has = list((expected - answer).items())[:3], list((answer - expected).items())[:3]
                raise AssertionError(f"{name}, {side}: not DuckDB's answer; it lacks {lacks}, it has {has}")
        job = Job(examples[name], large, small["side_input"], batch)
        turns: dict[str, list[dict[str, float]]] = {s: [] for s in (*SIDES, "inline")}
        for _ in range(rounds):
            for side in SIDES:
                turns[side].append(timed(spark, job, side, folder, sampler))
            turns["inline"].append(_inline(job))
        found["queries"][name] = turns
        print(f"    {line(name, turns)}", file=sys.stderr, flush=True)
    for name in REFUSED if len(names) == len(NATIVE) else ():
        job = Job(examples[name], slices(CHECKED, CHECKED_BATCH, CHECKED_RATE), small["side_input"], CHECKED_BATCH)
        found["refused"][name] = refusal(spark, job, folder)
    return found


def _inline(job: Job) -> dict[str, float]:
    paths = {s: Path(f"{f}/*.parquet") for s, f in job.folders.items()} | {"side_input": job.side_input}
    begin, spent = time.perf_counter(), time.process_time()
    _, answer = inline.ours(job.example, paths)
    seconds, processor = time.perf_counter() - begin, time.process_time() - spent
    return {"seconds": seconds, "processor": processor, "results": len(answer)}


# ── as a benchmark ────────────────────────────────────────────────────────────────────────────────────────────────


def middle(turns: list[dict[str, float]], what: str) -> float:
    return float(median(t[what] for t in turns))


def ratio(turns: Mapping[str, list[dict[str, float]]], side: str, what: str) -> float:
    """Spark's own over ours, turn by turn, the median."""
    return float(median(a[what] / b[what] for a, b in zip(turns["spark"], turns[side], strict=True)))


def line(name: str, turns: Mapping[str, list[dict[str, float]]]) -> str:
    """Seconds and processor seconds of each side, then how many times ours Spark's own takes, and the rows.

    >>> t = {"seconds": 4.0, "processor": 6.0, "steady": 0.5, "results": 7}
    >>> o = {"seconds": 2.0, "processor": 3.0, "steady": 0.5, "results": 8}
    >>> line("q0", {"spark": [t], "frames": [o], "paths": [o], "inline": [o]})
    'q0       4.0    6.0     2.0    3.0     2.0    3.0    2.00   3.00     2.00    2.00          7          8'
    """
    cells = [name.ljust(4)]
    for side in (*SIDES, "inline"):
        digits = ".2f" if side == "inline" else ".1f"
        cells += [f"{middle(turns[side], w):{7 if w == 'seconds' else 6}{digits}}" for w in ("seconds", "processor")]
    best = min(OURS, key=lambda s: middle(turns[s], "seconds"))
    cells += [f"{ratio(turns, best, 'seconds'):8.2f}", f"{ratio(turns, best, 'processor'):7.2f}"]
    cells += [f"{middle(turns[s], 'results'):10,.0f}" for s in ("spark", "paths")]
    return " ".join(cells)


@dataclass(frozen=True, slots=True)
class Nexmark:
    name: str = "nexmark"
    title: str = "Nexmark beside Spark's own streaming, 500,000 events in micro-batches of 100,000, one session"

    def run(self, options: Options) -> Report:
        flags = ["--quick"] if options.quick else []
        rounds = 1 if options.quick else max(options.rounds, ROUNDS)
        told = python(["-m", "benchmarks.spark.nexmark", str(rounds), *flags])
        found = json.loads(told.splitlines()[-1])
        report = Report(self.name, self.title, details=found)
        report.lines = [
            "       Spark's own      frames        paths       inline     Spark's own / ours        rows",
            "            s    CPU       s    CPU       s    CPU       s    CPU        s     CPU    Spark's       ours",
        ]
        for name, turns in found["queries"].items():
            remark = NATIVE[name].remark
            report.lines.append(f"  {line(name, turns)}" + (f"   {remark}" if remark else ""))
            best = max(ratio(turns, s, "seconds") for s in OURS)
            report.limits.append(Limit(f"{name}: as fast as Spark's own", best, 1.0, "at least"))
        report.lines += [f"  {name}: Spark refuses {REFUSED[name]}: {said}" for name, said in found["refused"].items()]
        report.lines.append(f"  checked: every answer over {CHECKED:,} events, on all three sides, against DuckDB")
        return report


BENCHMARK = Nexmark()

if __name__ == "__main__":
    # python -m benchmarks.spark.nexmark ROUNDS [--quick] [q5 q11 …]: some queries alone, a line for each
    chosen = [a for a in sys.argv[2:] if a in NATIVE]
    print(json.dumps(race("--quick" in sys.argv, int(sys.argv[1]), chosen)))
