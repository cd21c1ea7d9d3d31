"""The join against nested loops: any order, any input kinds, any cut into calls, saved and restored."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.core.delta import Delta
from eddyline.core.schema import Field, Schema
from eddyline.core.window import Range, Rows, Slide, Unbounded, WindowSpec
from eddyline.expr.nodes import Call, Column
from eddyline.operators.base import Context
from eddyline.operators.join_plan import JoinGraph, Member
from eddyline.operators.join_side import JoinInput
from eddyline.operators.mjoin import MJoin
from eddyline.operators.windows import enter_times, leave_times
from eddyline.synopses.registry import Registry

END = 40


class Input:
    """A random input: elements under a window (a ring) or signed changes (a bag)."""

    def __init__(self, name: str, rng: random.Random) -> None:
        self.schema = Schema((Field(f"{name}.k", pa.int64()), Field(f"{name}.s", pa.string())))
        window: list[WindowSpec | None] = [
            Range(5),
            Range(0),
            Slide(6, 4),
            Slide(2, 5),
            Rows(1),
            Rows(3),
            Unbounded(),
            None,
        ]
        self.window = rng.choice(window)
        times = sorted(rng.choices(range(END), k=rng.randint(0, 25)))
        self.rows = [(t, rng.choice([None, 1, 2, 3]), rng.choice(["x", "y", None])) for t in times]
        if self.window is None:
            self.changes = sorted([(t, v, 1) for t, *v in self.rows if True], key=lambda c: c[0])
            gone = [(rng.randint(t, END), v, -1) for t, *v in self.rows if rng.random() < 0.7]
            self.changes = sorted(self.changes + gone, key=lambda c: (c[0], -c[2]))
        elif isinstance(self.window, Rows):
            n = self.window.count
            gone = [r[0] for r in self.rows[n:]] + [1 << 60] * n
            self.spans = [(r[0], g, r[1:]) for r, g in zip(self.rows, gone, strict=False)]
        else:
            ts = np.array([r[0] for r in self.rows], np.int64)
            spans = zip(enter_times(self.window, ts), leave_times(self.window, ts), self.rows, strict=True)
            self.spans = [(int(a), int(b), r[1:]) for a, b, r in spans]

    def at(self, time: int) -> Counter[tuple[Any, ...]]:
        if self.window is None:
            bag: Counter[tuple[Any, ...]] = Counter()
            for t, v, w in self.changes:
                if t <= time:
                    bag[tuple(v)] += w
            return +bag
        return Counter(v for a, b, v in self.spans if a <= time < b)

    def delta(self, after: int, upto: int) -> Delta:
        if self.window is None:
            part = [(t, v, w) for t, v, w in self.changes if after < t <= upto]
        else:
            part = [(t, list(v), 1) for t, *v in self.rows if after < t <= upto]
        names = self.schema.names
        columns = {names[0]: pa.array([v[0] for _, v, _ in part], pa.int64())}
        columns[names[1]] = pa.array([v[1] for _, v, _ in part], pa.string())
        weights = np.array([w for *_, w in part], np.int64) if self.window is None else None
        return Delta(np.array([t for t, *_ in part], np.int64), columns, weights)


def make(inputs: list[Input], edges: list[tuple[int, int, str]], rng: random.Random, residual: list[Any]) -> MJoin:
    keys: list[list[Column]] = [[] for _ in inputs]

    def member(i: int, what: str) -> Member:
        field = inputs[i].schema.fields[0 if what == "k" else 1]
        column = Column(field.name, field.type)
        if column not in keys[i]:
            keys[i].append(column)
        return Member(i, keys[i].index(column))

    equalities = tuple((member(a, what), member(b, what)) for a, b, what in edges)
    graph = JoinGraph(tuple(tuple(k) for k in keys), equalities)
    specs = [JoinInput(i.schema, i.window) for i in inputs]
    registry = Registry()
    stubs = [None if i.window is None else (lambda i=i: registry.stub(None, i.schema, "")) for i in inputs]
    names = [n for i in inputs for n in i.schema.names]
    join = MJoin("mjoin 1", specs, graph, residual, stubs, names, Context(start=0))
    arrays = join.arrays
    arrays.set_plan(
        [tuple(rng.sample([j for j in range(len(inputs)) if j != i], len(inputs) - 1)) for i in range(len(inputs))]
    )
    return join


def product(
    inputs: list[Input], edges: list[tuple[int, int, str]], time: int, differ: bool
) -> Counter[tuple[Any, ...]]:
    rows: Counter[tuple[Any, ...]] = Counter({(): 1})
    for i in inputs:
        rows = Counter({(*r, v): n * w for r, n in rows.items() for v, w in i.at(time).items()})
    out: Counter[tuple[Any, ...]] = Counter()
    for r, n in rows.items():
        pairs = [(r[a]["ks".index(what)], r[b]["ks".index(what)]) for a, b, what in edges]
        if differ:
            x, y = r[0][1], r[1][1]
            if x is None or y is None or x == y:
                continue
        if all(x is not None and x == y for x, y in pairs):
            out[tuple(v for pair in r for v in pair)] += n
    return out


@pytest.mark.parametrize("seed", range(60))
def test_adds_up_to_nested_loops_at_every_instant(seed: int) -> None:
    rng = random.Random(seed)
    inputs = [Input(n, rng) for n in "RSTU"[: rng.randint(2, 4)]]
    m = len(inputs)
    edges = [(rng.randrange(i), i, rng.choice("ks")) for i in range(1, m) if rng.random() < 0.9]
    if rng.random() < 0.4:  # a cycle, or a second attribute
        edges.append((0, m - 1, rng.choice("ks")))
    differ = rng.random() < 0.3
    s = [Column(f"{n}.s", pa.string()) for n in "RS"]
    residual = [Call("ne", (s[0], s[1]), pa.bool_())] if differ else []
    join = make(inputs, edges, rng, residual)
    total: Counter[tuple[Any, ...]] = Counter()
    after = -1
    while after < END:
        upto = min(END, after + rng.choice([1, 2, 5, 20]))
        out = join.process([i.delta(after, upto) for i in inputs], upto)
        assert (np.diff(out.time) >= 0).all()
        rows = list(
            zip(
                out.time.tolist(),
                zip(*(c.to_pylist() for c in out.columns.values()), strict=True),
                out.weights.tolist(),
                strict=True,
            )
        )
        for t in range(after + 1, upto + 1):
            for when, row, w in rows:
                if when == t:
                    total[row] += w
            assert +total == product(inputs, edges, t, differ), (t, edges)
        after = upto
        if rng.random() < 0.3:
            fresh = make(inputs, edges, random.Random(seed + 1), residual)
            fresh.load(join.state())
            join = fresh


def test_results_that_do_not_fit_are_computed_again_with_more_room() -> None:
    rng = random.Random(0)
    inputs = [Input(n, rng) for n in "RS"]
    for i in inputs:
        i.window = Unbounded()
        i.rows = [(t, 1, "x") for t in range(30)]
        i.spans = [(t, 1 << 60, (1, "x")) for t in range(30)]
    join = make(inputs, [(0, 1, "k")], rng, [])
    join.room = 3
    out = join.process([i.delta(-1, END) for i in inputs], END)
    assert len(out) == 900


def test_the_most_rows_of_a_run_are_counted_exactly() -> None:
    """Windows fill and empty within one run: neither its beginning nor its end shows how much it held."""
    schema = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
    session = ed.Session()
    for name in "RST":
        session.stream(name, schema=schema, timestamp="ts")
    windows = ", ".join(f"{name} [RANGE 5]" for name in "RST")
    query = session.query(f"SELECT Istream(R.ts) FROM {windows} WHERE R.k = S.k AND S.k = T.k")
    for name, rows in (("R", 1000), ("S", 300), ("T", 7)):
        times = [10] * rows + [100]
        session.push(name, pa.table({"ts": times, "k": range(len(times))}, schema=schema))
    assert sum(b.num_rows for b in query.fetch()) == 7
    (join,) = (n.operator for n in query.running.physical.nodes if isinstance(n.operator, MJoin))
    assert join.size()[0] == 0 and join.most_rows(0) == 1307
