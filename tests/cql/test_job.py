"""Statements of a job."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from eddyline.core.errors import CqlError, JobError
from eddyline.core.time import TimeKind
from eddyline.cql.job import CreateRelation, CreateStream, CreateView, QueryStatement, parse_job, resolve_duration
from eddyline.cql.windows import IntervalText

JOB = """
-- a job
CREATE STREAM packets (ts timestamp, size int, price decimal(10, 2), x double precision)
  FROM 'packets/*.parquet' TIMESTAMP BY ts SLACK INTERVAL '5' SECOND IDLE 3
  WITH (format = 'csv', header = true, depth = -3, ratio = 0.5, mode = fast);
/* relations */
CREATE RELATION exposed FROM 'subnets.csv' TIMESTAMP BY t KEY (a, b);
CREATE RELATION signed FROM 's.csv' TIMESTAMP BY t SIGN BY s WITH (strict = off);
CREATE VIEW hot AS SELECT * FROM packets WHERE size > 900;
busy: SELECT count(*) FROM hot [ROWS 10];
INSERT INTO 'out.csv' SELECT Istream(*) FROM hot WITH (filters = 'sweep', strict_order = TRUE);
both: INSERT INTO 'x.jsonl' SELECT * FROM hot
"""


def test_all_statements() -> None:
    stream, relation, signed, view, named, insert, both = parse_job(JOB)
    assert isinstance(stream, CreateStream)
    assert stream.columns == (
        ("ts", pa.timestamp("us")),
        ("size", pa.int32()),
        ("price", pa.decimal128(10, 2)),
        ("x", pa.float64()),
    )
    assert (stream.source, stream.timestamp) == ("packets/*.parquet", "ts")
    assert stream.slack == IntervalText(Decimal(5), "second")
    assert stream.idle == IntervalText(Decimal(3), None)
    assert stream.options == {"format": "csv", "header": True, "depth": -3, "ratio": 0.5, "mode": "fast"}
    assert isinstance(relation, CreateRelation)
    assert (relation.key, relation.sign, relation.timestamp, relation.columns) == (("a", "b"), None, "t", None)
    assert isinstance(signed, CreateRelation)
    assert (signed.sign, signed.options) == ("s", {"strict": False})
    assert isinstance(view, CreateView)
    assert (view.name, view.query_text) == ("hot", "SELECT * FROM packets WHERE size > 900")
    assert isinstance(named, QueryStatement)
    assert (named.name, named.target) == ("busy", None)
    assert isinstance(insert, QueryStatement)
    assert (insert.name, insert.target) == (None, "out.csv")
    assert insert.options == {"filters": "sweep", "strict_order": True}
    assert insert.query_text == "SELECT Istream(*) FROM hot"
    assert isinstance(both, QueryStatement)
    assert (both.name, both.target) == ("both", "x.jsonl")


def test_every_statement_carries_the_text_and_its_place() -> None:
    for statement in parse_job(JOB):
        assert statement.text == JOB
        part = JOB[statement.span.start : statement.span.end]
        assert not part.endswith(";")
        assert part.split()[0] in ("CREATE", "busy:", "INSERT", "both:")


def test_an_empty_job_has_no_statements() -> None:
    assert parse_job(" ;; -- nothing\n") == ()


@pytest.mark.parametrize(
    ("width", "timestamp", "integer"),
    [
        ("5 SECONDS", 5_000_000, 5),
        ("INTERVAL '5' SECOND", 5_000_000, 5),
        ("INTERVAL 5 SECONDS", 5_000_000, 5),
        ("'5 seconds'", 5_000_000, 5),
        ("5", 5_000_000, 5),
        ("1.5 minutes", 90_000_000, 90),
        ("2 weeks", 1_209_600_000_000, 1_209_600),
    ],
)
def test_widths(width: str, timestamp: int, integer: int) -> None:
    (statement,) = parse_job(f"CREATE STREAM s FROM 'x' SLACK {width}")
    assert isinstance(statement, CreateStream)
    assert statement.slack is not None
    assert resolve_duration(statement.slack, TimeKind.TIMESTAMP) == timestamp
    assert resolve_duration(statement.slack, TimeKind.INTEGER) == integer


def test_a_width_below_one_tick_is_refused() -> None:
    (statement,) = parse_job("CREATE STREAM s FROM 'x' SLACK 500 milliseconds")
    assert isinstance(statement, CreateStream)
    assert statement.slack is not None
    assert resolve_duration(statement.slack, TimeKind.TIMESTAMP) == 500_000
    with pytest.raises(CqlError, match="not a whole number of ticks"):
        resolve_duration(statement.slack, TimeKind.INTEGER)


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("CREATE STREEM s FROM 'x'", "expected STREAM, RELATION or VIEW .* Did you mean 'STREAM'", "STREEM"),
        ("CREATE STREAM s FROM x", "expected the source in quotes, but found 'x'", "x"),
        ("CREATE STREAM s 'x'", "expected FROM and the source", "'x'"),
        ("CREATE STREAM s (a int) TIMESTAMP BY a", "Where rows are pushed, Python", "TIMESTAMP"),
        ("CREATE STREAM s (a bigit) FROM 'x'", "unknown type 'bigit'. Did you mean 'bigint'", "bigit"),
        ("CREATE STREAM s (a int, A int) FROM 'x'", "'A' is declared twice", "A"),
        ("CREATE STREAM s (a int FROM 'x'", "unknown type", "int FROM 'x'"),
        ("CREATE STREAM s FROM 'x' SLAK 5", "Did you mean 'SLACK'", "SLAK"),
        ("CREATE STREAM s FROM 'x' SLACK 5 secnds", "unknown unit 'secnds'. Did you mean 'seconds'", "secnds"),
        ("CREATE STREAM s FROM 'x' SLACK", "SLACK needs a width", None),
        ("CREATE STREAM s FROM 'x' SLACK 1 SLACK 2", "SLACK is given twice", "SLACK"),
        ("CREATE STREAM s FROM 'x' WITH (a = )", r"expected a value, but found '\)'", ")"),
        ("CREATE STREAM s FROM 'x' WITH (a = 1, a = 2)", "'a' is given twice", "a"),
        ("CREATE RELATION r FROM 'x' TIMESTAMP BY t KEY (a) SIGN BY s", "not both", None),
        ("CREATE VIEW v SELECT * FROM s", "expected AS", "SELECT"),
        ("q:", "expected a query", None),
        ("INSERT INTO out SELECT * FROM s", "expected the path to write to, as in 'results.parquet', in quotes", "out"),
        ("SELECT * FROM s WITH (filters = 'x') foo", "unexpected 'foo'", "foo"),
        ("SELECT a FROM s\nSELECT b FROM s", "if a new statement starts here, a ';' is missing before it.", "SELECT"),
        ("SELECT a FROM s [NOW]\nCREATE STREAM t FROM 'x'", "unexpected 'CREATE': if a new statement", "CREATE"),
        ("SELECT a FROM s\nq: SELECT b FROM s", "unexpected ':': if a named query starts here, a ';' is", ":"),
        ("SELECT a FROM s WHERE a > 1\nq: SELECT b FROM s", "unexpected 'q': if a new statement starts here", "q"),
        ("SELCT * FROM s", "Did you mean 'SELECT'", "SELCT"),
        ("DROP TABLE s", "a query starts with SELECT, but found 'DROP'", "DROP"),
    ],
)
def test_mistakes(text: str, message: str, place: str | None) -> None:
    with pytest.raises(CqlError, match=message) as caught:
        parse_job(text)
    error = caught.value
    assert isinstance(error, JobError)
    assert error.exit_status == 2
    assert error.span is not None
    if place is not None:
        assert text[error.span.start : error.span.end] == place


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT 'abc FROM s", "this string does not end"),
        ("SELECT “abc FROM s", "this string does not end: a closing ” is missing"),
        ('SELECT "abc FROM s', "this name does not end"),
        ("SELECT a /* comment FROM s", "this comment does not end"),
        ("SELECT 'it''s' , 'abc FROM s", "this string does not end"),
    ],
)
def test_unterminated_text(text: str, message: str) -> None:
    with pytest.raises(CqlError, match=message) as caught:
        parse_job(text)
    assert caught.value.span is not None


def test_the_place_is_in_the_whole_job() -> None:
    with pytest.raises(CqlError) as caught:
        parse_job("SELECT a FROM s;\nSELECT b FROM s [ROWZ 5];")
    assert (caught.value.line, caught.value.column) == (2, 18)
    assert "ROWS" in str(caught.value)
