"""IN and EXISTS."""

from __future__ import annotations

import pyarrow as pa
import pytest

from eddyline.core.catalog import RelationDef
from eddyline.cql import bind
from eddyline.expr.nodes import columns_of
from eddyline.plan.logical import MarkJoin
from eddyline.plan.traverse import walk
from tests.cql.build import bound, error, make_catalog, plan, schema, underlined


def marks(text: str) -> list[MarkJoin]:
    return [n for n in walk(bound(text).plan) if isinstance(n, MarkJoin)]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (
            "EXISTS (SELECT * FROM R [NOW] q WHERE q.a = p.name)",
            "p.name is a text and stands beside a number: write CAST",
        ),
        ("EXISTS (SELECT * FROM R [NOW] q WHERE upper(p.name) = 3)", "upper(p.name) is a text"),
        ("a IN (SELECT name FROM S [NOW] q)", "name is a text and stands beside a number: write CAST(name AS"),
        ("EXISTS (SELECT * FROM R [NOW] q WHERE q.a = p.nope)", "unknown column 'nope' of p. The columns are a, b"),
        ("EXISTS (SELECT * FROM R [NOW] q WHERE q.a = z.nope)", "unknown stream or relation 'z'"),
    ],
)
def test_messages_have_the_names_of_the_query(condition: str, message: str) -> None:
    assert error(f"SELECT a FROM S [NOW] p WHERE {condition}").message.startswith(message)


def test_in() -> None:
    shown = plan("SELECT a FROM S [NOW] WHERE b > 1 AND a IN (SELECT a FROM R [NOW]) AND b < 9")
    assert shown == (
        "project S.a AS a\n"
        "└─ select S.b > 1 AND _mark1 AND S.b < 9\n"
        "   └─ mark _mark1 = (S.a) in (_sub1.a)\n"
        "      ├─ window [NOW]\n"
        "      │  └─ stream S (S.a, S.b, S.name, S.t)\n"
        "      └─ project R.a AS _sub1.a\n"
        "         └─ window [NOW]\n"
        "            └─ stream R (R.a, R.c, R.t)"
    )


def test_anywhere_in_a_condition() -> None:
    shown = plan("SELECT a FROM S [NOW] WHERE NOT (b = 1 OR EXISTS (SELECT * FROM T)) OR a NOT IN (SELECT a FROM T)")
    assert "select (NOT (S.b = 1 OR _mark1) OR NOT _mark2)" in shown


def test_rows_and_tuples() -> None:
    (mark,) = marks("SELECT a FROM S [NOW] WHERE (a, b) IN (SELECT a, c FROM R [NOW])")
    assert len(mark.operands) == 2
    (mark,) = marks("SELECT a FROM R [NOW] WHERE R IN (SELECT * FROM R [ROWS 5])")
    assert len(mark.operands) == 3


def test_operands_get_a_common_type() -> None:
    (mark,) = marks("SELECT 1 AS x FROM W [NOW] WHERE Key IN (SELECT a FROM T)")
    ((left, right),) = mark.operands
    assert left.type == right.type == pa.int64()


def test_correlated() -> None:
    (mark,) = marks("SELECT a FROM S [NOW] WHERE EXISTS (SELECT 1 AS x FROM R [NOW] WHERE R.a = S.a AND c > 3)")
    assert mark.operands == ()
    (on,) = mark.on
    left, right = set(mark.left.schema.names), set(mark.right.schema.names)
    assert not left & right
    assert columns_of(on) <= left | right
    assert columns_of(on) & left == {"S.a"}


def test_correlated_with_the_same_names_on_both_sides() -> None:
    (mark,) = marks("SELECT a FROM S [NOW] x WHERE a IN (SELECT b FROM S [ROWS 9] WHERE S.a < x.a AND S.t = x.t)")
    assert len(mark.on) == 2
    assert not set(mark.left.schema.names) & set(mark.right.schema.names)
    # The inner S hides the outer one; a bare name that only the outer has is the outer's.
    (mark,) = marks("SELECT a FROM S [NOW] WHERE EXISTS (SELECT 1 AS o FROM R [NOW] S WHERE S.c = b)")
    (on,) = mark.on
    assert "S.b" in columns_of(on)


def test_columns_of_the_right_side_never_meet_those_of_the_left() -> None:
    text = "SELECT a FROM S [NOW] WHERE a IN (SELECT a FROM S [NOW]) AND b IN (SELECT b FROM S [NOW])"
    for mark in marks(text):
        assert not set(mark.left.schema.names) & set(mark.right.schema.names)


def test_set_operators_and_grouping_inside() -> None:
    assert "union" in plan("SELECT a FROM S [NOW] WHERE a IN (SELECT a FROM T UNION SELECT a FROM R [NOW])")
    assert "aggregate max(R.c)" in plan("SELECT a FROM S [NOW] WHERE a IN (SELECT max(c) FROM R [NOW])")


def test_nested() -> None:
    text = "SELECT a FROM S [NOW] WHERE a IN (SELECT a FROM R [NOW] WHERE c IN (SELECT a FROM T))"
    assert len(marks(text)) == 2


def test_lookup() -> None:
    expected = plan("SELECT a FROM S WHERE a IN (SELECT a FROM T)")
    assert plan("SELECT a FROM S WHERE lookup(a, T)") == expected
    assert plan("SELECT a FROM S WHERE lookup(a, T) = true") == expected


def test_lookup_of_a_named_column() -> None:
    c = make_catalog()
    c.add("relations", RelationDef("odd", schema(**{"a b": pa.int64()})))
    assert bind("SELECT a FROM S WHERE lookup(a, odd)", c).is_stream


@pytest.mark.parametrize(
    ("condition", "message", "place"),
    [
        ("a IN (SELECT a, c FROM R)", "IN compares 1 column with a query of 2", None),
        ("(a, b) IN (SELECT a FROM R)", "IN compares 2 columns with a query of 1", None),
        ("a IN (SELECT ok FROM W)", "IN cannot compare bigint with boolean", None),
        ("EXISTS (SELECT max(c) FROM R WHERE R.a = S.a)", "a subquery that groups or aggregates", "R.a = S.a"),
        ("EXISTS (SELECT Istream(c) FROM R WHERE R.a = S.a)", "names a stream operator", "R.a = S.a"),
        ("a IN (SELECT a FROM T UNION SELECT a FROM R WHERE R.c = S.b)", "with a set operator", "S.b"),
        ("EXISTS (SELECT * FROM (SELECT a FROM R WHERE R.c = S.b) q)", "a subquery in FROM may not use", "S.b"),
        (
            "EXISTS (SELECT * FROM R WHERE EXISTS (SELECT * FROM T WHERE T.a = S.a))",
            "columns of the query directly around it only",
            "S.a",
        ),
        ("EXISTS (SELECT * FROM R WHERE S.a IN (SELECT a FROM T))", "of the outermost query", None),
        ("EXISTS (SELECT b FROM R)", "may not use columns of the query around", "b"),
        ("EXISTS (SELECT c FROM R GROUP BY c, b)", "GROUP BY of a subquery may not use", "b"),
        ("a IN (Istream(SELECT a FROM R))", "leave the stream operator out", None),
        ("a IN S", "IN needs a list of values or a query in parentheses", None),
        ("a = (SELECT max(c) FROM R GROUP BY c)", "a subquery as a value is one aggregate", None),
        ("lookup(a, zz)", "unknown", None),
    ],
)
def test_mistakes(condition: str, message: str, place: str | None) -> None:
    e = error(f"SELECT a FROM S [ROWS 5] WHERE {condition}")
    assert message in e.message
    assert e.span is not None
    if place is not None:
        assert underlined(e) == place
