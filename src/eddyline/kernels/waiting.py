"""What is told while a call waits for the compiler. Apart from ``compile``, so that who tells need not load numba."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from typing import Final

COMPILING: Final = "compiling kernels for larger inputs, once on this machine"


def _tell(text: str) -> contextlib.AbstractContextManager[None]:
    """Say once that compilation is under way: a first run is slow, and silence looks like a hang."""
    _print_once(text)
    return contextlib.nullcontext()


@functools.cache
def _print_once(text: str) -> None:
    if sys.stderr.isatty():
        print(f"eddyline: {text}; 'eddyline warm' compiles all in advance …", file=sys.stderr)


# Entered while a call waits for the compiler; who has a progress line puts a note there in its place.
telling: Callable[[str], contextlib.AbstractContextManager[None]] = _tell
