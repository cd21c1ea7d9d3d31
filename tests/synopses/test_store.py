"""Stores and stubs against plain lists."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from eddyline.core.schema import Field, Schema
from eddyline.synopses.registry import Registry
from eddyline.synopses.store import Elements, Store, Stub

SCHEMA = Schema((Field("a", pa.int64()), Field("s", pa.string())))


def rows(low: int, high: int) -> dict[str, pa.Array]:
    return {"S.a": pa.array(range(low, high), pa.int64()), "S.s": pa.array([f"r{i}" for i in range(low, high)])}


def check(stub: Stub) -> None:
    wanted = np.arange(stub.low, stub.end)
    found = stub.probe(wanted, ("S.a", "S.s"))
    assert found["S.a"].to_pylist() == wanted.tolist()
    assert found["S.s"].to_pylist() == [f"r{i}" for i in wanted]
    for many in (1, 3, 2 * len(wanted)) if len(wanted) else ():  # few, one twice perhaps, and in any order
        some = np.random.default_rng(len(wanted)).choice(wanted, many)
        found = stub.probe(some, ("S.a", "S.s"))
        assert found["S.a"].to_pylist() == some.tolist()
        assert found["S.s"].to_pylist() == [f"r{i}" for i in some]


@pytest.mark.parametrize("seed", range(20))
def test_stubs_with_their_own_progress_share_rows_and_can_part(seed: int) -> None:
    rng = random.Random(seed)
    named = Schema(tuple(Field(f"S.{f.name}", f.type) for f in SCHEMA))
    registry = Registry()
    stubs = [registry.stub(Elements("S", 0), named, "S.") for _ in range(3)]
    assert len({id(s.store) for s in stubs}) == 1
    for _ in range(60):
        stub = rng.choice(stubs)
        action = rng.random()
        if action < 0.5:
            n = rng.choice([0, 1, 2, 7, 40])
            stub.insert(rows(stub.end, stub.end + n), n)
        elif action < 0.8:
            stub.expire(rng.randint(stub.low, stub.end))
        elif action < 0.9:
            registry.switch(not registry.sharing)
        for s in stubs:
            check(s)
            assert s.store.first <= s.low
            assert s.store.end >= s.end
        held = sum(len(s) for s in stubs)
        assert registry.sharing or sum(s.store.end - s.store.first for s in stubs) >= held


def test_a_store_fed_row_by_row_has_few_chunks_and_drops_what_nobody_needs() -> None:
    store = Store(SCHEMA)
    stub = Stub(store, "S.")
    for i in range(1000):
        stub.insert(rows(i, i + 1), 1)
        stub.expire(max(0, i - 100))
    assert len(store.chunks) < 12
    assert store.end - store.first < 400
    check(stub)


@pytest.mark.parametrize("bytes", [0, 2_000, 1 << 18])
def test_rows_are_the_same_whether_columns_are_copied_or_read_chunk_by_chunk(
    bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eddyline.synopses.store.MAX_COPIED_BYTES", bytes)
    store = Store(Schema((*SCHEMA.fields, Field("d", pa.dictionary(pa.int32(), pa.string())))))
    for length in (300, 100, 30, 9, 2):
        named = [f"r{i}" for i in range(store.end, store.end + length)]
        columns = {"a": pa.array(range(store.end, store.end + length)), "s": pa.array(named)}
        store.append({**columns, "d": pa.array(named).dictionary_encode()}, length)
    assert len(store.chunks) > 3
    random = np.random.default_rng(1)
    for many in (5, 20, 100, 400):
        wanted = random.integers(0, store.end, many)
        taken = store.take(wanted)
        assert taken["a"].to_pylist() == wanted.tolist()
        assert taken["s"].to_pylist() == taken["d"].to_pylist() == [f"r{i}" for i in wanted]
