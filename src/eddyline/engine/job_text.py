"""The text of a job: from a file, from standard input, or from a pipe."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from eddyline.core.errors import JobError, did_you_mean_file

STANDARD_INPUT: Final = "-"
_DESCRIPTORS: Final = tuple(map(Path, ("/dev", "/dev/fd", "/proc/self/fd")))


@dataclass(frozen=True, slots=True)
class JobText:
    """``base`` is what relative paths of the job are relative to: the folder of its file, or the current folder if the
    job came through a pipe, which has none. ``file`` is None then."""

    text: str
    base: Path
    file: Path | None = None
    takes_input: bool = False  # the job itself came from standard input, so no source can


def read_job(path: Path) -> JobText:
    """Read a job file; ``-`` is standard input, and a pipe such as ``/dev/stdin`` or ``<(…)`` is read like a file."""
    if str(path) == STANDARD_INPUT:
        return JobText(_decoded(sys.stdin.buffer.read(), "the job on standard input"), Path(), takes_input=True)
    check_path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise JobError(f"the job {str(path)!r} cannot be read: {error.strerror}.") from error
    text = _decoded(data, path.name)
    if path.parent in _DESCRIPTORS or path.is_fifo():
        return JobText(text, Path(), takes_input=path.name in ("stdin", "0"))
    return JobText(text, path.parent, path)


def check_path(path: Path) -> None:
    """Refuse a path at which no job stands, naming what stands next to it."""
    if str(path) == STANDARD_INPUT:
        return
    if path.is_dir():
        raise JobError(f"{path} is a directory; a job is a file such as job.cql.")
    if not path.exists():
        folder = path.parent
        near = did_you_mean_file(path.name, [p.name for p in folder.iterdir()]) if folder.is_dir() else ""
        raise JobError(f"there is no job file {str(path)!r}.{near}")


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")  # some editors put a mark before the text
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        raise JobError(f"{name} is not UTF-8 text: line {line} holds the byte 0x{data[e.start]:02x}.") from None
