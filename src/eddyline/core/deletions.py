"""Which deletions of a relation are computed: only those that can show."""

from __future__ import annotations

import enum


class Deletions(enum.IntEnum):
    """``NONE``: they cannot show; ``AT_ARRIVALS``: only at instants at which something enters; ``ALL``: always.

    Kernels read the values as plain integers (``kernels.join_layout``).
    """

    NONE = 0
    AT_ARRIVALS = 1
    ALL = 2
