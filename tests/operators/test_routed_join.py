"""The multi-route join against nested loops: any route, index and migration, cut into calls, saved and restored."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline.core.delta import Delta
from eddyline.core.schema import Field, Schema
from eddyline.core.window import Range, Rows, Slide, Unbounded, WindowSpec
from eddyline.expr.nodes import Call, Column
from eddyline.kernels.join_layout import ALL_DELETIONS, NO_DELETIONS
from eddyline.operators.base import Context
from eddyline.operators.join_plan import Condition, JoinGraph, Member
from eddyline.operators.join_side import JoinInput
from eddyline.operators.routed_join import RoutedJoin
from eddyline.operators.windows import enter_times, leave_times
from eddyline.synopses.index_maps import BitAddress, Hashed
from eddyline.synopses.registry import Registry

END = 40
ATTRIBUTES = ("a", "b", "s")


class RandomControl:
    """Any next input, and any index for any partition at any moment."""

    def __init__(self, inputs: int, seed: int) -> None:
        self.inputs, self.rng = inputs, random.Random(seed)
        self.changes = self.parted = 0
        self.in_process = False  # whether some of the searches in flight concern a partition, and others do not
        self.routes: set[tuple[int, ...]] = set()

    def begin(self, join):
        pass

    def next(self, bound):
        target = self.rng.choice([i for i in range(self.inputs) if i not in bound])
        self.routes.add((*bound, target))
        return target

    def aside(self, bound, rows, target):
        others = [i for i in range(self.inputs) if i not in bound and i != target]
        if not others or rows < 2 or self.rng.random() < 0.6:
            return None
        self.parted += 1
        return self.rng.choice(others), self.rng.randint(1, rows - 1)

    def searched(self, bound, target, pattern, requests, counts):
        assert counts.min() >= 0

    def inserted(self, target, rows):
        pass

    def round_ended(self):
        pass

    def tune(self, join, now):
        self.check_searches_in_process(join)
        if self.rng.random() < 0.2:
            state = self.rng.choice(join.states).module
            state.spec = random_index(self.rng, state.attributes)
            if state.partitions:
                places = self.rng.sample(range(len(state.partitions)), self.rng.randint(0, len(state.partitions)))
                self.changes += state.migrate(places, state.spec) > 0

    def check_searches_in_process(self, join):
        """Of each partition those are counted that could find a row of it, and none that has been there."""
        for target, view in enumerate(join.states):
            time = np.concatenate([[0], *(b.time for b in join.flight if target not in b.bound)])[1:]
            for number, partition in enumerate(view.module.partitions):
                rows = np.arange(max(partition.start - view.offset, view.first), partition.end - view.offset)
                enter, leave, _ = view.stay(rows)
                finding = ((enter <= time[:, None]) & (leave > time[:, None])).any(axis=1)
                counted = join.in_process(target, number)
                assert finding.sum() <= counted <= len(time)
                self.in_process |= 0 < counted < len(time)

    def state(self):
        return {}

    def load(self, state):
        pass


def random_index(rng: random.Random, n: int) -> tuple[Any, ...]:
    if n and rng.random() < 0.3:
        return (Hashed(tuple(sorted(rng.sample(range(n), rng.randint(1, n))))),)
    return (BitAddress(tuple(rng.randint(0, 3) for _ in range(n))),)


class Input:
    """Random elements under a window."""

    def __init__(self, name: str, rng: random.Random, rows: int = 60) -> None:
        types = (pa.int64(), pa.int64(), pa.string())
        self.schema = Schema(tuple(Field(f"{name}.{c}", t) for c, t in zip(ATTRIBUTES, types, strict=True)))
        windows: list[WindowSpec] = [Range(8), Range(0), Slide(9, 4), Slide(2, 5), Rows(1), Rows(6), Unbounded()]
        self.window = rng.choice(windows)
        times = sorted(rng.choices(range(END), k=rng.choice([rng.randrange(10), 30, rows, rows])))
        self.rows = [
            (t, rng.choice([None, 1, 1, 2]), rng.randrange(-1, 2), rng.choice(["x", "x", "y", None])) for t in times
        ]
        if isinstance(self.window, Rows):
            n = self.window.count
            gone = [r[0] for r in self.rows[n:]] + [1 << 60] * n
            self.spans = [(r[0], g, r[1:]) for r, g in zip(self.rows, gone, strict=False)]
        else:
            ts = np.array([r[0] for r in self.rows], np.int64)
            spans = zip(enter_times(self.window, ts), leave_times(self.window, ts), self.rows, strict=True)
            self.spans = [(int(a), int(b), r[1:]) for a, b, r in spans]

    def at(self, time: int) -> Counter[tuple[Any, ...]]:
        return Counter(v for a, b, v in self.spans if a <= time < b)

    def delta(self, after: int, upto: int) -> Delta:
        part = [r for r in self.rows if after < r[0] <= upto]
        columns = {f.name: pa.array([r[i + 1] for r in part], f.type) for i, f in enumerate(self.schema)}
        return Delta(np.array([r[0] for r in part], np.int64), columns)


class Join:
    """A random join and what nested loops say of it."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = random.Random(seed)
        self.inputs = [Input(n, rng) for n in "RSTU"[: rng.randint(2, 4)]]
        m = len(self.inputs)
        self.edges = [(rng.randrange(i), i, rng.choice("abs")) for i in range(1, m) if rng.random() < 0.9]
        if rng.random() < 0.5:  # a cycle, or a second attribute
            self.edges.append((0, m - 1, rng.choice("abs")))
        self.compared = [(0, rng.choice(["lt", "le", "gt", "ge", "ne"]), m - 1)] if rng.random() < 0.5 else []
        self.differ = rng.random() < 0.3
        self.deletes = NO_DELETIONS if all(isinstance(i.window, Unbounded) for i in self.inputs) else ALL_DELETIONS

    def make(self, seed: int) -> RoutedJoin:
        keys: list[list[Column]] = [[] for _ in self.inputs]

        def member(i: int, what: str) -> Member:
            field = self.inputs[i].schema.fields[ATTRIBUTES.index(what)]
            column = Column(field.name, field.type)
            if column not in keys[i]:
                keys[i].append(column)
            return Member(i, keys[i].index(column))

        equalities = tuple((member(a, what), member(b, what)) for a, b, what in self.edges)
        conditions = [Condition(member(a, "b"), op, member(b, "b")) for a, op, b in self.compared]
        graph = JoinGraph(tuple(tuple(k) for k in keys), equalities)
        specs = [
            JoinInput(i.schema, i.window, deletes=NO_DELETIONS if isinstance(i.window, Unbounded) else self.deletes)
            for i in self.inputs
        ]
        registry = Registry()
        stubs = [lambda i=i: registry.stub(None, i.schema, "") for i in self.inputs]
        names = [n for i in self.inputs for n in i.schema.names]
        s = [Column(f"{n}.s", pa.string()) for n in "RS"]
        residual = [Call("ne", (s[0], s[1]), pa.bool_())] if self.differ else []
        rng = random.Random(seed)
        return RoutedJoin(
            "routed-join 1", specs, graph, residual, stubs, names, Context(start=0), conditions,
            lambda n: random_index(rng, n), RandomControl(len(self.inputs), seed),
            partition_rows=rng.choice([1, 4, 100]), batch_rows=rng.choice([1, 3, 1000]), in_flight=rng.choice([1, 4]),
        )  # fmt: skip

    def at(self, time: int) -> Counter[tuple[Any, ...]]:
        rows: Counter[tuple[Any, ...]] = Counter({(): 1})
        for i in self.inputs:
            rows = Counter({(*r, v): n * w for r, n in rows.items() for v, w in i.at(time).items()})
        out: Counter[tuple[Any, ...]] = Counter()
        for r, n in rows.items():
            if all(self._equal(r, *edge) for edge in self.edges) and all(self._holds(r, *c) for c in self.compared):
                x, y = r[0][2], r[1][2]
                if not self.differ or (x is not None and y is not None and x != y):
                    out[tuple(v for row in r for v in row)] += n
        return out

    def _equal(self, r, a, b, what):
        x, y = r[a][ATTRIBUTES.index(what)], r[b][ATTRIBUTES.index(what)]
        return x is not None and x == y

    def _holds(self, r, a, op, b):
        x, y = r[a][1], r[b][1]
        return {"lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y, "ne": x != y}[op]


def check(seed: int) -> tuple[int, int, int]:
    """Runs one random join; returns how many results, index changes and different routes it had."""
    case = Join(seed)
    rng, join = case.rng, case.make(seed)
    total: Counter[tuple[Any, ...]] = Counter()
    after, results, changes, routes = -1, 0, 0, set()
    while after < END:
        upto = min(END, after + rng.choice([1, 2, 5, 20]))
        out = join.process([i.delta(after, upto) for i in case.inputs], upto)
        assert (np.diff(out.time) >= 0).all()
        columns = zip(*(c.to_pylist() for c in out.columns.values()), strict=True)
        rows = list(zip(out.time.tolist(), columns, out.weights.tolist(), strict=True))
        results += len(rows)
        for t in range(after + 1, upto + 1):
            for when, row, w in rows:
                if when == t:
                    total[row] += w
            assert +total == case.at(t), (seed, t)
            assert min(total.values(), default=0) >= 0
        after = upto
        changes, routes = changes + join.control.changes, routes | join.control.routes
        join.control.changes = 0
        if rng.random() < 0.3:
            fresh = case.make(seed + 1)
            for mine, theirs in zip(fresh.states, join.states, strict=True):
                mine.shared.partition_rows = theirs.shared.partition_rows
            fresh.load(join.state())
            join = fresh
    return results, changes, len(routes)


@pytest.mark.parametrize("block", range(10))
def test_adds_up_to_nested_loops_at_every_instant(block: int) -> None:
    counted = [check(seed) for seed in range(block * 12, block * 12 + 12)]
    results, changes, routes = (sum(c) for c in zip(*counted, strict=True))
    assert results > 100
    assert changes > 20
    assert routes > 50
