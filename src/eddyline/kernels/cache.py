"""The folder of compiled kernels: one subfolder for each kernel, and a lock beside it.

numba does not notice a changed callee in another file, so the folder is named by a hash of all of ``kernels/``, of
Python, numba and the processor: any change there starts a fresh cache. A kernel is saved as soon as it is compiled, in
files that appear whole. The lock of a kernel is held while it is compiled, so that several processes (the workers of
Spark) do not compile the same one; the system releases it when its holder ends in any way.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numba
from llvmlite import binding

from eddyline.core.folders import VARIABLE, candidates, why_distrusted, why_unusable

try:
    import fcntl
except ImportError:  # without locks each process compiles for itself, and the last one to save wins
    fcntl = None  # type: ignore[assignment]


def _name() -> str:
    digest = hashlib.sha256(f"{sys.implementation.cache_tag} {numba.__version__}".encode())
    digest.update(f"{binding.get_host_cpu_name()} {binding.get_host_cpu_features().flatten()}".encode())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return f"kernels-{digest.hexdigest()[:16]}"


_given: Path | None = None


def use(folder: Path) -> None:
    """Take the folder that another process of this user has found."""
    global _given
    _given = folder


def directory() -> Path:
    """The folder in use."""
    return _given or _found()


@functools.cache
def _found() -> Path:
    """The first folder to which this user can write, and no other user; if there is none, one for this process.

    One that was prepared by root is not written to: what is in it is copied, once.
    """
    name = _name()
    prepared: Path | None = None
    for base in candidates():
        folder = base / name
        reason = why_unusable(folder)
        if not reason:
            if prepared is not None and not any(folder.iterdir()):
                _copy(prepared, folder)
            return folder
        with contextlib.suppress(OSError):
            if not why_distrusted(folder):
                prepared = folder
                continue
        print(
            f"eddyline: the folder of compiled kernels {folder} {reason}; another is used. "
            f"Set {VARIABLE} to a folder that is yours alone.",
            file=sys.stderr,
        )
    folder = Path(tempfile.mkdtemp(prefix="eddyline-"))
    atexit.register(_remove, folder, os.getpid())
    return folder


def _copy(prepared: Path, folder: Path) -> None:
    """What was compiled, not who may write it."""
    for above, _, files in os.walk(prepared):
        here = folder / Path(above).relative_to(prepared)
        here.mkdir(exist_ok=True)
        for file in files:
            if file.endswith((".nbi", ".nbc")):
                shutil.copyfile(Path(above) / file, here / file)


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def folder_of(kernel: str) -> Path:
    return directory() / kernel


def holds(kernel: str) -> bool:
    """Whether a kernel has been compiled. numba writes the index before the code: where code is, all is."""
    try:
        return any(file.endswith(".nbc") for _, _, files in os.walk(folder_of(kernel)) for file in files)
    except OSError:
        return False


def forget(kernel: str) -> None:
    """Remove a compiled kernel."""
    for file in list(folder_of(kernel).rglob("*.nb[ci]")):
        file.unlink(missing_ok=True)


def uncompiled_before(kernel: str) -> float:
    """Seconds for which processes have run a kernel uncompiled."""
    try:
        return float((directory() / f"{kernel}.uncompiled").read_text())
    except (OSError, ValueError):
        return 0.0


def add_uncompiled(kernel: str, seconds: float) -> None:
    """Note such seconds. Of two processes that do so at once one may be lost: it is a hint."""
    with contextlib.suppress(OSError):
        (directory() / f"{kernel}.uncompiled").write_text(f"{uncompiled_before(kernel) + seconds:.3f}")


@contextlib.contextmanager
def locked(kernel: str, *, wait: bool = True) -> Iterator[bool]:
    """Hold a kernel's lock; without ``wait``: only if no other process does. Returns whether it is held."""
    if fcntl is None:
        yield True
        return
    with (directory() / f"{kernel}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True
