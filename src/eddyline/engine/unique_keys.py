"""``UNIQUE (key) [WITHIN d]`` of a stream: which elements repeat a key (docs/semantics.md, "Keys of streams").

Elements are judged by (timestamp, arrival), when they are final: after lateness and overload, before any query. An
element is a *duplicate* if an earlier element that is none itself has the same key and, with ``WITHIN d``, is at most d
older. A key with a NULL in it is never a duplicate.

Ways that look right and are wrong:

- To judge in order of arrival: then which of two rows counts would depend on the disorder that a slack hides.
- To compare hashes: a collision would put a valid row aside.
- To let a duplicate prolong the life of its key: of a source that repeats a row for ever no element would count again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from eddyline.core.catalog import StreamDef
from eddyline.core.delta import Bools, Int64s
from eddyline.core.time import BEGINNING, time_text
from eddyline.engine.reorder import Chunk
from eddyline.engine.side_output import Diverted

KEYS_BETWEEN_SWEEPS: Final = 1024  # after so many new keys those that are too old are removed: fewer looks more often
Locate = Callable[[Mapping[str, Any], int, int], str | None]  # values, time, how many rows have them before → place


class UniqueKeys:
    """The keys of the elements so far, each with the time of the element that has it.

    >>> from eddyline.core.schema import Schema
    >>> from eddyline.core.time import TimeKind
    >>> schema = Schema.from_arrow(pa.schema([("ts", pa.int64()), ("id", pa.int64())]))
    >>> keys = UniqueKeys(StreamDef("S", schema, TimeKind.INTEGER, "ts", unique=(("id",),), within=5))
    >>> chunk = Chunk(np.array([1, 2, 3, 7]), pa.RecordBatch.from_pydict({"id": [7, 8, 7, 7]}), 0)
    >>> keys.judge(chunk).tolist(), len(keys)  # at 7 the element of time 1 is more than 5 old
    ([-9223372036854775808, -9223372036854775808, 1, -9223372036854775808], 2)
    """

    def __init__(self, definition: StreamDef) -> None:
        self.name, self.time_kind, self.columns = definition.name, definition.time_kind, definition.unique[0]
        self.within = definition.within
        from eddyline.synopses.keys import KeyTable  # with its kernels, which few streams need

        self.table = KeyTable([definition.schema[c].type for c in self.columns])
        self.last: Int64s = np.full(64, BEGINNING, np.int64)  # by id of a key
        self._sweep_at = KEYS_BETWEEN_SWEEPS

    def __len__(self) -> int:
        return len(self.table)

    @property
    def nbytes(self) -> int:
        return self.table.nbytes + self.last.nbytes

    def sift(self, chunk: Chunk, locate: Locate | None = None) -> tuple[Chunk, Diverted | None]:
        """The elements that are no duplicates, and the others with their reasons. ``locate`` finds the place of the
        first of them, which takes a search."""
        held = self.judge(chunk)
        if held is None:
            return chunk, None
        rows = np.flatnonzero(held != BEGINNING)
        reasons = [self._reason(chunk, i, int(held[i])) for i in rows.tolist()]
        if locate is not None:
            first = int(rows[0])
            values, time = {c: chunk.rows[c][first].as_py() for c in self.columns}, int(chunk.time[first])
            place = locate(values, time, 1 if held[first] == time else 0)
            reasons[0] = reasons[0] if place is None else f"{place}: {reasons[0]}"
        bad = Diverted(self.name, chunk.rows.take(pa.array(rows)), chunk.time[rows], pa.array(reasons, pa.string()))
        return chunk.filter(held == BEGINNING), bad

    def _reason(self, chunk: Chunk, i: int, held: int) -> str:
        key = ", ".join(f"{c} = {chunk.rows[c][i].as_py()!r}" for c in self.columns)
        first = "at the same time" if held == chunk.time[i] else f"at {time_text(held, self.time_kind)}"
        now = time_text(int(chunk.time[i]), self.time_kind)
        return f"at {now} the key {key} is repeated, which an element {first} has"

    def judge(self, chunk: Chunk) -> Int64s | None:
        """For each element the time of the one whose key it repeats, BEGINNING for those that repeat none; None where
        no element does. ``chunk`` comes after all that was judged before."""
        columns = [chunk.rows[c] for c in self.columns]
        whole = _without_nulls(columns, len(chunk))
        if whole is not None:
            columns = [c.filter(pa.array(whole)) for c in columns]
        ids = self.table.intern(columns, len(columns[0]))
        time = chunk.time if whole is None else chunk.time[whole]
        if self.table.capacity > len(self.last):
            more = np.full(max(self.table.capacity, 2 * len(self.last)) - len(self.last), BEGINNING, np.int64)
            self.last = np.concatenate([self.last, more])
        repeated = self._repeated(ids, time)
        if len(self) >= self._sweep_at and self.within is not None:
            self._sweep(int(chunk.time[-1]) - self.within)
        if repeated is None:
            return None
        found = np.full(len(chunk), BEGINNING, np.int64)
        found[slice(None) if whole is None else whole] = repeated
        return found

    def _repeated(self, ids: Int64s, time: Int64s) -> Int64s | None:
        known = self.last[ids] != BEGINNING
        first = np.zeros(len(ids), np.bool_)
        first[np.unique(ids, return_index=True)[1]] = True
        fresh = first & ~known
        self.last[ids[fresh]] = time[fresh]
        if fresh.all():
            return None
        found = np.full(len(ids), BEGINNING, np.int64)
        for i in np.flatnonzero(~fresh).tolist():
            held, now = int(self.last[ids[i]]), int(time[i])
            if self.within is None or now - held <= self.within:
                found[i] = held
            else:
                self.last[ids[i]] = now
        return found if (found != BEGINNING).any() else None

    def _sweep(self, oldest: int) -> None:
        """Forget keys whose elements are too old to be repeated."""
        live = self.table.live_ids()
        gone = live[self.last[live] < oldest]
        self.last[gone] = BEGINNING
        self.table.release(gone)
        self._sweep_at = max(KEYS_BETWEEN_SWEEPS, 2 * len(self))

    def state(self) -> dict[str, Any]:
        ids = self.table.live_ids()
        return {"table": self.table.state(), "last": self.last[ids]}

    def load(self, state: Mapping[str, Any]) -> None:
        self.table.load(state["table"])
        self.last = np.full(max(64, self.table.capacity), BEGINNING, np.int64)
        self.last[self.table.live_ids()] = state["last"]
        self._sweep_at = max(KEYS_BETWEEN_SWEEPS, 2 * len(self))


def _without_nulls(columns: list[pa.Array], length: int) -> Bools | None:
    """Which rows have a value in all columns; None: all."""
    if not any(c.null_count for c in columns):
        return None
    whole = np.ones(length, np.bool_)
    for c in columns:
        whole &= c.is_valid().to_numpy(zero_copy_only=False)
    return whole
