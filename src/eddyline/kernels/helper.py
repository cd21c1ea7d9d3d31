"""A separate process that compiles kernels, so that this one can go on, or be interrupted, meanwhile.

It reads names of kernels from its standard input, compiles one after another and saves each in the cache, where this
process finds them. It ends when no request has come in a while, and when the process that started it is gone, but not
before it has saved the kernel that it is compiling: so an interrupted first run is not in vain. While a kernel is being
compiled, the process that requested it holds its lock: of several processes one requests it, and the others wait.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
import time

from eddyline.kernels import cache

PROCESS = "eddyline.kernels.compile_process"  # by name: it imports what calls this module
SECONDS_BETWEEN_LOOKS = 0.02  # into the cache

_process: subprocess.Popen[bytes] | None = None
_owner = 0  # the process that has started it: one that was forked since starts its own
_locks: dict[str, contextlib.ExitStack] = {}  # of the kernels that were asked for
_failed: set[str] = set()  # kernels that it has not saved: they are not asked for again


def compiled(kernel: str, *, wait: bool) -> bool | None:
    """Have a kernel compiled. True: it is in the cache. False: not yet, which ``wait`` does not return. None: it cannot
    be had this way."""
    while True:
        if cache.holds(kernel):
            release(kernel)
            return True
        if kernel in _failed:
            return None
        if kernel in _locks:
            if _process is None or _owner != os.getpid() or _process.poll() is not None:
                _failed.add(kernel)
                release(kernel)
                continue  # it may have been saved just now
        elif _lock(kernel) and not cache.holds(kernel) and not _ask(kernel):
            _failed.add(kernel)
            release(kernel)
        if not wait:
            return False
        time.sleep(SECONDS_BETWEEN_LOOKS)


def _lock(kernel: str) -> bool:
    with contextlib.ExitStack() as stack:
        if stack.enter_context(cache.locked(kernel, wait=False)):
            _locks[kernel] = stack.pop_all()
            return True
    return False


def release(kernel: str) -> None:
    """Give up the lock of a kernel, if this process has it for one that it has asked for."""
    lock = _locks.pop(kernel, None)
    if lock is not None:
        lock.close()


def _ask(kernel: str) -> bool:
    for _ in range(2):  # the one that is there may be about to end
        process = _running()
        if process is None or process.stdin is None:
            return False
        with contextlib.suppress(OSError):
            process.stdin.write(f"{kernel}\n".encode())
            return True
        process.wait()
    return False


def _running() -> subprocess.Popen[bytes] | None:
    global _process, _owner
    if _process is not None and _owner == os.getpid() and _process.poll() is None:
        return _process
    if not sys.executable:
        return None
    try:
        _process = subprocess.Popen(
            [sys.executable, "-P", "-m", PROCESS, str(cache.directory())],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            start_new_session=True,  # Ctrl-C is not for it
        )
    except OSError:
        return None
    if _owner != os.getpid():
        _owner = os.getpid()
        atexit.register(_leave, _owner)
    return _process


def _leave(owner: int) -> None:
    """At the end of this process: the other one ends by itself, after the kernel that it is at."""
    if _process is not None and _process.stdin is not None and owner == os.getpid():
        with contextlib.suppress(OSError):
            _process.stdin.close()
        if _process.poll() is None:
            _process.returncode = 0  # no call waits for it
