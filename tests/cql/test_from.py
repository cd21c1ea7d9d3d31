"""FROM, joins, the select list and its names."""

from __future__ import annotations

import pytest

from eddyline.core.time import TimeKind
from tests.cql.build import bound, error, names, plan, underlined


def test_comma_and_inner_joins_are_one_join_with_its_conditions() -> None:
    shown = plan(
        "SELECT S.a FROM S [ROWS 5], R [ROWS 5] JOIN T ON R.a = T.a AND label = 'x' "
        "WHERE S.a = R.a AND S.b > 3 AND S.b < R.c AND 1 = 1"
    )
    assert shown == (
        "project S.a AS a\n"
        "└─ select T.label = 'x' AND S.b > 3 AND 1 = 1\n"
        "   └─ join on R.a = T.a AND S.a = R.a AND S.b < R.c\n"
        "      ├─ window [ROWS 5]\n"
        "      │  └─ stream S (S.a, S.b, S.name, S.t)\n"
        "      ├─ window [ROWS 5]\n"
        "      │  └─ stream R (R.a, R.c, R.t)\n"
        "      └─ relation T (T.a, T.label)"
    )


def test_where_above_an_outer_join() -> None:
    shown = plan("SELECT S.a FROM S [ROWS 5] LEFT JOIN T ON S.a = T.a AND S.b > 1 WHERE label = 'x'").splitlines()
    assert shown[1] == "└─ select T.label = 'x'"
    assert shown[2] == "   └─ left join on S.a = T.a AND S.b > 1"


@pytest.mark.parametrize("side", ["LEFT", "RIGHT", "FULL"])
def test_outer_joins(side: str) -> None:
    assert f"{side.lower()} join on S.a = R.a" in plan(
        f"SELECT 1 AS x FROM S [ROWS 5] {side} JOIN R [NOW] ON S.a = R.a"
    )
    assert f"{side.lower()} join" in plan(f"SELECT 1 AS x FROM S [ROWS 5] {side} OUTER JOIN R [NOW] ON S.a = R.a")


def test_join_binds_more_tightly_than_a_comma() -> None:
    shown = plan("SELECT 1 AS x FROM T, S [NOW] LEFT JOIN R [NOW] ON S.a = R.a").splitlines()
    assert [line.strip("│├└─ ") for line in shown[1:4]] == [
        "product",
        "relation T (T.a, T.label)",
        "left join on S.a = R.a",
    ]
    assert "unknown stream or relation 'T'" in error("SELECT 1 FROM T, S [NOW] LEFT JOIN R [NOW] ON T.a = R.a").message


def test_nested_joins() -> None:
    flat = plan("SELECT 1 AS x FROM S [NOW] JOIN (R [NOW] JOIN T ON R.a = T.a) ON S.a = T.a")
    assert "join on R.a = T.a AND S.a = T.a" in flat
    assert flat == plan("SELECT 1 AS x FROM S [NOW] JOIN R [NOW] JOIN T ON R.a = T.a ON S.a = T.a")
    nested = plan("SELECT 1 AS x FROM (S [NOW] LEFT JOIN R [NOW] ON S.a = R.a) JOIN T ON S.a = T.a").splitlines()
    assert nested[1].endswith("join on S.a = T.a")
    assert nested[2].endswith("left join on S.a = R.a")


def test_cross_join_and_join_without_a_condition() -> None:
    assert "product" in plan("SELECT 1 AS x FROM S [NOW] CROSS JOIN T")
    assert "join on R.a = S.a" in plan("SELECT 1 AS x FROM R [NOW] JOIN S [NOW] WHERE R.a = S.a")


def test_using() -> None:
    assert names("SELECT * FROM S [NOW] JOIN R [NOW] USING (a)") == ("a", "b", "name", "t", "c", "R_t")
    assert "project R.a AS a" in plan("SELECT a FROM S [NOW] RIGHT JOIN R [NOW] USING (a)")
    assert "project coalesce(S.a, R.a) AS a" in plan("SELECT a FROM S [NOW] FULL JOIN R [NOW] USING (a)")
    assert "unknown column 'b'" in error("SELECT 1 FROM S [NOW] JOIN R [NOW] USING (b)").message


def test_names() -> None:
    assert names("SELECT * FROM S [NOW], R [NOW]") == ("a", "b", "name", "t", "R_a", "c", "R_t")
    assert names("SELECT R.*, S.b FROM S [NOW], R [NOW]") == ("a", "c", "t", "b")
    assert names("SELECT NAME, s.B AS Bee, KEY FROM S [NOW], W [NOW]") == ("NAME", "Bee", "KEY")
    assert names("SELECT * FROM W") == ("Key", "v", "ok", "t")
    assert names("SELECT a+1, sum( b ), a AS x, b AS x FROM S") == ("a+1", "sum(b)", "x", "x_2")
    assert names("SELECT x.a, y.a, x.a FROM S [NOW] x, S [NOW] y") == ("a", "y_a", "x_a")


def test_a_name_that_a_join_equates_takes_the_first() -> None:
    assert "project S.a AS a" in plan("SELECT a FROM S [NOW], R [NOW] WHERE S.a = R.a")
    assert "project S.a AS a" in plan("SELECT a FROM S [NOW] JOIN R [NOW] ON (R.a = S.a)")
    chain = "SELECT a FROM S [NOW], R [NOW], T WHERE S.a = R.a AND R.a = T.a"
    assert "project S.a AS a" in plan(chain)
    e = error("SELECT a FROM S [NOW], R [NOW], T WHERE S.a = R.a")
    assert e.message == "the column 'a' is ambiguous: it may be S.a, R.a, T.a."


def test_subqueries_are_relations_and_their_streams_take_windows() -> None:
    inner = "SELECT a FROM S [ROWS 3]"
    assert plan(f"SELECT * FROM ({inner}) x").splitlines()[1] == "└─ project S.a AS x.a"
    windowed = plan(f"SELECT * FROM ({inner}) [ROWS 9] AS x")
    assert "istream" in windowed
    for text in (
        "SELECT * FROM (SELECT Istream(a) FROM S [ROWS 3])[ROWS 9] x",
        "SELECT * FROM Istream(SELECT a FROM S [ROWS 3]) [ROWS 9] AS x",
        "SELECT * FROM (Istream(SELECT a FROM S [ROWS 3])) x [ROWS 9]",
        f"WITH x AS ({inner}) SELECT * FROM x [ROWS 9]",
    ):
        assert plan(text) == windowed
    assert "rstream" in plan("SELECT * FROM (SELECT Rstream(a) FROM S [ROWS 3])[ROWS 9] x")
    assert names(f"SELECT * FROM ({inner})") == ("a",)
    assert names(f"SELECT * FROM ((SELECT a FROM S [NOW]) UNION ({inner})) x") == ("a",)


def test_a_definition_in_with_sees_earlier_ones_only() -> None:
    text = "WITH x AS (SELECT a FROM S [NOW]), y AS (SELECT a + 1 AS b FROM x) SELECT y.b FROM x, y"
    assert names(text) == ("b",)
    assert "unknown stream" in error("WITH x AS (SELECT * FROM y), y AS (SELECT a FROM S) SELECT * FROM x").message
    assert names("WITH S AS (SELECT b FROM S [NOW]) SELECT * FROM S") == ("b",)


def test_the_column_list_of_with_names_the_columns() -> None:
    assert names("WITH y(k, x) AS (SELECT b, a FROM S [NOW]) SELECT * FROM y") == ("k", "x")
    swapped = plan("WITH y(b, a) AS (SELECT a, b FROM S [NOW]) SELECT a FROM y")
    assert swapped == plan("WITH y AS (SELECT a AS b, b AS a FROM S [NOW]) SELECT a FROM y")
    assert names("WITH y(k) AS (SELECT a FROM S [NOW] UNION SELECT b FROM S [NOW]) SELECT Y.K FROM y") == ("K",)
    assert names("WITH y(k) AS (Istream(SELECT a FROM S [ROWS 2])) SELECT k FROM y [NOW]") == ("k",)
    assert names("WITH y(k, n) AS (SELECT a, count(*) FROM S [ROWS 2] GROUP BY a) SELECT n FROM y") == ("n",)


def test_with_before_a_stream_operator_is_with_inside_it() -> None:
    clause, query = "WITH x AS (SELECT a FROM S [ROWS 3])", "SELECT a FROM x UNION SELECT b AS a FROM S [NOW]"
    inside = plan(f"Dstream({clause} {query})")
    assert plan(f"{clause} Dstream({query})") == inside
    around = "SELECT * FROM ({}) [ROWS 9] y"
    assert plan(around.format(f"{clause} Istream({query})")) == plan(around.format(f"Istream({clause} {query})"))
    nested = "WITH z AS (SELECT b FROM S [NOW]) Istream(WITH y AS (SELECT b FROM z) SELECT y.b FROM y, z)"
    assert names(nested) == ("b",)


def test_an_inner_with_may_repeat_an_outer_name() -> None:
    outer = "WITH x AS (SELECT a FROM S [NOW])"
    inner = "WITH x AS (SELECT a AS c FROM x) SELECT c FROM x"
    for text in (f"{outer} SELECT * FROM ({inner}) y", f"{outer} ({inner})", f"{outer} Istream({inner})"):
        assert names(text) == ("c",)


def test_a_query_of_with_that_nobody_reads_does_not_set_the_kind_of_time() -> None:
    assert bound("WITH x AS (SELECT size FROM P [NOW]) SELECT a FROM S [NOW]").time_kind is TimeKind.INTEGER


def test_views() -> None:
    hot = "SELECT a FROM S WHERE b > 3"
    assert plan("SELECT * FROM v [ROWS 5]", v=hot).splitlines()[3].strip(" └─") == "project S.a AS a"
    assert plan("SELECT * FROM v", v=hot) == plan("SELECT * FROM (SELECT a FROM S WHERE b > 3) v")
    counts = "SELECT a, count(*) AS n FROM S [ROWS 9] GROUP BY a"
    assert not bound("SELECT x.n FROM v x WHERE x.n > 3", v=counts).is_stream
    assert bound("SELECT Istream(x.n) FROM v x", v=counts).is_stream
    deleted = "SELECT Dstream(a) FROM S [ROWS 9]"
    steps = [line.strip("└─ ") for line in plan("SELECT * FROM v", v=deleted).splitlines()]
    assert steps[:5] == ["istream", "project v.a AS a", "window [ROWS UNBOUNDED]", "project a AS v.a", "dstream"]


def test_late_and_invalid() -> None:
    shown = plan("SELECT reason, count(*) AS n FROM late(slow) [ROWS 100] GROUP BY reason", slow="SELECT a FROM S")
    assert "stream late(slow) AS late (late.stream, late.reason, late.row)" in shown
    assert "stream invalid(slow) AS x (x.stream, x.reason, x.row)" in plan(
        "SELECT x.row FROM invalid(slow) x", slow="SELECT a FROM S"
    )
    assert error("SELECT * FROM late(zz)", qq="SELECT a FROM S").message.startswith("unknown query 'zz'")
    assert "there are late(q), invalid(q) and shed(q)" in error("SELECT * FROM early(slow)").message


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("SELECT a FROM SS", "unknown stream or relation 'SS'. Did you mean 'S'?", "SS"),
        ("SELECT 1 FROM S [NOW], S [NOW]", "the name 'S' stands twice in FROM", "S [NOW]"),
        ("SELECT 1 FROM S [NOW] x, R [NOW] X", "the name 'X' stands twice", "R [NOW] X"),
        ("SELECT 1", "a query needs FROM", "1"),
        ("SELECT 1 FROM S [NOW] NATURAL JOIN R [NOW]", "NATURAL JOIN is not supported", None),
        ("SELECT 1 FROM S [NOW] LEFT JOIN R [NOW]", "LEFT JOIN needs ON or USING", None),
        ("SELECT 1 FROM S [NOW] SEMI JOIN R [NOW] ON S.a = R.a", "SEMI JOIN is a condition in WHERE", None),
        ("SELECT 1 FROM (S [NOW] JOIN T ON S.a = T.a) x", "a join in parentheses takes no alias", "x"),
        ("SELECT a FROM S ORDER BY a", "ORDER BY needs LIMIT", "a"),
        ("SELECT a FROM S LIMIT 3", "LIMIT needs ORDER BY", "3"),
        ("SELECT a FROM S UNION SELECT a FROM R ORDER BY a", "ORDER BY needs LIMIT", "a"),
        ("SELECT DISTINCT ON (a) b FROM S", "DISTINCT ON is not supported", None),
        ("SELECT a, FROM S", "something is missing after ','", "FROM"),
        ("SELECT a FROM flights", "'flights'. Declare it before the query: CREATE STREAM flights FROM '…'", "flights"),
        ("SELECT a b c FROM S", "unexpected 'c'.", "c"),
        ("SELECT a FROM S WHERE (a > 3", "expected ')', but the text ends here.", None),
        ("SELECT a FROM S WHERE a >", "something is missing here", None),
        ("SELECT a FROM", "expected the name of a stream or relation", None),
        ("SELECT a FROM S,", "expected the name of a stream or relation", None),
        ("SELECT a FROM S AS", "expected a name after AS", None),
        ("SELECT Istream(a), b FROM S", "Istream(…) encloses the whole select list", "Istream(a)"),
        ("SELECT Istream(a FROM S", "expected ')', but found 'FROM'.", "FROM"),
        ("Istream(SELECT Istream(a) FROM S)", "a query has one stream operator, and this one has two.", None),
        ("SELECT x.* FROM S", "unknown stream or relation 'x'", None),
        ("SELECT a FROM S; SELECT b FROM S", "the text holds several statements", "SELECT b FROM S"),
        ("", "the text holds no query", None),
        ("CREATE STREAM s FROM 'x'", "this statement is not a query", None),
        ("SELECT P.size FROM P [NOW], S [NOW]", "P has timestamp time, S has integer time", "S [NOW]"),
        ("SELECT P.size FROM P [NOW] WHERE size IN (SELECT a FROM U)", "U has integer time", "U"),
        ("WITH y(k) AS (SELECT a, b FROM S) SELECT k FROM y", "y names 1 columns, but its query has 2", "k"),
        ("WITH y(k, l) AS (SELECT a FROM S) SELECT k FROM y", "y names 2 columns, but its query has 1", "k, l"),
        ("WITH y(k, K) AS (SELECT a, b FROM S) SELECT k FROM y", "y has two columns 'K'", "K"),
        ("WITH y AS (SELECT a FROM S), Y AS (SELECT b FROM S) SELECT 1 FROM y", "WITH defines 'Y' twice", "Y"),
        ("WITH y AS (SELECT a FROM S) 5", "WITH must be followed by SELECT", None),
        ("WITH y AS (SELECT a FROM S)", "WITH must be followed by SELECT", None),
        ("WITH y AS (SELECT a FROM S), SELECT 1 FROM y", "expected the name of a query in WITH", "SELECT"),
        ("WITH y AS (SELECT nope FROM S) SELECT a FROM S", "unknown column 'nope'", "nope"),
        ("WITH RECURSIVE x AS (SELECT a FROM x) SELECT a FROM x", "WITH RECURSIVE is not supported", None),
    ],
)
def test_mistakes(text: str, message: str, place: str | None) -> None:
    e = error(text)
    assert message in e.message
    if place is not None:
        assert underlined(e) == place


def test_options_name_and_target_are_kept() -> None:
    query = bound("hot: INSERT INTO 'out.csv' SELECT a FROM S WHERE b > 3 WITH (filters = 'sweep')")
    assert (query.name, query.target, dict(query.options)) == ("hot", "out.csv", {"filters": "sweep"})
    assert query.text == "SELECT a FROM S WHERE b > 3"


def test_model_is_a_word_where_no_equation_follows() -> None:
    text = "SELECT S.a, c FROM S MODEL S.a = S.a + S.b * t JOIN R MODEL R.c = R.c + t^2 ON (S.a < R.c)"
    assert names(text)[:3] == ("_from", "_to", "_closed")
    e = error("SELECT a FROM S MODEL S.a = S.a + S.nothing * t")
    assert underlined(e) == "nothing"
    assert names("SELECT model.a FROM S model") == ("a",)
