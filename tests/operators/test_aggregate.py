"""The aggregate operator against a model that computes every group from scratch at every instant."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.core.catalog import AggregateDef
from eddyline.core.delta import Delta
from eddyline.core.errors import DataError
from eddyline.core.schema import Field, Schema
from eddyline.expr.nodes import AggregateCall, Call, Column
from eddyline.operators.aggregate import AggregateOperator
from eddyline.operators.base import Context

NAN = float("nan")
REAL, INT, TEXT, MONEY = pa.float64(), pa.int64(), pa.string(), pa.decimal128(10, 2)
SCHEMA = Schema((Field("k", TEXT), Field("x", REAL), Field("i", INT), Field("s", TEXT), Field("d", MONEY)))
K, X, N, T, M = (Column(f.name, f.type) for f in SCHEMA)
SPREAD = AggregateDef("spread_of", lambda values: max(values) - min(values), INT)
JOINED = AggregateDef("joined", lambda values: ",".join(values), TEXT)


def call(function: str, *args: Any, type: pa.DataType, **more: Any) -> AggregateCall:
    return AggregateCall(function, args, type, **more)


CALLS: dict[str, AggregateCall] = {
    "n": call("count", type=INT),
    "count_x": call("count", X, type=INT),
    "sum_x": call("sum", X, type=REAL),
    "avg_x": call("avg", X, type=REAL),
    "dev_x": call("stddev", X, type=REAL),
    "var_pop_x": call("var_pop", X, type=REAL),
    "min_x": call("min", X, type=REAL),
    "max_x": call("max", X, type=REAL),
    "sum_i": call("sum", N, type=INT),
    "avg_i": call("avg", N, type=REAL),
    "min_i": call("min", N, type=INT),
    "max_i": call("max", N, type=INT),
    "min_s": call("min", T, type=TEXT),
    "max_s": call("max", T, type=TEXT),
    "min_d": call("min", M, type=MONEY),
    "sum_d": call("sum", M, type=pa.decimal128(38, 2)),
    "count_distinct_s": call("count", T, type=INT, distinct=True),
    "count_distinct_both": call("count", T, N, type=INT, distinct=True),
    "sum_distinct_x": call("sum", X, type=REAL, distinct=True),
    "sum_distinct_i": call("sum", N, type=INT, distinct=True),
    "first_x": call("first", X, type=REAL),
    "last_s": call("last", T, type=TEXT),
    "first_s": call("first", T, type=TEXT),
    "spread_i": call("user", N, type=INT, user=SPREAD),
    "joined_s": call("user", T, type=TEXT, user=JOINED),
    "joined_distinct_s": call("user", T, type=TEXT, user=JOINED, distinct=True),
}
Row = tuple[Any, ...]


# -- the model -----------------------------------------------------------------------------------------------------


def canonical(v: Any) -> Any:
    return (NAN if v != v else v + 0.0) if isinstance(v, float) else v


def total(values: list[float]) -> float:
    if any(v != v for v in values) or {math.inf, -math.inf} <= set(values):
        return NAN
    for infinity in (math.inf, -math.inf):
        if infinity in values:
            return infinity
    exact = sum(map(Fraction, values), Fraction(0))
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def variance(values: list[float], less: int) -> float | None:
    if len(values) <= less:
        return None
    if not all(map(math.isfinite, values)):
        return NAN
    exact = [Fraction(v) for v in values]
    mean = sum(exact, Fraction(0)) / len(exact)
    return float(sum(((v - mean) ** 2 for v in exact), Fraction(0)) / (len(exact) - less))


def fold(c: AggregateCall, rows: list[Row]) -> Any:
    tuples = [tuple(canonical(r[SCHEMA.names.index(a.name)]) for a in c.args) for r in rows]
    if c.function in ("first", "last"):
        return tuples[0 if c.function == "first" else -1][0] if tuples else None
    tuples = [t for t in tuples if None not in t]
    if c.distinct:
        tuples = list(dict.fromkeys(tuples))
    if c.function == "count":
        return len(tuples)
    values = [t[0] for t in tuples]
    if not values:
        return None
    if c.user is not None:
        return c.user.function(values)
    if c.function in ("min", "max"):
        key = (lambda v: (v != v, 0.0 if v != v else v)) if isinstance(values[0], float) else None
        return (min if c.function == "min" else max)(values, key=key)
    if c.function in ("stddev", "var_pop"):
        v = variance(values, 0 if c.function == "var_pop" else 1)
        return math.sqrt(v) if v is not None and c.function == "stddev" else v
    whole = total(values) if isinstance(values[0], float) else sum(values)
    return whole if c.function == "sum" else whole / len(values)


class Model:
    """The rows that are there, in order of arrival; a deletion takes its id's row, or the oldest that is equal."""

    def __init__(self, calls: list[AggregateCall], grouped: bool) -> None:
        self.calls, self.grouped = calls, grouped
        self.rows: list[tuple[int, Row]] = []

    def change(self, id_: int, row: Row, weight: int) -> None:
        for _ in range(weight):
            self.rows.append((id_, row))
        for _ in range(-weight):
            at = next(i for i, (other, r) in enumerate(self.rows) if (other == id_ if id_ >= 0 else r == row))
            del self.rows[at]

    def relation(self) -> Counter[Row]:
        groups: dict[Any, list[Row]] = defaultdict(list)
        for _, row in self.rows:
            groups[row[0]].append(row)
        if not self.grouped:
            whole = [row for _, row in self.rows]
            return Counter([shown(tuple(fold(c, whole) for c in self.calls))])
        return Counter(shown((key, *(fold(c, rows) for c in self.calls))) for key, rows in groups.items())


def shown(row: Row) -> Row:
    """Rows as keys: all NaNs alike."""
    return tuple("NaN" if isinstance(v, float) and v != v else v for v in row)


# -- cases ---------------------------------------------------------------------------------------------------------

floats = st.one_of(
    st.none(),
    st.sampled_from([0.0, -0.0, 0.1, 0.2, 0.3, 1e16, -1e16, 1e150, NAN, math.inf, -math.inf]),
    st.integers(-3, 3).map(float),
)
rows = st.tuples(
    st.sampled_from(["a", "b", "c", None]),
    floats.map(canonical),
    st.one_of(st.none(), st.integers(-3, 3), st.just(2**40)),
    st.one_of(st.none(), st.sampled_from(["", "p", "q", "é"])),
    st.one_of(st.none(), st.sampled_from([Decimal("1.25"), Decimal("-3.10")])),
)
Element = tuple[int, int, Row, int]  # time, id or −1, row, weight


@st.composite
def cases(draw: st.DrawFn, fifo: bool) -> list[list[Element]]:
    """Batches of whole instants with a valid history."""
    batches: list[list[Element]] = []
    alive: list[tuple[int, Row]] = []
    counts: Counter[Row] = Counter()
    time, fresh = draw(st.integers(0, 3)), 0
    for _ in range(draw(st.integers(1, 5))):
        batch: list[Element] = []
        for _ in range(draw(st.integers(0, 4))):
            for _ in range(draw(st.integers(1, 4))):
                if fifo and alive and draw(st.booleans()):
                    id_, row = alive.pop(0)
                    batch.append((time, id_, row, -1))
                elif not fifo and +counts and draw(st.booleans()):
                    row = draw(st.sampled_from(list(+counts)))
                    w = draw(st.integers(1, counts[row]))
                    counts[row] -= w
                    batch.append((time, -1, row, -w))
                else:
                    row = draw(rows)
                    w = 1 if fifo else draw(st.integers(1, 2))
                    alive.append((fresh, row))
                    counts[row] += w
                    batch.append((time, fresh if fifo else -1, row, w))
                    fresh += 1
            time += draw(st.integers(1, 2))
        batches.append(batch)
    return batches


def delta(batch: list[Element], fifo: bool) -> Delta:
    columns = {f.name: pa.array([r[j] for _, _, r, _ in batch], f.type) for j, f in enumerate(SCHEMA)}
    weight = np.array([w for *_, w in batch], np.int64)
    ids = np.array([i for _, i, _, _ in batch], np.int64) if fifo else None
    return Delta(
        np.array([t for t, *_ in batch], np.int64), columns, None if (weight == 1).all() and len(batch) else weight, ids
    )


def operator(names: list[str], grouped: bool, start: int, **more: Any) -> AggregateOperator:
    keys = (("k", K),) if grouped else ()
    return AggregateOperator("a", keys, tuple((n, CALLS[n]) for n in names), SCHEMA, grouped, Context(start), **more)


def elements(d: Delta) -> list[tuple[int, Row, int]]:
    values = zip(*(c.to_pylist() for c in d.columns.values()), strict=True)
    return list(zip(d.time.tolist(), map(shown, values), d.weights.tolist(), strict=True))


def check(batches: list[list[Element]], names: list[str], grouped: bool, fifo: bool, reload: int) -> None:
    start = next((t for b in batches for t, *_ in b), 0) - 1
    op = operator(names, grouped, start, fifo=fifo)
    inserts = operator(names, grouped, start, fifo=fifo, inserts_only=True)
    model = Model([CALLS[n] for n in names], grouped)
    relation: Counter[Row] = Counter()
    frontier = start
    for number, batch in enumerate(batches):
        if number == reload:
            state, op = op.state(), operator(names, grouped, start, fifo=fifo)
            op.load(state)
        frontier = max([frontier, *(t for t, *_ in batch)])
        out = op.process([delta(batch, fifo)], frontier)
        assert [f.name for f in op.schema] == list(out.columns)
        assert [c.type for c in out.columns.values()] == [f.type for f in op.schema]
        made = elements(out)
        assert [t for t, *_ in made] == sorted(t for t, *_ in made)
        plus = elements(inserts.process([delta(batch, fifo)], frontier))
        assert plus == [e for e in made if e[2] > 0]
        times = sorted({t for t, *_ in batch} | ({start} if number == 0 and not grouped else set()))
        assert {t for t, *_ in made} <= set(times)
        for t in times:
            before = relation.copy()
            for _, id_, row, w in (e for e in batch if e[0] == t):
                model.change(id_, row, w)
            for _, row, w in (e for e in made if e[0] == t):
                relation[row] += w
                assert relation[row] >= 0
            assert +relation == model.relation()
            removed, added = before - relation, relation - before  # nothing is said that does not change
            assert sum(abs(w) for s, _, w in made if s == t) == removed.total() + added.total()
    rows_kept, size = op.size()
    assert rows_kept >= 0 and size >= 0
    if grouped and not model.rows:
        assert len(op.groups) == 0


names = st.lists(st.sampled_from(list(CALLS)), min_size=1, max_size=5, unique=True)


@settings(max_examples=150, deadline=None)
@given(cases(fifo=True), names, st.booleans(), st.integers(0, 5))
def test_windows_with_ids(batches: list[list[Element]], names: list[str], grouped: bool, reload: int) -> None:
    check(batches, names, grouped, True, reload)


@settings(max_examples=150, deadline=None)
@given(cases(fifo=False), names, st.booleans(), st.integers(0, 5))
def test_any_relation(batches: list[list[Element]], names: list[str], grouped: bool, reload: int) -> None:
    check(batches, names, grouped, False, reload)


# -- single facts --------------------------------------------------------------------------------------------------


def one(time: int, id_: int, weight: int, k: str | None = "a", x: float | None = 1.0, i: int | None = 1) -> Element:
    return time, id_, (k, x, i, "s", None), weight


def test_row_of_an_ungrouped_aggregate_from_the_start_of_time() -> None:
    op = operator(["n", "sum_x"], False, 5)
    out = op.process([delta([], False)], 6)
    assert elements(out) == [(5, (0, None), 1)]
    assert elements(op.process([delta([one(8, 0, 1), one(9, 0, -1)], True)], 9)) == [
        (8, (0, None), -1),
        (8, (1, 1.0), 1),
        (9, (1, 1.0), -1),
        (9, (0, None), 1),
    ]


def test_elements_at_the_start_are_in_the_first_row() -> None:
    op = operator(["n"], False, 5)
    assert elements(op.process([delta([one(5, 0, 1), one(7, 1, 1)], True)], 7)) == [
        (5, (1,), 1),
        (7, (1,), -1),
        (7, (2,), 1),
    ]


def test_group_that_empties_and_returns_within_a_batch() -> None:
    op = operator(["n"], True, 0)
    batch = [one(1, 0, 1), one(2, 0, -1), one(3, 1, 1), one(4, 1, -1), one(4, 2, 1, "b")]
    assert [(t, r, w) for t, r, w in elements(op.process([delta(batch, True)], 4))] == [
        (1, ("a", 1), 1),
        (2, ("a", 1), -1),
        (3, ("a", 1), 1),
        (4, ("a", 1), -1),
        (4, ("b", 1), 1),
    ]
    assert len(op.groups) == 1
    assert elements(op.process([delta([one(5, 3, 1)], True)], 5)) == [(5, ("a", 1), 1)]


def test_overflow_names_the_call_and_the_group() -> None:
    op = operator(["n", "sum_i"], True, 0)
    with pytest.raises(DataError, match=r"sum\(i\) overflows a 64-bit integer in group k = 'b'; cast the argument"):
        op.process([delta([one(1, 0, 1, i=2**62), one(1, 1, 1, "b", i=2**62), one(2, 2, 1, "b", i=2**62)], True)], 2)


def test_sum_beyond_64_bits_within_an_instant_is_no_error() -> None:
    op = operator(["sum_i", "avg_i"], True, 0)
    batch = [one(1, 0, 1, i=2**63 - 1), one(1, 1, 1, i=2**63 - 1), one(1, 2, 1, i=-(2**63))]
    assert elements(op.process([delta(batch, True)], 1)) == [(1, ("a", 2**63 - 2, (2**63 - 2) / 3), 1)]


def test_failing_user_aggregate_is_named() -> None:
    broken = AggregateDef("broken", lambda values: values[5], INT)
    aggregates = (("v", AggregateCall("user", (N,), INT, user=broken)),)
    op = AggregateOperator("a", (("k", K),), aggregates, SCHEMA, True, Context(0))
    with pytest.raises(DataError, match=r"aggregate broken failed in group k = 'a' with 1 values: IndexError"):
        op.process([delta([one(1, 0, 1)], True)], 1)


def test_expressions_as_keys_and_arguments() -> None:
    double = Call("add", (N, N), INT)
    op = AggregateOperator(
        "a", (("key", double),), (("s", AggregateCall("sum", (double,), INT)),), SCHEMA, True, Context(0)
    )
    assert elements(op.process([delta([one(1, 0, 1, i=3), one(1, 1, 1, i=3)], True)], 1)) == [(1, (6, 12), 1)]


def test_append_only_keeps_one_value_for_each_group() -> None:
    op = operator(["min_x", "max_x", "first_x", "last_s"], True, 0, append_only=True)
    batch = [one(t, -1, 1, "ab"[t % 2], float((t * 7) % 50)) for t in range(100)]
    out = []
    for start in range(0, 100, 10):
        out += elements(op.process([delta(batch[start : start + 10], False)], start + 9))
    relation: Counter[Row] = Counter()
    for _, row, w in out:
        relation[row] += w
    model = Model([CALLS[n] for n in ("min_x", "max_x", "first_x", "last_s")], True)
    for _, id_, row, w in batch:
        model.change(id_, row, w)
    assert +relation == model.relation()
    assert op.size()[0] <= 2 + 2 + 2 + 2 * 2 + 2 * 10  # groups, minima, maxima, ends, and one batch of nodes at most


def test_many_groups_come_and_go_in_bounded_state() -> None:
    op = operator(["sum_x", "min_x", "count_distinct_s", "first_x", "max_s"], True, 0, fifo=True)
    sizes = []
    for t in range(60):
        batch = [one(t, t, 1, f"k{t:02d}", float(t))]
        if t >= 3:
            batch.append(one(t, t - 3, -1, f"k{t - 3:02d}", float(t - 3)))
        op.process([delta(batch, True)], t)
        sizes.append(op.size())
    assert len(op.groups) == 3
    assert sizes[-1] == sizes[10]
