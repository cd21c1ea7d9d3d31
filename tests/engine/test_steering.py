"""Altering, pinning and undoing while a query runs: what is accepted, refused, recorded and kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.adapting.adaptive_join import AdaptiveJoin
from eddyline.operators.mjoin import MJoin
from eddyline.testing import ManualClock
from tests.engine.sessions import fetched, rows, session

SCHEMA = pa.schema([(n, pa.int64()) for n in ("ts", "a", "b", "c")])
TEXT = "SELECT Istream(a, b, c) FROM S WHERE most(a) AND half(b) AND few(c)"


class Filtered:
    """Three conjuncts that drop 10 %, 50 % and 95 %; the clock stands still, so that only rows decide."""

    def __init__(self, **options: Any) -> None:
        self.session = ed.Session(clock=ManualClock())
        self.session.stream("S", schema=SCHEMA, timestamp="ts")
        for name, least in (("most", 10), ("half", 50), ("few", 95)):
            self.session.function(name, lambda x, least=least: x >= least, "boolean", ["bigint"])
        self.query = self.session.query(TEXT, name="q", **({"filters": "a-greedy(p=0.2)"} | options))
        self.rng, self.now = np.random.default_rng(1), 0

    def push(self, count: int = 4000, turned: bool = False) -> None:
        """``turned``: the second filter drops 95 %, the third nothing."""
        a, b, c = (self.rng.integers(0, 100, count) for _ in range(3))
        if turned:
            b, c = np.where(b < 95, 0, 99), np.full(count, 99)
        ts = self.now + np.arange(count) // 4
        self.now = int(ts[-1]) + 1
        self.session.push("S", pa.table({"ts": ts, "a": a, "b": b, "c": c}, schema=SCHEMA))

    @property
    def order(self) -> list[int]:
        return self.query.statistics()["select 1"]["order"]

    @property
    def made(self) -> list[Any]:
        return [d for d in self.query.decisions if d.kind == "filter order"]


def test_a_new_policy_starts_with_the_order_of_now() -> None:
    f = Filtered()
    f.push()
    assert f.order == [2, 1, 0]
    f.query.alter(filters="sweep")
    assert f.order == [2, 1, 0]
    assert f.query.statistics()["select 1"]["policy"] == "sweep"
    assert f.query.statistics()["select 1"]["rows"] > 0  # what was counted of the same filters stays
    f.query.alter(filters="static")
    f.push(turned=True)
    assert f.order == [2, 1, 0]
    f.query.alter(strict_order=True)
    assert "select 1" not in f.query.statistics()
    f.query.alter(strict_order=None, filters=None, routing="sbr")
    assert f.query.statistics()["select 1"]["policy"] == "sbr"
    f.push()
    kinds = [(d.kind, d.after) for d in f.query.decisions if d.by == "user"]
    assert kinds == [
        ("option filters", "sweep"),
        ("option filters", "static"),
        ("option strict_order", True),
        ("option filters", None),
        ("option strict_order", None),
        ("option routing", "sbr"),
    ]


def test_what_does_not_change_is_no_decision() -> None:
    f = Filtered()
    assert f.query.alter(filters="a-greedy(p=0.2)") == []
    assert f.query.unpin() == []
    assert len(f.query.pin()) == 1
    assert f.query.pin() == []


def test_a_pinned_query_keeps_its_order_and_reports_what_would_have_been() -> None:
    f = Filtered()
    f.query.pin()
    f.push()
    assert f.order == [0, 1, 2]
    would = f.made
    assert would and not any(d.applied for d in would)
    assert would[0].after[0] == "few(S.c)"
    assert len(would) == 1  # the statistics have not drifted since
    assert "not applied: the query is pinned" in f.query.explain()
    f.query.unpin()
    f.push()
    assert f.order[0] == 2 and f.made[-1].applied


def test_an_undone_order_stays_until_the_statistics_drift() -> None:
    f = Filtered()
    f.push()
    last = f.made[-1]
    (record,) = f.query.undo(last.sequence)
    assert (record.by, record.kind, record.after) == ("user", "filter order", last.before)
    names = ["most(S.a)", "half(S.b)", "few(S.c)"]
    assert [names[i] for i in f.order] == last.before
    for _ in range(4):
        f.push()
    assert [names[i] for i in f.order] == last.before  # A-Greedy would have taken it again at once
    f.push(turned=True)
    f.push(turned=True)
    assert [names[i] for i in f.order] != last.before
    assert f.made[-1].by == "policy"


def test_an_undo_can_be_undone() -> None:
    f = Filtered()
    f.push()
    order, last = f.order, f.made[-1]
    (record,) = f.query.undo(last.sequence)
    assert f.order != order
    f.query.undo(record.sequence)
    assert f.order == order


def test_options_pins_and_slack_are_undone_like_other_decisions() -> None:
    f = Filtered()
    (altered,) = f.query.alter(scheduler="chain")
    (pinned,) = f.query.pin()
    (slack,) = f.session.alter_stream("S", slack=7)
    assert (slack.before, slack.after) == (0, 7)
    assert f.session.inputs["s"].widths["slack"] == 7
    for d in (altered, pinned, slack):
        f.session.execute(f"UNDO DECISION {d.sequence}")
    assert f.query.steering.state() == {"altered": {}, "pinned": False}
    assert f.session.inputs["s"].widths["slack"] == 0
    assert [d.reason for d in f.query.decisions][-3:] == [
        f"undoes decision {d.sequence}" for d in (altered, pinned, slack)
    ]


def test_the_evidence_of_a_slack_has_its_unit() -> None:
    session = ed.Session()
    session.stream("T", schema=pa.schema({"ts": pa.timestamp("us"), "a": pa.int64()}), timestamp="ts")
    query = session.query("SELECT a FROM T", name="q")
    (slack,) = session.alter_stream("T", slack="2 seconds")
    assert (slack.after, slack.evidence["after"], slack.units["after"]) == ("2 seconds", 2_000_000, "µs")
    session.execute(f"UNDO DECISION {slack.sequence}")
    assert query.decisions[-1].after == "0 seconds"


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("ALTER QUERY q SET (filters = 'swep')", "unknown filter policy 'swep'. Did you mean 'sweep'?"),
        ("ALTER QUERY q SET (filter = 'sweep')", "unknown option 'filter'. Did you mean 'filters'?"),
        ("ALTER QUERY q SET (on_error = 'invalid')", "'on_error' is decided when a query starts: drop 'q'"),
        ("ALTER QUERY q SET (memory = 'lots')", "'memory' is a text such as '64 MB' or a number of bytes"),
        ("ALTER QUERY q SET (tree = '(A, B)')", "this query has no join: leave it out."),
        ("ALTER QUERY q SET (p = 2)", "'p' of 'a-greedy' must be a number above 0 and at most 1, not 2."),
        ("ALTER QUERY p SET (filters = 'sweep')", "no query 'p' is running. The running queries are q."),
        ("ALTER QUERY q (filters = 'sweep')", "expected SET after the name, but found '('."),
        ("ALTER TABLE q SET (a = 1)", "expected QUERY or STREAM after ALTER, but found 'TABLE'."),
        ("ALTER STREAM S SET SLACK 5 parsecs", "parsecs"),
        ("ALTER STREAM S SET (slack = 5)", "expected SLACK, IDLE"),
        ("ALTER STREAM S SET", "expected SLACK or IDLE with a width, but the statement ends here."),
        ("ALTER STREAM T SET SLACK 5", "there is no stream 'T'."),
        ("ALTER STREAM S SET SLACK AUTO", "is decided when it is declared (CREATE STREAM … SLACK AUTO)"),
        ("PIN QUERY q soon", "the statement should end here, but found 'soon'."),
        ("UNDO DECISION", "expected the number of a decision, but the statement ends here."),
        ("UNDO 3", "expected DECISION and its number after UNDO, but found '3'."),
        ("UNDO DECISION 99", "'q' has no decision 99 in its log; it has"),
    ],
)
def test_a_mistake_is_one_sentence_with_its_place_and_changes_nothing(statement: str, says: str) -> None:
    f = Filtered()
    f.push()
    before, order = f.query.steering.state(), f.order
    taken = len(f.query.decisions)
    with pytest.raises(ed.JobError) as error:
        f.session.execute(statement)
    assert says in str(error.value)
    assert "line 1" in str(error.value)
    assert (f.query.steering.state(), f.order, len(f.query.decisions)) == (before, order, taken)


def test_what_cannot_be_undone_says_why() -> None:
    f = Filtered()
    f.push()
    f.push(turned=True)
    first, *rest = f.made
    assert rest
    with pytest.raises(ed.JobError, match=f"decision {rest[-1].sequence} has replaced it; undo that one instead"):
        f.query.undo(first.sequence)
    f.query.pin()
    f.push()
    f.push()
    would = next(d for d in f.query.decisions if not d.applied)
    with pytest.raises(ed.JobError, match="it was not applied, because the query was pinned"):
        f.query.undo(would.sequence)
    f.query.alter(scheduler="chain")
    f.push()
    by_scheduler = next(d for d in f.query.decisions if d.by == "scheduler")
    with pytest.raises(ed.JobError, match="it was made by the scheduler; name another option with ALTER QUERY"):
        f.query.undo(by_scheduler.sequence)
    f.query.alter(strict_order=True)
    with pytest.raises(ed.JobError, match="no longer changes its plan, so nothing can be undone"):
        f.query.undo(rest[-1].sequence)


def test_several_queries_must_be_told_apart() -> None:
    f = Filtered()
    f.session.query("SELECT Istream(a) FROM S", name="r")
    with pytest.raises(ed.JobError, match="2 queries are running: say whose decision, with OF QUERY and its name"):
        f.session.execute("UNDO DECISION 1")
    f.session.execute("PIN QUERY r; UNDO DECISION 1 OF QUERY r")
    f.session.execute('PIN QUERY "q"')
    assert f.query.steering.pinned


def test_what_was_altered_is_saved(tmp_path: Path) -> None:
    f = Filtered()
    f.push()
    f.query.alter(filters="sweep", p=0.5)
    f.query.pin()
    f.session.alter_stream("S", slack=3)
    order, log = f.order, [d.sequence for d in f.query.decisions]
    f.session.snapshot(tmp_path)
    again = Filtered()
    again.session.restore(tmp_path)
    assert again.query.steering.state() == {"altered": {"filters": "sweep", "p": 0.5}, "pinned": True}
    assert again.order == order
    assert [d.sequence for d in again.query.decisions] == log
    assert again.session.inputs["s"].widths["slack"] == 3
    again.now = f.now
    again.push(turned=True)
    again.push(turned=True)
    assert again.order == order


def test_a_smaller_slack_answers_what_waited_and_a_larger_one_opens_nothing_again() -> None:
    made = session("S")
    made.execute("ALTER STREAM S SET SLACK 10")
    query = made.query("SELECT Istream(a) FROM S")
    made.push("S", rows((5, 1), (8, 2)))
    assert fetched(query) == []
    made.execute("ALTER STREAM S SET SLACK 0")
    assert fetched(query) == [(1, 5)]
    made.execute("ALTER STREAM S SET SLACK 100")
    made.push("S", rows((6, 3), (5, 4), (9, 5)))
    assert [r["a"] for r in query.late()] == [4, 3] or [r["a"] for r in query.late()] == [3, 4]
    made.finish()
    assert fetched(query) == [(2, 8), (5, 9)]


def test_an_idle_interval_is_set_and_taken_back() -> None:
    clock = ManualClock()
    made = session("S", "T", clock=clock)
    query = made.query("SELECT Istream(S.a) FROM S [RANGE 5], T [RANGE 5] WHERE S.a = T.a")
    made.alter_stream("T", idle="2 seconds")
    made.push("T", rows((1, 1)))
    made.push("S", rows((1, 1), (9, 2)))
    assert fetched(query) == []
    clock.advance(3_000_000)
    made.tick()
    assert fetched(query) == [(1, 1)]
    assert made.inputs["t"].idle
    (record,) = [d for d in query.decisions if d.kind == "idle"]
    assert (record.before, record.after, record.operator) == (None, "2 seconds", "stream T")
    query.undo(record.sequence)
    assert not made.inputs["t"].idle


def test_streams_that_have_no_slack_refuse_one() -> None:
    made = ed.Session()
    made.stream("S", schema=pa.schema([("a", pa.int64())]))
    made.relation("R", timestamp="ts", key=["a"], schema=pa.schema([("ts", pa.int64()), ("a", pa.int64())]))
    with pytest.raises(ed.JobError, match="'S' is stamped on arrival"):
        made.alter_stream("S", slack=1)
    with pytest.raises(ed.JobError, match="'R' is a relation, which has no slack"):
        made.alter_stream("R", slack=1)
    with pytest.raises(ed.JobError, match="nothing of 'S' is changed"):
        made.alter_stream("S")


class Joined:
    """R ⋈ S ⋈ T on a chain, T eight times as fast: R⋈S is worth a cache in ΔT."""

    def __init__(self, learned: Path | None = None, **options: Any) -> None:
        self.session = ed.Session(learned=learned)
        for name in "RST":
            self.session.stream(name, schema=SCHEMA, timestamp="ts")
        text = "SELECT count(*) AS n FROM T [RANGE 400], S [RANGE 400], R [RANGE 400] WHERE R.a = S.a AND S.b = T.b"
        given = {"caches": "global(interval=500, W=3, W_d=128)", "joins": "a-greedy(p=0.5, window=50)"} | options
        self.query = self.session.query(text, name="q", **given)
        self.rng, self.now = np.random.default_rng(5), 0

    def push(self, ticks: int = 500) -> None:
        for name, each in (("R", 1), ("S", 1), ("T", 8)):
            ts = self.now + np.repeat(np.arange(ticks), each)
            a, b, c = (self.rng.integers(0, most, len(ts)) for most in (3000, 30, 2))
            self.session.push(name, pa.table({"ts": ts, "a": a, "b": b, "c": c}, schema=SCHEMA))
        self.now += ticks

    @property
    def adapter(self) -> AdaptiveJoin:
        found = next(n.operator for n in self.query.running.physical.nodes if isinstance(n.operator, MJoin))
        assert isinstance(found.adapter, AdaptiveJoin)
        return found.adapter

    @property
    def used(self) -> list[str]:
        known = next(s for s in self.query.statistics().values() if "caches" in s)
        return [c["cache"] for c in known["caches"] if c["state"] == "used"]

    @property
    def bytes(self) -> int:
        return int(next(s for s in self.query.statistics().values() if "caches" in s)["cache_bytes"])

    @property
    def rest(self) -> int:
        """The state that is no cache."""
        return int(self.query.report()["state"]["bytes"]) - self.bytes


def until_cached(j: Joined) -> None:
    for _ in range(12):
        j.push()
        if j.used:
            return
    pytest.fail("no cache was chosen")


def test_the_memory_of_caches_shrinks_and_grows() -> None:
    j = Joined()
    until_cached(j)
    j.push(2000)
    ample = j.bytes
    assert j.used and ample > 4096
    little = j.rest + 24 * 1024  # caches get what the rest of the state leaves
    j.query.alter(memory=little)
    for _ in range(4):
        j.push()
    assert 0 < j.bytes <= little - j.rest + 512 < ample  # the table of stores is counted with them
    j.query.alter(memory="0 B")
    assert j.bytes == 0
    j.push()
    assert j.bytes == 0
    j.query.alter(memory=None)
    for _ in range(6):
        j.push()
    assert j.bytes > 4096
    kinds = [(d.before, d.after) for d in j.query.decisions if d.kind == "option memory"]
    assert kinds == [(None, little), (little, "0 B"), ("0 B", None)]


def test_a_query_may_start_with_a_budget() -> None:
    j = Joined(memory=500_000)
    for _ in range(8):
        j.push()
    assert 0 < j.bytes < 500_000 - j.rest + 512
    with pytest.raises(ed.JobError, match="the memory of caches is given twice"):
        Joined(caches="global(memory=1000)", memory="1 kB")


def test_caches_stay_when_the_policy_of_orders_changes() -> None:
    j = Joined()
    until_cached(j)
    used = j.used
    j.query.alter(joins="sweep")
    assert j.used == used
    j.query.alter(caches="prefix(interval=700, W=3, W_d=128)")
    assert set(j.used) <= set(used)
    j.query.alter(joins="static", caches="none")
    assert "the orders stay as they are, and there are no caches" in j.query.explain()
    j.push()
    j.query.alter(tree="((R, S), T)")
    j.push()
    assert "the tree (R⋈S)⋈T stays" in j.query.explain()
    with pytest.raises(ed.JobError, match="must name each of T, S, R once"):
        j.query.alter(tree="((R, S), U)")
    j.query.alter(tree=None)
    j.push()


def test_pinned_caches_stay_and_undone_ones_do_not_come_back_at_once() -> None:
    j = Joined()
    j.query.pin()
    for _ in range(8):
        j.push()
    assert j.used == []
    would = [d for d in j.query.decisions if d.kind == "join caches"]
    assert would and not any(d.applied for d in would)
    j.query.unpin()
    until_cached(j)
    last = next(d for d in reversed(j.query.decisions) if d.kind == "join caches")
    j.query.undo(last.sequence)
    assert set(j.used) == set(last.before)
    for _ in range(6):
        j.push()
    assert set(j.used) == set(last.before)


def test_an_undone_order_of_a_pipeline_stays() -> None:
    j = Joined(caches="none")
    for _ in range(10):
        j.push()
        made = [d for d in j.query.decisions if d.kind.startswith("order of Δ") and d.applied]
        if made:
            break
    else:
        pytest.fail("no order was changed")
    last = made[-1]
    j.query.undo(last.sequence)
    name = last.kind[-1]

    def order() -> list[str]:
        return next(s for s in j.query.statistics().values() if "orders" in s)["orders"][name]

    assert order() == list(last.before)
    for _ in range(4):
        j.push()
    assert order() == list(last.before)


def test_pinned_indexes_of_a_multi_route_join_stay() -> None:
    windows = ", ".join(f"{name} [RANGE 200]" for name in "RST")
    text = f"SELECT count(*) AS n FROM {windows} WHERE R.a = S.a AND S.b = T.b AND R.c = T.c"
    answers = []
    for pinned in (True, False):
        made = ed.Session()
        for name in "RST":
            made.stream(name, schema=SCHEMA, timestamp="ts")
        query = made.query(text, joins="routes", index="amri", pinned=pinned)
        rng = np.random.default_rng(3)
        for step in range(6):
            for name in "RST":
                ts = step * 300 + np.arange(300)
                a, b, c = (rng.integers(0, most, 300) for most in (40, 10, 10))
                made.push(name, pa.table({"ts": ts, "a": a, "b": b, "c": c}, schema=SCHEMA))
        made.finish()
        answers.append(query.to_arrow())
        tuned = [d for d in query.decisions if d.by == "policy"]
        assert not any(d.applied for d in tuned) if pinned else True
        if tuned:
            with pytest.raises(ed.JobError, match=r"cannot be undone one by one|it was not applied"):
                query.undo(tuned[-1].sequence)
        with pytest.raises(ed.JobError, match="names an operator, which is chosen when a query starts"):
            query.alter(joins="a-greedy", index=None)
    assert answers[0] == answers[1]


def test_a_slack_that_is_found_from_the_rows_is_not_set() -> None:
    made = ed.Session()
    made.stream("S", schema=SCHEMA, timestamp="ts", slack="auto")
    made.query("SELECT a FROM S [RANGE 5]", name="q")
    with pytest.raises(ed.JobError, match=r"is found from its rows \(SLACK AUTO\): declare a fixed one"):
        made.alter_stream("S", slack=5)
