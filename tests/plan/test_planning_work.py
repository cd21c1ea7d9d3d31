"""How the work of planning grows with the query: calls are counted, because seconds depend on the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.core.errors import CqlError
from eddyline.cql.bind_from import MAX_INPUTS
from eddyline.cql.scope import MAX_DEPTH
from eddyline.plan.logical import Plan
from eddyline.plan.numbering import Numbering

COLUMNS = [("a", pa.int64()), ("b", pa.int64()), ("s", pa.string()), ("t", pa.int64())]
Text = Callable[[int], str]


def listed(separator: str, item: Callable[[int], str], n: int) -> str:
    return separator.join(map(item, range(n)))


def calls(text: str, columns: list[Any] | None = None) -> int:
    """Calls of Python and C functions from the text of a query to its operators."""
    session = ed.Session()
    session.stream("S", schema=pa.schema(columns or COLUMNS), timestamp="t")
    count = 0

    def counting(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counting)
    try:
        session.query(text).explain()
    finally:
        sys.setprofile(None)
    return count


def growth(work: Callable[[int], int], n: int) -> float:
    """How much more the second doubling adds than the first: 2 if work is linear, 4 if it is quadratic, 8 if cubic."""
    work(2)  # imports and caches
    one, two, four = work(n), work(2 * n), work(4 * n)
    return (four - two) / (two - one)


LINEAR: dict[str, tuple[Text, int]] = {
    "select items": (lambda n: f"SELECT {listed(', ', lambda i: f'a + {i} AS c{i}', n)} FROM S", 100),
    "namesakes": (lambda n: f"SELECT {listed(', ', lambda i: 'a', n)} FROM S", 100),
    "conjuncts": (lambda n: f"SELECT a FROM S WHERE {listed(' AND ', lambda i: f'a <> {i}', n)}", 100),
    "conjuncts of a window": (
        lambda n: f"SELECT a FROM S [RANGE 9 SLIDE 3] WHERE {listed(' AND ', lambda i: f'a / {i + 1} < {i}', n)}", 100,
    ),
    "conjuncts of a join": (
        lambda n: "SELECT x.a FROM S [ROWS 5] AS x, S [ROWS 5] AS y WHERE x.a = y.a AND "
        + listed(" AND ", lambda i: f"x.b <> {i}", n), 100,
    ),
    "alternatives": (lambda n: f"SELECT a FROM S WHERE {listed(' OR ', lambda i: f'a = {i}', n)}", 100),
    "rows in a list": (lambda n: f"SELECT a FROM S WHERE (a, b) IN ({listed(', ', lambda i: f'({i}, {i})', n)})", 50),
    "numbers in a list": (lambda n: f"SELECT a FROM S WHERE a IN ({listed(', ', str, n)})", 200),
    "texts in a list": (lambda n: "SELECT a FROM S WHERE s IN (" + listed(", ", "'{}'".format, n) + ")", 200),
    "aggregates": (lambda n: f"SELECT {listed(', ', lambda i: f'sum(a + {i}) AS c{i}', n)} FROM S [ROWS 5]", 50),
    "keys": (lambda n: f"SELECT count(*) AS n FROM S [ROWS 5] GROUP BY {listed(', ', lambda i: f'a + {i}', n)}", 50),
    "implied keys": (
        lambda n: f"SELECT count(*) AS n, {listed(', ', lambda i: f'a + {i} AS c{i}', n)} FROM S [ROWS 5]", 50,
    ),
    "branches": (lambda n: f"SELECT CASE {listed(' ', lambda i: f'WHEN a = {i} THEN {i}', n)} END AS x FROM S", 100),
    "texts put together": (lambda n: f"SELECT {listed(' || ', lambda i: 's', n)} AS x FROM S", 100),
}  # fmt: skip


@pytest.mark.parametrize("case", LINEAR)
def test_planning_is_linear(case: str) -> None:
    text, n = LINEAR[case]
    assert growth(lambda size: calls(text(size)), n) < 2.5


def joined(n: int, other: str = "a") -> str:
    inputs = listed(", ", lambda i: f"S [ROWS 5] AS x{i}", n)
    return f"SELECT x0.a FROM {inputs} WHERE {listed(' AND ', lambda i: f'x{i}.a = x{i + 1}.{other}', n - 1)}"


@pytest.mark.parametrize(("text", "twice"), [("SELECT a FROM S WHERE b > 5 AND a < 3", False), (joined(2), True)])
def test_equal_sub_plans_are_searched_for_only_where_an_input_is_read_twice(
    text: str, twice: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbered: list[Plan] = []
    of = Numbering.of

    def counting(numbers: Numbering, p: Plan) -> int:
        numbered.append(p)
        return of(numbers, p)

    monkeypatch.setattr(Numbering, "of", counting)
    calls(text)
    assert bool(numbered) == twice


def test_planning_is_linear_in_the_columns_of_a_stream() -> None:
    def work(n: int) -> int:
        columns = [("t", pa.int64()), *((f"c{i}", pa.int64()) for i in range(n))]
        return calls(f"SELECT {listed(', ', lambda i: f'c{i}', n)} FROM S [ROWS 5]", columns)

    assert growth(work, 100) < 2.5


def test_planning_a_join_grows_with_the_square_of_its_inputs() -> None:
    """Each input has a pipeline through all others. In a chain of different keys it also has a path to each other, and
    paths are as long as the chain: there the plan itself grows with the cube."""
    assert growth(lambda n: calls(joined(n)), 8) < 6
    assert growth(lambda n: calls(joined(n, "b")), 8) < 10


def test_more_inputs_are_refused() -> None:
    with pytest.raises(CqlError, match=f"at most {MAX_INPUTS} inputs") as caught:
        calls(joined(MAX_INPUTS + 1))
    assert caught.value.span is not None
    assert caught.value.text[caught.value.span.start : caught.value.span.end].endswith(f"x{MAX_INPUTS}")


DEEP: dict[str, Text] = {
    "parentheses": lambda n: f"SELECT {'(' * n}a{')' * n} AS x FROM S",
    "calls": lambda n: f"SELECT {'abs(' * n}a{')' * n} AS x FROM S",
    "cases": lambda n: f"SELECT {'CASE WHEN a > 1 THEN ' * n}a{' END' * n} AS x FROM S",
    "conditions": lambda n: f"SELECT a FROM S WHERE {'(a > 1 OR ' * n}a > 2{')' * n}",
    "subqueries": lambda n: f"SELECT a FROM {'(SELECT a FROM ' * n}S{')' * n}",
    "memberships": lambda n: f"SELECT a FROM S WHERE {'a IN (SELECT a FROM S [NOW] WHERE ' * n}a > 1{')' * n}",
    "sums": lambda n: f"SELECT {'a + ' * n}a AS x FROM S",
    "negations": lambda n: f"SELECT a FROM S WHERE {'NOT ' * n}a > 1",
    "minus": lambda n: f"SELECT {'- ' * n}a AS x FROM S",
    "casts": lambda n: f"SELECT a{'::int' * n} AS x FROM S",
    "patterns": lambda n: f"SELECT a FROM S WHERE s{' LIKE s' * n}",
    "unions": lambda n: f"SELECT a FROM S{' UNION ALL SELECT a FROM S' * n}",
    "sources": lambda n: f"SELECT a FROM {'(' * n}S{')' * n}",
    "stream operators": lambda n: f"{'Istream(' * n}SELECT a FROM S{')' * n}",
}


@pytest.mark.parametrize("shape", DEEP)
@pytest.mark.parametrize("depth", [5, MAX_DEPTH, MAX_DEPTH + 1, 250, 400, 1000])
def test_deep_nesting_is_planned_or_refused_in_a_sentence(shape: str, depth: int) -> None:
    session = ed.Session()
    session.stream("S", schema=pa.schema(COLUMNS), timestamp="t")
    try:
        query = session.query(DEEP[shape](depth))
        query.explain()
        session.push("S", [{"a": 1, "b": 1, "s": "x", "t": 1}])
        assert depth < 1000
    except CqlError as error:
        assert depth > 5 or shape == "stream operators"
        assert "deep" in error.message or "one below another" in error.message or "one stream operator" in error.message
        assert error.span is not None
        assert len(str(error)) < 2000
