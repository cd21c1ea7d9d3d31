"""Small structures behind windows and netting, each against a list."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from eddyline.core.schema import Schema
from eddyline.synopses.keys import KeyTable, numbered
from eddyline.synopses.store import Store
from eddyline.synopses.tail import Tail

VALUES = st.sampled_from(["a", "b", "ß", "", None])
NUMBERS = st.sampled_from([0.0, -0.0, 1.5, float("nan"), None])


@given(st.lists(st.tuples(st.integers(0, 200), st.floats(0, 1)), max_size=30))
def test_a_tail_is_a_list_without_its_beginning(steps: list[tuple[int, float]]) -> None:
    tail, model, number = Tail(), list[int](), 0
    for count, share in steps:
        new = list(range(number, number + count))
        number += count
        tail.append(np.array(new, np.int64))
        model += new
        gone = int(share * len(model))
        tail.forget(gone)
        model = model[gone:]
        assert tail.values.tolist() == model and len(tail) == len(model)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=20), st.data())
def test_a_slice_of_a_store_is_what_take_gives(lengths: list[int], data: st.DataObject) -> None:
    store = Store(Schema.from_arrow(pa.schema([("n", pa.int64()), ("s", pa.string())])))
    for n in lengths:
        rows = list(range(store.end, store.end + n))
        store.append({"n": pa.array(rows), "s": pa.array([str(r) for r in rows])}, n)
    low = data.draw(st.integers(0, store.end))
    high = data.draw(st.integers(low, store.end))
    assert store.slice(low, high) == store.take(np.arange(low, high))
    assert store.slice(low, high, ("s",))["s"].to_pylist() == [str(r) for r in range(low, high)]


@given(st.lists(st.tuples(VALUES, NUMBERS), max_size=80))
def test_equal_rows_have_equal_numbers(rows: list[tuple[str | None, float | None]]) -> None:
    strings, numbers = pa.array([r[0] for r in rows], pa.string()), pa.array([r[1] for r in rows], pa.float64())
    for column in (strings, strings.dictionary_encode()):
        got, count = numbered([column, numbers], len(rows))
        same = [(s, "nan" if x is not None and x != x else x) for s, x in rows]
        assert count == len(set(same))
        assert len(set(zip(got.tolist(), same, strict=True))) == count


@given(st.lists(st.lists(VALUES, max_size=60), max_size=5), st.booleans())
def test_a_single_string_key(batches: list[list[str | None]], encoded: bool) -> None:
    """Values of a dictionary that no row has are not kept, and what is released is forgotten."""
    table = KeyTable([pa.string()])
    for batch in batches:
        column = pa.array(batch, pa.string())
        if encoded:
            index = [None if v is None else ["unused", "a", "b", "ß", ""].index(v) for v in batch]
            column = pa.DictionaryArray.from_arrays(pa.array(index, pa.int32()), ["unused", "a", "b", "ß", ""])
        ids = table.intern([column], len(batch))
        assert [table.values(np.array([i]))[0][0].as_py() for i in ids.tolist()] == batch
        assert len(table) == len(set(batch))
        table.release(np.unique(ids))
        assert len(table) == 0
        dictionary = table.dictionaries[0]
        assert dictionary is not None and not dictionary.code and dictionary.nbytes == 0
