"""This checkout against another one, in pairs: ``python -m benchmarks.pairs --base REVISION_OR_FOLDER``.

Each side of a workload has a process, and the two run it in turn over the same data, each first in every other pair: a
busy machine slows both. After some pairs both get new processes, because how the memory of a process happens to lie can
slow all its runs. A ratio is processor time of this checkout over that of the base in one pair; the median of the pairs
is printed with its interval, beside the bound.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks.harness import FOLDER, HERE
from benchmarks.interval import interval
from benchmarks.pair_side import WORKLOADS

BOUND = 1.03
PAIRS = 10
PAIRS_PER_PROCESS = 5  # more measure sooner, and mix fewer layouts of memory
ALONE = (
    "spark",
)  # the JVM of one side would be in the way of the other's: new processes for each pair, one after another


@contextmanager
def checkout(base: str) -> Iterator[Path]:
    """A folder as it is, or a revision in a worktree of git that is removed at the end."""
    if Path(base).is_dir():
        yield Path(base).resolve()
        return
    with tempfile.TemporaryDirectory(prefix="pairs-") as folder:
        tree = Path(folder) / "base"
        git = ["git", "-C", str(HERE.parent), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), base], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def environment(tree: Path) -> dict[str, str]:
    """In which a checkout runs. Both sides keep Python's compiled files: a checkout without them would parse its source
    at each start, and in each worker of Spark, and one that has them from earlier would not."""
    path = os.pathsep.join([str(tree / "src"), str(tree)])
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": path, "EDDYLINE_COMPILE": "at-once"}


@contextmanager
def prepared(tree: Path, workload: str, quick: bool) -> Iterator[Callable[[], dict[str, float]]]:
    """A process of a checkout that is ready to run a workload; each call is a run: processor seconds by part."""
    command = [sys.executable, str(HERE / "pair_side.py"), workload, str(FOLDER), *["--quick"] * quick]
    with subprocess.Popen(
        command, env=environment(tree), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tree, text=True
    ) as side:
        assert side.stdin is not None and side.stdout is not None
        asked, told = side.stdin, side.stdout

        def run() -> dict[str, float]:
            asked.write("\n")
            asked.flush()
            for line in told:
                if line.startswith("{"):  # what else a workload prints is nothing to us
                    found: dict[str, float] = json.loads(line)
                    return found
            raise RuntimeError(f"{workload} of {tree} has ended without a result")

        yield run  # afterwards its standard input is closed, and the process ends


def paired(base: Path, workload: str, pairs: int, quick: bool) -> dict[str, list[float]]:
    """The ratios of each part of a workload."""
    ratios: dict[str, list[float]] = {}
    together = 1 if workload in ALONE else PAIRS_PER_PROCESS
    for begin in range(0, pairs, together):
        with prepared(base, workload, quick) as theirs, prepared(HERE.parent, workload, quick) as ours:
            for turn in range(begin, min(begin + together, pairs)):
                if turn % 2:
                    before, after = theirs(), ours()
                else:
                    after, before = ours(), theirs()
                for part, seconds in after.items():
                    ratios.setdefault(part, []).append(seconds / before[part])
    return ratios


def line(workload: str, part: str, ratios: Sequence[float]) -> str:
    """
    >>> line("latency", "join, 1 row", [1.0, 1.02, 1.04])
    'met     latency: join, 1 row                    1.020 × [1.000, 1.040], 3 pairs, at most 1.03'
    """
    low, high = interval(ratios)
    verdict = "met   " if median(ratios) <= BOUND else "MISSED"
    told = f"{median(ratios):.3f} × [{low:.3f}, {high:.3f}], {len(ratios)} pairs, at most {BOUND}"
    return f"{verdict}  {f'{workload}: {part}':38s} {told}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pairs", description=__doc__.split("\n")[0])
    parser.add_argument("--base", required=True, help="the other side: a revision of git, or a folder with a checkout")
    parser.add_argument("--only", action="append", choices=WORKLOADS, help="one workload; several times for several")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="more give a narrower interval")
    parser.add_argument("--quick", action="store_true", help="a tenth of the data: does it work?")
    options = parser.parse_args(arguments)
    with checkout(options.base) as base:
        for workload in options.only or WORKLOADS:
            for part, ratios in paired(base, workload, options.pairs, options.quick).items():
                print(line(workload, part, ratios), flush=True)


if __name__ == "__main__":
    main()
