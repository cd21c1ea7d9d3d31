"""Files that a later start relies on: complete under their name, on the disk, and readable by their owner only.

A name appears by a rename, so it never stands for half a file. A rename alone survives the end of a process, not a
loss of power: the disk may have the name and not the data. A writer whose file names another one therefore brings the
named one to the disk first (``sync``): its data, and the folder that has its name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

Bytes = bytes | memoryview

TEMPORARY: Final = ".tmp"  # behind the name of a file that is being written, or whose writer was killed
SYNCS_AT_ONCE: Final = 16  # files that are synced in parallel
HALF: Final = re.escape(TEMPORARY)
_FILE, _FOLDER = 0o600, 0o700


def make_folder(path: Path) -> None:
    """Make a private folder, and those above it as others are made; one that exists stays as it is."""
    if path.is_dir():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=_FOLDER, exist_ok=True)
    sync([path.parent])


def write(path: Path, data: Bytes, *, synced: bool = True) -> None:
    """Put a file under this name, whole or not at all. Not ``synced``: the caller does that later, for many at once."""
    temporary = path.with_name(path.name + TEMPORARY)
    temporary.unlink(missing_ok=True)  # it could belong to a killed write, with other rights
    try:
        with open(temporary, "wb", opener=private) as file:
            file.write(data)
            if synced:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def private(path: str, flags: int) -> int:
    """Opens a file that only its owner can read, for ``open(…, opener=private)``."""
    return os.open(path, flags, _FILE)


def sync(paths: Collection[Path]) -> None:
    """Bring files and folders to the disk: the data of the ones, the names in the others. All at once, since a disk
    that is asked for many things together does most of them in one go."""
    if len(paths) == 1:
        _sync(*paths)
    elif paths:
        with ThreadPoolExecutor(min(len(paths), SYNCS_AT_ONCE)) as pool:
            list(pool.map(_sync, paths))


def _sync(path: Path) -> None:
    is_folder = path.is_dir()
    if is_folder and os.name != "posix":
        return
    file = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
    try:
        os.fsync(file)
    except OSError as error:
        if not is_folder or error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise  # some file systems cannot sync a folder, and need not
    finally:
        os.close(file)


def remove(folder: Path, pattern: str, but: Collection[str] = ()) -> None:
    """Remove the files of a folder whose whole name matches, but for some. Other files are not ours."""
    if folder.is_dir():
        for path in folder.iterdir():
            if path.name not in but and re.fullmatch(pattern, path.name) and not path.is_dir():
                path.unlink(missing_ok=True)
