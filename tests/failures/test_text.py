"""Mistakes in the text of a job: status 2, one sentence, the place underlined, and no result at all."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest

import eddyline as ed
from tests.failures.conftest import Run

# The query, what is underlined, and part of what is said.
MISTAKES = [
    # names
    ("SELECT nam FROM S", "nam", "unknown column 'nam'. Did you mean 'name'?"),
    ("SELECT zzz FROM S", "zzz", "unknown column 'zzz'. The columns are ts, k, v, name."),
    ("SELECT x.v FROM S", "x.v", "unknown stream or relation 'x' in this query"),
    ("SELECT v FROM SS", "SS", "unknown stream or relation 'SS'. Did you mean 'S'?"),
    ("SELECT uper(name) FROM S", "uper(name)", "unknown function 'uper'. Did you mean 'upper'?"),
    ("SELECT v FROM late(q)", "late(q)", "unknown query 'q'"),
    # types
    ("SELECT v FROM S WHERE name", "name", "WHERE needs a condition, not string"),
    ("SELECT v FROM S WHERE NOT v", "v", "NOT wants conditions, not bigint"),
    ("SELECT v FROM S WHERE v AND k = 1", "v", "WHERE needs a condition, not bigint"),
    ("SELECT sum(true) AS s FROM S", "sum(true)", "boolean"),
    ("SELECT v + true AS x FROM S", None, "add cannot combine bigint and boolean"),
    ("SELECT v FROM S WHERE k IN (SELECT k, label FROM R)", None, "IN compares 1 column with a query of 2"),
    ("SELECT v FROM S UNION SELECT v, k FROM S", "v, k FROM S", "the same number of columns, not 1 and 2"),
    ("SELECT v FROM S UNION SELECT true AS b FROM S", None, "UNION cannot combine bigint"),
    ("SELECT CAST(v AS colour) AS x FROM S", None, "colour"),
    ("SELECT substring(name) AS x FROM S", "substring(name)", "substring takes 2 to 3 arguments, not 1"),
    ("SELECT v FROM S WHERE v > 'many'", "'many'", "the text 'many' cannot be read as bigint"),
    ("SELECT v FROM S WHERE v BETWEEN 1 AND 'x'", "'x'", "the text 'x' cannot be read as bigint"),
    ("SELECT w FROM T WHERE at > 'noon'", "'noon'", "the text 'noon' cannot be read as timestamp"),
    # texts, names and comments that do not end
    ("SELECT 'abc FROM S", "'abc FROM S;", "this string does not end: a closing ' is missing"),
    ('SELECT "abc FROM S', '"abc FROM S;', 'this name does not end: a closing " is missing'),
    ("SELECT v FROM S /* why", "/*", "this comment does not end"),
    ("SELECT v FROM S WHERE (v > 3", ";", "expected ')'"),
    ("SELECT v FROM S [ROWS 3", ";", "expected ']' at the end of the window"),
    # shape
    ("SELEC v FROM S", "SELEC", "Did you mean 'SELECT'?"),
    ("SELECT v", None, "needs FROM"),
    ("SELECT v FROM", None, "expected the name of a stream or relation"),
    ("DROP STREAM S", "DROP", "a query starts with SELECT"),
    ("CREATE STREEM Z FROM 's.csv'", "STREEM", "Did you mean 'STREAM'?"),
    ("SELECT v FROM S ORDER BY v", "v", "ORDER BY needs LIMIT"),
    ("SELECT v FROM S LIMIT 3", "3", "LIMIT needs ORDER BY"),
    ("SELECT sum(v) AS s FROM S WHERE sum(v) > 3", "sum(v)", "the aggregate sum is not allowed in WHERE"),
    ("SELECT v FROM S GROUP BY k", "v", "neither grouped nor aggregated"),
    ("SELECT now() AS t FROM S", "now()", "depends on its elements only, not on the clock"),
    # windows and time
    ("SELECT v FROM S [RANGE 5 PARSECS]", "PARSECS", "unknown unit 'PARSECS'"),
    ("SELECT v FROM S [RANGE 5 MINUTS]", "MINUTS", "Did you mean 'minutes'?"),
    ("SELECT v FROM S [RANGE 0.5 SECONDS]", "0.5 SECONDS", "not a whole number of ticks"),
    ("SELECT v FROM S [RANGE -1]", "-1", "must not be negative"),
    ("SELECT v FROM S [ROWS 0]", "0", "ROWS needs a whole number larger than 0"),
    ("SELECT v FROM S [ROWS 2.5]", "2.5", "ROWS needs a whole number larger than 0"),
    ("SELECT v FROM S [ROWS 3 SLIDE 2]", "SLIDE", "[ROWS n SLIDE m] is not supported"),
    ("SELECT v FROM S [RANGE 10 SLIDE 0]", "0", "SLIDE must be larger than 0"),
    ("SELECT a.v FROM S a, S b WHERE a.k = b.k", "S b", "joined without windows: give each a window"),
    ("SELECT S.v FROM S [NOW], T [NOW]", None, "one kind of time: S has integer time, T has timestamp time"),
    # options and names given twice
    ("SELECT v FROM S WITH (on_eror = 'stop')", "on_eror", "unknown option 'on_eror'. Did you mean 'on_error'?"),
    ("SELECT v FROM S WITH (on_error = 'ignore')", "on_error", "one of stop, invalid, not 'ignore'"),
    ("SELECT v FROM S WITH (scheduler = 'best')", "best", "unknown scheduling policy 'best'. There are: fifo, greedy"),
    ("q: SELECT v FROM S; q: SELECT k FROM S", "q", "two queries are called 'q'"),
    ("CREATE VIEW s AS SELECT v FROM S; SELECT * FROM s", "s", "the name 's' is already taken by one of the streams"),
    ("CREATE STREAM R FROM 's.csv' TIMESTAMP BY ts", "R", "the name 'R' is already taken by one of the relations"),
    ("CREATE STREAM Z FROM 's.csv' WITH (delimitr = ';')", "delimitr", "unknown option 'delimitr'. Did you mean"),
    ("CREATE STREAM Z FROM 's.csv' SLACK 5 PARSECS", "PARSECS", "unknown unit"),
    ("CREATE STREAM Z (a int, A int) FROM 's.csv'", "A", "the column 'A' is declared twice"),
    ("CREATE STREAM Z (a colour) FROM 's.csv'", "colour", "unknown type"),
    ("CREATE RELATION Z FROM 's.csv' KEY (z)", "z", "'Z' has no column 'z'"),
    ("CREATE RELATION Z FROM 's.csv' SIGN BY k", "k", "TIMESTAMP BY must say when"),
    ("CREATE RELATION Z FROM 's.csv' KEY (k) SIGN BY v", None, "not both"),
]


@pytest.mark.parametrize(("query", "place", "said"), MISTAKES, ids=[m[0][:40] for m in MISTAKES])
def test_a_mistake_in_the_text(run: Run, query: str, place: str | None, said: str) -> None:
    done = run(f"SELECT v FROM S;\n{query};", "--out", "results")
    assert done.status == 2
    assert said in done.message
    assert "\n  line 5, column " in done.err
    assert place is None or done.underlined == place
    assert done.out == "" and done.made() == []


@pytest.mark.parametrize(("query", "place", "said"), MISTAKES, ids=[m[0][:40] for m in MISTAKES])
def test_a_mistake_in_a_text_from_python(query: str, place: str | None, said: str) -> None:
    session = ed.Session()
    session.stream("S", [{"ts": 1, "k": 1, "v": 10, "name": "a"}], timestamp="ts")
    session.relation("R", [{"k": 1, "label": "one"}])
    session.stream("T", [{"at": datetime(2024, 1, 1), "w": 1.5}], timestamp="at")
    if query.startswith("CREATE ") and " FROM 's.csv'" in query:
        return  # files belong to jobs: the command line has tried it
    with pytest.raises(ed.CqlError) as caught:
        session.execute(f"SELECT v FROM S;\n{query};")
    assert said in caught.value.message
    assert caught.value.span is not None and caught.value.line == 2
    if place is not None:
        assert caught.value.text[caught.value.span.start :].startswith(place)


def test_nothing_remains_of_a_query_that_could_not_start() -> None:
    session = ed.Session()
    session.stream("S", [{"ts": 1, "v": 10}], timestamp="ts")
    with pytest.raises(ed.JobError, match="unknown option 'fast'"):
        session.query("q: SELECT v FROM S", fast=True)
    assert session.query("q: SELECT v FROM S").to_arrow().num_rows == 1


def declaring(**named: object) -> Callable[[ed.Session], object]:
    return lambda s: s.stream("S", [{"ts": 1, "v": 1}], timestamp="ts", **named)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (declaring(slack="5 bananas"), "unknown unit 'bananas'"),
        (declaring(slack="soon"), "slack is a number or a text such as '5 seconds', '99 %' or 'auto', not 'soon'"),
        (declaring(slack=-1), "slack must not be negative"),
        (declaring(slack=0.5), "not a whole number of ticks"),
        (declaring(idle=-1), "idle must not be negative"),
        (declaring(delimitr=";"), "unknown option 'delimitr'. Did you mean 'delimiter'?"),
        (lambda s: s.stream("S", [{"time": 1}], timestamp="tme"), "has no column 'tme'. Did you mean 'time'?"),
        (lambda s: s.stream("S", 5, timestamp="ts"), "cannot be read as a source"),
        (lambda s: s.stream("S", []), "empty, so its columns are unknown"),
        (lambda s: s.stream("S"), "needs a source, or a schema"),
        (lambda s: s.relation("R"), "needs a source, or a schema"),
        (lambda s: s.relation("R", [{"a": 1}], key=["b"]), "has no column 'b'"),
        (lambda s: s.relation("R", [{"a": 1}], sign="a"), "TIMESTAMP BY must say when"),
        (lambda s: s.function("f", 5), "must be callable, and a int is not"),
        (lambda s: s.function("f", len, "colour"), "unknown type 'colour'"),
        (lambda s: s.function("f", len, kind="table"), "'row', 'pandas' or 'arrow', not 'table'"),
        (lambda s: s.function("Sum", len), "the function 'Sum' would replace the aggregate"),
        (lambda s: s.aggregate("count", len), "the aggregate 'count' would replace the aggregate"),
        (lambda s: s.aggregate("f", sum, "colour"), "unknown type 'colour'"),
        (lambda s: s.push("S", []), "there is no stream 'S'"),
        (lambda s: s.query("SELECT 1 AS a; SELECT 2 AS b"), "expected one query"),
        (lambda s: s.query("  "), "the text holds no query"),
    ],
)
def test_a_mistake_in_a_call(act: Callable[[ed.Session], object], said: str) -> None:
    with pytest.raises(ed.JobError) as caught:
        act(ed.Session())
    assert said in str(caught.value)
