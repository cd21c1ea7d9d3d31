"""Rows of a longer sequence in a state tree: snapshots cut them at fixed row numbers, so that rows which stay in a
window stay in the same piece and are not written again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Aligned:
    """Rows ``start``, ``start`` + 1, …: columns, or one numpy array. They are cut at multiples of ``block``; 0 leaves
    that to who writes them."""

    start: int
    rows: Mapping[str, pa.Array] | np.ndarray[Any, Any]
    length: int
    block: int = 0


def plain(value: Any) -> Any:
    """The rows themselves, whether a state tree comes from memory or from disk."""
    return value.rows if isinstance(value, Aligned) else value
