"""One user of a directory at a time, by a lock that ends with its process.

The lock is the system's own (``flock``) on the file ``lock`` in the directory, so whatever ends a process, a kill
included, ends its lock; a file that was left behind locks nothing. The owner removes the file when it is done. So a
process that opened it before that and locks it afterwards has locked a file that is no longer there: after locking it
checks that the name still belongs to this file.

The lock belongs to the open file and not to the process, so two sessions of one process exclude each other too. A child
that is forked would keep the open file, and with it the lock, beyond its parent's end; so children close it. Programs
that are started do not inherit it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sys
import weakref
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from eddyline.core.errors import EddylineError
from eddyline.io.durable import private

FILE: Final = "lock"
_BUSY: Final = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)

_held: weakref.WeakSet[DirectoryLock] = weakref.WeakSet()


class DirectoryLock:
    """Entered, it owns the directory, which must exist; a directory that has an owner is refused in a sentence.

    On a file system without locks nothing is refused: to do so would keep its users from working at all. ``what`` is
    how the sentence calls the directory. ``reading``: the directory may be one where nothing can be
    written, and then needs no lock.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, DirectoryLock(Path(folder), "the checkpoint"):
    ...     DirectoryLock(Path(folder), "the checkpoint").__enter__()
    Traceback (most recent call last):
    ...
    eddyline.core.errors.EddylineError: the checkpoint '...' is in use by process ...; wait until it ends, or ...
    """

    def __init__(self, directory: Path, what: str, *, reading: bool = False) -> None:
        self.directory, self.what, self.reading = directory, what, reading
        self._file: int | None = None

    def __enter__(self) -> Self:
        try:
            while self._file is None:
                self._file = self._taken()
        except OSError as error:
            if not self.reading or error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise EddylineError(f"{self.directory / FILE} cannot be written: {error.strerror}.") from error
        else:
            _held.add(self)
        return self

    def _taken(self) -> int | None:
        """The file, locked; None: it was removed meanwhile, and another has its name."""
        path = self.directory / FILE
        file = private(str(path), os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0))
        try:
            if try_lock(file) is False:
                raise EddylineError(
                    f"{self.what} {str(self.directory)!r} is in use{_owner(file)}; wait until it ends, or give a"
                    " directory of its own."
                )
            if not is_at(file, path):
                os.close(file)
                return None
            os.ftruncate(file, 0)
            os.lseek(file, 0, os.SEEK_SET)
            os.write(file, f"{os.getpid()} {socket.gethostname()}\n".encode())
        except BaseException:
            os.close(file)
            raise
        return file

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the directory."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                (self.directory / FILE).unlink()
            self.forget()

    def forget(self) -> None:
        """Close the file; the directory stays with the process that holds its lock."""
        _held.discard(self)
        if self._file is not None:
            os.close(self._file)
            self._file = None


def try_lock(file: int) -> bool | None:
    """Lock an open file for as long as it is open; False if another process has it locked. None: the file system has no
    locks, so it is not known."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(file, 1 << 30, os.SEEK_SET)  # far behind what the file says of its owner, which can be read then
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in _BUSY else None
    return True


def is_at(file: int, path: Path) -> bool:
    """Whether an open file is the one that has this name now."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file), path.stat())
    return False


def _owner(file: int) -> str:
    """Who wrote that the directory is theirs; nothing if that cannot be read."""
    with contextlib.suppress(OSError, ValueError):
        os.lseek(file, 0, os.SEEK_SET)
        process, host = os.read(file, 200).decode().split()
        return f" by process {int(process)}" + ("" if host == socket.gethostname() else f" of {host}")
    return ""


def _close_in_child() -> None:
    # Closing does not unlock: the parent's descriptor still holds the lock.
    for lock in list(_held):
        lock.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
