"""JSON lines: types, missing fields, malformed lines."""

from __future__ import annotations

import gzip
import io
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eddyline as ed
from eddyline import cli
from eddyline.core.errors import DataError, JobError, MissingColumnWarning
from eddyline.io.jsonl import JsonLinesSource, JsonLinesStream, JsonParser
from eddyline.io.resolve import open_source
from tests.io.read import invalid, reasons, rows


def write(folder: Path, content: str | bytes, name: str = "calls.jsonl") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("stray", ["null", " null", '{"ts": 2} null', '{"ts": 2}null{"ts": 3}'])
def test_a_null_beside_objects_is_a_malformed_line_and_does_not_end_the_process(tmp_path: Path, stray: str) -> None:
    path = write(tmp_path, f'{stray}\n{{"ts": 1}}\n{{"ts": 4, "a": "}} null"}}\n')
    source = JsonLinesSource([path], pa.schema([("ts", pa.int64()), ("a", pa.string())]))
    assert rows(source) == [{"ts": 1, "a": None}, {"ts": 4, "a": "} null"}]
    assert reasons(source) == ["calls.jsonl, line 1: not a JSON object"]


def test_types_missing_and_unknown_fields(tmp_path: Path) -> None:
    path = write(tmp_path, '{"ts": 1, "v": 2}\n\n{"v": 2.5, "t": "2024-05-01T10:00:00.5Z", "list": [{"a": 1}]}\n')
    source = JsonLinesSource([path])
    assert dict(zip(source.schema.names, source.schema.types, strict=True)) == {
        "ts": pa.int64(), "v": pa.float64(), "t": pa.timestamp("us"),
    }  # fmt: skip
    assert rows(source) == [
        {"ts": 1, "v": 2.0, "t": None},
        {"ts": None, "v": 2.5, "t": datetime(2024, 5, 1, 10, 0, 0, 500000)},
    ]
    declared = JsonLinesSource([path], pa.schema([("v", pa.float64()), ("w", pa.string())]))
    assert rows(declared) == [{"v": 2.0, "w": None}, {"v": 2.5, "w": None}]


def test_malformed_lines(tmp_path: Path) -> None:
    lines = ['{"ts": 1}', "oops", '{"ts": "x"}', "[1]", '{"ts": 1.5}', '{"ts": 99999999999999999999}', '{"ts": 7}']
    source = JsonLinesSource([write(tmp_path, "\n".join(lines))], pa.schema([("ts", pa.int64())]))
    assert [r["ts"] for r in rows(source)] == [1, 7]
    assert reasons(source) == [
        "calls.jsonl, line 2: not a JSON object",
        "calls.jsonl, line 3: field 'ts': 'x' is not a value of type bigint",
        "calls.jsonl, line 4: not a JSON object",
        "calls.jsonl, line 5: field 'ts': 1.5 is not a value of type bigint",
        "calls.jsonl, line 6: field 'ts': 99999999999999999999 is not a value of type bigint",
    ]
    assert [i.row for i in invalid(source)] == lines[1:6]


def test_types_that_arrow_reads_as_texts(tmp_path: Path) -> None:
    declared = pa.schema([("d", pa.date32()), ("b", pa.binary()), ("m", pa.decimal128(6, 2))])
    path = write(tmp_path, '{"d": "2024-05-01", "b": "xy", "m": 1.25}\n{"d": "May"}\n{"m": 1.255}\n')
    source = JsonLinesSource([path], declared)
    assert len(rows(source)) == 1
    assert reasons(source) == [
        "calls.jsonl, line 2: field 'd': 'May' is not a value of type date",
        "calls.jsonl, line 3: field 'm': 1.255 is not a value of type decimal(6,2)",
    ]


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    source = JsonLinesSource([write(tmp_path, b'{"s": "ok"}\n{"s": "\xff"}\n')])
    assert rows(source) == [{"s": "ok"}] and len(invalid(source)) == 1


def test_one_object_a_line(tmp_path: Path) -> None:
    source = JsonLinesSource(
        [write(tmp_path, '{"a": 1}\n{"a":\n2}\n{"a": 3} {"a": 4}\n')], pa.schema([("a", pa.int64())])
    )
    assert rows(source) == [{"a": 1}] and len(invalid(source)) == 3


def test_compressed_and_empty(tmp_path: Path) -> None:
    assert rows(open_source(write(tmp_path, gzip.compress(b'{"a": 1}\n'), "a.jsonl.gz"))) == [{"a": 1}]
    with pytest.raises(JobError, match=r"calls\.jsonl holds no JSON object"):
        JsonLinesSource([write(tmp_path, "")])
    assert rows(JsonLinesSource([write(tmp_path, "")], pa.schema([("a", pa.int64())]))) == []


values = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text())


@settings(max_examples=100, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(["a", "b"]), values), max_size=8))
def test_a_row_is_judged_alone(objects: list[dict[str, Any]]) -> None:
    """What a line means does not depend on its neighbours, nor on which way it was read."""
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    lines = [json.dumps(o) for o in objects]

    def read(texts: list[str]) -> tuple[list[Any], int]:
        import io

        data = io.BytesIO("".join(f"{t}\n" for t in texts).encode())
        batches = list(JsonParser(schema).read(data.read, "t", ["a", "b"], 100))
        return [r for b in batches for r in b.rows.to_pylist()], sum(len(b.invalid) for b in batches)

    good, bad = read([*lines, "malformed"])
    alone = [read([line]) for line in lines]
    assert good == [r for g, _ in alone for r in g]
    assert bad == 1 + sum(b for _, b in alone)


def test_declared_columns_are_found_in_any_case_and_missing_ones_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"ts": 1, "speed": 2, "more": 3}\n{"ts": 2, "speed": null}\n')
    schema = pa.schema([("TS", pa.int64()), ("speed", pa.int64()), ("sped", pa.int64())])
    source = JsonLinesSource([path], schema)
    assert rows(source) == [{"ts": 1, "speed": 2, "sped": None}, {"ts": 2, "speed": None, "sped": None}]
    told = "a.jsonl: none of the first 2 objects has a field 'sped', so this column is NULL. Did you mean 'speed'?"
    assert source.notes == (told,)
    with pytest.warns(MissingColumnWarning) as caught:
        ed.Session(strict=True, base=tmp_path).stream("S", "a.jsonl", "ts", schema=schema)
    assert [(str(w.message), w.filename) for w in caught] == [(told, __file__)]
    assert JsonLinesSource([path], pa.schema([("ts", pa.int64())])).notes == ()


def test_the_command_line_notes_a_missing_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.jsonl").write_text('{"ts": 1, "v": 2}\n')
    job = tmp_path / "job.cql"
    job.write_text("CREATE STREAM S (ts bigint, w bigint) FROM 'a.jsonl' TIMESTAMP BY ts;\nSELECT Istream(w) FROM S;")
    assert cli.main(["run", str(job), "--runtime", "inline", "--quiet", "--out", str(tmp_path / "o.csv")]) == 0
    assert capsys.readouterr().err == "note: a.jsonl: the only object has no field 'w', so this column is NULL.\n"


@pytest.mark.parametrize("columns", [None, ["a"], ["p.id", "ts"]])
def test_a_stream_that_is_read_once_has_its_declared_columns_in_any_case(columns: list[str] | None) -> None:
    declared = pa.schema([("ts", pa.int64()), ("a", pa.int64()), ("p.id", pa.int64())])
    body = b'\nnull\n{"TS": 1, "A": 3, "P": {"ID": 4}}\n{"TS": 2, "A": "x"}\n{"TS": 5}\n'
    found = list(JsonLinesStream(io.BytesIO(body), "standard input", declared).open(columns))
    wanted = columns or declared.names
    kept = [{"ts": 1, "a": 3, "p.id": 4}, {"ts": 5, "a": None, "p.id": None}]
    assert [r for b in found for r in b.rows.to_pylist()] == [{c: row[c] for c in wanted} for row in kept]
    reasons = [r.reason for b in found for r in b.invalid]
    assert len(reasons) == 2 and "line 4: field 'A': 'x' is not a value of type bigint" in reasons[1]


def test_utf16_is_said(tmp_path: Path) -> None:
    path = write(tmp_path, '{"ts": 1}\n'.encode("utf-16"))
    with pytest.raises(DataError, match=r"calls\.jsonl is UTF-16 text: save it as UTF-8\."):
        rows(JsonLinesSource([path], pa.schema([("ts", pa.int64())])))
