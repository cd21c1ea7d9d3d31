"""Operators on models against their meaning at single instants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline.expr.nodes import Call, Column, Expr, Literal
from eddyline.models.arithmetic import NotPolynomial, Shape, shape_of
from eddyline.models.pieces import Grid, Pieces
from eddyline.models.program import Aggregate, Join, Map, Restrict, Source, run
from eddyline.models.solving import solutions
from tests.models.models import random_pieces, rows_at

DOUBLE = pa.float64()
X, Y = Column("S.x", DOUBLE), Column("S.y", DOUBLE)
COMPARE = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "ne": lambda a, b: a != b,
}


def call(function: str, *args: Any) -> Call:
    wrapped = tuple(a if isinstance(a, Expr) else Literal(a, DOUBLE) for a in args)
    return Call(function, wrapped, DOUBLE)


def instants(p: Pieces, rng: np.random.Generator, many: int = 60) -> list[float]:
    return [float(t) for t in rng.uniform(p.low.min() - 3, p.high.max() + 3, many)]


def value(e: Expr, row: dict[str, Any]) -> Any:
    """The row-wise reference of an expression."""
    if isinstance(e, Column):
        return row[e.name]
    if isinstance(e, Literal):
        return e.value
    assert isinstance(e, Call)
    a = [value(x, row) for x in e.args]
    match e.function:
        case "and":
            return all(a)
        case "or":
            return any(a)
        case "not":
            return not a[0]
        case "add":
            return a[0] + a[1]
        case "subtract":
            return a[0] - a[1]
        case "multiply":
            return a[0] * a[1]
        case "divide":
            return a[0] / a[1]
        case "negate":
            return -a[0]
        case "pow":
            return a[0] ** a[1]
        case "sqrt":
            return np.sqrt(a[0])
        case _:
            return COMPARE[e.function](a[0], a[1])


def close(a: Any, b: Any) -> bool:
    return bool(np.isclose(a, b, rtol=1e-7, atol=1e-7))


def same_rows(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> bool:
    def key(row: dict[str, Any]) -> list[Any]:
        return [row[n] if not isinstance(row[n], float) else round(row[n], 4) for n in sorted(row)]

    found, wanted = sorted(found, key=key), sorted(wanted, key=key)
    return len(found) == len(wanted) and all(
        a.keys() == b.keys() and all(close(a[n], b[n]) for n in a) for a, b in zip(found, wanted, strict=True)
    )


def random_condition(rng: np.random.Generator, deep: int = 2) -> Expr:
    if deep and rng.random() < 0.6:
        function = str(rng.choice(["and", "or", "not"]))
        parts = 1 if function == "not" else 2
        return Call(function, tuple(random_condition(rng, deep - 1) for _ in range(parts)), pa.bool_())
    function = str(rng.choice(list(COMPARE)))
    left = [X, Y, call("subtract", X, Y), call("multiply", X, Y), call("pow", X, 2.0)][rng.integers(5)]
    if rng.random() < 0.2:
        left = call("sqrt", call("add", call("pow", X, 2.0), call("pow", Y, 2.0)))
    right = [Literal(float(rng.normal()), DOUBLE), Y, call("add", X, 1.5)][rng.integers(3)]
    return call(function, left, right) if rng.random() < 0.5 else call(function, right, left)


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 4])
def test_filters_hold_exactly_where_the_condition_does(degree: int) -> None:
    rng = np.random.default_rng(degree)
    kept = dropped = 0
    for _ in range(25):
        p = random_pieces(rng, "S", 2, 8, degree, gaps=True)
        condition = random_condition(rng)
        found = run(Restrict(Source(0), (condition,)), [p], 1.0)
        for t in instants(p, rng):
            wanted = [r for r in rows_at(p, t) if value(condition, r)]
            assert same_rows(rows_at(found, t), wanted), (condition, t)
            kept += len(wanted)
            dropped += len(rows_at(p, t)) - len(wanted)
    assert kept > 500
    assert dropped > 500


def test_equality_gives_points_and_vanishing_stretches() -> None:
    rng = np.random.default_rng(3)
    p = random_pieces(rng, "S", 3, 30, 3, gaps=False)
    found = solutions(call("eq", X, Y), p, 1.0)
    assert (found.low == found.high).all()
    assert (found.closed == 3).all()
    assert len(found.row) > 20
    rows = p.take(found.row)
    x = found.low - rows.base
    assert np.abs(rows.values["S.x"].at(x) - rows.values["S.y"].at(x)).max() < 1e-9
    # As many points as there are changes of sign on a dense grid, at least.
    changes = 0
    for i in range(len(p)):
        grid = np.linspace(p.low[i], p.high[i], 400)
        one = p.take(np.full(400, i))
        d = one.values["S.x"].at(grid - p.base[i]) - one.values["S.y"].at(grid - p.base[i])
        changes += int((np.sign(d[1:]) != np.sign(d[:-1])).sum())
    assert changes <= len(found.row) <= changes + 3
    same = solutions(call("eq", X, call("add", X, 0.0)), p, 1.0)
    assert np.array_equal(same.low, p.low)
    assert np.array_equal(same.high, p.high)


def test_a_touching_point_is_excluded_by_strict_comparisons_only() -> None:
    one = random_pieces(np.random.default_rng(0), "S", 1, 1, 2, gaps=False)
    low, high = float(one.low[0]), float(one.high[0])
    middle = low + (high - low) / 4
    t = middle - float(one.base[0])
    square = call("pow", call("subtract", Y, t), 2.0)  # (t − middle)², where y is t
    from eddyline.models.pieces import Value

    p = one.with_columns({"S.y": Value(np.array([[0.0, 1.0]]))}, one.columns)
    assert len(solutions(call("gt", square, 0.0), p, 1.0).row) == 2
    assert len(solutions(call("ge", square, 0.0), p, 1.0).row) == 1
    assert solutions(call("le", square, 0.0), p, 1.0).low == pytest.approx([middle])
    assert len(solutions(call("lt", square, 0.0), p, 1.0).row) == 0


def test_maps_are_polynomial_arithmetic() -> None:
    rng = np.random.default_rng(4)
    expressions: list[Expr] = [
        call("add", X, Y), call("subtract", call("multiply", X, 2.0), Y), call("multiply", X, call("multiply", Y, X)),
        call("divide", X, 4.0), call("negate", X), call("pow", call("add", X, 1.0), 3.0),
        call("sqrt", call("add", call("pow", X, 2.0), 1.0)),
    ]  # fmt: skip
    p = random_pieces(rng, "S", 2, 10, 2, gaps=False)
    found = run(Map(Source(0), tuple((str(i), e) for i, e in enumerate(expressions))), [p], 1.0)
    for t in instants(p, rng):
        for row, given in zip(rows_at(found, t), rows_at(p, t), strict=True):
            assert all(close(row[str(i)], value(e, given)) for i, e in enumerate(expressions))


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("comparison", ["lt", "ge", "ne", None])
def test_joins_meet_at_an_instant(keyed: bool, comparison: str | None) -> None:
    rng = np.random.default_rng(5)
    pairs = 0
    for _ in range(10):
        a, b = random_pieces(rng, "S", 3, 8, 2, gaps=True), random_pieces(rng, "R", 3, 8, 1, gaps=True)
        condition = () if comparison is None else (call(comparison, X, Column("R.x", DOUBLE)),)
        node = Join(Source(0), Source(1), (("S.k", "R.k"),) if keyed else (), condition)
        found = run(node, [a, b], 1.0)
        for t in instants(a, rng):
            wanted = [
                {**r, **s}
                for r in rows_at(a, t)
                for s in rows_at(b, t)
                if (not keyed or r["S.k"] == s["R.k"]) and all(value(c, {**r, **s}) for c in condition)
            ]
            assert same_rows(rows_at(found, t), wanted)
            pairs += len(wanted)
    assert pairs > 300


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("kind", ["integers", "texts", "other texts", "real numbers"])
@pytest.mark.parametrize("comparison", [*COMPARE, "eq"])
def test_joins_compare_keys(comparison: str, kind: str, turned: bool) -> None:
    """Columns of both sides are compared inside the join. Pieces touch each other with any closedness, some are points,
    and a column that is NULL compares with nothing."""
    rng = np.random.default_rng(6)
    compare = {**COMPARE, "eq": lambda a, b: a == b}[comparison]
    pairs = 0
    for _ in range(5):
        a = with_ids(rng, touching(rng, "S"), "S", kind)
        b = with_ids(rng, touching(rng, "R"), "R", kind)
        if kind == "texts":  # a self-join: both sides are the same rows
            b = renamed(a, "S.", "R.")
        columns = [Column("R.id", b.columns["R.id"].type), Column("S.id", a.columns["S.id"].type)]
        condition = Call(comparison, tuple(columns if turned else columns[::-1]), pa.bool_())
        keys = () if kind == "texts" else (("S.k", "R.k"),)
        found = run(Join(Source(0), Source(1), keys, (condition,)), [a, b], 1.0)
        ends = np.unique(np.concatenate([a.low, a.high, b.low, b.high]))
        for t in [*ends.tolist(), *(ends + 0.5).tolist()]:
            both = [{**r, **s} for r in rows_at(a, t) for s in rows_at(b, t) if not keys or r["S.k"] == s["R.k"]]
            both = [r for r in both if r["S.id"] is not None and r["R.id"] is not None]
            wanted = [r for r in both if compare(*(r[f"{n}.id"] for n in ("RS" if turned else "SR")))]
            shown = ["S.k", "R.k", "S.x", "R.x"]
            assert same_rows([{n: r[n] for n in shown} for r in rows_at(found, t)],
                             [{n: r[n] for n in shown} for r in wanted])  # fmt: skip
            pairs += len(wanted)
    assert pairs > 50


def touching(rng: np.random.Generator, alias: str) -> Pieces:
    p = random_pieces(rng, alias, 3, 12, 1, gaps=False)
    high = np.where(rng.random(len(p)) < 0.2, p.low, p.high)
    closed = np.where(high == p.low, 3, rng.integers(0, 4, len(p))).astype(np.uint8)
    return Pieces(p.low, high, closed, p.base, p.values, p.columns)


def with_ids(rng: np.random.Generator, p: Pieces, alias: str, kind: str) -> Pieces:
    ids: list[Any] = rng.integers(-3, 4, len(p)).tolist()
    if kind != "integers":
        ids = [f"é{i}" if i % 2 else str(i) for i in ids] if "texts" in kind else [i / 2 for i in ids]
    ids = [None if rng.random() < 0.1 else i for i in ids]
    return p.with_columns(p.values, {**p.columns, f"{alias}.id": pa.array(ids)})


def renamed(p: Pieces, before: str, after: str) -> Pieces:
    values = {n.replace(before, after): v for n, v in p.values.items()}
    return p.with_columns(values, {n.replace(before, after): c for n, c in p.columns.items()})


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
@pytest.mark.parametrize("function", ["min", "max"])
def test_envelopes_over_keys(degree: int, function: str) -> None:
    rng = np.random.default_rng(6)
    for _ in range(8):
        p = random_pieces(rng, "S", 5, 10, degree, gaps=True)
        found = run(Aggregate(Source(0), (), (("m", function, X),), 0, False, ("S.k",)), [p], 1.0)
        for t in instants(p, rng):
            xs = [r["S.x"] for r in rows_at(p, t)]
            wanted = [{"m": (min if function == "min" else max)(xs)}] if xs else []
            assert same_rows(rows_at(found, t), wanted)


def dense(p: Pieces, k: int, low: float, high: float, many: int = 4000) -> Any:
    """x of one key at many instants of (low, high], NaN where it is not defined."""
    ts = low + (np.arange(many) + 0.5) / many * (high - low)
    out = np.full(many, np.nan)
    for i in np.flatnonzero(p.columns["S.k"].to_numpy() == k):
        inside = (ts >= p.low[i]) & (ts < p.high[i])
        one = p.take(np.full(int(inside.sum()), i))
        out[inside] = one.values["S.x"].at(ts[inside] - p.base[i])
    return out


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("function", ["min", "max", "sum", "avg"])
def test_windows_slide_over_time(function: str, partial: bool) -> None:
    rng = np.random.default_rng(7)
    counted = 0
    for width in (1, 7, 30):
        p = random_pieces(rng, "S", 2, 12, 2, gaps=True)
        key = Column("S.k", pa.int64())
        node = Aggregate(Source(0), (("k", key),), (("v", function, X),), width, partial)
        found = run(node, [p], 1.0)
        assert (found.high > found.low).all()
        for t in instants(p, rng, 40):
            rows = {r["k"]: r["v"] for r in rows_at(found, t)}
            for k in range(2):
                xs = dense(p, k, t - width, t)
                held = ~np.isnan(xs)
                if not held.all() and not (partial and held.any()):
                    if held.mean() < 0.999:  # a gap narrower than the grid may hide
                        assert k not in rows or partial
                    continue
                if k not in rows:
                    assert held.mean() > 0.999 or held.mean() < 0.001
                    continue
                spread = float(np.nanmax(xs) - np.nanmin(xs)) + 0.1
                wanted = {
                    "min": np.nanmin(xs), "max": np.nanmax(xs), "avg": np.nanmean(xs),
                    "sum": np.nanmean(xs) * width * held.mean(),
                }[function]  # fmt: skip
                assert rows[k] == pytest.approx(wanted, abs=0.02 * spread * (width if function == "sum" else 1))
                counted += 1
    assert counted > 60


@pytest.mark.parametrize("width", [0, 7])
@pytest.mark.parametrize("function", ["min", "max"])
def test_the_extreme_of_roots_is_the_root_of_the_extreme(function: str, width: int) -> None:
    square = call("add", call("pow", X, 2.0), call("pow", Y, 2.0))
    rng = np.random.default_rng(11)
    groups = () if width == 0 else (("k", Column("S.k", pa.int64())),)
    counted = 0
    for degree in (1, 2):
        p = random_pieces(rng, "S", 4, 12, degree, gaps=True)
        roots, squares = (
            run(Aggregate(Source(0), groups, (("m", function, e),), width, False, ("S.k",)), [p], 1.0)
            for e in (call("sqrt", square), square)
        )
        for t in instants(p, rng):
            wanted = [{**r, "m": r["m"] ** 0.5} for r in rows_at(squares, t)]
            assert same_rows(rows_at(roots, t), wanted)
            if width == 0:
                values = [value(call("sqrt", square), r) for r in rows_at(p, t)]
                assert same_rows(wanted, [{"m": (min if function == "min" else max)(values)}] if values else [])
            counted += len(wanted)
    assert counted > 60


def test_several_aggregates_share_their_windows() -> None:
    rng = np.random.default_rng(8)
    p = random_pieces(rng, "S", 2, 12, 1, gaps=False)
    key = Column("S.k", pa.int64())
    both = run(Aggregate(Source(0), (("k", key),), (("a", "min", X), ("b", "avg", Y)), 5, False), [p], 1.0)
    a = run(Aggregate(Source(0), (("k", key),), (("a", "min", X),), 5, False), [p], 1.0)
    b = run(Aggregate(Source(0), (("k", key),), (("b", "avg", Y),), 5, False), [p], 1.0)
    for t in instants(p, rng):
        wanted = [{**r, **s} for r in rows_at(a, t) for s in rows_at(b, t) if r["k"] == s["k"]]
        assert same_rows(rows_at(both, t), wanted)


@pytest.mark.parametrize("step", [1, 7, 20])
def test_of_a_grid_the_same_rows_hold_at_its_instants(step: int) -> None:
    rng = np.random.default_rng(step)
    dropped = rows = 0
    key, other = Column("S.k", pa.int64()), Column("R.x", DOUBLE)
    for degree in (1, 2, 3):
        p = random_pieces(rng, "S", 3, 12, degree, gaps=True)
        q = renamed(random_pieces(rng, "S", 3, 12, degree, gaps=True), "S.", "R.")
        lows = Aggregate(Source(0), (("S.k", key),), (("S.x", "min", X),), 5, False)
        nodes = [
            Restrict(Source(0), (random_condition(rng),)),
            Map(Restrict(Join(Source(0), Source(1), (("S.k", "R.k"),), (call("lt", X, other),)), (call("gt", Y, 0.0),)),
                (("k", key), ("d", call("subtract", X, other)))),
            Join(lows, Source(1), (("S.k", "R.k"),), ()),
        ]  # fmt: skip
        for node in nodes:
            whole, start, stop = run(node, [p, q], 1.0), float(rng.integers(-5, 40)), float(rng.integers(60, 200))
            found = run(node, [p, q], 1.0, Grid(float(step), start, stop))
            for t in range(0, 200, step):
                if start <= t < stop:
                    assert same_rows(rows_at(found, t), rows_at(whole, t))
                    rows += len(rows_at(found, t))
            dropped += len(whole) - len(found)
    assert rows > 200 / step
    assert dropped > 20


def test_ties_go_to_the_smallest_key() -> None:
    rng = np.random.default_rng(9)
    p = random_pieces(rng, "S", 1, 5, 1, gaps=False)
    twice = {n: v.take(np.r_[np.arange(5), np.arange(5)]) for n, v in p.values.items()}
    both = Pieces(
        np.r_[p.low, p.low], np.r_[p.high, p.high], np.r_[p.closed, p.closed], np.r_[p.base, p.base], twice,
        {"S.k": pa.array(["b"] * 5 + ["a"] * 5)},
    )  # fmt: skip
    found = run(Aggregate(Source(0), (), (("m", "min", X),), 0, False, ("S.k",)), [both], 1.0)
    assert len(found) == 5


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        (call("divide", 1.0, X), "divides by a modelled value"),
        (call("pow", X, 0.5), "whole powers"),
        (call("pow", X, 9.0), "degree 18"),
        (call("ln", X), "no polynomial of time"),
        (call("add", call("sqrt", X), 1.0), "computes with a square root"),
    ],
)
def test_what_is_no_polynomial_is_refused(expression: Expr, said: str) -> None:
    with pytest.raises(NotPolynomial, match=said):
        shape_of(expression, {"S.x": Shape(2)})
