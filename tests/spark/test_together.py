"""Several queries in one Spark query: what they have in common runs once in each shard, and they can be watched."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline as ed
from eddyline.core.errors import JobError
from eddyline.plan.print_html import read_bundle
from eddyline.spark.job import run_job

ROWS = 600
HOT = "SELECT Istream(ts, src, size) FROM packets WHERE suspicious(size)"
READERS = (
    "SELECT src, count(*) AS n FROM hot [RANGE 50] GROUP BY src",
    "SELECT Istream(h.src, h.size) FROM hot h WHERE h.size > 1200",
    "SELECT src, max(size) AS m FROM hot [RANGE 20] GROUP BY src",
)


def packets() -> pa.Table:
    rng = np.random.default_rng(3)
    ts = np.arange(ROWS)
    return pa.table({"ts": ts, "src": rng.integers(0, 5, ROWS), "size": rng.integers(0, 1500, ROWS)})


def declared(session: Any, source: Any, calls: Path, readers: int) -> list[Any]:
    place = str(calls)

    def suspicious(size: int) -> bool:
        descriptor = os.open(place, os.O_APPEND | os.O_CREAT | os.O_WRONLY)  # from several processes, a line each
        os.write(descriptor, b".")
        os.close(descriptor)
        return size > 900

    session.stream("packets", source, timestamp="ts")
    session.function("suspicious", suspicious, "boolean", ["bigint"])
    hot = session.query(HOT, name="hot")
    texts = [READERS[i % len(READERS)] for i in range(readers - 1)]
    return [hot, *(session.query(t, name=f"reader{i}") for i, t in enumerate(texts))]


def answer(query: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in query.to_arrow().to_pylist())


@pytest.mark.parametrize("readers", [1, 2, 10])
def test_a_function_is_called_once_for_a_row_however_many_read_the_result(
    spark: Any, tmp_path: Path, readers: int
) -> None:
    pq.write_table(packets(), tmp_path / "packets.parquet")
    session = ed.Session(spark, shards=2, rows_per_batch=250)
    queries = declared(session, str(tmp_path / "packets.parquet"), tmp_path / "calls", readers)
    session.run()
    assert (tmp_path / "calls").stat().st_size == ROWS
    inline = ed.Session()
    alone = declared(inline, packets(), tmp_path / "others", readers)
    for query, one in zip(queries, alone, strict=True):
        assert answer(query) == answer(one)
        assert query.report()["events"] == ROWS


def test_a_job_reads_what_its_shards_say_of_themselves(spark: Any, tmp_path: Path) -> None:
    pq.write_table(packets(), tmp_path / "packets.parquet")
    (tmp_path / "job.cql").write_text(
        "CREATE STREAM packets FROM 'packets.parquet' TIMESTAMP BY ts;\n"
        "sizes: SELECT src, avg(size) AS m FROM packets [RANGE 100] GROUP BY src;\n"
        "watched: SELECT Istream(query, shard, property, value) FROM SysStream WHERE kind = 'shard';\n"
        "decided: SELECT Istream(query, shard, kind) FROM Decisions;\n"
    )
    given: dict[str, Any] = {"master": None, "shards": 2, "strict": False, "report": None, "progress": None}
    with patch("eddyline.spark.local.local_session", lambda *_, **__: spark):
        run_job(tmp_path / "job.cql", checkpoint=None, out=tmp_path / "out", stdout=io.StringIO(), quiet=True, **given)
        with pytest.raises(JobError, match=r"watched reads SysStream .*leave\s--checkpoint out"):
            run_job(tmp_path / "job.cql", checkpoint=tmp_path / "state", out=None, stdout=io.StringIO(), **given)
    watched = pq.read_table(tmp_path / "out" / "watched.parquet").to_pylist()
    assert {(r["query"], r["shard"]) for r in watched} == {("sizes", 0), ("sizes", 1)}
    held = {r["shard"]: r["value"] for r in watched if r["property"] == "rows"}
    assert sum(held.values()) == pq.read_table(tmp_path / "out" / "sizes.parquet").num_rows
    decided = pq.read_table(tmp_path / "out" / "decided.parquet").to_pylist()
    assert all(r["query"] == "sizes" for r in decided)


def test_a_bundle_of_a_job_has_the_plans_of_all_queries_with_their_shards(spark: Any, tmp_path: Path) -> None:
    pq.write_table(packets(), tmp_path / "packets.parquet")
    queries = (
        "sums: SELECT src, sum(size) AS s FROM P [RANGE 50] GROUP BY src; large: SELECT size FROM P WHERE size > 9"
    )
    (tmp_path / "job.cql").write_text(f"CREATE STREAM P FROM 'packets.parquet' TIMESTAMP BY ts; {queries};")
    options = {"master": None, "shards": 2, "report": None, "checkpoint": None, "strict": False, "progress": None}
    out, seen = tmp_path / "out", tmp_path / "seen"
    assert run_job(tmp_path / "job.cql", out=out, stdout=io.StringIO(), quiet=True, bundle=seen, **options) == 0
    for name in ("sums", "large"):
        found = read_bundle((seen / f"{name}.bundle.json").read_text(), name)
        last = found["samples"][-1]["plan"]
        assert found["query"] == name and last["rows"] == pq.read_metadata(out / f"{name}.parquet").num_rows > 0
        assert sum(s["results"] for s in last["shards"]) == last["rows"]
