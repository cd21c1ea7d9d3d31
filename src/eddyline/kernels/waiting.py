"""The message that is shown while a call waits for the compiler. Not in ``compile``, so that the code that shows it
need not load numba."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from typing import Final

COMPILING: Final = "compiling kernels for larger inputs, once on this machine"


def _print_at_first_wait(text: str) -> contextlib.AbstractContextManager[None]:
    """Print once that compilation is under way: a first run is slow, and silence looks like a hang."""
    _print_once(text)
    return contextlib.nullcontext()


@functools.cache
def _print_once(text: str) -> None:
    if sys.stderr.isatty():
        print(f"eddyline: {text}; 'eddyline warm' compiles all in advance …", file=sys.stderr)


# Entered while a call waits for the compiler; a program with a progress line puts a note there instead.
announce: Callable[[str], contextlib.AbstractContextManager[None]] = _print_at_first_wait
