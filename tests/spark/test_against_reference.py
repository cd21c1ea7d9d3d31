"""The Spark runtime against the reference: random cases on 1 and on 8 shards, as a batch and in 7 micro-batches.

``EDDYLINE_CASES`` scales the number of cases (up to 300), ``EDDYLINE_SEED`` moves to other ones.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from eddyline.core.time import TimeKind
from eddyline.testing.case_data import TimeScale
from eddyline.testing.cases import draw_case
from tests.runtime.shards import Answer, Arrived, Way, arrive, check, compare, cut
from tests.semantics.engine import check as check_inline
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
CASES = min(300, max(10, round(90 * FACTOR)))
QUERIES = min(60, max(8, round(20 * FACTOR)))
BATCHES = 7


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
        what = compare(a.arrived, answer)
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
    assert compare_all(asked, found, 8) > len(asked) // 4
