"""Query inversion: lineage with translations and inferences, Lipschitz constants, and bounds that follow the values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.core.catalog import Attribute
from eddyline.cql import bind
from eddyline.expr.nodes import Call, Column, Expr, Literal
from eddyline.models.fitting import ErrorBound
from eddyline.models.gradients import Gradients
from eddyline.models.inversion import Lineage, inverted, lineage
from eddyline.models.pieces import Pieces
from eddyline.models.program import Join, Map, Node, Restrict, Source, run
from eddyline.plan.logical import ModelQuery
from tests.models.models import random_pieces

SCHEMA = pa.schema(
    [("ts", pa.int64()), ("k", pa.string()), ("a", pa.float64()), ("b", pa.float64()), ("d", pa.float64())]
)


def planned(text: str, **splits: Any) -> ModelQuery:
    session = ed.Session()
    for name, split in splits.items():
        session.split(name, split)
    for name in ("R", "S"):
        session.stream(name, schema=SCHEMA, timestamp="ts")
    plan = bind(text, session.catalog).plan
    assert isinstance(plan, ModelQuery)
    return plan


def traced(text: str) -> Lineage:
    plan = planned(text)
    names = {
        i: {f"{s.alias}.{n}": n for n in m.degrees}
        for i, (s, m) in enumerate(zip(plan.inputs, plan.models, strict=True))
    }  # type: ignore[union-attr]
    return lineage(plan.program.root, names, {}, plan.program.scale)


def test_translations_follow_aliases_and_inferences_follow_conditions() -> None:
    # The paper's example (2.6.2), with a key that the join hashes.
    found = traced("SELECT R.k, R.a, R.b AS x, S.d FROM R, S WHERE R.k = S.k AND R.a < S.d ERROR WITHIN 1")
    assert found.inferences == {(0, "a"), (1, "d")}
    assert found.columns["x"].constants == {(0, "b"): 1.0}
    assert found.dependencies("x") == {(0, "b"), (0, "a"), (1, "d")}
    plan = planned("SELECT R.k, R.a, R.b AS x, S.d FROM R, S WHERE R.k = S.k AND R.a < S.d ERROR WITHIN 1")
    (r, s) = plan.models
    # a: result a depends on a and d (1/2), result x on three (1/3): the least counts.
    assert dict(zip(r.values, (b.amount for b in r.bounds), strict=True)) == pytest.approx({"a": 1 / 3, "b": 1 / 3})  # type: ignore[union-attr]
    assert [b.amount for b in s.bounds] == pytest.approx([1 / 3])  # type: ignore[union-attr]


def weighted(result: str, attributes: Mapping[Attribute, float]) -> dict[Attribute, float]:
    weights = {a: 3.0 if a[1] == "a" else 1.0 for a in attributes}
    return {a: w / sum(weights.values()) for a, w in weights.items()}


def test_a_function_of_ones_own_divides_the_bound() -> None:
    text = "SELECT R.k, R.a - 2 * S.d AS gap FROM R, S WHERE R.k = S.k ERROR WITHIN 1 {}"
    (r, s), (even, other) = (
        planned(text.format("SPLIT weighted"), weighted=weighted).models,
        planned(text.format("")).models,
    )
    assert [r.bounds[0].amount, s.bounds[0].amount] == pytest.approx([3 / 4, 1 / 8])  # type: ignore[union-attr]
    assert [even.bounds[0].amount, other.bounds[0].amount] == pytest.approx([1 / 2, 1 / 4])  # type: ignore[union-attr]
    session = ed.Session()
    rows = [{"ts": t, "k": "u", "a": np.sin(t / 5), "b": 0.0, "d": np.cos(t / 9)} for t in range(300)]
    session.split("weighted", weighted)
    for name in ("R", "S"):
        session.stream(name, pa.Table.from_pylist(rows, SCHEMA), timestamp="ts")
    query = session.query(text.format("SPLIT weighted SAMPLE EVERY 1"))
    assert "fit R.a within 0.75, S.d within 0.125" in query.explain()
    found = {r["_time"]: r for r in query.to_arrow().to_pylist() if not r["_uncertain"]}
    assert len(found) > 250
    assert all(abs(found[r["ts"]]["gap"] - (r["a"] - 2 * r["d"])) <= 1 for r in rows if r["ts"] in found)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (lambda result, attributes: dict.fromkeys(attributes, 0.9), "gave shares of 1.8 of the bound of 'gap'"),
        (lambda result, attributes: {}, "a share above 0 and at most 1, and gave {} for 'gap'"),
        (lambda result, attributes: dict.fromkeys(attributes, 0.0), "a share above 0"),
        (lambda result, attributes: [0.5, 0.5], "gives a share for each attribute, as a dictionary"),
        (lambda attributes: {}, "'mine' failed for 'gap': TypeError: .* with the name of a result and its attributes"),
    ],
)
def test_shares_that_are_none_are_refused(given: Any, told: str) -> None:
    with pytest.raises(ed.JobError, match=told):
        planned("SELECT R.k, R.a - S.d AS gap FROM R, S WHERE R.k = S.k ERROR WITHIN 1 SPLIT mine", mine=given)


def test_a_split_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ed.CqlError, match=r"'thirds' is none: there are equi, gradient; session.split\("):
        planned("SELECT k, a FROM R ERROR WITHIN 1 SPLIT thirds")
    with pytest.raises(ed.CqlError, match=r"'gradiant' is none.*Did you mean 'gradient'"):
        planned("SELECT k, a FROM R ERROR WITHIN 1 SPLIT gradiant")
    with pytest.raises(
        ed.CqlError, match="expected EQUI, GRADIENT or the name of a split function, but found 'SAMPLE'"
    ):
        planned("SELECT k, a FROM R ERROR WITHIN 1 SPLIT SAMPLE EVERY 2")
    for name, given, told in (("equi", weighted, "is built in"), ("f", 3, "must be callable"), ("", weighted, "name")):
        with pytest.raises(ed.JobError, match=told):
            ed.Session().split(name, given)  # type: ignore[arg-type]


def moving(count: int = 6000) -> list[dict[str, Any]]:
    """Two signals: a moves ten times as fast as d, then d ten times as fast as a."""
    quick, slow = (np.sin(np.arange(count) * w) for w in (0.05, 0.005))
    half = count // 2
    a, d = (np.r_[x[:half], y[half:]] for x, y in ((quick, slow), (slow, quick)))
    rows = zip(a.tolist(), d.tolist(), strict=True)
    return [{"ts": t, "k": "u", "a": x, "b": 0.0, "d": y} for t, (x, y) in enumerate(rows)]


def test_the_gradient_split_follows_how_fast_attributes_move() -> None:
    rows, decided, segments = moving(), {}, {}
    for split, size in (("EQUI", 9000), ("GRADIENT", 9000), ("gradient", 61)):
        session = ed.Session()
        batches = pa.Table.from_pylist(rows, SCHEMA).to_batches(max_chunksize=size)
        session.stream("R", pa.Table.from_batches(batches, SCHEMA), timestamp="ts")
        text = f"SELECT k, a - d AS gap FROM R ERROR WITHIN 0.1 SPLIT {split} SAMPLE EVERY 1"
        query = session.query(text, models="always")
        for r in query.to_arrow().to_pylist():
            row = rows[r["_time"]]
            assert abs(r["gap"] - (row["a"] - row["d"])) <= 0.1 + 1e-9
        decided[split] = [d for d in query.decisions if d.kind == "input bounds"]
        segments[split] = query.statistics()["model-query 1"]["segments solved"]
    assert not decided["EQUI"] and segments["GRADIENT"] < segments["EQUI"]
    first, *_, last = decided["GRADIENT"]
    assert first.reason.startswith("the split gradient follows how attributes move in a unit of time: R.a by ")
    (a, d), (late_a, late_d) = ([float(b) for b in of.after[0]] for of in (first, last))
    assert a > 5 * d and late_d > 5 * late_a and a + d == pytest.approx(0.1) == late_a + late_d
    assert [(x.time, x.after) for x in decided["GRADIENT"]] == [(x.time, x.after) for x in decided["gradient"]]


def test_gradients_do_not_show_how_samples_were_cut() -> None:
    rng = np.random.default_rng(2)
    code, time = rng.integers(0, 5, 4000), np.sort(rng.integers(0, 3000, 4000))
    values = np.cumsum(rng.normal(size=(4000, 2)), axis=0)
    found = []
    for cuts in ([], sorted(rng.integers(0, 4000, 60).tolist())):
        gradients = Gradients({0: ("x", "y")}, 1.0)
        reviews = []
        for part in np.split(np.arange(4000), cuts):
            reviews += gradients.observe({0: (code[part], time[part], values[part])})
        found.append((reviews, gradients.means()))
    assert found[0] == found[1] and len(found[0][0]) > 4
    restored = Gradients({0: ("x", "y")}, 1.0)
    restored.load(json.loads(json.dumps(gradients.state())))
    assert restored.means() == gradients.means() and restored.state() == gradients.state()


@pytest.mark.parametrize(
    ("expression", "constants"),
    [
        ("2 * a - b", {"a": 2.0, "b": 1.0}),
        ("(a + b) / 4", {"a": 0.25, "b": 0.25}),
        ("a - 3", {"a": 1.0}),
        ("sqrt(a * a + b * b)", {"a": 1.0, "b": 1.0}),
        ("sqrt((a - b) * (a - b) + d * d)", {"a": 1.0, "b": 1.0, "d": 1.0}),
    ],
)
def test_lipschitz_constants(expression: str, constants: dict[str, float]) -> None:
    found = traced(f"SELECT k, {expression} AS r FROM R ERROR WITHIN 1 SAMPLE EVERY 1")
    assert found.columns["r"].constants == {(0, n): c for n, c in constants.items()}


def test_a_perturbation_within_the_inverted_bounds_moves_a_result_by_no_more_than_its_bound() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        sizes = {"a": float(rng.uniform(0.1, 9)), "b": float(rng.uniform(0.1, 9))}
        plan = planned("SELECT k, 2 * a * b - b AS r FROM R ERROR WITHIN 0.01 SAMPLE EVERY 1")
        names = {0: {"R.a": "a", "R.b": "b"}}
        known = lineage(plan.program.root, names, {(0, n): 1.125 * s for n, s in sizes.items()}, 1.0)
        limits = inverted(known, ("r",), ErrorBound(0.01))
        a, b = (rng.uniform(-s, s) for s in sizes.values())
        da, db = (limits[0, n].amount * rng.choice([-1, 1]) for n in "ab")
        moved = (2 * (a + da) * (b + db) - (b + db)) - (2 * a * b - b)
        assert abs(moved) <= 0.01


def test_bounds_follow_the_values_and_are_decisions() -> None:
    session = ed.Session()
    wave = [(1 + t // 200) * np.sin(t / 20) for t in range(600)]
    rows = [{"ts": t, "k": "u", "a": a, "b": 3.0 - a, "d": 0.0} for t, a in enumerate(wave)]
    session.stream("R", pa.Table.from_pylist(rows, SCHEMA), timestamp="ts")
    query = session.query("SELECT k, a * b AS p FROM R ERROR WITHIN 0.5 SAMPLE EVERY 1")
    found = {r["_time"]: r for r in query.to_arrow().to_pylist()}
    truth = {r["ts"]: r["a"] * r["b"] for r in rows}
    certain = [t for t, r in found.items() if not r["_uncertain"]]
    assert len(certain) > 0.9 * len(rows)
    assert max(abs(found[t]["p"] - truth[t]) for t in certain) <= 0.5
    decisions = [d for d in query.decisions if d.kind == "input bounds"]
    assert [d.time for d in decisions] == sorted(d.time for d in decisions) and len(decisions) >= 3
    assert decisions[-1].reason == "the Lipschitz constants grow with the values: R.a ≤ 4, R.b ≤ 8"


# ── the two properties that inversion rests on ────────────────────────────────────────────────────────────────────────


def test_a_pinned_query_keeps_the_bounds_of_its_samples() -> None:
    rows = [{"ts": t, "k": "a", "x": float(1 + t // 20), "y": 1.0} for t in range(200)]
    for pinned in (False, True):
        session = ed.Session()
        session.stream("S", rows, timestamp="ts")
        text = "SELECT k, x * y AS p FROM S ERROR WITHIN 1 SAMPLE EVERY 7"
        query = session.query(text, models="always", pinned=pinned)
        assert len(query.to_arrow()) == 29
        found = [d for d in query.decisions if d.kind == "input bounds"]
        assert len(found) > 2 and all(d.applied != pinned for d in found)
        assert len({str(d.before) for d in found}) == (1 if pinned else len(found))


def test_results_are_subranges_of_the_segments_that_caused_them_and_keys_determine_values() -> None:
    seen = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        left, right = (numbered(random_pieces(rng, a, 3, 8, 2, gaps=True), a) for a in ("a", "b"))
        x, y = Column("a.x", pa.float64()), Column("b.x", pa.float64())
        for node in (
            Restrict(Source(0), (compare("gt", x, Literal(0.5, pa.float64())),)),
            Map(Join(Source(0), Source(1), (("a.k", "b.k"),), (compare("lt", x, y),)), items()),
            Join(Source(0), Source(1), (), (compare("lt", x, y), compare("gt", x, Literal(-1.0, pa.float64())))),
        ):
            seen += check(node, left, right)
    assert seen > 300


def numbered(pieces: Pieces, alias: str) -> Pieces:
    return pieces.with_columns(pieces.values, {**pieces.columns, f"{alias}.n": pa.array(np.arange(len(pieces)))})


def compare(function: str, a: Expr, b: Expr) -> Expr:
    return Call(function, (a, b), pa.bool_())


def items() -> tuple[tuple[str, Expr], ...]:
    real, whole = pa.float64(), pa.int64()
    gap = Call("subtract", (Column("a.x", real), Column("b.x", real)), real)
    return ("gap", gap), *((n, Column(n, whole)) for n in ("a.k", "b.k", "a.n", "b.n"))


def check(node: Node, left: Pieces, right: Pieces) -> int:
    found = run(node, [left, right], 1.0)
    for source, name in ((left, "a.n"), (right, "b.n")):
        if name in found.columns:
            cause = found.columns[name].to_numpy()
            assert (found.low >= source.low[cause]).all() and (found.high <= source.high[cause]).all()  # Property 1
    keys = [found.columns[n].to_numpy() for n in ("a.k", "b.k") if n in found.columns]
    order = np.lexsort((found.low, *keys))
    same = np.all([k[order][1:] == k[order][:-1] for k in keys], axis=0)
    after, before = found.low[order][1:], found.high[order][:-1]
    assert (after[same] >= before[same]).all()  # Property 2: at an instant a key has one value
    return len(found)
