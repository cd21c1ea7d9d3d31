"""Selections whose conjuncts look into live windows and relations: section 4.7 of the thesis by hand, functions beside
them, what explain says, snapshots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.operators.bound_match import BoundMatch
from eddyline.operators.match import MatchOperator
from eddyline.operators.match_select import MatchSelect
from eddyline.testing.clock import ManualClock

INT = pa.int64()
SCHEMAS = {n: pa.schema([("ts", INT), *((c, INT) for c in cs)]) for n, cs in (("S", "ab"), ("S1", "a"), ("S2", "b"))}
BOTH = "a IN (SELECT a FROM S1 [ROWS 10]) AND b IN (SELECT b FROM S2 [ROWS 10])"
IN_S1, IN_S2 = "S.a IN (SELECT a FROM S1 [ROWS 10])", "S.b IN (SELECT b FROM S2 [ROWS 10])"
CHANGE = 2005
QUICK = {"filters": "a-greedy(p=0.2, window=60, alpha=0.9)"}

ALL, ONE = list(range(10)), [0] * 10


def elements(name: str, start: int = 0, stop: int = 4000) -> pa.Table:
    """S runs through all pairs of digits. Up to the change the window on S1 holds all digits and that on S2 only 0;
    from the instant of the change on it is the other way round."""
    if name == "S":
        rows = [{"ts": t, "a": t % 10, "b": t // 10 % 10} for t in range(start, stop)]
    else:
        early, late = (ALL, ONE) if name == "S1" else (ONE, ALL)
        rows = [{"ts": t, SCHEMAS[name].names[1]: v} for t, vs in ((0, early), (CHANGE, late)) for v in vs]
        rows = [r for r in rows if start <= r["ts"] < stop]
    return pa.Table.from_pylist(rows, SCHEMAS[name])


def session(**options: Any) -> ed.Session:
    s = ed.Session(**options)
    for name, schema in SCHEMAS.items():
        s.stream(name, schema=schema, timestamp="ts")
    s.relation("K", pa.table({"k": [1, 2, 3, None]}))
    return s


def feed(s: ed.Session, cuts: Sequence[int]) -> None:
    for start, stop in zip([0, *cuts], [*cuts, 4000], strict=True):
        for name in SCHEMAS:
            s.push(name, elements(name, start, stop))


def passes(t: int) -> bool:
    return (t // 10 % 10 if t < CHANGE else t % 10) == 0


def operator(query: Any) -> Any:
    (found,) = [n.operator for n in query.running.physical.nodes if isinstance(n.operator, MatchSelect)]
    return found


@pytest.mark.parametrize("cuts", [[], [1000, 2000, 3000], [CHANGE - 1], [CHANGE], [CHANGE + 1], range(40, 4000, 40)])
def test_the_order_follows_the_windows(cuts: Sequence[int]) -> None:
    """Section 4.7: filters are semijoins with windows, whose selectivity changes as the windows do. Both cost the same
    (the clock stands still), so the one that drops nine rows of ten goes first."""
    s = session(clock=ManualClock())
    query = s.query(f"SELECT ts FROM S WHERE {BOTH}", **QUICK)
    feed(s, cuts)
    s.finish()
    assert query.to_arrow()["ts"].to_pylist() == [t for t in range(4000) if passes(t)]
    orders = [d.after for d in query.decisions if d.kind == "filter order"]
    assert orders == [[IN_S2, IN_S1], [IN_S1, IN_S2]]
    learned = query.statistics()["match-select 1"]
    assert learned["filters"] == [IN_S1, IN_S2] and learned["order"] == [0, 1]
    # 4000 · 1.1 are the least that can be asked, 4000 · 1.55 what either order asks if it stays.
    assert 4400 <= sum(learned["asked"]) < 5200


def test_explain_shows_memberships_like_others() -> None:
    s = session()
    query = s.query(f"SELECT ts FROM S WHERE {BOTH} AND a IN (SELECT k FROM K) AND b < 9", **QUICK)
    feed(s, [])
    s.finish()
    query.to_arrow()
    text = query.explain()
    for member in (IN_S1, IN_S2, "S.a IN (SELECT k FROM K)", "S.b < 9"):
        assert f". {member}: passes " in text
    assert "the keys on the right sides of IN and EXISTS" in text


def test_functions_take_part_and_are_called_once() -> None:
    """At most one call for a row, fewer than the written order makes; an error of a row that a window drops is nobody's
    business; what is not deterministic sees exactly the rows that survive what is written before it."""
    s = session()
    calls: dict[str, Counter[int]] = {name: Counter() for name in ("slow", "fickle")}

    def slow(ts: int, a: int) -> bool:
        calls["slow"][ts] += 1
        if a == 7:
            raise ValueError("seven")
        return True

    def fickle(ts: int) -> bool:
        calls["fickle"][ts] += 1
        return ts % 2 == 0

    s.function("slow", slow, cost=1e-3)
    s.function("fickle", fickle, deterministic=False)
    text = "slow(ts, a) AND a IN (SELECT k FROM K) AND fickle(ts) AND b IN (SELECT b FROM S2 [ROWS 10])"
    query = s.query(f"SELECT ts FROM S WHERE {text}")
    feed(s, [500])
    s.finish()
    early = [t for t in range(4000) if t % 10 in (1, 2, 3)]
    in_s2 = [t for t in range(4000) if t >= CHANGE or t // 10 % 10 == 0]
    assert query.to_arrow()["ts"].to_pylist() == [t for t in early if t % 2 == 0 and t in in_s2]
    assert sorted(calls["fickle"]) == early and set(calls["fickle"].values()) == {1}
    assert max(calls["slow"].values()) == 1 and len(early) <= len(calls["slow"]) < 2000


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_function_that_is_looked_up_is_asked_once(deterministic: bool) -> None:
    """``f(a) IN (…)`` is a conjunct like others: a row is asked about once, not once for each row of the window, and
    what fails is forgotten where another conjunct drops the row. If it is not deterministic it keeps its place."""
    s = session()
    calls: Counter[int] = Counter()

    def key(ts: int, a: int) -> int:
        calls[ts] += 1
        if a == 7:
            raise ValueError("seven")
        return a

    s.function("key", key, returns="bigint", deterministic=deterministic)
    query = s.query("SELECT ts FROM S WHERE key(ts, a) IN (SELECT a FROM S1 [ROWS 10]) AND a <> 7 AND b > 2")
    feed(s, [500])
    s.finish()
    early = [t for t in range(4000) if t % 10 != 7 and t // 10 % 10 > 2]
    assert query.to_arrow()["ts"].to_pylist() == [t for t in early if t < CHANGE or t % 10 == 0]
    assert set(calls.values()) == {1}
    assert sorted(calls) == (early if deterministic else list(range(4000)))
    assert isinstance(operator(query), MatchSelect)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "SELECT ts FROM S [RANGE 5] WHERE a IN (SELECT a FROM S1 [ROWS 2]) AND 4 / b > 3",
            ") keeps its place: S1 [ROWS 2] changes while rows of S [RANGE 5] are there",
        ),
        (
            "SELECT ts FROM S [NOW] WHERE EXISTS (SELECT * FROM S1 [ROWS 2] WHERE S1.a < S.a) AND 4 / b > 3",
            "keeps its place: S1 [ROWS 2] is compared by more than equality of columns",
        ),
        (
            "SELECT ts FROM S [NOW] WHERE (a, b) NOT IN (SELECT a, a FROM S1 [ROWS 2]) AND 4 / b > 3",
            "keeps its place: the NULLs of S1 [ROWS 2] must be compared pair by pair",
        ),
        (
            "SELECT ts FROM S [NOW] WHERE b < 3 AND "
            "EXISTS (SELECT * FROM S2 [ROWS 2] x WHERE x.b = S.b AND x.ts = 4 DIV a)",
            "keeps its place: whether a row fails depends on which rows of x [ROWS 2] it is compared with",
        ),
    ],
)
def test_explain_says_why_a_membership_keeps_its_place(text: str, why: str) -> None:
    query = session().query(text)
    assert any(isinstance(n.operator, BoundMatch | MatchOperator) for n in query.running.physical.nodes)
    assert why in query.explain()


def test_strict_order_asks_as_written() -> None:
    s = session()
    asked: Counter[str] = Counter()
    s.function("seen", lambda a: asked.update(["seen"]) or True)
    query = s.query("SELECT ts FROM S WHERE seen(a) AND b IN (SELECT b FROM S2 [ROWS 10])", strict_order=True)
    feed(s, [])
    s.finish()
    assert "strict_order" in query.explain() and asked["seen"] == 4000
    assert query.to_arrow().num_rows == sum(t >= CHANGE or t // 10 % 10 == 0 for t in range(4000))


def test_windows_and_what_was_learned_survive_a_snapshot(tmp_path: Any) -> None:
    text = f"SELECT ts FROM S WHERE {BOTH}"
    first, second = session(clock=ManualClock()), session(clock=ManualClock())
    queries = [s.query(text, **QUICK) for s in (first, second)]
    for name in SCHEMAS:
        first.push(name, elements(name, 0, 1500))
        first.heartbeat(name, 1500)
    early = queries[0].to_arrow()["ts"].to_pylist()
    first.snapshot(tmp_path)
    second.restore(tmp_path)
    assert operator(queries[1]).conjunction.policy.order == operator(queries[0]).conjunction.policy.order == (1, 0)
    for name in SCHEMAS:
        second.push(name, elements(name, 1500))
    second.finish()
    assert [*early, *queries[1].to_arrow()["ts"].to_pylist()] == [t for t in range(4000) if passes(t)]
    orders = [d.after for d in queries[1].decisions if d.kind == "filter order"]
    assert orders == [[IN_S2, IN_S1], [IN_S1, IN_S2]]
