"""The rows of a constrained join that its inputs delete, where these are relations: which row a deletion means."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from eddyline.kernels.compile import inlined
from eddyline.kernels.constrained_rows import after, first
from eddyline.kernels.hashing import u


class Departures(NamedTuple):
    """Deletions of rows of inputs that are relations, those of one input after those of another: times, identities and
    keys at the first port; by input the next and the one behind the last."""

    time: Any
    identity: Any
    key: Any
    next: Any
    stop: Any


@inlined
def find_departing(rows, width, departures, owner):
    """The slot of the row that the next deletion of an input means; −1: it is not in memory."""
    at = departures.next[owner]
    key = departures.key[at]
    s = first(rows, width, owner * width, np.int64(0), key)
    while s >= 0 and rows.r64[u(s), u(width + 1)] != departures.identity[at]:
        s = after(rows, width, np.int64(0), s, key)
    return s
