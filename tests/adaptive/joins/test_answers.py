"""The rules about caches, held against the answers of a plain MJoin."""

from __future__ import annotations

import random

import pytest

from eddyline.adaptive.joins import candidates as rules
from eddyline.adaptive.joins.candidates import Candidate, candidates, still_valid
from eddyline.adaptive.joins.shape import Shape
from eddyline.adaptive.joins.trees import mjoin_trees, plan
from tests.adaptive.joins.executor import Executor, Row
from tests.adaptive.joins.graphs import clique, compatible, random_orders, random_shape


class Feed:
    """Elements over small windows and small domains, so that keys repeat and results come and go."""

    def __init__(self, rng: random.Random, shape: Shape, window: int = 3, domain: int = 2) -> None:
        self.rng, self.shape, self.window, self.domain = rng, shape, window, domain
        self.live: list[list[Row]] = [[] for _ in range(shape.size)]
        self.number = 0

    def next(self) -> tuple[int, Row, int]:
        source = self.rng.randrange(self.shape.size)
        rows = self.live[source]
        if rows and (len(rows) == self.window or self.rng.random() < 0.3):
            return source, rows.pop(self.rng.randrange(len(rows))), -1
        self.number += 1
        values = tuple(self.rng.randrange(self.domain) for _ in self.shape.classes)
        row = Row(self.number, values, self.rng.randrange(3))
        rows.append(row)
        return source, row, 1


@pytest.mark.parametrize("seed", range(60))
def test_caches_without_conflicts_never_change_an_answer(seed: int) -> None:
    rng = random.Random(seed)
    shape = clique(4) if seed % 6 == 0 else random_shape(rng, rng.randrange(3, 6))
    orders = random_orders(rng, shape)
    plain, cached, feed = Executor(shape, orders), Executor(shape, orders), Feed(rng, shape)
    used: list[Candidate] = []
    for step in range(150):
        if step % 25 == 0:  # caches forced on and off, orders changed
            new = random_orders(rng, shape) if rng.random() < 0.5 else orders
            kept = [c for c in still_valid(used, orders, new) if rng.random() < 0.8]
            some = candidates(shape, new, m=40)
            more = [c for c in compatible(rng, some, new) if not any(rules.conflicts(c, k, new) for k in kept)]
            orders, used = new, [*kept, *(c for c in more if c not in kept)]
            cached.use(used, orders)
            plain.use([], orders)
        element = feed.next()
        assert cached.process(*element) == plain.process(*element), (step, used, orders)


@pytest.mark.parametrize("seed", range(20))
def test_trees_are_pipelines_with_caches(seed: int) -> None:
    rng = random.Random(seed)
    shape = random_shape(rng, rng.randrange(3, 6))
    found = plan(rng.choice(mjoin_trees(shape)), shape)
    assert all(shape.avoids_products(i, order) for i, order in enumerate(found.orders))
    assert not any(rules.conflicts(a, b, found.orders) for a in found.kept for b in found.kept)
    orders = list(found.orders)
    plain, cached, feed = Executor(shape, orders), Executor(shape, orders), Feed(rng, shape)
    cached.use(list(found.kept))
    for _ in range(100):
        element = feed.next()
        assert cached.process(*element) == plain.process(*element)


def _differs(shape: Shape, orders: list[tuple[int, ...]], used: list[Candidate]) -> bool:
    for seed in range(30):
        feed = Feed(random.Random(seed), shape)
        plain, cached = Executor(shape, orders), Executor(shape, orders)
        cached.use(used)
        for _ in range(150):
            element = feed.next()
            if cached.process(*element) != plain.process(*element):
                return True
    return False


def test_each_rule_is_needed() -> None:
    shape, orders = clique(4), [(1, 2, 3), (0, 2, 3), (1, 0, 3), (1, 0, 2)]
    exact = Candidate(2, 0, 1, (0, 1), (0,))
    skips = Candidate(0, 0, 2, (1, 2, 3), (0,), (0,))
    assert rules.conflicts(exact, skips, orders)
    assert not _differs(shape, orders, [exact]) and not _differs(shape, orders, [skips])
    assert _differs(shape, orders, [exact, skips])
    withholds, wide = Candidate(0, 0, 1, (1, 2), (0,), (0, 3)), Candidate(3, 0, 2, (0, 1, 2), (0,))
    assert rules.conflicts(withholds, wide, orders)
    assert not _differs(shape, orders, [withholds]) and not _differs(shape, orders, [wide])
    assert _differs(shape, orders, [withholds, wide])


def test_the_executor_uses_its_caches() -> None:
    shape, orders = clique(4), [(1, 2, 3), (0, 2, 3), (1, 0, 3), (1, 0, 2)]
    feed, cached = Feed(random.Random(1), shape), Executor(shape, orders)
    cached.use(compatible(random.Random(1), candidates(shape, orders, 40), orders))
    for _ in range(150):
        cached.process(*feed.next())
    assert cached.hits > 20 and cached.updates > 20
