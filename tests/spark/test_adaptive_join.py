"""Joins adapt in each shard on its own; orders, caches and decisions of all shards are known on the driver."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline as ed
from eddyline.core.errors import JobError

TEXT = """SELECT Istream(r.ts AS x, s.ts AS y, t.ts AS z, u.ts AS w)
FROM R [RANGE 200] r, S [RANGE 200] s, T [RANGE 200] t, U [RANGE 200] u WHERE r.k = s.k AND s.k = t.k AND t.k = u.k"""
OPTIONS = {"joins": "a-greedy(p=0.2, window=400)", "caches": "global(interval=500, W=3, W_d=16)"}
SCHEMA = "ts long, k long"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three micro-batches; U is fast and its keys repeat, and to ask T first spares most."""
    place = tmp_path_factory.mktemp("joined")
    rng = np.random.default_rng(5)
    for name in "RSTU":
        count, keys = (100_000, 40) if name == "U" else (17_500, 90 if name == "T" else 40)
        ts, k = np.sort(rng.integers(0, 150_000, count)), rng.integers(0, keys, count)
        (place / name).mkdir()
        for part in range(3):
            mine = ts // 50_000 == part
            path = place / name / f"{part}.parquet"
            pq.write_table(pa.table({"ts": ts[mine], "k": k[mine]}), path)
            os.utime(path, (1_000_000 + part, 1_000_000 + part))  # Spark reads files in this order
    return place


def inline(folder: Path) -> Counter[Any]:
    session = ed.Session()
    for name in "RSTU":
        session.stream(name, str(folder / name / "*.parquet"), timestamp="ts")
    return rows(session.query(TEXT, joins="static", caches="none").to_arrow())


def rows(table: pa.Table) -> Counter[Any]:
    """Up to an instant that is certainly closed: a streaming DataFrame has no end."""
    found = zip(*(c.to_pylist() for c in table.columns), strict=True)
    return Counter(row for row in found if row[-1] < 149_900)


def test_shards_adapt_and_tell(spark: Any, folder: Path) -> None:
    session = ed.Session(spark)
    for name in "RSTU":
        df = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / name))
        session.stream(name, df, timestamp="ts")
    query = session.query(TEXT, **OPTIONS)
    assert "joins in the shards" not in query.explain()  # nothing runs yet
    expected = inline(folder)
    assert rows(query.to_arrow()) == expected and len(expected) > 20

    report = query.report()
    joins = report["adapting"]
    shards = {s["shard"] for s in report["shards"]}
    assert {j["shard"] for j in joins} == shards and len(shards) > 1
    assert all(j["operator"] == "mjoin 1" and set(j["orders"]) == set("rstu") for j in joins)
    assert all(j["ordering"] == "a-greedy" and "history" not in j for j in joins)
    assert sum(j["elements"] for j in joins) >= 150_000
    decided = [d for d in report["decisions"] if d["time"] is not None]
    assert len({d["shard"] for d in decided}) > 1
    numbers: dict[int, list[int]] = {}
    for d in decided:
        numbers.setdefault(d["shard"], []).append(d["sequence"])
    assert all(found == sorted(found) for found in numbers.values())
    assert any(d["kind"].startswith("order of Δ") for d in decided) and all(d["reason"] for d in decided)
    assert all(j["caching"] and j["caches"] and all(c["state"] for c in j["caches"]) for j in joins)

    said = query.explain()
    assert "\njoins in the shards   ΔR → S → [T → U]" in said and "\ndecided in the shards" in said
    drawn = said.partition("joins in the shards")[2]
    assert sum(line.count("mjoin 1 in shard") for line in drawn.splitlines()) >= 1
    orders = {tuple(order) for j in joins for order in j["orders"].values()}
    for order in orders:
        assert " → ".join(order) in drawn.replace("[", "").replace("]", "")


def test_a_tree_that_fits_no_join_is_refused_before_anything_runs(spark: Any, folder: Path) -> None:
    session = ed.Session(spark)
    for name in "RSTU":
        session.stream(name, spark.read.parquet(str(folder / name)), timestamp="ts")
    with pytest.raises(JobError, match=r"^the tree '\(r, s\)' must name each of r, s, t, u once"):
        session.query(TEXT, tree="(r, s)")
