"""Errors in expressions: only what is there at the end of an instant can fail, and it does so in engine and reference.

The random cases of the other files never fail; these do now and then.
"""

from __future__ import annotations

import random
import re
from typing import Any

import pyarrow as pa
import pytest

import eddyline
from eddyline.core.errors import DataError
from eddyline.testing.case_queries import Focus
from eddyline.testing.cases import Case, draw_case
from tests.semantics.both import INT, Relation, Stream, ask, by_element, rows_of, run
from tests.semantics.engine import HASTY, Way, mismatch, run_engine

PRICES = {"P": Relation([(1, 1, 0), (2, 1, 5)], "t", ("k",), columns=("t", "k", "v"))}


@pytest.mark.parametrize(
    ("text", "streams", "answer"),
    [
        ("SELECT a FROM S [ROWS 1] WHERE 10 / b > 1", {"S": [(1, 1, 0), (1, 2, 5)]}, [(1, 1, 2)]),
        ("SELECT a FROM S [PARTITION BY a ROWS 1] WHERE 10 / b > 1", {"S": [(1, 1, 0), (1, 1, 5)]}, [(1, 1, 1)]),
        ("SELECT 10 / b AS q FROM S [ROWS 1]", {"S": [(1, 1, 0), (1, 2, 5)]}, [(1, 1, 2.0)]),
        ("SELECT sum(10 / b) FROM S [ROWS 1]", {"S": [(1, 1, 0), (1, 2, 5)]}, [(1, 1, 2.0)]),
        ("SELECT a FROM S [ROWS 1] GROUP BY a, 10 / b", {"S": [(1, 1, 0), (1, 2, 5)]}, [(1, 1, 2)]),
        # The old price leaves at the instant at which the element comes: they never meet.
        ("SELECT S.a FROM S [NOW], P WHERE S.a / P.v > 0", {"S": [(2, 5)]}, [(2, 1, 5)]),
        (
            "SELECT S.a FROM S [NOW], T [ROWS 1] WHERE S.a / T.a > 0",
            {"S": [(2, 5)], "T": [(1, 0), (2, 5)]},
            [(2, 1, 5)],
        ),
    ],
)
def test_what_comes_and_goes_within_an_instant_cannot_fail(text: str, streams: Any, answer: list[Any]) -> None:
    assert ask(text, PRICES if " P " in text else None, **streams) == answer


@pytest.mark.parametrize(
    "text", ["SELECT a, sum(10 / b) FROM S [NOW] GROUP BY a", "SELECT 10 / b AS k, sum(a) FROM S [NOW] GROUP BY 10 / b"]
)
def test_a_row_that_fails_in_an_aggregate_is_diverted_too(text: str) -> None:
    s = eddyline.Session()
    s.stream("S", schema=pa.schema([("ts", INT), ("a", INT), ("b", INT)]), timestamp="ts")
    query = s.query(text, on_error="invalid")
    s.push("S", [{"ts": 1, "a": 1, "b": 0}, {"ts": 2, "a": 2, "b": 5}])
    s.finish()
    assert [row[:2] for row in rows_of(query.to_arrow())] == [(2, 1)]
    assert query.report()["invalid"] == 1


IN_T = "a IN (SELECT a FROM T [ROWS 3])"
LIVING: dict[str, Any] = {"S": [(1, 1, 1), (2, 0, 1)], "T": [(1, 1, 1), (2, 7, 1)]}
LATER: dict[str, Any] = {"S": [(1, 1, 1), (2, 0, 1)], "T": [(1, 1, 1), (4, 0, 1)]}


@pytest.mark.parametrize(
    "where",
    [
        f"4 / a > 1 AND {IN_T}",
        f"{IN_T} AND 4 / a > 1",
        f"4 / a > 1 AND {IN_T} AND EXISTS (SELECT * FROM T [RANGE 9] WHERE T.b = S.b)",
        "4 / a > 1 AND NOT EXISTS (SELECT * FROM T [RANGE 9] WHERE T.b = S.a + 1)",
        f"4 / a > 1 AND (b > 5 OR {IN_T})",
        f"8 DIV a IN (SELECT a + 7 FROM T [ROWS 3]) AND {IN_T}",
        "8 DIV a IN (SELECT a + 7 FROM T [ROWS 3]) AND a > 0",
        f"8 DIV a NOT IN (SELECT a FROM T [ROWS 3]) AND {IN_T}",
    ],
)
@pytest.mark.parametrize("window", ["[RANGE 5]", "[ROWS 2]", "[ROWS UNBOUNDED]"])
def test_an_error_is_forgotten_while_a_membership_drops_the_row(where: str, window: str) -> None:
    text = f"SELECT Istream(a) FROM S {window} WHERE {where}"
    assert {row[1:] for row in ask(text, **LIVING)} <= {(1,)}
    if where.count("SELECT") == 1 and IN_T in where:  # at 4 the 0 finds its partner, and has failed
        inputs = {name: Stream(rows) for name, rows in LATER.items()}
        with pytest.raises(DataError, match=r"division by zero in '4.0 / S.a'"):
            run(text, inputs, {}, {}, list(by_element(inputs, {})))


@pytest.mark.parametrize(
    ("where", "first"),
    [
        (f"4 / a > 1 AND 5 / a > 1 AND {IN_T}", "4.0 / S.a"),
        ("4 / a > 1 AND 8 DIV a IN (SELECT a FROM T [ROWS 3]) AND 5 / a > 1", "4.0 / S.a"),
        ("8 DIV a IN (SELECT a FROM T [ROWS 3]) AND 4 / a > 1 AND 5 / a > 1", "8 div S.a"),
        (f"(b > 5 OR 8 DIV a IN (SELECT a FROM T [ROWS 3])) AND {IN_T} AND 4 / a > 1", "8 div S.a"),
        (f"{IN_T} AND 4 / a > 1 AND (b > 5 OR 8 DIV a IN (SELECT a FROM T [ROWS 3]))", "4.0 / S.a"),
    ],
)
@pytest.mark.parametrize("window", ["[RANGE 5]", "[ROWS 2]", "[NOW]"])
def test_the_first_written_error_counts(where: str, first: str, window: str) -> None:
    session = eddyline.Session()
    for name in ("S", "T"):
        session.stream(name, schema=pa.schema([("ts", INT), ("a", INT), ("b", INT)]), timestamp="ts")
    session.query(f"SELECT a FROM S {window} WHERE {where}")
    session.push("T", [{"ts": 1, "a": 0, "b": 1}])
    with pytest.raises(DataError, match=f"division by zero in '{re.escape(first)}'"):
        session.push("S", [{"ts": 1, "a": 0, "b": 1}])
        session.finish()


def brittle(case: Case, rng: random.Random) -> str:
    """The text with one plain column of integers divided by something that is 0 now and then."""
    columns = re.findall(r"\bp\d+\.[ab]\b(?! =)(?!\)* AS)", case.text)
    if not columns:
        return case.text
    column = rng.choice(columns)
    return re.sub(re.escape(column) + r"(?= (?:>=|<=|<>|BETWEEN|IN) )", f"(4 DIV ({column} - 4))", case.text, count=1)


def outcome(case: Case, way: Way | None) -> Any:
    try:
        return case.expected() if way is None else run_engine(case, way)
    except DataError:
        return None


def test_engine_and_reference_fail_alike() -> None:
    failed = compared = 0
    for i in range(90):
        rng = random.Random(f"failing/{i}")
        focus = Focus(
            rng.choice(["select", "binary-join", "semijoin", "aggregate", "outer-join"]),
            rng.choice(["rows", "range", "slide", "partition"]),
            rng.choice(["istream", "none"]),
        )
        case = draw_case(rng, focus, plain=True)
        text = brittle(case, rng)
        if text == case.text:
            continue
        case = Case(text, case.streams, case.relations, case.to_stream)
        expected = outcome(case, None)
        hasty = Way(i, small=True, options={"filters": rng.choice(HASTY)})
        for way in (Way(i), Way(i, batch=1000, interleave=False), hasty):
            found = outcome(case, way)
            assert (found is None) == (expected is None), case.snippet()
            assert found is None or mismatch(case, expected, found) is None, case.snippet()
        failed += expected is None
        compared += 1
    assert compared > 15
    assert failed > 3
