"""The key table against a dictionary."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.synopses.codes import direct_codes, direct_values
from eddyline.synopses.keys import KeyTable

rows = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(-3, 3)),
        st.one_of(st.none(), st.sampled_from(["", "a", "b", "ä"])),
        st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf])),
    ),
    max_size=40,
)
TYPES = [pa.int64(), pa.string(), pa.float64()]


def canonical(row: tuple[Any, ...]) -> tuple[Any, ...]:
    number = row[2]
    return (*row[:2], "nan" if number is not None and math.isnan(number) else number)


def columns(batch: list[tuple[Any, ...]]) -> list[pa.Array]:
    return [pa.array([r[j] for r in batch], t) for j, t in enumerate(TYPES)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(rows, st.integers(0, 5)), max_size=8), st.booleans())
def test_equal_rows_share_an_id_until_it_is_released(steps: list[tuple[list[Any], int]], reload: bool) -> None:
    table, model = KeyTable(TYPES), {}
    for batch, drop in steps:
        ids = table.intern(columns(batch), len(batch))
        for row, i in zip(batch, ids.tolist(), strict=True):
            assert model.setdefault(canonical(row), i) == i
        assert len(set(model.values())) == len(model) == len(table)
        found = table.find(columns(batch), len(batch))
        assert found.tolist() == ids.tolist()
        gone = list(model)[:drop]
        table.release(np.array([model.pop(g) for g in gone], np.int64))
        if reload:
            fresh = KeyTable(TYPES)
            fresh.load(table.state())
            table = fresh
        assert sorted(model.values()) == table.live_ids().tolist()
        back = list(zip(*(c.to_pylist() for c in table.values(np.array(list(model.values()), np.int64))), strict=True))
        assert [canonical(r) for r in back] == list(model)


def test_what_is_not_there_is_not_found_and_not_added() -> None:
    table = KeyTable([pa.string()])
    table.intern([pa.array(["a"])], 1)
    assert table.find([pa.array(["a", "b", None])], 3).tolist() == [0, -1, -1]
    assert len(table) == 1


def test_memory_stays_flat_when_keys_come_and_go() -> None:
    table = KeyTable([pa.string(), pa.int64()])
    for i in range(200):
        ids = table.intern([pa.array([f"k{i}-{j}" for j in range(50)]), pa.array(range(50))], 50)
        table.release(ids)
    assert len(table) == 0
    assert table.capacity <= 50
    assert not table.dictionaries[0].code  # type: ignore[union-attr]


def test_every_type_that_is_its_own_code_may_have_nulls() -> None:
    arrays = [pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]), pa.array([dt.time(1, 2), None]), pa.nulls(2)]
    for type in (pa.bool_(), pa.int8(), pa.float32(), pa.float64(), pa.timestamp("us"), pa.duration("us")):
        arrays.append(pa.array([1, None], pa.int64()).cast(type))
    for array in arrays:
        codes, nulls = direct_codes(array)
        assert direct_values(codes, array.type, nulls).equals(array)
