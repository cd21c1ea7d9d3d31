"""Expressions: types, coercions and what they print as."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.cql.build import bound, condition, error, underlined, value


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a + b * 2 - -3", "S.a + S.b * 2 - -3"),
        ("(a + b) * 2", "(S.a + S.b) * 2"),
        ("a - (b - 1)", "S.a - (S.b - 1)"),
        ("a / b", "CAST(S.a AS DOUBLE) / CAST(S.b AS DOUBLE)"),
        ("a DIV b", "S.a DIV S.b"),
        ("mod(a, 3)", "S.a % 3"),
        ("-a", "-S.a"),
        ("a || name", "concat(CAST(S.a AS STRING), S.name)"),
        ("'it''s'", "'it''s'"),
        ("“q”", "'q'"),
        ("‘q’", "'q'"),
        ("X'00ff'", "X'00FF'"),
        ("CAST(a AS int)", "CAST(S.a AS INT)"),
        ("a::double", "CAST(S.a AS DOUBLE)"),
        ("CAST(a AS bigint)", "S.a"),
        ("TRY_CAST(name AS decimal(10, 2))", "TRY_CAST(S.name AS DECIMAL(10,2))"),
        ("int(name)", "CAST(S.name AS INT)"),
        ("DATE '2020-01-02'", "DATE '2020-01-02'"),
        ("TIMESTAMP '2020-01-02 03:04:05+01:00'", "TIMESTAMP '2020-01-02 02:04:05'"),
        ("INTERVAL '5' SECOND", "INTERVAL '5' SECOND"),
        ("INTERVAL 90 MINUTES", "INTERVAL '90' MINUTE"),
        ("INTERVAL '1 day'", "INTERVAL '1' DAY"),
        ("INTERVAL b SECOND", "S.b * INTERVAL '1' SECOND"),
        ("CASE WHEN a > 3 THEN 1 ELSE 2.5 END", "CASE WHEN S.a > 3 THEN 1.0 ELSE 2.5 END"),
        ("CASE a WHEN 1 THEN 'x' END", "CASE WHEN S.a = 1 THEN 'x' ELSE NULL END"),
        ("IF(a > 1, 2, 3)", "CASE WHEN S.a > 1 THEN 2 ELSE 3 END"),
        ("substring(name FROM 2 FOR 3)", "substring(S.name, 2, 3)"),
        ("substr(name, 2)", "substring(S.name, 2)"),
        ("TRIM(LEADING 'x' FROM name)", "ltrim(S.name, 'x')"),
        ("position('x' IN name)", "locate('x', S.name)"),
        ("extract(year FROM DATE '2020-01-02')", "year(CAST(DATE '2020-01-02' AS TIMESTAMP))"),
        ("date_part('hour', CAST(name AS timestamp))", "hour(CAST(S.name AS TIMESTAMP))"),
        ("sqrt(pow(v, 2))", "sqrt(pow(W.v, 2.0))"),
        ("anything(a, name)", "anything(S.a, S.name)"),
        ("match(name, 'x')", "contains(S.name, 'x')"),
        ('"a"', "S.a"),
        ("`a`", "S.a"),
        ("s.A", "S.a"),
    ],
)
def test_values(written: str, meant: str) -> None:
    assert value(written) == meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("(S.a > 1 AND b < 3 OR NOT ok)", "(S.a > 1 AND S.b < 3 OR NOT W.ok)"),
        ("b BETWEEN 1 AND 3", "S.b >= 1 AND S.b <= 3"),
        ("b NOT BETWEEN 1 AND 3", "NOT (S.b >= 1 AND S.b <= 3)"),
        ("b IN (1, 2)", "S.b IN (1, 2)"),
        ("b NOT IN (1, 2)", "NOT S.b IN (1, 2)"),
        ("(b, v) IN ((1, 2))", "S.b = 1 AND W.v = 2.0"),
        ("name LIKE 'a%'", "S.name LIKE 'a%'"),
        ("name NOT LIKE 'a%'", "NOT S.name LIKE 'a%'"),
        ("name NOT LIKE 'a%' ESCAPE '!'", "NOT S.name LIKE 'a%' ESCAPE '!'"),
        ("name ILIKE 'a%'", "S.name ILIKE 'a%'"),
        ("name RLIKE 'a.*'", "S.name RLIKE 'a.*'"),
        ("name IS NULL", "S.name IS NULL"),
        ("name IS NOT NULL", "S.name IS NOT NULL"),
        ("ok IS TRUE", "W.ok <=> TRUE"),
        ("b IS DISTINCT FROM v", "NOT CAST(S.b AS DOUBLE) <=> W.v"),
        ("ok = true", "W.ok"),
        ("suspicious(name) = TRUE", "suspicious(S.name)"),
        ("Key = b", "CAST(W.Key AS BIGINT) = S.b"),
    ],
)
def test_conditions(written: str, meant: str) -> None:
    assert condition(written) == meant


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("1", pa.int32()),
        ("2147483648", pa.int64()),
        ("-2147483648", pa.int32()),
        ("99999999999999999999", pa.decimal128(20, 0)),
        ("1.5", pa.float64()),
        ("1e3", pa.float64()),
        ("'x'", pa.string()),
        ("NULL", pa.string()),
        ("TRUE", pa.bool_()),
        ("INTERVAL '1' DAY", pa.duration("us")),
        ("a + 1", pa.int64()),
        ("Key + 1", pa.int32()),
        ("Key + v", pa.float64()),
        ("DATE '2020-01-01' + INTERVAL '1' DAY", pa.timestamp("us")),
        ("count(*)", pa.int64()),
        ("sum(Key)", pa.int64()),
        ("avg(Key)", pa.float64()),
        ("min(name)", pa.string()),
        ("median(v)", pa.float64()),
    ],
)
def test_types(written: str, kind: pa.DataType) -> None:
    (field,) = bound(f"SELECT {written} AS x FROM S [ROWS 5], W [ROWS 5]").plan.schema.fields
    assert field.type == kind


@pytest.mark.parametrize(
    ("written", "message", "place"),
    [
        ("sizee", "unknown column 'sizee'", "sizee"),
        ("S.nam", "unknown column 'nam' of S. Did you mean 'name'?", "S.nam"),
        ("X.a", "unknown stream or relation 'X' in this query. It reads S, W.", "X.a"),
        ("t", "the column 't' is ambiguous: it may be S.t, W.t.", "t"),
        ("uper(name)", "unknown function 'uper'. Did you mean 'upper'?", "uper(name)"),
        ("suspicius(name)", "Did you mean 'suspicious'?", "suspicius(name)"),
        ("suspicious(name, a)", "suspicious takes 1 argument, not 2.", "suspicious(name, a)"),
        ("ok + 1", "cannot", "ok + 1"),
        ("ok > 1", "cannot compare boolean and int", "ok > 1"),
        ("CAST(a AS bigit)", "unknown type 'bigit'. Did you mean 'bigint'?", "bigit"),
        ("CAST(ok AS date)", "boolean cannot be cast to date.", None),
        ("DATE '2020-13-01'", "is not a date", None),
        ("TIMESTAMP 'noon'", "is not a timestamp", None),
        ("INTERVAL '1' MONTH", "months have no fixed length", None),
        ("INTERVAL '1 day 2 hours'", "needs one unit", None),
        ("CASE WHEN a THEN 1 END", "WHEN needs a condition, not bigint.", "a"),
        ("CASE WHEN ok THEN 1 ELSE ok END", "no common type: int and boolean", None),
        ("now()", "not on the clock", "now()"),
        ("CURRENT_TIMESTAMP", "not on the clock", "CURRENT_TIMESTAMP"),
        ("a ^ 2", "the operator '^' is not supported", "a ^ 2"),
        ("a[1]", "an index in brackets", None),
        ("S.a.b", "unknown field 'S.a.b': no stream of this query has it.", "S.a.b"),
        ("(SELECT a FROM R)", "a subquery as a value is one aggregate without GROUP BY", None),
        ("a IN (SELECT a FROM R)", "a subquery is not allowed in the select list", None),
        ("(a, b)", "a row of several values", None),
        ("S", "'S' is a stream; as a tuple it can stand only on the left of IN.", "S"),
        ("sum(sum(a))", "the aggregate sum is not allowed inside an aggregate.", "sum(a)"),
        ("sum(*)", "sum(*) does not exist", "sum(*)"),
        ("sum()", "sum needs an argument", "sum()"),
        ("sum(ok)", "sum wants a number, not boolean.", "sum(ok)"),
        ("upper(*)", "only count takes '*'", "upper(*)"),
        (
            "avg(a) OVER (PARTITION BY b)",
            "say which rows: AVG(a) OVER (PARTITION BY b ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)",
            "avg(a) OVER (PARTITION BY b)",
        ),
        ("abs(a) FILTER (WHERE a > 3)", "FILTER (WHERE …) belongs to an aggregate", None),
        ("first(a) FILTER (WHERE a > 3)", "first counts NULLs, so FILTER does not go with it", None),
        ("lag(a) OVER (PARTITION BY b ORDER BY S.t)", "read one stream without a window", None),
        ("ntile(4) OVER (ORDER BY b)", "NTILE() is not supported; a rank beside the number of rows", None),
        ("regexp_extract('a', '(', 1)", "is malformed", None),
        ("Istream(a) + 1", "enclose the whole select list", None),
        ("X'0'", "is not a row of bytes", None),
    ],
)
def test_mistakes(written: str, message: str, place: str | None) -> None:
    e = error(f"SELECT {written} AS x FROM S [ROWS 5], W [ROWS 5]")
    assert message in e.message
    assert e.span is not None
    if place is not None:
        assert underlined(e) == place


def test_a_long_list_of_alternatives() -> None:
    alternatives = " OR ".join(f"a = {i}" for i in range(600))
    assert bound(f"SELECT a FROM S WHERE {alternatives}").is_stream
