"""Every query printed in the papers gives the worked-out answer, however its input is cut.

The answers in ``results/*.toml`` were worked out by hand or by the reference interpreter, never by the engine.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import eddyline
from eddyline.testing import ManualClock, assert_results
from tests.papers.catalogs import paper_queries
from tests.papers.worked import Worked, worked_results

WORKED = worked_results()
MODELS = [q for q in paper_queries() if q.expect == "model"]


def from_tables(case: Worked) -> pa.Table:
    """The session reads Arrow tables."""
    session = eddyline.Session()
    for name, rows in case.streams.items():
        session.stream(name, rows, timestamp="ts")
    for name, rows in case.relations.items():
        session.relation(name, rows)
    return session.query(case.text).to_arrow()


def pushing(pushes: Callable[[Worked], Iterator[tuple[str, pa.RecordBatch]]]) -> Callable[[Worked], pa.Table]:
    """The rows are pushed batch by batch, and results are taken as they come."""

    def run(case: Worked) -> pa.Table:
        session = eddyline.Session()
        for name, rows in case.streams.items():
            session.stream(name, schema=rows.schema, timestamp="ts")
        for name, rows in case.relations.items():
            session.relation(name, rows)
        query = session.query(case.text)
        results: list[pa.RecordBatch] = []
        for name, batch in pushes(case):
            session.push(name, batch)
            results += query.fetch()
        session.finish()
        return pa.Table.from_batches([*results, *query.fetch()], query.schema)

    return run


def in_one_batch(case: Worked) -> Iterator[tuple[str, pa.RecordBatch]]:
    for name, rows in case.streams.items():
        yield name, rows.combine_chunks().to_batches()[0]


def by_element(case: Worked) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Element after element in the order of their timestamps, across streams."""
    elements = [(ts, i, name) for name, rows in case.streams.items() for i, ts in enumerate(rows["ts"].to_pylist())]
    for _, i, name in sorted(elements, key=lambda e: e[0]):
        yield name, case.streams[name].slice(i, 1).to_batches()[0]


def stream_after_stream(case: Worked) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Element after element, but the last stream first and each to its end: all the skew there can be."""
    for name, rows in reversed(list(case.streams.items())):
        for i in range(rows.num_rows):
            yield name, rows.slice(i, 1).to_batches()[0]


WAYS: dict[str, Callable[[Worked], pa.Table]] = {
    "reference": Worked.reference,
    "tables": from_tables,
    "one_batch": pushing(in_one_batch),
    "elements": pushing(by_element),
    "skew": pushing(stream_after_stream),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", WORKED, ids=lambda c: c.key)
def test_answer(case: Worked, way: str) -> None:
    answer = WAYS[way](case)
    assert_results(answer, case.expected)
    assert set(answer.schema.names) == set(case.answer.schema.names)  # _time and _sign included
    instants = answer.select([n for n in ("_time", "_sign") if n in answer.schema.names]).to_pylist()
    for one, other in itertools.pairwise(instants):
        assert one["_time"] <= other["_time"]
        assert one["_time"] < other["_time"] or one.get("_sign", 0) <= other.get("_sign", 0), "− before +"


@pytest.mark.parametrize("way", [w for w in WAYS if w != "reference"])
def test_figure_2_1_of_pulse(way: str) -> None:
    """By hand. From 0 to 10 x is t and y is t² / 10, which is smaller up to 10. Then x falls from 5: it is below y, 10
    at 10. At 15 y begins anew with 0 = x and rises, while x falls. At 20, the end of time, x is 0 and y 2.5."""
    (query,) = MODELS
    a = pa.table({"ts": [0, 10, 20], "x": [0.0, 5.0, 0.0], "v": [1.0, -1.0, 0.0]})
    b = pa.table({"ts": [0, 15], "y": [0.0, 0.0], "v": [0.0, 0.0], "a": [0.1, 0.1]})
    case: Any = SimpleNamespace(streams={"A": a, "B": b}, relations={}, text=query.text)
    answer = WAYS[way](case).to_pylist()
    shown = [(r["_from"], r["_to"], r["_closed"], r["x_0"], r["x_1"], r["y_0"], r["y_1"], r["y_2"]) for r in answer]
    assert shown == [
        (10.0, 15.0, "[)", 5.0, -1.0, 10.0, 2.0, 0.1),
        (15.0, 20.0, "()", 0.0, -1.0, 0.0, 0.0, 0.1),
        (20.0, 21.0, "[)", 0.0, 0.0, 2.5, 1.0, 0.1),
    ]


def test_every_query_has_an_answer() -> None:
    """… and says who worked it out; every answer shows something."""
    runnable = {q.key for q in paper_queries() if q.expect is None}
    assert {w.query.key for w in WORKED} == runnable
    for w in WORKED:
        assert w.by in ("hand", "reference"), w.key
        assert w.how, w.key
        assert w.answer.num_rows > 0, w.key
    assert sum(w.by == "hand" for w in WORKED) > len(WORKED) / 2


def test_a_stream_stamped_on_arrival_is_its_tuple_without_a_time() -> None:
    """Thesis 4.7 as it is meant: S0's tuple has no timestamp of its own, so S1 may have brought it long before.

    By hand, with windows of two rows: (1, 1) is in both windows at 3 s, (2, 2) in S1 only; at 6 s two rows have come to
    S1 after (1, 1), so that it is no longer found, (3, 3) is; at 8 s S2 has (2, 2) as well.
    """
    clock = ManualClock()
    session = eddyline.Session(clock=clock)
    schema = pa.schema([("A", pa.int64()), ("B", pa.int64())])
    for name in ("S0", "S1", "S2"):
        session.stream(name, schema=schema)
    query = session.query(
        "Select * From S0 Where S0 in (Select * From S1 [Rows 2]) and S0 in (Select * From S2 [Rows 2])"
    )
    arrivals = [
        (1, "S1", 1), (2, "S2", 1), (2, "S1", 2), (3, "S0", 1), (3, "S0", 2), (4, "S1", 3), (5, "S2", 3), (6, "S0", 1),
        (6, "S0", 3), (7, "S2", 2), (8, "S0", 2),
    ]  # fmt: skip
    for second, name, value in arrivals:
        clock.advance(seconds=second - clock.now() / 1_000_000)
        session.push(name, [{"A": value, "B": value}])
    session.finish()
    assert_results(
        query,
        """
        A | B | _time
        1 | 1 | 1970-01-01T00:00:03
        3 | 3 | 1970-01-01T00:00:06
        2 | 2 | 1970-01-01T00:00:08
        """,
    )
