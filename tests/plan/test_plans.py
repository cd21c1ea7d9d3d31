"""Plans as they are built: what is pushed where, which deletions are computed, what is kept. A change is a diff."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.kernels import join_layout as join
from eddyline.plan.deletions import Deletions


def test_the_planner_and_the_kernel_mean_the_same_deletions() -> None:
    assert Deletions.NONE == join.NO_DELETIONS
    assert Deletions.AT_ARRIVALS == join.AT_ARRIVALS
    assert Deletions.ALL == join.ALL_DELETIONS


PLANS = {
    # A filter goes below a time-based window, and is kept above a tuple-based one.
    "SELECT Istream(a) FROM S [RANGE 5] WHERE b > 1": """
        i-stream 1 ← project 1 ← seq-window 1 ← select 1 ← stream S (a, b)""",
    "SELECT Istream(a) FROM S [ROWS 5] WHERE b > 1": """
        i-stream 1 ← project 1 ← select 1 ← seq-window 1 ← stream S (a, b)""",
    # What can fail stays where it was written.
    "SELECT S.a FROM S [ROWS 5], T [ROWS 5] WHERE S.a = T.a AND 1 / S.b > 1": """
        changes 1 ← project 1 ← select 1 ← binary-join 1 ← (stream S (a, b) | stream T (a))""",
    # Windows below a join are kept by the join.
    "SELECT S.a FROM S [RANGE 5], T [RANGE 5] WHERE S.a = T.a AND T.b = 2": """
        changes 1 ← project 1 ← binary-join 1 ← (stream S (a) | select 1 ← stream T (a, b))""",
    # A constant relation is looked up; the stream is not kept.
    "SELECT a FROM S WHERE a IN (SELECT k FROM K)": """
        i-stream 1 ← project 3 ← seq-window 1 ← match-select 1 ←
        (stream S (a) | project 2 ← project 1 ← relation 1)""",
    # Elements that are judged at their own instant are what Rstream shows; neither they nor the result are kept.
    "SELECT a FROM S WHERE a IN (SELECT a FROM T [ROWS 3]) AND b > 1": """
        project 3 ← match-select 1 ← (stream S (a, b) | project 2 ← project 1 ← seq-window 1 ← stream T (a))""",
    # What changes later on the right changes the answer for rows that are still there.
    "SELECT a FROM S [RANGE 5] WHERE a IN (SELECT a FROM T [ROWS 3])": """
        changes 1 ← project 3 ← semijoin 1 ← (seq-window 1 ← stream S (a)
        | duplicate-eliminate 1 ← project 2 ← project 1 ← seq-window 2 ← stream T (a))""",
}


def session() -> ed.Session:
    s = ed.Session()
    schema = pa.schema([("ts", pa.int64()), ("a", pa.int64()), ("b", pa.int64())])
    s.stream("S", schema=schema, timestamp="ts")
    s.stream("T", schema=schema, timestamp="ts")
    s.relation("K", [{"k": 1}])
    return s


def chain(query: ed.Query) -> str:
    nodes = query.running.physical.nodes

    def text(i: int) -> str:
        n = nodes[i]
        if n.operator is None:
            assert n.scan is not None
            return f"stream {n.scan.stream} ({', '.join(n.scan.columns)})"  # type: ignore[union-attr]
        inputs = [text(j) for j in n.inputs]
        if not inputs:
            return n.operator.name
        return f"{n.operator.name} ← " + (inputs[0] if len(inputs) == 1 else f"({' | '.join(inputs)})")

    return text(query.running.physical.root)


@pytest.mark.parametrize("text", PLANS)
def test_plan(text: str) -> None:
    assert chain(session().query(text)) == " ".join(PLANS[text].split())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT Istream(S.ts, T.ts) FROM S [RANGE 5], T [RANGE 5] WHERE S.a = T.a", "deletions are not computed"),
        ("SELECT Istream(S.a) FROM S [RANGE 5], T [RANGE 5] WHERE S.a = T.a", "at instants of arrivals only"),
    ],
)
def test_explain_says_which_deletions_are_computed(text: str, said: str) -> None:
    assert said in session().query(text).explain()


def test_explain_says_what_is_kept_and_that_it_is_shared() -> None:
    s = session()
    s.query("SELECT Dstream(a) FROM S [RANGE 5]")
    q = s.query("SELECT a, max(b) FROM S [RANGE 3] GROUP BY a")
    text = q.explain()
    assert re.search(r"seq-window 1: the elements of \[RANGE 3\]", text)
    assert "shared: 2 windows over the same elements keep them once" in text
