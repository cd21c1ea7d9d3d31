"""Row stores: the tuples behind windows and joins, appended in order and read by row number.

Rows are kept as Arrow chunks and never copied into results but once: synopses, hash chains and join results hold row
numbers (thesis 5.4.1). Chunks are merged as in a log-structured store (a chunk is never smaller than the one after
it), so that a store fed row by row still has few chunks, and each row is copied O(log n) times.

Sharing (thesis 2.3.1): a ``Store`` holds the union of its stubs; a ``Stub`` is one operator's view: it appends what
the operator reads (a row that another stub has already brought is not stored again) and says which rows it still
needs; the store drops what no stub needs. An operator counts rows from its query's first element on. The rows of the
store begin earlier where an older query brought them: ``Stub.shift`` lies between the two (``synopses.row_shift`` finds
it), so a stub can be moved to a store of its own and back while the query runs.

Where memory is short, the oldest chunks go to the disk (``Store.spill``, ``synopses.row_files``). They are read as
before, at the price of reading the disk; row numbers, indexes and the answer do not change.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from eddyline.core.aligned import Aligned, plain
from eddyline.core.bound import Bound
from eddyline.core.delta import Int64s, combine
from eddyline.core.schema import Schema
from eddyline.synopses.index_pool import IndexPool
from eddyline.synopses.row_files import RowFiles
from eddyline.synopses.row_shift import Beginning, RowShift

MERGED_ROWS = 1 << 16  # a chunk with so many rows is not copied into a larger one
LEAST_SPILLED_BYTES = 1 << 16  # of a chunk that goes to the disk: smaller ones are many files for little memory

NUMBER_TYPES = frozenset(t.id for t in (pa.int64(), pa.float64(), pa.int32(), pa.float32(), pa.timestamp("us")))
MAX_COPIED_BYTES = 1 << 18  # a smaller column is copied into one chunk, which costs less than selecting from several
ROWS_TO_CUT_OUT = 4  # up to this many rows, to cut out each costs less than to select them by an array of numbers


class Store:
    """Rows ``first`` … ``end`` − 1 of one sequence."""

    def __init__(self, schema: Schema, first: int = 0) -> None:
        self.schema = schema
        self.first = first
        self.end = first
        self.starts: list[int] = []  # row number of each chunk's first row
        self.chunks: list[dict[str, pa.Array]] = []
        self.lengths: list[int] = []
        self.stubs: list[Stub] = []
        self.company = 0  # how often stubs have come
        self.indexes: dict[Hashable, object] = {}  # over its rows that several joins share (``shared_index``)
        self._sizes: dict[int, tuple[dict[str, pa.Array], int]] = {}  # of chunks in memory, by their identity
        self._on_disk: dict[int, int] = {}  # bytes of the files of chunks, by their identity

    def __len__(self) -> int:
        return self.end - self.first

    def take_in(self, stub: Stub) -> None:
        self.stubs.append(stub)
        self.company += 1

    def widen(self, fields: Schema) -> None:
        """Add columns, which only an empty store can."""
        new = tuple(f for f in fields if f.name not in self.schema)
        assert not new or self.first == self.end
        self.schema = Schema((*self.schema.fields, *new))

    def append(self, columns: Mapping[str, pa.Array], length: int) -> None:
        if length == 0:
            return
        self.starts.append(self.end)
        self.lengths.append(length)
        self.chunks.append({n: columns[n] for n in self.schema.names})
        self.end += length
        while len(self.chunks) > 1 and self.lengths[-2] <= 2 * self.lengths[-1] and self.lengths[-2] < MERGED_ROWS:
            self._merge_last()

    def _merge_last(self) -> None:
        # A chunk of a few rows may be a slice of a large buffer: combining copies it free.
        last, before = self.chunks.pop(), self.chunks.pop()
        self.starts.pop()
        n = self.lengths.pop()
        if not self.chunks:  # the oldest: what no stub needs is not copied
            dead = min(self.low - self.starts[0], self.lengths[0])
            if dead > 0:
                before = {c: a.slice(dead) for c, a in before.items()}
                self.first = self.starts[0] = self.starts[0] + dead
                self.lengths[0] -= dead
        self.lengths[-1] += n
        self.chunks.append({c: combine([before[c], last[c]]) for c in before})

    @property
    def low(self) -> int:
        """The first row that some stub needs; a store without stubs belongs to an operator that needs all of it."""
        return min((s.low + s.shift for s in self.stubs), default=self.first)

    def take(self, rows: Int64s, names: tuple[str, ...] | None = None) -> dict[str, pa.Array]:
        """Columns of the given rows."""
        names = self.schema.names if names is None else names
        if len(rows) == 0 or not names:
            return {n: pa.array([], self.schema[n].type) for n in names}
        if len(rows) <= ROWS_TO_CUT_OUT:
            return self._cut_out(rows.tolist(), names)
        a, b = (bisect_right(self.starts, int(row)) - 1 for row in (rows.min(), rows.max()))
        index = pa.array(rows - self.starts[a])
        if a == b:
            chunk = self.chunks[a]
            return {n: chunk[n].take(index) for n in names}
        columns = {n: [c[n] for c in self.chunks[a : b + 1]] for n in names}
        dense = 2 * len(rows) > self.starts[b] + self.lengths[b] - self.starts[a]
        # Few of many: to put the chunks of a large column together would be to copy a window for a handful of results.
        picked = {} if dense else self._pick(rows, a, b, [n for n in names if not _is_small(columns[n])])
        return {n: picked[n] if n in picked else combine(columns[n]).take(index) for n in names}

    def _pick(self, rows: Int64s, a: int, b: int, names: Sequence[str]) -> dict[str, pa.Array]:
        """Columns of the given rows, selected in each of the chunks ``a`` to ``b`` and put into their order."""
        if not names:
            return {}
        home = np.array(self.starts[a + 1 : b + 1]).searchsorted(rows, side="right")
        order = home.argsort(kind="stable")
        ends = np.bincount(home, minlength=b + 1 - a).cumsum().tolist()
        chunks, starts = self.chunks[a : b + 1], self.starts[a : b + 1]
        picks = [
            (chunk, pa.array(rows[order[low:high]] - start))
            for chunk, start, low, high in zip(chunks, starts, (0, *ends[:-1]), ends, strict=True)
            if low < high
        ]
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        index = pa.array(back)
        return {n: combine([chunk[n].take(pick) for chunk, pick in picks]).take(index) for n in names}

    def _cut_out(self, rows: Sequence[int], names: tuple[str, ...]) -> dict[str, pa.Array]:
        """Columns of a few rows, each cut out of its chunk. They are copied, even one alone: a slice would keep the
        whole chunk as long as the result."""
        cuts: list[tuple[dict[str, pa.Array], int]] = []
        for row in rows:
            i = bisect_right(self.starts, row) - 1
            cuts.append((self.chunks[i], row - self.starts[i]))
        if len(cuts) == 1:
            chunk, at = cuts[0]
            return {n: pa.concat_arrays([chunk[n].slice(at, 1)]) for n in names}
        return {n: combine([chunk[n].slice(at, 1) for chunk, at in cuts]) for n in names}

    def trim(self, copying: bool = False) -> None:
        """Drop the chunks that no stub needs; with ``copying`` also the part of the oldest that none does."""
        low = min((s.low + s.shift for s in self.stubs), default=self.end)
        while self.chunks and self.starts[0] + self.lengths[0] <= low:
            self.starts.pop(0)
            self.lengths.pop(0)
            self.chunks.pop(0)
            self.first = self.starts[0] if self.starts else self.end
        if copying and self.chunks and low > self.starts[0] and id(self.chunks[0]) not in self._on_disk:
            dead = low - self.starts[0]
            needed = pa.array(np.arange(dead, self.lengths[0]))
            self.chunks[0] = {n: c.take(needed) for n, c in self.chunks[0].items()}  # a slice would keep all of it
            self.first = self.starts[0] = low
            self.lengths[0] -= dead

    def slice(self, low: int, high: int, names: tuple[str, ...] | None = None) -> dict[str, pa.Array]:
        """Columns of the rows ``low`` … ``high`` − 1: not copied where they lie in one chunk."""
        names = self.schema.names if names is None else names
        if low >= high or not names:
            return {n: pa.array([], self.schema[n].type) for n in names}
        a, b = bisect_right(self.starts, low) - 1, bisect_right(self.starts, high - 1) - 1
        cuts = [(i, max(low - self.starts[i], 0), min(high - self.starts[i], self.lengths[i])) for i in range(a, b + 1)]
        return {n: combine([self.chunks[i][n].slice(x, y - x) for i, x, y in cuts]) for n in names}

    def nbytes(self, rows: int | None = None) -> int:
        # Asked after every batch, however small: chunks that were there the last time are not measured again.
        before, self._sizes = self._sizes, {}
        for c in self.chunks:
            self._sizes[id(c)] = before.get(id(c)) or (c, _bytes(c.values()))
        if self._on_disk:
            self._on_disk = {i: n for i, n in self._on_disk.items() if i in self._sizes}
        total = sum([size for _, size in self._sizes.values()])
        held = self.end - self.first
        return total if rows is None or held == 0 else total * min(rows, held) // held

    def spill(self, bytes: int, files: RowFiles) -> int:
        """Put the oldest chunks on the disk until so many bytes of memory are free, as far as there are chunks: the
        bytes that were freed. A chunk that will be copied into a larger one soon stays."""
        freed = 0
        self.nbytes()
        for place, chunk in enumerate(self.chunks):
            if freed >= bytes:
                break
            size = self._sizes[id(chunk)][1]
            if size >= LEAST_SPILLED_BYTES and (place < len(self.chunks) - 1 or self.lengths[place] >= MERGED_ROWS):
                moved, disk = files.put(chunk)
                self.chunks[place] = moved
                del self._sizes[id(chunk)]
                self._sizes[id(moved)], self._on_disk[id(moved)] = (moved, 0), disk
                freed += size
        return freed

    def on_disk(self) -> tuple[int, int]:
        """Rows outside of memory, and the bytes of their files."""
        if not self._on_disk:
            return 0, 0
        found = [(n, self._on_disk.get(id(c), 0)) for c, n in zip(self.chunks, self.lengths, strict=True)]
        return sum(n for n, bytes in found if bytes), sum(bytes for _, bytes in found)


def _bytes(columns: Iterable[pa.Array]) -> int:
    """What the columns of a chunk take. Arrow is asked only where it has to look at the data: to ask costs as much as
    to append a row."""
    total = 0
    for a in columns:
        kind = a.type
        if kind.id in NUMBER_TYPES and a.buffers()[0] is None:
            total += kind.byte_width * len(a)
        else:
            total += a.nbytes
    return total


def _is_small(parts: Sequence[pa.Array]) -> bool:
    """Whether a column is cheaper copied than read part by part. Dictionaries that differ would be decoded."""
    return _bytes(parts) <= MAX_COPIED_BYTES and pa.DictionaryArray not in map(type, parts)


@dataclass(frozen=True, slots=True)
class Elements:
    """What a store holds: the elements of a stream from number ``epoch`` on that pass the filters. Two windows over the
    same elements give them the same row numbers, so they can share a store from the first row on."""

    stream: str
    epoch: int
    filters: tuple[Hashable, ...] = ()
    sparse: bool = False  # any row may be dropped: stores of the two kinds are not shared

    @property
    def any_epoch(self) -> Hashable:
        """What two windows have in common that will share a store as soon as their rows are the same."""
        return self.stream, self.filters, self.sparse


class Companion(Protocol):
    """What an operator keeps of the rows of a stub beside the store, maybe together with other operators."""

    def forget(self) -> None:
        """The operator is gone."""


class Stub:
    """One operator's view of a store: rows ``low`` … ``end`` − 1 are its synopsis. Their numbers in the store are
    larger by ``shift``.

    The operator has plan names for the columns, which begin with ``prefix`` (its alias of the stream); the store has
    the stream's own names, so that two aliases of one stream can share it.
    """

    def __init__(self, store: Store, prefix: str = "", what: Elements | None = None) -> None:
        self.store = store
        self.prefix = prefix
        self.what = what
        self.low = store.end
        self.end = store.end
        self.shift = 0
        self.bound = Bound()  # the owner says which: that of its window
        self.last: int | None = None  # the time of its last row
        self.beginning = Beginning()
        self.row_shifts: list[RowShift] = []  # that are being counted, against stubs of other queries
        self.seek: Callable[[Stub], None] | None = None  # looks for a store of older queries to move to
        self.readers: Callable[[], Sequence[str]] = tuple  # the names of the queries that it works for
        self.companion: Companion | None = None  # what its operator keeps of the same rows beside the store
        self.pool = IndexPool()  # for indexes that several joins share; the registry has one for all
        store.take_in(self)

    @staticmethod
    def make_store(schema: Schema) -> Store:
        return Store(schema)

    def __len__(self) -> int:
        return self.end - self.low

    def insert(self, columns: Mapping[str, pa.Array], length: int, time: Int64s | None = None) -> int:
        """Bring the next rows; returns the row number of the first. Rows already stored are not stored again. With
        their times the rows can be found in the store of an older query."""
        start = self.end
        self.end += length
        behind = max(self.store.end - start - self.shift, 0)
        if behind < length:
            rows = {n: columns[self.prefix + n] for n in self.store.schema.names}
            if behind:
                rows = {n: c.slice(behind) for n, c in rows.items()}
            self.store.append(rows, length - behind)
        if time is not None and length:
            self.last = int(time[-1])
            if self.row_shifts or self.seek is not None or not self.beginning.known:
                self._observe(start, time)
        return start

    def _observe(self, start: int, time: Int64s) -> None:
        self.beginning.observe(start, time)
        for row_shift in self.row_shifts:
            row_shift.observe(self, start, time)
        if self.seek is not None:
            self.seek(self)

    def expire(self, low: int) -> None:
        """Rows below ``low`` are no longer needed by this stub."""
        if low > self.low:
            self.low = low
            self.store.trim()

    def probe(self, rows: Int64s, names: Sequence[str]) -> dict[str, pa.Array]:
        """Columns of the rows with these numbers."""
        cut = len(self.prefix)
        found = self.store.take(rows + self.shift if self.shift else rows, tuple(n[cut:] for n in names))
        return {n: found[n[cut:]] for n in names}

    def slice(self, low: int, high: int, names: Sequence[str]) -> dict[str, pa.Array]:
        cut = len(self.prefix)
        found = self.store.slice(low + self.shift, high + self.shift, tuple(n[cut:] for n in names))
        return {n: found[n[cut:]] for n in names}

    @property
    def nbytes(self) -> int:
        """Its share of the store, which stubs of other windows may need too."""
        return self.store.nbytes(len(self)) // max(1, len(self.store.stubs))

    def spilled(self) -> tuple[int, int]:
        """Its share of the rows and bytes that the store has on the disk."""
        rows, bytes = self.store.on_disk()
        stub_count = max(1, len(self.store.stubs))
        return min(rows, len(self)), bytes // stub_count

    def give_back(self, bytes: int) -> int:
        """Copy what is needed out of the oldest chunk, if that frees anything: a chunk is dropped as a whole, and one
        row can hold many that are not needed."""
        before = self.store.nbytes()
        self.store.trim(copying=True)
        return max(0, before - self.store.nbytes())

    def detach(self) -> None:
        """Give the stub a store of its own with the rows it needs."""
        store, shift = self.store, self.shift
        if len(store.stubs) == 1 and (store.first, store.end) == (self.low + shift, self.end + shift):
            return
        own = Store(store.schema, self.low + shift)
        own.append(store.slice(self.low + shift, self.end + shift), self.end - self.low)
        self._move(own)

    def attach(self, store: Store, shift: int | None = None) -> bool:
        """Move the stub to a store of the same sequence, which gets what it lacks. Row r of the stub is row r +
        ``shift`` there (None: as it is where the stub is now).

        Refused (False) where rows between the two are in neither store: a stub that lags behind has them still to
        come, and their places in the shared store would be taken by other rows.
        """
        if store is self.store:
            return True
        shift = self.shift if shift is None else shift
        low, end = self.low + shift, self.end + shift
        if low > store.end or store.first > end or set(self.store.schema) != set(store.schema):
            return False
        older, newer = max(0, store.first - low), max(0, end - store.end)
        parts = [(self._stored(self.low, self.low + older), older)] if older else []
        parts += [(store.slice(store.first, store.end), store.end - store.first)] if older else []
        parts += [(self._stored(self.end - newer, self.end), newer)] if newer else []
        if older:
            store.starts, store.lengths, store.chunks = [], [], []
            store.first = store.end = low
        self._move(store)  # first, because a store keeps only what its stubs need
        self.shift = shift
        for rows, length in parts:
            store.append(rows, length)
        return True

    def began_before(self, other: Stub) -> bool:
        """Whether its query was registered before that of another, over the same stream."""
        return self.what is not None and other.what is not None and self.what.epoch < other.what.epoch

    def join(self, store: Store, shift: int) -> bool:
        """Move to the store of an older query, as soon as all rows that are needed have a number there."""
        return self.beginning.settled(self.low) and self.attach(store, shift)

    def _stored(self, low: int, high: int) -> dict[str, pa.Array]:
        return self.store.slice(low + self.shift, high + self.shift)

    def _move(self, store: Store) -> None:
        self.store.stubs.remove(self)
        self.store.trim()
        self.store = store
        store.take_in(self)

    def state(self) -> dict[str, Any]:
        rows = Aligned(self.low, self._stored(self.low, self.end), self.end - self.low)
        epoch = None if self.what is None else self.what.epoch
        began = {"last": self.last, "beginning": self.beginning.state()}
        return {"low": self.low, "end": self.end, "rows": rows, "epoch": epoch, **began}

    def load(self, state: dict[str, Any]) -> None:
        """Into a store of its own; ``Registry.switch`` brings stubs together again when all have been loaded."""
        self.low, self.end = int(state["low"]), int(state["end"])
        if self.what is not None:
            self.what = replace(self.what, epoch=int(state["epoch"]))
        self.last = state.get("last")
        self.beginning.load(state.get("beginning"))
        rows = plain(state["rows"])
        own = Store(Schema(tuple(f for f in self.store.schema if f.name in rows)), self.low)
        own.append(rows, self.end - self.low)
        self._move(own)
        self.shift = 0
