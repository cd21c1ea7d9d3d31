"""Joins under constraints whose inputs are relations: partitioned windows, groups, distinct rows, windows that end by
their elements. In exact mode answers are those of the reference, however rows come and are deleted."""

from __future__ import annotations

import random
from collections import Counter
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.operators.constrained_changes import net_changes
from eddyline.operators.constrained_join import ConstrainedJoin
from eddyline.synopses import spill as spilling
from eddyline.testing.case_data import draw_scale
from eddyline.testing.cases import Case
from tests.adapting.test_constrained_join import GRAPHS, TOPS, WINDOWS, draw_streams, options
from tests.scale import FACTOR
from tests.semantics.engine import Way, mismatch, run_engine
from tests.shards import shards

CASES = max(10, round(30 * FACTOR))
PARTS = 3
RELATIONS = (
    "{n} [PARTITION BY a ROWS 1]",
    "{n} [PARTITION BY b ROWS 2]",
    "(SELECT DISTINCT ts, a, b, x, s FROM {n} [RANGE {w}]) {n}",
    "(SELECT max(ts) AS ts, a, b, max(x) AS x, s FROM {n} [RANGE {w}] GROUP BY a, b, s) {n}",
    "(SELECT max(ts) AS ts, a, min(b) AS b, max(x) AS x, max(s) AS s FROM {n} [ROWS {w}] GROUP BY a) {n}",
    "(SELECT * FROM {n} [ROWS {w}] UNION ALL SELECT * FROM {n} [RANGE {w}]) {n}",
    "(SELECT * FROM {n} [RANGE {w}] EXCEPT SELECT * FROM {n} [ROWS 3]) {n}",
    "(SELECT * FROM {n} [RANGE {w}] WHERE b IN (SELECT b FROM {n} [ROWS 4])) {n}",
)
SEEN: Counter[str] = Counter()


def draw(rng: random.Random) -> Case:
    names, where = rng.choice(GRAPHS)
    scale = draw_scale(rng)

    def width() -> int:
        return rng.randint(2, 14)

    def relation(name: str) -> str:
        return rng.choice(RELATIONS).format(n=name, w=width())

    def window(name: str) -> str:
        return f"{name} {rng.choice(WINDOWS).format(width())}"

    relations = rng.sample(names, rng.randint(1, len(names)))
    tables = ", ".join(relation(n) if n in relations else window(n) for n in names)
    filters = rng.choice(["", "", f" AND {names[-1]}.x < 1.5", " AND R.x > 0.6"])
    text = rng.choice(TOPS).replace("{last}", names[-1]).format(f"{tables} WHERE {where}{filters}")
    return Case(text, draw_streams(rng, names, scale), {}, scale=scale)


def counting(original):  # type: ignore[no-untyped-def]
    def process(self, deltas, frontier):  # type: ignore[no-untyped-def]
        before = 0 if self.spill is None else self.spill.total, self.fetches
        out = original(self, deltas, frontier)
        if any(s.is_relation for s in self.sides):
            SEEN["calls"] += 1
            SEEN["spilled"] += 0 if self.spill is None else self.spill.total - before[0]
            SEEN["brought back"] += self.fetches - before[1]
        return out

    return process


def bringing(original):  # type: ignore[no-untyped-def]
    def fetch_deleted(join, departures, until):  # type: ignore[no-untyped-def]
        before = join.fetches
        SEEN["deleted"] += len(departures)
        slots = original(join, departures, until)
        SEEN["deleted from the spill"] += join.fetches - before
        return slots

    return fetch_deleted


@pytest.mark.parametrize("part", range(PARTS))
def test_exact_answers_are_those_of_the_reference(part: int) -> None:
    from eddyline.operators import constrained_join as module

    with (
        patch.object(ConstrainedJoin, "process", counting(ConstrainedJoin.process)),
        patch.object(module, "fetch_deleted", bringing(module.fetch_deleted)),
        patch.object(spilling, "BUFFER_BYTES", 600),
        patch.object(spilling, "INITIAL_FILTER_KEYS", 4),
    ):
        for i in range(part, CASES, PARTS):
            rng = random.Random(f"relations/{i}")
            case = draw(rng)
            expected = case.expected()
            chosen = options(rng)
            SEEN["cases"] += bool(expected)
            for way in (Way(i, options=chosen), Way(i, small=True, snapshot=True, options=chosen)):
                answer = run_engine(case, way)
                assert mismatch(case, expected, answer) is None, f"{i} {chosen}\n{case.snippet()}"


def test_shards_answer_the_same() -> None:
    for i in range(max(3, round(8 * FACTOR))):
        rng = random.Random(f"relations in shards/{i}")
        case, chosen = draw(rng), options(rng)
        way = shards.Way(shards=rng.choice([1, 4]), batches=3, seed=i, hot=0.5, options=chosen)
        assert shards.check(case, way) is None, f"{chosen}\n{case.snippet()}"


# Figure 6.19 of the thesis, as printed.
ACCIDENT_SEGMENTS = """
Select distinct sid From
  (Select cid, sid From
    (CarStr [Partition By cid Rows 1]) as LastRep,
    (Select distinct cid From
      CarStr [Range 30 seconds]) as CurActiveCars
   Where LastRep.cid = CurActiveCars.cid)
 as CurCarSeg,
 (Select cid
  From CarStr [Partition By cid Rows 4]
  Group By cid
  Having count (distinct xpos) = 1 and count(*) = 4)
 as AccCars
Where CurCarSeg.cid = AccCars.cid"""


def traffic() -> pa.Table:
    """Cars report every 25 seconds for a quarter of an hour; one in four stops for a while, and none comes again."""
    rng, reports = np.random.default_rng(7), []
    for car in range(200):
        begin, stops = int(rng.integers(0, 7200)), rng.random() < 0.25
        for n in range(int(rng.integers(20, 40))):
            mile = 10 if stops and 10 <= n < 16 else n
            reports.append((begin + 25 * n, car, mile + 1000 * (car % 7), (mile // 4) + 10 * (car % 7)))
    columns = zip(*sorted(reports), strict=True)
    names = ("ts", "cid", "xpos", "sid")
    return pa.table({name: pa.array(c, pa.int64()) for name, c in zip(names, columns, strict=True)})


def test_the_query_of_accident_segments_keeps_little_of_cars_that_are_gone() -> None:
    table, answers, rows = traffic(), [], []
    for mode in ("off", "exact(collect=50, W=50)"):
        session = ed.Session()
        session.stream("CarStr", table.to_batches(max_chunksize=200), schema=table.schema, timestamp="ts")
        query = session.query(ACCIDENT_SEGMENTS, constraints=mode)
        answers.append(query.to_arrow())
        rows.append(sum(o["rows"] for o in query.report()["operators"] if "join" in o["name"]))
    assert answers[0].num_rows > 50 and answers[1].equals(answers[0])
    assert rows[1] < rows[0] / 4


def test_changes_are_netted_by_instant() -> None:
    times, rows = np.array([1, 1, 1, 2, 2]), np.array([7, 7, 8, 8, 9])
    come, go = net_changes(times, rows, np.array([-1, 1, 1, -1, 2]))
    assert (come.tolist(), go.tolist()) == ([2, 4, 4], [3])


def test_relations_were_spilled_and_their_rows_deleted() -> None:
    if not SEEN:
        pytest.fail("run the whole file: what happens is counted by the tests above")
    print()
    for what, times in sorted(SEEN.items()):
        print(f"  {what:<24} {times:>7,}")
    for what in ("spilled", "brought back", "deleted", "deleted from the spill", "calls"):
        assert SEEN[what] > (20 if FACTOR >= 1 else 0), what
