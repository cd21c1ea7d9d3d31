"""Run the benchmarks on Spark, print a table, write JSON.

python -m benchmarks.spark.run [--only NAME …] [--quick] [--rounds N] [--no-fresh] [--out FILE]
"""

from __future__ import annotations

import sys

from benchmarks import run
from benchmarks.spark.registry import ALL


def main(arguments: list[str] | None = None) -> int:
    return run.main(
        arguments, ALL, "benchmarks.spark.run", __doc__, rounds=1, results=("spark.json", "spark-part.json")
    )


if __name__ == "__main__":
    sys.exit(main())
