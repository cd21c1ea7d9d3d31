"""A column of texts beside a number is refused when the query is bound."""

from __future__ import annotations

import pytest

from tests.cql.build import bound, error, underlined


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("SELECT a FROM S WHERE name > 5", "name > 5"),
        ("SELECT a FROM S WHERE 5 = name", "5 = name"),
        ("SELECT a FROM S WHERE name <=> 5", "name <=> 5"),
        ("SELECT a FROM S WHERE name = 1.5", "name = 1.5"),
        ("SELECT a FROM S WHERE upper(name) = a", "upper(name) = a"),
        ("SELECT a FROM S WHERE name IN (1, 2)", "name IN (1, 2"),
        ("SELECT a FROM S WHERE a IN (name, '3')", None),
        ("SELECT a FROM S WHERE (a, name) IN ((1, 2))", None),
        ("SELECT a FROM S WHERE name BETWEEN 1 AND 2", "name BETWEEN 1 AND 2"),
        ("SELECT a FROM S WHERE a BETWEEN '1' AND name", None),
        ("SELECT CASE name WHEN 5 THEN 1 END AS x FROM S", None),
        ("SELECT CASE WHEN a > 1 THEN name ELSE 0 END AS x FROM S", None),
        ("SELECT IF(a > 1, name, 0) AS x FROM S", None),
        ("SELECT coalesce(name, 0) AS x FROM S", None),
        ("SELECT nullif(name, 0) AS x FROM S", None),
        ("SELECT greatest(name, 0) AS x FROM S", None),
        ("SELECT S.a FROM S [NOW], T WHERE S.a = T.label", "S.a = T.label"),
        ("SELECT S.a FROM S [NOW] JOIN T ON S.a = T.label", "S.a = T.label"),
        ("SELECT a FROM S WHERE a IN (SELECT label FROM T)", None),
        ("SELECT a FROM S WHERE EXISTS (SELECT * FROM T WHERE T.label > S.a)", "T.label > S.a"),
        ("SELECT a FROM S UNION SELECT label FROM T", None),
        ("SELECT count(*) AS n FROM S [NOW] GROUP BY a HAVING max(name) > 3", None),
    ],
)
def test_it_is_refused(query: str, place: str | None) -> None:
    caught = error(query)
    assert "is a text and stands beside a number: write CAST(" in caught.message
    assert place is None or underlined(caught) == place


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a FROM S WHERE a > '5'",
        "SELECT a FROM S WHERE a IN ('1', 2)",
        "SELECT a FROM S WHERE a BETWEEN '1' AND 3",
        "SELECT a FROM S WHERE CAST(name AS int) > 5",
        "SELECT a FROM S WHERE name > '5'",
        "SELECT CASE WHEN a > 1 THEN '7' ELSE 0 END AS x FROM S",
        "SELECT a || name AS x, name + 1 AS y FROM S",
    ],
)
def test_a_text_of_the_query_is_read_there_and_then(query: str) -> None:
    bound(query)
