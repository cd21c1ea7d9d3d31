"""Which deletions of a relation an operator computes: only those that can change the result that the user sees."""

from __future__ import annotations

import enum


class Deletions(enum.IntEnum):
    """``NONE``: no deletion; ``AT_ARRIVALS``: those at instants at which an element enters; ``ALL``: every deletion.

    Kernels read the values as plain integers (``kernels.join_layout``).
    """

    NONE = 0
    AT_ARRIVALS = 1
    ALL = 2
