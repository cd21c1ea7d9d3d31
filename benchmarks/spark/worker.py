"""A driver process: reads a configuration as a line of JSON, runs it, prints a line with its outcome, until the end.

In a full run it gets one configuration, so that none profits from another's warmth or pays for its memory.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

from benchmarks.spark.configuration import Configuration
from benchmarks.spark.driver import run, session

MARK = "OUTCOME "


def main() -> None:
    started = float(os.environ["BENCHMARK_STARTED"])
    spark = None
    with tempfile.TemporaryDirectory(prefix="benchmark-", ignore_cleanup_errors=True) as folder:
        try:
            for line in sys.stdin:
                c = Configuration(**json.loads(line))
                spark = spark or session(c, folder)
                print(MARK + json.dumps(run(spark, c, folder, started).to_json()), flush=True)
        finally:
            if spark is not None:
                spark.stop()


if __name__ == "__main__":
    main()
