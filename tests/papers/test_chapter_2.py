"""The worked semantics of the thesis, chapter 2: what its examples say about each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest

import eddyline
from eddyline.testing import assert_results
from tests.papers.worked import Worked, worked_results

WORKED = {w.key: w for w in worked_results()}
S1 = pa.schema([("A", pa.int64()), ("B", pa.int64()), ("ts", pa.int64())])
S2 = pa.schema([("A", pa.int64()), ("B", pa.int64()), ("C", pa.int64()), ("ts", pa.int64())])


def together(*cases: Worked, sharing: bool = True) -> tuple[eddyline.Session, list[eddyline.Query]]:
    """The queries of several cases in one session, over the data of the first."""
    session = eddyline.Session(sharing=sharing)
    for name, rows in cases[0].streams.items():
        session.stream(name, rows, timestamp="ts")
    return session, [session.query(c.text) for c in cases]


def test_example_2_1_1_and_its_shortcut_are_the_same_query() -> None:
    _, (full, shortcut) = together(WORKED["filter_istream"], WORKED["filter_shortcut"])
    assert full.schema == shortcut.schema
    assert full.to_arrow().equals(shortcut.to_arrow())
    assert full.to_arrow().num_rows == 4


def test_example_2_1_2_as_a_relation_and_with_istream() -> None:
    """Istream(S1.A) shows the A of what enters the relation, less what leaves it at the same instant."""
    relation, stream = WORKED["windowed_join"], WORKED["windowed_join_istream"]
    _, (changes, inserted) = together(relation, stream)
    signed = changes.to_arrow()
    entered = [(r["A"], r["_time"]) for r in signed.to_pylist() if r["_sign"] == 1]
    assert [(r["A"], r["_time"]) for r in inserted.to_arrow().to_pylist()] == entered
    assert_results(signed, relation.expected)
    assert_results(inserted, stream.expected)


# 2.3.1: [Rows 200] of S1 inside [Rows 1000] of 2.2.4's query, with 4 and 12 rows.

JOIN = WORKED["windowed_join"].query.text.replace("Rows 1000", "Rows 12")
MAXIMUM = WORKED["shared_window"].query.text.replace("Rows 200", "Rows 4")
EVENTS = 60


def feed(session: eddyline.Session, queries: Sequence[eddyline.Query], each: Callable[[int], None]) -> list[pa.Table]:
    results: list[list[pa.RecordBatch]] = [[] for _ in queries]
    for i in range(EVENTS):
        session.push("S1", [{"A": 10 + i % 4, "B": 7 * i % 23, "ts": 5 * i}])
        session.push("S2", [{"A": 11 + i % 2, "B": 0, "C": i, "ts": 5 * i + 1}])
        each(i)
        for kept, query in zip(results, queries, strict=True):
            kept += query.fetch()
    session.finish()
    return [pa.Table.from_batches([*kept, *q.fetch()], q.schema) for kept, q in zip(results, queries, strict=True)]


def start(sharing: bool) -> tuple[eddyline.Session, list[eddyline.Query]]:
    session = eddyline.Session(sharing=sharing)
    session.stream("S1", schema=S1, timestamp="ts")
    session.stream("S2", schema=S2, timestamp="ts")
    return session, [session.query(JOIN), session.query(MAXIMUM)]


def answers_alone() -> list[pa.Table]:
    session, queries = start(sharing=False)
    return feed(session, queries, lambda i: None)


def windows_on_s1(session: eddyline.Session) -> list[object]:
    """The stores behind the windows on S1, each once."""
    stubs = [s for q in session.queries for s in q.running.physical.stubs if "C" not in s.store.schema]
    return list({id(s.store): s.store for s in stubs}.values())


def test_section_2_3_1_one_store_for_both_windows() -> None:
    session, queries = start(sharing=True)
    alone, others = start(sharing=False)
    rows: list[int] = []
    rows_alone: list[int] = []
    shared = feed(session, queries, lambda i: rows.append(session.store_size[0]))
    feed(alone, others, lambda i: rows_alone.append(alone.store_size[0]))
    assert len(windows_on_s1(session)) == 1
    assert len(windows_on_s1(alone)) == 2
    # Until something leaves: the elements of both streams once, those of S1 twice without sharing. The last element of
    # each stream is not there yet, because its instant is open.
    assert rows[:4] == [0, 2, 4, 6]
    assert rows_alone[:4] == [0, 3, 6, 9]
    assert all(one < other for one, other in zip(rows[1:], rows_alone[1:], strict=True))
    assert [t.to_pylist() for t in shared] == [t.to_pylist() for t in answers_alone()]
    assert "2 windows over the same elements keep them once" in queries[1].explain()


@pytest.mark.parametrize("begin", [True, False])
@pytest.mark.parametrize("period", [1, 7, 25])
def test_section_2_3_1_sharing_is_enabled_and_disabled_on_the_fly(begin: bool, period: int) -> None:
    session, queries = start(begin)

    def switch(i: int) -> None:
        if i % period == period - 1:
            session.sharing = not session.sharing
            assert len(windows_on_s1(session)) == (1 if session.sharing else 2)

    switched = feed(session, queries, switch)
    assert [t.to_pylist() for t in switched] == [t.to_pylist() for t in answers_alone()]
    assert all(t.num_rows > 20 for t in switched)
