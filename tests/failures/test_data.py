"""Odd, bad and extreme data: counted, kept or refused, but never answered wrongly in silence."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import eddyline as ed
from tests.failures.conftest import Outcome, Run

X = "CREATE STREAM X FROM 'x.csv' TIMESTAMP BY ts{};\n"


def table(done: Outcome) -> list[tuple[str, ...]]:
    """The rows of CSV on standard output."""
    assert (done.status, done.err) == (0, ""), done.err
    return [tuple(r) for r in csv.reader(io.StringIO(done.out))][1:]


def session(rows: Any, timestamp: str = "ts", **named: Any) -> ed.Session:
    made = ed.Session()
    made.stream("X", rows, timestamp=timestamp, **named)
    return made


# ── overflow ──────────────────────────────────────────────────────────────────────────────────────────────────────

HALF = 1 << 62


def test_a_sum_that_overflows_stops(run: Run) -> None:
    data = f"ts,v\n1,{HALF}\n2,{HALF}\n3,1\n"
    done = run("SELECT sum(v) AS s FROM X [RANGE 1];", "--out", "o.csv", files={"x.csv": data}, head=X.format(""))
    assert done.status == 1
    assert "sum(v) overflows a 64-bit integer" in done.message
    assert done.made() == ["x.csv"]


@pytest.mark.parametrize("window", ["", "[RANGE 1]", "[ROWS 2]", "[RANGE 2 SLIDE 2]", "[PARTITION BY g ROWS 2]"])
@pytest.mark.parametrize("group", ["", "GROUP BY g"])
@pytest.mark.parametrize("sign", [1, -1])
def test_no_sum_overflows_in_silence(window: str, group: str, sign: int) -> None:
    rows = [{"ts": t, "g": 1, "v": sign * (HALF + 1)} for t in (1, 2, 2, 4)]
    query = session(rows).query(f"SELECT sum(v) AS s FROM X {window} {group}")
    with pytest.raises(ed.DataError, match=r"sum\(v\) overflows a 64-bit integer"):
        query.to_arrow()


def test_a_sum_may_pass_beyond_64_bits_within_an_instant() -> None:
    """Accumulated wider: what counts is the sum at the end of each instant."""
    rows = [{"ts": 1, "v": v} for v in (HALF, HALF, HALF, -HALF, -HALF)]
    assert session(rows).query("SELECT sum(v) AS s FROM X").to_arrow()["s"].to_pylist() == [HALF]


@pytest.mark.parametrize("expression", ["v * 4", "v + v", "-v - v - v", "abs(-v - v)"])
def test_arithmetic_that_overflows(run: Run, expression: str) -> None:
    files: dict[str, str | bytes] = {"x.csv": f"ts,v\n1,1\n2,{HALF}\n"}
    done = run(f"SELECT {expression} AS x FROM X;", "--out", "o.csv", files=files, head=X.format(""))
    assert done.status == 1
    assert "integer overflow" in done.message and done.made() == ["x.csv"]


# ── errors in expressions ─────────────────────────────────────────────────────────────────────────────────────────

FAILING = [
    ("SELECT 100 / (v - 30) AS x FROM S", "division by zero in '100.0 / (S.v - 30)'"),
    ("SELECT v % (k - 2) AS x FROM S WHERE k IS NOT NULL", "by zero in 'S.v % (S.k - 2)'"),
    ("SELECT v FROM S WHERE v / (k - 2) > 3", "division by zero in 'S.v / (S.k - 2)'"),
    ("SELECT CAST(name AS INT) AS x FROM S", "cannot read 'a' as int in 'CAST(S.name AS int)'"),
    ("SELECT v + name AS x FROM S", "cannot read 'a' as bigint"),
    ("SELECT sum(v / (k - 2)) AS x FROM S [ROWS 3]", "division by zero"),
    ("SELECT a.v FROM S [ROWS 3] a, S [ROWS 3] b WHERE a.k = b.k AND a.v / (b.k - 2) > 1", "division by zero"),
]


@pytest.mark.parametrize(
    ("query", "row"),
    [
        ("SELECT 100 / (v - 30) AS x FROM S", "a row of S at time 3: v = 30 (s.csv, line 4)."),
        ("SELECT v FROM S WHERE v / (k - 2) > 3", "a row of S at time 3: v = 30, k = 2 (s.csv, line 4)."),
        (
            "SELECT a.v FROM S [ROWS 3] a, S [ROWS 3] b WHERE a.k = b.k AND a.v / (b.k - 2) > 1",
            "a row of S at time 3: a.v = 30, a.k = 2, b.k = 2 (a: s.csv, line 4; b: s.csv, line 4).",
        ),
        ("SELECT CAST(w AS INT) / 0 AS x FROM T", "a row of T at time 2024-01-01 00:00:00: w = 1.5 (t.csv, line 2)."),
        ("SELECT 1 / (n - 3) AS x FROM (SELECT count(*) AS n FROM S [RANGE 9])", "a row at time 3: n = 3."),
    ],
)
def test_the_row_is_named(run: Run, query: str, row: str) -> None:
    _, _, told = run(f"{query};").message.partition(", for ")
    named, expected = told.rstrip(".").partition(" ("), row.rstrip(".").partition(" (")
    assert named[2] == expected[2]  # where the row stands in its file
    assert sorted(named[0].replace(": ", ", ").split(", ")) == sorted(expected[0].replace(": ", ", ").split(", "))


@pytest.mark.parametrize(("query", "said"), FAILING, ids=[f[0][:45] for f in FAILING])
def test_an_expression_that_fails_stops_the_query(run: Run, query: str, said: str) -> None:
    done = run(f"{query};", "--out", "o.csv")
    assert done.status == 1
    assert said in done.message and "\n" not in done.message
    assert done.made() == []


@pytest.mark.parametrize(("query", "said"), FAILING, ids=[f[0][:45] for f in FAILING])
def test_on_error_invalid_diverts_the_row(run: Run, query: str, said: str) -> None:
    job = f"q: INSERT INTO 'q.csv' {query} WITH (on_error = 'invalid');\nSELECT stream, reason, row FROM invalid(q);"
    done = run(job, "--out", "results", "--report", "report.json")
    report = json.loads(Path("report.json").read_text())
    (note,) = done.notes
    assert note.startswith(f"{report['invalid']} invalid row") and " of q " in note
    assert report["invalid"] == report["queries"]["q"]["invalid"] >= 1
    assert report["events"] == 4  # what fails in a query has arrived once only
    rows = pa.parquet.read_table("results/query_2.parquet").to_pylist()
    assert len(rows) == report["invalid"]
    assert all(r["stream"] == "q" for r in rows) and said in rows[0]["reason"]


def test_on_error_invalid_keeps_the_good_rows(run: Run) -> None:
    done = run("SELECT 100 / (v - 30) AS x FROM S WITH (on_error = 'invalid');", "--out", "-")
    (note,) = done.notes
    assert note.startswith("1 invalid row of query 1 ")
    assert [line.split(",")[1] for line in done.out.splitlines()[1:]] == ["1", "2", "5"]
    query = session([{"ts": t, "v": v} for t, v in ((1, 0), (2, 4))]).query(
        "SELECT 8 / v AS x FROM X WITH (on_error = 'invalid')"
    )
    assert query.to_arrow().to_pylist() == [{"x": 2.0, "_time": 2}]
    (bad,) = query.invalid()
    assert bad["_at"] == 1 and "division by zero" in bad["_reason"] and json.loads(bad["_row"]) == {"X.v": 0}


def test_errors_of_one_query_are_not_those_of_another() -> None:
    made = session([{"ts": 1, "v": 0}, {"ts": 2, "v": 1}])
    bad = made.query("bad: SELECT 1 / v AS x FROM X WITH (on_error = 'invalid')")
    good = made.query("good: SELECT v FROM X")
    seen = made.query("SELECT reason FROM invalid(good)")
    made.run()
    assert (len(bad.invalid()), len(good.invalid()), seen.to_arrow().num_rows) == (1, 0, 0)


def test_an_error_is_forgotten_where_another_conjunct_drops_the_row(run: Run) -> None:
    done = run("SELECT v FROM S WHERE 1 / (v - 30) < 1 AND v <> 30;", "--out", "-")
    assert [v for v, _ in table(done)] == ["10", "20", "40"]


# ── users' functions ──────────────────────────────────────────────────────────────────────────────────────────────


def boom(value: int) -> bool:
    if value == 2:
        raise LookupError("no such value")
    return True


UDFS: list[tuple[Callable[..., Any], str, str, str]] = [
    (boom, "boolean", "row", "LookupError: no such value in 'f(X.v)'"),
    (lambda v: v.map(boom), "boolean", "pandas", "LookupError: no such value in 'f(X.v)'"),
    (lambda v: pa.array([boom(i) for i in v.to_pylist()]), "boolean", "arrow", "LookupError: no such value"),
    (lambda v: "many" if v == 2 else True, "boolean", "row", "f returned 'many', which is no bool"),
    (lambda v, w: True, "boolean", "row", "missing 1 required positional argument: 'w'"),
]


@pytest.mark.parametrize(("function", "returns", "kind", "said"), UDFS)
def test_a_function_that_fails(function: Callable[..., Any], returns: str, kind: str, said: str) -> None:
    rows = [{"ts": t, "v": t} for t in (1, 2, 3)]
    made = session(rows)
    made.function("f", function, returns, kind=kind)
    with pytest.raises(ed.DataError) as caught:
        made.query("SELECT v FROM X WHERE f(v)").to_arrow()
    assert said in str(caught.value)
    if "positional" in said:
        return  # fails for every row
    made = session(rows)
    made.function("f", function, returns, kind=kind)
    query = made.query("SELECT v FROM X WHERE f(v)", on_error="invalid")
    assert query.to_arrow()["v"].to_pylist() == [1, 3]
    assert said in query.invalid()[0]["_reason"]


@pytest.mark.parametrize(("kind", "result"), [("pandas", [True]), ("arrow", pa.array([True]))])
def test_a_vectorised_function_that_returns_too_little(kind: str, result: Any) -> None:
    made = session([{"ts": t, "v": t} for t in (1, 2, 3)])
    made.function("f", lambda _: result, kind=kind)
    with pytest.raises(ed.JobError, match=r"'f' returned 1 values for \d rows"):
        made.query("SELECT v FROM X WHERE f(v)").to_arrow()


def test_a_function_with_declared_arguments() -> None:
    made = session([{"ts": 1, "v": 1}])
    made.function("f", lambda v: True, arguments=["bigint"])
    for call, said in (("f(v, v)", "f takes 1 argument, not 2"), ("f(true)", "f wants bigint as argument 1")):
        with pytest.raises(ed.CqlError, match=said):
            made.query(f"SELECT v FROM X WHERE {call}")


@pytest.mark.parametrize(
    ("function", "said"),
    [(lambda values: 1 / 0, "ZeroDivisionError"), (lambda values: "many", "many")],
)
def test_an_aggregate_that_fails(function: Callable[[list[Any]], Any], said: str) -> None:
    made = session([{"ts": 1, "v": 1}])
    made.aggregate("g", function)
    with pytest.raises(ed.DataError, match=f"the aggregate g failed .*{said}"):
        made.query("SELECT g(v) AS x FROM X").to_arrow()


# ── order ─────────────────────────────────────────────────────────────────────────────────────────────────────────

DISORDER = [(1, "a"), (5, "b"), (3, "c"), (2, "d"), (9, "e"), (6, "f")]


def test_disorder_beyond_the_slack_is_counted_and_kept(run: Run) -> None:
    data = "ts,v\n" + "".join(f"{t},{v}\n" for t, v in DISORDER)
    job = "q: SELECT v FROM X;\nSELECT stream, reason, row FROM late(q);"
    done = run(
        job, "--out", "results", "--report", "-", "--strict", files={"x.csv": data}, head=X.format(" SLACK 2")
    )  # late rows are not malformed: strict does not mind them
    (note,) = done.notes
    assert note.startswith("2 late rows of X ")
    report = json.loads(done.out)
    assert (report["events"], report["late"], report["invalid"]) == (6, 2, 0)
    on_time = pa.parquet.read_table("results/q.parquet").to_pylist()
    assert [(r["_time"], r["v"]) for r in on_time] == [(1, "a"), (3, "c"), (5, "b"), (9, "e")]
    late = pa.parquet.read_table("results/query_2.parquet").to_pylist()
    assert [json.loads(r["row"]) for r in late] == [{"ts": 2, "v": "d"}, {"ts": 6, "v": "f"}]
    assert all("more than the slack behind" in r["reason"] for r in late)


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_what_is_late_does_not_depend_on_batches(size: int) -> None:
    schema = pa.schema([("ts", pa.int64()), ("v", pa.string())])
    made = ed.Session()
    made.stream("X", schema=schema, timestamp="ts", slack=2)
    query = made.query("SELECT v FROM X")
    for i in range(0, len(DISORDER), size):
        made.push("X", [{"ts": t, "v": v} for t, v in DISORDER[i : i + size]])
    made.finish()
    assert "".join(query.to_arrow()["v"].to_pylist()) == "acbe"
    assert [r["v"] for r in query.late()] == ["d", "f"]
    assert query.report()["late"] == 2


def test_two_streams_with_equal_timestamps(run: Run) -> None:
    """Everything of one instant is seen together, whichever stream is read first."""
    files: dict[str, str | bytes] = {"x.csv": "ts,a\n1,x\n2,y\n2,z\n", "y.csv": "ts,b\n2,p\n2,q\n3,r\n"}
    streams = ["CREATE STREAM X FROM 'x.csv' TIMESTAMP BY ts;\n", "CREATE STREAM Y FROM 'y.csv' TIMESTAMP BY ts;\n"]
    expected = sorted([(a, b, "2") for a in "yz" for b in "pq"])
    for head in (streams, streams[::-1]):
        for froms in ("X [NOW], Y [NOW]", "Y [NOW], X [NOW]"):
            job = f"SELECT Istream(a, b) FROM {froms};"
            assert sorted(table(run(job, "--out", "-", files=files, head="".join(head)))) == expected


# ── NULL, NaN, nothing ────────────────────────────────────────────────────────────────────────────────────────────


def test_null_keys_match_nothing_and_form_one_group(run: Run) -> None:
    joined = "SELECT Istream(S.v, label) FROM S [RANGE 9], R WHERE S.k = R.k;"
    assert [v for v, *_ in table(run(joined, "--out", "-"))] == ["10", "20", "30"]
    left = "SELECT Istream(S.v, label) FROM S [RANGE 9] LEFT JOIN R ON S.k = R.k;"
    assert table(run(left, "--out", "-"))[-1] == ("40", "", "5")
    self = "SELECT Istream(a.v, b.v AS w) FROM S [RANGE 9] a, S [RANGE 9] b WHERE a.k = b.k AND a.v = b.v;"
    assert [v for v, *_ in table(run(self, "--out", "-"))] == ["10", "20", "30"]
    grouped = "SELECT Istream(k, count(*) AS n) FROM S [RANGE 9] GROUP BY k;"
    assert table(run(grouped, "--out", "-"))[-1] == ("", "1", "5")
    inside = "SELECT Istream(v) FROM S WHERE k IN (SELECT k FROM R);"
    assert [v for v, _ in table(run(inside, "--out", "-"))] == ["10", "20", "30"]
    outside = "SELECT Istream(v) FROM S WHERE k NOT IN (SELECT k FROM R WHERE k > 1);"
    assert [v for v, _ in table(run(outside, "--out", "-"))] == ["10", "20"]


def test_a_null_in_a_relation_makes_not_in_unknown(run: Run) -> None:
    job = "SELECT Istream(v) FROM S WHERE k NOT IN (SELECT k FROM R);"
    assert table(run(job, "--out", "-", files={"r.csv": "k,label\n2,two\n,none\n"})) == []


def test_nan_equals_itself_and_is_the_largest(run: Run) -> None:
    files: dict[str, str | bytes] = {"x.csv": "ts,x\n1,NaN\n2,1.0\n3,nan\n4,inf\n5,-inf\n6,-0.0\n7,0.0\n"}

    def answer(query: str) -> list[tuple[str, ...]]:
        return table(run(query, "--out", "-", files=files, head=X.format("")))

    assert [t for _, t in answer("SELECT Istream(x) FROM X WHERE x > 1;")] == ["1", "3", "4"]
    assert [t for _, t in answer("SELECT Istream(DISTINCT x) FROM X;")] == ["1", "2", "4", "5", "6"]
    pairs = answer("SELECT Istream(a.ts, b.ts AS u) FROM X [ROWS 9] a, X [ROWS 9] b WHERE a.x = b.x AND a.ts < b.ts;")
    assert [p[:2] for p in pairs] == [("1", "3"), ("6", "7")]
    sums = answer("SELECT Rstream(sum(x) AS s, min(x) AS lo, max(x) AS hi) FROM X [ROWS 2];")
    assert [r[:3] for r in sums] == [
        ("nan", "nan", "nan"), ("nan", "1", "nan"), ("nan", "1", "nan"), ("nan", "inf", "nan"),
        ("nan", "-inf", "inf"), ("-inf", "-inf", "0"), ("0", "0", "0"),
    ]  # fmt: skip


def test_empty_windows(run: Run) -> None:
    ungrouped = table(run("SELECT count(*) AS n, sum(v) AS s FROM S [NOW] WHERE v > 90;", "--out", "-"))
    assert ungrouped == [("0", "", "1", "1")]
    emptied = table(run("SELECT sum(v) AS s FROM S [NOW];", "--out", "-"))
    assert emptied[-4:] == [("30", "4", "-1"), ("", "4", "1"), ("", "5", "-1"), ("40", "5", "1")]
    assert table(run("SELECT k, sum(v) AS s FROM S [NOW] WHERE v > 90 GROUP BY k;", "--out", "-")) == []
    assert table(run("SELECT Istream(a.v) FROM S [NOW] a, S [NOW] b WHERE a.v < b.v;", "--out", "-")) == []
    slides = table(run("SELECT Rstream(count(*) AS n) FROM S [RANGE 1 SLIDE 4];", "--out", "-"))
    assert slides == [("0", "1"), ("0", "2"), ("0", "3"), ("0", "4"), ("0", "5")]


def test_huge_strings(run: Run) -> None:
    huge = ["x" * 5_000_000, "y" * 5_000_000, "x" * 5_000_000]
    files: dict[str, str | bytes] = {"x.csv": "ts,a\n" + "".join(f"{t},{a}\n" for t, a in enumerate(huge))}
    job = "SELECT Istream(length(a) AS n, count(*) AS c) FROM X [ROWS 3] GROUP BY a;"
    done = run(job, "--out", "-", files=files, head=X.format(""))
    assert sorted(table(done)) == [("5000000", "1", "0"), ("5000000", "1", "1"), ("5000000", "2", "2")]
    shown = run("SELECT a FROM X;", files=files, head=X.format(""))
    assert shown.status == 0 and max(map(len, shown.out.splitlines())) < 100
    rows = [{"ts": t, "a": a} for t, a in enumerate(huge)]
    pairs = session(rows).query("SELECT x.ts FROM X [ROWS 9] x, X [ROWS 9] y WHERE x.a = y.a AND x.ts < y.ts")
    assert pairs.to_arrow()["ts"].to_pylist() == [0]


# ── malformed rows ────────────────────────────────────────────────────────────────────────────────────────────────

MALFORMED: dict[str, tuple[str | bytes, list[str]]] = {
    "m.csv": (
        "ts,v\n" + "".join(f"{t},1\n" for t in range(1, 60)) + '60,"sixty\n',
        [],
    ),
    "n.csv": (
        "ts,v\n" + "".join(f"{t},1\n" for t in range(1, 60)) + "x,5\n60,six\n70\n80,8,8\n,9\n",
        [
            "n.csv, line 61: column 'ts': 'x' is not a value of type bigint",
            "n.csv, line 62: column 'v': 'six' is not a value of type bigint",
            "n.csv, line 63: 1 field instead of 2",
            "n.csv, line 64: 3 fields instead of 2",
            "the timestamp 'ts' is NULL",
        ],
    ),
    "m.jsonl": (
        "".join(f'{{"ts": {t}, "v": 1}}\n' for t in range(1, 60))
        + '{"ts": 60, "v": "six"}\nhello\n[1]\n{"v": 1}\n{"ts": 61',
        [
            "m.jsonl, line 60: field 'v': 'six' is not a value of type bigint",
            "m.jsonl, line 61: not a JSON object",
            "m.jsonl, line 62: not a JSON object",
            "m.jsonl, line 64: not a JSON object",
            "the timestamp 'ts' is NULL",
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ["n.csv", "m.jsonl"])
def test_malformed_rows_are_counted_and_kept(run: Run, name: str) -> None:
    data, reasons = MALFORMED[name]
    head = f"CREATE STREAM X FROM '{name}' TIMESTAMP BY ts;\n"
    job = "q: SELECT v FROM X;\nSELECT reason, row FROM invalid(q);"
    done = run(job, "--out", "results", "--report", "-", files={name: data}, head=head)
    (note,) = done.notes
    assert note.startswith("5 invalid rows of X ")
    report = json.loads(done.out)
    assert (report["invalid"], report["events"], report["queries"]["q"]["results"]) == (5, 64, 59)
    assert sorted(pa.parquet.read_table("results/query_2.parquet")["reason"].to_pylist()) == sorted(reasons)


@pytest.mark.parametrize("name", ["m.csv", "n.csv", "m.jsonl"])
@pytest.mark.parametrize("how", ["--strict", "WITH (strict = true)"])
def test_strict_stops_at_the_first(run: Run, name: str, how: str) -> None:
    option = how if how.startswith("WITH") else ""
    arguments = [] if option else [how]
    head = f"CREATE STREAM X FROM '{name}' TIMESTAMP BY ts {option};\n"
    done = run("SELECT v FROM X;", "--out", "o.csv", *arguments, files={name: MALFORMED[name][0]}, head=head)
    assert done.status == 1
    assert name in done.message and ", line " in done.message
    assert done.made() == [name]


def test_strict_stops_at_a_null_timestamp(run: Run) -> None:
    done = run("SELECT v FROM X;", "--strict", files={"x.csv": "ts,v\n1,1\n,2\n"}, head=X.format(""))
    assert done.status == 1
    assert "row 2 of 'X' is invalid: the timestamp 'ts' is NULL" in done.message


def test_a_malformed_row_of_a_relation_is_counted(run: Run) -> None:
    files: dict[str, str | bytes] = {"r.csv": "k,label\n1,one\n2\n"}
    done = run("SELECT Istream(v) FROM S, R WHERE S.k = R.k;", "--out", "o.csv", "--report", "-", files=files)
    assert json.loads(done.out)["invalid"] == 1
    assert run("SELECT Istream(v) FROM S, R WHERE S.k = R.k;", "--strict", files=files).status == 1


def test_a_result_that_is_read_again_keeps_its_columns_apart(run: Run) -> None:
    assert run("SELECT v FROM S [ROWS 1];", "--out", "again.csv").status == 0
    head = "CREATE STREAM A FROM 'again.csv' TIMESTAMP BY _time;\n"
    done = run("SELECT * FROM A [NOW];", "--out", "-", head=head)
    assert done.out.splitlines()[:2] == ['"v","_time_2","_sign_2","_time","_sign"', "10,1,1,1,1"]
