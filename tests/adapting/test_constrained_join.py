"""Joins under constraints: in exact mode answers are those of the reference, however wrong a constraint is."""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from unittest.mock import patch

import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.adapting.candidates import constrained_join as candidates
from eddyline.adapting.join_switch import JoinSwitch
from eddyline.adaptive.constraints.handover import HandOver
from eddyline.core.errors import JobError
from eddyline.operators import offered_join
from eddyline.operators.constrained_join import ConstrainedJoin
from eddyline.operators.offered_join import OfferedJoin
from eddyline.synopses import spill as spilling
from eddyline.testing.case_data import TimeScale, draw_scale
from eddyline.testing.cases import Case
from eddyline.testing.reference import StreamData
from tests.semantics.engine import Way, mismatch, run_engine
from tests.shards import shards

FACTOR = float(os.environ.get("EDDYLINE_CASES", "1"))
CASES = max(10, round(100 * FACTOR))
PARTS = 4
WINDOWS = ("[RANGE {}]", "[RANGE {}]", "[ROWS {}]", "[ROWS UNBOUNDED]", "[RANGE {} SLIDE 2]", "[HOP {} EVERY 3]")
GRAPHS = (
    ("RS", "R.a = S.a"),
    ("RS", "R.s = S.s"),
    ("RS", "R.a = S.a AND R.b = S.b"),
    ("RST", "R.a = S.a AND R.b = T.b"),
    ("RST", "R.a = S.a AND S.b = T.b"),
    ("RST", "R.a = T.a AND S.a = T.a"),
    ("RST", "R.a = S.a AND S.a = T.a"),
    ("RSTU", "R.a = S.a AND S.b = T.b AND R.b = U.b"),
    ("RSTU", "R.a = T.a AND S.a = T.a AND T.b = U.b AND R.x < U.x"),
)
TOPS = (
    "SELECT R.a, count(*) AS n, sum(S.b) AS x FROM {} GROUP BY R.a",
    "SELECT max(R.b) AS x, count(*) AS n FROM {}",
    "SELECT R.b, S.s FROM {}",
    "SELECT Istream(R.b, S.s) FROM {}",
    "SELECT Istream(R.ts, S.ts AS t2, {last}.b) FROM {}",
    "SELECT Rstream(R.b, S.a) FROM {}",
)
SEEN: Counter[str] = Counter()


def keys(rng: random.Random, count: int, unique: bool) -> list[int | None]:
    """Keys that nearly follow an order, in clusters or each once, with a few that break every rule."""
    base = list(range(count)) if unique else [i // rng.choice([2, 3]) for i in range(count)]
    spread = rng.choice([0, 0, 1, 3, 8])
    order = sorted(range(count), key=lambda i: base[i] + rng.uniform(0, spread))
    made: list[int | None] = [base[i] for i in order]
    for _ in range(rng.choice([0, 0, 1, 3, 6])):
        made[rng.randrange(count)] = rng.choice([None, rng.randrange(count), rng.randrange(count)])
    return made


def draw_streams(rng: random.Random, names: str, scale: TimeScale) -> dict[str, StreamData]:
    streams = {}
    for name in names:
        count = rng.randint(12, 30)
        times = sorted(rng.randint(0, 30) for _ in range(count))
        a, b = keys(rng, count, rng.random() < 0.6), keys(rng, count, rng.random() < 0.4)
        rows = [
            {"ts": scale.value(scale.ticks(t)), "a": x, "b": y, "x": rng.choice([0.5, 1.0, 2.0, None]),
             "s": rng.choice([f"k{x}", f"k{x}", None])}
            for t, x, y in zip(times, a, b, strict=True)
        ]  # fmt: skip
        streams[name] = StreamData(tuple((scale.ticks(t), r) for t, r in zip(times, rows, strict=True)), 0)
    return streams


def draw(rng: random.Random) -> Case:
    names, where = rng.choice(GRAPHS)
    scale = draw_scale(rng)
    windows = [rng.choice(WINDOWS).format(rng.randint(2, 14)) for _ in names]
    if scale.unit != 1:
        windows = [w.replace("]", " SECONDS]") if "RANGE" in w and "SLIDE" not in w else w for w in windows]
    tables = ", ".join(f"{n} {w}" for n, w in zip(names, windows, strict=True))
    filters = rng.choice(["", "", f" AND {names[-1]}.x < 1.5", " AND R.x > 0.6"])
    text = rng.choice(TOPS).replace("{last}", names[-1]).format(f"{tables} WHERE {where}{filters}")
    return Case(text, draw_streams(rng, names, scale), {}, scale=scale)


def options(rng: random.Random) -> dict[str, str]:
    uses = rng.choice(["all", "all", "rids", "ca", "oap", "oac", "rids+ca", "ca+oap", "oap+oac"])
    monitors = rng.choice(["paper", "careful"])
    collect, look = rng.choice([1, 1, 3, 7]), rng.choice([1, 2, 5])
    parameters = f"collect={collect}, W={look}, p=0.2, uses={uses}, monitors={monitors}"
    parameters += f", distances={rng.choice(['chosen', 'ticks', 'arrivals'])}"
    if rng.random() < 0.3:
        parameters += f", patience={rng.choice([2, 10, 25])}"
    return {"constraints": f"exact({parameters})"}


def counting(original):  # type: ignore[no-untyped-def]
    def process(self, deltas, frontier):  # type: ignore[no-untyped-def]
        out = original(self, deltas, frontier)
        spilled = 0 if self.spill is None else self.spill.total
        SEEN["spilled"] += spilled - getattr(self, "_told", 0)
        SEEN["brought back"] += self.fetches - getattr(self, "_fetched", 0)
        self._told, self._fetched = spilled, self.fetches
        for (_, why), many in self.control.removed.items():
            SEEN[f"why {why % 16}"] += many
        return out

    return process


@pytest.mark.parametrize("part", range(PARTS))
def test_exact_answers_are_those_of_the_reference(part: int) -> None:
    with (
        patch.object(ConstrainedJoin, "process", counting(ConstrainedJoin.process)),
        patch.object(spilling, "BUFFER_BYTES", 600),
        patch.object(spilling, "INITIAL_FILTER_KEYS", 4),
    ):
        # 231: a spilled row is asked for at two ports, and is not there any more when the second asks.
        for i in [*range(part, CASES, PARTS), *([231] if part == 3 else [])]:
            rng = random.Random(f"constrained/{i}")
            case = draw(rng)
            expected = case.expected()
            chosen = options(rng)
            SEEN["cases"] += bool(expected)
            for way in (
                Way(i, options=chosen),
                Way(i, small=True, snapshot=True, options=chosen),
            ):
                answer = run_engine(case, way)
                assert mismatch(case, expected, answer) is None, f"{i} {chosen}\n{case.snippet()}"


@pytest.mark.parametrize("part", range(2))
def test_the_join_may_change_after_any_call(part: int) -> None:
    """Whoever runs the join when it is handed over, and how often: answers are those of the reference."""
    for i in range(part, max(10, round(24 * FACTOR)), 2):
        rng = random.Random(f"handed over/{i}")
        case, chosen = draw(rng), options(rng)
        coin = random.Random(i)

        def changes(self, join, elements, now, coin=coin):  # type: ignore[no-untyped-def]
            runs_plain = coin.random() < 0.5
            SEEN["handed over"] += runs_plain != (join.plain is not None)
            return runs_plain

        with patch.object(JoinSwitch, "runs_plain", changes):
            for way in (Way(i, small=True, options=chosen), Way(i, small=True, snapshot=True, options=chosen)):
                answer = run_engine(case, way)
                assert mismatch(case, case.expected(), answer) is None, f"{i} {chosen}\n{case.snippet()}"
    assert SEEN["handed over"] > 20


@pytest.mark.parametrize("part", range(2))
def test_the_ordinary_join_may_hand_its_rows_over_after_any_call(part: int) -> None:
    """Under ``auto``, the default: with its shared stores, orders and caches, and elements that wait."""
    for i in range(part, max(10, round(24 * FACTOR)), 2):
        rng = random.Random(f"offered/{i}")
        case, chosen = draw(rng), options(rng)
        chosen = {"constraints": chosen["constraints"].replace("exact", "auto")} if rng.random() < 0.5 else {}
        coin = random.Random(i)

        def changes(self, join, elements, now, coin=coin):  # type: ignore[no-untyped-def]
            runs_plain, self.watching = coin.random() < 0.7, coin.random() < 0.5
            SEEN["offered"] += not runs_plain and isinstance(join.plain, OfferedJoin)
            return runs_plain

        with (
            patch.object(JoinSwitch, "runs_plain", changes),
            patch.object(offered_join, "ASK_EVERY", 1),
            patch.object(candidates, "HandOver", lambda: HandOver(large=0)),
        ):
            for way in (Way(i, small=True, options=chosen), Way(i, small=True, snapshot=True, options=chosen)):
                answer = run_engine(case, way)
                assert mismatch(case, case.expected(), answer) is None, f"{i} {chosen}\n{case.snippet()}"
    assert SEEN["offered"] >= 6


def test_rows_were_spilled_and_brought_back() -> None:
    print(dict(SEEN))
    assert SEEN["cases"] > CASES / 2
    assert SEEN["spilled"] > 10 * CASES and SEEN["brought back"] > CASES


def test_shards_keep_less_and_answer_the_same() -> None:
    """A part of a stream keeps its order, its clusters and its join distances: constraints hold in every shard."""
    spilled, process = [0], ConstrainedJoin.process

    def watched(self, deltas, frontier):  # type: ignore[no-untyped-def]
        before = self.spill.total
        out = process(self, deltas, frontier)
        spilled[0] += self.spill.total - before
        return out

    with patch.object(ConstrainedJoin, "process", watched):
        for i in range(max(6, round(20 * FACTOR))):
            rng = random.Random(f"constrained shards/{i}")
            case, chosen = draw(rng), options(rng)
            way = shards.Way(shards=rng.choice([1, 4]), batches=3, seed=i, hot=0.5, options=chosen)
            assert shards.check(case, way) is None, f"{chosen}\n{case.snippet()}"
    assert spilled[0] > 50


def start(text: str, **options: str) -> ed.Query:
    session = ed.Session()
    for name in "RS":
        session.stream(name, schema=pa.schema([("ts", pa.int64()), ("a", pa.int64())]), timestamp="ts")
    return session.query(text, **options)


@pytest.mark.parametrize(
    ("text", "constraints", "message"),
    [
        (
            "SELECT R.a FROM R [RANGE 5], S [RANGE 5] WHERE R.a = S.a EXCEPT SELECT a FROM S [RANGE 2]",
            "lossy",
            "EXCEPT",
        ),
        (
            "SELECT R.a FROM R [RANGE 5] LEFT JOIN S [RANGE 5] ON R.a = S.a",
            "lossy",
            "an outer join makes wrong results",
        ),
        ("SELECT a FROM R [RANGE 5] WHERE a NOT IN (SELECT a FROM S [RANGE 5])", "lossy", "NOT IN or NOT EXISTS"),
        ("SELECT a FROM R [RANGE 5]", "exakt", "unknown constraint policy 'exakt'. Did you mean 'exact'"),
        ("SELECT a FROM R [RANGE 5]", "exact(p=2)", "'p' of 'exact' must be a number above 0 and at most 1"),
    ],
)
def test_what_is_refused(text: str, constraints: str, message: str) -> None:
    with pytest.raises(JobError, match=re.escape(message)):
        start(text, constraints=constraints)


def test_explain_says_why_a_join_is_not_taken_and_what_stays() -> None:
    text = "SELECT R.a FROM R [{}], S [RANGE 5] WHERE R.a = S.a"
    cyclic = "SELECT R.a FROM R [RANGE 5], S [RANGE 5] WHERE R.a = S.a AND R.ts = S.a"
    said = start(cyclic, constraints="exact").explain()
    assert "not constrained-join: an equality class has two attributes of one input" in said
    said = start(text.format("PARTITION BY a ROWS 2"), constraints="exact").explain()
    assert "R (as it changes): relation 0 rows" in said
    said = start(text.format("RANGE 5"), constraints="auto").explain()
    assert "binary-join 1" in said and "the plain join runs: constraints are watched from 32.0 MB of state on" in said
    assert "constraints" not in start(text.format("RANGE 5")).explain()
    said = start(text.format("PARTITION BY a ROWS 2"), constraints="auto").explain()
    assert "not constrained-join: R is neither constant" in said
    said = start(text.format("RANGE 5"), constraints="exact").explain()
    assert "rows of current results stay until they leave their windows, because deletions can show" in said


def test_a_declared_key_makes_an_edge_many_one_from_the_start() -> None:
    session = ed.Session()
    schema = pa.schema([("ts", pa.int64()), ("a", pa.int64())])
    session.stream("R", schema=schema, timestamp="ts")
    session.stream("S", schema=schema, timestamp="ts", unique=["a"])
    query = session.query(
        "SELECT Istream(R.ts, S.ts AS t) FROM R [RANGE 50], S [RANGE 50] WHERE R.a = S.a",
        constraints="exact(collect=2)",
    )
    for t in range(4):
        session.push("R", [{"ts": t, "a": t % 2}])
        session.push("S", [{"ts": t, "a": 7 + t}])
    assert "join graph: R.a → S.a" in query.explain()
