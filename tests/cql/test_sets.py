"""UNION, EXCEPT, INTERSECT."""

from __future__ import annotations

import pyarrow as pa
import pytest

from eddyline.core.errors import CqlError
from eddyline.plan.logical import SetOperation
from eddyline.plan.traverse import walk
from tests.cql.build import bound, error, names


@pytest.mark.parametrize("kind", ["union", "except", "intersect"])
def test_kinds(kind: str) -> None:
    for suffix, every in (("", False), (" ALL", True), (" DISTINCT", False)):
        p = bound(f"SELECT a FROM S [NOW] {kind}{suffix} SELECT c FROM R [NOW]").plan
        (node,) = [n for n in walk(p) if isinstance(n, SetOperation)]
        assert (node.kind, node.all, node.schema.names) == (kind, every, ("a",))


def test_precedence_and_parentheses() -> None:
    p = bound("SELECT a FROM S [NOW] UNION SELECT a FROM T EXCEPT SELECT a FROM R [NOW]").plan
    assert isinstance(p, SetOperation)
    assert p.kind == "except"
    p = bound("SELECT a FROM S [NOW] UNION (SELECT a FROM T EXCEPT SELECT a FROM R [NOW])").plan
    assert isinstance(p, SetOperation)
    assert p.kind == "union"
    p = bound("SELECT a FROM S [NOW] UNION SELECT a FROM T INTERSECT SELECT a FROM R [NOW]").plan
    assert isinstance(p, SetOperation)
    assert p.kind == "union"


def test_numbers_are_widened_on_both_sides() -> None:
    p = bound("SELECT Key, v FROM W [NOW] UNION ALL SELECT a, b FROM S [NOW]").plan
    assert isinstance(p, SetOperation)
    types = [pa.int64(), pa.float64()]
    assert [f.type for f in p.left.schema] == types
    assert [f.type for f in p.right.schema] == types
    assert names("SELECT Key, v FROM W UNION ALL SELECT a, b FROM S") == ("Key", "v")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT a FROM S UNION SELECT a, b FROM S", "the same number of columns, not 1 and 2"),
        ("SELECT a FROM S UNION SELECT ok FROM W", "UNION cannot combine bigint (a) with boolean (ok)"),
        ("SELECT a FROM S EXCEPT SELECT ok FROM W", "EXCEPT cannot combine"),
        ("SELECT a FROM S UNION", "missing"),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    assert message in error(text).message


@pytest.mark.parametrize(
    ("plain", "enclosed"),
    [
        ("Dstream(SELECT a FROM S [ROWS 1])", "(Dstream(SELECT a FROM S [ROWS 1]))"),
        ("Dstream(SELECT a FROM S [ROWS 1])", "((Dstream(((SELECT a FROM S [ROWS 1])))))"),
        ("SELECT a FROM S [ROWS 1]", "((SELECT a FROM S [ROWS 1]))"),
        (
            "SELECT a FROM S [ROWS 1] UNION SELECT c FROM R [ROWS 1]",
            "((SELECT a FROM S [ROWS 1]) UNION ((SELECT c FROM R [ROWS 1])))",
        ),
        (
            "WITH v AS (SELECT a FROM S [ROWS 1]) Dstream(SELECT a FROM v)",
            "WITH v AS ((SELECT a FROM S [ROWS 1])) (Dstream(SELECT a FROM v))",
        ),
        (
            "WITH v AS (Dstream(SELECT a FROM S [ROWS 1])) SELECT a FROM v [NOW]",
            "(WITH v AS ((Dstream(SELECT a FROM S [ROWS 1]))) ((SELECT a FROM v [NOW])))",
        ),
        (
            "SELECT a FROM S [ROWS 1] WHERE EXISTS (SELECT * FROM R [ROWS 1] WHERE c = a)",
            "SELECT a FROM S [ROWS 1] WHERE EXISTS ((SELECT * FROM R [ROWS 1] WHERE c = a))",
        ),
    ],
)
def test_parentheses_around_a_query_change_nothing(plain: str, enclosed: str) -> None:
    one, other = bound(plain), bound(enclosed)
    assert one.plan == other.plan


@pytest.mark.parametrize("form", ["Istream({}) UNION Istream({})", "(Istream({})) EXCEPT (Istream({}))"])
def test_a_stream_operator_on_one_side(form: str) -> None:
    with pytest.raises(CqlError, match="a stream operator encloses the whole query"):
        bound(form.format("SELECT a FROM S [ROWS 1]", "SELECT a FROM S [ROWS 1]"))
