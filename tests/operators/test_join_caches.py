"""Caches in pipelines against nested loops: any orders, any caches, flipped together at random between two elements."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline.adaptive.joins.candidates import Candidate, candidates, conflicts
from eddyline.adaptive.joins.shape import LogicalFilters, Shape
from eddyline.adaptive.joins.trees import binary_trees, plan
from eddyline.core.delta import Delta, Int64s
from eddyline.core.schema import Field, Schema
from eddyline.core.window import Range, Rows, Unbounded
from eddyline.expr.nodes import Column
from eddyline.kernels import join_layout as k
from eddyline.operators.base import Context
from eddyline.operators.cache_operators import Bloom
from eddyline.operators.join_arrays import JoinArrays
from eddyline.operators.join_plan import CacheSpec, Condition, JoinGraph, Member
from eddyline.operators.join_side import JoinInput
from eddyline.operators.mjoin import MJoin
from eddyline.operators.windows import leave_times
from eddyline.synopses.registry import Registry

END = 30
COLUMNS = "abc"
COMPARE = {
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "ne": lambda x, y: x != y,
}


class Input:
    """A random input: a window over elements, or a relation whose rows come and go, several times each."""

    def __init__(self, name: str, rng: random.Random, many: bool) -> None:
        self.schema = Schema(tuple(Field(f"{name}.{c}", pa.int64()) for c in COLUMNS))
        self.window = rng.choice([Range(4), Range(9), Rows(1), Rows(4), Unbounded(), None])
        self.deletes = k.ALL_DELETIONS
        times = sorted(rng.choices(range(END), k=rng.randint(3, 24 if many else 14)))
        self.rows = [(t, tuple(rng.choice([1, 1, 2, 3, None]) for _ in COLUMNS)) for t in times]
        self.changes: list[tuple[int, tuple[Any, ...], int]] = [(t, v, 1) for t, v in self.rows]
        if self.window is None:
            gone = [(rng.randint(t, END), v, -1) for t, v in self.rows if rng.random() < 0.8]
            self.changes = sorted([*self.changes, *gone], key=lambda c: (c[0], -c[2]))

    def at(self, time: int) -> Counter[tuple[Any, ...]]:
        if self.window is None:
            bag: Counter[tuple[Any, ...]] = Counter()
            for t, v, w in self.changes:
                if t <= time:
                    bag[v] += w
            return +bag
        seen = [(t, v) for t, v in self.rows if t <= time]
        if isinstance(self.window, Rows):
            seen = seen[-self.window.count :]
        elif isinstance(self.window, Range):
            seen = [(t, v) for t, v in seen if time < int(leave_times(self.window, np.array([t]))[0])]
        return Counter(v for _, v in seen)

    def delta(self, after: int, upto: int) -> Delta:
        part = [c for c in self.changes if after < c[0] <= upto]
        columns = {n: pa.array([v[i] for _, v, _ in part], pa.int64()) for i, n in enumerate(self.schema.names)}
        weights = np.array([w for *_, w in part], np.int64) if self.window is None else None
        return Delta(np.array([t for t, *_ in part], np.int64), columns, weights)


Edge = tuple[int, int, str, str]


def build(inputs: Sequence[Input], edges: Sequence[Edge], thetas: Sequence[tuple[int, int, str]]) -> MJoin:
    keys: list[list[Column]] = [[] for _ in inputs]

    def member(i: int, column: str) -> Member:
        node = Column(f"{inputs[i].schema.names[0].split('.')[0]}.{column}", pa.int64())
        if node not in keys[i]:
            keys[i].append(node)
        return Member(i, keys[i].index(node))

    equalities = tuple((member(a, x), member(b, y)) for a, b, x, y in edges)
    conditions = tuple(Condition(member(a, "c"), op, member(b, "c")) for a, b, op in thetas)
    registry = Registry()
    stubs = [None if i.window is None else (lambda i=i: registry.stub(None, i.schema, "")) for i in inputs]
    specs = [JoinInput(i.schema, i.window, deletes=i.deletes) for i in inputs]
    names = [n for i in inputs for n in i.schema.names]
    graph = JoinGraph(tuple(tuple(x) for x in keys), equalities)
    return MJoin("mjoin 1", specs, graph, [], stubs, names, Context(start=0), conditions)


def shape_of(join: MJoin) -> Shape:
    classes = tuple(frozenset(x.input for x in c) for c in join.graph.classes)
    pairs = frozenset(frozenset((c.left.input, c.right.input)) for c in join.arrays.conditions)
    return Shape(len(join.sides), classes, pairs)


def spec(c: Candidate, complete: bool = False) -> CacheSpec:
    return CacheSpec(c.pipeline, c.first, c.last, c.segment, c.key, c.support, complete)


def random_order(shape: Shape, source: int, rng: random.Random) -> tuple[int, ...]:
    rest, bound = [i for i in range(shape.size) if i != source], [source]
    while rest:
        near = [i for i in rest if shape.connected(i, bound)] or rest
        bound.append(rng.choice(near))
        rest.remove(bound[-1])
    return tuple(bound[1:])


class Flipper:
    """Changes orders and caches at random, every few elements, and looks at whatever can be profiled."""

    def __init__(self, shape: Shape, rng: random.Random, complete: bool = False) -> None:
        self.shape, self.rng, self.complete = shape, rng, complete
        self.seen = Counter[str]()

    def begin(self, arrays: JoinArrays, next_event: Int64s, lengths: Sequence[int]) -> int:
        waiting = [range(int(a), b) for a, b in zip(next_event, lengths, strict=True)]
        arrays.sample([np.array([e for e in w if self.rng.random() < 0.2], np.int64) for w in waiting], 64)
        return self.rng.choice([1, 1, 2, 5, 20])

    def end(self, arrays: JoinArrays, now: int) -> None:
        self.seen["samples"] += len(arrays.profiles())
        for store in arrays.cache_operators.caches.ids:
            counts = arrays.cache_operators.caches.counts(store)
            self.seen["hits"] = max(self.seen["hits"], counts.probes - counts.misses)
        what = self.rng.random()
        if what < 0.5:
            return
        orders = list(arrays.orders)
        if what > 0.8:
            i = self.rng.randrange(self.shape.size)
            orders[i] = random_order(self.shape, i, self.rng)
        self.arrange(arrays, orders)

    def arrange(self, arrays: JoinArrays, orders: list[tuple[int, ...]]) -> None:
        there = candidates(self.shape, orders, m=self.rng.choice([0, 6, 30]))
        self.rng.shuffle(there)
        used: list[Candidate] = []
        for c in there:
            if self.rng.random() < 0.7 and not any(conflicts(c, other, orders) for other in used):
                used.append(c)
        others = [c for c in there if c not in used and self.rng.random() < 0.5]
        kept = {s: arrays.cache_operators.caches.size_of(s) for s in arrays.cache_operators.caches.ids}
        sizes = {}
        for c in used:
            store = spec(c).store
            if store not in kept or self.rng.random() < 0.2:
                sizes[store] = (self.rng.choice([1, 2, 8, 64]), self.rng.choice([1, 3, 10, 200]))
        self.seen["supported"] += sum(bool(c.support) for c in used)
        self.seen["anchored"] += sum(c.anchored for c in used)
        arrays.set_plan(
            orders, [spec(c) for c in used], [spec(c) for c in others], sizes=sizes, bloom=Bloom(distance=4)
        )


def nested_loops(
    inputs: Sequence[Input], edges: Sequence[Edge], thetas: Sequence[tuple[int, int, str]], time: int
) -> Counter[tuple[Any, ...]]:
    rows: Counter[tuple[Any, ...]] = Counter({(): 1})
    for n, i in enumerate(inputs):
        grown: Counter[tuple[Any, ...]] = Counter()
        here = i.at(time)
        for r, w in rows.items():
            for v, x in here.items():
                both = (*r, v)
                if all(
                    both[a][COLUMNS.index(p)] is not None and both[a][COLUMNS.index(p)] == both[b][COLUMNS.index(q)]
                    for a, b, p, q in edges
                    if max(a, b) == n
                ) and all(
                    None not in (both[a][2], both[b][2]) and COMPARE[op](both[a][2], both[b][2])
                    for a, b, op in thetas
                    if max(a, b) == n
                ):
                    grown[both] += w * x
        rows = grown
    return Counter({tuple(x for v in r for x in v): w for r, w in rows.items()})


def random_graph(m: int, rng: random.Random) -> tuple[list[Edge], list[tuple[int, int, str]]]:
    kind = rng.choice(["star", "chain", "tree", "class", "cycle"])
    if kind == "class":
        edges = [(i - 1, i, "a", "a") for i in range(1, m)]
    else:
        parents = {"star": [0] * m, "chain": [i - 1 for i in range(m)], "cycle": [i - 1 for i in range(m)]}.get(
            kind, [rng.randrange(max(i, 1)) for i in range(m)]
        )
        edges = [(parents[i], i, *rng.choice([("a", "a"), ("b", "a"), ("a", "b"), ("b", "b")])) for i in range(1, m)]
    if kind == "cycle" and m > 2:
        edges.append((0, m - 1, "b", "b"))
    thetas = []
    if rng.random() < 0.3:
        a, b = rng.sample(range(m), 2)
        thetas.append((a, b, rng.choice(list(COMPARE))))
    return edges, thetas


class Case:
    """A random graph over random inputs."""

    def __init__(self, rng: random.Random, inputs: Sequence[Input]) -> None:
        self.rng, self.inputs = rng, inputs
        self.edges, self.thetas = random_graph(len(inputs), rng)

    def build(self) -> MJoin:
        return build(self.inputs, self.edges, self.thetas)

    def steps(self) -> Iterator[tuple[int, int, list[Delta]]]:
        """Pieces of the time and what came in each."""
        after = -1
        while after < END:
            upto = min(END, after + self.rng.choice([1, 3, 10, 30]))
            yield after, upto, [i.delta(after, upto) for i in self.inputs]
            after = upto

    def check(self, join: MJoin) -> None:
        total: Counter[tuple[Any, ...]] = Counter()
        for after, upto, deltas in self.steps():
            join.room = self.rng.choice([1, 3, 4096])
            out = join.process(deltas, upto)
            rows = [c.to_pylist() for c in out.columns.values()]
            by_time: dict[int, list[tuple[tuple[Any, ...], int]]] = {}
            for n, (t, w) in enumerate(zip(out.time.tolist(), out.weights.tolist(), strict=True)):
                by_time.setdefault(t, []).append((tuple(c[n] for c in rows), w))
            for t in range(after + 1, upto + 1):
                for row, w in by_time.get(t, []):
                    total[row] += w
                total = Counter({r: w for r, w in total.items() if w})
                assert total == nested_loops(self.inputs, self.edges, self.thetas, t), (t, self.edges, self.thetas)


def flipping(join: MJoin, rng: random.Random) -> MJoin:
    """The join under random orders and caches that change between elements."""
    shape = shape_of(join)
    join.adapter = Flipper(shape, rng)
    join.adapter.arrange(join.arrays, [random_order(shape, i, rng) for i in range(shape.size)])
    return join


@pytest.mark.parametrize("seed", range(200))
def test_any_orders_and_caches_flipped_between_elements_give_the_join(seed: int) -> None:
    rng = random.Random(seed)
    m = rng.randint(2, 5)
    case = Case(rng, [Input(n, rng, m < 4) for n in "RSTUV"[:m]])
    join = case.build()
    if not join.graph.simple:
        return  # caches are refused there; the test of the operator has such graphs
    join.arrays.logical = tuple(LogicalFilters(shape_of(join), i).paths for i in range(m))
    case.check(flipping(join, rng))


@pytest.mark.parametrize("seed", range(60))
def test_results_without_deletions_are_those_of_the_plain_join(seed: int) -> None:
    """Where deletions are not computed rows expire unseen: references in caches must show it by themselves."""
    rng = random.Random(seed)
    m = rng.randint(3, 4)
    inputs = [Input(n, rng, True) for n in "RSTU"[:m]]
    for i in inputs:
        i.window = rng.choice([Range(4), Range(9), Rows(3), Unbounded()])
        i.deletes = rng.choice([k.NO_DELETIONS, k.AT_ARRIVALS])
        i.changes = [(t, v, 1) for t, v in i.rows]
    case = Case(rng, inputs)
    plain, join = case.build(), case.build()
    if not join.graph.simple:
        return
    flipping(join, rng)
    for _, upto, deltas in case.steps():
        assert changes(join.process(deltas, upto)) == changes(plain.process(deltas, upto))


def changes(delta: Delta) -> Counter[tuple[Any, ...]]:
    columns = [c.to_pylist() for c in delta.columns.values()]
    return Counter(
        (t, w, *(c[n] for c in columns))
        for n, (t, w) in enumerate(zip(delta.time.tolist(), delta.weights.tolist(), strict=True))
    )


@pytest.mark.parametrize("seed", range(80))
def test_trees_of_joins_with_complete_stores_give_the_join(seed: int) -> None:
    """An XJoin keeps every subresult whole; stores begin with hardly any room and grow."""
    rng = random.Random(seed)
    m = rng.randint(3, 5)
    case = Case(rng, [Input(n, rng, m < 5) for n in "RSTUV"[:m]])
    join = case.build()
    shape = shape_of(join)
    if not join.graph.simple or not shape.whole(range(m)):
        return
    tree = rng.choice(binary_trees(shape))
    laid = plan(tree, shape)
    specs = [spec(c, complete=True) for c in laid.kept]
    roomy = seed % 2 == 0  # else one element may have more results than there is room for: then a store may miss
    sizes = {c.store: (4, 128 if roomy else 8) for c in specs}
    join.arrays.set_plan(laid.orders, specs, sizes=sizes)
    case.check(join)
    for c in specs if roomy else ():
        counts = join.arrays.cache_operators.caches.counts(c.store)
        assert counts.complete and not counts.misses


def test_the_random_plans_reach_every_kind_of_cache() -> None:
    seen = Counter[str]()
    for seed in range(60):
        rng = random.Random(seed)
        case = Case(rng, [Input(n, rng, True) for n in "RST"])
        join = case.build()
        if join.graph.simple:
            join.adapter = Flipper(shape_of(join), rng)
            case.check(join)
            seen += join.adapter.seen
    assert all(seen[what] > 30 for what in ("hits", "supported", "anchored", "samples")), seen
