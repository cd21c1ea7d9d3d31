"""What all benchmarks share: generated data, fair timing, fresh processes, limits.

*Ratios, not seconds.* Contestants take turns (ours, peer, ours, peer, …) in one run on one machine, so that what else
the machine does hits both; a ratio is the median over the rounds of (our time / peer's time in that round).

*What is timed*: from opened files (sources declared, nothing read) to the last Arrow result, kernels compiled. Beside
it stands the cold figure, from the start of a fresh process to its result, imports included, and the peak memory of
that process.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Literal, Protocol

HERE = Path(__file__).parent
FOLDER = HERE.parent / ".cache" / "benchmarks"

Paths = Mapping[str, Path]
Run = Callable[[], Any]  # timed; returns an Arrow table, or a number of results


@dataclass(frozen=True, slots=True)
class Contestant:
    """``open`` declares sources (not timed) and returns what is timed."""

    name: str
    text: str  # the query
    open: Callable[[Paths], Run]


@dataclass(frozen=True, slots=True)
class Limit:
    """A measured value and the bound that it must keep.

    >>> Limit("time against DuckDB", 1.4, 2.0).met, Limit("events a second", 2e6, 5e6, "at least").met
    (True, False)
    """

    what: str
    value: float
    bound: float
    kind: Literal["at most", "at least"] = "at most"
    unit: str = "×"

    @property
    def met(self) -> bool:
        return self.value <= self.bound if self.kind == "at most" else self.value >= self.bound

    def __str__(self) -> str:
        shown = [f"{v:,.0f}" if v >= 1000 else f"{v:.2f}" for v in (self.value, self.bound)]
        verdict = "met   " if self.met else "MISSED"
        return f"{verdict}  {self.what}: {shown[0]} {self.unit}, {self.kind} {shown[1]} {self.unit}"


@dataclass(slots=True)
class Measured:
    """Seconds of one contestant, round by round."""

    name: str
    text: str
    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    results: int = 0
    cold: float | None = None  # seconds from process start to the result
    peak: float | None = None  # MB

    @property
    def median(self) -> float:
        return median(self.seconds)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "query": self.text,
            "median": self.median,
            "min": min(self.seconds),
            "seconds": self.seconds,
            "processor_seconds": self.processor,
            "results": self.results,
            "cold_seconds": self.cold,
            "peak_mb": self.peak,
        }


@dataclass(slots=True)
class Report:
    """What one benchmark found. ``lines`` are printed as they are, ``details`` go into the JSON."""

    name: str
    title: str
    lines: list[str] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        limits = [
            {"what": x.what, "value": x.value, "bound": x.bound, "kind": x.kind, "unit": x.unit, "met": x.met}
            for x in self.limits
        ]
        return {"name": self.name, "title": self.title, **self.details, "limits": limits}


@dataclass(frozen=True, slots=True)
class Options:
    """``quick`` runs on a tenth of the data and twice only: to see that it works, not how fast."""

    quick: bool = False
    rounds: int = 5
    fresh: bool = True  # cold figures and peak memory, each in its own process

    def scaled(self, count: int) -> int:
        return count // 10 if self.quick else count


class Benchmark(Protocol):
    name: str
    title: str

    def run(self, options: Options) -> Report: ...


@dataclass(frozen=True, slots=True)
class Contest:
    """Several ways to the same answer over the same files. The first contestant is ours."""

    name: str
    title: str
    events: int
    data: Callable[[Options], Paths]
    contestants: Sequence[Contestant]
    check: Callable[[Options, Paths, Mapping[str, Any]], str]  # raises, or says what was checked
    limits: Callable[[Contest, Options, Mapping[str, Measured]], list[Limit]]
    compiles: bool = False  # measure ours once more in a process that has to compile its kernels first

    def run(self, options: Options) -> Report:
        paths = self.data(options)
        results = {c.name: c.open(paths)() for c in self.contestants}  # warms kernels, the page cache and pools
        checked = self.check(options, paths, results)
        measured = {c.name: Measured(c.name, c.text, results=_count(results[c.name])) for c in self.contestants}
        del results
        for _ in range(options.rounds):
            for c in self.contestants:
                wall, processor = timed(c.open(paths))
                measured[c.name].seconds.append(wall)
                measured[c.name].processor.append(processor)
        if options.fresh:
            for m in measured.values():
                m.cold, m.peak = fresh(["contestant", self.name, m.name], options)
        events = options.scaled(self.events)
        report = Report(self.name, self.title, table(measured, events), self.limits(self, options, measured))
        compiling = None
        if options.fresh and self.compiles and not options.quick:
            with tempfile.TemporaryDirectory() as empty:
                first = self.contestants[0].name
                compiling, _ = fresh(["contestant", self.name, first], options, empty_cache(empty))
            report.limits.append(Limit("first run ever, kernels compiled on the way", compiling, 40.0, unit="s"))
        report.lines.append(f"  {checked}")
        ratios = {m.name: ratio(next(iter(measured.values())), m) for m in list(measured.values())[1:]}
        report.details = {
            "events": events,
            "checked": checked,
            "contestants": [m.to_json() for m in measured.values()],
            "ratio_to_peers": ratios,
            "first_run_seconds": compiling,
        }
        return report


def ratio(ours: Measured, *peers: Measured) -> float:
    """Our time over the sum of the others', round by round, the median."""
    return median(a / sum(b) for a, *b in zip(ours.seconds, *(p.seconds for p in peers), strict=True))


def timed(run: Run) -> tuple[float, float]:
    """Wall and processor seconds; the collector does not charge one for the garbage of another."""
    gc.collect()
    gc.disable()
    try:
        wall, processor = time.perf_counter(), time.process_time()
        made = run()
        spent = time.perf_counter() - wall, time.process_time() - processor
    finally:
        gc.enable()
    del made
    return spent


def table(measured: Mapping[str, Measured], events: int) -> list[str]:
    """
    >>> m = Measured("ours", "SELECT …", [0.5, 0.4, 0.6], results=7)
    >>> for line in table({"ours": m}, 1_000_000): print(line)
                                 median     min   events/s  × ours   cold   peak MB    results
      ours                        0.500   0.400    2.00 M/s    1.00      –         –          7
    """
    first = next(iter(measured.values()))
    heads = f"{'median':>8s} {'min':>7s} {'events/s':>11s} {'× ours':>7s} {'cold':>6s} {'peak MB':>9s} {'results':>10s}"
    lines = [f"  {'':24s} {heads}"]
    for m in measured.values():
        cold = "–" if m.cold is None else f"{m.cold:.2f}"
        peak = "–" if m.peak is None else f"{m.peak:,.0f}"
        against = 1 / ratio(first, m)
        lines.append(
            f"  {m.name:24s} {m.median:8.3f} {min(m.seconds):7.3f} {events / m.median / 1e6:7.2f} M/s {against:7.2f} "
            f"{cold:>6s} {peak:>9s} {m.results:10,}"
        )
    return lines


# ── fresh processes ───────────────────────────────────────────────────────────────────────────────────────────────


def fresh(
    arguments: Sequence[str], options: Options, environment: Mapping[str, str] | None = None
) -> tuple[float, float]:
    """Run ``benchmarks.worker`` in a new process; seconds from its start to its answer, and its peak memory in MB."""
    flags = ["--quick"] if options.quick else []
    told = python(["-m", "benchmarks.worker", *arguments, *flags], environment)
    answer = json.loads(told.splitlines()[-1])
    return float(answer["seconds"]), float(answer["peak_mb"])


def empty_cache(folder: str) -> dict[str, str]:
    """The environment of a first run: nothing is compiled yet, and kernels are when it pays."""
    return {"EDDYLINE_CACHE_DIR": folder, "EDDYLINE_COMPILE": ""}


def python(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """The standard output of a Python process; its ``BENCHMARK_STARTED`` says when it was started."""
    merged = {**os.environ, **(environment or {}), "BENCHMARK_STARTED": repr(time.time())}
    done = subprocess.run([sys.executable, *arguments], cwd=HERE.parent, env=merged, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"python {' '.join(arguments)} failed:\n{done.stderr}")
    return done.stdout


def peak_mb() -> float:
    """The most memory that this process ever held.

    Linux lets ``ru_maxrss`` survive exec, so that a child would report its parent's memory; VmHWM starts anew.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1 << 20) if sys.platform == "darwin" else most / 1024


def _count(result: Any) -> int:
    return int(result) if isinstance(result, int) else int(result.num_rows)


# ── data ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def cached(name: str, make: Callable[[], Mapping[str, Any]]) -> dict[str, Path]:
    """The Parquet files of a set of tables, made when first asked for. ``name`` tells all that decides the data."""
    import pyarrow.parquet as pq

    folder = FOLDER / name
    if not folder.exists():
        unfinished = folder.with_name(f"{name}.{os.getpid()}")
        unfinished.mkdir(parents=True)
        for stream, rows in make().items():
            pq.write_table(rows, unfinished / f"{stream}.parquet")
        try:
            unfinished.rename(folder)
        except OSError:  # another process has made the same files meanwhile
            if not folder.exists():
                raise
            shutil.rmtree(unfinished)
    return {p.stem: p for p in sorted(folder.glob("*.parquet"))}


def trades(events: int) -> dict[str, Path]:
    """Trades of 200 symbols, 2 million in ten minutes."""

    def make() -> dict[str, Any]:
        from eddyline.datasets.trades import trades as generate

        return {"trades": generate(events=events, rate=2_000_000 / 600, symbols=200).table()}

    return cached(f"trades-{events}", make)


# ── contestants ───────────────────────────────────────────────────────────────────────────────────────────────────


def eddyline(text: str, name: str = "eddyline", streams: Sequence[str] | None = None) -> Contestant:
    def open(paths: Paths) -> Run:
        import eddyline as ed

        session = ed.Session()
        for stream in streams or paths:
            session.stream(stream, str(paths[stream]), timestamp="ts")
        return lambda: session.query(text).to_arrow()

    return Contestant(name, text, open)


def duckdb(text: str, name: str = "DuckDB") -> Contestant:
    def open(paths: Paths) -> Run:
        import duckdb as engine

        connection = engine.connect()
        for stream, path in paths.items():
            connection.execute(f"CREATE VIEW {stream} AS FROM read_parquet('{path}')")
        return lambda: connection.sql(text).to_arrow_table()

    return Contestant(name, text, open)


def at_least_events(contest: Contest, options: Options, ours: Measured, bound: float) -> Limit:
    return Limit("events a second", options.scaled(contest.events) / ours.median, bound, "at least", "events/s")
