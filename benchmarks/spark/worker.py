"""A driver process: ``python -m benchmarks.spark.worker CONFIGURATIONS``, a JSON list; a line of JSON for each.

In a full run the list has one configuration, so that none profits from another's warmth or pays for its memory.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

from benchmarks.spark.configuration import Configuration
from benchmarks.spark.driver import run, session

MARK = "OUTCOME "


def main(told: str) -> None:
    started = float(os.environ["BENCHMARK_STARTED"])
    asked = [Configuration(**c) for c in json.loads(told)]
    with tempfile.TemporaryDirectory(prefix="benchmark-", ignore_cleanup_errors=True) as folder:
        spark = session(asked[0].memory, folder)
        try:
            for c in asked:
                print(MARK + json.dumps(run(spark, c, folder, started).to_json()), flush=True)
        finally:
            spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
