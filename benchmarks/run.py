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
from importlib.metadata import version
from pathlib import Path

from benchmarks.harness import HERE, Options, Report
from benchmarks.registry import ALL, find


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--only", action="append", metavar="NAME", help=", ".join(b.name for b in ALL))
    parser.add_argument("--quick", action="store_true", help="a tenth of the data: to see that it works, not how fast")
    parser.add_argument("--rounds", type=int, default=None, help="times that the contestants take turns")
    parser.add_argument("--no-fresh", action="store_true", help="no cold figures and no peak memory")
    parser.add_argument(
        "--out", type=Path, help="where the JSON goes (results/latest.json; in part: results/part.json)"
    )
    chosen = parser.parse_args(arguments)
    options = Options(chosen.quick, chosen.rounds or (2 if chosen.quick else 5), not chosen.no_fresh)
    begin = time.perf_counter()
    machine = _machine()
    print(
        f"{machine['processors']} processors, load {machine['load']}, Python {machine['python']}; seconds unless said\n"
    )
    reports: list[Report] = []
    failed: dict[str, str] = {}
    for benchmark in [find(n) for n in chosen.only] if chosen.only else ALL:
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
    spent = time.perf_counter() - begin
    _summary(reports, spent)
    part = options.quick or chosen.only
    out = chosen.out or HERE / "results" / ("part.json" if part else "latest.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    found = {
        "machine": machine,
        "quick": options.quick,
        "seconds": spent,
        "benchmarks": [r.to_json() for r in reports],
        "failed": failed,
    }
    out.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
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
    packages = ("eddyline", "numba", "numpy", "pyarrow", "duckdb", "polars")
    return {
        "processors": os.cpu_count(),
        "load": ", ".join(f"{x:.1f}" for x in os.getloadavg()),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "versions": {p: version(p) for p in packages},
        "when": time.strftime("%Y-%m-%d %H:%M:%S %z"),
    }


if __name__ == "__main__":
    sys.exit(main())
