"""The folders for files that are made once on a machine (compiled kernels, Spark's classes), and whether they are safe.

These files are run as they are: a kernel's index is a pickle, and a compiled kernel is machine code. So a folder is
used only if no user but this one (and root) can have put a file into it.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

VARIABLE = "EDDYLINE_CACHE_DIR"


def cache_folder() -> Path:
    """``EDDYLINE_CACHE_DIR``, else the user's folder for such things."""
    base = os.environ.get(VARIABLE) or os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base).absolute() / "eddyline"


def temporary_folder() -> Path:
    """This user's own folder among the temporary files, for when the other one cannot be used."""
    return Path(tempfile.gettempdir()).absolute() / f"eddyline-{_user()}"


def why_unusable(folder: Path) -> str:
    """Make the folder, if it is not there, for this user alone. Returns what forbids to use it, or nothing."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        reason = why_distrusted(folder)
        if not reason:
            tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        return f"cannot be written ({error.strerror})"
    return reason


def why_distrusted(path: Path) -> str:
    """Who else can have written a file or folder, or nothing.

    The path itself must belong to this user or to root (an image that was prepared), and no other user may write to it.
    A folder above it must not belong to a third user either, nor be writable by all, unless it has the sticky bit (as
    /tmp has): a user who can write there can put another folder in the place of ours. Symbolic links are followed
    first. On a system without owners of files the answer is empty.
    """
    if not hasattr(os, "geteuid"):
        return ""
    place = path.resolve()
    for at in (place, *place.parents):
        found = at.stat()
        what = "it" if at == place else str(at)
        if found.st_uid not in (_user(), 0):
            return f"is not safe to load from: {what} belongs to another user"
        if at == place and found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return "is not safe to load from: other users can write to it"
        if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
            return f"is not safe to load from: other users can write to {what}"
    return ""


def candidates() -> Iterator[Path]:
    """Folders to keep things in, the best first."""
    yield cache_folder()
    yield temporary_folder()


def _user() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0
