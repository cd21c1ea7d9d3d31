"""Run the benchmarks, print a table, write JSON.

python -m benchmarks.run [--only NAME …] [--quick] [--rounds N] [--no-fresh] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.harness import HERE, Benchmark, Options, Report
from benchmarks.registry import ALL, find


def main(
    arguments: list[str] | None = None,
    among: Sequence[Benchmark] = ALL,
    module: str = "benchmarks.run",
    description: str | None = __doc__,
    rounds: int | None = None,
    results: tuple[str, str] = ("latest.json", "part.json"),
) -> int:
    """``results`` are the files of a whole run and of one in part."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("--only", action="append", metavar="NAME", help=", ".join(b.name for b in among))
    parser.add_argument("--quick", action="store_true", help="a tenth of the data: to see that it works, not how fast")
    parser.add_argument("--rounds", type=int, default=None, help="times that the contestants take turns")
    parser.add_argument("--no-fresh", action="store_true", help="no cold figures and no peak memory")
    parser.add_argument(
        "--out", type=Path, help=f"where the JSON goes (results/{results[0]}; in part: results/{results[1]})"
    )
    chosen = parser.parse_args(arguments)
    turns = chosen.rounds or rounds or (2 if chosen.quick else 5)
    options = Options(chosen.quick, turns, not chosen.no_fresh)
    begin = time.perf_counter()
    machine = _machine()
    print(
        f"{machine['processors']} processors, load {machine['load']}, Python {machine['python']}; seconds unless said\n"
    )
    reports: list[Report] = []
    failed: dict[str, str] = {}
    part = options.quick or chosen.only
    out = chosen.out or HERE / "results" / (results[1] if part else results[0])
    out.parent.mkdir(parents=True, exist_ok=True)

    def write(target: Path) -> None:
        found = {
            "machine": machine,
            "quick": options.quick,
            "seconds": time.perf_counter() - begin,
            "benchmarks": [r.to_json() for r in reports],
            "failed": failed,
        }
        target.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")

    so_far = out.with_name(f"{out.stem}-so-far.json")  # what a run that is broken off has found
    for benchmark in [find(n, among) for n in chosen.only] if chosen.only else among:
        print(f"{benchmark.name}: {benchmark.title}", flush=True)
        try:
            report = benchmark.run(options)
        except Exception as error:  # the others are worth their minutes
            traceback.print_exc()
            failed[benchmark.name] = f"{type(error).__name__}: {error}"
            continue
        reports.append(report)
        for line in (*report.lines, *(f"  {limit}" for limit in report.limits)):
            print(line)
        print(flush=True)
        write(so_far)
    _summary(reports, time.perf_counter() - begin)
    write(out)
    so_far.unlink(missing_ok=True)
    for name, text in failed.items():
        print(f"FAILED {name}: {text.splitlines()[0]}")
    print(out.resolve())
    return 1 if failed else 0


def _summary(reports: list[Report], spent: float) -> None:
    limits = [(r.name, x) for r in reports for x in r.limits]
    met = sum(x.met for _, x in limits)
    print(f"{met} of {len(limits)} limits met, in {spent:.0f} s")
    for name, limit in limits:
        print(f"  {name:18s} {limit}")


def _machine() -> dict[str, object]:
    packages = ("eddyline", "numba", "numpy", "pyarrow", "pandas", "duckdb", "polars", "pyspark")
    return {
        "processors": os.cpu_count(),
        "load": ", ".join(f"{x:.1f}" for x in os.getloadavg()),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "versions": {p: v for p in packages if (v := _version(p))},
        "when": time.strftime("%Y-%m-%d %H:%M:%S %z"),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:  # Spark is an extra
        return None


if __name__ == "__main__":
    sys.exit(main())
