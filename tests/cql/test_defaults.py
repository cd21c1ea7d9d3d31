"""What a query means where it says nothing."""

from __future__ import annotations

import pytest

from eddyline.core.window import Range, Unbounded
from eddyline.plan.logical import StreamScan, ToStream, Window
from eddyline.plan.traverse import walk
from tests.cql.build import bound, error, plan


def root(text: str) -> str:
    """The stream operator at the root, or ``relation``."""
    p = bound(text).plan
    return p.kind if isinstance(p, ToStream) else "relation"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM S WHERE a > 3",
        "SELECT a + 1 AS x FROM S [ROWS UNBOUNDED]",
        "SELECT DISTINCT a FROM S",
        "SELECT S.a FROM S, T WHERE S.a = T.a",
        "SELECT S.a FROM S [RANGE UNBOUNDED], R [ROWS UNBOUNDED] WHERE S.a = R.a",
        "SELECT a FROM S UNION SELECT a FROM R",
        "SELECT a FROM S UNION ALL SELECT a FROM T",
        "SELECT a FROM S INTERSECT SELECT a FROM R",
        "SELECT a FROM S INTERSECT ALL SELECT a FROM R",
        "SELECT a FROM S WHERE a IN (SELECT a FROM T)",
        "SELECT a FROM S WHERE a IN (SELECT a FROM T) OR b > 3",
        "SELECT a FROM S WHERE EXISTS (SELECT * FROM T WHERE T.a = S.b)",
        "SELECT a FROM S [ROWS UNBOUNDED] WHERE a IN (SELECT a FROM R [ROWS UNBOUNDED])",
        "SELECT a FROM T",
        "SELECT x.a FROM (SELECT a FROM S WHERE b > 3) x, T WHERE x.a = T.a",
        "Istream(SELECT a FROM S [ROWS 5])",
        "SELECT Istream(count(*)) FROM S",
    ],
)
def test_what_only_grows_is_an_istream(text: str) -> None:
    assert root(text) == "istream"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM S [ROWS 5]",
        "SELECT a FROM S [NOW]",
        "SELECT count(*) FROM S",
        "SELECT a FROM S EXCEPT SELECT a FROM T",
        "SELECT a FROM S WHERE a NOT IN (SELECT a FROM T)",
        "SELECT a FROM S WHERE NOT EXISTS (SELECT * FROM T)",
        "SELECT a FROM S WHERE (a IN (SELECT a FROM T)) = (b > 3)",
        "SELECT S.a FROM S LEFT JOIN T ON S.a = T.a",
        "SELECT S.a FROM S [ROWS UNBOUNDED], R [ROWS 5] WHERE S.a = R.a",
        "SELECT a FROM U",
        "SELECT a FROM S UNION SELECT a FROM R [ROWS 5]",
        "SELECT a FROM S [ROWS UNBOUNDED] WHERE a IN (SELECT a FROM R [ROWS 5])",
    ],
)
def test_all_else_is_a_relation(text: str) -> None:
    assert root(text) == "relation"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM S WHERE a IN (SELECT a FROM R [ROWS 5])",
        "SELECT * FROM S WHERE a NOT IN (SELECT a FROM R [ROWS 5])",
        "SELECT * FROM S WHERE a IN (SELECT a FROM R)",
        "SELECT * FROM S WHERE EXISTS (SELECT * FROM U WHERE U.a = S.a)",
        "SELECT S.b FROM S, U WHERE S.a = U.a",
        "SELECT S.b FROM S, R [RANGE 5] WHERE S.a = R.a",
        "SELECT S.b FROM S LEFT JOIN R [RANGE 5] ON S.a = R.a",
        "SELECT Istream(S.b) FROM S, U WHERE S.a = U.a",
        "SELECT Rstream(S.b) FROM S, U WHERE S.a = U.a",
        "SELECT x.b FROM (SELECT a, b FROM S WHERE b > 3) x, U WHERE x.a = U.a",
    ],
)
def test_an_element_is_judged_at_its_own_instant(text: str) -> None:
    p = bound(text).plan
    assert isinstance(p, ToStream)
    assert p.kind == "rstream"
    specs = {n.input.stream: n.spec for n in walk(p) if isinstance(n, Window) and isinstance(n.input, StreamScan)}
    assert specs["S"] == Range(0)


def test_a_lookup_subquery_stays_append_only() -> None:
    p = bound("SELECT * FROM S WHERE a IN (SELECT a FROM R)").plan
    specs = {n.input.stream: n.spec for n in walk(p) if isinstance(n, Window) and isinstance(n.input, StreamScan)}
    assert specs == {"S": Range(0), "R": Unbounded(implicit=True)}


def test_dstream_keeps_its_name() -> None:
    assert root("SELECT Dstream(S.b) FROM S, U WHERE S.a = U.a") == "dstream"


def test_two_windowless_streams_are_refused() -> None:
    for text in (
        "SELECT * FROM S, R WHERE S.a = R.a",
        "SELECT * FROM S JOIN R ON S.a = R.a",
        "SELECT * FROM S x, S y",
        "SELECT * FROM (SELECT a FROM S) x, (SELECT a FROM R) y",
        "SELECT * FROM S, R, T",
    ):
        e = error(text)
        assert "are joined without windows" in e.message
        assert "[ROWS UNBOUNDED]" in e.message
    assert root("SELECT * FROM S [ROWS UNBOUNDED], R [ROWS UNBOUNDED]") == "istream"


def test_a_running_aggregate_is_a_relation_not_a_windowless_stream() -> None:
    shown = plan("SELECT * FROM (SELECT a, count(*) AS n FROM S GROUP BY a) x, R [ROWS 5] WHERE x.a = R.a")
    assert "window [NOW]" not in shown


def test_a_judging_side_of_a_union_is_a_stream_read_back() -> None:
    p = bound("SELECT a FROM S WHERE a IN (SELECT a FROM R [ROWS 5]) UNION ALL SELECT a FROM R").plan
    assert isinstance(p, ToStream)
    assert p.kind == "istream"
    assert any(isinstance(n, Window) and isinstance(n.input, ToStream) for n in walk(p))


def test_a_stream_operator_inside_a_set_operator_is_refused() -> None:
    assert "encloses the whole query" in error("SELECT Istream(a) FROM S UNION SELECT a FROM R").message


@pytest.mark.parametrize("kind", ["Istream", "Dstream", "Rstream"])
def test_named_operators(kind: str) -> None:
    assert root(f"SELECT {kind}(a) FROM S [ROWS 5]") == kind.lower()
    assert root(f"{kind.upper()}(SELECT a FROM S [ROWS 5] UNION SELECT a FROM T)") == kind.lower()
    assert root(f"{kind}((SELECT a FROM S [ROWS 5]) EXCEPT (SELECT a FROM T))") == kind.lower()
