"""As-of joins that look back: each element with the last one of another stream that has its key.

What is correct: the partner of an element at τ is, of the other stream's elements with its key and a time up to τ
(before τ if the comparison is strict), the last by (time, arrival). Since both streams come in order of time, the last
row of each key is all that has to be kept. What looks right and is not: to let elements of one instant meet in the
order in which they came in; a partner of the same instant counts wherever it stands in its input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Delta, Int64s
from eddyline.core.schema import Schema
from eddyline.kernels.as_of import last_before
from eddyline.operators.accumulators import writable
from eddyline.operators.base import Operator
from eddyline.synopses.keys import KeyTable
from eddyline.synopses.store import Store

ROWS_BEFORE_COMPACTION = 4096  # rows that no key names any more; fewer save memory, more save copies


class LastBefore(Operator):
    """``keys`` are pairs of a left and a right column; ``within`` is in ticks."""

    def __init__(
        self, name: str, left: Schema, right: Schema, keys: Sequence[tuple[str, str]], strict: bool,
        within: int | None, outer: bool,
    ) -> None:  # fmt: skip
        super().__init__(name, Schema((*left, *right)))
        self.right, self.strict, self.within, self.outer = right, strict, within, outer
        self.left_keys, self.right_keys = [a for a, _ in keys], [b for _, b in keys]
        self.table = KeyTable([right[n].type for n in self.right_keys])
        self.store = Store(right)
        self.last_row: Int64s = np.full(1, -1, np.int64)
        self.last_time: Int64s = np.zeros(1, np.int64)

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        left, right = deltas
        right_key = key_numbers(self.table, right, self.right_keys, new=True)
        left_key = key_numbers(self.table, left, self.left_keys, new=False)
        more = max(1, self.table.capacity) - len(self.last_row)
        if more > 0:
            more = max(more, len(self.last_row))
            self.last_row = np.concatenate([self.last_row, np.full(more, -1, np.int64)])
            self.last_time = np.concatenate([self.last_time, np.zeros(more, np.int64)])
        base = self.store.end
        self.store.append({n: right.columns[n] for n in self.right.names}, len(right))
        match = np.empty(len(left), np.int64)
        last_before(
            writable(left.time), left_key, writable(right.time), right_key, self.strict,
            -1 if self.within is None else self.within, base, self.last_row, self.last_time, match,
        )  # fmt: skip
        out = self._joined(left, match)
        if self.store.end - self.store.first > 2 * len(self.table) + ROWS_BEFORE_COMPACTION:
            self._compact(frontier)
        return out

    def _joined(self, left: Delta, match: Int64s) -> Delta:
        found = match >= 0
        if not self.outer:
            left, match, found = left.filter(found), match[found], found[found]
        rows = self.store.take(match[found], self.right.names)
        if not found.all():
            where = pa.array(np.cumsum(found) - 1, mask=~found)
            rows = {n: c.take(where) for n, c in rows.items()}
        columns = {**left.columns, **rows}
        return Delta(left.time, {n: columns[n] for n in self.schema.names})

    def _compact(self, frontier: int) -> None:
        """Keep the last row of each key, and with a bound only those that can still be a partner."""
        live = self.table.live_ids() if self.right_keys else np.zeros(1, np.int64)
        live = live[self.last_row[live] >= 0]
        if self.within is not None:
            gone = live[self.last_time[live] < frontier + 1 - self.within]
            self.last_row[gone] = -1
            if self.right_keys and len(gone):
                self.table.release(gone)
            live = np.setdiff1d(live, gone)
        rows = self.store.take(self.last_row[live], self.right.names)
        self.store = Store(self.right)
        self.store.append(rows, len(live))
        self.last_row[live] = np.arange(len(live))

    def state(self) -> dict[str, Any]:
        live = np.flatnonzero(self.last_row >= 0)
        return {
            "keys": self.table.state(),
            "live": live,
            "time": self.last_time[live],
            "rows": self.store.take(self.last_row[live], self.right.names),
        }

    def load(self, state: dict[str, Any]) -> None:
        self.table.load(state["keys"])
        live = state["live"]
        size = max(1, self.table.capacity)
        self.last_row, self.last_time = np.full(size, -1, np.int64), np.zeros(size, np.int64)
        self.last_row[live], self.last_time[live] = np.arange(len(live)), state["time"]
        self.store = Store(self.right)
        self.store.append(state["rows"], len(live))

    def size(self) -> tuple[int, int]:
        rows = int((self.last_row >= 0).sum())  # the store may hold more until it is compacted; its bytes count
        return rows, self.store.nbytes() + self.table.nbytes + self.last_row.nbytes + self.last_time.nbytes

    def describe(self) -> str:
        which = "of each key" if self.right_keys else "of all"
        return f"the last row {which}, which is the partner of whatever comes next"


def key_numbers(table: KeyTable, delta: Delta, names: Sequence[str], new: bool) -> Int64s:
    """The number of each row's key: 0 where there are no keys, −1 where one is NULL or not known. With ``new`` all get
    numbers that are not NULL."""
    n = len(delta)
    if not names:
        return np.zeros(n, np.int64)
    columns = [delta.columns[c] for c in names]
    null = np.zeros(n, np.bool_)
    for c in columns:
        if c.null_count:
            null |= np.asarray(c.is_null())
    if not null.any():
        return writable(table.intern(columns, n) if new else table.find(columns, n))
    valid = pa.array(~null)
    chosen = [c.filter(valid) for c in columns]
    out = np.full(n, -1, np.int64)
    count = n - int(null.sum())
    out[~null] = table.intern(chosen, count) if new else table.find(chosen, count)
    return out
