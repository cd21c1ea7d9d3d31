"""Which paths a request may name: those below the folders that the server was started with, and no others."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

from eddyline.core.errors import JobError, quoted
from eddyline.io.generator import SCHEME


def check_source(source: str | None, folders: Sequence[Path]) -> None:
    """Refuse a source that lies elsewhere. Links count as what they lead to, a pattern as all that it matches.

    >>> check_source("generate:packets?seconds=2", [])
    >>> check_source("/etc/passwd", [Path("/srv/data")])
    Traceback (most recent call last):
    ...
    eddyline.core.errors.JobError: '/etc/passwd' is not below a folder that the server was started with (--data).
    """
    if source is None or source.startswith(SCHEME):
        return
    if source == "-" or source.lower().startswith("spark:"):
        raise JobError(f"a server does not read {quoted(source)}: push rows, or name a file below a --data folder.")
    if "://" in source and not source.startswith("file://"):
        raise JobError(f"a server reads files below its --data folders and generators, not {quoted(source)}.")
    refused = JobError(f"{quoted(source)} is not below a folder that the server was started with (--data).")
    if not folders:
        raise JobError("the server was started without --data, so sources cannot be files: push rows instead.")
    try:
        path = Path(source.removeprefix("file://")).expanduser()
        path = path if path.is_absolute() else folders[0] / path
        fixed = path
        while glob.has_magic(str(fixed)):
            fixed = fixed.parent
        if not _below(fixed, folders) or (".." in path.parts):
            raise refused
        matched = [Path(p) for p in glob.glob(str(path), recursive=True)] if fixed != path else [path]  # noqa: PTH207
        for found in matched:
            inside = list(found.iterdir()) if found.is_dir() else []
            if not all(_below(p, folders) for p in (found, *inside)):
                raise refused
    except (OSError, ValueError, RuntimeError) as error:
        raise refused from error


def _below(path: Path, folders: Sequence[Path]) -> bool:
    real = path.resolve()
    return any(real.is_relative_to(f.resolve()) for f in folders)
