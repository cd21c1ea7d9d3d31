"""Aggregates, GROUP BY, HAVING and DISTINCT."""

from __future__ import annotations

import pytest

from eddyline.plan.logical import Aggregate
from eddyline.plan.traverse import walk
from tests.cql.build import bound, error, names, plan, underlined


def aggregate(text: str) -> Aggregate:
    (found,) = [n for n in walk(bound(text).plan) if isinstance(n, Aggregate)]
    return found


def test_an_ungrouped_aggregate_has_one_row() -> None:
    node = aggregate("SELECT count(*), sum(b) FROM S [ROWS 5]")
    assert (node.grouped, node.keys) == (False, ())
    assert [n for n, _ in node.aggregates] == ["count(*)", "sum(S.b)"]


def test_plain_columns_imply_grouping() -> None:
    assert plan("SELECT a, b + 1, count(*) FROM S [ROWS 5]").splitlines()[:2] == [
        "project S.a AS a, S.b + 1 AS b + 1, count(*)",
        "└─ aggregate count(*) by S.a, S.b",
    ]
    assert aggregate("SELECT count(*) FROM S [ROWS 5] HAVING a > 3").grouped


def test_group_by_expressions_aliases_and_ordinals() -> None:
    expected = plan("SELECT a + 1 AS k, count(*) AS n FROM S [ROWS 5] GROUP BY a + 1")
    assert "by S.a + 1" in expected
    assert plan("SELECT a + 1 AS k, count(*) AS n FROM S [ROWS 5] GROUP BY k") == expected
    assert plan("SELECT a + 1 AS k, count(*) AS n FROM S [ROWS 5] GROUP BY 1") == expected


def test_a_column_goes_before_an_alias_of_its_name() -> None:
    assert "by S.b" in plan("SELECT b, a AS c, count(*) FROM S [ROWS 5] GROUP BY b, c")
    e = error("SELECT a AS b, count(*) FROM S [ROWS 5] GROUP BY b")
    assert "'S.a' is neither grouped nor aggregated" in e.message


def test_expressions_above_keys_and_aggregates() -> None:
    top = plan("SELECT upper(name) || 'x', sum(b) / count(*) FROM S [ROWS 5] GROUP BY upper(name)").splitlines()
    assert top[0].startswith("project concat(upper(S.name), 'x')")
    assert top[1] == "└─ aggregate sum(S.b), count(*) by upper(S.name)"


def test_equal_calls_are_computed_once() -> None:
    node = aggregate("SELECT sum(b), sum(b) + 1 FROM S [ROWS 5] HAVING sum(b) > 3")
    assert len(node.aggregates) == 1


def test_having() -> None:
    shown = plan("SELECT a, count(*) AS n FROM S [ROWS 5] GROUP BY a HAVING n > 3 AND max(b) < 9").splitlines()
    assert shown[1] == "└─ select count(*) > 3 AND max(S.b) < 9"
    assert shown[2] == "   └─ aggregate count(*), max(S.b) by S.a"


def test_having_with_a_subquery() -> None:
    shown = plan("SELECT a FROM S [NOW] GROUP BY a HAVING a IN (SELECT a FROM T) OR count(*) > 2").splitlines()
    assert shown[1] == "└─ select (_mark1 OR count(*) > 2)"
    assert shown[2] == "   └─ mark _mark1 = (S.a) in (_sub1.a)"
    assert "aggregate count(*) by S.a" in shown[3]


def test_group_by_without_aggregates() -> None:
    node = aggregate("SELECT a FROM S [ROWS 5] GROUP BY a")
    assert node.grouped
    assert node.aggregates == ()


@pytest.mark.parametrize(
    ("written", "function", "distinct"),
    [
        ("count(*)", "count", False),
        ("count(a)", "count", False),
        ("count(distinct a)", "count", True),
        ("sum(distinct a)", "sum", True),
        ("avg(DISTINCT a)", "avg", True),
        ("min(DISTINCT a)", "min", False),
        ("stddev(a)", "stddev", False),
        ("stddev_samp(a)", "stddev", False),
        ("stddev_pop(a)", "stddev_pop", False),
        ("variance(a)", "variance", False),
        ("var_samp(a)", "variance", False),
        ("var_pop(a)", "var_pop", False),
        ("first(a)", "first", False),
        ("first_value(a)", "first", False),
        ("last(a)", "last", False),
        ("last_value(a)", "last", False),
        ("median(a)", "user", False),
    ],
)
def test_functions(written: str, function: str, distinct: bool) -> None:
    ((_, call),) = aggregate(f"SELECT {written} FROM S [ROWS 5]").aggregates
    assert (call.function, call.distinct) == (function, distinct)


def test_distinct() -> None:
    assert plan("SELECT DISTINCT a FROM S [ROWS 5]").startswith("distinct\n└─ project S.a AS a")
    same = {
        plan(text)
        for text in (
            "SELECT DISTINCT Istream(a) FROM S [ROWS 5]",
            "SELECT Istream(DISTINCT a) FROM S [ROWS 5]",
            "Istream(SELECT DISTINCT a FROM S [ROWS 5])",
        )
    }
    assert len(same) == 1
    assert names("SELECT Istream(a, count(*) AS n) FROM S [ROWS 5]") == ("a", "n")
    assert names("SELECT Rstream(a) AS x FROM S [ROWS 5]") == ("x",)


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("SELECT a, b, count(*) FROM S GROUP BY a", "'S.b' is neither grouped nor aggregated", "b"),
        ("SELECT * FROM S GROUP BY a", "neither grouped nor aggregated", None),
        ("SELECT a FROM S WHERE sum(a) > 3", "the aggregate sum is not allowed in WHERE", "sum(a)"),
        ("SELECT a FROM S GROUP BY sum(a)", "the aggregate sum is not allowed in GROUP BY", "sum(a)"),
        ("SELECT 1 FROM S [NOW] JOIN T ON max(S.a) = T.a", "the aggregate max is not allowed in ON", "max(S.a)"),
        ("SELECT a FROM S GROUP BY 3", "GROUP BY 3: there are 1 items", "3"),
        ("SELECT a FROM S GROUP BY", "GROUP BY needs at least one expression", None),
        ("SELECT a, count(*) FROM S GROUP BY ROLLUP (a)", "ROLLUP is not supported: write one query", None),
        ("SELECT a FROM S GROUP BY a HAVING b > 3", "'S.b' is neither grouped", "b"),
        ("SELECT a FROM S GROUP BY a HAVING count(*)", "HAVING needs a condition, not bigint", "count(*)"),
        ("SELECT count(*) FROM S WHERE b", "WHERE needs a condition, not bigint", "b"),
    ],
)
def test_mistakes(text: str, message: str, place: str | None) -> None:
    e = error(text)
    assert message in e.message
    if place is not None:
        assert underlined(e) == place
