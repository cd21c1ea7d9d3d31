"""Rows in slots: the state of an operator for rows that leave in any order, and that it finds by their slots.

Like a ``Bag`` whose rows are never looked up: nothing is hashed. The rows themselves lie in a store, which is rewritten
when more than half of it is dead.
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


class SlotRows:
    """
    >>> from eddyline.core.schema import Field
    >>> rows = SlotRows(Schema((Field("a", pa.string()),)))
    >>> slots = rows.insert({"a": pa.array(["x", "y", "z"])}, 3)
    >>> rows.expire(slots[:2])
    >>> rows.insert({"a": pa.array(["w"])}, 1).tolist(), rows.probe(np.array([2, 1]))["a"].to_pylist(), len(rows)
    ([1], ['z', 'w'], 2)
    """

    def __init__(self, schema: Schema) -> None:
        self.schema, self.store = schema, Store(schema)
        self.rownum: Int64s = np.full(64, -1, np.int64)
        self.free: Int64s = np.empty(64, np.int64)  # a stack of slots that were given back
        self.bound = Bound()  # the owner says which, if its window has one
        self.spare = self.capacity = 0  # how many there are, and one more than the largest slot ever given

    def __len__(self) -> int:
        return self.capacity - self.spare

    def insert(self, columns: Mapping[str, pa.Array], length: int) -> Int64s:
        """Store rows and return their slots."""
        reused = min(length, self.spare)
        slots = np.concatenate(
            [
                self.free[self.spare - reused : self.spare][::-1],
                np.arange(self.capacity, self.capacity + length - reused, dtype=np.int64),
            ]
        )
        self.spare -= reused
        self.capacity += length - reused
        while self.capacity > len(self.rownum):
            self.rownum = np.concatenate([self.rownum, np.full(len(self.rownum), -1, np.int64)])
        self.rownum[slots] = self.store.end + np.arange(length)
        self.store.append({n: columns[n] for n in self.schema.names}, length)
        return slots

    def probe(self, slots: Int64s, names: Sequence[str] | None = None) -> dict[str, pa.Array]:
        return self.store.take(self.rownum[slots], None if names is None else tuple(names))

    def expire(self, slots: Int64s) -> None:
        """Forget slots, each once."""
        need = self.spare + len(slots)
        while need > len(self.free):
            self.free = np.concatenate([self.free, np.empty_like(self.free)])
        self.free[self.spare : need] = slots
        self.spare = need
        self.rownum[slots] = -1
        if self.store.end - self.store.first > 2 * len(self) + 1024:
            self._compact()

    def live(self) -> Int64s:
        """The slots in use."""
        return np.flatnonzero(self.rownum >= 0)

    def give_back(self, bytes: int) -> int:
        """Rewrite the store without dead rows."""
        before = self.nbytes
        self._compact()
        return max(0, before - self.nbytes)

    def _compact(self) -> None:
        live = self.live()
        columns = self.store.take(self.rownum[live])
        self.store = Store(self.schema)
        self.store.append(columns, len(live))
        self.rownum[live] = np.arange(len(live))

    @property
    def nbytes(self) -> int:
        return self.rownum.nbytes + self.free.nbytes + self.store.nbytes()

    def state(self) -> dict[str, Any]:
        live = self.live()
        free = self.free[: self.spare].copy()
        return {"live": live, "free": free, "capacity": self.capacity, "rows": self.store.take(self.rownum[live])}

    def load(self, state: dict[str, Any]) -> None:
        live, free = np.array(state["live"]), np.array(state["free"])
        self.capacity, self.spare = int(state["capacity"]), len(free)
        self.rownum = np.full(max(64, self.capacity), -1, np.int64)
        self.free = np.concatenate([free, np.empty(64, np.int64)]).astype(np.int64)
        self.store = Store(self.schema)
        self.store.append(state["rows"], len(live))
        self.rownum[live] = np.arange(len(live))
