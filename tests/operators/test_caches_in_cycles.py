"""Caches on cyclic join graphs: the case that went wrong made small, long runs, and the plans that are refused."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline.core.delta import Delta, Int64s
from eddyline.core.schema import Field, Schema
from eddyline.core.window import Range, Rows, Unbounded
from eddyline.kernels import join_layout as k
from eddyline.operators.cache_consistency import check_consistency
from eddyline.operators.join_arrays import JoinArrays
from eddyline.operators.join_plan import CacheSpec, JoinGraph, Member
from eddyline.operators.mjoin import MJoin
from tests.operators.test_join_caches import Edge, Flipper, Input, build, random_order, shape_of

COLUMNS = "abcd"


class Long(Input):
    """Skewed keys for hundreds of elements, so that entries are hit, updated and pushed out."""

    def __init__(self, name: str, rng: random.Random, count: int) -> None:
        self.schema = Schema(tuple(Field(f"{name}.{c}", pa.int64()) for c in COLUMNS))
        self.window = rng.choice([Range(5), Range(15), Range(30), Rows(2), Rows(5), Rows(9), None])
        self.deletes = k.ALL_DELETIONS
        generator = np.random.default_rng(rng.randrange(1 << 30))
        domain, nulls = rng.choice([4, 9]), rng.choice([0.0, 0.0, 0.1])
        codes = np.minimum(generator.pareto(1.2, (count, len(COLUMNS))).astype(int), domain - 1).tolist()
        times = np.sort(generator.integers(0, 2 * count, count)).tolist()
        rows = [tuple(None if rng.random() < nulls else v for v in row) for row in codes]
        self.changes = [(t, v, 1) for t, v in zip(times, rows, strict=True)]
        if self.window is None:
            gone = [(t + rng.randint(1, 40), v, -1) for t, v, _ in self.changes]
            self.changes = sorted([*self.changes, *gone], key=lambda c: (c[0], -c[2]))


class Given(Input):
    """These rows, which stay."""

    def __init__(self, name: str, *rows: tuple[int, int, int]) -> None:
        self.schema = Schema(tuple(Field(f"{name}.{c}", pa.int64()) for c in "ab"))
        self.window, self.deletes = Unbounded(), k.ALL_DELETIONS
        self.changes = [(t, (a, b), 1) for t, a, b in rows]


class SlowFlipper(Flipper):
    """Leaves caches the time to fill."""

    def begin(self, arrays: JoinArrays, next_event: Int64s, lengths: Sequence[int]) -> int:
        super().begin(arrays, next_event, lengths)
        return self.rng.choice([5, 50, 300])


def cycle(m: int) -> list[Edge]:
    return [(i, (i + 1) % m, "b", "a") for i in range(m)]


def test_the_closing_edge_of_a_cycle_reads_an_input_that_is_support() -> None:
    """R.b = S.a, S.b = T.a, T.b = U.a, U.b = R.a. An S joins with R, T, U in this order: the step to U reads R and T.

    Each of the two rows of R brings the new S to an entry of its own, so that its first match is not enough."""
    inputs = [
        Given("R", (2, 1, 1), (3, 2, 1), (5, 1, 1)),
        Given("S", (4, 1, 5)),
        Given("T", (0, 5, 6)),
        Given("U", (0, 6, 1), (1, 6, 2)),
    ]
    join = build(inputs, cycle(4), [])
    cache = CacheSpec(0, 0, 2, (1, 2, 3), (0, 3), (0,))
    join.arrays.set_plan([(1, 2, 3), (0, 2, 3), (1, 3, 0), (2, 0, 1)], [cache])
    out = join.process([i.delta(-1, 9) for i in inputs], 9)
    assert out.time.tolist() == [4, 4, 5]
    counts = join.arrays.cache_operators.caches.counts(cache.store)
    assert (counts.probes, counts.misses, counts.updates) == (3, 2, 2)


def random_graph(m: int, rng: random.Random) -> tuple[list[Edge], list[tuple[int, int, str]]]:
    kind = rng.choice(["cycle", "cycle", "chord", "double", "random"])
    edges = cycle(m)
    if kind == "chord" and m > 3:
        i, j = rng.sample(range(m), 2)
        edges.append((i, j, rng.choice(COLUMNS), rng.choice("cd")))
    elif kind == "double":
        edges += [(i, j, "d", "c") for i, j, _, _ in edges if rng.random() < 0.5]
    elif kind == "random":
        edges = [(rng.randrange(i), i, rng.choice(COLUMNS), rng.choice(COLUMNS)) for i in range(1, m)]
        for _ in range(rng.randint(1, 3)):
            i, j = rng.sample(range(m), 2)
            edges.append((i, j, rng.choice(COLUMNS), rng.choice(COLUMNS)))
    thetas = []
    if rng.random() < 0.25:
        i, j = rng.sample(range(m), 2)
        thetas.append((i, j, rng.choice(["lt", "le", "ne"])))
    return edges, thetas


def by_instant(delta: Delta) -> dict[int, int]:
    found: Counter[int] = Counter()
    for t, w in zip(delta.time.tolist(), delta.weights.tolist(), strict=True):
        found[t] += w
    return {t: w for t, w in found.items() if w}


def run_beside_a_plain_join(seed: int) -> Counter[str]:
    rng = random.Random(f"cycles/{seed}")
    m, count = rng.choice([3, 4, 4, 5, 5, 6]), rng.choice([150, 400])
    while True:
        edges, thetas = random_graph(m, rng)
        inputs = [Long(n, rng, count) for n in "RSTUVW"[:m]]
        plain, join = build(inputs, edges, thetas), build(inputs, edges, thetas)
        if join.graph.simple:
            break
    shape = shape_of(join)
    flipper = SlowFlipper(shape, rng)
    join.adapter = flipper
    flipper.arrange(join.arrays, [random_order(shape, i, rng) for i in range(m)])
    after, results = -1, 0
    while after < 2 * count + 50 and results < 300_000:
        upto = after + rng.choice([20, 100, 400])
        deltas = [i.delta(after, upto) for i in inputs]
        expected = plain.process(deltas, upto)
        assert by_instant(join.process(deltas, upto)) == by_instant(expected), (seed, upto, edges, thetas)
        results += len(expected)
        after = upto
    return flipper.seen


@pytest.mark.parametrize("part", range(10))
def test_long_runs_with_any_caches_count_what_a_plain_join_counts(part: int) -> None:
    seen = Counter[str]()
    for seed in range(part, 60, 10):
        seen += run_beside_a_plain_join(seed)
    assert all(seen[what] > 10 for what in ("hits", "supported", "anchored", "samples")), seen


def refused(used: Sequence[CacheSpec], orders: Sequence[tuple[int, ...]], pairs: Any = (), graph: Any = None) -> str:
    ring = JoinGraph(((),) * 4, tuple((Member(i, 1), Member((i + 1) % 4, 0)) for i in range(4)))
    with pytest.raises(ValueError) as found:
        check_consistency(used, [], orders, graph or ring, pairs)
    return str(found.value)


def test_a_plan_that_the_proof_does_not_cover_is_refused() -> None:
    orders = [(1, 2, 3), (0, 2, 3), (1, 3, 0), (2, 0, 1)]
    anchored = CacheSpec(0, 0, 2, (1, 2, 3), (0, 3), (0,))
    exact = CacheSpec(2, 1, 2, (0, 3), (0, 2))
    assert "prefix invariant in the pipeline of 0" in refused([exact], orders)
    assert "prefix invariant in the pipeline of 1" in refused([CacheSpec(0, 0, 2, (1, 2, 3), (0, 3))], orders)
    assert "key, not (0,)" in refused([CacheSpec(0, 0, 2, (1, 2, 3), (0,), (0,))], orders)
    assert "no equality" in refused([anchored], orders, [frozenset((0, 2))])
    assert "is not what steps" in refused([CacheSpec(0, 0, 1, (1, 3), (0, 3), (0, 2))], orders)
    assert "overlaps" in refused([anchored, CacheSpec(0, 1, 2, (2, 3), (0, 1, 3), (0, 1))], orders)
    # A hit in the pipeline of 0 skips the place after its first step, where R⋈S is maintained.
    assert "keeps updates from" in refused([anchored, CacheSpec(3, 1, 2, (0, 1), (1, 3))], orders)
    twice = JoinGraph(
        ((),) * 3, ((Member(0, 0), Member(1, 0)), (Member(0, 1), Member(1, 0)), (Member(1, 1), Member(2, 0)))
    )
    assert "two members of one class" in refused(
        [CacheSpec(2, 0, 1, (0, 1), (1,))], [(1, 2), (0, 2), (1, 0)], (), twice
    )


def test_a_join_takes_no_such_plan() -> None:
    join: MJoin = build([Given(n) for n in "RSTU"], cycle(4), [])
    with pytest.raises(ValueError, match="must have the classes"):
        join.arrays.set_plan([(1, 2, 3), (0, 2, 3), (1, 3, 0), (2, 0, 1)], [CacheSpec(0, 0, 2, (1, 2, 3), (0,), (0,))])
