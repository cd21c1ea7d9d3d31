"""Spark's classes, kept ready to map into memory (class data sharing): a JVM that starts in about half of the time.

Most of the time of a small job on Spark is the JVM's: it reads, verifies and warms up some twenty thousand classes.
Java can write them to a file when it ends, in its internal form, and map that file at the next start:

    python -m eddyline.spark.archive

runs a small job and writes the file, once for a machine or an image; sessions of the command line use it where it is.
It belongs to one Java and one set of jars: its name is a hash of both, and a JVM that finds anything else different
(class path, garbage collector) goes on without it, silently. It takes 0.2 GB beside the compiled kernels, where
``EDDYLINE_CACHE_DIR`` moves both; ``EDDYLINE_SPARK_ARCHIVE=off`` does without.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from pathlib import Path
from typing import Final

from eddyline.core.folders import cache_folder, why_distrusted
from eddyline.spark import home

SWITCH: Final = "EDDYLINE_SPARK_ARCHIVE"
# The JVM writes its header last: a file that begins otherwise was cut off.
HEADER: Final = (0xF00BABA8).to_bytes(4, sys.byteorder)
SILENT: Final = "-Xlog:disable -Xlog:all=error:stderr"


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
    """Whether the JVM that wrote it came to its end, and no other user can have written what is then run."""
    try:
        if why_distrusted(file):
            return False
        with file.open("rb") as data:
            return data.read(len(HEADER)) == HEADER
    except OSError:
        return False
