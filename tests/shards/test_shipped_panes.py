"""Rows that are added up where they are read, against the reference: by those who know what is late, and by others."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from eddyline.core.errors import EddylineError
from eddyline.core.time import BEGINNING
from eddyline.cql import bind
from eddyline.plan.panes import panes_for_all
from eddyline.plan.rules import optimize
from eddyline.spark import packing, panes
from eddyline.spark import stream_progress as bounds
from eddyline.spark.packing import MALFORMED, PANES, ROWS, Packer
from eddyline.spark.program import Program
from eddyline.spark.shard import ShardEngine
from eddyline.testing.cases import Case
from eddyline.testing.reference import StreamData
from tests.shards.shards import Way, arrive, compare, plan, run, unpacked

FACTOR = float(os.environ.get("EDDYLINE_CASES", "1"))
SEED = int(os.environ.get("EDDYLINE_SEED", "2004"))
SUMS = ("sum(b) AS r", "avg(x) AS r", "count(*) AS r", "count(x) AS r", "sum(x) AS r, avg(b) AS q, count(a) AS p")


def window(rng: random.Random) -> str:
    width, slide, offset = rng.randint(1, 9), rng.randint(1, 5), rng.choice(["", " OFFSET 2"])
    return rng.choice([f"[RANGE {width} SLIDE {slide}]", f"[HOP {width} EVERY {slide}{offset}]", f"[TUMBLE {width}]"])


def draw_text(rng: random.Random) -> str:
    sums, key = rng.choice(SUMS), rng.choice(["a", "s", "a, s", "x"])
    grouped = f"SELECT {key}, {sums} FROM S {window(rng)} GROUP BY {key}"
    one = f"(SELECT a, sum(b) AS r FROM S {window(rng)} GROUP BY a)"
    two = f"(SELECT a, sum(b) AS r FROM S {window(rng)} GROUP BY a)"
    return rng.choice(
        [
            grouped,
            f"SELECT Istream({key}, {sums}) FROM S {window(rng)} GROUP BY {key}",
            f"SELECT Wstream({key}, {sums}, window_end) FROM S {window(rng)} GROUP BY {key}, window_end",
            f"SELECT window_start, {key}, {sums} FROM S {window(rng)} GROUP BY {key}, window_start",
            f"SELECT Wstream(window_start, {sums}) FROM S {window(rng)} GROUP BY window_start",
            f"SELECT Dstream({key}, {sums}) FROM S {window(rng)} GROUP BY {key}",
            f"SELECT {sums} FROM S {window(rng)}",
            f"SELECT Istream(A.a AS a, A.r AS r, B.r AS q) FROM {one} AS A, {two} AS B WHERE A.a = B.a",
            f"SELECT A.a AS a, A.r AS r, T.b AS q FROM {one} AS A, T [RANGE {rng.randint(0, 4)}] WHERE A.a = T.a",
            f"SELECT a, sum(b) AS r FROM S {window(rng)} GROUP BY a HAVING count(*) > 1",
        ]
    )


def draw_stream(rng: random.Random, size: int) -> StreamData:
    """Elements in disorder, with NULLs everywhere."""
    rows: list[tuple[int | None, dict[str, Any]]] = []
    time = rng.randint(-5, 20)
    for _ in range(size):
        time += rng.choice([0, 0, 1, 1, 2, 7])
        at = None if rng.random() < 0.03 else time - rng.choice([0, 0, 0, 0, 1, 3, 12])
        x = rng.choice([None, 0.1, -0.3, 1e16, 1.0, float("nan") if rng.random() < 0.1 else 2.5])
        row = {"ts": at, "a": rng.choice([None, 1, 2, 3]), "b": rng.choice([None, -4, 5, 2**40]), "x": x}
        rows.append((at, {**row, "s": rng.choice([None, "p", "q"])}))
    return StreamData(rows, rng.choice([0, 0, 2]))


def draw(rng: random.Random) -> Case:
    return Case(draw_text(rng), {n: draw_stream(rng, rng.randint(0, 60)) for n in "ST"}, {})


@pytest.fixture
def any_number(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """Panes are made however few elements they stand for; counts the packed rows of each kind."""
    monkeypatch.setattr(panes, "MAX_PANES_PER_ELEMENT", 2.0)
    kinds: Counter[int] = Counter()
    add = packing._Rows.add

    def counting(self: Any, *values: Any) -> None:
        kinds[values[2]] += values[-1] is not None
        add(self, *values)

    monkeypatch.setattr(packing._Rows, "add", counting)
    return kinds


def test_shards_agree_with_the_reference(any_number: Counter[int]) -> None:
    shipped = late = 0
    for i in range(max(20, round(120 * FACTOR))):
        rng = random.Random(f"shipped/{SEED}/{i}")
        case = draw(rng)
        way = Way(
            shards=rng.choice([1, 3, 8]),
            batches=rng.choice([1, 2, 4, 7]),
            seed=i,
            positions=False,
            tasks=rng.choice([1, 2]),
            hot=rng.choice([1.0, 0.5, 0.0]),
            told=rng.choice([1.0, 1.0, 0.5, 0.0]),
        )
        arrived = arrive(case, way)
        answer = run(arrived, way)
        found = compare(arrived, answer)
        assert found is None, f"shipped/{SEED}/{i}\n{way}\n{case.text}\n{found}"
        shipped += bool(plan(case, way).panes)
        late += answer.report["late"]
    assert shipped > 15
    assert late > 50
    assert any_number[PANES] > 100
    assert any_number[ROWS] > 100
    assert not any_number[MALFORMED]


@pytest.mark.parametrize(
    ("text", "shipped"),
    [
        ("SELECT a, sum(b) AS r FROM S [RANGE 8 SLIDE 2] GROUP BY a", True),
        ("SELECT a, max(b) AS r FROM S [RANGE 8 SLIDE 2] GROUP BY a", False),
        ("SELECT Wstream(a, window_end, sum(b) AS r) FROM S [HOP 8 EVERY 2] GROUP BY a, window_end", True),
        ("SELECT Wstream(a, sum(b) AS r) FROM S [SESSION 8 GAP PARTITION BY a] GROUP BY a", False),
        ("SELECT a, sum(b) AS r FROM S [RANGE 8] GROUP BY a", False),
        ("SELECT Rstream(a, sum(b) AS r) FROM S [RANGE 8 SLIDE 2] GROUP BY a", False),
        ("SELECT b / a AS k, count(*) AS r FROM S [RANGE 8 SLIDE 2] GROUP BY b / a", False),
        (
            "SELECT A.a AS a FROM (SELECT a, sum(b) AS r FROM S [RANGE 8 SLIDE 2] GROUP BY a) AS A, S [NOW] AS B"
            " WHERE A.a = B.a",
            False,
        ),
    ],
)
def test_which_streams_travel_as_panes(text: str, shipped: bool) -> None:
    case = Case(text, {"S": StreamData([])}, {})
    assert (panes_for_all(optimize(bind(text, case.catalog()).plan), "S") is not None) is shipped
    assert bool(plan(case, Way(shards=4, positions=False)).panes) is shipped


def tables(*times: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"ts": list(times), "a": [1] * len(times), "b": [1] * len(times)})


def delivered(program: Program, batch: pa.RecordBatch, told: int | None, ended: bool = False) -> list[Any]:
    packed = Packer(program.routes("S"), "ts", lambda route: told)(iter([batch]), ended)
    return [row for b in packed for _, row in unpacked(b)]


def counting(slack: int) -> Program:
    case = Case("SELECT a, count(*) AS n FROM S [RANGE 10 SLIDE 2] GROUP BY a", {"S": StreamData([], slack)}, {})
    return Program((plan(case, Way(positions=False)),))


def test_what_was_closed_stays_closed_with_a_larger_slack(any_number: Counter[int]) -> None:
    """Slack may change between two starts: what the stream has shown less the new one lies before what was closed."""
    (before,), (after,) = counting(0).groups, counting(20).groups
    first = ShardEngine(before, 0)
    list(first.process(delivered(counting(0), tables(1, 2, 30), BEGINNING)))
    answers = []
    for paned in (False, True):
        shard = ShardEngine(after, 0)
        shard.load(first.state())
        assert shard.bound(0) == 30
        found = []
        for batch, ended in ((tables(32), False), (tables(14, 15, 33), False), (tables(90), True)):
            rows = delivered(counting(20), batch, shard.bound(0) if paned else None, ended)
            found += [r for _, b in shard.process(rows) for r in b.to_pylist()]
        answers.append((found, shard.statistics()["queries"][0]["late"]))
    assert answers[0] == answers[1]
    assert answers[0][1] == 2


def test_panes_of_another_past_are_refused(any_number: Counter[int]) -> None:
    """12 is late by now, though the pane that it is in ends with 16, which is not."""
    program = counting(0)
    shard = ShardEngine(program.groups[0], 0)
    list(shard.process(delivered(program, tables(1, 15), BEGINNING)))
    with pytest.raises(EddylineError, match="did not return the same rows"):
        list(shard.process(delivered(program, tables(12, 16), BEGINNING)))


def test_panes_are_made_of_the_declared_types(any_number: Counter[int]) -> None:
    case = Case("SELECT a, sum(x) AS r FROM S [RANGE 8 SLIDE 8] GROUP BY a", {"S": StreamData([])}, {})
    program = Program((plan(case, Way(positions=False)),))
    rows = pa.RecordBatch.from_pydict({"ts": [1, 2], "a": [1, 1], "x": [3, 4]})  # x is declared as a double
    shard = ShardEngine(program.groups[0], 0)
    later = pa.RecordBatch.from_pydict({"ts": [9], "a": [1], "x": [0]})
    list(shard.process(delivered(program, rows, BEGINNING)))
    found = [r for _, b in shard.process(delivered(program, later, 2, ended=True)) for r in b.to_pylist()]
    assert [r["r"] for r in found] == [7.0]


def packed_kinds(told: int | None, rows: int = 400) -> Counter[int]:
    case = Case("SELECT a, sum(b) AS r FROM S [RANGE 8 SLIDE 2] GROUP BY a", {"S": StreamData([])}, {})
    program = Program((plan(case, Way(shards=2, positions=False)),))
    batch = pa.RecordBatch.from_pydict({"ts": range(rows), "a": [i % 3 for i in range(rows)], "b": [1] * rows})
    dealt = [i // 50 * 2 for i in range(rows)]
    batch = batch.set_column(0, "ts", pa.array(dealt))
    packed = list(Packer(program.routes("S"), "ts", lambda route: told)(iter([batch])))
    return Counter(row[1] for b in packed for _, row in unpacked(b) if row[-1] is not None)


def test_only_who_knows_what_is_late_makes_panes() -> None:
    assert set(packed_kinds(None)) == {ROWS}
    assert set(packed_kinds(BEGINNING)) == {PANES}
    assert set(packed_kinds(4)) == {ROWS, PANES}  # those before 4 are for the shards to judge


def test_bounds_are_known_in_the_next_micro_batch_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place: list[bounds.Place | None] = [(tmp_path, "query", 4)]
    monkeypatch.setattr(bounds, "_place", lambda: place[0])
    case = Case("SELECT a, sum(b) AS r FROM S [RANGE 8 SLIDE 2] GROUP BY a", {"S": StreamData([])}, {})
    program = Program((plan(case, Way(positions=False)),))
    (route,) = program.routes("S")
    assert bounds.known(route) is None
    for _ in range(2):  # by two shards
        bounds.publish(program.name, 0, 0, -77)
    assert bounds.known(route) is None  # of the micro-batch itself nothing was told
    place[0] = tmp_path, "query", 5
    assert bounds.known(route) == -77
    assert bounds.known(Program(program.groups).routes("S")[0]) is None
    for other in ((tmp_path, "another", 5), (tmp_path, "query", 6), (tmp_path / "elsewhere", "query", 5), None):
        place[0] = other
        assert bounds.known(route) is None
    (alone,) = program.routes("S", streaming=False)
    assert bounds.known(alone) == BEGINNING


def test_who_cannot_write_bounds_down_says_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(bounds, "_place", lambda: (tmp_path / "file", "query", 4))
    bounds.publish("program", 0, 0, 1)
