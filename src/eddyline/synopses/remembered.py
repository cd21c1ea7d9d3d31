"""Values remembered for rows until they leave: a payload by key, where the key is an id or the values of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Int64s
from eddyline.core.schema import Schema
from eddyline.synopses.keys import KeyTable
from eddyline.synopses.store import Store


class Remembered:
    """Slots by key, as in a bag, but what lies in a slot is not the key.

    >>> from eddyline.core.schema import Field
    >>> memory = Remembered([pa.int64()], Schema((Field("answer", pa.string()),)))
    >>> memory.put([pa.array([7, 9])], {"answer": pa.array(["yes", "no"])}, 2).tolist()
    [0, 1]
    >>> slots = memory.find([pa.array([9, 8])], 2)
    >>> slots.tolist(), memory.take(slots[:1])["answer"].to_pylist()
    ([1, -1], ['no'])
    >>> memory.release(slots[:1]); len(memory)
    1
    """

    def __init__(self, keys: Sequence[pa.DataType], payload: Schema) -> None:
        self.payload = payload
        self.table = KeyTable(keys)
        self.store = Store(payload)
        self.rownum = np.full(64, -1, np.int64)

    def __len__(self) -> int:
        return len(self.table)

    @property
    def capacity(self) -> int:
        """The length that arrays indexed by slot need."""
        return self.table.capacity

    def find(self, keys: Sequence[pa.Array], length: int) -> Int64s:
        """The slot of each key, −1 where it is not known."""
        return self.table.find(keys, length)

    def put(self, keys: Sequence[pa.Array], payload: Mapping[str, pa.Array], length: int) -> Int64s:
        """Remember keys that are not known yet, each once."""
        slots = self.table.intern(keys, length)
        while self.table.capacity > len(self.rownum):
            self.rownum = np.concatenate([self.rownum, np.full(len(self.rownum), -1, np.int64)])
        self.rownum[slots] = self.store.end + np.arange(length)
        self.store.append(payload, length)
        return slots

    def take(self, slots: Int64s) -> dict[str, pa.Array]:
        return self.store.take(self.rownum[slots])

    def release(self, slots: Int64s) -> None:
        """Forget slots (each once)."""
        if not len(slots):
            return
        self.table.release(slots)
        self.rownum[slots] = -1
        if self.store.end - self.store.first > 2 * len(self.table) + 1024:  # most of it is dead
            live = self.table.live_ids()
            kept = self.take(live)
            self._hold(live, kept)

    def _hold(self, slots: Int64s, payload: Mapping[str, pa.Array]) -> None:
        self.store = Store(self.payload)
        self.store.append(payload, len(slots))
        self.rownum[slots] = np.arange(len(slots))

    @property
    def nbytes(self) -> int:
        return self.table.nbytes + self.rownum.nbytes + self.store.nbytes()

    def state(self) -> dict[str, Any]:
        return {"table": self.table.state(), "payload": self.take(self.table.live_ids())}

    def load(self, state: Mapping[str, Any]) -> None:
        self.table.load(state["table"])
        self.rownum = np.full(max(64, self.table.capacity), -1, np.int64)
        self._hold(self.table.live_ids(), state["payload"])
