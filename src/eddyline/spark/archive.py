"""Spark's classes, kept ready to map into memory (class data sharing): a JVM that starts in about half of the time.

Most of what a small job on Spark costs is the JVM reading, verifying and warming up some twenty thousand classes. Java
can write them down as it ends, in the form in which it holds them, and map that file the next time:

    python -m eddyline.spark.archive

runs a small job and writes the file, once for a machine or an image; sessions of the command line use it where it is.
It belongs to one Java and one set of jars: its name is a hash of both, and a JVM that finds anything else different
(class path, garbage collector) goes on without it and says nothing. It takes 0.2 GB beside the compiled kernels, where
``EDDYLINE_CACHE_DIR`` moves both; ``EDDYLINE_SPARK_ARCHIVE=off`` does without.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from eddyline.core.folders import cache_folder, why_distrusted
from eddyline.spark import home

SWITCH: Final = "EDDYLINE_SPARK_ARCHIVE"
# The JVM writes its header last: a file that begins otherwise was cut off.
HEADER: Final = (0xF00BABA8).to_bytes(4, sys.byteorder)
SILENT: Final = "-Xlog:disable -Xlog:all=error:stderr"
# Reads files, packs, shuffles, keeps state and writes results: the classes that jobs need. What Spark reads itself is
# tried after it (``_train_frames``).
TRAINING: Final = """
CREATE STREAM a FROM 'a.csv' TIMESTAMP BY t;
CREATE STREAM b FROM 'b.csv' TIMESTAMP BY t;
pairs: SELECT Istream(a.k, b.v) FROM a [RANGE 10], b [RANGE 10] WHERE a.k = b.k;
sums: SELECT k, sum(v) AS total FROM a [ROWS 100] GROUP BY k;
large: SELECT k, v FROM b WHERE v > 500;
"""


def options(java: str, spark_home: Path) -> str:
    """The JVM's options to use the archive (or to write it, for ``write`` below); none where there is none."""
    wish = os.environ.get(SWITCH, "").lower()
    if wish in ("off", "0", "false", "no"):
        return ""
    file = place(java, spark_home)
    if wish == "write":
        return f"-XX:ArchiveClassesAtExit={file} {SILENT}"
    return f"-XX:SharedArchiveFile={file} {SILENT}" if complete(file) and " " not in str(file) else ""


def folder() -> Path:
    return cache_folder()


def place(java: str, spark_home: Path) -> Path:
    """Where the archive for this Java and these jars is, if it is."""
    digest = hashlib.sha256()
    runtime = Path(java).resolve()
    for file in (runtime, runtime.parent.parent / "lib" / "modules", *home.jars(spark_home)):
        with contextlib.suppress(OSError):
            found = file.stat()
            digest.update(f"{file} {found.st_size} {found.st_mtime_ns}\n".encode())
    return folder() / f"spark-{digest.hexdigest()[:16]}.jsa"


def complete(file: Path) -> bool:
    """Whether the JVM that wrote it came to its end, and nobody else can have written what is then run."""
    try:
        if why_distrusted(file):
            return False
        with file.open("rb") as data:
            return data.read(len(HEADER)) == HEADER
    except OSError:
        return False


def write() -> Path:
    """Run a small job in a JVM that writes the archive as it ends, and wait for that."""
    from eddyline.core.errors import EddylineError
    from eddyline.spark import requirements

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
    from eddyline.cli import main as command_line
    from eddyline.core.errors import EddylineError

    for name in "ab":
        rows = "".join(f"{t},{t * 7 % 10},{t * 31 % 1000}\n" for t in range(1000))
        (job / f"{name}.csv").write_text(f"t,k,v\n{rows}")
    (job / "job.cql").write_text(TRAINING)
    status = command_line(["run", str(job / "job.cql"), "--runtime", "spark", "--out", str(job / "out"), "--quiet"])
    if status != 0:
        raise EddylineError("the job that the archive is made from has failed.")
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
    from eddyline.core.errors import EddylineError

    try:
        file = write()
    except EddylineError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    print(f"{file} ({file.stat().st_size / 1e6:.0f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
