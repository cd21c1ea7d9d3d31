"""Strings of Parquet files arrive as dictionaries where that pays, and never as anything else than what they are."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline as ed
from eddyline.io.parquet import ParquetSource

FEW = [None if i % 7 == 0 else f"S{i % 5}" for i in range(4000)]
MANY = [f"a rather long text, number {i}" for i in range(4000)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    table = pa.table({"ts": range(4000), "few": FEW, "many": MANY})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=1000)
    return tmp_path / "t.parquet"


def columns(source: ParquetSource, name: str) -> list[pa.Array]:
    return [b.rows.column(name) for b in source.open([name], 500)]


def test_few_distinct_strings_stay_a_dictionary(path: Path) -> None:
    got = columns(ParquetSource([path]), "few")
    assert all(pa.types.is_dictionary(c.type) for c in got)
    assert [v for c in got for v in c.to_pylist()] == FEW


def test_many_distinct_strings_do_not(path: Path) -> None:
    got = columns(ParquetSource([path]), "many")
    assert all(c.type == pa.string() for c in got)
    assert [v for c in got for v in c.to_pylist()] == MANY


def test_dictionaries_of_row_groups_and_files_are_one(tmp_path: Path) -> None:
    orders = [["x", "y", "z"], ["z", "x", "y"], ["y", "z", "w"]]
    for i, order in enumerate(orders):
        pq.write_table(pa.table({"s": order * 400}), tmp_path / f"{i}.parquet")
    got = columns(ParquetSource([tmp_path / f"{i}.parquet" for i in range(3)]), "s")
    assert [v for c in got for v in c.to_pylist()] == [v for order in orders for v in order * 400]
    assert {tuple(c.dictionary.to_pylist()) for c in got} == {("x", "y", "z"), ("x", "y", "z", "w")}


def test_it_can_be_switched_off(path: Path) -> None:
    assert all(c.type == pa.string() for c in columns(ParquetSource([path], dictionary=False), "few"))


def test_queries_do_not_notice(path: Path) -> None:
    texts = (
        "SELECT Istream(few, count(*) AS n, min(many) AS m) FROM t [ROWS 100] GROUP BY few",
        "SELECT Istream(a.few, b.ts) FROM t [ROWS 3] a, t [ROWS 3] b WHERE a.few = b.few AND upper(a.few) <> 'S1'",
        "SELECT DISTINCT few FROM t [RANGE 20]",
    )
    for text in texts:
        answers = []
        for dictionary in (True, False):
            session = ed.Session()
            session.stream("t", str(path), timestamp="ts", dictionary=dictionary)
            answers.append(session.query(text).to_arrow())
        assert answers[0].num_rows > 0
        assert answers[0].schema == answers[1].schema
        assert answers[0].sort_by([(n, "ascending") for n in answers[0].column_names]) == answers[1].sort_by(
            [(n, "ascending") for n in answers[1].column_names]
        )
