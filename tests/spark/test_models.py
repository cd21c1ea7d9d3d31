"""Queries on models on Spark: ``ERROR WITHIN``, ``PREDICT`` and parameter sweeps answer as they do inline."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

import eddyline as ed
import eddyline.spark as eds
from eddyline.core.errors import JobError

SIGNALS = [
    {"ts": 7 * i + k, "k": "abc"[k], "x": round(5 * math.sin(i / 9 + k) + 0.3 * (i % 2), 3), "v": 0.5 * (i % 3) - 0.5}
    for i in range(60)
    for k in range(3)
]
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("x", pa.float64()), ("v", pa.float64())])
WITHIN = "SELECT k, x FROM S WHERE x > 1 ERROR WITHIN 0.5 BY k SAMPLE EVERY 2"
QUERIES = {
    "tuples": (WITHIN, {"models": "never"}),
    "models": (WITHIN, {"models": "always"}),
    "split": (WITHIN.replace("BY k", "BY k SPLIT GRADIENT").replace("x > 1", "x + v > 1"), {"models": "always"}),
    "average": ("SELECT k, avg(x) AS m FROM S [RANGE 30 SLIDE 10] GROUP BY k ERROR WITHIN 0.5 BY k", {}),
    "predict samples": (
        "SELECT k, x FROM S WHERE x > 3 ERROR WITHIN 0.5 BY k SAMPLE EVERY 3 HORIZON 12 PREDICT",
        {},
    ),
    "predict": (
        "SELECT k, x FROM S MODEL S.x = S.x + S.v * t WHERE x > 3 ERROR WITHIN 0.5 SAMPLE EVERY 3 HORIZON 12 PREDICT",
        {},
    ),
}


def rows_of(table: pa.Table) -> list[str]:
    rounded = [{n: round(v, 6) if isinstance(v, float) else v for n, v in r.items()} for r in table.to_pylist()]
    return sorted(map(str, rounded))


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_on_models_answers_as_inline(spark: Any, name: str) -> None:
    text, options = QUERIES[name]
    table = pa.Table.from_pylist(SIGNALS, SCHEMA)
    session = ed.Session()
    session.stream("S", table, timestamp="ts")
    want = session.query(text, **options).to_arrow()
    frames = {"S": spark.createDataFrame(table)}
    said = eds.explain(text, frames, timestamp="ts", shards=4)
    assert ("4 shards: 4 by S.k" in said) == (name not in ("split", "predict", "predict samples")), said
    found = eds.query(text, frames, timestamp="ts", shards=4, **options)
    assert found.columns == want.column_names
    assert rows_of(found.toArrow()) == rows_of(want) and len(want) > 20


def test_a_split_function_of_ones_own_goes_to_the_workers(spark: Any) -> None:
    def mostly_x(result: str, attributes: Any) -> dict[tuple[int, str], float]:
        return {a: 0.9 if a[1] == "x" else 0.1 for a in attributes}

    text = "SELECT k, x - v AS d FROM S ERROR WITHIN 0.5 BY k SPLIT mostly_x SAMPLE EVERY 5"
    table = pa.Table.from_pylist(SIGNALS, SCHEMA)
    session = ed.Session()
    session.split("mostly_x", mostly_x)
    session.stream("S", table, timestamp="ts")
    want = session.query(text, models="always").to_arrow()
    frames = {"S": spark.createDataFrame(table)}
    found = eds.query(text, frames, timestamp="ts", splits={"mostly_x": mostly_x}, models="always")
    assert rows_of(found.toArrow()) == rows_of(want) and len(want) > 20


@pytest.mark.parametrize("step", ["", " SAMPLE EVERY 5"])
def test_a_sweep_answers_as_inline(spark: Any, step: str) -> None:
    from pyspark.sql import functions as F

    segments = ed.fit(SIGNALS, key="k", time="ts", value="x", error=0.4)
    text = f"SELECT k, x FROM heat WHERE x > :limit AND x < :limit + :width{step}"
    limits, widths = [i / 4 for i in range(12)], [1.0 + i % 3 for i in range(12)]
    want = ed.sweep(text, {"heat": segments}, {"limit": limits, "width": widths})
    given = spark.range(0, 12, 1, 3).select((F.col("id") / 4).alias("limit"), (1 + F.col("id") % 3).alias("width"))
    found = eds.sweep(text, {"heat": segments}, given).toArrow()
    assert found.column_names == want.column_names
    assert rows_of(found) == rows_of(want) and len(want) > 80


def test_a_sweep_refuses_what_it_cannot_read(spark: Any) -> None:
    segments = ed.fit(SIGNALS, key="k", time="ts", value="x", error=0.4)
    text = "SELECT k, x FROM heat WHERE x > :limit"
    with pytest.raises(JobError, match="the values of :limit are numbers, and the column is string"):
        eds.sweep(text, {"heat": segments}, spark.createDataFrame([("a",)], ["limit"]))
    with pytest.raises(JobError, match=r"the query has no parameter :limits\. Did you mean 'limit'"):
        eds.sweep(text, {"heat": segments}, spark.createDataFrame([(1.0,)], ["limits"]))
