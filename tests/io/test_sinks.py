"""Sinks: what is written is what is read, and nothing is ever half there."""

from __future__ import annotations

import gzip
import io
import json
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from eddyline.core.errors import EddylineError, JobError
from eddyline.io.resolve import open_source
from eddyline.io.sinks import open_sink
from tests.io.read import rows

SCHEMA = pa.schema(
    [("n", pa.int64()), ("x", pa.float64()), ("s", pa.string()), ("b", pa.bool_()), ("_time", pa.timestamp("us"))]
)
ROWS = [
    {"n": 1, "x": 0.5, "s": 'a,"b"\nc', "b": True, "_time": datetime(2024, 5, 1, 10, 0, 0, 123456)},
    {"n": None, "x": None, "s": None, "b": None, "_time": datetime(1969, 12, 31)},
    {"n": 2, "x": 1e300, "s": "", "b": False, "_time": datetime(2024, 5, 1)},
]


@pytest.mark.parametrize("name", ["r.parquet", "r.csv", "r.jsonl", "r.csv.gz", "r.jsonl.gz"])
def test_round_trip(tmp_path: Path, name: str) -> None:
    with open_sink(name, SCHEMA, base=tmp_path) as sink:
        for row in ROWS:
            sink.write(pa.RecordBatch.from_pylist([row], schema=SCHEMA))
        assert next(p.name for p in tmp_path.iterdir()).endswith(".tmp"), "not visible before it is complete"
    assert sink.rows == 3
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert rows(open_source(tmp_path / name, schema=SCHEMA)) == ROWS


@pytest.mark.parametrize("name", ["r.parquet", "r.csv", "r.jsonl", "r.csv.gz"])
def test_no_rows_make_an_empty_result(tmp_path: Path, name: str) -> None:
    with open_sink(tmp_path / name, SCHEMA):
        pass
    assert rows(open_source(tmp_path / name, schema=SCHEMA)) == []


def test_a_failure_leaves_the_earlier_result(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("earlier")
    with pytest.raises(ZeroDivisionError), open_sink(tmp_path / "r.csv", SCHEMA) as sink:
        sink.write(pa.RecordBatch.from_pylist(ROWS, schema=SCHEMA))
        raise ZeroDivisionError
    assert [p.name for p in tmp_path.iterdir()] == ["r.csv"]
    assert (tmp_path / "r.csv").read_text() == "earlier"


def test_types_that_text_formats_lack(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("d", pa.date32()),
            ("m", pa.decimal128(6, 2)),
            ("i", pa.duration("us")),
            ("y", pa.binary()),
            ("z", pa.null()),
            ("f", pa.float64()),
        ]
    )
    row = {
        "d": date(2024, 5, 1),
        "m": Decimal("1.50"),
        "i": timedelta(seconds=90),
        "y": b"\x01",
        "z": None,
        "f": float("inf"),
    }
    for name in ("r.csv", "r.jsonl"):
        with open_sink(tmp_path / name, schema) as sink:
            sink.write(pa.RecordBatch.from_pylist([row], schema=schema))
    assert (tmp_path / "r.csv").read_text().splitlines()[1] == '2024-05-01,1.50,"0:01:30","01",,inf'
    assert json.loads((tmp_path / "r.jsonl").read_text()) == {
        "d": "2024-05-01", "m": "1.50", "i": "0:01:30", "y": "01", "z": None, "f": "Infinity",
    }  # fmt: skip


def test_dictionary_encoded_columns_are_decoded(tmp_path: Path) -> None:
    schema = pa.schema([("s", pa.string())])
    with open_sink(tmp_path / "r.parquet", schema) as sink:
        for values in (["a", "b"], ["c"]):
            sink.write(pa.record_batch({"s": pa.array(values).dictionary_encode()}))
    assert [r["s"] for r in rows(open_source(tmp_path / "r.parquet"))] == ["a", "b", "c"]


def test_equal_results_make_equal_files(tmp_path: Path) -> None:
    for name in ("a.csv.gz", "b.csv.gz"):
        with open_sink(tmp_path / name, SCHEMA) as sink:
            sink.write(pa.RecordBatch.from_pylist(ROWS, schema=SCHEMA))
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()).startswith(b'"n","x"')


def test_table_on_the_console() -> None:
    out = io.StringIO()
    with open_sink(None, SCHEMA, stdout=out) as sink:
        sink.write(pa.RecordBatch.from_pylist(ROWS[:2], schema=SCHEMA))
    assert out.getvalue().splitlines() == [
        "   n |    x | s        | b    | _time",
        "-----+------+----------+------+---------------------------",
        '   1 |  0.5 | a,"b"\\nc | true | 2024-05-01 10:00:00.123456',
        "NULL | NULL | NULL     | NULL | 1969-12-31 00:00:00",
        "(2 rows)",
    ]
    nothing = io.StringIO()
    open_sink(None, pa.schema([("a", pa.int64())]), stdout=nothing).close()
    assert nothing.getvalue() == "a\n-\n(0 rows)\n"


def test_csv_on_standard_output() -> None:
    out = io.StringIO()
    with open_sink("-", pa.schema([("a", pa.int64())]), stdout=out) as sink:
        sink.write(pa.record_batch({"a": [1]}))
        sink.write(pa.record_batch({"a": [2]}))
    assert out.getvalue() == '"a"\n1\n2\n'
    empty = io.StringIO()
    open_sink("-", pa.schema([("a", pa.int64())]), stdout=empty).close()
    assert empty.getvalue() == '"a"\n'


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"the name must end in \.parquet, .*Did you mean '\.parquet'\?"):
        open_sink(tmp_path / "out.parque", SCHEMA)
    with pytest.raises(JobError, match="the name must end in"):
        open_sink(tmp_path / "out.parquet.gz", SCHEMA)
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(JobError, match="it is a directory"):
        open_sink(tmp_path / "d.csv", SCHEMA)
    (tmp_path / "file").touch()
    with pytest.raises(EddylineError, match="cannot be written"):
        open_sink(tmp_path / "file" / "r.csv", SCHEMA)
