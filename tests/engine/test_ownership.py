"""One thread at a time in a session: answers of many threads are checked, and what cannot work is one sentence."""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
import random
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import eddyline as ed

SCHEMA = pa.schema([("ts", pa.int64()), ("v", pa.int64())])
THREADS, PUSHES, ROWS = 8, 40, 5


@pytest.fixture(autouse=True)
def switching() -> Iterator[None]:
    """Let threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(*work: Callable[[], None]) -> None:
    """Run everything in threads of its own, and raise what one of them raised."""
    failed: list[BaseException] = []

    def guarded(what: Callable[[], None]) -> None:
        try:
            what()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(w,)) for w in work]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    assert not [t for t in threads if t.is_alive()]
    if failed:
        raise failed[0]


def pushed(text: str = "SELECT Istream(v) FROM S", streams: tuple[str, ...] = ("S",)) -> tuple[ed.Session, ed.Query]:
    session = ed.Session()
    for name in streams:
        session.stream(name, schema=SCHEMA, timestamp="ts", slack=THREADS * PUSHES * ROWS)
    return session, session.query(text)


def test_many_threads_push_to_one_stream() -> None:
    session, query = pushed("SELECT sum(v) AS total, count(*) AS n FROM S [RANGE 50]")
    plain = session.query("SELECT Istream(v) FROM S")

    def work(number: int) -> Callable[[], None]:
        def push() -> None:
            mine = random.Random(number)
            for n in range(PUSHES):
                first = (n * THREADS + number) * ROWS
                rows = [{"ts": first + i, "v": first + i} for i in range(ROWS)]
                session.push("S", mine.choice((rows, pa.Table.from_pylist(rows, SCHEMA))))

        return push

    together(*map(work, range(THREADS)))
    session.finish()
    count = THREADS * PUSHES * ROWS
    assert sorted(plain.to_arrow()["v"].to_pylist()) == list(range(count))
    alone, expected = pushed("SELECT sum(v) AS total, count(*) AS n FROM S [RANGE 50]")
    alone.push("S", [{"ts": t, "v": t} for t in range(count)])
    alone.finish()
    assert query.to_arrow().to_pylist() == expected.to_arrow().to_pylist()
    assert query.report()["events"] == count and query.report()["late"] == 0


def test_a_thread_for_each_stream_and_others_that_look() -> None:
    text = "SELECT Istream(A.v AS a, B.v AS b) FROM A [RANGE 9], B [RANGE 9] WHERE A.v = B.v"
    session, query = pushed(text, ("A", "B"))
    taken: list[pa.RecordBatch] = []
    done = threading.Event()

    def work(name: str) -> Callable[[], None]:
        def push() -> None:
            for n in range(3 * PUSHES):
                session.push(name, [{"ts": n, "v": n % 7}])
                session.heartbeat(name, n)
            session.finish(name)

        return push

    def look() -> None:
        while not done.is_set():
            taken.extend(query.fetch())
            query.report(), query.explain(), query.decisions, query.statistics(), query.late(), session.store_size

    def come_and_go() -> None:
        while not done.is_set():
            session.query("SELECT Istream(sum(v) AS s) FROM A [ROWS 3]").drop()

    def push_both() -> None:
        try:
            together(work("A"), work("B"))
        finally:
            done.set()

    together(push_both, look, come_and_go)
    taken += query.fetch()
    alone, expected = pushed(text, ("A", "B"))
    for name in ("A", "B"):
        alone.push(name, [{"ts": n, "v": n % 7} for n in range(3 * PUSHES)])
    alone.finish()

    def bag(table: pa.Table) -> list[tuple[Any, ...]]:
        return sorted(tuple(row.values()) for row in table.to_pylist())

    assert bag(pa.Table.from_batches(taken, query.schema)) == bag(expected.to_arrow())


@pytest.mark.parametrize("shared", [True, False])
def test_threads_that_take_the_results_of_one_query(shared: bool) -> None:
    session = ed.Session()
    session.stream("S", (pa.record_batch({"ts": [t, t], "v": [2 * t, 2 * t + 1]}) for t in range(300)), timestamp="ts")
    query = session.query("SELECT Istream(v) FROM S")
    one = query.results()
    found: list[int] = []

    def take() -> None:
        for batch in one if shared else query.results():
            found.extend(batch["v"].to_pylist())

    together(*[take] * 4)
    assert sorted(found) == list(range(600))


def test_threads_that_ask_for_the_whole_table() -> None:
    session = ed.Session()
    session.stream("S", (pa.record_batch({"ts": [t], "v": [t]}) for t in range(300)), timestamp="ts")
    query = session.query("SELECT Istream(v) FROM S")
    found: list[list[int]] = []
    together(*[lambda: found.append(query.to_arrow()["v"].to_pylist())] * 4)
    assert found == [list(range(300))] * 4


def test_results_that_are_not_asked_for_stay() -> None:
    session, query = pushed()
    for t in range(3):
        session.push("S", [{"ts": t, "v": t}])
    session.finish()
    first = next(query.results())  # the iterator is dropped; what it did not give is not lost
    assert first.num_rows + query.to_arrow().num_rows == 3


def test_snapshots_while_others_push(tmp_path: Path) -> None:
    session, query = pushed("SELECT Istream(sum(v) AS s) FROM S")
    numbers: list[int] = []

    def push() -> None:
        for t in range(100):
            session.push("S", [{"ts": t, "v": 1}])

    def save() -> None:
        while len(numbers) < 5:
            numbers.append(session.snapshot(tmp_path))

    together(push, save)
    assert numbers == [1, 2, 3, 4, 5]
    session.finish()
    again, restored = pushed("SELECT Istream(sum(v) AS s) FROM S")
    again.restore(tmp_path)
    seen = again.inputs["s"].arrived
    again.push("S", [{"ts": t, "v": 1} for t in range(seen, 100)])
    again.finish()
    assert restored.to_arrow()["s"].to_pylist()[-1] == query.to_arrow()["s"].to_pylist()[-1] == 100


def test_coroutines() -> None:
    session, query = pushed()

    async def work(number: int) -> None:
        for n in range(PUSHES):
            await asyncio.to_thread(session.push, "S", [{"ts": n, "v": number * PUSHES + n}])
            session.tick()  # and here, in the thread of the loop

    async def everything() -> None:
        await asyncio.gather(*map(work, range(4)))

    asyncio.run(everything())
    session.finish()
    assert sorted(query.to_arrow()["v"].to_pylist()) == list(range(4 * PUSHES))


def test_an_error_gives_the_turn_back() -> None:
    session, _ = pushed()
    with pytest.raises(ed.JobError):
        session.push("S", 5)
    together(lambda: session.push("S", [{"ts": 1, "v": 1}]))


USES: dict[str, Callable[[ed.Session, ed.Query], Any]] = {
    "push": lambda s, q: s.push("S", [{"ts": 9, "v": 9}]),
    "heartbeat": lambda s, q: s.heartbeat("S", 9),
    "finish": lambda s, q: s.finish(),
    "tick": lambda s, q: s.tick(),
    "step": lambda s, q: s.step(),
    "run": lambda s, q: s.run(),
    "fetch": lambda s, q: q.fetch(),
    "results": lambda s, q: list(q.results()),
    "to_arrow": lambda s, q: q.to_arrow(),
    "report": lambda s, q: q.report(),
    "drop": lambda s, q: q.drop(),
    "query": lambda s, q: s.query("SELECT v FROM S"),
    "execute": lambda s, q: s.execute("SELECT v FROM S;"),
    "stream": lambda s, q: s.stream("T", schema=SCHEMA, timestamp="ts"),
    "sharing": lambda s, q: setattr(s, "sharing", False),
}


@pytest.mark.parametrize("use", USES)
def test_a_function_that_uses_its_own_session(use: str) -> None:
    session = ed.Session()
    session.stream("S", schema=SCHEMA, timestamp="ts")
    session.function("f", lambda v: USES[use](session, query), returns="bigint")
    query = session.query("SELECT f(v) AS x FROM S")
    session.push("S", [{"ts": 1, "v": 1}])
    with pytest.raises(ed.EddylineError, match="the session is at work and called what uses it: a function"):
        session.push("S", [{"ts": 2, "v": 1}])


@pytest.mark.parametrize("use", USES)
def test_a_source_that_uses_its_own_session(use: str) -> None:
    session = ed.Session()

    def rows() -> Iterator[dict[str, int]]:
        yield {"ts": 1, "v": 1}
        if queries:
            USES[use](session, queries[0])
        yield {"ts": 2, "v": 1}

    queries: list[ed.Query] = []
    session.stream("S", rows(), schema=SCHEMA, timestamp="ts")
    queries.append(session.query("SELECT v FROM S"))
    with pytest.raises(ed.EddylineError, match="the session is at work and called what uses it: a function"):
        session.run()


def test_a_session_is_not_pickled() -> None:
    session, query = pushed()
    for what in (session, query):
        for way in (pickle.dumps, copy.deepcopy):
            with pytest.raises(ed.EddylineError, match=r"a session cannot be pickled or copied, .*snapshot"):
                way(what)
    with pytest.raises(ed.EddylineError, match="a session cannot be pickled or copied"):
        copy.copy(session)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_copy_that_was_forked_in_the_middle_of_work() -> None:
    """Nobody in the child would ever give the turn back: it must not wait for ever."""
    session = ed.Session()
    session.stream("S", schema=SCHEMA, timestamp="ts")
    inside, forked = threading.Event(), threading.Event()

    def wait(v: int) -> int:
        inside.set()
        assert forked.wait(60)
        return v

    session.function("wait", wait, returns="bigint")
    query = session.query("SELECT wait(v) AS v FROM S")

    def fork() -> None:
        assert inside.wait(60)
        child = os.fork()
        if child == 0:
            try:
                with pytest.raises(ed.EddylineError, match="was forked while another thread was at work"):
                    session.push("S", [{"ts": 3, "v": 3}])
            except BaseException:
                os._exit(1)
            os._exit(0)
        forked.set()
        assert os.waitpid(child, 0)[1] == 0

    def push() -> None:
        session.push("S", [{"ts": 1, "v": 1}])
        session.push("S", [{"ts": 2, "v": 2}])

    together(push, fork)
    session.finish()
    assert query.to_arrow()["v"].to_pylist() == [1, 2]


def test_two_sessions_do_not_save_in_one_directory(tmp_path: Path) -> None:
    one, other = pushed()[0], pushed()[0]
    assert (one.snapshot(tmp_path), one.snapshot(tmp_path), other.snapshot(tmp_path)) == (1, 2, 3)
    with pytest.raises(ed.EddylineError, match=r"another session has saved snapshot 3 in .* since this one saved 2"):
        one.snapshot(tmp_path)
    one.restore(tmp_path)  # goes on from what is there, and has it from now on
    assert one.snapshot(tmp_path) == 4
