"""Memory that is freed stays in the process, for processes of our own: the command line, and Spark's Python workers.

The system's allocator gives pieces of a megabyte back when they are freed and asks for them again a moment later, and
then each of their pages is cleared anew. To put 1.6 MB of state into its message took 8 ms that way, and takes 1 ms
with pages at hand. A library does not decide this for its user: ``import eddyline`` changes nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import Final

# Parameters of glibc's mallopt, and bytes: pieces larger than the first go back at once, and what lies unused beyond
# the second goes back too.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
LARGEST_KEPT: Final = 32 << 20
MOST_KEPT: Final = 64 << 20


def keep_memory() -> None:
    """Tell the allocator; where it is not glibc's, nothing happens. What the environment says of it wins."""
    if any(name.startswith("MALLOC_") for name in os.environ):
        return
    with contextlib.suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, LARGEST_KEPT)
        mallopt(_TRIM_THRESHOLD, MOST_KEPT)
