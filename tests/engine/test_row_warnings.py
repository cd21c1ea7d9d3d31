"""Rows that are left out are told once, with the remedy, while there is time to do something."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import eddyline as ed
from eddyline import cli
from eddyline.engine.row_warnings import LeftOut, Notices

LATE = [{"ts": 5, "a": 1}, {"ts": 2, "a": 2}, {"ts": 6, "a": 3}, {"ts": 1, "a": 4}]


def warned(action: Any) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        action()
    return found


def test_late_rows_are_told_once_with_the_slack_that_would_keep_them() -> None:
    session = ed.Session()
    session.stream("S", LATE, timestamp="ts")
    query = session.query("SELECT Istream(a) FROM S")
    (told,) = warned(query.to_arrow)
    assert told.category is ed.LateRowsWarning and told.filename == __file__
    assert str(told.message) == (
        "2 late rows of S left out so far; a slack of 5 would have kept them; query.late() shows such rows."
    )
    other = ed.Session()
    other.stream("S", LATE, timestamp="ts", slack=5)
    assert warned(other.query("SELECT Istream(a) FROM S").to_arrow) == []


def test_the_slack_that_is_named_is_the_smallest() -> None:
    for slack, kept in ((4, 3), (5, 4)):
        session = ed.Session()
        session.stream("S", LATE, timestamp="ts", slack=slack)
        assert session.query("SELECT Istream(a) FROM S").to_arrow().num_rows == kept


def test_pushed_rows_are_told_once_and_a_second_stream_for_itself() -> None:
    session = ed.Session()
    for name in ("S", "T"):
        session.stream(name, schema=pa.schema([("ts", pa.int64())]), timestamp="ts")
        session.query(f"SELECT * FROM {name}")

    def push() -> None:
        for name in ("S", "S", "T", "S"):
            session.push(name, [{"ts": 9}, {"ts": 1}])

    assert [str(w.message).split(" left")[0] for w in warned(push)] == ["1 late row of S", "1 late row of T"]


def test_invalid_rows_of_streams_relations_and_expressions() -> None:
    session = ed.Session()
    session.stream("S", [{"ts": 1, "a": 1}, {"ts": None, "a": 2}, {"ts": 3, "a": 0}], timestamp="ts")
    session.relation("R", [{"k": 1}, {"k": "x"}], schema=pa.schema([("k", pa.int64())]))
    query = session.query("q: SELECT Istream(4 / a) FROM S, R WHERE k = 1 WITH (on_error = 'invalid')")
    told = warned(query.to_arrow)
    assert {w.category for w in told} == {ed.InvalidRowsWarning}
    texts = sorted(str(w.message) for w in told)
    assert [t.split(" left")[0] for t in texts] == [f"1 invalid row of {n}" for n in "RSq"]
    assert "the timestamp 'ts' is NULL" in texts[1] and "division by zero" in texts[2]
    assert "is not a value of type bigint" in texts[0] and "shows such rows" not in texts[0]


def test_a_warning_made_an_error_leaves_the_session_whole() -> None:
    session = ed.Session()
    session.stream("S", schema=pa.schema([("ts", pa.int64())]), timestamp="ts")
    query = session.query("SELECT Istream(*) FROM S")
    with warnings.catch_warnings():
        warnings.simplefilter("error", ed.DivertedRowsWarning)
        with pytest.raises(ed.LateRowsWarning):
            session.push("S", [{"ts": 5}, {"ts": 1}])
    session.finish()
    assert query.to_arrow().column("ts").to_pylist() == [5]


def test_a_snapshot_keeps_how_far_rows_were_behind(tmp_path: Path) -> None:
    def declared() -> ed.Session:
        session = ed.Session()
        session.stream("S", schema=pa.schema([("ts", pa.int64())]), timestamp="ts")
        session.query("SELECT * FROM S")
        return session

    session = declared()
    session.push("S", [{"ts": 9}, {"ts": 1}])
    session.snapshot(tmp_path)
    again = declared()
    again.restore(tmp_path)
    assert again.left_out()[0] == session.left_out()[0]
    assert again.left_out()[0].behind == 8


def test_a_snapshot_keeps_what_operators_have_done(tmp_path: Path) -> None:
    """On Spark an engine is rebuilt from its state again and again; the report counts from the start of all."""

    def declared() -> tuple[ed.Session, ed.Query]:
        session = ed.Session()
        session.stream("S", schema=pa.schema([("ts", pa.int64())]), timestamp="ts")
        return session, session.query("SELECT count(*) FROM S [RANGE 3]")

    session, query = declared()
    session.push("S", [{"ts": t} for t in range(9)])
    session.snapshot(tmp_path)
    before = query.report()["operators"]
    session, query = declared()
    session.restore(tmp_path)
    assert query.report()["operators"] == before and before[0]["elements_in"] > 0
    session.push("S", [{"ts": 9}, {"ts": 10}])
    assert query.report()["operators"][0]["elements_in"] > before[0]["elements_in"]


def test_mostly_late_means_the_wrong_column() -> None:
    notices = Notices()
    few = LeftOut("S", arrived=99, late=98, behind=7, column="price")
    assert list(notices.wrong_times([few])) == []
    many = LeftOut("S", arrived=1000, late=980, behind=7, column="price")
    (text,) = notices.wrong_times([many])
    assert text.startswith("98 % of the first 1,000 rows of S are late: is 'price' its column of time?")
    assert list(notices.wrong_times([many])) == []


def test_the_command_line_says_at_once_that_the_column_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "".join(f"{i},{50 - i % 50}\n" for i in range(300))
    (tmp_path / "s.csv").write_text(f"ts,price\n{rows}")
    job = tmp_path / "job.cql"
    job.write_text("CREATE STREAM S FROM 's.csv' TIMESTAMP BY price;\nSELECT Istream(*) FROM S;")
    said_while_writing: list[str] = []

    from eddyline.engine.outputs import Outputs

    close = Outputs.close

    def closing(self: Outputs) -> None:
        said_while_writing.append(capsys.readouterr().err)
        close(self)

    monkeypatch.setattr(Outputs, "close", closing)
    assert cli.main(["run", str(job), "--quiet", "--out", str(tmp_path / "o.csv")]) == 0
    (early,) = said_while_writing
    assert early.startswith("note: 98 % of the first 300 rows of S are late: is 'price' its column of time?")
    late = capsys.readouterr().err
    assert late == (
        "note: 294 late rows of S left out; a slack of 49 would have kept them;"
        " name the query (q: SELECT …), and SELECT * FROM late(q) shows such rows.\n"
    )


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("", "name the query (q: SELECT …), and SELECT * FROM invalid(q) shows such rows."),
        ("q: ", "invalid(q) shows such rows."),
    ],
)
def test_the_command_line_gives_a_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, remedy: str
) -> None:
    (tmp_path / "s.csv").write_text(f"ts,v\n1,2\n2,{'x' * 1000}\n3,y\n")
    job = tmp_path / "job.cql"
    job.write_text(
        f"CREATE STREAM S (ts bigint, v bigint) FROM 's.csv' TIMESTAMP BY ts;\n{name}SELECT Istream(*) FROM S;"
    )
    assert cli.main(["run", str(job), "--quiet", "--out", str(tmp_path / "o.csv")]) == 0
    said = capsys.readouterr().err
    assert said.startswith("note: 2 invalid rows of S left out (s.csv, line 3: column 'v': 'xxx")
    assert said.endswith(f" is not a value of type bigint); {remedy}\n")
    assert len(said) < 400


def test_a_query_behind_the_end_of_its_source_is_told() -> None:
    session = ed.Session()
    session.stream("S", pa.table({"ts": [1, 2], "a": [1, 2]}), timestamp="ts")
    assert session.query("SELECT a FROM S").to_arrow().num_rows == 2
    with pytest.warns(ed.MissedRowsWarning, match="sees no rows of S: what it reads was read to its end before"):
        late = session.query("SELECT a FROM S")
    assert late.to_arrow().num_rows == 0
