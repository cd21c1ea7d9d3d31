from __future__ import annotations

import random
from itertools import permutations

import pytest

from eddyline.adaptive.joins.shape import LogicalFilters, Shape
from tests.adaptive.joins.graphs import chain, clique, random_shape, star

# Figure 5.3(a): R1–R2, R1–R3, R3–R4, R3–R5, R5–R6.
ACYCLIC = Shape(6, tuple(frozenset(e) for e in ((0, 1), (0, 2), (2, 3), (2, 4), (4, 5))))


def test_logical_filters_of_section_5_2_3() -> None:
    filters = LogicalFilters(ACYCLIC, 0)
    assert filters.targets == (1, 2, 3, 4, 5)
    assert filters.paths == ((1,), (2,), (2, 3), (2, 4), (2, 4, 5))
    assert filters.order_of((2, 1, 0, 3, 4)) == (2, 3, 1, 4, 5)
    assert filters.precedes(2, 3)
    assert not filters.precedes(3, 2) and not filters.precedes(1, 2) and not filters.precedes(3, 3)


def test_products_are_told_from_joins() -> None:
    assert ACYCLIC.avoids_products(0, (1, 2, 3, 4, 5))
    assert not ACYCLIC.avoids_products(0, (1, 3, 2, 4, 5))
    assert not ACYCLIC.avoids_products(0, (1, 2, 3, 4))
    assert not ACYCLIC.avoids_products(0, (1, 2, 3, 4, 4))


def test_a_nonroot_window_of_a_star_joins_with_the_root_first() -> None:
    filters = LogicalFilters(star(5), 3)
    for order in permutations(range(4)):
        assert filters.order_of(order)[0] == 0


def test_a_cycle_is_ordered_by_a_spanning_tree_of_shortest_paths() -> None:
    cycle = Shape(4, tuple(frozenset(e) for e in ((0, 1), (1, 2), (2, 3), (3, 0))))
    filters = LogicalFilters(cycle, 0)
    assert filters.paths == ((1,), (1, 2), (3,))  # 2 is as near by 3: the first written wins
    assert filters.order_of((1, 2, 0)) == (1, 2, 3)


def test_a_class_of_many_inputs_links_all_of_them() -> None:
    assert LogicalFilters(clique(4), 2).paths == ((0,), (1,), (3,))
    assert LogicalFilters(chain(4), 3).paths == ((2, 1, 0), (2, 1), (2,))


def test_parts_that_nothing_connects_come_last_and_whole() -> None:
    apart = Shape(5, (frozenset((0, 2)), frozenset((1, 4))))
    filters = LogicalFilters(apart, 2)
    assert filters.paths == ((0,), (1,), (3,), (1, 4))
    assert filters.order_of((3, 2, 1, 0)) == (0, 1, 4, 3)
    assert apart.avoids_products(2, (0, 1, 4, 3)) and apart.avoids_products(2, (0, 3, 4, 1))
    assert not apart.avoids_products(2, (1, 4, 0, 3)) and not apart.avoids_products(2, (0, 1, 3, 4))


@pytest.mark.parametrize("seed", range(40))
def test_every_order_of_filters_gives_a_permutation_without_avoidable_products(seed: int) -> None:
    rng = random.Random(seed)
    size = rng.randrange(2, 8)
    shape = random_shape(rng, size)
    if rng.random() < 0.3:  # cut it apart
        shape = Shape(size, shape.classes[: rng.randrange(len(shape.classes) + 1)], shape.thetas)
    for source in range(size):
        filters = LogicalFilters(shape, source)
        for _ in range(10):
            wanted = rng.sample(range(size - 1), size - 1)
            order = filters.order_of(wanted)
            assert shape.avoids_products(source, order)
            where = {i: n for n, i in enumerate((source, *order))}
            for f, path in enumerate(filters.paths):
                assert all(where[i] <= where[filters.targets[f]] for i in path)
            if len(shape.parts()) == 1:
                # The filter that the policy wants first is decided first: nothing is asked that is not on its path.
                assert order[: len(filters.paths[wanted[0]])] == filters.paths[wanted[0]]
