"""An expression that fails on a shard names the row by its line, as inline."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

from eddyline.core.errors import DataError
from eddyline.expr.nodes import Call, Column, Literal
from eddyline.io.resolve import open_source
from eddyline.spark.failures import WorkerError
from eddyline.spark.program import Program
from eddyline.spark.shard import ShardEngine
from eddyline.spark.shard_keys import key_of
from eddyline.spark.stateless_worker import Compute, Judge
from eddyline.testing.cases import Case
from eddyline.testing.reference import StreamData
from tests.shards.shards import Way, arrive, pack, plan, unpacked


def test_a_shard_finds_the_line_in_the_file(tmp_path: Path) -> None:
    rows = [(t, {"ts": t, "a": t % 5, "b": int(t != 17), "c": None, "s": None}) for t in range(40)]
    case = Case("SELECT a, sum(6 / b) AS d FROM S [RANGE 5] GROUP BY a", {"S": StreamData(rows)}, {})
    schema = case.scale.schema()
    pacsv.write_csv(pa.Table.from_pylist([row for _, row in rows], schema), tmp_path / "s.csv")
    group = replace(plan(case, Way(shards=4)), files={"s": open_source("s.csv", tmp_path, schema)})
    program = Program((group,))
    engines = [ShardEngine(group, shard) for shard in range(group.shards)]
    assert len(engines) == 4
    arrived = arrive(case, Way())
    packed = [p for b in pack(program, arrived, 0, 1, random.Random(1)) for p in unpacked(b)]
    errors = []
    for i, engine in enumerate(engines):
        try:
            list(engine.process([row for key, row in packed if key == key_of(0, i)], ended=True))
        except DataError as error:
            errors.append(str(error))
    (told,) = errors
    assert told.endswith("(s.csv, line 19)."), told


def test_rows_without_state_are_named_by_their_values() -> None:
    judge = Judge(
        (("S.a", pa.int64()), ("S.b", pa.int64())),
        (Compute((("r", Call("divide", (Literal(6.0, pa.float64()), Column("S.a", pa.int64())), pa.float64())),)),),
        (("r", pa.float64()),),
    )
    with pytest.raises(WorkerError, match="for a row of S: a = 0, b = 4"):
        list(judge.run(iter([[pa.array([1, 0, 0]), pa.array([3, 4, 5])]])))
