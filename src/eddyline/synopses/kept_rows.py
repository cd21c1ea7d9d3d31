"""Rows that may be removed in any order: the state of a join for an input whose rows constraints may remove early.

Rows are found by their *places*. Those that are kept are moved together from time to time, and get new places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.bound import Bound
from eddyline.core.delta import Int64s
from eddyline.core.schema import Schema
from eddyline.synopses.store import Store

MIN_DEAD_ROWS = 256  # the rows are rewritten if more are dead, and more than half as many as are live


class KeptRows:
    """
    >>> from eddyline.core.schema import Field
    >>> rows = KeptRows(Schema((Field("a", pa.string()),)))
    >>> rows.insert({"a": pa.array(["x", "y", "z"])}, 3), rows.insert({"a": pa.array(["w"])}, 1)
    (0, 3)
    >>> rows.retain(np.array([1, 3]))
    >>> rows.probe(np.array([1, 0]), ["a"])["a"].to_pylist()
    ['w', 'y']
    """

    def __init__(self, schema: Schema) -> None:
        self.schema, self.store = schema, Store(schema)
        self.bound = Bound()  # the owner says which: that of its window

    def __len__(self) -> int:
        return self.store.end

    def insert(self, columns: Mapping[str, pa.Array], length: int, time: Int64s | None = None) -> int:
        """Bring rows; returns the place of the first. Their times are not needed here."""
        start = self.store.end
        self.store.append(columns, length)
        return start

    def probe(self, places: Int64s, names: Sequence[str]) -> dict[str, pa.Array]:
        """Columns of the rows at these places."""
        return self.store.take(places, tuple(names))

    def is_sparse(self, wanted: int) -> bool:
        """Whether so many of the rows are dead that they should be moved together."""
        return len(self) > wanted + max(MIN_DEAD_ROWS, wanted // 2)

    def retain(self, places: Int64s) -> None:
        """Keep the rows at these places only: the first gets place 0, the next 1, and so on."""
        columns = self.store.take(places)
        self.store = Store(self.schema)
        self.store.append(columns, len(places))

    expire = retain

    def give_back(self, bytes: int) -> int:
        """Nothing: every row that is here is needed."""
        return 0

    @property
    def nbytes(self) -> int:
        return self.store.nbytes()

    def state(self, places: Int64s | None = None) -> dict[str, Any]:
        """All rows, or those at ``places``, which have the places 0, 1, … when they are loaded."""
        places = np.arange(len(self)) if places is None else places
        return {"count": len(places), "rows": self.store.take(places)}

    def load(self, state: dict[str, Any]) -> None:
        self.store = Store(self.schema)
        self.store.append(state["rows"], int(state["count"]))
