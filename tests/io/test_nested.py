"""Structures and lists in files, tables and rows: fields are columns named by their path, lists stay what they are."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline as ed
from eddyline.io.jsonl import JsonLinesSource
from eddyline.io.parquet import ParquetSource

QUERY = """SELECT ts, payload.user.id, S.payload.user.name AS who, payload.size, size(payload.tags) AS tags,
  try_element_at(marks, -1) AS mark FROM S WHERE payload.size IS NULL OR payload.size < 90"""


def draw(count: int, seed: int) -> list[dict[str, Any]]:
    """Rows in which every level may be missing."""
    rng = random.Random(seed)

    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.2 else value

    return [
        {
            "ts": t,
            "payload": maybe(
                {
                    "user": maybe({"id": maybe(rng.randint(0, 9)), "name": maybe(f"n{t}")}),
                    "size": maybe(rng.randint(0, 99)),
                    "tags": maybe([f"t{i}" for i in range(rng.randint(0, 3))]),
                }
            ),
            "marks": maybe([maybe(rng.randint(0, 5)) for _ in range(rng.randint(0, 3))]),
        }
        for t in range(count)
    ]


def expected(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    out = []
    for row in rows:
        payload = row["payload"] or {}
        user, size = payload.get("user") or {}, payload.get("size")
        if size is None or size < 90:
            tags, marks = payload.get("tags"), row["marks"]
            count = None if tags is None else len(tags)
            out.append((row["ts"], user.get("id"), user.get("name"), size, count, marks[-1] if marks else None))
    return out


def sources(rows: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, folder / "s.parquet", row_group_size=40)
    (folder / "s.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    paths = {"parquet": str(folder / "s.parquet"), "jsonl": str(folder / "s.jsonl")}
    return {**paths, "table": table, "rows": rows, "batches": table.to_batches(30)}


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "table", "rows", "batches"])
def test_fields_and_lists_are_read(kind: str, tmp_path: Path) -> None:
    rows = draw(150, 7)
    session = ed.Session()
    session.stream("S", sources(rows, tmp_path)[kind], timestamp="ts")
    found = session.query(QUERY).to_arrow()
    assert found.column_names == ["ts", "id", "who", "size", "tags", "mark", "_time"]
    assert [tuple(r.values())[:-1] for r in found.to_pylist()] == expected(rows)


def test_pushed_batches_and_rows() -> None:
    rows = draw(60, 8)
    table = pa.Table.from_pylist(rows)
    session = ed.Session()
    session.stream("S", schema=table.schema, timestamp="ts")
    query = session.query(QUERY)
    for batch in table.slice(0, 40).to_batches(7):
        session.push("S", batch)
    session.push("S", rows[40:])
    session.heartbeat("S", 1000)
    assert [tuple(r.values())[:-1] for r in query.to_arrow().to_pylist()] == expected(rows)


def test_only_what_is_read_is_decoded(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(draw(20, 1)), tmp_path / "s.parquet")
    source = ParquetSource([tmp_path / "s.parquet"])
    assert source.schema.names[:3] == ["ts", "payload.user.id", "payload.user.name"]
    (batch,) = source.open(["payload.user.id"])
    assert batch.rows.schema.names == ["payload.user.id"]


def test_declared_columns_name_a_path(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"ts": 1, "user": {"Id": 7, "at": "x"}}\n{"ts": 2, "user": {"Id": "no"}}\n{"ts": 3, "user": 4}\n')
    source = JsonLinesSource([path], pa.schema([("ts", pa.int64()), ("user.id", pa.int32())]))
    (batch,) = source.open()
    assert batch.rows.to_pydict() == {"ts": [1], "user.Id": [7]}
    assert [i.reason.split(": ", 1)[1] for i in batch.invalid] == [
        "field 'user.Id': 'no' is not a value of type int",
        "field 'user.Id': {\"user\": 4} is not a value of type int",
    ]


def test_a_key_with_a_point_stays_a_key(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"ts": 1, "a.b": 5}\n')
    source = JsonLinesSource([path])
    assert next(iter(source.open())).rows.to_pydict() == {"ts": [1], "a.b": [5]}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT payload FROM S", r"'payload' is a structure: name one of its fields \(payload\.user\.id"),
        ("SELECT payload['size'] FROM S", r"brackets is not supported: write .*payload\.user for a field"),
        ("SELECT tags[0] FROM S", r"brackets is not supported: write element_at\(tags, 1\)"),
        ("SELECT payload.user FROM S", r"'payload\.user' is a structure"),
        ("SELECT payload.user.ide FROM S", r"unknown field 'payload\.user\.ide'.*Did you mean 'payload\.user\.id'"),
        ("SELECT S.payload.sizes FROM S", r"unknown field 'S\.payload\.sizes'.*Did you mean 'S\.payload\.size'"),
    ],
)
def test_what_is_said_about_a_mistake(text: str, said: str) -> None:
    session = ed.Session()
    session.stream("S", draw(10, 3), timestamp="ts")
    with pytest.raises(ed.CqlError, match=said):
        session.query(text)


def test_relations_have_no_lists() -> None:
    session = ed.Session()
    with pytest.raises(ed.JobError, match="the relation 'R' has lists in its column 'l'"):
        session.relation("R", pa.table({"k": [1], "l": [[1]]}))
    session.relation("Q", pa.Table.from_pylist([{"k": 1, "p": {"v": 5}}]))
    session.stream("S", [{"ts": 1, "k": 1}], timestamp="ts")
    text = "SELECT S.k, q.p.v FROM S JOIN Q q ON S.k = q.k"
    assert session.query(text).to_arrow().to_pylist() == [{"k": 1, "v": 5, "_time": 1}]


def test_lists_of_structures_are_refused() -> None:
    session = ed.Session()
    with pytest.raises(ed.JobError, match=r"column 'items' has the type list<.*leave it out"):
        session.stream("S", pa.Table.from_pylist([{"ts": 1, "items": [{"a": 1}]}]), timestamp="ts")
