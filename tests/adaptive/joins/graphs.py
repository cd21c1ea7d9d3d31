"""Join graphs, orders without products, and numbers for them, all from seeds."""

from __future__ import annotations

import random

from eddyline.adaptive.joins.candidates import Candidate, conflicts
from eddyline.adaptive.joins.model import Statistics, Value
from eddyline.adaptive.joins.shape import LogicalFilters, Shape


def clique(size: int) -> Shape:
    """R1.A = R2.A = … = Rn.A."""
    return Shape(size, (frozenset(range(size)),))


def chain(size: int) -> Shape:
    return Shape(size, tuple(frozenset((i, i + 1)) for i in range(size - 1)))


def star(size: int) -> Shape:
    return Shape(size, tuple(frozenset((0, i)) for i in range(1, size)))


def random_shape(rng: random.Random, size: int, thetas: bool = True) -> Shape:
    """Connected by a random tree of classes, some of which swallow others; cycles and thetas at random."""
    classes: list[frozenset[int]] = []
    pairs: set[frozenset[int]] = set()
    for i in range(1, size):
        other = rng.randrange(i)
        if classes and rng.random() < 0.3:
            classes[-1] |= {i}
        elif thetas and rng.random() < 0.2:
            pairs.add(frozenset((i, other)))
        else:
            classes.append(frozenset((i, other)))
    for _ in range(rng.randrange(3)):
        a, b = rng.sample(range(size), 2)
        if thetas and rng.random() < 0.4:
            pairs.add(frozenset((a, b)))
        else:
            classes.append(frozenset((a, b)))
    return Shape(size, tuple(classes), frozenset(pairs))


def random_orders(rng: random.Random, shape: Shape) -> list[tuple[int, ...]]:
    found = []
    for source in range(shape.size):
        filters = list(range(shape.size - 1))
        rng.shuffle(filters)
        found.append(LogicalFilters(shape, source).order_of(filters))
    return found


def compatible(rng: random.Random, some: list[Candidate], orders: list[tuple[int, ...]]) -> list[Candidate]:
    """A maximal set without conflicts, in random order of preference."""
    found: list[Candidate] = []
    for c in rng.sample(some, len(some)):
        if not any(conflicts(c, o, orders) for o in found):
            found.append(c)
    return found


def random_statistics(rng: random.Random, size: int) -> Statistics:
    def row(count: int) -> tuple[float, ...]:
        return tuple(rng.choice((0.0, rng.random(), 10 * rng.random())) for _ in range(count))

    return Statistics(row(size), tuple(row(size) for _ in range(size)), tuple(row(size - 1) for _ in range(size)))


def random_values(rng: random.Random, some: list[Candidate], statistics: Statistics) -> dict[Candidate, Value]:
    """Shared caches cost the same to maintain; benefit + proc is the work of the segment."""
    costs = {c.store: rng.choice((0.0, rng.random(), 5 * rng.random())) for c in some}
    found = {}
    for c in some:
        work = statistics.work(c.pipeline, c.operators)
        proc = work * rng.choice((0.2, rng.random(), 1.5 * rng.random()))
        found[c] = Value(work - proc, costs[c.store], proc)
    return found


# Example 5.5.1, R1 to R6 being 0 to 5.
EXAMPLE = [(1, 2, 3, 4, 5), (0, 2, 4, 3, 5), (1, 0, 3, 4, 5), (4, 0, 1, 2, 5), (3, 1, 2, 0, 5), (1, 0, 3, 4, 2)]
