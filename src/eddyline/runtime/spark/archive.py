"""Spark's classes, kept ready to map into memory (class data sharing): a JVM that starts in about half of the time.

Two thirds of what a small job on Spark costs is the JVM reading, verifying and warming up some twenty thousand classes.
Java can write them down as it ends, in the form in which it holds them, and map that file the next time. The first
session on a machine writes the file (after this process has ended, so that nobody waits for it), every later one uses
it. It belongs to one Java and one set of jars: its name is a hash of both, and a JVM that finds anything else
different (class path, garbage collector) goes on without it and says nothing.

``EDDYLINE_SPARK_ARCHIVE=off`` does without, ``EDDYLINE_CACHE_DIR`` moves it, as it moves the compiled kernels.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from pathlib import Path
from typing import Final

SWITCH: Final = "EDDYLINE_SPARK_ARCHIVE"
# The JVM writes its header last: a file that begins otherwise was cut off.
HEADER: Final = (0xF00BABA8).to_bytes(4, sys.byteorder)
SILENT: Final = "-Xlog:disable -Xlog:all=error:stderr"


def options(java: str, spark_home: Path) -> str:
    """The JVM's options to use the archive, or to write it; none where neither is possible."""
    if os.environ.get(SWITCH, "").lower() in ("off", "0", "false", "no") or not archivable(spark_home):
        return ""
    file = place(java, spark_home)
    if complete(file):
        return f"-XX:SharedArchiveFile={file} {SILENT}"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        for old in file.parent.glob("spark-*.jsa"):  # of another Java or another Spark: 0.2 GB each
            old.unlink()
    except OSError:
        return ""
    return f"-XX:ArchiveClassesAtExit={file} {SILENT}" if os.access(file.parent, os.W_OK) else ""


def archivable(spark_home: Path) -> bool:
    """Java archives no class path with a folder that has anything in it, and options are split at blanks."""
    if "SPARK_CONF_DIR" in os.environ or " " in str(folder()):
        return False
    conf = spark_home / "conf"
    return not (conf.is_dir() and any(conf.iterdir()))


def folder() -> Path:
    base = os.environ.get("EDDYLINE_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base).absolute() / "eddyline"


def place(java: str, spark_home: Path) -> Path:
    """Where the archive for this Java and these jars is, if it is."""
    digest = hashlib.sha256()
    runtime = Path(java).resolve()
    for file in (runtime, runtime.parent.parent / "lib" / "modules", *sorted((spark_home / "jars").glob("*.jar"))):
        with contextlib.suppress(OSError):
            found = file.stat()
            digest.update(f"{file} {found.st_size} {found.st_mtime_ns}\n".encode())
    return folder() / f"spark-{digest.hexdigest()[:16]}.jsa"


def complete(file: Path) -> bool:
    """Whether the JVM that wrote it came to its end."""
    try:
        with file.open("rb") as data:
            return data.read(len(HEADER)) == HEADER
    except OSError:
        return False
