"""Tables, frames and iterables as sources."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from eddyline.core.errors import JobError
from eddyline.io.memory import RowSource, memory_source
from eddyline.io.resolve import open_source
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
