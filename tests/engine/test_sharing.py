"""Stubs over shared stores (thesis 2.3.1): each its own progress and view, whoever shares, and whenever."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eddyline
from eddyline.core.schema import Field, Schema
from eddyline.synopses.registry import Registry
from eddyline.synopses.store import Elements, Store, Stub
from tests.engine.sessions import as_tuples, fetched, rows, session

# ── stores and stubs by themselves ────────────────────────────────────────────────────────────────────────────────────

S = Elements("s", 0)
ONE = Schema((Field("S.v", pa.int64()),))
TWO = Schema((Field("S.v", pa.int64()), Field("S.w", pa.string())))


def column(low: int, high: int) -> dict[str, pa.Array]:
    """Rows of a stream whose v is ten times the row number and whose w is its text, every third NULL."""
    w = [None if i % 3 == 0 else str(i) for i in range(low, high)]
    return {"S.v": pa.array([10 * i for i in range(low, high)]), "S.w": pa.array(w, pa.string())}


def seen(stub: Stub, name: str = "S.v") -> list[Any]:
    return list(stub.probe(np.arange(stub.low, stub.end), [name])[name].to_pylist())


def two_stubs() -> tuple[Registry, Stub, Stub]:
    registry = Registry()
    return registry, registry.stub(S, ONE, "S."), registry.stub(S, ONE, "S.")


def test_a_row_is_stored_when_the_first_stub_brings_it_and_gone_when_the_last_has_forgotten_it() -> None:
    registry, ahead, behind = two_stubs()
    assert ahead.store is behind.store
    ahead.insert(column(0, 10), 10)
    assert registry.size()[0] == 10
    assert (len(ahead), len(behind)) == (10, 0)  # each stub its own progress
    behind.insert(column(0, 4), 4)
    assert registry.size()[0] == 10  # not stored again
    assert seen(behind) == [0, 10, 20, 30]
    ahead.expire(10)
    assert registry.size()[0] == 10  # the other has not even read them all
    behind.insert(column(4, 10), 6)
    assert seen(behind) == [10 * i for i in range(10)]
    behind.expire(10)
    assert registry.size() == (0, 0)


def test_a_stub_behind_brings_the_rows_that_are_missing() -> None:
    _, one, other = two_stubs()
    one.insert(column(0, 3), 3)
    other.insert(column(0, 5), 5)  # three are there, two are not
    one.insert(column(3, 6), 3)  # two are there, one is not
    assert seen(one) == [0, 10, 20, 30, 40, 50]
    assert seen(other) == [0, 10, 20, 30, 40]


def test_a_store_fed_row_by_row_holds_little_more_than_its_window() -> None:
    registry, wide, narrow = two_stubs()
    for i in range(2_000):
        wide.insert(column(i, i + 1), 1)
        narrow.insert(column(i, i + 1), 1)
        wide.expire(i + 1 - 100)
        narrow.expire(i + 1 - 5)
        assert len(wide) <= registry.size()[0] <= 2 * 100
    assert seen(narrow) == [10 * i for i in range(1995, 2000)]
    registry.forget(wide)
    for i in range(2_000, 2_030):
        narrow.insert(column(i, i + 1), 1)
        narrow.expire(i + 1 - 5)
    assert registry.size()[0] <= 2 * 5


def test_detached_stubs_keep_what_they_need_and_nothing_else() -> None:
    registry, wide, narrow = two_stubs()
    for stub, low in ((wide, 2), (narrow, 7)):
        stub.insert(column(0, 9), 9)
        stub.expire(low)
    registry.switch(False)
    assert wide.store is not narrow.store
    assert registry.size()[0] == 7 + 2
    registry.switch(True)
    assert wide.store is narrow.store
    assert registry.size()[0] == 7
    assert seen(wide) == [10 * i for i in range(2, 9)]
    assert seen(narrow) == [70, 80]


def test_stubs_too_far_apart_stay_apart() -> None:
    """Rows 0 to 7 are in neither store: they are still to come for one, and forgotten by the other."""
    registry, ahead, behind = two_stubs()
    ahead.insert(column(0, 10), 10)
    ahead.expire(8)
    registry.switch(False)
    assert registry.size()[0] == 2
    registry.switch(True)
    assert ahead.store is not behind.store
    behind.insert(column(0, 9), 9)
    assert seen(behind) == [10 * i for i in range(9)]
    assert seen(ahead) == [80, 90]
    registry.switch(True)
    assert ahead.store is behind.store
    assert seen(behind) == [10 * i for i in range(9)]
    assert seen(ahead) == [80, 90]


@pytest.mark.parametrize("sharing", [True, False])
def test_stores_of_the_same_elements_have_the_same_columns(sharing: bool) -> None:
    """… so that they can be put together whenever sharing is switched on."""
    registry = Registry(sharing)
    narrow, wide, other = registry.stub(S, ONE, "S."), registry.stub(S, TWO, "S."), registry.stub(None, ONE, "S.")
    assert (narrow.store is wide.store) == sharing
    for stub, low in ((narrow, 1), (wide, 6), (other, 2)):
        stub.insert(column(0, 9), 9)
        stub.expire(low)
    registry.switch(not sharing)
    assert (narrow.store is wide.store) != sharing
    assert other.store not in (narrow.store, wide.store)
    for stub in (narrow, wide):
        stub.insert(column(9, 11), 2)
    assert seen(narrow) == [10 * i for i in range(1, 11)]
    assert seen(wide, "S.w") == [None, "7", "8", None, "10"]
    assert seen(other) == [10 * i for i in range(2, 9)]


def test_dictionaries_and_plain_texts_share_a_store() -> None:
    store = Store(Schema((Field("w", pa.string()),)))
    stub = Stub(store)
    for i in range(6):
        texts = pa.array([f"x{i}", "y"])
        stub.insert({"w": texts.dictionary_encode() if i % 2 else texts}, 2)
    found = stub.probe(np.arange(12), ["w"])["w"]
    assert found.to_pylist() == [t for i in range(6) for t in (f"x{i}", "y")]


@settings(max_examples=80, deadline=None)
@given(st.randoms(use_true_random=False))
def test_whatever_stubs_do_they_see_their_own_rows(rng: random.Random) -> None:
    registry = Registry(rng.random() < 0.5)
    stubs = [registry.stub(S, rng.choice([ONE, TWO]), "S.") for _ in range(rng.randint(1, 4))]
    columns = [[f"S.{n}" for n in s.store.schema.names] for s in stubs]
    for _ in range(rng.randint(1, 40)):
        i = rng.randrange(len(stubs))
        stub, step = stubs[i], rng.choice([1, 1, 2, 3, 9])
        match rng.choice(["append", "append", "forget", "switch"]):
            case "append":
                stub.insert(column(stub.end, stub.end + step), step)
            case "forget":
                stub.expire(min(stub.end, stub.low + step))
            case "switch":
                registry.switch(rng.random() < 0.7)
        for s, names in zip(stubs, columns, strict=True):
            want = column(s.low, s.end)
            for n in names:
                assert seen(s, n) == want[n].to_pylist()
    registry.switch(False)
    assert registry.size()[0] == sum(len(s) for s in stubs)


# ── queries ───────────────────────────────────────────────────────────────────────────────────────────────────────────

SCHEMA = pa.schema([("ts", pa.int64()), ("a", pa.int64()), ("b", pa.int64()), ("s", pa.string())])
QUERIES = [
    "SELECT a, max(b) AS m FROM S [ROWS 4] GROUP BY a",
    "SELECT Istream(b) FROM S [ROWS 12]",
    "SELECT count(*) AS n, sum(b) AS t FROM S [RANGE 20]",
    "SELECT Dstream(s, a) FROM S AS x [RANGE 6]",
    "SELECT x.a, y.s FROM S [RANGE 3] AS x, S [RANGE 9] AS y WHERE x.a = y.a",
    "SELECT s FROM S [ROWS 5] WHERE b IN (SELECT b FROM S [ROWS 2])",
    "SELECT Rstream(a, s) FROM S [RANGE 4] WHERE b > 2",
    "SELECT Istream(a, avg(b) AS m) FROM S [RANGE 10 SLIDE 5] GROUP BY a",
]


def started(texts: Sequence[str], sharing: bool) -> tuple[eddyline.Session, list[eddyline.Query]]:
    made = eddyline.Session(sharing=sharing)
    made.stream("S", schema=SCHEMA, timestamp="ts")
    return made, [made.query(t) for t in texts]


def events(count: int = 60) -> list[dict[str, Any]]:
    rng = random.Random(7)
    made, ts = [], 0
    for _ in range(count):
        ts += rng.choice([0, 0, 1, 1, 2, 9])
        made.append({"ts": ts, "a": rng.randrange(3), "b": rng.randrange(6), "s": rng.choice(["x", "y", None])})
    return made


def answers(texts: Sequence[str], sharing: bool, switch_at: Sequence[int] = ()) -> list[list[tuple[Any, ...]]]:
    made, queries = started(texts, sharing)
    for i, event in enumerate(events()):
        if i in switch_at:
            made.sharing = not made.sharing
        made.push("S", [event])
    made.finish()
    return [fetched(q) for q in queries]


@pytest.fixture(scope="module")
def alone() -> list[list[tuple[Any, ...]]]:
    """The answers of each query in a session of its own."""
    made = [answers([text], sharing=False)[0] for text in QUERIES]
    assert all(made)
    return made


@pytest.mark.parametrize("sharing", [True, False])
@pytest.mark.parametrize("switch_at", [(), (0,), (1,), (10, 20), (10, 11, 12, 13, 50), tuple(range(0, 60, 3))])
def test_sharing_never_shows(sharing: bool, switch_at: tuple[int, ...], alone: list[list[tuple[Any, ...]]]) -> None:
    assert answers(QUERIES, sharing, switch_at) == alone


def test_contained_windows_cost_no_more_than_the_largest() -> None:
    texts = [f"SELECT sum(b) AS t FROM S [RANGE {w}]" for w in (100, 60, 30, 10)]
    sizes = {}
    for sharing in (True, False):
        made, _ = started(texts, sharing)
        for event in events():
            made.push("S", [event])
        sizes[sharing] = made.store_size
    largest, _ = started(texts[:1], sharing=True)
    for event in events():
        largest.push("S", [event])
    assert sizes[True][0] == largest.store_size[0]
    assert sizes[True][0] < 0.7 * sizes[False][0]
    assert sizes[True][1] < 0.7 * sizes[False][1]


def test_a_query_that_waits_for_another_stream_keeps_its_place() -> None:
    """The join has read nothing of S while the other query is at its end: two views of one store."""
    made = session("S", "T")
    waiting = made.query("SELECT S.a FROM S [RANGE 100], T [RANGE 100] WHERE S.a = T.a")
    quick = made.query("SELECT Dstream(a) FROM S [RANGE 2]")
    for i in range(20):
        made.push("S", rows((i, i)))
    assert fetched(quick) == [(i, i + 3) for i in range(16)]
    assert fetched(waiting) == []
    (store,) = {id(s.store): s.store for q in (waiting, quick) for s in q.running.physical.stubs[:1]}.values()
    assert [len(s) for s in store.stubs] == [0, 3]  # the window of 16 to 18; 19 is still open
    assert store.end - store.first == 19  # nothing may go: the join has yet to read it
    made.sharing = False
    assert made.store_size[0] <= 4
    made.sharing = True
    made.push("T", rows((5, 5), (30, 19)))
    made.finish()
    assert fetched(waiting) == [(5, 5, 1), (19, 30, 1)]
    assert fetched(quick) == [(16, 19)]  # its own time ends at 19


def test_dropping_a_query_frees_its_rows() -> None:
    made = session("S")
    wide = made.query("SELECT sum(a) AS t FROM S [ROWS 500]")
    narrow = made.query("SELECT count(a) AS n FROM S [ROWS 5]")
    for i in range(1000):
        made.push("S", rows((i, i)))
    rows_before, bytes_before = made.store_size
    assert rows_before >= 500
    wide.drop()
    for i in range(1000, 1010):
        made.push("S", rows((i, i)))
    rows_after, bytes_after = made.store_size
    assert rows_after <= 2 * 5
    assert bytes_after < bytes_before / 20
    made.finish()
    assert fetched(narrow)[-1] == (5, 4, 1)
    narrow.drop()
    assert made.store_size == (0, 0)


def test_state_shrinks_when_windows_expire() -> None:
    made = session("S")
    query = made.query("SELECT count(*) AS n FROM S [RANGE 10]")
    other = made.query("SELECT Dstream(a) FROM S [RANGE 3]")
    made.push("S", rows(*((0, i) for i in range(1000))))
    made.heartbeat("S", 1)
    assert made.store_size[0] == 1000
    assert other.report()["state"]["rows"] == 1000
    made.heartbeat("S", 5)  # gone from one window, not from the other
    assert other.report()["state"]["rows"] == 0
    assert made.store_size[0] == 1000
    made.heartbeat("S", 12)
    assert made.store_size == (0, 0)
    assert query.report()["state"]["peak_rows"] >= 1000
    assert fetched(query) == [(1000, 0, 1), (1000, 11, -1), (0, 11, 1)]


def test_queries_share_only_the_same_elements() -> None:
    """One that comes later, until both have the same rows, one with a filter below its window, and one over another
    stream have their own stores."""
    made = session("S", "T")
    texts = ["SELECT count(*) AS n FROM {} [RANGE 9]", "SELECT Dstream(a) FROM {} [RANGE 9] WHERE a > 1"]
    first = [made.query(t.format(s)) for s in "ST" for t in texts]
    same = made.query("SELECT Dstream(x.ts) FROM S AS x [RANGE 7] WHERE x.a > 1")
    made.push("S", rows((0, 1), (1, 2)))
    later = made.query(texts[0].format("S"))
    stores = [q.running.physical.stubs[0].store for q in (*first, later)]
    assert len({id(s) for s in stores}) == 5
    assert same.running.physical.stubs[0].store is stores[1]
    made.push("S", rows((2, 3)))
    made.finish()
    assert fetched(first[0])[-1] == (3, 2, 1)
    assert fetched(later) == [(1, 2, 1)]


def in_order(results: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(results, key=repr)


@pytest.mark.parametrize(("before", "after"), [(True, True), (True, False), (False, True)])
def test_a_snapshot_outlives_sharing(tmp_path: Path, before: bool, after: bool) -> None:
    """Saved with sharing on or off, restored with it on or off, with stubs at different places."""
    texts = [*QUERIES, "SELECT S.b, T.a FROM S [ROWS 7], T [RANGE 30] WHERE S.a = T.a"]

    def begin(sharing: bool) -> tuple[eddyline.Session, list[eddyline.Query]]:
        made = eddyline.Session(sharing=sharing)
        made.stream("S", schema=SCHEMA, timestamp="ts")
        made.stream("T", schema=SCHEMA, timestamp="ts")
        return made, [made.query(t) for t in texts]

    def run(stop: int | None) -> list[list[tuple[Any, ...]]]:
        made, queries = begin(before)
        kept: list[list[pa.RecordBatch]] = [[] for _ in texts]
        for i, event in enumerate(events()):
            if i == stop:
                for k, q in zip(kept, queries, strict=True):
                    k += q.fetch()
                made.snapshot(tmp_path / str(stop))
                made, queries = begin(after)
                made.restore(tmp_path / str(stop))
                stores = {id(s.store) for q in queries for s in q.running.physical.stubs}
                stubs = sum(len(q.running.physical.stubs) for q in queries)
                assert len(stores) < stubs if after else len(stores) == stubs
            made.push("S", [event])
            if i % 7 == 0:
                made.push("T", [{**event, "ts": i // 2}])
        made.finish()
        # Within an instant the order means nothing, and a restored hash table may have another.
        return [in_order(as_tuples([*k, *q.fetch()])) for k, q in zip(kept, queries, strict=True)]

    whole = run(None)
    assert all(whole)
    for stop in (3, 35):
        assert run(stop) == whole


def test_restored_queries_that_began_at_different_times_keep_their_own_numbers(tmp_path: Path) -> None:
    """Row numbers count from a query's own first element; a session that restores declares both at once."""
    texts = ["SELECT sum(a) AS t FROM S [ROWS 3]", "SELECT Dstream(a) FROM S [ROWS 2]"]
    made = session("S")
    first = made.query(texts[0])
    made.push("S", rows((0, 1), (1, 2), (2, 3), (3, 4)))
    second = made.query(texts[1])
    made.push("S", rows((4, 5), (5, 6)))
    assert [fetched(first)[-1], fetched(second)] == [(12, 4, 1), []]
    made.snapshot(tmp_path)
    again = session("S")
    queries = [again.query(t) for t in texts]
    again.restore(tmp_path)
    again.push("S", rows((6, 7), (7, 8)))
    again.finish()
    assert fetched(queries[0]) == [(12, 5, -1), (15, 5, 1), (15, 6, -1), (18, 6, 1), (18, 7, -1), (21, 7, 1)]
    assert fetched(queries[1]) == [(5, 6), (6, 7)]


# ── queries that come at different times ──────────────────────────────────────────────────────────────────────────────


def stores(made: eddyline.Session) -> list[Store]:
    return list({id(s.store): s.store for s in made._graph.registry.stubs}.values())


@pytest.mark.parametrize("text", ["SELECT sum(a) AS t FROM S [RANGE 100]", "SELECT Dstream(a) FROM S [ROWS 100]"])
@pytest.mark.parametrize("readers", [2, 10])
def test_a_window_of_later_readers_takes_no_memory_of_its_own(text: str, readers: int) -> None:
    one = session("S")
    alone = one.query(text)
    made = session("S")
    queries = [made.query(text)]
    for i in range(400):
        if i % 3 == 2 and len(queries) < readers:
            queries.append(made.query(text))
        for s in (one, made):
            s.push("S", rows((i, i), (i, 1)))
    assert len(stores(made)) == 1
    assert made._graph.registry.joined == readers - 1
    assert made.store_size == one.store_size
    whole = fetched(alone)
    for q in queries:  # a window's length after its registration it answers as the first one
        assert fetched(q)[-100:] == whole[-100:]
        assert f"{readers} windows over the same elements keep them once" in q.explain()
        assert "read by query 1, query 2" in q.explain()


def test_windows_contained_in_one_another_share_also_when_they_come_later() -> None:
    made = session("S")
    made.query("SELECT sum(a) AS t FROM S [RANGE 10]")
    made.push("S", rows(*((i, i) for i in range(50))))
    wide = made.query("SELECT count(*) AS n FROM S [RANGE 1000]")  # its rows are put before those of the other
    narrow = made.query("SELECT Dstream(a) FROM S [ROWS 3]")
    made.push("S", rows(*((i, i) for i in range(50, 400))))
    made.push("S", rows((400, 400)))
    (store,) = stores(made)
    assert len(store.stubs) == 3
    assert store.end - store.first >= 350
    wide.drop()
    for i in range(401, 440):  # what nobody needs goes with its chunk
        made.push("S", rows((i, i)))
    (store,) = stores(made)
    assert store.end - store.first <= 24
    narrow.drop()
    assert fetched(narrow)[-1] == (435, 438)


def test_a_join_shares_the_windows_of_older_queries() -> None:
    made, alone = session("S", "T"), session("S", "T")
    text = "SELECT S.a FROM S [RANGE 50], T [RANGE 50] WHERE S.a = T.a"
    made.query("SELECT sum(a) AS t FROM S [RANGE 50]")
    made.query("SELECT sum(a) AS t FROM T [RANGE 50]")
    for name in "ST":
        made.push(name, rows((0, 1), (1, 1)))
    joins = [s.query(text) for s in (made, alone)]
    for i in range(2, 200):
        for s in (made, alone):
            s.push("S", rows((i, i % 7)))
            s.push("T", rows((i, i % 5)))
    assert len(stores(made)) == 2
    for s in (made, alone):
        s.finish()
    assert fetched(joins[0]) == fetched(joins[1])


def test_a_later_query_that_needs_other_columns_keeps_its_own_rows() -> None:
    made = eddyline.Session()
    made.stream("S", schema=SCHEMA, timestamp="ts")
    texts = ["SELECT sum(b) AS t FROM S [RANGE 20]", "SELECT a, s, count(*) AS n FROM S [RANGE 20] GROUP BY a, s"]
    first = made.query(texts[0])
    came = events()
    for e in came[:5]:
        made.push("S", [e])
    second = made.query(texts[1])
    third = made.query(texts[0])  # has fewer columns than the store of the first or of the second
    for e in came[5:]:
        made.push("S", [e])
    assert len(stores(made)) == 2
    made.finish()
    for query, text in ((second, texts[1]), (third, texts[0])):
        one, (alone,) = started([text], sharing=False)
        for e in came[5:]:
            one.push("S", [e])
        one.finish()
        assert fetched(query) == fetched(alone)
    assert fetched(first)


def test_where_elements_come_out_of_order_a_later_window_shares_when_what_lies_between_has_left() -> None:
    text = "SELECT sum(a) AS t FROM S [RANGE 5]"
    made, alone = eddyline.Session(), eddyline.Session()
    for s in (made, alone):
        s.stream("S", schema=pa.schema([("ts", pa.int64()), ("a", pa.int64())]), timestamp="ts", slack=10)
    made.query(text)
    made.push("S", rows((1, 1), (8, 8), (12, 12)))
    later, one = made.query(text), alone.query(text)
    for s in (made, alone):
        s.push("S", rows((5, 5), (9, 9), (12, 120), (14, 14), (30, 30)))
    assert made._graph.registry.joined == 0  # 8 and 12 lie between 5, 9 and the second 12
    for s in (made, alone):
        s.push("S", rows(*((t, t) for t in range(31, 60))))
    assert made._graph.registry.joined == 1
    assert len(stores(made)) == 1
    for s in (made, alone):
        s.finish()
    assert fetched(later) == fetched(one)


@pytest.mark.parametrize("sharing", [True, False])
def test_later_windows_share_again_after_a_restore_or_a_switch(tmp_path: Path, sharing: bool) -> None:
    texts = ["SELECT sum(a) AS t FROM S [RANGE 20]", "SELECT Dstream(a) FROM S [RANGE 9]"]
    made = session("S")
    queries = [made.query(texts[0])]
    made.push("S", rows(*((i, i) for i in range(30))))
    queries.append(made.query(texts[1]))
    made.push("S", rows(*((i, i) for i in range(30, 60))))
    got = [fetched(q) for q in queries]
    if sharing:
        made.snapshot(tmp_path)
        made = session("S")
        queries = [made.query(t) for t in texts]
        made.restore(tmp_path)
    else:
        made.sharing = False
        assert len(stores(made)) == 2
        made.sharing = True
    made.push("S", rows(*((i, i) for i in range(60, 70))))
    made.push("S", rows((70, 70)))
    assert len(stores(made)) == 1
    made.finish()
    assert (got[1] + fetched(queries[1])) == [(i, i + 10) for i in range(30, 61)]
    assert (got[0] + fetched(queries[0]))[-1] == (sum(range(50, 71)), 70, 1)


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False))
def test_stubs_of_different_beginnings_see_their_own_rows(rng: random.Random) -> None:
    """Elements of a stream in order of time, every third left out by a filter; stubs come at any moment, go as far as
    they like, and are compared with the elements that came after them."""
    registry = Registry()
    what = ("s", ())
    elements: list[tuple[int, int]] = []  # time and value
    known: list[tuple[Stub, int, list[tuple[int, int]], list[int]]] = []
    time = 0
    for _ in range(rng.randint(20, 60)):
        match rng.choice(["come", "come", "come", "go", "go", "register", "forget", "drop"]):
            case "come":
                for _ in range(rng.randint(1, 4)):
                    time += rng.choice([0, 1, 1, 3])
                    elements.append((time, len(elements)))
            case "register" if len(known) < 4:
                epoch = len(elements)
                if elements:
                    registry.began["s", epoch] = elements[-1][0]
                stub = registry.stub(Elements(what[0], epoch), ONE, "S.")
                known.append((stub, epoch, [], [0]))
            case "go":
                for stub, epoch, mine, read in known:
                    whole = [e for e in elements[epoch + read[0] :] if e[0] < time]  # instants that have closed
                    upto = rng.choice([e[0] for e in whole]) if whole else None
                    part = [e for e in whole if upto is not None and e[0] <= upto]
                    read[0] += len(part)
                    passing = [e for e in part if e[1] % 3]
                    values = {"S.v": pa.array([v for _, v in passing], pa.int64())}
                    stub.insert(values, len(passing), np.array([t for t, _ in passing], np.int64))
                    mine += passing
            case "forget" if known:
                stub = rng.choice(known)[0]
                stub.expire(min(stub.end, stub.low + rng.choice([1, 2, 9])))
            case "drop" if len(known) > 1 and rng.random() < 0.3:
                registry.forget(known.pop(rng.randrange(len(known)))[0])
        for stub, _, mine, _ in known:
            assert seen(stub) == [v for _, v in mine[stub.low : stub.end]]
    registry.switch(False)
    assert registry.size()[0] == sum(len(s) for s, *_ in known)
