"""Several DISTINCT aggregates of a group, with and without conditions: against the reference, with deletions."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from eddyline.core.errors import DataError
from eddyline.expr.nodes import Call, Case, Column, Literal
from eddyline.operators.aggregate import AggregateOperator
from eddyline.operators.distinct import conditional
from eddyline.testing import cases
from eddyline.testing.case_data import draw_scale, draw_stream
from tests.scale import scaled
from tests.semantics.engine import Way, mismatch, run_engine, start

WINDOWS = ("[RANGE 5 SECONDS]", "[ROWS 6]", "", "[RANGE 6 SECONDS SLIDE 2 SECONDS]", "[PARTITION BY b ROWS 2]")
VALUES = ("b", "b", "b", "b", "x", "s", "a + b")
CONDITIONS = ("x > 0", "b = 2", "s = 'u' OR b > 2", "x IS NULL", "s < 'v'", "true", "CAST(NULL AS BOOLEAN)")
FUNCTIONS = ("count", "count", "count", "sum", "avg", "min", "max")


def call(rng: random.Random) -> str:
    function, value = rng.choice(FUNCTIONS), rng.choice(VALUES)
    if function in ("sum", "avg") and value == "s":
        value = "b"
    argument = rng.choice(
        [value, *[f"CASE WHEN {rng.choice(CONDITIONS)} THEN {value} END"] * 3, f"CASE WHEN b = 1 THEN b ELSE {2} END"]
    )
    if function == "count" and rng.random() < 0.15:
        argument = f"a, {argument}"
    return (
        f"{function}({'DISTINCT ' if rng.random() < 0.8 else ''}{argument})"
        if "," not in argument
        else f"count(DISTINCT {argument})"
    )


def draw(rng: random.Random) -> cases.Case:
    scale = draw_scale(rng)
    calls = ", ".join(f"{call(rng)} AS c{i}" for i in range(rng.randint(3, 9)))
    grouped = rng.random() < 0.8
    keys, group = ("a, ", " GROUP BY a") if grouped else ("", "")
    text = f"SELECT {keys}{calls} FROM S {rng.choice(WINDOWS)}{group}"
    return cases.Case(text, {"S": draw_stream(rng, 40, 30, scale)}, {}, scale=scale)


@pytest.mark.parametrize("part", range(4))
def test_answers_are_those_of_the_reference(part: int) -> None:
    shared, cases = 0, scaled(16, least=10)
    for i in range(cases):
        rng = random.Random(f"distinct/{part}/{i}")
        case = draw(rng)
        _, query = start(case, Way())
        aggregate = next(n.operator for n in query.running.physical.nodes if isinstance(n.operator, AggregateOperator))
        shared += any(len(d.counts) > 1 for d in aggregate.distincts.values())
        expected = case.expected()
        seed = rng.randrange(1 << 30)
        for way in (Way(seed), Way(seed, batch=1, encoded=True), Way(seed, small=True, snapshot=True)):
            assert mismatch(case, expected, run_engine(case, way)) is None, f"{way}\n{case.snippet()}"
    assert shared > 0.2 * cases


def test_values_are_numbered_once_for_all_conditions() -> None:
    rng = random.Random(1)
    scale = draw_scale(random.Random(1))
    calls = ["count(DISTINCT b)", *(f"count(DISTINCT CASE WHEN {c} THEN b END)" for c in CONDITIONS[:4])]
    text = f"SELECT a, {', '.join(f'{c} AS c{i}' for i, c in enumerate(calls))} FROM S GROUP BY a"
    case = cases.Case(text, {"S": draw_stream(rng, 60, 40, scale)}, {}, scale=scale)
    _, query = start(case, Way())
    (aggregate,) = (n.operator for n in query.running.physical.nodes if isinstance(n.operator, AggregateOperator))
    assert len(aggregate.distincts) == 1
    assert mismatch(case, case.expected(), run_engine(case)) is None


def test_a_condition_guards_a_value_that_can_fail() -> None:
    scale = draw_scale(random.Random(1))
    text = "SELECT a, count(DISTINCT CASE WHEN b > 0 THEN 12 DIV b END) AS c, count(DISTINCT b) AS d FROM S GROUP BY a"
    case = cases.Case(text, {"S": draw_stream(random.Random(2), 60, 40, scale)}, {}, scale=scale)
    assert any(row["b"] == 0 for _, row in case.streams["S"].elements)
    assert mismatch(case, case.expected(), run_engine(case)) is None
    with pytest.raises(DataError):
        run_engine(cases.Case(text.replace("b > 0", "b >= 0"), case.streams, {}, scale=scale))


def test_conditional_arguments() -> None:
    x, c = Column("x", pa.int64()), Column("c", pa.bool_())
    risky = Call("integer_divide", (Literal(1, pa.int64()), x), pa.int64())
    nothing = Literal(None, pa.int64())
    assert conditional(Case(((c, x),), nothing, pa.int64())) == (x, c)
    for other in (x, Case(((c, x),), x, pa.int64()), Case(((c, risky),), nothing, pa.int64())):
        assert conditional(other) == (other, None)
