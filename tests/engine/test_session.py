"""Sessions as they live: queries come and go while data flow, streams are late, silent, skewed or broken."""

from __future__ import annotations

import datetime as dt
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline
from eddyline.core.errors import DataError, EddylineError, JobError
from eddyline.engine.snapshot import Snapshots
from eddyline.engine.state_codec import BLOCK_ROWS
from eddyline.testing import ManualClock
from tests.engine.sessions import SCHEMA, as_tuples, fetched, rows, session

SECOND = 1_000_000

# ── queries come and go ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_query_sees_the_elements_from_its_registration_on() -> None:
    made = session("S")
    early = made.query("SELECT count(*) AS n FROM S [ROWS UNBOUNDED]")
    made.push("S", rows((1, 1), (2, 2)))
    late = made.query("SELECT count(*) AS n FROM S [ROWS UNBOUNDED]")
    made.push("S", rows((3, 3)))
    made.finish()
    assert fetched(early)[-1] == (3, 3, 1)
    assert fetched(late) == [(1, 3, 1)]


def test_dropped_queries_are_gone_and_the_others_go_on() -> None:
    made = session("S")
    queries = [made.query(f"SELECT Istream(a) FROM S WHERE a > {i}") for i in range(3)]
    made.push("S", rows((1, 1), (2, 2)))
    queries[0].drop()
    made.push("S", rows((3, 3), (4, 4)))
    assert fetched(queries[0]) == [(1, 1)]
    fourth = made.query("SELECT Istream(a) FROM S")
    assert [q.name for q in made.queries] == ["query 2", "query 3", "query 4"]
    made.push("S", rows((5, 5)))
    made.finish()
    assert [fetched(q) for q in queries[1:]] == [[(2, 2), (3, 3), (4, 4), (5, 5)], [(3, 3), (4, 4), (5, 5)]]
    assert fetched(fourth) == [(5, 5)]
    with pytest.raises(EddylineError, match="query 1 is not running any more"):
        queries[0].drop()


def test_a_name_is_free_again_when_its_query_is_dropped() -> None:
    made = session("S")
    made.query("SELECT Istream(a) FROM S WHERE a > 5", name="big")
    reader = made.query("SELECT Istream(a + 1 AS b) FROM big")
    made.push("S", rows((1, 1), (2, 7), (3, 0)))
    assert fetched(reader) == [(8, 2)]
    with pytest.raises(JobError, match="'big' is already taken"):
        made.query("SELECT a FROM S", name="big")
    made.queries[0].drop()
    made.query("SELECT Istream(a) FROM S WHERE a < 5", name="big")
    other = made.query("SELECT Istream(a) FROM big")
    made.push("S", rows((4, 9), (5, 2), (6, 2)))
    assert fetched(reader) == [(10, 4)]  # what it was bound to stays
    assert fetched(other) == [(2, 5)]


def test_many_queries_come_and_go_while_data_flow() -> None:
    """Each query's answer is that of a session of its own, which got what came between its coming and its going."""
    rng = random.Random(3)
    texts = [
        "SELECT Istream(a) FROM S [RANGE 5] WHERE a > 2",
        "SELECT a, count(*) AS n FROM S [ROWS 7] GROUP BY a",
        "SELECT x.a FROM S [RANGE 4] AS x, S [ROWS 3] AS y WHERE x.a = y.a",
        "SELECT Rstream(max(a) AS m) FROM S [RANGE 6 SLIDE 3]",
        "SELECT DISTINCT a FROM S [RANGE 9]",
    ]
    made = session("S")
    living: list[tuple[eddyline.Query, eddyline.Session, eddyline.Query]] = []
    checked, ts = 0, 0
    for _ in range(150):
        if rng.random() < 0.2:
            text = rng.choice(texts)
            alone = session("S")
            if made.inputs["s"].shown is not None:
                alone.heartbeat("S", made.inputs["s"].shown)
            living.append((made.query(text), alone, alone.query(text)))
        if living and rng.random() < 0.17:
            query, alone, twin = living.pop(rng.randrange(len(living)))
            assert sorted(fetched(query), key=repr) == sorted(fetched(twin), key=repr)
            query.drop()
            checked += 1
        ts += rng.choice([0, 1, 1, 3])
        batch = rows(*((ts, rng.randrange(6)) for _ in range(rng.choice([1, 1, 4]))))
        made.push("S", batch)
        for _, alone, _ in living:
            alone.push("S", batch)
    made.finish()
    for query, alone, twin in living:
        alone.finish()
        assert sorted(fetched(query), key=repr) == sorted(fetched(twin), key=repr)
    assert checked >= 10
    for query, _, _ in living:
        query.drop()
    assert made.store_size == (0, 0)
    assert made.inputs["s"].buffered == 0


def test_an_error_stops_its_query_and_no_other() -> None:
    made = session("S")
    broken = made.query("SELECT Istream(10 / a AS x) FROM S")
    sound = made.query("SELECT Istream(a) FROM S")
    made.push("S", rows((1, 5), (2, 10)))
    with pytest.raises(DataError, match="division by zero"):
        made.push("S", rows((3, 0), (4, 1), (5, 2)))
    assert fetched(sound) == [(5, 1), (10, 2), (0, 3), (1, 4)]
    made.push("S", rows((6, 3)))  # said once
    assert fetched(broken) == [(2.0, 1)]
    with pytest.raises(DataError, match="division by zero"):
        broken.to_arrow()
    made.finish()
    assert fetched(sound) == [(2, 5), (3, 6)]
    assert fetched(broken) == []


# ── closing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_instant_closes_when_every_stream_has_shown_a_later_one() -> None:
    made = session("S", "T")
    query = made.query("SELECT S.a AS s, T.a AS t FROM S [RANGE 10], T [RANGE 10] WHERE S.a = T.a")
    alone = made.query("SELECT Istream(a) FROM S")
    made.push("S", rows((1, 1), (2, 2), (9, 3)))
    assert fetched(query) == []
    assert fetched(alone) == [(1, 1), (2, 2)]  # what T does is none of its business
    made.push("T", rows((2, 2)))
    assert fetched(query) == []  # another element of instant 2 may come
    made.push("T", rows((2, 1), (3, 9)))
    assert fetched(query) == [(2, 2, 2, 1), (1, 1, 2, 1)]
    made.finish("T")
    assert fetched(query) == []
    made.push("S", rows((13, 0)))  # S alone holds back now: 12 is closed, and with it the expiry of S's row of 1
    assert fetched(query) == [(1, 1, 12, -1)]
    made.finish()
    assert fetched(query) == [(2, 2, 13, -1)]


def test_heartbeats_close_instants_without_elements() -> None:
    made = session("S", "T")
    query = made.query("SELECT count(*) AS n FROM S [RANGE 3], T [RANGE 100]")
    made.push("S", rows((2, 1)))
    made.push("T", rows((2, 1)))
    made.heartbeat("S", 4)
    assert fetched(query) == []
    made.heartbeat("T", 4)
    assert fetched(query) == [(1, 2, 1)]
    made.heartbeat("T", 10)
    made.heartbeat("S", 9)
    assert fetched(query) == [(1, 6, -1), (0, 6, 1)]
    made.heartbeat("S", 5)  # a promise cannot be taken back
    made.push("S", rows((8, 1)))
    assert query.report()["late"] == 1
    with pytest.raises(JobError, match="there is no stream 'Z'"):
        made.heartbeat("Z", 1)


def test_a_silent_stream_holds_back_until_its_idle_interval_has_passed() -> None:
    clock = ManualClock()
    made = session("S", clock=clock)
    made.stream("T", schema=SCHEMA, timestamp="ts", idle="5 seconds")
    query = made.query("SELECT Istream(S.a) FROM S [RANGE 100], T [RANGE 100] WHERE S.a = T.a")
    made.push("T", rows((1, 1)))
    made.push("S", rows((2, 1), (3, 1), (10, 2)))
    clock.advance(seconds=4)
    made.tick()
    assert fetched(query) == []
    clock.advance(seconds=1)
    made.tick()
    assert fetched(query) == [(1, 2), (1, 3)]
    made.push("S", rows((15, 1)))  # T is still idle: 14 is closed
    made.push("T", rows((12, 1), (16, 2)))  # awake, and late with what is closed
    assert fetched(query) == []
    assert [row["a"] for row in query.late()] == [1]
    assert "closed while the stream was idle" in query.late()[0]["_reason"]
    made.push("S", rows((17, 3)))
    assert fetched(query) == [(1, 15)]
    made.finish()
    assert fetched(query) == [(2, 16)]


def test_slack_waits_and_then_diverts() -> None:
    made = eddyline.Session()
    made.stream("S", schema=SCHEMA, timestamp="ts", slack=3)
    query = made.query("SELECT Istream(a) FROM S")
    made.push("S", rows((10, 1), (8, 2), (7, 3)))  # within 3 of the largest
    assert fetched(query) == []
    made.push("S", rows((6, 4)))
    assert query.report()["late"] == 1
    made.push("S", rows((12, 5)))
    assert fetched(query) == [(3, 7), (2, 8)]
    made.push("S", rows((9, 6), (8, 7)))
    made.finish()
    assert fetched(query) == [(6, 9), (1, 10), (5, 12)]
    assert [(r["ts"], r["a"]) for r in query.late()] == [(6, 4), (8, 7)]


def test_skew_between_streams_does_not_show() -> None:
    rng = random.Random(5)
    text = "SELECT S.a AS s, T.a AS t FROM S [RANGE 6], T [ROWS 4] WHERE S.a = T.a"
    data = {n: sorted(((rng.randrange(40), rng.randrange(4)) for _ in range(40)), key=lambda e: e[0]) for n in "ST"}

    def run(order: list[str]) -> list[tuple[Any, ...]]:
        made = session("S", "T")
        query = made.query(text)
        left = {n: list(d) for n, d in data.items()}
        for n in order:
            made.push(n, rows(left[n].pop(0)))
        made.finish()
        return sorted(fetched(query), key=repr)

    together = run(["S", "T"] * 40)
    assert len(together) > 40
    assert run(["S"] * 40 + ["T"] * 40) == together
    assert run(["T"] * 40 + ["S"] * 40) == together
    mixed = ["S", "T"] * 40
    rng.shuffle(mixed)
    assert run(mixed) == together


def test_a_stream_without_timestamps_is_stamped_on_arrival() -> None:
    clock = ManualClock(10 * SECOND)
    made = eddyline.Session(clock=clock)
    made.stream("S", schema=pa.schema([("a", pa.int64())]))
    query = made.query("SELECT Dstream(a) FROM S [RANGE 2 SECONDS]")
    made.push("S", [{"a": 1}])
    clock.advance(seconds=1)
    made.push("S", [{"a": 2}, {"a": 3}])
    clock.advance(seconds=1)
    made.tick()
    assert fetched(query) == []
    clock.advance(seconds=8)
    made.tick()  # time passes although nothing comes
    after = dt.timedelta(seconds=2, microseconds=1)
    start = dt.datetime(1970, 1, 1, 0, 0, 10)
    assert fetched(query) == [(1, start + after), *((a, start + dt.timedelta(seconds=1) + after) for a in (2, 3))]


def test_a_clock_set_back_does_not_disorder_a_stream() -> None:
    clock = ManualClock(5 * SECOND)
    made = eddyline.Session(clock=clock)
    made.stream("S", schema=pa.schema([("a", pa.int64())]))
    query = made.query("SELECT Istream(a) FROM S")
    made.push("S", [{"a": 1}])
    clock.microseconds = 3 * SECOND
    made.push("S", [{"a": 2}])
    made.finish()
    at = dt.datetime(1970, 1, 1, 0, 0, 5)
    assert fetched(query) == [(1, at), (2, at)]
    assert query.report()["late"] == 0


# ── late and invalid ──────────────────────────────────────────────────────────────────────────────────────────────────

BEHIND = "late: more than the slack behind the largest time shown before it"


def side_session(**options: Any) -> tuple[eddyline.Session, list[eddyline.Query]]:
    made = eddyline.Session(**options)
    made.stream("S", schema=SCHEMA, timestamp="ts", slack=2)
    texts = ["SELECT Istream(stream, reason, row) FROM late(q)", "SELECT count(*) AS n FROM late(q) [RANGE 5]"]
    texts.append("SELECT Istream(reason, row) FROM invalid(q)")
    return made, [made.query("SELECT Istream(a) FROM S", name="q"), *(made.query(t) for t in texts)]


ROWS = rows((10, 1), (8, 2), (7, 3), (None, 4), (12, 5), (9, 6), (20, 7), (1, 8), (30, 9))


@pytest.mark.parametrize("size", [1, 2, 100])
def test_late_and_invalid_rows_are_streams(size: int) -> None:
    made, (query, late, count, invalid) = side_session()
    results: list[list[pa.RecordBatch]] = [[], [], [], []]
    for i in range(0, len(ROWS), size):
        made.push("S", ROWS[i : i + size])
        for kept, q in zip(results, (query, late, count, invalid), strict=True):
            kept += q.fetch()
    made.finish()
    for kept, q in zip(results, (query, late, count, invalid), strict=True):
        kept += q.fetch()
    assert as_tuples(results[0]) == [(2, 8), (1, 10), (5, 12), (7, 20), (9, 30)]
    # An element of late(q) has the time that its stream had reached, which never goes back.
    assert [(json.loads(row)["a"], at) for _, _, row, at in as_tuples(results[1])] == [(3, 10), (6, 12), (8, 20)]
    assert {r[:2] for r in as_tuples(results[1])} == {("S", BEHIND)}
    assert as_tuples(results[2]) == [
        (1, 10, 1), (1, 12, -1), (2, 12, 1), (2, 16, -1), (1, 16, 1), (1, 18, -1), (0, 18, 1), (0, 20, -1), (1, 20, 1),
        (1, 26, -1), (0, 26, 1),
    ]  # fmt: skip
    assert as_tuples(results[3]) == [("the timestamp 'ts' is NULL", '{"ts": null, "a": 4}', 10)]
    report = query.report()
    assert (report["events"], report["late"], report["invalid"]) == (9, 3, 1)


def test_side_streams_end_with_their_query() -> None:
    made, (query, late, _, _) = side_session()
    made.push("S", rows((10, 1), (1, 2)))
    query.drop()
    made.push("S", rows((11, 3), (2, 4)))
    assert [json.loads(r[2])["a"] for r in fetched(late)] == [2]
    again = made.query("SELECT Istream(a) FROM S", name="q")
    other = made.query("SELECT Istream(row) FROM late(q)")
    made.push("S", rows((12, 5), (3, 6), (20, 7)))
    assert [json.loads(r[0])["a"] for r in fetched(other)] == [6]
    assert fetched(late) == []
    made.finish()
    assert fetched(again) == [(5, 12), (7, 20)]


def test_side_streams_need_a_running_query() -> None:
    made = session("S")
    with pytest.raises(JobError, match="nobody"):
        made.query("SELECT * FROM late(nobody)")


def test_rows_that_fail_in_an_expression_go_to_the_invalid_stream() -> None:
    made = session("S")
    query = made.query("SELECT Istream(10 / a AS x) FROM S WHERE a < 100", name="q", on_error="invalid")
    invalid = made.query("SELECT Istream(stream, reason) FROM invalid(q)")
    made.push("S", rows((1, 5), (2, 0), (3, 2), (4, 1000), (5, 0), (6, None)))
    made.finish()
    assert fetched(query) == [(2.0, 1), (5.0, 3)]
    said = fetched(invalid)
    assert [(r[0], r[2]) for r in said] == [("q", 2), ("q", 5)]
    assert all("division by zero" in r[1] for r in said)
    assert query.report()["invalid"] == 2


def test_strict_stops_at_the_first_malformed_row() -> None:
    made = session("S", strict=True)
    query = made.query("SELECT Istream(a) FROM S")
    made.push("S", rows((1, 1), (2, 2)))
    with pytest.raises(DataError, match=r"row 4 of 'S' is invalid: the timestamp 'ts' is NULL"):
        made.push("S", rows((3, 3), (None, 4), (5, 5)))
    assert fetched(query) == [(1, 1)]


def test_strict_may_be_asked_of_one_stream() -> None:
    made = session("S")
    made.stream("T", schema=SCHEMA, timestamp="ts", strict=True)
    queries = [made.query(f"SELECT Istream(a) FROM {n}") for n in "ST"]
    made.push("S", rows((None, 1), (2, 2)))
    assert queries[0].report()["invalid"] == 1
    with pytest.raises(DataError, match="row 1 of 'T'"):
        made.push("T", rows((None, 1)))


# ── schedulers ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("batch", [1, 50])
def test_schedulers_give_the_same_answers(batch: int) -> None:
    rng = random.Random(11)
    texts = [
        "SELECT Istream(a, n) FROM (SELECT a, count(*) AS n FROM S [RANGE 8] WHERE a > 0 GROUP BY a) AS g WHERE n > 1",
        "SELECT S.a AS s, T.a AS t FROM S [RANGE 5], T [ROWS 6] WHERE S.a = T.a AND S.a + T.a > 2",
        "SELECT a FROM S [RANGE 4] WHERE a IN (SELECT a FROM T [RANGE 4]) UNION SELECT a FROM T [ROWS 2]",
    ]
    made = session("S", "T")
    queries = {s: [made.query(t, scheduler=s) for t in texts] for s in ("fifo", "greedy", "chain")}
    ts = 0
    for _ in range(200 // batch):
        parts: dict[str, list[tuple[int | None, int | None]]] = {"S": [], "T": []}
        for _ in range(batch):
            ts += rng.choice([0, 1, 2])
            parts[rng.choice("ST")].append((ts, rng.randrange(5)))
        for name, part in parts.items():
            if part:
                made.push(name, rows(*part))
    made.finish()
    answers = {s: [sorted(fetched(q), key=repr) for q in qs] for s, qs in queries.items()}
    assert all(answers["fifo"])
    assert answers["greedy"] == answers["fifo"]
    assert answers["chain"] == answers["fifo"]
    with pytest.raises(JobError, match=r"unknown scheduling policy 'lifo'\. Did you mean 'fifo'"):
        made.query(texts[0], scheduler="lifo")


# ── snapshots ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def pieces(directory: Path) -> dict[str, int]:
    return {p.name: p.stat().st_size for p in (directory / "pieces").iterdir()}


def written_by_snapshot(made: eddyline.Session, directory: Path) -> int:
    before = pieces(directory) if directory.exists() else {}
    made.snapshot(directory)
    return sum(size for name, size in pieces(directory).items() if name not in before)


def numbers(low: int, high: int) -> pa.RecordBatch:
    n = np.arange(low, high)
    texts = pa.array([f"row {i * 7919 % 1000}" for i in range(low, high)], pa.string())
    return pa.record_batch([pa.array(n), pa.array(n * n % 1013), texts], names=["ts", "a", "s"])


@pytest.mark.parametrize(
    "text",
    [
        "SELECT s, a FROM S [RANGE 1000000]",
        "SELECT s, count(*) AS n FROM S [RANGE 1000000] GROUP BY s",
        "SELECT Istream(x.s) FROM S [RANGE 1000000] AS x, S [RANGE 1000000] AS y WHERE x.a = y.ts",
    ],
)
def test_the_second_snapshot_writes_what_changed(tmp_path: Path, text: str) -> None:
    written = {}
    small, large = (blocks * BLOCK_ROWS + BLOCK_ROWS // 2 for blocks in (7, 15))  # as far into their last block
    for size in (small, large):
        made = eddyline.Session()
        made.stream("S", schema=numbers(0, 0).schema, timestamp="ts")
        query = made.query(text)
        made.push("S", numbers(0, size))
        query.fetch()
        first = written_by_snapshot(made, tmp_path / str(size))
        made.push("S", numbers(size, size + 10))
        query.fetch()
        second = written_by_snapshot(made, tmp_path / str(size))
        written[size] = (first, second)
        assert second < first / 4
        made.snapshot(tmp_path / str(size))
        assert written_by_snapshot(made, tmp_path / str(size)) == 0  # nothing happened
    assert written[large][0] > 1.5 * written[small][0]
    assert written[large][1] < 1.5 * written[small][1]  # grows with the change, not with the state


def test_written_counts_the_bytes_of_new_pieces(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path)
    state = np.arange(200_000)
    snapshots.save({"state": state})
    assert snapshots.written == state.nbytes
    state[-1] = 0
    snapshots.save({"state": state})
    assert 0 < snapshots.written < state.nbytes / 20
    snapshots.save({"state": state})
    assert snapshots.written == 0
    assert snapshots.numbers() == [2, 3]  # the two newest are kept


def everything(clock: ManualClock) -> tuple[eddyline.Session, list[eddyline.Query]]:
    """A session with late and invalid rows, slack, a relation that changes, and queries of all kinds."""
    made = eddyline.Session(clock=clock)
    made.stream("S", schema=SCHEMA, timestamp="ts", slack=2)
    made.stream("T", schema=SCHEMA, timestamp="ts")
    prices = pa.schema([("t", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])
    made.relation("P", schema=prices, timestamp="t", key=["k"])
    texts = [
        "q: SELECT Istream(10 / a AS x) FROM S WITH (on_error = 'invalid')",
        "SELECT S.a AS s, P.v FROM S [RANGE 8], P WHERE S.a = P.k",
        "SELECT a, count(*) AS n, max(ts) AS m FROM S [PARTITION BY a ROWS 2] GROUP BY a",
        "SELECT S.a FROM S [RANGE 9] LEFT JOIN T [ROWS 3] ON S.a = T.a WHERE T.a IS NULL",
        "SELECT Rstream(a) FROM T [RANGE 6 SLIDE 2]",
        "SELECT Istream(row) FROM late(q)",
        "SELECT Istream(row, stream) FROM invalid(q)",
    ]
    return made, [made.query(t) for t in texts]


def test_a_session_goes_on_from_its_snapshot(tmp_path: Path) -> None:
    rng = random.Random(17)
    pushes: list[tuple[str, list[dict[str, int | None]]]] = []
    ts = 0
    for _ in range(120):
        ts += rng.choice([0, 1, 1])
        name = rng.choice("SSTP")
        if name == "P":
            pushes.append((name, [{"t": ts, "k": rng.randrange(3), "v": rng.randrange(9)}]))
        else:
            at = rng.choice([ts, ts, max(0, ts - 2), max(0, ts - 6), None]) if name == "S" else ts
            pushes.append((name, rows((at, rng.randrange(3)))))

    def run(stops: list[int]) -> list[list[tuple[Any, ...]]]:
        clock = ManualClock()
        made, queries = everything(clock)
        kept: list[list[pa.RecordBatch]] = [[] for _ in queries]
        for i, push in enumerate(pushes):
            if i in stops:
                if i % 2:  # results that nobody has fetched yet are saved, too
                    for k, q in zip(kept, queries, strict=True):
                        k += q.fetch()
                made.snapshot(tmp_path, {"i": i})
                made, queries = everything(clock)
                assert made.restore(tmp_path) == {"i": i}
            made.push(*push)
        made.finish()
        reports = [(r["results"], r["late"], r["invalid"]) for r in (q.report() for q in queries)]
        return [*(sorted(as_tuples([*k, *q.fetch()]), key=repr) for k, q in zip(kept, queries, strict=True)), reports]

    whole = run([])
    assert all(whole)
    assert run([60]) == whole
    assert run([5, 31, 90, 91, 118]) == whole


def test_dropped_queries_are_not_in_the_snapshot(tmp_path: Path) -> None:
    made = session("S")
    queries = [made.query(f"SELECT sum(a) AS s FROM S [ROWS {n}]") for n in (2, 3, 4)]
    made.push("S", rows((1, 1), (2, 2)))
    queries[0].drop()
    made.push("S", rows((3, 3), (4, 4)))
    made.snapshot(tmp_path)
    again = session("S")
    third, fourth = (again.query(f"SELECT sum(a) AS s FROM S [ROWS {n}]") for n in (3, 4))
    again.restore(tmp_path)
    again.push("S", rows((5, 5)))
    again.finish()
    assert fetched(third)[-1] == (12, 5, 1)
    assert fetched(fourth)[-1] == (14, 5, 1)


def test_a_snapshot_of_another_version_is_refused(tmp_path: Path) -> None:
    made = session("S")
    made.query("SELECT a FROM S")
    number = made.snapshot(tmp_path)
    manifest = tmp_path / f"{number}.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 99}))
    with pytest.raises(EddylineError, match=r"has format 99, this version reads \d+; run the query from the start"):
        made.restore(tmp_path)


@pytest.mark.parametrize(
    ("streams", "texts"),
    [
        ("S", ["SELECT a FROM S WHERE a > 2"]),
        ("S", []),
        ("S", ["SELECT a FROM S", "SELECT a FROM S"]),
        ("ST", ["SELECT a FROM S"]),
    ],
)
def test_a_snapshot_of_other_queries_is_refused(tmp_path: Path, streams: str, texts: list[str]) -> None:
    made = session("S")
    made.query("SELECT a FROM S")
    made.snapshot(tmp_path)
    other = session(*streams)
    for text in texts:
        other.query(text)
    with pytest.raises(EddylineError, match=r"made by other streams or queries; .* It holds: SELECT a FROM S\."):
        other.restore(tmp_path)


def test_there_must_be_a_snapshot(tmp_path: Path) -> None:
    with pytest.raises(EddylineError, match="there is no snapshot in"):
        session("S").restore(tmp_path)


def test_a_damaged_snapshot_is_refused_whichever_file_it_is(tmp_path: Path) -> None:
    made = session("S")
    made.query("SELECT a, count(*) AS n FROM S [RANGE 5] GROUP BY a")
    made.push("S", rows(*((t, t % 3) for t in range(50))))
    made.snapshot(tmp_path)
    files = [f for f in sorted(tmp_path.rglob("*")) if f.is_file() and f.stat().st_size]
    assert len(files) > 3
    for file in files:
        whole = file.read_bytes()
        middle = len(whole) // 2
        file.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
        other = session("S")
        other.query("SELECT a, count(*) AS n FROM S [RANGE 5] GROUP BY a")
        with pytest.raises(EddylineError, match=f"{file.name} .*(does not hold what was written|is no snapshot)"):
            other.restore(tmp_path)
        file.write_bytes(whole)
    other.restore(tmp_path)  # which a refused one has not harmed


def test_a_query_that_an_error_stopped_cannot_be_saved(tmp_path: Path) -> None:
    made = session("S")
    query = made.query("SELECT 1 / a AS x FROM S", name="inverse")
    with pytest.raises(DataError):
        made.push("S", rows((1, 0), (2, 1)))
    with pytest.raises(EddylineError, match="inverse was stopped by an error and cannot be saved; drop it first"):
        made.snapshot(tmp_path)
    query.drop()
    made.snapshot(tmp_path)


def test_heartbeats_with_a_datetime() -> None:
    made = eddyline.Session()
    made.stream("S", schema=pa.schema({"ts": pa.timestamp("us"), "a": pa.int64()}), timestamp="ts")
    made.stream("T", schema=pa.schema({"ts": pa.int64()}), timestamp="ts")
    query = made.query("SELECT Istream(a) FROM S")
    noon = dt.datetime(2026, 1, 1, 12)
    made.push("S", [{"ts": noon, "a": 1}])
    made.heartbeat("S", noon)
    assert query.fetch() == []
    one = dt.timezone(dt.timedelta(hours=1))
    made.heartbeat("S", dt.datetime(2026, 1, 1, 13, 0, 0, 1, one))  # a microsecond later
    assert [b.num_rows for b in query.fetch()] == [1]
    with pytest.raises(JobError, match="is an integer, because the time of 'T' is"):
        made.heartbeat("T", noon)


def test_what_is_shown_of_sessions_and_queries() -> None:
    made = eddyline.Session()
    assert repr(made) == "<Session: nothing declared; 0 queries>"
    made.stream("S", schema=pa.schema({"ts": pa.int64(), "a": pa.int64()}), timestamp="ts")
    good, bad = made.query("SELECT Istream(a)\n  FROM S", name="good"), made.query("SELECT Istream(1 / a AS b) FROM S")
    with pytest.raises(DataError):
        made.push("S", [{"ts": 1, "a": 0}, {"ts": 2, "a": 1}])
    assert repr(good) == "<Query good: SELECT Istream(a) FROM S; running, 2 events, 1 result>"
    assert "; failed, 2 events, 0 results>" in repr(bad)
    made.drop(bad)
    assert "; failed," in repr(bad) and repr(made) == "<Session: S (2 rows); 1 query>"
    made.drop(good)
    assert "; dropped," in repr(good)
