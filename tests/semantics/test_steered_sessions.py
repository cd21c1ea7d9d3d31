"""Sessions that are steered while they run: queries are altered, pinned, undone and removed at random moments, sharing
and schedulers are switched, sessions are saved and restored, and every answer is that of the query alone.

``EDDYLINE_CASES`` scales the number of sessions (1 is 60 short ones, 10 with selections that adapt, and 6 long joins;
``make test-deep`` runs five times as many), ``EDDYLINE_SEED`` moves to others.
"""

from __future__ import annotations

import itertools
import os
import random
import tempfile
from collections import Counter
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.adapting import conjunction as adaptive_conjunction
from eddyline.adapting import join_choice as joining
from eddyline.adapting import plan_hold, tuple_router
from eddyline.cql import bind
from eddyline.testing import ManualClock
from eddyline.testing.cases import draw_case
from eddyline.testing.reference import Reference
from eddyline.testing.values import row_key
from tests.scale import FACTOR, scaled
from tests.semantics.both import rows_of
from tests.semantics.engine import Way, mismatch, quick_pace, schedule, start
from tests.semantics.long_joins import draw
from tests.semantics.long_joins import start as start_long
from tests.semantics.steering import steer

SEED = os.environ.get("EDDYLINE_SEED", "2018")
SHORT, FILTERS, LONG, PARTS = scaled(60, least=10), scaled(10, least=4), scaled(6, least=2), 2
MOST_ELEMENTS = 3000 if FACTOR >= 1 else 150  # elements of a stream of a long join
DID: Counter[str] = Counter()  # what was done, over all sessions


@pytest.mark.parametrize("part", range(PARTS))
def test_a_steered_query_answers_as_the_reference(part: int) -> None:
    for number in range(part, SHORT, PARTS):
        rng = random.Random(f"{SEED}/short/{number}")
        case = draw_case(rng)
        expected = case.reference().run()
        way = Way(rng.randrange(1 << 30), twins=rng.randrange(3))
        with ExitStack() as stack:
            stack.enter_context(patch.object(joining, "Pace", quick_pace))
            stack.enter_context(patch.multiple(plan_hold, DEVIATIONS_TO_RECONSIDER=0.2, SHARE_TO_RECONSIDER=0.0))
            stack.enter_context(
                patch.multiple(
                    tuple_router, ROWS_BEFORE_ATTRIBUTES=2, FIRST_ROWS=4, MAX_ROWS=8, BATCHES_PER_PINNED_DECISION=2
                )
            )
            stack.enter_context(
                patch.multiple(adaptive_conjunction, FIRST_ROWS=1, TRIAL_ROWS=4, MIN_ROWS=1, MAX_ROWS=4, BURST_ROWS=2)
            )
            session, query = start(case, way)
            batches = []
            for name, batch in schedule(case, way):
                others = [q for q in session.queries if q is not query]
                if others and rng.random() < 0.1:
                    rng.choice(others).drop()
                if rng.random() < 0.6:
                    steer(session, rng.choice(session.queries), rng, DID)
                session.push(name, batch)
                if rng.random() < 0.1 and len(session.queries) == 1 + way.twins:
                    batches += query.fetch()
                    with tempfile.TemporaryDirectory() as folder:
                        session.snapshot(folder)
                        was = query.steering.state()
                        session, query = start(case, way)
                        session.restore(folder)
                        assert query.steering.state() == was
                        DID["restored"] += 1
            session.finish()
            answer = pa.Table.from_batches([*batches, *query.fetch()], query.schema)
        if (wrong := mismatch(case, expected, answer)) is not None:
            pytest.fail(f"session {SEED}/{number}, {way}\n{case.text}\n{wrong}\n{query.decisions}", pytrace=False)


SCHEMA = pa.schema([(n, pa.int64()) for n in ("ts", "a", "b", "c")])
FUNCTIONS = {"low": lambda x: x < 20, "most": lambda x: x < 85, "odd": lambda x: x % 2 == 1}


@pytest.mark.parametrize("part", range(PARTS))
def test_a_steered_selection_answers_as_the_reference(part: int) -> None:
    """Four conjuncts whose selectivities turn round, a window and an aggregate on top, two queries in a session."""
    for number in range(part, FILTERS, PARTS):
        rng = random.Random(f"{SEED}/filters/{number}")
        rows = [selected_row(rng, i) for i in range(1500)]
        texts = [
            "SELECT count(*) AS n, sum(b) AS s FROM S [RANGE 20] WHERE most(a) AND odd(b) AND low(c) AND a <> 7",
            "SELECT Istream(c, n) FROM (SELECT c, count(*) AS n FROM S [ROWS 40] WHERE low(b) AND most(c) AND odd(a)"
            " GROUP BY c) WHERE n > 1",
        ]

        def begin(texts: list[str] = texts) -> tuple[ed.Session, list[Any]]:
            session = ed.Session(clock=ManualClock())  # which stands still: what is decided follows from the rows alone
            session.stream("S", schema=SCHEMA, timestamp="ts")
            for name, function in FUNCTIONS.items():
                session.function(name, function, "boolean", ["bigint"])
            return session, [session.query(t) for t in texts]

        session, queries = begin()
        want = [refer(session, text, rows) for text in texts]
        have: list[Counter[tuple[Any, ...]]] = [Counter() for _ in texts]
        with ExitStack() as stack:
            stack.enter_context(patch.multiple(plan_hold, DEVIATIONS_TO_RECONSIDER=2.0, SHARE_TO_RECONSIDER=0.02))
            stack.enter_context(
                patch.multiple(
                    tuple_router, ROWS_BEFORE_ATTRIBUTES=8, FIRST_ROWS=8, MAX_ROWS=32, BATCHES_PER_PINNED_DECISION=2
                )
            )
            stack.enter_context(
                patch.multiple(adaptive_conjunction, FIRST_ROWS=4, TRIAL_ROWS=8, MIN_ROWS=4, MAX_ROWS=16, BURST_ROWS=4)
            )
            cuts = sorted({*(rng.randint(0, len(rows)) for _ in range(50)), len(rows)})
            for before, cut in itertools.pairwise([0, *cuts]):
                steer(session, rng.choice(queries), rng, DID)
                session.push("S", pa.RecordBatch.from_pylist(rows[before:cut], SCHEMA))
                for seen, q in zip(have, queries, strict=True):
                    seen.update(row_key(r) for b in q.fetch() for r in rows_of(pa.Table.from_batches([b])))
                if rng.random() < 0.05:
                    with tempfile.TemporaryDirectory() as folder:
                        session.snapshot(folder)
                        session, queries = begin()
                        session.restore(folder)
            session.finish()
        for i, q in enumerate(queries):
            have[i].update(row_key(r) for b in q.fetch() for r in rows_of(pa.Table.from_batches([b])))
            assert have[i] == want[i], (number, texts[i], have[i] - want[i], want[i] - have[i], q.decisions)
            DID["not applied"] += sum(not d.applied for d in q.decisions)
            DID["decided"] += sum(d.applied and d.by == "policy" for d in q.decisions)
            DID["undone"] += sum(d.applied and d.by == "user" and d.operator.startswith("select") for d in q.decisions)


def selected_row(rng: random.Random, i: int) -> dict[str, int]:
    """What the columns hold turns round every 500 rows."""
    low, high = rng.randrange(30), rng.randrange(100)
    a, b, c = ((low, high, high), (high, low, high), (high, high, low))[i // 500 % 3]
    return {"ts": i // 3, "a": a, "b": b, "c": c}


def refer(session: ed.Session, text: str, rows: list[dict[str, int]]) -> Counter[tuple[Any, ...]]:
    answer = Reference(bind(text, session.catalog), {"S": [(r["ts"], r) for r in rows]}).run()
    return Counter(row_key((t, *v) if sign is None else (t, sign, *v)) for t, v, sign in answer)


@pytest.mark.parametrize("part", range(PARTS))
def test_a_steered_join_answers_as_the_tensor_product(part: int) -> None:
    for number in range(part, LONG, PARTS):
        rng = random.Random(f"{SEED}/long/{number}")
        case = draw(rng, number * 7, MOST_ELEMENTS)
        given: dict[str, Any] = {"caches": "global(interval=300, W=3, W_d=16)"} if number % 2 else {}
        session, query = start_long(case, given)
        tables = {name: case.arrow(name) for name in case.tables}
        last, before = int(case.instants[-1]), 0
        batches: list[pa.RecordBatch] = []
        with patch.multiple(plan_hold, DEVIATIONS_TO_RECONSIDER=2.0, SHARE_TO_RECONSIDER=0.02):
            for cut in sorted({*(rng.randint(0, last) for _ in range(40)), last + 1}):
                for name, table in tables.items():
                    ts = case.tables[name]["ts"]
                    session.push(name, table.filter(pa.array((ts >= before) & (ts < cut))))
                before = cut
                steer(session, query, rng, DID, long=True)
                if rng.random() < 0.05:
                    batches += query.fetch()
                    with tempfile.TemporaryDirectory() as folder:
                        session.snapshot(folder)
                        session, query = start_long(case, given)
                        session.restore(folder)
            session.finish()
        DID["not applied in a join"] += sum(not d.applied for d in query.decisions)
        DID["decided in a join"] += sum(d.applied and d.by == "policy" for d in query.decisions)
        answer = pa.Table.from_batches([*batches, *query.fetch()], query.schema)
        if (wrong := case.difference(answer, case.expected())) is not None:
            pytest.fail(f"join {SEED}/{number}\n{case.text}\n{wrong}\n{query.decisions}", pytrace=False)


def test_everything_was_done_often() -> None:
    if not DID:
        pytest.fail("run the whole file: what was done is counted by the tests above")
    print("", *(f"{what}: {count}" for what, count in sorted(DID.items())), sep="\n")
    for what in ("alter", "pin", "unpin", "undo", "sharing"):
        assert DID[what] > 5, what
    if FACTOR >= 1:  # fewer sessions may have none
        for what in ("restored", "decided", "undone", "not applied", "decided in a join", "not applied in a join"):
            assert DID[what] > 5, what
    assert DID["alter refused"] < DID["alter"]
