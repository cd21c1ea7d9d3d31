"""The decision log: numbers, bounds, followers, gains, and what outlives a restart."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.streamon.decision import Decision
from eddyline.streamon.gains import GainMeter
from eddyline.streamon.log import DecisionLog, merged
from eddyline.testing.clock import ManualClock


def order(n: int) -> Decision:
    return Decision("filter order", n, n + 1)


def test_numbers_are_never_used_twice_and_what_left_is_counted() -> None:
    log = DecisionLog(most=3)
    made = [log.record(order(n)).sequence for n in range(5)]
    assert made == [1, 2, 3, 4, 5]
    assert [d.before for d in log] == [2, 3, 4] and log.left_out == 2
    again = DecisionLog(most=3)
    again.load(json.loads(json.dumps(log.state())))
    assert [d.sequence for d in again] == [3, 4, 5] and again.record(order(9)).sequence == 6


def test_a_record_has_wall_time_query_shard_and_operator() -> None:
    clock = ManualClock()
    log = DecisionLog(query="pairs", shard=3, clock=clock)
    record = log.record(Decision("join order", None, "R, S", time=17), operator="mjoin 1")
    assert (record.query, record.shard, record.operator, record.time) == ("pairs", 3, "mjoin 1", 17)
    assert record.wall == clock.now()


def test_followers_see_each_record_once_and_a_slow_one_never_holds_up_the_query() -> None:
    log = DecisionLog()
    log.record(order(0))
    quick, slow = log.follow(), log.follow(most=2)
    seen = []
    for n in range(1, 6):
        log.record(order(n))
        seen += [d.before for d in quick]
    assert seen == [1, 2, 3, 4, 5] and quick.lost == 0  # nothing from before it followed
    assert [d.before for d in slow] == [4, 5] and slow.lost == 3
    log.unfollow(slow)
    log.record(order(6))
    assert list(slow) == [] and [d.before for d in quick] == [6]


def test_a_gain_is_known_while_it_is_measured_and_settled_once() -> None:
    log = DecisionLog()
    meter = GainMeter(log, 1, steps_before=2, units_after=20)
    meter.add(10, np.array([40.0]))
    meter.decided(log.record(order(0)).sequence)
    assert [d.measured_gain for d in log] == [None]
    meter.add(10, np.array([10.0]))
    assert [d.measured_gain for d in log] == [4.0]  # as far as it can be told
    meter.add(10, np.array([30.0]))
    assert [d.measured_gain for d in log] == [2.0]
    meter.add(10, np.array([1000.0]))  # later work is no longer the decision's
    assert [d.measured_gain for d in log] == [2.0]


def test_a_gain_of_a_record_that_has_left_is_dropped() -> None:
    log = DecisionLog(most=1)
    first = log.record(order(0)).sequence
    log.record(order(1))
    log.settle(first, 3.0)
    assert [d.measured_gain for d in log] == [None]


@pytest.fixture
def rows() -> pa.Table:
    random = np.random.default_rng(3)
    return pa.table({"ts": range(30_000), "a": random.random(30_000), "b": random.random(30_000)})


def asked(session: Any, rows: pa.Table, **options: Any) -> Any:
    session.stream("S", rows.to_batches(max_chunksize=1000), timestamp="ts", schema=rows.schema)
    session.function("seldom", lambda a: a > 0.95)
    session.function("often", lambda b: b > 0.05)
    return session.query("SELECT Istream(ts) FROM S WHERE often(b) AND seldom(a)", filters="a-greedy(p=0.1)", **options)


def test_the_log_of_a_query_is_in_its_report_and_explain_and_outlives_a_restart(rows: pa.Table, tmp_path: Any) -> None:
    session = ed.Session()
    query = asked(session, rows)
    query.to_arrow()
    (first, *_) = query.decisions
    assert first.operator == "select 1" and first.sequence == 1 and first.wall is not None
    assert first.names == ("often(S.b)", "seldom(S.a)") and first.reason.startswith("seldom(S.a) drops ")
    assert [d["sequence"] for d in query.report()["decisions"]] == [d.sequence for d in query.decisions]
    assert first.reason in query.explain()
    session.snapshot(tmp_path)
    other = ed.Session()
    again = asked(other, rows)
    other.restore(tmp_path)
    assert json.dumps([d.state() for d in again.decisions]) == json.dumps([d.state() for d in query.decisions])


def test_decisions_of_a_scheduler_are_in_the_log() -> None:
    session = ed.Session()
    for name in "ST":
        session.stream(name, schema=pa.schema([("ts", pa.int64()), ("a", pa.int64())]), timestamp="ts")
    text = "SELECT a FROM S [RANGE 4] WHERE a IN (SELECT a FROM T [RANGE 4]) UNION SELECT a FROM T [ROWS 2]"
    query = session.query(text, scheduler="chain(period=1)")
    for t in range(50):
        for name in "ST":
            session.push(name, [{"ts": t, "a": t % 5}])
    made = [d for d in query.decisions if d.by == "scheduler"]
    assert made and made[0].operator == "scheduler" and made[0].kind == "chain" and made[0].evidence


def test_a_log_says_whose_it_is() -> None:
    session = ed.Session()
    session.stream("S", [{"ts": 1, "a": 1}], timestamp="ts")
    session.stream("T", [{"ts": 1, "a": 1}], timestamp="ts")
    query = session.query("SELECT S.a FROM S [RANGE 1], T [RANGE 1] WHERE S.a = T.a", name="pairs")
    assert query.decisions and {(d.query, d.shard) for d in query.decisions} == {("pairs", None)}


def test_logs_of_shards_are_merged_by_wall_time_and_keep_their_own_order() -> None:
    clock = ManualClock()
    logs = [DecisionLog(query="pairs", shard=s, clock=clock) for s in (0, 1)]
    for n, shard in enumerate((0, 1, 1, 0)):
        logs[shard].record(order(n))
        clock.advance(seconds=1)
    clock.microseconds -= 3_500_000  # the clock of shard 0 is set back
    logs[0].record(order(4))
    found = merged([d.to_dict() for d in log] for log in logs)
    assert [(d["shard"], d["sequence"]) for d in found] == [(0, 1), (1, 1), (1, 2), (0, 2), (0, 3)]
    assert [d["before"] for d in found] == [0, 1, 2, 3, 4]
