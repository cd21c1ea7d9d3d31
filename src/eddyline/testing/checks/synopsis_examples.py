"""The synopses of the package, as the checks use them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Delta, Int64s
from eddyline.core.schema import Field, Schema
from eddyline.synopses.bag import Bag
from eddyline.synopses.kept_rows import KeptRows
from eddyline.synopses.key_counts import KeyCounts
from eddyline.synopses.keys import KeyTable
from eddyline.synopses.remembered import Remembered
from eddyline.synopses.sparse_store import SparseStore, SparseStub
from eddyline.synopses.spill import Spill
from eddyline.synopses.store import Store, Stub
from eddyline.synopses.tail import Tail
from eddyline.testing.checks.synopses import ORDERS, Row, SynopsisExample

SCHEMA = Schema((Field("key", pa.int64()), Field("value", pa.int64())))


def _columns(rows: Sequence[Row]) -> dict[str, pa.Array]:
    return {
        "key": pa.array([key for key, _ in rows], pa.int64()),
        "value": pa.array([value for _, value in rows], pa.int64()),
    }


class _OfStub:
    """What the stubs of both kinds of store do alike; ``numbers`` are those of the rows that are held."""

    stub: Any
    numbers: Callable[[], Int64s]

    def probe(self, key: int) -> list[Any]:
        found = self.stub.probe(self.numbers(), SCHEMA.names)
        rows = zip(found["key"].to_pylist(), found["value"].to_pylist(), strict=True)
        return [value for k, value in rows if k == key]

    def __len__(self) -> int:
        return len(self.stub)

    @property
    def nbytes(self) -> int:
        return int(self.stub.store.nbytes())

    def state(self) -> Any:
        return self.stub.state()

    def load(self, state: Any) -> None:
        self.stub.load(state)


class InStub(_OfStub):
    """Rows in a store, by row number."""

    order = ORDERS[0]

    def __init__(self) -> None:
        self.stub = stub = Stub(Store(SCHEMA))
        self.numbers = lambda: np.arange(stub.low, stub.end)

    def insert(self, rows: Sequence[Row]) -> None:
        self.stub.insert(_columns(rows), len(rows))

    def expire(self, rows: Sequence[Row]) -> None:
        self.stub.expire(self.stub.low + len(rows))


class InSparseStub(_OfStub):
    """Rows by number in a store from which any row may be removed."""

    order = ORDERS[1]

    def __init__(self) -> None:
        self.stub = SparseStub(SparseStore(SCHEMA))
        self.held: dict[int, Row] = {}
        self.stub.needed = self.numbers = lambda: np.array(sorted(self.held), np.int64)

    def insert(self, rows: Sequence[Row]) -> None:
        start = self.stub.insert(_columns(rows), len(rows))
        self.held |= {start + i: row for i, row in enumerate(rows)}
        self.stub.expire()

    def expire(self, rows: Sequence[Row]) -> None:
        for row in rows:
            del self.held[next(n for n, r in self.held.items() if r == row)]
        self.stub.expire()

    def load(self, state: Any) -> None:
        super().load(state)
        rows = zip(*(state["rows"][n].to_pylist() for n in ("key", "value")), strict=True)
        self.held = dict(zip(state["numbers"].tolist(), rows, strict=True))


class InTail:
    """Keys and values as one number each."""

    order = ORDERS[0]

    def __init__(self) -> None:
        self.tail = Tail()

    def insert(self, rows: Sequence[Row]) -> None:
        self.tail.append(np.array([key * 1_000_000 + value for key, value in rows], np.int64))

    def expire(self, rows: Sequence[Row]) -> None:
        self.tail.forget(len(rows))

    def probe(self, key: int) -> list[Any]:
        return [int(n % 1_000_000) for n in self.tail.values if n // 1_000_000 == key]

    def __len__(self) -> int:
        return len(self.tail)

    @property
    def nbytes(self) -> int:
        return self.tail.nbytes

    def state(self) -> Any:
        return self.tail.values.copy()

    def load(self, state: Any) -> None:
        self.tail = Tail(state)


class InBag:
    """Rows in slots; each row is there once, because its value is its own."""

    order = ORDERS[1]

    def __init__(self) -> None:
        self.bag = Bag(SCHEMA, by_id=False)

    def _slots(self, rows: Sequence[Row]) -> Any:
        return self.bag.insert(Delta(np.zeros(len(rows), np.int64), _columns(rows)))

    def insert(self, rows: Sequence[Row]) -> None:
        self._slots(rows)

    def expire(self, rows: Sequence[Row]) -> None:
        self.bag.expire(self._slots(rows))
        self.bag.compact()

    def probe(self, key: int) -> list[Any]:
        found = self.bag.store.take(self.bag.rownum[self.bag.table.live_ids()])
        rows = zip(found["key"].to_pylist(), found["value"].to_pylist(), strict=True)
        return [value for k, value in rows if k == key]

    def __len__(self) -> int:
        return len(self.bag)

    @property
    def nbytes(self) -> int:
        return self.bag.nbytes

    def state(self) -> Any:
        return self.bag.state()

    def load(self, state: Any) -> None:
        self.bag.load(state)


class InRemembered:
    """A value by key."""

    order = ORDERS[1]

    def __init__(self) -> None:
        self.memory = Remembered([pa.int64()], Schema((Field("value", pa.int64()),)))

    def insert(self, rows: Sequence[Row]) -> None:
        columns = _columns(rows)
        self.memory.put([columns["key"]], {"value": columns["value"]}, len(rows))

    def expire(self, rows: Sequence[Row]) -> None:
        self.memory.release(self.memory.find([_columns(rows)["key"]], len(rows)))

    def probe(self, key: int) -> list[Any]:
        slots = self.memory.find([pa.array([key])], 1)
        found: list[Any] = self.memory.take(slots[slots >= 0])["value"].to_pylist()
        return found

    def __len__(self) -> int:
        return len(self.memory)

    @property
    def nbytes(self) -> int:
        return self.memory.nbytes

    def state(self) -> Any:
        return self.memory.state()

    def load(self, state: Any) -> None:
        self.memory.load(state)


class InKeyTable(InRemembered):
    """Keys as ids: what is found of a key is what was stored under its id beside the table."""

    def __init__(self) -> None:
        self.table = KeyTable([pa.int64()])
        self.beside: dict[int, Any] = {}

    def insert(self, rows: Sequence[Row]) -> None:
        ids = self.table.intern([_columns(rows)["key"]], len(rows)).tolist()
        self.beside |= {i: value for i, (_, value) in zip(ids, rows, strict=True)}

    def expire(self, rows: Sequence[Row]) -> None:
        self.table.release(self.table.find([_columns(rows)["key"]], len(rows)))

    def probe(self, key: int) -> list[Any]:
        (found,) = self.table.find([pa.array([key])], 1).tolist()
        return [self.beside[found]] if found >= 0 else []

    def __len__(self) -> int:
        return len(self.table)

    @property
    def nbytes(self) -> int:
        return self.table.nbytes

    def state(self) -> Any:
        return {"table": self.table.state(), "ids": list(self.beside), "values": list(self.beside.values())}

    def load(self, state: Any) -> None:
        self.table.load(state["table"])
        self.beside = dict(zip(state["ids"], state["values"], strict=True))


class InKeyCounts:
    """How often a key is there: values are numbers of its rows, in the order in which they came."""

    order = ORDERS[1]

    def __init__(self) -> None:
        self.counts, self.now, self.rows = KeyCounts([SCHEMA["key"].type, SCHEMA["value"].type]), 0, 0

    def _change(self, rows: Sequence[Row], weight: int) -> None:
        self.now += 1
        columns = _columns(rows)
        time = np.full(len(rows), self.now, np.int64)
        self.counts.change(time, [columns["key"], columns["value"]], np.full(len(rows), weight, np.int64))
        self.counts.settle()
        self.rows += weight * len(rows)

    def insert(self, rows: Sequence[Row]) -> None:
        self._change(rows, 1)

    def expire(self, rows: Sequence[Row]) -> None:
        self._change(rows, -1)

    def probe(self, key: int) -> list[Any]:
        values = np.arange(3_000)
        keys = pa.array(np.full(len(values), key, np.int64))
        there = self.counts.at([keys, pa.array(values)], np.full(len(values), self.now, np.int64))
        return [int(v) for v in values[there > 0]]

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def nbytes(self) -> int:
        return self.counts.nbytes

    def state(self) -> Any:
        return {"counts": self.counts.state(), "now": self.now}

    def load(self, state: Any) -> None:
        self.counts.load(state["counts"])
        self.now = state["now"]


class InKeptRows:
    """Rows by number that may be removed in any order."""

    order = ORDERS[1]

    def __init__(self) -> None:
        self.rows = KeptRows(SCHEMA)
        self.there: dict[Row, int] = {}

    def insert(self, rows: Sequence[Row]) -> None:
        start = self.rows.insert(_columns(rows), len(rows))
        self.there |= {row: start + i for i, row in enumerate(rows)}

    def expire(self, rows: Sequence[Row]) -> None:
        for row in rows:
            del self.there[row]
        kept = sorted(self.there, key=self.there.__getitem__)
        self.rows.retain(np.array(sorted(self.there.values()), np.int64))
        self.there = {row: i for i, row in enumerate(kept)}

    def probe(self, key: int) -> list[Any]:
        found = self.rows.probe(np.array(sorted(self.there.values()), np.int64), SCHEMA.names)
        rows = zip(found["key"].to_pylist(), found["value"].to_pylist(), strict=True)
        return [value for k, value in rows if k == key]

    def __len__(self) -> int:
        return len(self.there)

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes

    def state(self) -> Any:
        return self.rows.state(np.array(sorted(self.there.values()), np.int64))

    def load(self, state: Any) -> None:
        self.rows.load(state)
        pairs = zip(state["rows"]["key"].to_pylist(), state["rows"]["value"].to_pylist(), strict=True)
        self.there = {pair: i for i, pair in enumerate(pairs)}


class InSpill:
    """Rows outside of memory, which come back when they are asked for by key and go out again."""

    order = ORDERS[1]

    def __init__(self) -> None:
        self.spill, self.number = Spill([SCHEMA], 1), 0

    def _add(self, rows: Sequence[Row]) -> None:
        keys = np.array([key for key, _ in rows], np.int64)
        number = np.arange(self.number, self.number + len(rows))
        self.number += len(rows)
        self.spill.add(0, number, np.full(len(rows), 1 << 40), keys[:, None], np.zeros_like(keys), _columns(rows))

    def _take(self, key: int) -> list[Row]:
        found = [rows for _, rows in self.spill.take(np.array([[0, key]], np.int64))]
        columns = found[0].columns if found else {n: pa.array([], pa.int64()) for n in SCHEMA.names}
        return list(zip(columns["key"].to_pylist(), columns["value"].to_pylist(), strict=True))

    def insert(self, rows: Sequence[Row]) -> None:
        self._add(rows)

    def expire(self, rows: Sequence[Row]) -> None:
        for key in {key for key, _ in rows}:
            if left := [row for row in self._take(key) if row not in rows]:
                self._add(left)

    def probe(self, key: int) -> list[Any]:
        rows = self._take(key)
        if rows:
            self._add(rows)
        return [value for _, value in rows]

    def __len__(self) -> int:
        return self.spill.rows()[0]

    @property
    def nbytes(self) -> int:
        return self.spill.nbytes

    def state(self) -> Any:
        return {"spill": self.spill.state(), "number": self.number}

    def load(self, state: Any) -> None:
        self.spill.load(state["spill"])
        self.number = int(state["number"])


SYNOPSES = (
    SynopsisExample("store", InStub),
    SynopsisExample("sparse store", InSparseStub),
    SynopsisExample("tail", InTail),
    SynopsisExample("bag", InBag),
    SynopsisExample("remembered", InRemembered, keys=200, distinct=True),
    SynopsisExample("key table", InKeyTable, keys=200, distinct=True),
    SynopsisExample("key counts", InKeyCounts),
    SynopsisExample("kept rows", InKeptRows),
    SynopsisExample("spill", InSpill),
)
