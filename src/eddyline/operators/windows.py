"""Times at which elements enter and leave a window: the table in ``core.window`` as array functions."""

from __future__ import annotations

import numpy as np

from eddyline.core.delta import Int64s
from eddyline.core.time import NEVER
from eddyline.core.window import Hop, Range, Slide, Stepping, Unbounded, WindowSpec


def enter_times(spec: WindowSpec, ts: Int64s) -> Int64s:
    """The instants at which elements enter a window.

    >>> enter_times(Slide(10, 2), np.array([1, 2, 3])).tolist()
    [2, 2, 4]
    >>> enter_times(Hop(10, 2), np.array([1, 2, 3])).tolist()
    [2, 4, 4]
    """
    return _next_step(spec, ts) if isinstance(spec, Stepping) else ts


def leave_times(spec: WindowSpec, ts: Int64s) -> Int64s:
    """The instants at which elements leave a time-based window.

    >>> leave_times(Range(10), np.array([1, 2, 3])).tolist()
    [12, 13, 14]
    >>> leave_times(Slide(10, 2), np.array([1, 2, 3])).tolist()
    [12, 12, 14]
    """
    match spec:
        case Range(width=width):
            return ts + (width + 1)
        case Slide() | Hop():
            return _next_step(spec, ts + spec.width)
        case Unbounded():
            return np.full(len(ts), NEVER, np.int64)
        case _:
            raise AssertionError(f"{spec} is not time-based")


def _next_step(spec: Stepping, ts: Int64s) -> Int64s:
    """The first instant at which a window changes that shows elements of these times, or before these times if they
    were moved by its width."""
    return -(-(ts + (spec.delay - spec.offset)) // spec.slide) * spec.slide + spec.offset
