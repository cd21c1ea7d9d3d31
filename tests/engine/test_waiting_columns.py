"""Elements that wait in a queue while the columns that are read of their stream change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import eddyline as ed

SCHEMA = pa.schema([(n, pa.int64()) for n in ("ts", "a", "b")])
NARROW, WIDE = (f"SELECT {items} FROM S WHERE b > 1 AND a > 0" for items in ("a", "ts, a"))


def start(*texts: str) -> tuple[ed.Session, list[Any]]:
    session = ed.Session()
    session.stream("S", schema=SCHEMA, timestamp="ts")
    return session, [session.query(text) for text in texts]


def rows(first: int) -> pa.RecordBatch:
    times = range(first, first + 10)
    return pa.RecordBatch.from_pylist([{"ts": t, "a": t, "b": t % 5} for t in times], SCHEMA)


def kept(first: int, last: int) -> list[int]:
    return [t for t in range(first, last + 1) if t % 5 > 1]


def waiting(session: ed.Session) -> int:
    return sum(q.size for o in session._graph.operators for q in o.task.inputs)


@pytest.mark.parametrize("restart", [False, True])
def test_the_reader_of_a_column_is_removed(restart: bool, tmp_path: Path) -> None:
    session, (narrow, wide) = start(NARROW, WIDE)
    session.budget = session.quantum = 1
    for first in (1, 11):
        session.push("S", rows(first))
    wide.drop()
    assert waiting(session) > 10
    found = narrow.fetch()
    if restart:
        session.snapshot(tmp_path)
        session, (narrow,) = start(NARROW)
        session.restore(tmp_path)
    session.budget, session.quantum = None, 1 << 16
    session.push("S", rows(21))
    session.finish()
    assert pa.Table.from_batches([*found, *narrow.fetch()])["a"].to_pylist() == kept(1, 30)


@pytest.mark.parametrize("restart", [False, True])
def test_a_reader_of_one_more_column_comes(restart: bool, tmp_path: Path) -> None:
    session, (narrow,) = start(NARROW)
    session.budget = session.quantum = 1
    for first in (1, 11):
        session.push("S", rows(first))
    assert waiting(session) > 10
    wide = session.query(WIDE)
    found = [narrow.fetch(), wide.fetch()]
    if restart:
        session.snapshot(tmp_path)
        session, (narrow, wide) = start(NARROW, WIDE)
        session.restore(tmp_path)
    session.budget, session.quantum = None, 1 << 16
    session.push("S", rows(21))
    session.finish()
    assert pa.Table.from_batches([*found[0], *narrow.fetch()])["a"].to_pylist() == kept(1, 30)
    late = pa.Table.from_batches([*found[1], *wide.fetch()])
    assert late["a"].to_pylist() == late["ts"].to_pylist() == kept(21, 30)
