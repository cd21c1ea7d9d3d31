"""Compile all kernels in advance, so that no job has to: ``eddyline warm``, and part of what ``make test`` sets up."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
import time
from typing import TextIO

from eddyline import kernels
from eddyline.kernels import cache
from eddyline.kernels.compile import Kernel, registered

ERASE = "\r\x1b[K"  # the line on which the cursor is


def all_kernels() -> list[Kernel]:
    """Every kernel of the package, the quick ones first: what is interrupted has most of them."""
    for module in pkgutil.iter_modules(kernels.__path__, f"{kernels.__name__}."):
        importlib.import_module(module.name)
    mine = [k for name, k in registered.items() if name.startswith(f"{kernels.__name__}.")]
    return sorted(mine, key=lambda k: k.seconds)


def warm(out: TextIO | None = None) -> int:
    """Compile what is not in the cache, each kernel saved as it is ready; returns how many. A terminal shows which one
    is being compiled, anything else a line for each that is done."""
    out = out or sys.stdout
    every = all_kernels()
    if not every:
        print("NUMBA_DISABLE_JIT is set: kernels run as plain Python, there is nothing to compile.", file=out)
        return 0
    missing = [k for k in every if not cache.holds(k.name)]
    print(f"{len(missing)} of {len(every)} kernels are to be compiled into {cache.directory()}", file=out)
    began, done = time.perf_counter(), 0
    terminal = out.isatty() and os.environ.get("TERM") != "dumb"
    for number, kernel in enumerate(missing, 1):
        before = time.perf_counter()
        name = kernel.name.rpartition("kernels.")[2]
        if terminal:
            print(f"{ERASE}  {number} of {len(missing)}: {name}", end="", file=out, flush=True)
        was_there = cache.holds(kernel.name)  # part of one that was compiled before it, or made by another process
        kernel.compile()
        took = time.perf_counter() - before
        done += not was_there
        if not was_there and not terminal:
            print(f"  {name:36s} {took:6.1f} s", file=out, flush=True)
    print(f"{ERASE * terminal}all kernels are compiled, in {time.perf_counter() - began:.1f} s", file=out)
    return done
