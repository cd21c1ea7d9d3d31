"""One contestant in a process of its own, run once: ``python -m benchmarks.worker contestant NAME CONTESTANT``."""

from __future__ import annotations

import json
import os
import sys
import time

from benchmarks.harness import Contest, Options, peak_mb
from benchmarks.registry import find


def main(arguments: list[str]) -> None:
    started = float(os.environ["BENCHMARK_STARTED"])
    options = Options(quick="--quick" in arguments)
    _, name, who, *_ = arguments
    contest = find(name)
    assert isinstance(contest, Contest)
    contestant = next(c for c in contest.contestants if c.name == who)
    contestant.open(contest.data(options))()
    print(json.dumps({"seconds": time.time() - started, "peak_mb": peak_mb()}))


if __name__ == "__main__":
    main(sys.argv[1:])
