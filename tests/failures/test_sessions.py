"""Misuse of a session from Python: pushing the wrong things, or to the wrong place, and restoring what does not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import eddyline as ed

SCHEMA = pa.schema([("ts", pa.int64()), ("v", pa.int64()), ("name", pa.string())])
GOOD = {"ts": 1, "v": 2, "name": "x"}


def pushed(strict: bool = False, text: str = "SELECT v, name FROM S") -> tuple[ed.Session, ed.Query]:
    session = ed.Session(strict=strict)
    session.stream("S", schema=SCHEMA, timestamp="ts")
    return session, session.query(text)


@pytest.mark.parametrize(
    "rows",
    [
        pa.record_batch({"ts": [1], "v": [2]}),
        pa.table({"ts": [1], "v": [2]}),
        pd.DataFrame({"ts": [1], "v": [2]}),
    ],
)
def test_a_column_is_missing(rows: Any) -> None:
    session, query = pushed()
    with pytest.raises(ed.JobError, match=r"no column 'name'\. .* ts, v\."):
        session.push("S", rows)
    session.push("S", [GOOD])  # the session goes on
    session.finish()
    assert query.to_arrow().num_rows == 1


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{**GOOD, "v": "many"}], "column 'v': 'many' is not a value of type bigint"),
        ([{**GOOD, "v": True}], "column 'v': True is not a value of type bigint"),
        ([{**GOOD, "ts": None}], "the timestamp 'ts' is NULL"),
        ([(1, 2)], "2 values instead of 3"),
        ([7], "a int is not a row"),
        (pa.record_batch({"ts": [1], "v": ["many"], "name": ["x"]}), "column 'v': 'many' is not a valid int64"),
        (pa.record_batch({"ts": [1.5], "v": [2], "name": ["x"]}), "column 'ts': 1.5 is not a valid int64"),
        (pa.table({"ts": [1], "v": ["many"], "name": ["x"]}), "column 'v': 'many' is not a value of type bigint"),
        (pd.DataFrame({"ts": [1], "v": ["many"], "name": ["x"]}), "column 'v': 'many' is not a value of type bigint"),
    ],
)
def test_a_value_of_the_wrong_type(rows: Any, said: str) -> None:
    session, query = pushed()
    session.push("S", rows)
    session.push("S", [GOOD])
    session.finish()
    assert query.to_arrow()["v"].to_pylist() == [2]
    assert said in query.invalid()[0]["_reason"]
    assert (query.report()["events"], query.report()["invalid"]) == (2, 1)
    session, _ = pushed(strict=True)
    with pytest.raises(ed.DataError, match=r"row.* of 'S' is invalid"):
        session.push("S", rows)


@pytest.mark.parametrize("rows", [5, None, object()])
def test_what_holds_no_rows(rows: Any) -> None:
    session, _ = pushed()
    with pytest.raises(ed.JobError, match="cannot be read as a source"):
        session.push("S", rows)


def test_after_the_end() -> None:
    session, query = pushed()
    session.push("S", [GOOD])
    session.finish("S")
    with pytest.raises(ed.EddylineError, match="'S' has ended; no more rows can be pushed to it"):
        session.push("S", [GOOD])
    session.finish()
    assert query.to_arrow().num_rows == 1


def test_names_that_are_not_there() -> None:
    session, query = pushed()
    with pytest.raises(ed.JobError, match="there is no stream 'T'"):
        session.push("T", [GOOD])
    with pytest.raises(ed.JobError, match="there is no stream 'T'"):
        session.heartbeat("T", 5)
    with pytest.raises(ed.JobError, match="there is no stream 'T'"):
        session.finish("T")
    query.drop()
    with pytest.raises(ed.EddylineError, match="is not running"):
        query.drop()


def test_a_view_that_is_taken_or_wrong() -> None:
    session, _ = pushed()
    session.view("w", "SELECT v FROM S")
    with pytest.raises(ed.JobError, match="the name 'W' is already taken"):
        session.view("W", "SELECT v FROM S")
    with pytest.raises(ed.CqlError, match="unknown column 'vv'"):
        session.view("x", "SELECT vv FROM S")


def test_restoring_what_does_not_fit(tmp_path: Path) -> None:
    with pytest.raises(ed.EddylineError, match="there is no snapshot in"):
        pushed()[0].restore(tmp_path)
    session, _ = pushed()
    session.push("S", [GOOD])
    number = session.snapshot(tmp_path)
    with pytest.raises(ed.EddylineError, match="made by other streams or queries"):
        pushed(text="SELECT v FROM S")[0].restore(tmp_path)
    with pytest.raises(ed.EddylineError, match="made by other streams or queries"):
        ed.Session().restore(tmp_path)
    other, _ = pushed()
    other.stream("T", schema=SCHEMA, timestamp="ts")
    with pytest.raises(ed.EddylineError, match="made by other streams or queries"):
        other.restore(tmp_path)
    again, query = pushed()
    again.restore(tmp_path)
    again.finish()
    assert query.to_arrow().num_rows == 1

    manifest = tmp_path / f"{number}.json"
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**content, "format": 99}))
    with pytest.raises(ed.EddylineError, match="has format 99, this version reads"):
        pushed()[0].restore(tmp_path)
    for broken in ("{", "[]"):
        manifest.write_text(broken)
        with pytest.raises(ed.EddylineError, match="is no snapshot"):
            pushed()[0].restore(tmp_path)
    manifest.write_text(json.dumps(content))
    for piece in (tmp_path / "pieces").iterdir():
        piece.unlink()
    with pytest.raises(ed.EddylineError, match="is not whole"):
        pushed()[0].restore(tmp_path)
