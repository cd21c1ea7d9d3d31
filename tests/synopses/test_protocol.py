"""Every synopsis speaks the protocols, and what is asked back between batches changes no answer."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.core.schema import Field, Schema
from eddyline.operators.join_plan import CacheSpec
from eddyline.operators.mjoin import MJoin
from eddyline.synopses.bag import Bag
from eddyline.synopses.join_caches import JoinCaches
from eddyline.synopses.protocol import CacheSynopsis, Index, RowSynopsis
from eddyline.synopses.slot_rows import SlotRows
from eddyline.synopses.store import Store, Stub
from eddyline.testing.clock import ManualClock

SCHEMA = Schema((Field("a", pa.int64()),))
WINDOWS = {
    "rings": "R [RANGE {w}], S [RANGE {w}], T [RANGE {w}]",
    "bags": "R [RANGE {w}], (SELECT DISTINCT ts, a, b FROM S [RANGE {w}]) S, T [ROWS 40]",
}


def operator(query: ed.Query) -> MJoin:
    return next(n.operator for n in query.running.physical.nodes if isinstance(n.operator, MJoin))


def run(windows: str, seed: int, asks: bool, seen: Counter[str]) -> pa.Table:
    """The sorted results of a join with caches, three streams in small batches; now and then memory is asked back."""
    rng, coin = np.random.default_rng(seed), random.Random(seed)
    session = ed.Session(clock=ManualClock())
    for name in "RST":
        session.stream(name, schema=pa.schema([(c, pa.int64()) for c in ("ts", "a", "b")]), timestamp="ts")
    text = f"SELECT Istream(R.ts AS r, S.ts AS s, T.ts AS t) FROM {WINDOWS[windows].format(w=300)}"
    query = session.query(f"{text} WHERE R.a = S.a AND S.b = T.b", joins="static", caches="none")
    for begin in range(0, 3600, 60):
        # Bursts make windows grow and shrink, so that there is room to give back.
        ts = np.sort(rng.integers(begin, begin + 60, 240 if begin // 600 % 3 == 1 else 30))
        for i, name in enumerate("RST"):
            mine = ts[i::3]
            keys = {c: rng.integers(0, 12, len(mine)) for c in ("a", "b")}
            session.push(name, pa.table({"ts": mine, **keys}))
        join = operator(query)
        if begin == 0:  # S⋈T in the pipeline of R, by the key of R and S
            join.arrays.set_plan([(1, 2), (2, 0), (1, 0)], [CacheSpec(0, 0, 1, (1, 2), (0,))])
        if asks and coin.random() < 0.3:
            caches = join.arrays.cache_operators.nbytes
            wanted = coin.choice([1, 5000, 1 << 30])
            freed = join.give_back(wanted)
            seen["asked"] += 1
            seen["freed"] += freed > 0
            seen["caches"] += join.arrays.cache_operators.nbytes < caches
            store = join.arrays.cache_operators.caches.counts(CacheSpec(0, 0, 1, (1, 2), (0,)).store)
            seen["hits"] = max(seen["hits"], store.probes - store.misses)
            check_indexes(join, np.random.default_rng(begin), seen)
    session.finish()
    found = query.to_arrow()
    return found.sort_by([(name, "ascending") for name in found.column_names])


def check_indexes(join: MJoin, rng: np.random.Generator, seen: Counter[str]) -> None:
    arrays = join.arrays
    for (i, columns), x in arrays.index_of.items():
        index = arrays.hash_index(x)
        assert isinstance(index, Index) and index.nbytes > 0 and index.give_back(1) == 0
        live = arrays.live(i)
        codes = np.stack([arrays.codes[_code_at(arrays, i, live, c)] for c in columns], 1)
        assert len(index) == len(live)
        for key in rng.integers(0, 14, (3, len(columns))):
            expected = live[(codes == key).all(1)]
            assert sorted(index.probe(key.tolist()).tolist()) == expected.tolist()
            seen["found"] += len(expected)


def _code_at(arrays: Any, i: int, positions: Any, column: int) -> Any:
    from eddyline.kernels import join_layout as k

    offset, mask, width = (int(arrays.inputs[i, f]) for f in (k.CODE_OFF, k.POS_MASK, k.CODE_WIDTH))
    return offset + (positions & mask) * width + column


@pytest.mark.parametrize("windows", WINDOWS)
def test_memory_that_is_asked_back_changes_no_answer(windows: str) -> None:
    seen = Counter[str]()
    for seed in range(2):
        expected = run(windows, seed, False, Counter())
        assert len(expected) > 1000
        assert run(windows, seed, True, seen).equals(expected)
    assert (
        seen["asked"] > 25 and seen["freed"] > 10 and seen["caches"] > 1 and seen["hits"] > 40 and seen["found"] > 200
    ), seen


def test_a_stub_gives_back_what_its_oldest_chunk_holds_for_nobody() -> None:
    stub = Stub(Store(SCHEMA))
    assert isinstance(stub, RowSynopsis)
    stub.insert({"a": pa.array(range(10_000))}, 10_000)
    stub.expire(9_000)
    assert stub.store.nbytes() == 80_000 and stub.give_back(1) == 72_000 == 80_000 - stub.nbytes
    assert stub.probe(np.array([9_000, 9_999]), ["a"])["a"].to_pylist() == [9_000, 9_999]
    saved = stub.state()
    other = Stub(Store(SCHEMA))
    other.load(saved)
    assert (other.low, other.end) == (9_000, 10_000)


def test_a_bag_gives_back_dead_rows_and_keeps_its_slots() -> None:
    from eddyline.core.delta import Delta

    bag = Bag(SCHEMA, by_id=False)
    assert isinstance(bag, RowSynopsis)
    slots = bag.insert(Delta(np.zeros(1000, np.int64), {"a": pa.array(range(1000))}))
    bag.expire(slots[:900])
    assert bag.give_back(1) >= 7200
    assert bag.probe(slots[900:], ["a"])["a"].to_pylist() == list(range(900, 1000))


def test_caches_are_a_synopsis() -> None:
    assert isinstance(JoinCaches(), CacheSynopsis)


def test_slots_give_back_dead_rows_and_are_given_again() -> None:
    rows = SlotRows(SCHEMA)
    assert isinstance(rows, RowSynopsis)
    slots = rows.insert({"a": pa.array(range(1000))}, 1000)
    rows.expire(slots[:900])
    assert rows.give_back(1) >= 7200 and len(rows) == 100
    assert rows.probe(slots[900:], ["a"])["a"].to_pylist() == list(range(900, 1000))
    again = rows.insert({"a": pa.array([-1, -2])}, 2)
    assert set(again.tolist()) <= set(slots[:900].tolist())
    other = SlotRows(SCHEMA)
    other.load(rows.state())
    assert other.probe(again, ["a"])["a"].to_pylist() == [-1, -2]
    assert not set(other.insert({"a": pa.array([-3])}, 1).tolist()) & {*again.tolist(), *slots[900:].tolist()}
