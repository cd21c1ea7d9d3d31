"""A constrained join is run as the plain one while constraints save nothing, and under ``auto`` until it is needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from experiments.constraints.harness import Input, Run, two_parents

import eddyline as ed
from eddyline.adapting.candidates import constrained_join
from eddyline.adapting.join_switch import JoinSwitch
from eddyline.adaptive.constraints.handover import HandOver
from eddyline.operators.offered_join import OfferedJoin
from eddyline.operators.switching_join import SwitchingJoin
from eddyline.synopses import store

TEXT = "SELECT Istream(R.ts, S.ts AS t2) FROM R [RANGE 1200], S [RANGE 1200] WHERE R.a = S.a"
WIDE = TEXT.replace("1200", "6000")


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


def run(
    tables: dict[str, pa.Table], limit: str | None = None, text: str = TEXT, **options: Any
) -> tuple[ed.Query, pa.Table]:
    session = ed.Session(memory=limit)
    for name, table in tables.items():
        session.stream(name, table.to_batches(max_chunksize=200), schema=table.schema, timestamp="ts")
    query = session.query(text, **options)
    return query, query.to_arrow().sort_by([("ts", "ascending"), ("t2", "ascending")])


def changes(query: ed.Query) -> list[tuple[str, str]]:
    return [(d.before, d.after) for d in query.decisions if d.kind == "join kernel"]


def joins(query: ed.Query) -> SwitchingJoin:
    """The constrained join of a query, or the one that took over."""
    operators = [t.operator for t in query.running.tasks]
    operators += [o.taken for o in operators if isinstance(o, OfferedJoin)]
    return next(o for o in operators if isinstance(o, SwitchingJoin))


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
    held = [s["window_rows"] for s in query.statistics()["constrained-join 1"]["synopses"]]
    assert held == [600, 601]
    assert "S [RANGE 1200]: window 601 rows" in query.explain()


def test_windows_that_are_filling_are_no_reason_for_the_plain_join() -> None:
    """Clusters of keys are spread over 2,000 rows: after the first call nothing is saved yet."""
    tables = two_parents(2_000, 6_000)
    inputs = {n: Input(tables[n], 20_000) for n in ("S1", "S2", "S3")}
    join = Run(inputs, [("S1.a", "S3.a"), ("S2.a", "S3.a")], "lossy(uses=ca)")
    for _ in join.steps(8_000):
        assert join.join.plain is None
    assert join.rows < 10_000 and join.join.handovers == 0


def test_auto_saves_memory_where_the_limit_asks_for_it() -> None:
    tables, chosen = streams(["tame"], 12_000), "auto(W=100, collect=100)"
    plain, expected = run(tables, text=WIDE, constraints="off")
    query, found = run(tables, text=WIDE, constraints=chosen)
    assert found.equals(expected) and changes(query) == []
    query, found = run(tables, text=WIDE, constraints=chosen, memory="256 kB")
    assert found.equals(expected)
    assert changes(query) == [("plain join", "constrained join")]
    assert query.report()["state"]["rows"] < plain.report()["state"]["rows"] / 10
    assert query.report()["state"]["bytes"] < plain.report()["state"]["bytes"] / 1.5
    query, found = run(tables, limit="256 kB", text=WIDE, constraints=chosen)
    assert found.equals(expected) and changes(query) == [("plain join", "constrained join")]
    query, found = run(streams(["wild"]), constraints=chosen, memory="32 kB")
    assert changes(query) == []


def test_auto_takes_the_plain_join_back_where_less_rows_are_not_less_memory() -> None:
    """A window of a thousand rows takes less than the filters and monitors of the other join."""
    tables = streams(["tame"])
    _, expected = run(tables, constraints="off")
    query, found = run(tables, constraints="auto(W=100, collect=100)", memory="64 kB")
    assert found.equals(expected)
    assert changes(query)[:2] == [("plain join", "constrained join"), ("constrained join", "plain join")]
    assert any("are not less than the" in d.reason for d in query.decisions if d.kind == "join kernel")


def test_rows_of_results_that_are_deleted_one_day_do_not_keep_state_above_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Below an aggregate most rows of this join have to stay: the plain join comes back, and its rows go to the disk,
    those of the stores that it made by itself as well."""
    monkeypatch.setattr(store, "LEAST_SPILLED_BYTES", 1)
    monkeypatch.setattr(store, "MERGED_ROWS", 64)
    monkeypatch.setattr(constrained_join, "HandOver", lambda: HandOver(least_patience=1_000))
    tables = streams(["tame"], 12_000)
    text = "SELECT count(*) AS ts, sum(S.ts) AS t2 FROM R [RANGE 6000], S [RANGE 6000] WHERE R.a = S.a"
    _, expected = run(tables, text=text, constraints="off")
    query, found = run(tables, text=text, constraints="auto(W=100, collect=100)", memory="256 kB")
    assert found.equals(expected)
    assert changes(query)[:2] == [("plain join", "constrained join"), ("constrained join", "plain join")]
    assert joins(query).plain is not None
    rows, bytes = joins(query).spilled()
    assert rows > 1_000 and query.report()["state"]["spilled_bytes"] == bytes > 0


def test_auto_is_the_default_and_begins_as_the_ordinary_join() -> None:
    tables = streams(["tame"], 12_000)
    off, expected = run(tables, text=WIDE, constraints="off")
    query, found = run(tables, text=WIDE)
    assert found.equals(expected) and changes(query) == []
    assert query.explain() == off.explain() and query.report()["state"] == off.report()["state"]
    query, found = run(tables, text=WIDE, memory="256 kB")
    assert found.equals(expected) and changes(query) == [("plain join", "constrained join")]
    assert query.report()["state"]["spilled_rows"] > 0
    assert "the constrained join runs again: " in query.explain() and "RIDS on R.a → S.a" in query.explain()


def pushed(
    query: ed.Query, tables: dict[str, pa.Table], steps: dict[int, Callable[[], object]]
) -> Counter[str]:  # fmt: skip
    """All rows of streams are pushed in portions of 400, before some of which there is something to do."""
    found: Counter[str] = Counter()
    for n in range(-(-max(t.num_rows for t in tables.values()) // 400)):
        steps.get(n, lambda: None)()
        for name, table in tables.items():
            query.session.push(name, table.slice(400 * n, 400))
        found.update(str(r) for b in query.fetch() for r in b.to_pylist())
    query.session.finish()
    found.update(str(r) for b in query.fetch() for r in b.to_pylist())
    return found


def opened(tables: dict[str, pa.Table], text: str, **options: Any) -> ed.Query:
    session = ed.Session()
    for name, table in tables.items():
        session.stream(name, schema=table.schema, timestamp="ts")
    return session.query(text, name="q", **options)


def test_a_limit_that_is_set_while_the_query_runs_reaches_the_join() -> None:
    tables = streams(["tame"], 12_000)
    expected = pushed(opened(tables, WIDE, constraints="off"), tables, {})
    query = opened(tables, WIDE)
    seen: list[list[tuple[str, str]]] = []

    def limit() -> None:
        assert "constraints are watched from" not in query.explain()
        query.session.execute("ALTER QUERY q SET (memory = '256 kB')")
        assert "constraints are watched from" in query.explain()
        seen.append(changes(query))

    assert pushed(query, tables, {12: limit}) == expected
    assert seen == [[]] and changes(query) == [("plain join", "constrained join")]
    query = opened(tables, WIDE, memory="256 kB")
    steps = {1: lambda: query.alter(memory=None)}
    assert pushed(query, tables, steps) == expected and changes(query) == []


@pytest.mark.parametrize("inputs", ["RS", "RST"])
def test_a_pinned_query_hands_nothing_over(inputs: str) -> None:
    """With three inputs the plain join adapts its orders, too, which is pinned apart."""
    tables = streams(["tame"], 12_000)
    text = WIDE
    if inputs == "RST":
        tables["T"] = pa.table({"ts": 2 * np.arange(12_000), "a": np.arange(12_000)})
        text = WIDE.replace(" WHERE", ", T [RANGE 6000] WHERE").replace("R.a = S.a", "R.a = S.a AND S.a = T.a")
    expected = pushed(opened(tables, text, constraints="off"), tables, {})
    free = opened(tables, text, memory="256 kB")
    assert pushed(free, tables, {}) == expected and changes(free) != []
    pinned = opened(tables, text, memory="256 kB")
    assert pushed(pinned, tables, {1: lambda: pinned.session.execute("PIN QUERY q")}) == expected
    assert changes(pinned) == []


def test_a_join_that_was_handed_over_is_not_handed_back_while_the_query_is_pinned() -> None:
    tables = streams(["tame"])
    expected = pushed(opened(tables, TEXT, constraints="off"), tables, {})
    for pin in (True, False):
        query = opened(tables, TEXT, constraints="auto(W=100, collect=100)", memory="64 kB")

        def step(query: ed.Query = query, pin: bool = pin) -> None:
            if pin and changes(query) and not query.steering.pinned:
                query.session.execute("PIN QUERY q")

        assert pushed(query, tables, dict.fromkeys(range(15), step)) == expected
        assert len(changes(query)) == 1 if pin else len(changes(query)) > 1


def test_a_join_that_hands_over_leaves_shared_stores_to_the_others(tmp_path: Path) -> None:
    """Two joins share stores until one of them is near its limit; it gives them up, and the other goes on."""
    tables, longer = streams(["tame"], 12_000), WIDE.replace("R [RANGE 6000]", "R [RANGE 6500]")
    alone, _ = run(tables, text=WIDE, constraints="off")
    expected = [Counter(map(str, run(tables, text=t, constraints="off")[1].to_pylist())) for t in (WIDE, longer)]

    def start(constraints: str) -> tuple[ed.Session, list[ed.Query]]:
        session = ed.Session()
        for name, table in tables.items():
            session.stream(name, schema=table.schema, timestamp="ts")
        small = session.query(WIDE, constraints=constraints, memory="256 kB")
        return session, [small, session.query(longer)]

    chosen = "auto(W=100, collect=100)"
    session, queries = start(chosen)
    found: list[Counter[str]] = [Counter(), Counter()]
    for n in range(60):
        for name, table in tables.items():
            session.push(name, table.slice(200 * n, 200))
        if n == 2:
            assert "shared" in queries[0].explain()
        if n == 40:  # the constrained join has taken over: its state is saved, and goes into that of a new session
            assert changes(queries[0]) == [("plain join", "constrained join")] and changes(queries[1]) == []
            for rows, query in zip(found, queries, strict=True):
                rows.update(str(r) for b in query.fetch() for r in b.to_pylist())
            session.snapshot(tmp_path)
            other, _ = start("off")
            with pytest.raises(ed.EddylineError, match="had handed its rows over to a constrained join"):
                other.restore(tmp_path)
            session, queries = start(chosen)
            session.restore(tmp_path)
    session.finish()
    for rows, query, wanted in zip(found, queries, expected, strict=True):
        rows.update(str(r) for b in query.fetch() for r in b.to_pylist())
        assert rows == wanted
    assert joins(queries[0]).plain is None
    assert queries[0].report()["state"]["rows"] < alone.report()["state"]["rows"] / 2


class TwoPaces:
    """A clock: an element takes 100 ns in the plain join, and ``constrained`` ns in the other."""

    def __init__(self, constrained: int) -> None:
        self.now, self.constrained = 0, constrained

    def nanoseconds(self) -> int:
        return self.now


@pytest.mark.parametrize(("each", "stays"), [(60, True), (94, True), (96, False), (300, False)])
def test_above_the_threshold_of_state_the_faster_join_stays(
    each: int, stays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a memory limit: where state is large, both are timed, and the one that takes longer gives way."""
    tables, clock = streams(["tame"], 12_000), TwoPaces(each)
    begin, decide = JoinSwitch.__init__, JoinSwitch.runs_plain

    def by_two_paces(self: JoinSwitch, *arguments: Any, **options: Any) -> None:
        begin(self, *arguments, **options)
        self.clock = clock

    def timed(self: JoinSwitch, join: SwitchingJoin, elements: int, now: int) -> bool:
        clock.now += elements * (clock.constrained if join.plain is None else 100)
        return decide(self, join, elements, now)

    monkeypatch.setattr(constrained_join, "HandOver", lambda: HandOver(large=32_000, trial=3_000))
    monkeypatch.setattr(JoinSwitch, "__init__", by_two_paces)
    monkeypatch.setattr(JoinSwitch, "runs_plain", timed)
    _, expected = run(tables, constraints="off")
    query, found = run(tables, constraints="auto(W=100, collect=100)")
    assert found.equals(expected)
    first = next(d for d in query.decisions if d.kind == "join kernel")
    assert first.after == "constrained join" and "bytes of state may be faster" in first.reason
    assert (joins(query).plain is None) is stays
    if not stays:
        assert ("constrained join", "plain join") in changes(query)
        assert any(d.reason == "less state was not faster" for d in query.decisions)
