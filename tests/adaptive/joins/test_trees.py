from __future__ import annotations

import random

import pytest

from eddyline.adaptive.joins.candidates import prefix_caches, prefix_invariant
from eddyline.adaptive.joins.shape import Shape
from eddyline.adaptive.joins.trees import (
    best_tree,
    binary_trees,
    independent,
    leaves,
    mjoin_trees,
    plan,
    render,
    tree_cost,
)
from tests.adaptive.joins.graphs import chain, clique, random_shape, star


def test_the_number_of_trees() -> None:
    # (2n − 3)!! unordered binary trees, Schröder's fourth problem for n-ary ones; chains: Catalan, little Schröder.
    assert [len(binary_trees(clique(n))) for n in (2, 3, 4, 5)] == [1, 3, 15, 105]
    assert [len(mjoin_trees(clique(n))) for n in (2, 3, 4, 5)] == [1, 4, 26, 236]
    assert [len(binary_trees(chain(n))) for n in (3, 4, 5)] == [2, 5, 14]
    assert [len(mjoin_trees(chain(n))) for n in (3, 4, 5)] == [3, 11, 45]
    assert [len(binary_trees(star(n))) for n in (3, 4, 5)] == [2, 6, 24]  # the root joins the leaves in some order
    assert (0, 1, 2, 3) in mjoin_trees(clique(4)) and ((0, 1), 2, 3) in mjoin_trees(clique(4))


def test_products_stand_at_the_root_of_disconnected_graphs_only() -> None:
    apart = Shape(4, (frozenset((0, 2)), frozenset((1, 3))))
    assert [render(t, "RSTU") for t in binary_trees(apart)] == ["(R⋈T)⋈(S⋈U)"]
    # Over a product there is nothing to look a result up by: no cache is kept, the orders still work.
    found = plan(binary_trees(apart)[0], apart)
    assert found.kept == () and found.orders == ((2, 1, 3), (3, 0, 2), (0, 1, 3), (1, 0, 2))


def test_the_left_deep_tree_of_figure_5_5() -> None:
    found = plan((((0, 1), 2), 3), clique(4))
    assert found.orders == ((1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2))
    assert [c.label("RSTU") for c in found.kept] == ["R⋈S in ΔT", "R⋈S⋈T in ΔU"]


def test_the_tree_of_mjoins_of_figure_5_6() -> None:
    found = plan(((0, 1), 2, 3), clique(4))
    assert found.orders == ((1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2))
    assert [c.label("RSTU") for c in found.kept] == ["R⋈S in ΔT", "R⋈S in ΔU"]
    late = plan(((0, 1), 2, 3), clique(4), lambda source, inputs: 1.0 if {2, 3} <= inputs else 2.0)
    assert late.orders[2] == (3, 0, 1) and late.kept[0].first == 1


@pytest.mark.parametrize("seed", range(25))
def test_every_tree_is_a_plan_of_exact_caches_without_products(seed: int) -> None:
    rng = random.Random(seed)
    shape = random_shape(rng, rng.randrange(3, 6))
    for tree in mjoin_trees(shape):
        assert sorted(leaves(tree)) == list(range(shape.size))
        found = plan(tree, shape)
        known = set(prefix_caches(shape, found.orders))
        assert all(shape.avoids_products(i, order) for i, order in enumerate(found.orders))
        assert set(found.kept) <= known
        assert all(prefix_invariant(c.segment, found.orders) for c in found.kept)


def test_the_best_tree_follows_the_rates() -> None:
    shape, pairs = chain(3), {(0, 1): 0.1, (1, 2): 0.1}
    best = {}
    for fast in (0, 2):
        rates = [1.0, 1.0, 1.0]
        rates[fast] = 20.0
        expected = independent(rates, [10, 10, 10], pairs)
        best[fast] = best_tree(shape, lambda t, e=expected: tree_cost(t, shape, e))[0]
    assert best == {0: (0, (1, 2)), 2: ((0, 1), 2)}


def test_the_best_tree_is_the_cheapest_of_all() -> None:
    rng = random.Random(1)
    shape = clique(4)
    pairs = {(a, b): rng.random() / 10 for a in range(4) for b in range(a + 1, 4)}
    expected = independent([rng.random() for _ in range(4)], [10] * 4, pairs)

    def cost(tree: object) -> float:
        return tree_cost(tree, shape, expected)  # type: ignore[arg-type]

    assert best_tree(shape, cost)[1] == min(cost(t) for t in binary_trees(shape))
    assert best_tree(shape, cost, mjoin_trees(shape))[1] <= best_tree(shape, cost)[1]
    assert best_tree(shape, lambda t: 1.0)[0] == binary_trees(shape)[0]
