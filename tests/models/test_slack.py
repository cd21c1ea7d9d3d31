"""Slack: how far models are from a result, and that tuples which are ignored for it could not have had one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.core.delta import Delta
from eddyline.cql import bind
from eddyline.expr.nodes import Call, Column, Expr, Literal
from eddyline.models.pieces import Pieces, Value
from eddyline.models.predicted import PredictedStore
from eddyline.models.program import Join, Map, Node, Restrict, Source, run
from eddyline.models.slack import measurable, slacks
from eddyline.operators import predictive_query
from eddyline.operators.predictive_query import PredictiveOperator
from eddyline.plan.logical import ModelQuery
from tests.models.models import random_pieces
from tests.models.test_predictions import FILTER, PAIRS, SCHEMA
from tests.scale import scaled

REAL = pa.float64()
X, Y = Column("a.x", REAL), Column("b.x", REAL)


def number(value: float) -> Expr:
    return Literal(value, REAL)


def call(function: str, *args: Expr) -> Expr:
    boolean = function in ("lt", "le", "gt", "ge", "eq", "and", "or", "not")
    return Call(function, args, pa.bool_() if boolean else REAL)


def with_limits(pieces: Pieces, limit: float) -> Pieces:
    values = {n: Value(v.c, error=np.full((len(pieces), 1), limit)) for n, v in pieces.values.items()}
    return pieces.with_columns(values, pieces.columns)


def one(*c: float, low: float = 0.0, high: float = 8.0) -> Pieces:
    t = np.array([low])
    values = {"a.x": Value(np.array([c]), error=np.array([[0.25]]))}
    return Pieces(t, np.array([high]), np.ones(1, np.uint8), t, values, {"a.k": pa.array([1])})


@pytest.mark.parametrize(
    ("condition", "since", "factor"),
    [
        (call("lt", X, number(1)), 0.0, 4.0),  # 10 − t comes as near as 2 − 1, four times its limit of 0.25
        (call("lt", X, number(3)), 0.0, 0.0),
        (call("gt", X, number(11)), 0.0, 4.0),
        (call("gt", X, number(11)), 4.0, 20.0),  # from t = 4 on it is 6
        # Of an unsatisfiable pair the violated row counts: least at 10 − t = 6, where both are violated by 5.
        (call("and", call("lt", X, number(1)), call("gt", X, number(11))), 0.0, 20.0),
        (call("or", call("lt", X, number(1)), call("gt", X, number(11))), 0.0, 4.0),
        (call("not", call("or", call("ge", X, number(1)), call("le", X, number(11)))), 0.0, 20.0),
        (call("and", call("lt", X, number(1)), call("gt", X, number(0))), 0.0, 4.0),  # a satisfied row adds nothing
        (call("eq", X, number(12)), 0.0, 8.0),
    ],
)
def test_the_least_violation_over_time(condition: Expr, since: float, factor: float) -> None:
    (found,) = slacks(Restrict(Source(0), (condition,)), [one(10.0, -1.0)], 1.0, since)
    assert found.tolist() == pytest.approx([factor], rel=1e-5)


def conditions(rng: np.random.Generator, depth: int = 2) -> Expr:
    if depth and rng.random() < 0.6:
        parts = [conditions(rng, depth - 1) for _ in range(2)]
        return call(str(rng.choice(["and", "or"])), *parts) if rng.random() < 0.8 else call("not", parts[0])
    gap, product = call("subtract", X, Y), call("multiply", X, Y)
    left = (X, gap, product, call("multiply", gap, gap), call("pow", X, Literal(3, pa.int64())))[rng.integers(5)]
    right = number(float(rng.normal() * 4)) if rng.random() < 0.8 else Y
    return call(str(rng.choice(["lt", "le", "gt", "ge"])), left, right)


def test_no_deviation_within_the_slack_makes_a_result() -> None:
    """Random systems; models are moved by as many limits as the slack says, up or down and by slopes."""
    held = long = 0
    many = scaled(60, 20)
    for case in range(many):
        rng = np.random.default_rng([11, case])
        limit = float(rng.choice([0.01, 0.1]))
        inputs = [with_limits(random_pieces(rng, a, 2, 4, 2, gaps=True), limit) for a in "ab"]
        join = Join(Source(0), Source(1), (), ())
        root: Node = Restrict(join, (conditions(rng), conditions(rng, 1)))
        if rng.random() < 0.3:
            root = Map(root, (("z", call("subtract", X, Y)), ("a.k", Column("a.k", pa.int64()))))
        assert measurable(root)
        found = slacks(root, inputs, 1.0, 0.0)
        for _ in range(6):
            moved = []
            for pieces, factor, name in zip(inputs, found, ("a.x", "b.x"), strict=True):
                c = pieces.values[name].c.copy()
                apart = limit * np.minimum(np.where(factor > 1.0, factor, 0.0), 1e6)
                width = np.maximum(pieces.high - pieces.base, 1e-9)
                start, end = (apart * rng.choice([-1.0, 1.0], len(c)) for _ in range(2))
                c = c if c.shape[1] > 1 else np.column_stack([c, np.zeros(len(c))])
                c[:, 0] += start
                c[:, 1] += (end - start) / width
                columns = {**pieces.columns, f"{name}n": pa.array(np.arange(len(c)))}
                moved.append(pieces.with_columns({name: Value(c)}, columns))
            result = run(root.input if isinstance(root, Map) else root, moved, 1.0)
            for name, factor in zip(("a.xn", "b.xn"), found, strict=True):
                assert not (factor[result.columns[name].to_numpy()] > 1.0).any(), case
        held += int(sum((f > 1.0).sum() for f in found))
        long += len(run(root.input if isinstance(root, Map) else root, inputs, 1.0))
    assert held > many and long > many


# ── tuples that are ignored ───────────────────────────────────────────────────────────────────────────────────────────


def operator(text: str) -> PredictiveOperator:
    session = ed.Session()
    session.stream("S", schema=SCHEMA, timestamp="ts")
    plan = bind(text, session.catalog).plan
    assert isinstance(plan, ModelQuery)
    scans: Any = plan.inputs
    arguments = [s.schema for s in scans], [s.alias for s in scans]
    return PredictiveOperator(
        "model-query 1", plan.schema, plan.program, plan.models, *arguments, plan.kind, plan.horizon
    )


def ships(rng: np.random.Generator, keys: str = "abcde", count: int = 60, spread: float = 60.0) -> list[dict[str, Any]]:
    """Objects that move on lines with turns and noise, far from each other and near, each seen now and then."""
    rows, at = [], {k: [float(rng.normal() * spread), float(rng.normal() * 0.5)] for k in keys}
    for t in range(count):
        for k in keys:
            at[k][0] += at[k][1]
            if rng.random() < 0.08:
                at[k][1] = float(rng.normal() * 0.7)
            if rng.random() < 0.5:
                rows.append({"ts": t, "id": k, "x": at[k][0] + float(rng.normal() * 0.1), "v": at[k][1]})
    return rows


def given(rows: list[dict[str, Any]], aliases: tuple[str, ...]) -> list[Delta]:
    table = pa.Table.from_pylist(rows, SCHEMA)
    time = table["ts"].to_numpy()
    return [Delta(time, {f"{a}.{n}": table[n].combine_chunks() for n in SCHEMA.names}) for a in aliases]


def position(store: PredictedStore, key: tuple[Any, ...], t: float) -> float | None:
    """Where a key is at t: by its last tuple if only slack has validated that, by its model elsewhere."""
    signal = store.signals[key]
    if t >= signal.end:
        return None
    start, (c,) = (
        (signal.start, signal.models) if signal.waiting is None else (signal.waiting.time, signal.waiting.models)
    )
    return c[0] + c[1] * (t - start)


def no_row(made: PredictiveOperator, text: str, now: int) -> int:
    """That no row of the query is near for keys which slack validates: how many pairs were looked at."""
    looked = 0
    stores = made.stores
    for t in np.arange(now, now + 25, 0.5).tolist():
        for a, own in stores[0].signals.items():
            x = position(stores[0], a, t)
            if x is None or t < own.start:
                continue
            if text == FILTER:
                if own.slack > 1.0:
                    assert x <= 3.0, (now, t, a)
                    looked += own.waiting is not None
                continue
            for b, other in stores[1].signals.items():
                y = position(stores[1], b, t)
                if y is not None and a < b and max(own.slack, other.slack) > 1.0:
                    assert (x - y) ** 2 >= 9.0, (now, t, a, b)
                    looked += own.waiting is not None or other.waiting is not None
    return looked


@pytest.mark.parametrize("text", [FILTER, PAIRS])
def test_tuples_that_slack_validates_could_not_have_had_a_result(text: str) -> None:
    looked = by_slack = 0
    many = scaled(4, 2)
    for case in range(many):
        rng = np.random.default_rng([len(text), case])
        made = operator(text.format("HORIZON 25 ERROR WITHIN 1.0"))
        rows = ships(rng)
        for t in sorted({r["ts"] for r in rows}):
            made.process(given([r for r in rows if r["ts"] == t], made.aliases), t)
            looked += no_row(made, text, t)
        by_slack += sum(s.by_slack for s in made.stores)
    assert looked > 50 * many and by_slack > 10 * many


def answered(text: str, rows: list[dict[str, Any]], size: int = 1000) -> tuple[list[dict[str, Any]], Any]:
    session = ed.Session()
    batches = pa.Table.from_pylist(rows, SCHEMA).to_batches(max_chunksize=size)
    session.stream("S", pa.Table.from_batches(batches, SCHEMA), timestamp="ts")
    query = session.query(text)
    return query.to_arrow().to_pylist(), query


def test_validation_alternates_and_saves_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ship far off that tacks about: its turns matter to nobody. When it comes near they do."""
    rows = []
    for t in range(200):
        rows.append({"ts": t, "id": "a", "x": 0.0, "v": 0.0})
        x, v = (100.0, 0.0) if t < 100 else (100.0 - 1.5 * (t - 100), -1.5)
        rows.append({"ts": t, "id": "b", "x": x + 3.0 * np.sin(t / 3), "v": v + np.cos(t / 3)})
    text = PAIRS.format("HORIZON 10 ERROR WITHIN 1.0")
    found, query = answered(text, rows)
    counts = query.statistics()["model-query 1"]
    turns = [d for d in query.decisions if d.kind == "validation"]
    assert {(d.before, d.after) for d in turns} == {("accuracy", "slack"), ("slack", "accuracy")}
    assert turns[0].reason.startswith("no result depends on ")
    assert counts["b: validated by slack"] > 50
    assert "keys validated by accuracy" in query.explain()
    monkeypatch.setattr(predictive_query, "measurable", lambda root: False)
    accurate, alone = answered(text, rows)
    assert counts["runs"] < 0.7 * alone.statistics()["model-query 1"]["runs"]
    # The first warning is not a tick later than by accuracy alone.
    assert min(r["_time"] for r in found) <= min(r["_time"] for r in accurate)


def test_batches_and_snapshots_do_not_show(tmp_path: Path) -> None:
    rows = ships(np.random.default_rng(8), spread=600.0)
    for clause in ("HORIZON 25 ERROR WITHIN 1.0", "HORIZON 25 ERROR WITHIN 1.0 SPLIT GRADIENT"):
        text = PAIRS.format(clause)
        whole, first = answered(text, rows)
        pieces, second = answered(text, rows, 7)
        key = lambda r: (r["_time"], r["_sign"], str(r))  # noqa: E731
        assert sorted(whole, key=key) == sorted(pieces, key=key)
        assert first.statistics()["model-query 1"] == second.statistics()["model-query 1"]
        assert first.statistics()["model-query 1"]["a: validated by slack"] > 20

        def started() -> tuple[ed.Session, Any]:
            session = ed.Session()
            batches = pa.Table.from_pylist(rows, SCHEMA).to_batches(max_chunksize=7)
            session.stream("S", pa.Table.from_batches(batches, SCHEMA).to_batches(), timestamp="ts")
            return session, session.query(text)  # noqa: B023

        session, query = started()
        for _ in range(10):
            session.step()
        got = [r for b in query.fetch() for r in pa.Table.from_batches([b]).to_pylist()]
        folder = tmp_path / clause[-8:]
        session.snapshot(folder)
        session, query = started()
        session.restore(folder)
        assert sorted(got + query.to_arrow().to_pylist(), key=key) == sorted(whole, key=key)


def test_the_gradient_split_of_declared_models_follows_their_derivatives() -> None:
    """x moves and v stands still: x gets nearly all of the bound."""
    rows = [{"ts": t, "id": "a", "x": 5.0 * (t % 3), "v": 1.0} for t in range(200)]
    text = "SELECT id, x - v AS z FROM S MODEL S.x = S.x + S.v * t, S.v = S.v ERROR WITHIN 0.5 {} SAMPLE EVERY 2 "
    _, even = answered(text.format("") + "HORIZON 6 PREDICT", rows)
    _, query = answered(text.format("SPLIT GRADIENT") + "HORIZON 6 PREDICT", rows)
    assert not [d for d in even.decisions if d.kind == "input bounds"]
    (decision,) = [d for d in query.decisions if d.kind == "input bounds"]
    ((x, v),) = decision.after
    assert x + v == pytest.approx(0.5) and x == pytest.approx(32 * v)
    assert decision.reason == "the split gradient follows how attributes move in a unit of time: S.x by 1, S.v by 0"
