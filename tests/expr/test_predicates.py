"""The law of conjunctions, against a row-at-a-time statement of it, in every order."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.core.catalog import FunctionDef
from eddyline.expr.nodes import Expr, UserCall
from eddyline.expr.predicates import Conjunction
from tests.expr.build import B, S, call, col, error_of, lit

OUTCOMES = {0: False, 1: None, 2: True, 3: ZeroDivisionError}
A = col("a")


def predicate(i: int, seen: list[tuple[int, Any]] | None = None, kind: str = "row") -> Expr:
    """Conjunct i reads its outcome from column c<i>: FALSE, NULL, TRUE or an error."""

    def by_row(outcome: int, row: int) -> bool | None:
        if seen is not None:
            seen.append((i, row))
        if outcome == 3:
            raise ZeroDivisionError(f"conjunct {i}")
        return OUTCOMES[outcome]  # type: ignore[return-value]

    def by_column(outcome: pa.Array, row: pa.Array) -> pa.Array:
        return pa.array([by_row(o, r) for o, r in zip(outcome.to_pylist(), row.to_pylist(), strict=True)], B)

    f = FunctionDef(f"p{i}", by_row if kind == "row" else by_column, B, kind=kind)  # type: ignore[arg-type]
    return UserCall(f, (col(f"c{i}"), col("row")), B)


def builtin(i: int) -> Expr:
    """The same outcomes from built-in functions: 1 / (3 - c) fails at 3, and nothing else does."""
    c = col(f"c{i}")
    test = call("if", call("eq", c, lit(1)), lit(None, B), call("gt", c, lit(0)))
    return call("and", call("gt", call("divide", lit(1), call("subtract", lit(3), c)), lit(0.0)), test)


def cheap(i: int) -> Expr:
    """FALSE, NULL or TRUE without any error (3 counts as TRUE)."""
    c = col(f"c{i}")
    return call("gt", call("nullif", c, lit(1)), lit(0))


def law(outcomes: list[int], can_fail: list[bool]) -> tuple[bool, int | None]:
    """Kept?, and the written position whose error stands."""
    plain = [2 if o == 3 and not f else o for o, f in zip(outcomes, can_fail, strict=True)]
    if any(o in (0, 1) for o in plain):
        return False, None
    return 3 not in plain, plain.index(3) if 3 in plain else None


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[str], list[list[int]], list[int]]:
    n = draw(st.integers(1, 4))
    kinds = draw(st.lists(st.sampled_from(["row", "arrow", "builtin", "cheap"]), min_size=n, max_size=n))
    weights = st.sampled_from([0, 1, 2, 2, 2, 2, 3])
    rows = draw(st.lists(st.lists(weights, min_size=n, max_size=n), max_size=40))
    order = draw(st.permutations(range(n)))
    return kinds, rows, list(order)


@settings(max_examples=200, deadline=None)
@given(cases())
def test_any_order_gives_the_same_rows_and_errors(case: tuple[list[str], list[list[int]], list[int]]) -> None:
    kinds, rows, order = case
    seen: list[tuple[int, Any]] = []
    make = {
        "row": lambda i: predicate(i, seen),
        "arrow": lambda i: predicate(i, None, "arrow"),
        "builtin": builtin,
        "cheap": cheap,
    }
    conjunction = Conjunction([make[kind](i) for i, kind in enumerate(kinds)])
    columns = {f"c{i}": pa.array([r[i] for r in rows], pa.int64()) for i in range(len(kinds))}
    columns["row"] = pa.array(range(len(rows)), pa.int64())
    for chosen in (None, order):
        seen.clear()
        got = conjunction.evaluate(columns, len(rows), chosen)
        assert len(seen) == len(set(seen)), "a row function was called twice for one row"
        expected = [law(r, [k != "cheap" for k in kinds]) for r in rows]
        assert got.keep.tolist() == [keep for keep, _ in expected]
        assert set(got.errors) == {i for i, (_, e) in enumerate(expected) if e is not None}
        for row, message in error_of(got.errors).items():
            position = expected[row][1]
            assert position is not None
            named = f"c{position}"
            assert named in message, (message, position)


def test_only_rows_still_alive_are_asked() -> None:
    seen: list[tuple[int, Any]] = []
    conjunction = Conjunction([call("gt", A, lit(1)), predicate(0, seen), predicate(1, seen)])
    columns = {
        "a": pa.array([0, 5, 5, 5, None]),
        "c0": pa.array([2, 0, 3, 2, 2]),
        "c1": pa.array([2, 2, 0, 2, 2]),
        "row": pa.array(range(5)),
    }
    got = conjunction.evaluate(columns, 5)
    assert got.keep.tolist() == [False, False, False, True, False]
    assert got.errors == {}  # the error of row 2 was forgotten
    assert seen == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3)]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_first_written_error_stands(order: tuple[int, ...]) -> None:
    conjunction = Conjunction([call("gt", A, lit(1)), predicate(0), predicate(1)])
    columns = {"a": pa.array([2]), "c0": pa.array([3]), "c1": pa.array([3]), "row": pa.array([0])}
    got = conjunction.evaluate(columns, 1, order)
    assert not got.keep[0]
    assert error_of(got.errors) == {0: "ZeroDivisionError: conjunct 0 in 'p0(c0, row)'"}


def test_a_guard_saves_the_division_in_any_order() -> None:
    ratio = call("gt", call("divide", A, col("b")), lit(1.0))
    guard = call("ne", col("b"), lit(0))
    columns = {"a": pa.array([4, 4, None]), "b": pa.array([0, 2, 0])}
    for conjuncts in ([guard, ratio], [ratio, guard]):
        got = Conjunction(conjuncts).evaluate(columns, 3)
        assert got.keep.tolist() == [False, True, False] and not got.errors


def test_no_conjunct_no_row_and_dictionaries() -> None:
    assert Conjunction([]).evaluate({}, 3).keep.tolist() == [True] * 3
    assert len(Conjunction([call("gt", A, lit(1))]).evaluate({"a": pa.array([], pa.int64())}, 0).keep) == 0
    s = pa.array(["x", "y", None, "x"]).dictionary_encode()
    both = Conjunction([call("eq", col("s", S), lit("x")), predicate(0), call("contains", col("s", S), lit("x"))])
    got = both.evaluate({"s": s, "c0": pa.array([2, 2, 2, 2]), "row": pa.array(range(4))}, 4)
    assert got.keep.tolist() == [True, False, False, True]


def test_selections_over_many_rows() -> None:
    rng = np.random.default_rng(1)
    a, b, s = rng.integers(0, 1000, 50_000), rng.integers(0, 100, 50_000), rng.integers(0, 50, 50_000)
    columns = {"a": pa.array(a), "b": pa.array(b), "s": pa.array([f"name-{i}" for i in s])}
    conjunction = Conjunction(
        [
            call("gt", A, lit(900)),
            call("lt", col("b"), lit(20)),
            call("rlike", col("s", S), lit("name-1[0-9]$")),
            call("ne", A, lit(950)),
        ]
    )
    expected = (a > 900) & (b < 20) & (s >= 10) & (s < 20) & (a != 950)
    for order in itertools.permutations(range(4)):
        assert (conjunction.evaluate(columns, 50_000, order).keep == expected).all()
