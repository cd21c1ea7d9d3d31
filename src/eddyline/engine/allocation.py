"""Keeps freed memory in the process. Only our own processes do this: the command line, and Spark's Python workers.

The system's allocator returns blocks of a megabyte when they are freed and requests them again a moment later, and
then the system clears each of their pages again. To put 1.6 MB of state into its message took 8 ms that way, and takes
1 ms with pages at hand. A library does not decide this for its user: ``import eddyline`` changes nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import Final

# Parameters of glibc's mallopt, and bytes: a freed block larger than LARGEST_KEPT_BYTES returns to the system at once,
# and so does unused memory beyond MAX_UNUSED_BYTES.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
LARGEST_KEPT_BYTES: Final = 32 << 20
MAX_UNUSED_BYTES: Final = 64 << 20


def keep_memory() -> None:
    """Set the allocator, if it is glibc's. Variables of the environment that set it take precedence."""
    if any(name.startswith("MALLOC_") for name in os.environ):
        return
    with contextlib.suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, LARGEST_KEPT_BYTES)
        mallopt(_TRIM_THRESHOLD, MAX_UNUSED_BYTES)
