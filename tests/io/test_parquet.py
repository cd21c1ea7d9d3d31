"""Parquet: pruning, order, normalised types, damaged files."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eddyline.core.errors import JobError
from eddyline.io import parquet
from eddyline.io.parquet import ParquetSource
from tests.io.read import rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    table = pa.table(
        {"ts": pa.array(range(1000), pa.timestamp("us")), "k": pa.array(range(1000), pa.int32()), "s": ["x"] * 1000}
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=400)
    return tmp_path / "a.parquet"


def test_columns_in_the_asked_order_and_bounded_batches(path: Path) -> None:
    source = ParquetSource([path])
    batches = [b.rows for b in source.open(["s", "ts"], 300)]
    assert all(b.schema.names == ["s", "ts"] and len(b) <= 300 for b in batches)
    assert pa.Table.from_batches(batches).column("ts").cast(pa.int64()).to_pylist() == list(range(1000))
    assert next(b.rows.schema.names for b in source.open([], 1000)) == ["ts"]


def test_only_the_asked_columns_are_decoded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    real = pq.ParquetFile.iter_batches

    def spy(self: pq.ParquetFile, *a: object, **k: object) -> object:
        asked.append(k["columns"])  # type: ignore[arg-type]
        return real(self, *a, **k)

    monkeypatch.setattr(parquet.pq.ParquetFile, "iter_batches", spy)
    list(ParquetSource([path]).open(["k"]))
    assert asked == [["k"]]


def test_files_in_the_given_order(tmp_path: Path) -> None:
    for i in range(3):
        pq.write_table(pa.table({"a": [i]}), tmp_path / f"{i}.parquet")
    assert [r["a"] for r in rows(ParquetSource([tmp_path / f"{i}.parquet" for i in (2, 0, 1)]))] == [2, 0, 1]


def test_types_become_the_engines(tmp_path: Path) -> None:
    table = pa.table(
        {
            "t": pa.array([datetime(2024, 5, 1, 10)], pa.timestamp("ns", "Europe/Paris")),
            "before": pa.array([-1], pa.timestamp("ns")),
            "u": pa.array([7], pa.uint16()),
            "s": pa.array(["x"], pa.large_string()),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", store_schema=True)
    source = ParquetSource([tmp_path / "a.parquet"])
    assert source.schema.types == [pa.timestamp("us"), pa.timestamp("us"), pa.int32(), pa.string()]
    (row,) = rows(source)
    assert row["t"] == datetime(2024, 5, 1, 10) and row["u"] == 7
    assert row["before"] == datetime(1969, 12, 31, 23, 59, 59, 999999), "time is rounded down, also before the epoch"


def test_declared_types_put_rows_aside(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": ["1", "x", None, "3"]}), tmp_path / "a.parquet")
    (batch,) = ParquetSource([tmp_path / "a.parquet"], pa.schema([("a", pa.int64())])).open()
    assert batch.rows.to_pydict() == {"a": [1, None, 3]}
    assert [i.reason for i in batch.invalid] == ["a.parquet, row 2: column 'a': 'x' is not a value of type bigint"]


def test_dictionary_encoded_strings(path: Path) -> None:
    (batch, *_) = ParquetSource([path], dictionary=True).open(["s"])
    assert pa.types.is_dictionary(batch.rows.column("s").type)
    assert ParquetSource([path], dictionary=True).schema.field("s").type == pa.string()


def test_no_rows(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "a.parquet")
    assert rows(ParquetSource([tmp_path / "a.parquet"])) == []


def test_mistakes_are_named(tmp_path: Path, path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 this is not Parquet PAR1")
    (tmp_path / "empty.parquet").touch()
    with pytest.raises(JobError, match=r"bad\.parquet is not a readable Parquet file"):
        ParquetSource([tmp_path / "bad.parquet"])
    with pytest.raises(JobError, match=r"empty\.parquet is empty \(0 bytes\)"):
        ParquetSource([tmp_path / "empty.parquet"])
    with pytest.raises(JobError, match=r"no column 'tss'\. Did you mean 'ts'\?"):
        ParquetSource([path], pa.schema([("tss", pa.int64())]))
    pq.write_table(pa.table({"other": [1]}), tmp_path / "b.parquet")
    with pytest.raises(JobError, match=r"b\.parquet has no column 'ts'"):
        rows(ParquetSource([path, tmp_path / "b.parquet"]))
    pq.write_table(pa.table({"nested": [[[1]]]}), tmp_path / "n.parquet")
    with pytest.raises(JobError, match=r"column 'nested' has the type list<.*Declare the columns"):
        ParquetSource([tmp_path / "n.parquet"])
