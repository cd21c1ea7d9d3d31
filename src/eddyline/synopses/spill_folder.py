"""Folders for spilled rows: one for each spill, gone with it, and swept away by the next if its process was killed.

Files in them need not outlive their process: what a restart needs of them is in the snapshots, whose pieces have
digests and are brought to the disk before the manifest that names them. So segments are not synced, and a folder whose
owner is gone can be removed. An owner holds the lock (``flock``) of the file ``lock``.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from pathlib import Path

from eddyline.core.errors import EddylineError, JobError

PREFIX, LOCK = "spill-", "lock"


class SpillFolder:
    """A new folder in ``directory`` (None: that of the system for temporary files)."""

    def __init__(self, directory: str | None) -> None:
        try:
            if directory is not None:
                Path(directory).mkdir(parents=True, exist_ok=True)
                sweep(Path(directory))
            self.path, file = _made(directory)
        except OSError as error:
            raise EddylineError(_refused(directory, error)) from error
        weakref.finalize(self, _remove, self.path, file)


def check_directory(directory: str) -> None:
    """Refuse a directory in which no rows can be spilled, when a session starts and not when it runs out of memory."""
    try:
        Path(directory).mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(prefix=PREFIX, dir=directory):
            pass
    except OSError as error:
        raise JobError(_refused(directory, error)) from error


def sweep(directory: Path) -> int:
    """Remove the folders whose processes are gone; how many those are."""
    removed = 0
    for path in directory.glob(f"{PREFIX}*/{LOCK}"):
        with contextlib.suppress(OSError):
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                if _locked(file):
                    shutil.rmtree(path.parent, ignore_errors=True)
                    removed += 1
            finally:
                os.close(file)
    return removed


def _made(directory: str | None) -> tuple[Path, int]:
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=directory))
        file = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if _locked(file) is not False and (path / LOCK).exists():
            return path, file
        os.close(file)  # another process removed the folder before it was locked


def _locked(file: int) -> bool | None:
    """Lock a file: whether no other process holds the lock; None: there are no locks here, and old folders stay."""
    try:
        import fcntl
    except ImportError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _remove(path: Path, file: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.close(file)


def _refused(directory: str | None, error: OSError) -> str:
    place = directory or "the system's folder for temporary files"
    return f"cannot spill to {place}: {error.strerror or error}."
