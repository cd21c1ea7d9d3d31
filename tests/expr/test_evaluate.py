"""Laziness, errors by row, dictionaries, users' functions."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from eddyline.core.catalog import FunctionDef
from eddyline.core.errors import JobError, Span
from eddyline.expr.describe import describe
from eddyline.expr.evaluate import can_fail, compile_expr, evaluate_rows
from eddyline.expr.failures import RowErrors
from eddyline.expr.nodes import Case, Cast, UserCall
from tests.expr.build import F64, I32, I64, B, S, call, col, lit, run

A, X = col("a"), col("b")
DIVIDE = call("divide", A, X)


def user(function: Any, returns: pa.DataType, *args: Any, kind: Any = "row", name: str = "f") -> UserCall:
    return UserCall(FunctionDef(name, function, returns, kind=kind), args, returns)


def test_errors_belong_to_rows() -> None:
    columns = {"a": pa.array([1, 2, 3, None]), "b": pa.array([0, 2, 0, 0])}
    values, errors = evaluate_rows(compile_expr(DIVIDE), columns, 4)
    assert values.to_pylist() == [None, 1.0, None, None]
    assert {r: str(e) for r, e in errors.items()} == dict.fromkeys((0, 2), "division by zero in 'a / b'")
    with pytest.raises(RowErrors, match="division by zero in 'a / b'") as e:
        compile_expr(DIVIDE)(columns, 4)
    assert set(e.value.errors) == {0, 2}


def test_bisecting_finds_every_overflow() -> None:
    rng = np.random.default_rng(1)
    numbers = rng.integers(0, 10, 1000)
    bad = rng.choice(1000, 37, replace=False)
    numbers[bad] = 2**63 - 1
    values, errors = run(call("add", A, lit(1)), 1000, a=pa.array(numbers))
    assert sorted(errors) == sorted(bad.tolist())
    assert all(values[i] == numbers[i] + 1 for i in range(1000) if i not in errors)


def test_the_innermost_leftmost_error_counts() -> None:
    e = call("add", call("divide", A, X), Cast(col("s", S), F64, span=Span(0, 1)))
    _, errors = run(e, 1, a=pa.array([1]), b=pa.array([0]), s=pa.array(["x"]))
    assert errors == {0: "division by zero in 'a / b'"}


def test_an_error_is_not_hidden_by_is_null_or_coalesce() -> None:
    columns = {"a": pa.array([1, 4]), "b": pa.array([0, 2])}
    assert run(call("coalesce", DIVIDE, lit(5.0)), 2, **columns)[0] == [None, 2.0]
    assert run(call("is_null", DIVIDE), 2, **columns) == ([None, False], {0: "division by zero in 'a / b'"})


def test_constants_that_fail_fail_on_rows_only() -> None:
    e = call("divide", lit(1), lit(0))
    assert run(e, 0) == ([], {})
    assert run(e, 2) == ([None, None], dict.fromkeys((0, 1), "division by zero in '1 / 0'"))
    assert run(call("gt", A, e), 1, a=pa.array([3]))[1] == {0: "division by zero in '1 / 0'"}


GUARDED = [
    Case(((call("ne", X, lit(0)), DIVIDE),), lit(-1.0), F64),
    call("if", call("eq", X, lit(0)), lit(-1.0), DIVIDE),
    call("coalesce", call("if", call("eq", X, lit(0)), lit(-1.0), lit(None, F64)), DIVIDE),
]


@pytest.mark.parametrize("e", GUARDED, ids=describe)
def test_a_branch_not_taken_cannot_fail(e: Any) -> None:
    values, errors = run(e, 5, a=pa.array([1, 6, 8, None, 9]), b=pa.array([0, 2, 0, 1, 3]))
    assert not errors
    assert values == [-1.0, 3.0, -1.0, None, 3.0]


def test_and_or_are_lazy_from_left_to_right() -> None:
    columns = {"a": pa.array([4, 4, 4, 1]), "b": pa.array([0, 2, None, 0])}
    big = call("gt", DIVIDE, lit(1.0))
    assert run(call("and", call("ne", X, lit(0)), big), 4, **columns) == ([False, True, None, False], {})
    assert run(call("or", call("eq", X, lit(0)), big), 4, **columns) == ([True, True, None, True], {})
    values, errors = run(call("and", big, call("ne", X, lit(0))), 4, **columns)
    assert values == [None, True, None, None] and set(errors) == {0, 3}
    values, errors = run(call("and", lit(None, B), big), 4, **columns)  # NULL does not decide
    assert set(errors) == {0, 3}


def test_nested_laziness_keeps_rows_apart() -> None:
    inner = Case(((call("gt", A, lit(5)), DIVIDE),), lit(0.0), F64)
    e = Case(((call("lt", A, lit(9)), inner),), lit(7.0), F64)
    values, errors = run(e, 5, a=pa.array([1, 6, 8, 9, 7]), b=pa.array([0, 0, 2, 0, 0]))
    assert values == [0.0, None, 4.0, 7.0, None]
    assert set(errors) == {1, 4}


def test_case_takes_the_first_true_branch() -> None:
    e = Case(
        ((call("gt", A, lit(5)), lit("big")), (call("gt", A, lit(2)), col("s", S))),
        lit(None, S),
        S,
    )
    values, _ = run(e, 4, a=pa.array([9, 3, 1, None]), s=pa.array(["w", "x", "y", "z"]))
    assert values == ["big", "x", None, None]


def test_in_stops_at_the_first_match() -> None:
    asked: list[int] = []
    e = call("in", A, X, Cast(col("s", S), I64), user(lambda a: asked.append(a) or 7, I64, A))
    values, errors = run(
        e, 5, a=pa.array([1, 1, 2, None, 7]), b=pa.array([1, None, 2, 3, 4]), s=pa.array(["x", "1", "x", "x", "y"])
    )
    assert values == [True, True, True, None, None]
    assert set(errors) == {4} and asked == []


def test_unwanted_rows_may_fail_in_any_way() -> None:
    """Both ways of choosing rows, by forgetting errors and by filtering, for failures with and without a mask."""
    rng = np.random.default_rng(1)
    for share in (0.02, 0.5, 0.98):
        good = rng.random(500) < share
        a = np.where(good, 1, 2**63 - 1)
        b = np.where(good, rng.integers(0, 3, 500), 0)
        inner = Case(((call("gt", X, lit(0)), DIVIDE),), call("add", A, lit(0.5)), F64)
        e = Case(((call("lt", A, lit(9)), call("add", inner, call("add", A, lit(1)))),), call("divide", A, lit(1)), F64)
        values, errors = run(e, 500, a=pa.array(a), b=pa.array(b))
        assert not errors
        want = [(x / y if y else x + 0.5) + x + 1 if ok else float(x) for x, y, ok in zip(a, b, good, strict=True)]
        assert values == want
        _, errors = run(call("if", call("lt", A, lit(9)), DIVIDE, lit(0.0)), 500, a=pa.array(a), b=pa.array(b))
        assert sorted(errors) == np.flatnonzero(good & (b == 0)).tolist()
        _, errors = run(
            call("if", call("lt", A, lit(9)), lit(0), call("add", A, X)), 500, a=pa.array(a), b=pa.array(b + 1)
        )
        assert sorted(errors) == np.flatnonzero(~good).tolist()


def test_imports_stay_light() -> None:
    code = "import sys, eddyline.expr.predicates; print('pandas' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


def test_can_fail() -> None:
    assert can_fail(DIVIDE)
    assert not can_fail(call("divide", A, lit(2)))
    assert not can_fail(call("like", col("s", S), lit("a%")))
    assert can_fail(call("like", col("s", S), col("p", S)))
    assert not can_fail(call("mod", A, lit(3)))
    assert can_fail(user(len, I64, A))
    assert compile_expr(call("gt", A, X)).columns == {"a", "b"}


def test_dictionary_columns_mean_what_their_texts_mean() -> None:
    texts = ["a", "b", None, "ab", "a", "c"]
    plain = pa.array(texts)
    encoded = plain.dictionary_encode()
    s = col("s", S)
    for e in (
        s,
        call("eq", s, lit("a")),
        call("ne", s, lit("a")),
        call("eq", s, lit("zz")),
        call("in", s, lit("a"), lit("c")),
        call("in", s, lit("a"), lit(None, S)),
        call("like", s, lit("a%")),
        call("upper", s),
        call("length", s),
        call("is_null", s),
        call("coalesce", s, lit("-")),
        call("null_safe_eq", s, lit("a")),
        call("concat", s, s),
        call("eq", s, col("t", S)),
        Case(((call("eq", s, lit("a")), lit("x")),), s, S),
    ):
        for part in (slice(0, 6), slice(1, 6), slice(0, 1)):
            n = len(texts[part])
            want = run(e, n, s=plain[part], t=plain[part])
            assert run(e, n, s=encoded[part], t=plain[part]) == want, describe(e)


def test_a_bad_dictionary_value_that_no_row_has_is_no_error() -> None:
    encoded = pa.DictionaryArray.from_arrays(pa.array([0, 0, 2]), pa.array(["1", "x", "3"]))
    assert run(Cast(col("s", S), I64), 3, s=encoded) == ([1, 1, 3], {})


# -- users' functions ----------------------------------------------------------------------------------------------


def test_row_functions_get_python_values_once_each() -> None:
    seen: list[Any] = []

    def f(a: int | None, s: str) -> int | None:
        seen.append((a, s))
        if a == 3:
            raise ValueError("three")
        return None if a is None else a * 2

    values, errors = run(user(f, I64, A, lit("k")), 4, a=pa.array([1, None, 3, 4]))
    assert values == [2, None, None, 8]
    assert errors == {2: "ValueError: three in 'f(a, 'k')'"}
    assert seen == [(1, "k"), (None, "k"), (3, "k"), (4, "k")]


def test_row_functions_are_not_called_for_rows_in_error() -> None:
    seen: list[Any] = []
    values, errors = run(
        user(lambda x: seen.append(x) or 1, I64, DIVIDE), 3, a=pa.array([1, 2, 3]), b=pa.array([1, 0, 3])
    )
    assert seen == [1.0, 1.0]
    assert values == [1, None, 1] and set(errors) == {1}


def test_row_functions_that_return_the_wrong_kind() -> None:
    values, errors = run(user(lambda a: "x" if a == 2 else a, I64, A), 3, a=pa.array([1, 2, 3]))
    assert values == [1, None, 3]
    assert "f returned 'x'" in errors[1]
    assert run(user(lambda a: np.int64(a), B, A), 2, a=pa.array([0, 2]))[0] == [False, True]


def test_functions_are_not_called_while_compiling_or_without_rows() -> None:
    seen: list[int] = []
    e = call("coalesce", user(lambda: seen.append(1), I64), lit(1))
    compiled = compile_expr(e)
    assert compiled({}, 0).to_pylist() == [] and not seen
    assert compiled({}, 2).to_pylist() == [1, 1] and len(seen) == 2


@pytest.mark.parametrize("kind", ["arrow", "pandas"])
def test_vectorised_functions_are_bisected(kind: str) -> None:
    calls: list[int] = []

    def f(a: Any) -> Any:
        calls.append(len(a))
        if kind == "arrow":
            if pc.any(pc.equal(a, 7)).as_py():
                raise ValueError("seven")
            return pc.add(a, 1)
        assert isinstance(a, pd.Series)
        if (a == 7).any():
            raise ValueError("seven")
        return a + 1

    values, errors = run(user(f, I32, A, kind=kind), 8, a=pa.array([1, 2, 3, 7, 5, 6, 8, 9]))
    assert values == [2, 3, 4, None, 6, 7, 9, 10]
    assert errors == {3: "ValueError: seven in 'f(a)'"}
    assert calls == [8, 4, 2, 2, 1, 1, 4]


def test_a_vectorised_function_must_return_a_value_for_each_row() -> None:
    with pytest.raises(JobError, match="returned 1 values for 3 rows"):
        run(user(lambda a: pa.array([1]), I64, A, kind="arrow"), 3, a=pa.array([1, 2, 3]))


def test_expensive_operands_run_on_the_rows_that_need_them() -> None:
    seen: list[int] = []
    e = call("and", call("gt", A, lit(2)), user(lambda a: seen.append(a) or True, B, A))
    assert run(e, 4, a=pa.array([1, 3, None, 5]))[0] == [False, True, None, True]
    assert seen == [3, None, 5]


# -- text ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (call("subtract", A, call("subtract", X, A)), "a - (b - a)"),
        (call("subtract", call("subtract", A, X), A), "a - b - a"),
        (call("not", call("in", A, lit(1), lit(2))), "a NOT IN (1, 2)"),
        (call("not", call("like", col("p.data", S), lit("it's%"))), "p.data NOT LIKE 'it''s%'"),
        (call("and", call("or", lit(True), lit(False)), call("not", lit(True))), "(TRUE OR FALSE) AND NOT TRUE"),
        (call("is_null", call("add", A, lit(1))), "a + 1 IS NULL"),
        (call("is_not_null", call("eq", A, X)), "(a = b) IS NOT NULL"),
        (call("negate", call("negate", A)), "-(-a)"),
        (Case(((call("gt", A, X), lit(1)),), lit(None, I64), I64), "CASE WHEN a > b THEN 1 END"),
        (Cast(A, F64, safe=True), "TRY_CAST(a AS double)"),
        (call("divide", A, X), "a / b"),
    ],
)
def test_describe(e: Any, text: str) -> None:
    assert describe(e) == text
