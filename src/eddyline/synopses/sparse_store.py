"""Rows by number that may be removed in any order: the tuples behind ``[PARTITION BY … ROWS n]``.

A partition that gets few rows keeps old ones, so a window holds rows far apart, and a store that drops rows from its
front alone would grow without end. Here a stub says which of its rows it needs (``needed``); the store drops the others
when they are more than half of it. Rows that the slowest stub has not brought yet are kept for it.

Sharing is that of ``synopses.store``: windows over the same elements number them alike, whatever they are partitioned
by and however many rows of each partition they keep. A younger query moves to the store of an older one as soon as the
shift between their numbers is known (``synopses.row_shift``). Rows between which the older query may have others (they
came out of order, ``Beginning.pure``) have no number there; they stay in a store of their own (``rest``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Int64s, combine
from eddyline.core.schema import Schema
from eddyline.synopses.row_files import RowFiles
from eddyline.synopses.store import Elements, Store, Stub
from eddyline.synopses.tail import Tail

MIN_DEAD_ROWS: Final = 1024  # a store with fewer dead rows is not rewritten
NOTHING: Final[Int64s] = np.empty(0, np.int64)


class SparseStore(Store):
    """
    >>> from eddyline.core.schema import Field
    >>> store = SparseStore(Schema((Field("a", pa.int64()),)))
    >>> stub = SparseStub(store)
    >>> stub.insert({"a": pa.array([5, 6, 7])}, 3)
    0
    >>> stub.needed = lambda: np.array([0, 2])
    >>> stub.expire(); store.rewrite(); store.numbers.values.tolist(), stub.probe(np.array([2]), ["a"])["a"].to_pylist()
    ([0, 2], [7])
    """

    def __init__(self, schema: Schema, first: int = 0) -> None:
        super().__init__(schema, first)
        self.numbers = Tail()  # of the rows, in order
        self.whole = first  # from here on no row was dropped
        self._rows = Store(schema)  # by position
        self._due = MIN_DEAD_ROWS

    def widen(self, fields: Schema) -> None:
        super().widen(fields)
        self._rows = Store(self.schema)

    def __len__(self) -> int:
        return len(self.numbers)

    def append(self, columns: Mapping[str, pa.Array], length: int) -> None:
        self._rows.append(columns, length)
        self.numbers.append(np.arange(self.end, self.end + length))
        self.end += length

    def adopt(self, numbers: Int64s, columns: Mapping[str, pa.Array]) -> None:
        """Take rows in among those that are there; numbers that are there already are left out."""
        new = ~np.isin(numbers, self.numbers.values)
        if not new.any():
            return
        both = np.concatenate([self.numbers.values, numbers[new]])
        order, mask = np.argsort(both, kind="stable"), pa.array(new)
        held = self._rows.slice(0, len(self))
        self._put(both[order], {n: combine([held[n], columns[n].filter(mask)]).take(pa.array(order)) for n in held})

    def _put(self, numbers: Int64s, columns: Mapping[str, pa.Array]) -> None:
        self.numbers, self._rows = Tail(numbers), Store(self.schema)
        self._rows.append(columns, len(numbers))
        self.first = int(numbers[0]) if len(numbers) else self.end

    def take(self, rows: Int64s, names: tuple[str, ...] | None = None) -> dict[str, pa.Array]:
        return self._rows.take(self.numbers.values.searchsorted(rows), names)

    def _brought(self) -> int:
        """All stubs have brought the rows before this one."""
        return min((s.open + s.shift for s in self.stubs if isinstance(s, SparseStub)), default=self.end)

    def trim(self, copying: bool = False) -> None:
        if copying or len(self) - (self.end - self._brought()) >= self._due:
            self.rewrite()

    def rewrite(self) -> None:
        """Keep what stubs need, and what the slowest has not brought yet."""
        numbers, stubs = self.numbers.values, [s for s in self.stubs if isinstance(s, SparseStub)]
        self.whole = max(self.whole, self._brought())
        keep = numbers >= self.whole
        for stub in stubs:
            keep |= np.isin(numbers, stub.shared + stub.shift)
        if not keep.all():
            held = np.flatnonzero(keep)
            self._put(numbers[held], self._rows.take(held))
        self._due = 2 * int(self.numbers.values.searchsorted(self.whole)) + MIN_DEAD_ROWS

    def slice(self, low: int, high: int, names: tuple[str, ...] | None = None) -> dict[str, pa.Array]:
        a, b = self.numbers.values.searchsorted([low, high])
        return self._rows.slice(int(a), int(b), names)

    def nbytes(self, rows: int | None = None) -> int:
        total = self._rows.nbytes() + self.numbers.nbytes
        return total if rows is None or not len(self) else total * min(rows, len(self)) // len(self)

    def spill(self, bytes: int, files: RowFiles) -> int:
        return self._rows.spill(bytes, files)

    def on_disk(self) -> tuple[int, int]:
        return self._rows.on_disk()


class SparseStub(Stub):
    """One operator's view: the rows that ``needed`` names, by numbers in order. ``rest`` has those before ``border``
    that no other operator has."""

    def __init__(self, store: Store, prefix: str = "", what: Elements | None = None) -> None:
        super().__init__(store, prefix, what)
        self.needed: Callable[[], Int64s] = lambda: NOTHING  # the owner says which
        self.open = self.end  # rows from here on were brought, and the owner has not said yet whether it needs them
        self.border = 0
        self.rest: SparseStore | None = None

    def insert(self, columns: Mapping[str, pa.Array], length: int, time: Int64s | None = None) -> int:
        self.open = self.end
        return super().insert(columns, length, time)

    @staticmethod
    def make_store(schema: Schema) -> Store:
        return SparseStore(schema)

    def __len__(self) -> int:
        return len(self.needed())

    @property
    def shared(self) -> Int64s:
        """The rows that it needs of the store."""
        mine = self.needed()
        return mine[mine >= self.border]

    def expire(self, low: int = 0) -> None:
        """``needed`` says of each row that is held whether it is still needed."""
        self.open = self.end
        if self.rest is not None and not (self.needed() < self.border).any():
            self.rest = None
        self.store.trim()

    def probe(self, rows: Int64s, names: Sequence[str]) -> dict[str, pa.Array]:
        if self.rest is None or not (own := rows < self.border).any():
            return super().probe(rows, names)
        cut = len(self.prefix)
        short = tuple(n[cut:] for n in names)
        mine, theirs = self.rest.take(rows[own], short), self.store.take(rows[~own] + self.shift, short)
        order = np.empty(len(rows), np.int64)
        order[np.concatenate([np.flatnonzero(own), np.flatnonzero(~own)])] = np.arange(len(rows))
        return {n: combine([mine[n[cut:]], theirs[n[cut:]]]).take(pa.array(order)) for n in names}

    def _columns(self, rows: Int64s) -> dict[str, pa.Array]:
        """All columns of some of its rows, under the names of the store."""
        found = self.probe(rows, [self.prefix + n for n in self.store.schema.names])
        return {n[len(self.prefix) :]: c for n, c in found.items()}

    def detach(self) -> None:
        if len(self.store.stubs) > 1:
            self._leave(self.needed(), 0)

    def _leave(self, rows: Int64s, border: int) -> None:
        """To a store of its own, with these rows under its own numbers."""
        own = SparseStore(self.store.schema, self.end)
        own.adopt(rows, self._columns(rows))
        self._move(own)
        self.shift, self.border, self.rest = 0, border, None

    def join(self, store: Store, shift: int) -> bool:
        pure = self.beginning.pure
        return pure is not None and self._enter(store, shift, pure)

    def attach(self, store: Store, shift: int | None = None) -> bool:
        return self._enter(store, self.shift if shift is None else shift, 0)

    def _enter(self, store: Store, shift: int, border: int) -> bool:
        """Refused where a store lacks rows that have passed here and are still to come there, or the other way round:
        they are not needed here any more, and would have no place there."""
        if store is self.store:
            return True
        assert isinstance(store, SparseStore)
        assert isinstance(self.store, SparseStore)
        end = self.end + shift
        if set(self.store.schema) != set(store.schema) or store.whole > self.open + shift:
            return False
        ahead = np.arange(store.end - shift, self.end)  # rows that others have still to bring
        if len(ahead) and self.store.whole > ahead[0] + self.shift:
            return False
        needed = np.union1d(self.needed(), np.arange(self.open, self.end))
        mine = np.union1d(needed[needed >= border], ahead)
        columns, old = self._columns(mine), needed[needed < border]
        rest = None
        if len(old):
            rest = SparseStore(store.schema, self.end)
            rest.adopt(old, self._columns(old))
        store.adopt(mine + shift, columns)
        store.end = max(store.end, end)
        self._move(store)
        self.shift, self.border, self.rest = shift, border, rest
        return True

    def state(self) -> dict[str, Any]:
        rows = self.needed()
        epoch = None if self.what is None else self.what.epoch
        began = {"last": self.last, "beginning": self.beginning.state()}
        return {"end": self.end, "numbers": rows.copy(), "rows": self._columns(rows), "epoch": epoch, **began}

    def load(self, state: dict[str, Any]) -> None:
        self.end = self.open = int(state["end"])
        if self.what is not None and state.get("epoch") is not None:
            self.what = replace(self.what, epoch=int(state["epoch"]))
        self.last = state.get("last")
        self.beginning.load(state.get("beginning"))
        rows = state["rows"]
        own = SparseStore(Schema(tuple(f for f in self.store.schema if f.name in rows)), self.end)
        own.adopt(state["numbers"], rows)
        self._move(own)
        self.low, self.shift, self.border, self.rest = 0, 0, 0, None
