"""Operators are built anew when queries are planned together, sharing is switched or state is loaded. What others know
of an operator (its starting plan, its decisions, the names in its messages) belongs to the one that runs then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.core.errors import DataError
from eddyline.testing import ManualClock

SCHEMA = pa.schema([(n, pa.int64()) for n in ("ts", "a", "b", "c")])
CONDITION = "fa(a) AND fb(b) AND fc(c)"


def session(learned: Path | None = None) -> ed.Session:
    made = ed.Session(clock=ManualClock(), learned=learned)
    made.stream("S", schema=SCHEMA, timestamp="ts")
    for name in "abc":
        made.function(f"f{name}", lambda x: x == 1, "boolean", ["bigint"])
    return made


def push(made: ed.Session, rows: int, first: int = 0, passes: tuple[float, ...] = (0.9, 0.5, 0.05)) -> None:
    rng = np.random.default_rng(first)
    columns = {n: (rng.random(rows) < p).astype(np.int64) for n, p in zip("abc", passes, strict=True)}
    table = pa.table({"ts": np.arange(first, first + rows), **columns}, schema=SCHEMA)
    for at in range(0, rows, 1000):
        made.push("S", table.slice(at, 1000))


def named(made: ed.Session) -> list[Any]:
    """A named query, and one over it: the second makes the first be planned again."""
    hot = made.query(f"SELECT Istream(*) FROM S WHERE {CONDITION}", name="hot", filters="a-greedy")
    return [hot, made.query("SELECT Istream(b) FROM hot WHERE b > 0", filters="a-greedy")]


def about(query: Any, kind: str) -> list[Any]:
    return [d for d in query.decisions if d.kind == kind]


def test_a_query_that_is_planned_again_begins_with_what_was_learned(tmp_path: Path) -> None:
    file = tmp_path / "plans.json"
    made = session(file)
    queries = named(made)
    push(made, 20_000)
    order = queries[0].statistics()["select 1"]["order"]
    assert order[0] == 2
    made.save_learned()
    again = session(file)
    hot, _ = named(again)
    assert hot.statistics()["select 1"]["order"] == order
    assert len(about(hot, "starting plan")) == 1
    assert again.learned.reviewing
    push(again, 5000)
    assert not again.learned.reviewing  # the operator that runs has been judged, not the one of the first plan


@pytest.mark.parametrize("how", ["shared otherwise", "restored"])
def test_a_starting_plan_is_judged_by_the_operator_that_runs(how: str, tmp_path: Path) -> None:
    file = tmp_path / "plans.json"
    made = session(file)
    made.query(f"SELECT Istream(*) FROM S WHERE {CONDITION}", filters="a-greedy")
    push(made, 20_000)
    made.save_learned()
    made = session(file)
    query = made.query(f"SELECT Istream(*) FROM S WHERE {CONDITION}", filters="a-greedy")
    push(made, 3, passes=(0.05, 0.5, 0.9))
    if how == "restored":
        made.snapshot(tmp_path / "state")
        made.restore(tmp_path / "state")
    else:
        made.sharing = False
    push(made, 20_000, 3, passes=(0.05, 0.5, 0.9))
    assert not made.learned.reviewing
    assert any("stale" in d.reason for d in query.decisions)


def test_what_the_user_decided_stays_when_a_query_is_planned_again() -> None:
    made = session()
    hot = made.query(f"SELECT Istream(*) FROM S WHERE {CONDITION}", name="hot")
    (set_,) = hot.alter(filters="sweep")
    made.query("SELECT Istream(b) FROM hot WHERE b > 0")
    assert [d.sequence for d in about(hot, "option filters")] == [set_.sequence]
    hot.undo(set_.sequence)
    assert hot.steering.options.get("filters") is None


def test_a_decision_is_undone_by_a_query_that_knows_the_operator_by_another_name() -> None:
    made = session()
    made.query(f"SELECT Istream(a) FROM S WHERE {CONDITION}", filters="a-greedy")
    text = f"Istream(SELECT a FROM S [NOW] AS x WHERE x.c > 5 UNION ALL SELECT a FROM S [NOW] WHERE {CONDITION})"
    other = made.query(text, filters="a-greedy")
    push(made, 20_000)
    changed = [d for d in other.decisions if d.kind == "filter order" and d.applied and d.time is not None]
    assert changed and changed[-1].operator in other.running.operators
    known = other.running.operators[changed[-1].operator]
    assert len(known.readers) == 2 and known.operator.name != changed[-1].operator
    other.undo(changed[-1].sequence)
    assert other.decisions[-1].reason == f"undoes decision {changed[-1].sequence}"


def test_messages_name_the_inputs_as_their_user_does_after_a_restart(tmp_path: Path) -> None:
    def begin() -> ed.Session:
        made = session()
        query = made.query("SELECT Istream(100 / a AS x) FROM S AS packets")
        query.running.declared_as({"S": "the wire"})
        return made

    begin().snapshot(tmp_path)
    made = begin()
    made.restore(tmp_path)
    made.push("S", [{"ts": 1, "a": 0, "b": 0, "c": 0}])
    with pytest.raises(DataError, match="the wire"):
        made.finish()
