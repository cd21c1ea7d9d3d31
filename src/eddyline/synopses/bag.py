"""A bag of rows in slots: the state of an operator for an input whose rows come and go in any order.

Equal rows share a slot (or, where the input brings ids, each row has its own); the owner keeps weights by slot. The
rows themselves lie in a store, which is rewritten when more than half of it is dead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.bound import Bound
from eddyline.core.delta import Delta, Int64s
from eddyline.core.schema import Schema
from eddyline.synopses.keys import KeyTable
from eddyline.synopses.store import Store


class Bag:
    """``insert(delta)`` interns rows; ``rownum[slot]`` is the row in ``store``.

    >>> from eddyline.core.schema import Field
    >>> bag = Bag(Schema((Field("a", pa.int64()),)), by_id=False)
    >>> slots = bag.insert(Delta(np.array([1, 1, 2]), {"a": pa.array([5, 6, 5])}))
    >>> slots.tolist(), bag.probe(slots[1:2], ["a"])["a"].to_pylist()
    ([0, 1, 0], [6])
    >>> bag.expire(slots[:1]); len(bag)
    1
    """

    def __init__(self, schema: Schema, by_id: bool) -> None:
        self.schema = schema
        self.by_id = by_id
        self.table = KeyTable([pa.int64()] if by_id else [f.type for f in schema])
        self.store = Store(schema)
        self.rownum = np.full(64, -1, np.int64)
        self.bound = Bound()  # the owner says which, if its input has one

    def __len__(self) -> int:
        return len(self.table)

    @property
    def capacity(self) -> int:
        """One more than the largest slot ever given."""
        return self.table.capacity

    def live(self) -> Int64s:
        """The slots in use."""
        return self.table.live_ids()

    def insert(self, delta: Delta) -> Int64s:
        """The slot of each row; rows not seen before are stored."""
        if self.by_id:
            assert delta.ids is not None
            slots = self.table.intern([pa.array(delta.ids)], len(delta))
        else:
            slots = self.table.intern([delta.columns[n] for n in self.schema.names], len(delta))
        while self.table.capacity > len(self.rownum):
            self.rownum = np.concatenate([self.rownum, np.full(len(self.rownum), -1, np.int64)])
        unknown = np.flatnonzero(self.rownum[slots] < 0)
        if len(unknown):
            rows = unknown[::-1]
            self.rownum[slots[rows]] = -2 - rows  # the first of equal rows is written last
            rows = unknown[self.rownum[slots[unknown]] == -2 - unknown]
            fresh = slots[rows]
            self.rownum[fresh] = self.store.end + np.arange(len(fresh))
            index = pa.array(rows)
            self.store.append({n: delta.columns[n].take(index) for n in self.schema.names}, len(rows))
        return slots

    def expire(self, slots: Int64s) -> None:
        """Forget slots (each once). The rows stay readable until ``compact``."""
        if len(slots):
            self.table.release(slots)
            self.rownum[slots] = -1

    def probe(self, slots: Int64s, names: Sequence[str] | None = None) -> dict[str, pa.Array]:
        """Columns of the rows in these slots."""
        return self.store.take(self.rownum[slots], None if names is None else tuple(names))

    def give_back(self, bytes: int) -> int:
        """Rewrite the store without dead rows. Row numbers change: the owner reads ``rownum`` again."""
        before = self.nbytes
        self.compact(spare_rows=0)
        return max(0, before - self.nbytes)

    def compact(self, spare_rows: int = 1024) -> bool:
        """Rewrite the store if most of it is dead, and more than some rows are; row numbers change, slots do not.
        Whether that was done."""
        held = self.store.end - self.store.first
        if held > (2 * len(self.table) if spare_rows else len(self.table)) + spare_rows:
            live = self.table.live_ids()
            columns = self.store.take(self.rownum[live])
            self.store = Store(self.schema)
            self.store.append(columns, len(live))
            self.rownum[live] = np.arange(len(live))
            return True
        return False

    @property
    def nbytes(self) -> int:
        return self.table.nbytes + self.rownum.nbytes + self.store.nbytes()

    def state(self) -> dict[str, Any]:
        live = self.table.live_ids()
        return {"table": self.table.state(), "rows": self.store.take(self.rownum[live])}

    def load(self, state: dict[str, Any]) -> None:
        self.table.load(state["table"])
        live = self.table.live_ids()
        self.rownum = np.full(max(64, self.table.capacity), -1, np.int64)
        self.store = Store(self.schema)
        self.store.append(state["rows"], len(live))
        self.rownum[live] = np.arange(len(live))
