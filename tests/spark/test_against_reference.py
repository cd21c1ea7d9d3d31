"""The Spark runtime against the reference: random cases on 1 and on 8 shards, as a batch and in 7 micro-batches.

``EDDYLINE_CASES`` scales the number of cases (up to 300), ``EDDYLINE_SEED`` moves to other ones.
"""

from __future__ import annotations

import datetime as dt
import functools
import itertools
import os
import random
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import eddyline
from eddyline.core.time import TimeKind
from eddyline.testing.case_data import TimeScale
from eddyline.testing.cases import draw_case
from eddyline.testing.tables import comparable
from tests.semantics.engine import check as check_inline
from tests.shards.shards import Answer, Arrived, Way, arrive, check, compare, cut
from tests.spark.running import (
    Asked,
    Collected,
    draw_job,
    make_program,
    pack_rows,
    read_packed,
    run_batch,
    run_stream,
    same_batches,
    write_packed,
    write_rows,
)

FACTOR = float(os.environ.get("EDDYLINE_CASES", "1"))
SEED = int(os.environ.get("EDDYLINE_SEED", "2004"))
CASES = min(300, max(10, round(30 * FACTOR)))
QUERIES = min(60, max(8, round(10 * FACTOR)))
BATCHES = 7


@functools.cache
def draw(batches: int) -> list[Asked]:
    """The cases, half of them with positions; those over constant relations alone bring no rows."""
    asked = []
    i = 0
    while len(asked) < CASES:
        case = draw_case(random.Random(f"spark/{SEED}/{i}"))
        arrived = arrive(case, Way(batches=batches, seed=i, positions=i % 2 == 0))
        if arrived.batches:
            asked.append(Asked(arrived, f"c{i}_"))
        i += 1
    return asked


def test_the_cases_are_right_inline() -> None:
    for a in draw(1):
        case = a.arrived.case
        found = check_inline(case)
        assert found is None, f"{found}\n{case.snippet()}"


@pytest.mark.parametrize("batches", [1, BATCHES])
@pytest.mark.parametrize("shards", [1, 8])
def test_spark_agrees_with_the_reference(spark: Any, tmp_path: Path, shards: int, batches: int) -> None:
    asked = draw(batches)
    program = make_program(asked, shards)
    write_packed(program, asked, tmp_path / "packed")
    streaming = batches > 1
    packed = read_packed(spark, tmp_path / "packed", streaming)
    found = run_stream(program, [packed], tmp_path / "checkpoint") if streaming else run_batch(program, [packed])
    assert len(found.batches) >= batches
    split = compare_all(asked, found, shards)
    assert shards == 1 or split > len(asked) // 4


def compare_all(asked: Sequence[Asked], found: Collected, shards: int) -> int:
    """How many were split over several shards."""
    split = 0
    for i, a in enumerate(asked):
        answer = found.answer(i)
        what = compare(a.arrived, answer, a.expected)
        if what is not None:
            pytest.fail(explain_failure(a.arrived, answer, what, shards), pytrace=False)
        split += len(answer.shares) > 0
    return split


def explain_failure(arrived: Arrived, answer: Answer, what: str, shards: int) -> str:
    way = Way(shards, arrived.count, positions=arrived.positions)
    alone = check(arrived.case, way)
    hint = "Without Spark it is the same." if alone is not None else "Without Spark all is well."
    return f"{arrived.case.text}\n{way}, {answer.shares}\n{what}\n{hint}\n\n{arrived.case.snippet()}\n"


SCALES = [TimeScale(), TimeScale(TimeKind.TIMESTAMP, 500_000, -23)]


@pytest.mark.parametrize("streaming", [False, True], ids=["batch", "stream"])
def test_many_queries_over_the_dataframes_of_a_job(spark: Any, tmp_path: Path, streaming: bool) -> None:
    """Rows as they are through Spark's map side. A stream that has been read is not at its end."""
    rng = random.Random(f"job/{SEED}/{streaming}")
    everything, cases = draw_job(rng, QUERIES, SCALES[streaming])
    names = [n.lower() for n in (*everything.streams, *everything.relations)]
    way = Way(batches=BATCHES if streaming else 1, seed=SEED, positions=False)
    whole = cut(everything, names, way)
    write_rows(whole, tmp_path / "rows")
    asked = [Asked(same_batches(whole, case, ended=not streaming), "") for case in cases]
    program = make_program(asked, 8)
    packed = pack_rows(spark, program, whole, tmp_path / "rows", streaming)
    found = run_stream(program, packed, tmp_path / "checkpoint") if streaming else run_batch(program, packed)
    assert compare_all(asked, found, 8) >= len(asked) // 5
    assert sum(found.answer(i).table.num_rows for i in range(len(asked))) > 10 * len(asked)


# ── typed results ─────────────────────────────────────────────────────────────────────────────────────────────────

DAY = dt.datetime(2024, 3, 30, 23, 59, 55)  # over midnight, and over a change of the clocks


def every_type() -> pa.Table:
    """Thirty rows, in disorder and with ties; every column but the time has NULLs and the ends of its type."""
    rng = random.Random(3)
    values: dict[str, list[Any]] = {
        "price": [Decimal("12345678901234567890123.456"), Decimal("-0.001"), Decimal("0.000")],
        "n": [(1 << 63) - 1, -(1 << 63), (1 << 53) + 1, 0],
        "small": [127, -128, 1],
        "f": [0.1, -0.0, float("nan"), float("inf")],
        "x": [0.1, -0.0, 0.0, float("nan"), 1e300],
        "yes": [True, False],
        "name": ["", "é", "a\n'b'", "u"],
        "raw": [b"", b"\x00\xff"],
        "day": [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1970, 1, 1)],
        "seen": [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), DAY],
    }
    types = [pa.decimal128(26, 3), pa.int64(), pa.int8(), pa.float32(), pa.float64(), pa.bool_(), pa.string()]
    types += [pa.binary(), pa.date32(), pa.timestamp("us")]
    seconds = [rng.randrange(20) for _ in range(30)]
    columns = {"ts": pa.array([DAY + dt.timedelta(seconds=s) for s in seconds], pa.timestamp("us"))}
    for (name, some), type in zip(values.items(), types, strict=True):
        columns[name] = pa.array([rng.choice([*some, None]) for _ in range(30)], type)
    return pa.table(columns)


TYPED = {
    "all columns": "SELECT Istream(*) FROM S [RANGE 2 SECONDS]",
    "aggregates": """SELECT name, count(*) AS c, sum(price) AS total, avg(price) AS mean, sum(small) AS s, avg(x) AS m,
        max(day) AS last, min(seen) AS first, max(n) AS most, min(yes) AS every_one, max(f) AS f
        FROM S [RANGE 5 SECONDS] GROUP BY name""",
    "keys": "SELECT p.price, p.seen, q.day FROM S [RANGE 3 SECONDS] p, S [RANGE 3 SECONDS] q WHERE p.price = q.price",
    "other keys": "SELECT Istream(DISTINCT p.day, p.raw, p.x) FROM S p, S q [RANGE 4 SECONDS] WHERE p.x = q.x",
    "groups": "SELECT seen, yes, day, small, count(*) AS c FROM S [RANGE 9 SECONDS] GROUP BY seen, yes, day, small",
    "whole": "SELECT count(n) AS c, min(day) AS d, sum(price) AS p FROM S [RANGE 1 SECONDS]",
}


@pytest.mark.parametrize(("what", "instants"), list(zip(TYPED, itertools.cycle([False, True]))))
def test_typed_results_are_those_of_the_inline_engine(spark: Any, what: str, instants: bool) -> None:
    """Values and types, through DataFrames with both of Spark's kinds of timestamp."""
    table = every_type()
    inline = eddyline.Session()
    inline.stream("S", table.sort_by("ts"), "ts")
    expected = inline.query(TYPED[what]).to_arrow()
    assert expected.num_rows > 10
    session = eddyline.Session(spark, shards=4)
    session.stream("S", frame(spark, table, instants), "ts")
    query = session.query(TYPED[what])
    found = query.to_arrow()
    assert found.schema == expected.schema
    assert bag(found) == bag(expected)
    stamps = {f.dataType.typeName() for f in query.result if "timestamp" in f.dataType.typeName()}
    assert stamps == {"timestamp" if instants else "timestamp_ntz"}


def test_a_query_over_constant_relations_only(spark: Any) -> None:
    table = pa.table({"k": [1, 2, 2], "at": pa.array([DAY] * 3)})
    answers = []
    for session in (eddyline.Session(), eddyline.Session(spark)):
        session.relation("K", table)
        answers.append(session.query("SELECT k, max(at) AS latest, count(*) AS n FROM K GROUP BY k").to_arrow())
    assert answers[0].schema == answers[1].schema
    assert bag(answers[0]) == bag(answers[1]) and answers[0].num_rows == 2


def frame(spark: Any, table: pa.Table, instants: bool) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    zone = "UTC" if instants else None
    types = {f.name: pa.timestamp("us", zone) if pa.types.is_timestamp(f.type) else f.type for f in table.schema}
    schema = pa.schema(list(types.items()))
    return spark.createDataFrame(table.cast(schema), from_arrow_schema(schema, prefer_timestamp_ntz=True))


def bag(table: pa.Table) -> Counter[str]:
    return Counter(repr([comparable(v) for v in row.values()]) for row in table.to_pylist())
