"""A constrained join is run as the plain one while constraints save nothing, and under ``auto`` until it is needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import eddyline as ed
from eddyline.operators.switching_join import SwitchingJoin

TEXT = "SELECT Istream(R.ts, S.ts AS t2) FROM R [RANGE 1200], S [RANGE 1200] WHERE R.a = S.a"


def streams(parts: list[str], many: int = 6_000) -> dict[str, pa.Table]:
    """Rows of R refer to rows of S: soon after them, or anywhere within the window and in no order."""
    rng = np.random.default_rng(3)
    child, parent = np.arange(many), np.arange(many)
    for n, part in enumerate(parts):
        here = slice(n * many // len(parts), (n + 1) * many // len(parts))
        size = here.stop - here.start
        if part == "wild":
            child[here] = rng.permutation(child[here])
            parent[here] = np.clip(parent[here] + rng.integers(-500, 500, size), 0, many - 1)
    return {name: pa.table({"ts": 2 * np.arange(many) + i, "a": keys})
            for i, (name, keys) in enumerate((("R", parent), ("S", child)))}  # fmt: skip


def run(tables: dict[str, pa.Table], limit: str | None = None, **options: Any) -> tuple[ed.Query, pa.Table]:
    session = ed.Session(memory=limit)
    for name, table in tables.items():
        session.stream(name, table.to_batches(max_chunksize=200), schema=table.schema, timestamp="ts")
    query = session.query(TEXT, **options)
    return query, query.to_arrow().sort_by([("ts", "ascending"), ("t2", "ascending")])


def changes(query: ed.Query) -> list[tuple[str, str]]:
    return [(d.before, d.after) for d in query.decisions if d.kind == "join kernel"]


def joins(query: ed.Query) -> SwitchingJoin:
    return next(t.operator for t in query.running.tasks if isinstance(t.operator, SwitchingJoin))


def test_the_plain_join_takes_over_where_constraints_save_nothing_and_gives_way_when_they_hold_again() -> None:
    tables = streams(["wild", "tame"], 12_000)
    _, expected = run(tables, constraints="off")
    query, found = run(tables, constraints="exact(W=100, collect=100, patience=1000)")
    assert found.equals(expected)
    assert changes(query)[:2] == [("constrained join", "plain join"), ("plain join", "constrained join")]
    assert joins(query).plain is None and joins(query).size()[0] < 600
    said = query.explain()
    assert "the constrained join runs again: samples show" in said


def test_a_constraint_that_never_holds_leaves_the_plain_join_running() -> None:
    tables = streams(["wild"])
    _, expected = run(tables, constraints="off")
    query, found = run(tables, constraints="exact(W=100, collect=100, patience=1000)")
    assert found.equals(expected)
    assert changes(query) == [("constrained join", "plain join")]
    assert "the plain join runs: constraints saved nothing for" in query.explain()
    assert query.statistics()["constrained-join 1"]["runs"] == "plain"
    assert query.report()["state"]["spilled_rows"] == 0


def test_auto_saves_memory_where_the_limit_asks_for_it() -> None:
    tables = streams(["tame"])
    plain, expected = run(tables, constraints="off")
    query, found = run(tables, constraints="auto(W=100, collect=100)")
    assert found.equals(expected) and changes(query) == []
    query, found = run(tables, constraints="auto(W=100, collect=100)", memory="32 kB")
    assert found.equals(expected)
    assert changes(query) == [("plain join", "constrained join")]
    assert query.report()["state"]["rows"] < plain.report()["state"]["rows"] / 2
    query, found = run(tables, limit="32 kB", constraints="auto(W=100, collect=100)")
    assert found.equals(expected) and changes(query) == [("plain join", "constrained join")]
    query, found = run(streams(["wild"]), constraints="auto(W=100, collect=100)", memory="32 kB")
    assert changes(query) == []
