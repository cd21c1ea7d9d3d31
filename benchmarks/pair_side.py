"""One side of pairs: a workload of the checkout that is first on the path, in a process of its own.

``python …/benchmarks/pair_side.py WORKLOAD DATA [--quick]`` prepares a workload, runs it once for each line of its
standard input, and prints processor seconds by part as JSON. The workloads and the engine are those of the checkout
that ``PYTHONPATH`` names, so only what old checkouts have, too, is used here.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

Parts = dict[str, float]
Run = Callable[[], Parts]


def processor_seconds(work: Callable[[], Any]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


RUNS = 5  # of a start, which takes a fraction of a second


def contest(name: str, options: Any) -> Run:
    """Our contestant of a benchmark, after a run that is not measured: it gets the memory from the operating system,
    which in a virtual machine takes between 0.03 and 0.25 s of the same 0.5 s of work."""
    from benchmarks.registry import find

    found: Any = find(name)
    ours = next(c for c in found.contestants if c.name == "eddyline")
    data = found.data(options)
    ours.open(data)()
    return lambda: {name: processor_seconds(ours.open(data))}


def join_adaptive(options: Any) -> Run:
    """Where nothing can be gained, with the default policies; and where the best order changes with each phase."""
    from benchmarks import adaptive_join as a
    from eddyline.datasets.joins import three_way

    seconds, phase = options.scaled(600), options.scaled(a.PHASE // 4)
    pieces = a.cut(three_way(2_500 * seconds, seconds), 0, seconds * 1_000_000, a.PAIRED)

    def uniform() -> None:
        session, query = a._started(pieces[0], {})
        for piece in pieces:
            for stream, rows in piece.items():
                session.push(stream, rows)
            query.fetch()

    def skewed() -> None:
        a.together(a.skewed_data(phase), {a.ADAPTIVE: ("".join(sorted(a.skewed.OTHERS)), {})})

    # As long as what is measured: one side may load a kernel in the middle that the other loads at the start.
    uniform()
    a.skewed_data(phase)
    return lambda: {"nothing to gain": processor_seconds(uniform), "skewed": processor_seconds(skewed)}


def filters(kind: str, options: Any) -> Run:
    from benchmarks import filter_cases
    from benchmarks.filters import opened

    make, rows = {"expensive": (filter_cases.expensive, 300_000), "cheap": (filter_cases.cheap, 2_000_000)}[kind]
    case = make(options.scaled(rows))
    opened(make(2_000), case.text)()
    return lambda: {kind: processor_seconds(opened(case, case.text))}


def latency(options: Any) -> Parts:
    """The median push, of each query with batches of 1, 10 and 100 rows."""
    import numpy as np

    from benchmarks import latency as bench

    bench.time = SimpleNamespace(perf_counter=time.process_time)  # type: ignore[assignment]
    pushes = 100 if options.quick else 1_000
    return {
        f"{name}, {rows} row{'s' * (rows > 1)}": float(np.median(bench.measure(name, text, rows, pushes)))
        for name, text in bench.QUERIES.items()
        for rows in (1, 10, 100)
    }


def startup(options: Any) -> Parts:
    """The import, and a trivial job, each from process start to end: the median of some processes."""
    from benchmarks.startup import JOB

    def spent(arguments: list[str]) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)  # in microseconds; os.times() counts in hundredths
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "job.cql").write_text(JOB)
        (Path(folder) / "calls.csv").write_text("ts,number,seconds\n1,555-1,30\n2,555-2,90\n3,555-3,61\n")
        job = ["-m", "eddyline.cli", "run", f"{folder}/job.cql", "--runtime", "inline"]
        spent(job)
        imports = [spent(["-c", "import eddyline"]) for _ in range(RUNS)]
        return {"import": median(imports), "a trivial job": median(spent(job) for _ in range(RUNS))}


def spark(options: Any) -> Parts:
    """Three-way over DataFrames: the driver, its JVM and all Python workers, after a short run of the same query."""
    from benchmarks.spark.configuration import Configuration
    from benchmarks.spark.driver import run, session

    with tempfile.TemporaryDirectory(prefix="pairs-", ignore_cleanup_errors=True) as folder:
        short = Configuration("three-way", "ours", 200_000, 100_000, memory="2g")
        whole = short if options.quick else Configuration("three-way", "ours", 1_500_000, 250_000, memory="2g")
        made = session(short, folder)
        try:
            run(made, short, folder, time.time())
            before = tree_seconds()
            run(made, whole, folder, time.time())
            return {"three-way": tree_seconds() - before}
        finally:
            made.stop()


def tree_seconds() -> float:
    """Processor seconds of this process and of all below it, those that have ended included (Linux)."""
    parents, ticks = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                facts = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            parents[int(entry.name)] = int(facts[1])
            ticks[int(entry.name)] = sum(map(int, facts[11:15]))
    below, found = [os.getpid()], 0
    while below:
        found += ticks.get(below[0], 0)
        below = [*below[1:], *(child for child, parent in parents.items() if parent == below[0])]
    return found / os.sysconf("SC_CLK_TCK")


WORKLOADS: dict[str, Callable[[Any], Run]] = {
    **{n: partial(contest, n) for n in ("three-way", "chain", "four-way", "sliding-aggregate")},
    "join-adaptive": join_adaptive,
    "filters-expensive": partial(filters, "expensive"),
    "filters-cheap": partial(filters, "cheap"),
    **{n: partial(partial, run) for n, run in (("latency", latency), ("start-up", startup), ("spark", spark))},
}


def main(workload: str, data: str, *flags: str) -> None:
    from benchmarks import harness

    harness.FOLDER = Path(data)
    run = WORKLOADS[workload](harness.Options(quick="--quick" in flags))
    for _ in sys.stdin:
        print(json.dumps(run()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
