"""What gives way to a limit of memory, in which order, and what is told of it."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.core.errors import EddylineError
from eddyline.synopses.row_files import RowFiles

ROWS = 200_000
WIDE = "SELECT Istream(a.ts, b.ts AS other, a.text, b.text AS text2) FROM A [RANGE 100000] a, B [RANGE 100000] b"


def wide(seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    text = pa.array([f"a text of some length with the number {i} in it" for i in range(ROWS)])
    return pa.table({"ts": np.arange(ROWS), "k": random.integers(0, 50_000, ROWS), "text": text})


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    return {"A": wide(1), "B": wide(2)}


def run(tables: dict[str, pa.Table], **options: Any) -> tuple[Any, pa.Table]:
    session = ed.Session(**options)
    for name, table in tables.items():
        session.stream(name, schema=table.schema, timestamp="ts")
    query = session.query(f"{WIDE} WHERE a.k = b.k", name="q")
    batches = []
    for start in range(0, ROWS, 10_000):
        for name, table in tables.items():
            session.push(name, table.slice(start, 10_000))
        batches += query.fetch()
    session.finish()
    return query, pa.Table.from_batches([*batches, *query.fetch()], query.schema)


def memory_decisions(query: Any) -> list[tuple[str, str]]:
    return [(d.before, d.after) for d in query.decisions if d.kind == "memory"]


def test_rows_of_windows_go_to_the_disk_and_the_answer_stays(tables: dict[str, pa.Table], tmp_path: Path) -> None:
    plain, expected = run(tables)
    state = plain.report()["state"]
    assert state["spilled_rows"] == 0 and memory_decisions(plain) == []
    query, found = run(tables, memory="24 MB", spill=str(tmp_path))
    assert found == expected
    limited = query.report()["state"]
    assert limited["bytes"] < 24 << 20 < state["bytes"]
    assert limited["rows"] == state["rows"] and limited["spilled_rows"] > 50_000 and limited["spilled_bytes"] > 1 << 20
    assert memory_decisions(query) == [("in memory", "oldest rows on disk")]
    assert "rows on disk" in query.explain()
    # The files have no names, so nothing is left of them when the process is killed.
    assert not list(tmp_path.glob("*/*.arrow"))


def test_a_state_that_cannot_leave_memory_is_told(tables: dict[str, pa.Table]) -> None:
    query, _ = run(tables, memory="1 MB")
    assert memory_decisions(query)[-1][1] == "above the limit"
    assert "indexes, keys and groups cannot leave memory" in query.explain()


def test_a_full_disk_loses_nothing(tables: dict[str, pa.Table], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: RowFiles, columns: Any) -> Any:
        raise EddylineError("rows cannot be spilled to here: No space left on device.")

    _, expected = run(tables)
    monkeypatch.setattr(RowFiles, "put", full)
    query, found = run(tables, memory="24 MB")
    assert found == expected
    assert memory_decisions(query) == [("in memory", "above the limit")]
    assert "No space left on device" in query.explain()


def test_a_disk_that_refuses_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pa, "OSFile", refuse)
    with pytest.raises(EddylineError, match=r"rows cannot be spilled to .*: No space left on device\.$"):
        RowFiles().put({"a": pa.array([1])})


def test_rows_are_shed_only_where_that_was_declared_and_nothing_else_helps() -> None:
    schema = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
    session = ed.Session()
    session.stream("S", schema=schema, timestamp="ts", overload="sample 10 % above 100000 rows")
    session.stream("T", schema=schema, timestamp="ts")
    text = "SELECT Istream(s.ts, t.ts AS other) FROM S [RANGE 20000] s, T [RANGE 20000] t WHERE s.k = t.k"
    query = session.query(text, memory="2500 kB")
    for start in range(0, 100_000, 1_000):
        ts = np.arange(start, start + 1_000)
        for name in "ST":
            session.push(name, pa.table({"ts": ts, "k": ts % 777}, schema=schema))
    session.finish()
    report = query.report()
    assert report["shed"] > 10_000 and query.approximate
    assert report["streams"]["T"]["shed"] == 0  # it declares nothing
    kinds = [d.kind for d in query.decisions]
    assert kinds.index("memory") < kinds.index("shedding")
    assert any(before == "above the limit" for before, _ in memory_decisions(query))  # shedding helped


def test_the_limit_can_be_lifted_and_lowered(tables: dict[str, pa.Table]) -> None:
    session = ed.Session()
    for name, table in tables.items():
        session.stream(name, schema=table.schema, timestamp="ts")
    query = session.query(f"{WIDE} WHERE a.k = b.k")
    for step, limit in enumerate((None, "20 MB", None)):
        query.alter(memory=limit)
        for name, table in tables.items():
            session.push(name, table.slice(60_000 * step, 60_000))
        spilled = query.report()["state"]["spilled_rows"]
        assert (spilled > 0) == (step > 0), step
