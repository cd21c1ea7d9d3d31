"""Tables, frames and iterables as sources."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.core.errors import DataError, InvalidRowsWarning, JobError
from eddyline.expr.types import type_name
from eddyline.io.memory import SAMPLE_ROWS, RowSource, memory_source
from eddyline.io.resolve import open_source
from eddyline.io.source import Source
from tests.io.read import reasons, rows

TABLE = pa.table({"ts": [1, 2], "s": ["a", "b"]})
ROWS = [{"ts": 1, "s": "a"}, {"ts": 2, "s": "b"}]


@pytest.mark.parametrize(
    "data",
    [
        TABLE,
        TABLE.to_batches()[0],
        TABLE.to_reader(),
        pd.DataFrame(ROWS),
        pl.DataFrame(ROWS),
        {"ts": [1, 2], "s": ["a", "b"]},
        [TABLE.slice(0, 1), TABLE.slice(1)],
        iter(TABLE.to_batches(max_chunksize=1)),
        ROWS,
        iter(ROWS),
        [namedtuple("Row", "ts s")(1, "a"), (2, "b")],
    ],
    ids=lambda d: type(d).__name__,
)
def test_everything_that_holds_rows(data: object) -> None:
    assert rows(open_source(data)) == ROWS


def test_lists_can_be_read_again_and_iterators_not() -> None:
    again = memory_source(ROWS)
    assert rows(again) == rows(again) == ROWS and again.finite
    for data in (iter(ROWS), TABLE.to_reader()):
        once = memory_source(data)
        rows(once)
        assert not once.finite
        with pytest.raises(JobError, match="can be read only once"):
            once.open()


def test_tuples_need_a_schema() -> None:
    schema = pa.schema([("ts", pa.int64()), ("s", pa.string())])
    assert rows(memory_source([(1, "a"), (2, "b")], schema)) == ROWS
    with pytest.raises(JobError, match="have no column names: pass a schema"):
        memory_source([(1, "a")])
    with pytest.raises(JobError, match="is empty, so its columns are unknown"):
        memory_source([])
    assert rows(memory_source([], schema)) == []


def test_rows_that_do_not_fit_are_put_aside() -> None:
    schema = pa.schema([("ts", pa.int64()), ("t", pa.timestamp("us")), ("x", pa.float64())])
    data = [
        (1, None, 1),
        (2, "soon", 1.0),
        (1 << 70, None, 0.0),
        (3, None),
        7,
        (True, None, 0.0),
        (4, datetime(2024, 5, 1), 2),
    ]
    source = RowSource(data, schema, "rows")
    assert [r["ts"] for r in rows(source)] == [1, 4]
    assert reasons(source) == [
        "rows, row 2: column 't': 'soon' is not a value of type timestamp",
        "rows, row 3: column 'ts': 1180591620717411303424 is not a value of type bigint",
        "rows, row 4: 2 values instead of 3",
        "rows, row 5: a int is not a row (a mapping or a tuple)",
        "rows, row 6: column 'ts': True is not a value of type bigint",
    ]


def test_times_with_zones_are_utc() -> None:
    paris = timezone(timedelta(hours=2))
    source = memory_source([{"t": datetime(2024, 5, 1, 12, tzinfo=paris)}])
    assert source.schema.types == [pa.timestamp("us")]
    assert rows(source) == [{"t": datetime(2024, 5, 1, 10)}]


def test_most_values_give_the_type() -> None:
    assert memory_source([{"a": 1}, {"a": 2.5}, {"a": None}]).schema.types == [pa.float64()]
    source = memory_source([{"a": 1}, {"a": "x"}, {"a": 3}])
    assert source.schema.types == [pa.int64()] and len(reasons(source)) == 1


class Ticking:
    """A clock on which each look takes a while."""

    def __init__(self) -> None:
        self.at = 0

    def now(self) -> int:
        return self.at // 1000

    def nanoseconds(self) -> int:
        self.at += 40_000_000
        return self.at


def test_rows_that_trickle_in_are_handed_over() -> None:
    def slow() -> Iterator[dict[str, int]]:
        for i in range(6):
            yield {"a": i}

    source = RowSource(slow(), pa.schema([("a", pa.int64())]), clock=Ticking())
    sizes = [len(b.rows) for b in source.open()]
    assert sum(sizes) == 6 and len(sizes) > 1


def test_pruned_and_cut() -> None:
    assert rows(memory_source(ROWS), ["s"]) == [{"s": "a"}, {"s": "b"}]
    assert [len(b.rows) for b in memory_source(TABLE).open(batch_rows=1)] == [1, 1]


def test_what_is_not_a_source() -> None:
    with pytest.raises(JobError, match="a int cannot be read as a source"):
        open_source(7)
    with pytest.raises(JobError, match="no column 'tz'"):
        open_source(TABLE, schema=pa.schema([("tz", pa.int64())]))


class Rating(IntEnum):
    GOOD = 3


def tuples(source: Source) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in rows(source)]


AT_FIVE = datetime(2024, 5, 1, 5)
MIDNIGHT = datetime(2024, 5, 1)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int64(), 2.9),
        (pa.int64(), float("nan")),
        (pa.int64(), float("inf")),
        (pa.int64(), np.float32(0.5)),
        (pa.int64(), Decimal("2.5")),
        (pa.int64(), True),
        (pa.int64(), np.True_),
        (pa.int64(), np.datetime64(1, "us")),
        (pa.int64(), 1 << 63),
        (pa.int8(), 128),
        (pa.int8(), 128.0),
        (pa.float64(), np.True_),
        (pa.bool_(), 1),
        (pa.date32(), 5),
        (pa.date32(), 2.5),
        (pa.date32(), AT_FIVE),
        (pa.timestamp("us"), 5),
        (pa.timestamp("us"), timedelta(1)),
        (pa.duration("us"), 5),
        (pa.duration("us"), MIDNIGHT),
        (pa.decimal128(5, 2), Decimal("1.234")),
    ],
)
@pytest.mark.parametrize("mixed", [False, True])
def test_no_value_is_changed_to_fit_its_column(kind: pa.DataType, value: object, mixed: bool) -> None:
    schema = pa.schema([("ts", pa.int64()), ("v", kind)])
    data: list[object] = [{"ts": 1, "v": value}, (2, None)] if mixed else [(1, value)]
    source = RowSource(data, schema, "rows")
    assert tuples(source) == ([(2, None)] if mixed else [])
    (reason,) = reasons(source)
    assert reason.startswith("rows, row 1: column 'v': ")
    assert reason.endswith(f" is not a value of type {type_name(kind)}")


@pytest.mark.parametrize(
    ("kind", "value", "kept"),
    [
        (pa.int64(), 2.0, 2),
        (pa.int64(), Decimal(2), 2),
        (pa.int8(), np.int64(3), 3),
        (pa.int64(), Rating.GOOD, 3),
        (pa.float64(), 3, 3.0),
        (pa.bool_(), np.True_, True),
        (pa.date32(), MIDNIGHT, MIDNIGHT.date()),
        (pa.timestamp("us"), MIDNIGHT.date(), MIDNIGHT),
        (pa.timestamp("us"), np.datetime64(1_999, "ns"), datetime(1970, 1, 1, 0, 0, 0, 1)),
        (pa.duration("us"), timedelta(1), timedelta(1)),
        (pa.decimal128(5, 2), 7, Decimal(7)),
    ],
)
def test_values_that_fit_exactly_are_taken(kind: pa.DataType, value: object, kept: object) -> None:
    assert tuples(RowSource([(value,), (None,)], pa.schema([("v", kind)]))) == [(kept,), (None,)]


def test_dates_among_timestamps() -> None:
    data = [(AT_FIVE,), (MIDNIGHT.date(),), (None,), (7,)]
    assert tuples(RowSource(data, pa.schema([("v", pa.timestamp("us"))]))) == [(AT_FIVE,), (MIDNIGHT,), (None,)]
    assert tuples(RowSource(data, pa.schema([("v", pa.date32())]))) == [(MIDNIGHT.date(),), (None,)]


def test_a_table_keeps_the_time_of_day_too() -> None:
    source = memory_source(pa.table({"v": [AT_FIVE, MIDNIGHT]}), pa.schema([("v", pa.date32())]), "t")
    assert tuples(source) == [(MIDNIGHT.date(),)]
    assert len(reasons(source)) == 1


@pytest.mark.parametrize("schema", [None, pa.schema([("ts", pa.int64()), ("v", pa.int64())])])
def test_keys_are_columns_in_any_case(schema: pa.Schema | None) -> None:
    data = [{"ts": 1, "v": 2}, {"TS": 2, "V": 4}, {"ts": 3}, {"v": 5, "V": 6}]
    source = RowSource(data, schema, "rows")
    assert source.schema.names == ["ts", "v"]
    assert tuples(source) == [(1, 2), (2, 4), (3, None)]
    assert reasons(source) == ["rows, row 4: the keys 'v' and 'V' name the same column"]


def test_a_key_that_is_no_column() -> None:
    source = RowSource(
        [{"ts": 1, "speeed": 2}, {"ts": 2, 7: 7}], pa.schema([("ts", pa.int64()), ("speed", pa.int64())])
    )
    assert tuples(source) == []
    assert reasons(source) == [
        "the iterable, row 1: there is no column 'speeed'. Did you mean 'speed'?",
        "the iterable, row 2: there is no column '7'. The columns are: ts, speed.",
    ]


def test_a_key_that_appears_after_the_first_rows() -> None:
    source = RowSource(iter([*({"ts": i} for i in range(SAMPLE_ROWS)), {"ts": SAMPLE_ROWS, "v": 1}]), name="rows")
    found = list(source.open())
    assert sum(len(b.rows) for b in found) == SAMPLE_ROWS
    assert [i.reason for b in found for i in b.invalid] == [
        f"rows, row {SAMPLE_ROWS + 1}: there is no column 'v'. The columns are: ts."
    ]


def test_keys_that_are_no_texts() -> None:
    assert tuples(RowSource([{0: 5, 1: "a"}, {0: 6, 1: "b"}])) == [(5, "a"), (6, "b")]


def test_named_tuples_are_read_by_name() -> None:
    schema = pa.schema([("ts", pa.int64()), ("v", pa.int64())])
    turned, other = namedtuple("turned", "V ts")(2, 1), namedtuple("other", "a b")(3, 4)
    assert tuples(RowSource([turned, other], schema)) == [(1, 2), (3, 4)]


def test_pushed_rows_are_judged_like_all_others() -> None:
    schema = pa.schema([("ts", pa.int64()), ("v", pa.int64())])
    session = ed.Session()
    session.stream("S", timestamp="ts", schema=schema)
    query = session.query("SELECT Istream(v) FROM S")
    with pytest.warns(InvalidRowsWarning, match="2.9 is not a value of type bigint"):
        session.push("S", [{"ts": 1, "v": 2.9}, {"ts": 5.5, "v": 1}, {"ts": 6, "vv": 1}, {"ts": 7, "V": 1}])
        session.finish()
    assert query.report()["invalid"] == 3
    assert query.to_arrow()["v"].to_pylist() == [1]
    strict = ed.Session(strict=True)
    strict.stream("S", timestamp="ts", schema=schema)
    strict.query("SELECT Istream(v) FROM S")
    with pytest.raises(DataError, match=r"2\.9 is not a value of type bigint"):
        strict.push("S", [{"ts": 1, "v": 2.9}])
