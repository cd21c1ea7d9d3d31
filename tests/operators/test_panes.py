"""Panes hold exactly what their elements hold, and no answer tells whether a window was fed with one or the other."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eddyline
from eddyline.core.delta import Delta
from eddyline.core.errors import DataError
from eddyline.core.window import Slide
from eddyline.expr.nodes import AggregateCall, Call, Column
from eddyline.kernels import panes as kernels
from eddyline.operators.pane_columns import PaneColumns, SumKind
from eddyline.operators.panes import BATCHES_PASSED_ON, Panes
from eddyline.operators.windows import enter_times, leave_times
from eddyline.plan import aggregate_nodes

K, X, N, T = Column("k", pa.string()), Column("x", pa.float64()), Column("i", pa.int64()), Column("t", pa.string())
CALLS = (
    AggregateCall("avg", (X,), pa.float64()),
    AggregateCall("sum", (N,), pa.int64()),
    AggregateCall("count", (T,), pa.int64()),
)
TEXT = """SELECT k, count(*) AS n, count(x) AS nx, sum(x) AS sx, avg(x) AS ax, sum(i) AS si, avg(i) AS ai,
                 count(t) AS nt
FROM S [RANGE {0} SLIDE {1}] GROUP BY k"""

doubles = st.one_of(
    st.none(),
    st.floats(width=64),
    st.sampled_from([0.0, -0.0, 0.1, 0.2, 0.3, 1e16, -1e16, 1e308, -1e308, 5e-324, math.nan, math.inf, -math.inf]),
    st.integers(-300, 300).map(lambda n: n / 100),
)
integers = st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([2**62, -(2**62), 2**63 - 1, -(2**63)]))
rows = st.tuples(
    st.integers(0, 12), st.sampled_from(["a", "b", None]), doubles, integers, st.sampled_from(["p", None])
)  # fmt: skip
streams = st.lists(rows, max_size=24).map(lambda found: sorted(found, key=lambda r: r[0]))


@pytest.fixture(autouse=True)
def always() -> Any:
    """However few elements there are, and however little there is to gain."""
    with patch.multiple(Panes, min_elements=0, rest=0):
        yield


def delta(elements: list[tuple[Any, ...]]) -> Delta:
    time, *columns = zip(*elements, strict=True) if elements else ((), (), (), (), ())
    named = {c.name: pa.array(v, c.type) for c, v in zip((K, X, N, T), columns, strict=True)}
    return Delta(np.array(time, np.int64), named)


def content(out: Delta, *, of: Slide) -> dict[tuple[Any, ...], list[Any]]:
    """For each group and interval of the window: rows, sums and counts, exactly; how often NaN and the infinities."""
    found: dict[tuple[Any, ...], list[Any]] = {}
    enter, leave = enter_times(of, out.time).tolist(), leave_times(of, out.time).tolist()
    columns = {n: c.to_pylist() for n, c in out.columns.items()}
    for r in range(len(out)):
        total = found.setdefault((enter[r], leave[r], columns["_key0"][r]), [0, 0, 0, 0, Fraction(0), 0, set()])
        for j, name in enumerate(("_rows", "_count0", "_count1", "_count2")):
            total[j] += columns[name][r]
        total[5] += columns["_sum1"][r]
        if math.isfinite(columns["_sum0"][r]):
            total[4] += Fraction(columns["_sum0"][r]) + Fraction(columns["_rest0"][r])
        else:
            assert columns["_count0"][r] == 1 and columns["_rest0"][r] == 0
            total[6].add(str(columns["_sum0"][r]))
    return found


@given(streams, st.integers(1, 7), st.integers(1, 4))
@settings(max_examples=300, deadline=None)
def test_panes_hold_what_their_elements_hold(elements: list[Any], width: int, slide: int) -> None:
    window = Slide(width, slide)
    pane_columns = PaneColumns.of([K], CALLS)
    assert pane_columns is not None
    panes = Panes("panes 1", pane_columns, [window])
    singly = Panes("panes 2", pane_columns, [window])
    singly.min_elements = 1 << 30
    given_, last = delta(elements), elements[-1][0] if elements else 0
    out, each = panes.process([given_], last), singly.process([given_], last)
    assert content(out, of=window) == content(each, of=window)
    assert len(each) == len(elements) and len(out) <= len(elements)
    assert (np.diff(out.time) >= 0).all() and set(out.time.tolist()) <= {e[0] for e in elements}
    assert (panes.place == -1).all()


def test_numbers_of_similar_size_become_one() -> None:
    prices = [round(100 + 0.01 * i, 2) for i in range(1000)]
    pane_columns = PaneColumns.of([K], CALLS)
    assert pane_columns is not None
    out = Panes("panes 1", pane_columns, [Slide(10, 2)]).process([delta([(1, "a", p, 1, None) for p in prices])], 1)
    assert len(out) == 1
    parts = [Fraction(out.columns[n][0].as_py()) for n in ("_sum0", "_rest0")]
    assert sum(parts) == sum(map(Fraction, prices)) and out.columns["_sum1"].to_pylist() == [1000]


def test_the_ends_of_panes_are_those_of_all_windows() -> None:
    pane_columns = PaneColumns.of([], [AggregateCall("count", (), pa.int64())])
    assert pane_columns is not None
    panes = Panes("panes 1", pane_columns, [Slide(10, 4), Slide(5, 4)])  # k·4, k·4 − 10, k·4 − 5
    assert panes.process([delta([(t, "a", 0.0, 0, "") for t in range(9)])], 8).time.tolist() == [0, 2, 3, 4, 6, 7, 8]


def test_what_gains_nothing_is_left_alone_for_a_while() -> None:
    pane_columns = PaneColumns.of([K], CALLS)
    assert pane_columns is not None
    panes = Panes("panes 1", pane_columns, [Slide(10, 2)])
    panes.rest = BATCHES_PASSED_ON
    apart, together = delta([(2, k, 1.0, 1, None) for k in "abcd"]), delta([(2, "a", 1.0, 1, None)] * 4)
    assert len(panes.process([apart], 2)) == 4
    assert [len(panes.process([together], 2)) for _ in range(BATCHES_PASSED_ON + 1)] == [4] * BATCHES_PASSED_ON + [1]


def test_groups_are_forgotten() -> None:
    pane_columns = PaneColumns.of([K], CALLS)
    assert pane_columns is not None
    panes = Panes("panes 1", pane_columns, [Slide(10, 2)])
    with patch("eddyline.operators.panes.MAX_KNOWN_GROUPS", 3):
        for i in range(20):
            elements = [(2, f"{i} {j}", float(j), j, None) for j in (0, 1, 1)]
            assert panes.process([delta(elements)], 2).columns["_sum0"].to_pylist() == [0.0, 2.0]
    assert len(panes.groups) <= 5


def test_some_aggregates_need_the_elements() -> None:
    failing = Call("divide", (X, X), pa.float64())
    for call in (
        AggregateCall("min", (X,), pa.float64()),
        AggregateCall("sum", (X,), pa.float64(), distinct=True),
        AggregateCall("stddev", (X,), pa.float64()),
        AggregateCall("sum", (failing,), pa.float64()),
    ):
        assert PaneColumns.of([K], [*CALLS, call]) is None
    assert PaneColumns.of([failing], CALLS) is None


def test_the_kernel_knows_the_same_kinds() -> None:
    assert tuple(SumKind) == (kernels.COUNT, kernels.INTEGER, kernels.DOUBLE)


# -- through the engine --------------------------------------------------------------------------------------------


def answer(text: str, elements: list[Any], cuts: list[int]) -> Counter[tuple[Any, ...]] | str:
    session = eddyline.Session()
    schema = pa.schema([("ts", pa.int64()), *((c.name, c.type) for c in (K, X, N, T))])
    session.stream("S", schema=schema, timestamp="ts")
    query = session.query(text)
    places = [0, *sorted(c % (len(elements) + 1) for c in cuts), len(elements)]
    try:
        for a, b in itertools.pairwise(places):
            arrays = [pa.array([e[j] for e in elements[a:b]], f.type) for j, f in enumerate(schema)]
            session.push("S", pa.RecordBatch.from_arrays(arrays, schema=schema))
        session.finish()
        return Counter(tuple(map(str, row.values())) for batch in query.fetch() for row in batch.to_pylist())
    except DataError:
        return "a sum does not fit"


@given(streams, st.lists(st.integers(0, 30), max_size=3), st.integers(1, 7), st.integers(1, 4), st.booleans())
@settings(max_examples=150, deadline=None)
def test_no_answer_tells(elements: list[Any], cuts: list[int], width: int, slide: int, joined: bool) -> None:
    text = TEXT.format(width, slide)
    if joined:  # two windows over the same panes
        text = f"SELECT a.k, a.sx, b.sx, a.n, b.ai FROM ({text}) a, ({TEXT.format(width + 3, 2)}) b WHERE a.k = b.k"
    with patch.object(aggregate_nodes, "panes_below", lambda p: None):
        expected = answer(text, elements, [])
    assert answer(text, elements, cuts) == expected


def test_the_panes_of_two_windows_are_made_once() -> None:
    session = eddyline.Session()
    schema = pa.schema([("ts", pa.int64()), *((c.name, c.type) for c in (K, X, N, T))])
    session.stream("S", schema=schema, timestamp="ts")
    both = "SELECT a.k, a.ap, b.ap FROM ({}) a, ({}) b WHERE a.k = b.k"
    average = "SELECT k, avg(x) AS ap FROM S [RANGE {} SLIDE 2] {}GROUP BY k"
    shared = session.query(both.format(average.format(4, ""), average.format(7, ""))).explain()
    assert "panes 1  by" in shared and "panes 2" not in shared
    apart = session.query(both.format(average.format(4, ""), average.format(7, "WHERE i > 1 "))).explain()
    assert "panes 2" in apart
