"""The eddy: answers and errors of any fixed order, counts of the simulator, options, explain, statistics, snapshots."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eddyline as ed
from eddyline.adapting import tuple_router as module
from eddyline.adapting.eddy import Eddy
from eddyline.adapting.routing_options import Routing
from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.adaptive.routing.content_knows import best_by_class
from eddyline.adaptive.routing.policies import make_policy
from eddyline.adaptive.routing.simulate import simulate
from eddyline.adaptive.routing.stream_star import StreamStar, skewed, stream_star
from eddyline.core.errors import JobError
from eddyline.engine.state_codec import decode, encode
from eddyline.expr.nodes import Expr
from eddyline.expr.predicates import Conjunction
from eddyline.operators.adaptive_select import AdaptiveSelect
from eddyline.testing.clock import ManualClock
from tests.expr.build import error_of
from tests.expr.test_predicates import builtin, predicate
from tests.semantics.engine import ROUTES
from tests.synopses.test_key_counts import Memory

NAMES = (*ROUTES, "known-classifier")


def routing(name: str) -> Routing:
    options = {"routing": name, "classifier": "kind"} if name == "known-classifier" else {"routing": name}
    found = Routing.of(options)
    assert found is not None
    return found


@settings(max_examples=120)
@given(st.data())
def test_answers_and_errors_are_those_of_the_written_order(data: st.DataObject) -> None:
    """Whatever the policy, the sub-batches, the batches and the kinds of conjuncts; a row function is asked about a row
    at most once, a pinned one about exactly the rows that survive what is written before, as they come."""
    n = data.draw(st.integers(2, 5))
    kinds = data.draw(st.lists(st.sampled_from(["row", "arrow", "builtin"]), min_size=n, max_size=n))
    rng = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    rows = data.draw(st.integers(0, 300))
    table = rng.choice(4, (rows, n), p=[0.3, 0.1, 0.5, 0.1])
    seen: list[tuple[int, Any]] = []

    def conjuncts(calls: list[tuple[int, Any]] | None) -> list[Expr]:
        return [builtin(i) if k == "builtin" else predicate(i, calls, k) for i, k in enumerate(kinds)]

    columns = {f"c{i}": pa.array(table[:, i]) for i in range(n)} | {"row": pa.array(np.arange(rows))}
    columns["kind"] = pa.array([None if i % 7 == 0 else f"k{i % 3}" for i in range(rows)], pa.string())
    pinned = frozenset(data.draw(st.sets(st.integers(0, n - 1))))
    name, size = data.draw(st.sampled_from(NAMES)), data.draw(st.sampled_from([None, 1, 3, 20]))
    keep, errors, start = [], {}, 0
    want = Conjunction(conjuncts(None)).evaluate(columns, rows)
    with patch.multiple(module, ROWS_BEFORE_ATTRIBUTES=data.draw(st.sampled_from([1, 30])), FIRST_ROWS=8, MAX_ROWS=16):
        eddy = Eddy(conjuncts(seen), routing(name), Pipeline(n, pinned), size=size)
        while start < rows:
            stop = min(rows, start + data.draw(st.sampled_from([1, 7, 60, 300])))
            got = eddy.evaluate({c: a.slice(start, stop - start) for c, a in columns.items()}, stop - start)
            keep += got.keep.tolist()
            errors |= {start + row: e for row, e in got.errors.items()}
            start = stop
            if data.draw(st.booleans()):
                memory = Memory()
                saved = decode(encode(eddy.state(), memory), memory)
                eddy = Eddy(conjuncts(seen), routing(name), Pipeline(n, pinned), size=size)
                eddy.load(saved)
    assert keep == want.keep.tolist() and error_of(errors) == error_of(want.errors)
    by_row = Counter(s for s in seen if kinds[s[0]] == "row")
    assert not by_row or max(by_row.values()) == 1
    for f in pinned:
        if kinds[f] == "row":
            survives = (table[:, :f] >= 2).all(1)
            assert [row for g, row in seen if g == f] == np.flatnonzero(survives).tolist()


def star_session(star: StreamStar, calls: Counter[int]) -> ed.Session:
    """Stream-Star as a stream, with its operators as functions. The clock stands still: all cost the same."""
    session = ed.Session(clock=ManualClock())
    columns = {name: star.classes[:, i] for i, name in enumerate(star.setting.attributes)}
    session.stream("S", pa.table({"ts": np.arange(len(star.passes)), **columns}), timestamp="ts")

    def operator(f: int) -> Callable[[pa.Array], pa.Array]:
        def ask(ts: pa.Array) -> pa.Array:
            calls[f] += len(ts)
            return pa.array(star.passes[ts.to_numpy(), f])

        return ask

    for f in range(star.passes.shape[1]):
        session.function(f"o{f + 1}", ed.predicate(operator(f), "ts", kind="arrow"))
    return session


def star_query(star: StreamStar) -> str:
    conjuncts = " AND ".join(f"o{f + 1}(ts)" for f in range(star.passes.shape[1]))
    return f"SELECT Istream(ts, {', '.join(star.setting.attributes)}) FROM S WHERE {conjuncts}"


STAR = stream_star(skewed(4, 0.10), tuples=30_000, seed=1)


def run(policy: str, **options: Any) -> tuple[Any, int]:
    calls: Counter[int] = Counter()
    query = star_session(STAR, calls).query(star_query(STAR), routing=policy, **options)
    assert query.to_arrow()["ts"].to_pylist() == np.flatnonzero(STAR.passes.all(1)).tolist()
    return query, calls.total()


@pytest.mark.parametrize("policy", ["sbr", "content-learns", "default"])
def test_a_query_asks_what_the_simulator_counts(policy: str) -> None:
    _, asked = run(policy)
    simulated = simulate(make_policy(policy, STAR.setting), STAR.passes, STAR.classes, batch=512).calls
    assert asked == pytest.approx(simulated, rel=0.02)


def test_content_saves_what_the_lottery_cannot_see() -> None:
    """The bound has the best order of every class from the first row on."""
    asked = {p: run(p)[1] for p in ("sbr", "content-learns", "default")}
    asked["known-classifier"] = run("known-classifier", classifier="attrC")[1]
    bound = simulate(best_by_class(STAR.setting, 0, STAR.passes, STAR.classes), STAR.passes, STAR.classes).calls
    assert bound < asked["known-classifier"] < 1.03 * bound
    assert asked["default"] < 1.06 * bound and asked["default"] < 0.65 * asked["sbr"]
    assert asked["content-learns"] < 0.75 * asked["sbr"]


def test_explain_and_statistics_show_classes_and_routes() -> None:
    query, asked = run("default")
    text = query.explain()
    assert "select 1: routed by the policy default, 30,000 rows in sub-batches of 512" in text
    assert "O1. o1(S.ts): passes " in text and ", by S.attrC\n" in text
    assert "    by S.attrC:" in text and "0: O1 → " in text and "3: O4 → " in text
    assert "S.ts (monotonic)" in text and "S.constant (constant)" in text
    assert "classifier kept" in text and "; measured 1." in text
    (found,) = query.statistics().values()
    assert sum(found["asked"]) == asked and found["classifiers"] == [["S.attrC"]] * 4
    table = found["by_class"]["S.attrC"]
    by_class = dict(zip(table["classes"], table["selectivity"], strict=True))
    matrix = np.array([by_class[str(c)] for c in range(4)], np.float64)
    assert np.abs(matrix - STAR.selectivity).max() < 0.12
    assert [route[0] for c, route in sorted(zip(table["classes"], table["routes"], strict=True))] == [0, 1, 2, 3]
    kinds = [d.kind for d in query.decisions]
    assert kinds[:2] == ["classifier", "classifier kept"]
    json.dumps([found, query.report()])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"routing": "content-lerns"}, "unknown routing policy 'content-lerns'. Did you mean 'content-learns'?"),
        ({"routing": 3}, "the option 'routing' is one of sbr, content-learns, default, known-classifier, not 3."),
        ({"routing": "sbr", "filters": "sweep"}, "not by both"),
        ({"routing": "sbr", "gamma": 0.1}, "unknown option 'gamma'"),
        ({"routing": "sbr(gamma=0.1)"}, "has no option 'gamma'"),
        ({"routing": "default(P=8)"}, "P.*8"),
        ({"routing": "default", "d": 1}, "from 2 to 4,096, not 1"),
        ({"routing": "default", "d": "many"}, "'d' is a whole number"),
        ({"routing": "known-classifier"}, "needs its classifier"),
        ({"routing": "known-classifier", "classifier": "attrX"}, "select 1 cannot route by 'attrX'"),
        ({"routing": "sbr", "classifier": "attrC"}, "finds its classifiers itself"),
        ({"classifier": "attrC"}, "unknown option 'classifier'"),
    ],
)
def test_mistakes_in_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(JobError, match=message):
        star_session(STAR, Counter()).query(star_query(STAR), **options)


def test_options_of_a_text_have_the_names_of_the_paper() -> None:
    query = star_session(STAR, Counter()).query(
        f"{star_query(STAR)} WITH (routing = 'content-learns', P = 0.2, R = 99, d = 12)"
    )
    query.to_arrow()
    (operator,) = [n.operator for n in query.running.physical.nodes if isinstance(n.operator, AdaptiveSelect)]
    policy = operator.conjunction.policy
    assert (policy.P, policy.R, policy.setting.d) == (0.2, 99, 12)


def test_strict_order_and_what_is_not_deterministic() -> None:
    session = star_session(STAR, Counter())
    strict = session.query(star_query(STAR), routing="default", strict_order=True)
    assert "as written: strict_order" in strict.explain()
    session.function("fickle", lambda ts: ts % 3 != 0, deterministic=False)
    alone = session.query("SELECT Istream(ts) FROM S WHERE fickle(ts) AND o1(ts)", routing="default")
    assert "no others are left to route" in alone.explain()
    walled = session.query("SELECT Istream(ts) FROM S WHERE o1(ts) AND o2(ts) AND fickle(ts)", routing="default")
    kept = STAR.passes[:, 0] & STAR.passes[:, 1] & (np.arange(len(STAR.passes)) % 3 != 0)
    assert walled.to_arrow()["ts"].to_pylist() == np.flatnonzero(kept).tolist()
    assert "keeps its place" in walled.explain()


def test_what_was_learned_survives_a_snapshot_and_a_pickle(tmp_path: Any) -> None:
    schema = pa.schema([("ts", pa.int64()), *((n, pa.int64()) for n in STAR.setting.attributes)])
    calls: list[Counter[int]] = [Counter(), Counter()]
    sessions, queries = [], []
    for count in calls:
        session = star_session(STAR, count)
        session.stream("T", schema=schema, timestamp="ts")
        sessions.append(session)
        queries.append(session.query(star_query(STAR).replace("FROM S", "FROM T"), routing="default"))
    rows = pa.table({"ts": np.arange(30_000), **{n: STAR.classes[:, i] for i, n in enumerate(STAR.setting.attributes)}})
    sessions[0].push("T", rows.slice(0, 10_000))
    first = queries[0].to_arrow()["ts"].to_pylist()
    sessions[0].snapshot(tmp_path)
    sessions[1].restore(tmp_path)
    sessions[1].push("T", rows.slice(10_000))
    sessions[1].finish()
    assert [*first, *queries[1].to_arrow()["ts"].to_pylist()] == np.flatnonzero(STAR.passes.all(1)).tolist()
    assert calls[1].total() < 1.30 * 20_000  # 1.24 at best, 2.1 where classes have to be learned
    eddy = Eddy([builtin(0), builtin(1)], routing("default"), Pipeline(2))
    columns = {"c0": pa.array([0, 2] * 300), "c1": pa.array([2] * 600)}
    want = eddy.evaluate(columns, 600).keep.tolist()
    copy = pickle.loads(pickle.dumps(eddy))
    assert copy.statistics()["asked"] == eddy.statistics()["asked"]
    assert copy.evaluate(columns, 600).keep.tolist() == want


@pytest.mark.parametrize("policy", ["default", "known-classifier"])
def test_memberships_are_routed_like_others(policy: str) -> None:
    """Each kind of row fails another membership: by windows that stay as they are after the first instant."""
    session = ed.Session(clock=ManualClock())
    rows = 6_000
    kind, value = np.arange(rows) % 2, np.arange(rows) // 2 % 10
    both = {"a": np.where(kind == 0, value, 0), "b": np.where(kind == 0, 0, value)}
    session.stream(
        "S", pa.table({"ts": np.arange(rows), "kind": pa.array(kind).cast(pa.string()), **both}), timestamp="ts"
    )
    session.stream("W", pa.table({"ts": [0, 0], "a": [0, 0]}), timestamp="ts")
    text = "SELECT ts, kind FROM S WHERE a IN (SELECT a FROM W [ROWS 2]) AND b IN (SELECT a FROM W [ROWS 2])"
    options = {"classifier": "kind"} if policy == "known-classifier" else {}
    query = session.query(text, routing=policy, **options)
    assert query.to_arrow()["ts"].to_pylist() == np.flatnonzero(value == 0).tolist()
    explain = query.explain()
    assert "O1. S.a IN (SELECT a FROM W [ROWS 2]): passes " in explain and "by S.kind:" in explain
    assert "0: O1 → O2" in explain and "1: O2 → O1" in explain
