"""Writes the archive of Spark's classes (``class_archive``): ``python -m eddyline.spark.archive``.

A small job runs in a JVM that writes its classes to the archive when it ends.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from eddyline.core.errors import EddylineError
from eddyline.spark import home, requirements
from eddyline.spark.class_archive import SWITCH, complete, place

# Reads files, packs, shuffles, keeps state and writes results: the classes that jobs need. What Spark reads itself is
# tried after it (``_train_frames``).
TRAINING: Final = """
CREATE STREAM a FROM 'a.csv' TIMESTAMP BY t;
CREATE STREAM b FROM 'b.csv' TIMESTAMP BY t;
pairs: SELECT Istream(a.k, b.v) FROM a [RANGE 10], b [RANGE 10] WHERE a.k = b.k;
sums: SELECT k, sum(v) AS total FROM a [ROWS 100] GROUP BY k;
large: SELECT k, v FROM b WHERE v > 500;
"""


def write() -> Path:
    """Run a small job in a JVM that writes the archive as it ends, and wait for that."""
    requirements.check()
    java, spark_home = requirements.find_java(), home.installed_home()
    file = place(java, spark_home)
    conf = spark_home / "conf"
    if " " in str(file):
        raise EddylineError(f"Java takes no blank in the name of {file}; move it with EDDYLINE_CACHE_DIR.")
    if "SPARK_CONF_DIR" in os.environ or (conf.is_dir() and any(conf.iterdir())):
        raise EddylineError("Java archives no class path with a folder of settings (SPARK_CONF_DIR, or Spark's conf).")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        for old in file.parent.glob("spark-*.jsa"):  # of another Java or another Spark
            old.unlink()
    except OSError as error:
        raise EddylineError(f"cannot write to {file.parent} ({error.strerror}); set EDDYLINE_CACHE_DIR.") from None
    os.environ[SWITCH] = "write"
    with tempfile.TemporaryDirectory(prefix="eddyline-") as place_of_job:
        _train(Path(place_of_job))
    _end()
    with contextlib.suppress(OSError):
        file.chmod(0o644)  # whatever the user's mask: one that others can write is not used
    if not complete(file):
        raise EddylineError(f"Java has not written {file}; is the disk full?")
    return file


def _train(job: Path) -> None:
    from eddyline.spark.job import run_job

    for name in "ab":
        rows = "".join(f"{t},{t * 7 % 10},{t * 31 % 1000}\n" for t in range(1000))
        (job / f"{name}.csv").write_text(f"t,k,v\n{rows}")
    (job / "job.cql").write_text(TRAINING)
    run_job(
        job / "job.cql",
        master=None,
        shards=None,
        out=job / "out",
        report=None,
        checkpoint=None,
        strict=False,
        progress=None,
        stdout=sys.stdout,
    )
    _train_frames(job)


def _train_frames(job: Path) -> None:
    """The same for Spark's own sources: Parquet read as a stream, joined, and written."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql import SparkSession

    import eddyline.spark as eds

    spark: Any = SparkSession.builder.getOrCreate()
    frames = {}
    for name in "ab":
        (job / name).mkdir()
        for n in range(2):
            t = list(range(1000 * n, 1000 * n + 1000))
            rows = {"t": pa.array(t, pa.timestamp("s", "UTC")), "k": [x * 7 % 10 for x in t], "v": [x / 7 for x in t]}
            pq.write_table(pa.table(rows), job / name / f"{n}.parquet")
        reader = spark.readStream.schema("t timestamp, k long, v double").option("maxFilesPerTrigger", 1)
        frames[name] = reader.parquet(str(job / name))
    pairs = eds.window_join(frames, on="k", within="10 seconds", timestamp="t")
    writer = pairs.writeStream.format("parquet").option("path", str(job / "pairs"))
    writer.option("checkpointLocation", str(job / "checkpoint")).trigger(availableNow=True).start().awaitTermination()


def _end() -> None:
    """The JVM ends when its standard input does, and writes the archive before that."""
    from pyspark import SparkContext

    context, gateway = SparkContext._active_spark_context, SparkContext._gateway
    if context is not None:
        context.stop()
    if gateway is not None:
        process: Any = gateway.proc
        process.stdin.close()
        process.wait()


def main() -> int:
    try:
        file = write()
    except EddylineError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    print(f"{file} ({file.stat().st_size / 1e6:.0f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
