"""Results are taken from the graph once for queries that ask the same, and each of them gets all of its own."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import eddyline
from tests.engine.sessions import fetched, rows, session

TEXT = "SELECT a, count(*) AS n FROM S [RANGE 5] GROUP BY a"


def test_equal_queries_have_one_delivery_and_one_batch() -> None:
    made = session("S")
    queries = [made.query(TEXT) for _ in range(10)]
    other = made.query(TEXT.replace("AS n", "AS m"))  # the same operators under another name
    made.push("S", rows((1, 1), (2, 2), (9, 1)))
    assert len(made._graph._deliveries) == 2
    first, *more = [q.fetch() for q in queries]
    assert first and all(b is a for batches in more for a, b in zip(first, batches, strict=True))
    found = other.fetch()
    assert [b.schema.names for b in found] == [["a", "m", "_time", "_sign"]]
    assert [list(r.values()) for b in found for r in b.to_pylist()] == [
        list(r.values()) for b in first for r in b.to_pylist()
    ]


@pytest.mark.parametrize("sharing", [True, False])
def test_each_fetches_at_its_own_pace_and_may_go(sharing: bool, tmp_path: Path) -> None:
    def begin() -> tuple[eddyline.Session, list[eddyline.Query]]:
        made = session("S")
        return made, [made.query(TEXT) for _ in range(3)]

    made, (a, b, c) = begin()
    made.push("S", rows((1, 1), (2, 2)))
    early = fetched(a)
    assert early and a.running.produced == b.running.produced == len(early)
    made.sharing = sharing
    made.push("S", rows((3, 1), (4, 2)))
    made.snapshot(tmp_path)
    made, (a, b, c) = begin()
    made.restore(tmp_path)
    late = fetched(a)
    assert late and early + late == fetched(b)
    a.drop()
    made.push("S", rows((9, 3)))
    made.finish()
    assert fetched(a) == []
    assert early + late + fetched(b) == fetched(c)
    b.drop()
    c.drop()
    assert not made._graph._deliveries and not made._graph.operators


def test_a_query_over_constants_is_answered_whenever_it_comes() -> None:
    made = session("S")
    made.relation("K", pa.table({"k": [1, 2]}))
    first = made.query("SELECT k FROM K")
    assert first.to_arrow().num_rows == 2
    second, third = made.query("SELECT k FROM K"), made.query("SELECT k FROM K")
    assert second.to_arrow().num_rows == third.to_arrow().num_rows == 2
    made.push("S", rows((1, 1)))
    made.finish()
    assert [q.to_arrow().num_rows for q in (first, second, third)] == [2, 2, 2]


def test_constants_before_and_after_a_restart(tmp_path: Path) -> None:
    def begin() -> tuple[eddyline.Session, list[eddyline.Query]]:
        made = eddyline.Session()
        made.relation("K", pa.table({"k": [1, 2]}))
        made.stream("S", schema=pa.schema([("ts", pa.int64()), ("a", pa.int64())]), timestamp="ts")
        return made, [made.query("SELECT k FROM K")]

    made, queries = begin()
    assert len(fetched(queries[0])) == 0
    made.push("S", rows((1, 1)))
    assert len(fetched(queries[0])) == 2
    queries.append(made.query("SELECT k FROM K"))  # not answered yet
    made.snapshot(tmp_path)
    made, queries = begin()
    queries.append(made.query("SELECT k FROM K"))
    made.restore(tmp_path)
    made.push("S", rows((2, 1)))
    made.finish()
    assert [len(fetched(q)) for q in queries] == [0, 2]
