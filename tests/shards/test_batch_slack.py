"""SLACK AUTO in micro-batches: all shards choose the same slack, no row is lost, and the answer is that of the rows
that were neither late nor implausible."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.core.errors import DataError
from eddyline.spark.packing import Packer
from eddyline.spark.program import Program
from eddyline.spark.session import SparkRuntime
from eddyline.spark.shard import ShardEngine
from eddyline.spark.shard_keys import shard_of
from eddyline.spark.time_counts import TimeCounts
from tests.scale import scaled
from tests.shards.shards import unpacked

CASES = scaled(12, least=4)
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])
TEXT = "SELECT k, count(*) AS n, sum(v) AS t FROM S [RANGE 60] GROUP BY k"


@lru_cache
def program_of(shards: int, slack: str, strict: bool = False) -> Program:
    session = SparkRuntime(None, strict=strict)
    session.shards = shards
    session.stream("S", pa.table({n: pa.array([], t) for n, t in zip(SCHEMA.names, SCHEMA.types, strict=True)}),
                   timestamp="ts", slack=slack)  # fmt: skip
    return session.program([session.query(TEXT).bound])


@dataclass
class Run:
    """Micro-batches through the shards of a program; ``rebuilt`` engines are made anew from their state each time."""

    program: Program
    tasks: int = 1
    rebuilt: bool = False
    results: list[dict[str, Any]] = field(default_factory=list)
    turned_away: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    slacks: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engines = [ShardEngine(self.program.groups[0], s) for s in range(self.program.groups[0].shards)]

    def take(self, rows: pa.RecordBatch, ended: bool = False) -> None:
        packed: dict[int, list[Any]] = {}
        size = -(-rows.num_rows // self.tasks)
        for task in range(self.tasks):
            packer = Packer(self.program.routes("S"), "ts")
            part = rows.slice(task * size, size)
            for out in packer(iter([part]), ended and task == self.tasks - 1):
                for key, row in unpacked(out):
                    packed.setdefault(shard_of(key), []).append(row)
        if self.rebuilt:
            self.engines = [_again(e) for e in self.engines]
        for engine in self.engines:
            for _, batch in engine.process(packed.get(engine.shard, [])):
                self.results += batch.to_pylist()
            self.turned_away += [(w, r) for w, part in engine.turned_away for r in part.rows.to_pylist()]
        marks = {(e.streams[0].watermark.shown, e.streams[0].watermark.slack, e.bound(0)) for e in self.engines}
        assert len(marks) == 1, marks
        self.slacks.append(self.engines[0].streams[0].watermark.slack)

    def whole(self, batches: Sequence[pa.RecordBatch]) -> Run:
        for number, batch in enumerate(batches):
            self.take(batch, ended=number == len(batches) - 1)
        return self

    def fate(self, which: str) -> list[tuple[int, ...]]:
        return sorted(tuple(row.values()) for w, row in self.turned_away if w == which)

    def answer(self) -> list[tuple[Any, ...]]:
        return sorted((r["_time"], r["_sign"], r["k"], r["n"], r["t"]) for r in self.results)


def _again(engine: ShardEngine) -> ShardEngine:
    made = ShardEngine(engine.group, engine.shard)
    made.load(engine.state())
    return made


def stream(
    rng: np.random.Generator, rows: int, most: int, garbage: float, gap: int = 0, stragglers: float = 0
) -> pa.RecordBatch:
    """Rows in order of arrival, each up to ``most`` ticks late, those of the share ``stragglers`` 400 more from the
    second third on; a share of ``garbage`` is stamped far ahead."""
    time = np.cumsum(rng.integers(0, 3, rows))
    if gap:
        time[rows // 3 :] += gap
    delay = rng.integers(0, most + 1, rows) + 400 * (rng.random(rows) < stragglers) * (np.arange(rows) > rows // 3)
    order = np.argsort(time + delay, kind="stable")
    time = time[order]
    ahead = rng.random(rows) < garbage
    ahead[: rows // 20] = False
    time = np.where(ahead, time + rng.integers(10**6, 10**7, rows), time)
    return pa.RecordBatch.from_arrays(
        [pa.array(time), *(pa.array(rng.integers(0, 5, rows)) for _ in "kv")], schema=SCHEMA
    )


def cut(rng: np.random.Generator, rows: pa.RecordBatch, batches: int) -> list[pa.RecordBatch]:
    at = [0, *sorted(rng.integers(0, rows.num_rows, batches - 1).tolist()), rows.num_rows]
    return [rows.slice(a, b - a) for a, b in itertools.pairwise(at)]


def inline(rows: Sequence[tuple[int, ...]]) -> list[tuple[Any, ...]]:
    session = ed.Session()
    table = pa.table([pa.array(c, pa.int64()) for c in zip(*sorted(rows), strict=True)], schema=SCHEMA)
    session.stream("S", table, timestamp="ts")
    found = session.query(TEXT).to_arrow().to_pylist()
    return sorted((r["_time"], r["_sign"], r["k"], r["n"], r["t"]) for r in found)


def test_the_answer_is_that_of_the_rows_that_are_on_time_however_many_shards() -> None:
    late = implausible = changed = 0
    for case in range(CASES):
        rng = np.random.default_rng(case)
        most, garbage = int(rng.integers(0, 80)), float(rng.choice([0, 0.01, 0.05]))
        rows = stream(rng, int(rng.integers(1, 900)), most, garbage, int(rng.choice([0, 50_000])), 0.05)
        batches = cut(rng, rows, int(rng.integers(1, 9)))
        target = float(rng.choice([80, 95, 99.9]))
        program = {n: program_of(n, f"auto(target={target}, window=256, shrink=0.6)") for n in (1, 3)}
        one, three = Run(program[1]).whole(batches), Run(program[3], rebuilt=True).whole(batches)
        assert one.answer() == three.answer(), case
        assert one.slacks == three.slacks and one.fate("late") == three.fate("late")
        assert one.fate("invalid") == three.fate("invalid")
        everything = sorted(tuple(r.values()) for r in rows.to_pylist())
        kept = list(everything)
        for row in (*one.fate("late"), *one.fate("invalid")):
            kept.remove(row)
        assert one.answer() == inline(kept), case
        late, implausible = late + len(one.fate("late")), implausible + len(one.fate("invalid"))
        changed += len(set(one.slacks)) > 1
    assert late > 0 and implausible > CASES and changed > CASES / 4, (late, implausible, changed)


def test_rows_hours_ahead_are_turned_away_and_the_others_stay() -> None:
    rng = np.random.default_rng(1)
    rows = stream(rng, 20_000, 30, 0.004)
    run = Run(program_of(2, "auto")).whole([rows.slice(i, 1000) for i in range(0, 20_000, 1000)])
    ahead = int((rows.column(0).to_numpy() > 10**6).sum())
    assert len(run.fate("invalid")) == ahead > 50
    assert len(run.fate("late")) <= 20  # of 20,000: the target is 0.1 %
    assert 0 < run.slacks[-1] < 200


def test_the_late_share_approaches_the_target() -> None:
    rng = np.random.default_rng(2)
    rows = stream(rng, 24_000, 200, 0)
    run = Run(program_of(2, "auto(target=98)"))
    counts = []
    for start in range(0, 24_000, 200):
        run.take(rows.slice(start, 200))
        counts.append(sum(e.streams[0].late.count for e in run.engines))
    share = (counts[-1] - counts[39]) / 16_000
    assert 0.01 < share < 0.03, share


def test_time_that_moves_by_a_day_loses_nothing_and_few_first_rows_wait() -> None:
    rng = np.random.default_rng(3)
    for size in (5, 100, 1000):
        rows = stream(rng, 600, 10, 0, gap=10**6)
        run = Run(program_of(2, "auto")).whole([rows.slice(i, size) for i in range(0, 600, size)])
        assert not run.fate("invalid"), size
        assert len(run.fate("late")) <= 3, size
    few = Run(program_of(2, "auto"))
    few.take(rows.slice(0, 20))
    assert not few.results and few.engines[0].streams[0].shown is None
    few.take(rows.slice(20, 20), ended=True)
    assert sorted(few.answer()) == inline([tuple(r.values()) for r in rows.slice(0, 40).to_pylist()])


def test_decisions_are_told_once_and_strict_stops() -> None:
    rng = np.random.default_rng(4)
    rows = stream(rng, 2000, 50, 0)
    run = Run(program_of(3, "auto")).whole([rows.slice(i, 250) for i in range(0, 2000, 250)])
    told = [[d for d in e.statistics()["queries"][0]["decisions"] if d["kind"] == "slack"] for e in run.engines]
    assert [bool(t) for t in told] == [True, False, False]
    assert "rows since the last change were late" in told[0][0]["reason"]
    with pytest.raises(DataError, match="implausible"):
        Run(program_of(1, "auto", strict=True)).whole([stream(rng, 2000, 5, 0.01).slice(i, 500) for i in (0, 500)])


def test_counts_of_parts_add_up_to_those_of_the_whole() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        time = rng.integers(
            -(10 ** int(rng.integers(1, 12))), 10 ** int(rng.integers(1, 12)), int(rng.integers(1, 5000))
        )
        whole = TimeCounts.of(time)
        parts = np.split(time, sorted(rng.integers(0, len(time), 3).tolist()))
        merged = TimeCounts.merged([TimeCounts.of(p) for p in parts])
        assert whole.level == merged.level and whole.rows == len(time)
        for a, b in zip(whole.packed(), merged.packed(), strict=True):
            assert a == b
        assert whole.first[0] == time.min() and whole.last[-1] == time.max()
