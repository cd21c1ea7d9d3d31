"""A limit of memory for the indexes of a join with many attributes leads to a multi-route join, on Spark as inline."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline as ed
from eddyline.datasets.multi_route import complete_join, multi_route

STREAMS, ROWS = 6, 100  # five attributes each
TEXT = complete_join(STREAMS, f"[ROWS {ROWS}]")
TIGHT, AMPLE = (f"fitting(memory={per_row * STREAMS * ROWS}, window=300, periodic=900)" for per_row in (8, 400))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("complete")
    for name, table in multi_route(STREAMS, tuples=900, phase=300, values=(4, 6, 8)).items():
        (place / name).mkdir()
        pq.write_table(table, place / name / "0.parquet")
    return place


def started(session: ed.Session, folder: Path, **options: str) -> ed.Query:
    """Both runtimes read files: rows of one instant have an order there, which a DataFrame has not."""
    for i in range(STREAMS):
        session.stream(f"S{i}", str(folder / f"S{i}" / "*.parquet"), timestamp="ts")
    return session.query(TEXT, **options)


def rows(table: pa.Table) -> Counter[Any]:
    return Counter(zip(*(c.to_pylist() for c in table.columns), strict=True))


def chosen(query: ed.Query) -> list[str]:
    return [str(d.after) for d in query.decisions if d.kind == "join operator"]


def test_the_planner_takes_routes_where_the_indexes_of_an_mjoin_do_not_fit(spark: Any, folder: Path) -> None:
    plain = started(ed.Session(), folder)
    expected = rows(plain.to_arrow())
    assert chosen(plain) == ["adaptive-join"] and sum(expected.values()) > 100
    limited = started(ed.Session(), folder, index=TIGHT)
    assert chosen(limited) == ["routes"] and rows(limited.to_arrow()) == expected

    for index, operator in ((TIGHT, "routes"), (AMPLE, "adaptive-join")):
        query = started(ed.Session(spark), folder, index=index)
        assert rows(query.to_arrow()) == expected
        decided = [d for d in query.report()["decisions"] if d["kind"] == "join operator"]
        assert {d["after"] for d in decided} == {operator}
        if operator == "routes":
            assert all("the hash indexes of an MJoin take about" in d["reason"] for d in decided)
