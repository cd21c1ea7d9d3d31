"""Joins of queries that come and go at any moment share their hash indexes, and answer as alone.

``EDDYLINE_CASES`` scales the number of sessions, ``EDDYLINE_SEED`` moves to others. With ``-s`` a table says how often
an index was read by several joins, by how many, and what happened to it.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.adapting import join_choice, plan_hold
from eddyline.operators.mjoin import MJoin
from eddyline.synopses import join_contents, shared_index
from eddyline.synopses.shared_index import IndexReader, SharedIndex
from tests.scale import FACTOR, scaled
from tests.semantics.engine import JOINS, quick_pace
from tests.semantics.session_scripts import Row, SessionScript

SEED = os.environ.get("EDDYLINE_SEED", "2004")
CASES = scaled(8, 4, 20)
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])
WINDOWS = ("[RANGE 4]", "[RANGE 12]", "[RANGE 30]", "[ROWS 5]", "[ROWS 20]", "[RANGE 9 SLIDE 4]", "[ROWS UNBOUNDED]",
           "[RANGE 3 SLIDE 5]", "[NOW]")  # fmt: skip
TEXTS = (
    "SELECT {p}.ts AS x, {q}.ts AS y, {p}.v FROM S {w} {p}, T {r} {q} WHERE {p}.k = {q}.k",
    "SELECT count(*) AS n, sum({p}.v) AS t, max({q}.v) AS m FROM S {w} {p}, T {r} {q} WHERE {p}.k = {q}.k",
    "SELECT Istream({p}.ts AS x, {q}.ts AS y) FROM S {w} {p}, T {r} {q} WHERE {p}.k = {q}.k AND {p}.v < {q}.v",
    "SELECT {p}.v, count(*) AS n FROM S {w} {p}, T {r} {q} WHERE {p}.k = {q}.k AND {p}.v = {q}.v GROUP BY {p}.v",
    "SELECT {p}.v, count(*) AS n FROM S {w} {p}, S {r} {q} WHERE {p}.k = {q}.k GROUP BY {p}.v",  # with itself
    "SELECT count(*) AS n, sum({q}.v) AS t FROM S {w} {p}, U {r} {q} WHERE {p}.k = {q}.k",  # U stays behind
    "SELECT count(*) AS n, sum({p}.v) AS t FROM S {w} {p}, T {r} {q}, U {r} u WHERE {p}.k = {q}.k AND {q}.v = u.v",
    "SELECT Dstream({p}.ts AS x, u.v AS y) FROM S {w} {p}, T {r} {q}, U [ROWS 6] u WHERE {p}.k = {q}.k AND {q}.k = u.k",
    "SELECT count(*) AS n FROM S {w} {p}, T {r} {q} WHERE {p}.k = {q}.k AND {p}.v > 1",
    "SELECT count(*) AS n, min({p}.v) AS t FROM S {w} {p} LEFT JOIN T {r} {q} ON {p}.k = {q}.k",
)


def draw(rng: random.Random) -> tuple[str, dict[str, Any]]:
    p, q = rng.sample(("p", "q", "S", "T"), 2)
    text = rng.choice(TEXTS).format(w=rng.choice(WINDOWS), r=rng.choice(WINDOWS[:6]), p=p, q=q)
    return text, dict(rng.choice(JOINS)) if rng.random() < 0.5 else {}


def draw_script(seed: int) -> SessionScript:
    rng = random.Random(f"{SEED}/indexes/{seed}")
    slack = rng.choice((0, 0, 5))
    count = rng.choice((60, 120, 240))
    streams = {"S": count, "T": count, "U": count // 4}
    rows: dict[str, list[Row]] = {}
    for name, many in streams.items():
        made: list[Row] = [
            {"ts": t * count // (3 * many), "k": rng.choice((0, 0, 1, 2, 3, None)), "v": rng.choice((0, 1, 2, 3, None))}
            for t in range(many)
        ]  # fmt: skip
        rows[name] = sorted(made, key=lambda r: (r["ts"] or 0) + rng.randint(0, slack))
    return SessionScript(rng, SCHEMA, rows, slack, draw, rng.choice((5, 40)))


def indexes_of(session: ed.Session) -> list[SharedIndex]:
    stores = {id(s.store): s.store for s in session._graph.registry.stubs}.values()
    return [i for s in stores for i in s.indexes.values() if isinstance(i, SharedIndex)]


def watch(session: ed.Session, seen: Counter[str]) -> None:
    """Counts what is shared, and checks that nothing is kept that nobody reads."""
    registry = session._graph.registry
    found = indexes_of(session)
    readers = {id(s.companion) for s in registry.stubs}
    blocks = [0, 0]
    for index in found:
        assert index.readers and all(id(r) in readers for r in index.readers)
        assert len({id(r.owner) for r in index.readers}) == len(index.readers)
        seen[f"index with {min(len(index.readers), 4)} readers"] += 1
        firsts = [first for first, _ in index.readers.values()]
        seen["readers of different windows"] += len(set(firsts)) > 1
        blocks = [blocks[0] + index.heads, blocks[1] + index.room * index.width]
    for o in session._graph.operators:
        join = o.task.operator
        if isinstance(join, MJoin) and join.arrays.pool is not None:
            mine = join.arrays._blocks
            blocks = [b + mine[n].words for b, n in zip(blocks, ("heads", "records"), strict=True)]
            seen["multiway join"] += len(join.sides) > 2
    if all(
        isinstance(o.task.operator, MJoin) or not hasattr(o.task.operator, "plain") for o in session._graph.operators
    ):
        assert blocks == [registry.pool.heads.used, registry.pool.records.used]


@pytest.fixture
def hasty() -> Iterator[None]:
    """Plans that change after a few elements, little room, and joins that part soon."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(join_choice, "Pace", quick_pace))
        stack.enter_context(patch.multiple(plan_hold, DEVIATIONS_TO_RECONSIDER=0.2, SHARE_TO_RECONSIDER=0.0))
        stack.enter_context(patch.object(join_contents, "FIRST_CAPACITY", 2))
        stack.enter_context(
            patch.multiple(shared_index, INITIAL_ROOM=2, FREE_REWINDS=60, MAX_REWINDS_PER_ARRIVAL=2, MAX_ROWS_APART=8)
        )
        yield


@pytest.mark.usefixtures("hasty")
def test_shared_and_alone_they_answer_the_same(tmp_path: Path) -> None:
    seen, alone, changes = Counter[str](), Counter[str](), Counter[str]()
    change, resize, rewind = IndexReader.change, SharedIndex._resize, SharedIndex.bring_to

    def changed(self: IndexReader) -> None:
        changes["left, far apart" if self.home is self.stub.store else "left" if self.home else "began"] += 1
        change(self)

    def resized(self: SharedIndex, room: int, low: int) -> None:
        changes["grown" if room > self.room else "made smaller"] += bool(self.room)
        resize(self, room, low)

    def brought(self: SharedIndex, first: int, tail: int, insert: Any) -> int:
        changes["brought back"] += not self.empty and self.end > tail
        changes["brought forward"] += not self.empty and self.end < tail
        return rewind(self, first, tail, insert)

    for seed in range(CASES):
        script = draw_script(seed)
        with patch.multiple(IndexReader, change=changed), patch.multiple(
            SharedIndex, _resize=resized, bring_to=brought
        ):  # fmt: skip
            shared = script.play(True, tmp_path / str(seed), seen, watch)
        assert shared == script.play(False, tmp_path / str(seed), alone, watch), seed
    print()
    for what, times in sorted({**seen, **changes}.items()):
        print(f"  {what:<32} {times:>7,}")
    assert not any("index with" in what for what in alone)
    assert seen["index with 2 readers"] > 4 * CASES and seen["readers of different windows"] > 2 * CASES
    assert min(changes[w] for w in ("began", "grown", "brought back")) > CASES and seen["multiway join"] > CASES
    if FACTOR >= 1:
        assert seen["index with 4 readers"] > CASES and changes["left, far apart"] and changes["brought forward"]


def test_an_index_does_not_grow_with_its_readers() -> None:
    def held(readers: int) -> tuple[int, list[int], str]:
        rng = random.Random(5)
        session = ed.Session()
        for name in "ST":
            session.stream(name, schema=SCHEMA, timestamp="ts")
        for n in range(10):
            if n < max(2, readers):  # one alone shares with nobody
                text = "SELECT count(*) AS n, sum({p}.v) AS t FROM S [RANGE {w}] {p}, T [RANGE 40] q WHERE {p}.k = q.k"
                query = session.query(text.format(p=f"p{n}", w=2000 - 100 * n), name=f"q{n}")
            for name in "ST":
                session.push(name, [{"ts": 100 * n + t, "k": rng.randint(0, 300), "v": 1} for t in range(100)])
        for begin in range(1000, 4000, 100):
            for name in "ST":
                session.push(name, [{"ts": begin + t, "k": rng.randint(0, 300), "v": 1} for t in range(100)])
        found = sorted(indexes_of(session), key=lambda i: i.nbytes)
        assert [len(i.readers) for i in found] == [readers, readers]
        return session._graph.registry.pool.nbytes, [i.nbytes for i in found], query.explain()

    two, ten = held(2), held(10)
    assert ten[1] == two[1] and ten[0] - two[0] <= 16 * 8 and two[0] > 8 * 2000 * 3, (two, ten)  # two words a join
    assert "index on k: kept once for 10 joins" in ten[2] and "read by q0, q1" in ten[2], ten[2]
