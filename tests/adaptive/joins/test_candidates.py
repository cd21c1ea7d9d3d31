from __future__ import annotations

import random

import pytest

from eddyline.adaptive.joins.candidates import (
    Candidate,
    candidates,
    conflicts,
    globally_consistent,
    maintenance,
    prefix_caches,
    prefix_invariant,
    still_valid,
)
from eddyline.adaptive.joins.selection import parent
from eddyline.adaptive.joins.shape import Shape
from tests.adaptive.joins.graphs import EXAMPLE, chain, clique, random_orders, random_shape, star

NAMES = ("R1", "R2", "R3", "R4", "R5", "R6")


def test_example_5_4_3() -> None:
    orders = [(1, 2), (2, 0), (1, 0)]
    assert prefix_invariant((1, 2), orders)
    assert not prefix_invariant((1, 0), orders)
    assert [c.label(NAMES) for c in prefix_caches(chain(3), orders)] == ["R2⋈R3 in ΔR1"]


def test_example_5_5_1() -> None:
    found = prefix_caches(clique(6), EXAMPLE)
    groups = {c.segment for c in found}
    assert groups == {(0, 1), (3, 4), (0, 1, 2), (0, 1, 2, 3, 4)}
    assert [c.segment for c in found if c.pipeline == 3] == [(0, 1), (0, 1, 2)]
    assert [c.segment for c in found if c.pipeline == 5] == [(0, 1), (0, 1, 2, 3, 4), (3, 4)]


def test_the_trees_of_figure_5_8() -> None:
    found = prefix_caches(clique(6), EXAMPLE)

    def above(pipeline: int) -> dict[tuple[int, ...], tuple[int, ...] | None]:
        mine = [c for c in found if c.pipeline == pipeline]
        return {c.segment: None if (p := parent(c, mine)) is None else p.segment for c in mine}

    assert above(3) == {(0, 1): (0, 1, 2), (0, 1, 2): None}
    everything = (0, 1, 2, 3, 4)
    assert above(5) == {(0, 1): everything, (3, 4): everything, everything: None}


def test_example_5_5_2() -> None:
    found = prefix_caches(clique(6), EXAMPLE)
    shared = {s: [c.pipeline for c in found if c.store == (s, (0,), (), -1)] for s in ((0, 1), (0, 1, 2))}
    assert shared == {(0, 1): [2, 3, 5], (0, 1, 2): [3, 4]}


def test_caches_of_the_same_join_under_another_key_are_not_shared() -> None:
    # U joins the chain at R, T at S: both may cache R⋈S, by different keys.
    shape = Shape(4, (frozenset((0, 1)), frozenset((1, 2)), frozenset((0, 3))))
    found = [c for c in prefix_caches(shape, [(1, 2, 3), (0, 2, 3), (1, 0, 3), (0, 1, 2)]) if c.segment == (0, 1)]
    assert [(c.pipeline, c.key) for c in found] == [(2, (1,)), (3, (2,))]
    assert found[0].store != found[1].store


def test_example_5_7_1() -> None:
    orders = [*EXAMPLE[:5], (1, 2, 3, 4, 0)]
    assert not prefix_invariant((1, 2), orders) and prefix_invariant((0, 1, 2), orders)
    found = globally_consistent(clique(6), orders, 100, 0)
    cache = next(c for c in found if c.pipeline == 5 and c.segment == (1, 2))
    assert cache.label(NAMES) == "(R2⋈R3)⋉R1 in ΔR6"
    assert maintenance(cache, orders) == ((0, 2), (1, 2), (2, 2))


def test_figure_5_22_has_both_of_its_caches() -> None:
    found = candidates(chain(3), [(1, 2), (0, 2), (1, 0)])
    assert [c.label("RST") for c in found] == ["R⋈S in ΔT", "(S⋈T)⋉R in ΔR"]
    assert found[1].anchored and not found[0].anchored
    assert found[1].key == (0,)


def test_the_quota_counts_the_prefix_caches() -> None:
    shape = clique(6)
    exact = prefix_caches(shape, EXAMPLE)
    assert len(exact) == 10
    assert candidates(shape, EXAMPLE, m=6) == exact and candidates(shape, EXAMPLE, m=10) == exact
    more = candidates(shape, EXAMPLE, m=14)
    assert more[:10] == exact and len(more) == 14
    # All but one window first: ΔR6 has that segment exactly, the five others with their own input as support.
    assert [(len(c.segment), c.pipeline, c.support) for c in more[10:]] == [(5, i, (i,)) for i in range(4)]
    sizes = [len(c.segment) for c in candidates(shape, EXAMPLE, m=60)[10:]]
    assert sizes == sorted(sizes, reverse=True)


def test_the_support_is_the_smallest() -> None:
    rng = random.Random(5)
    for _ in range(20):
        shape = random_shape(rng, 5, thetas=False)
        orders = random_orders(rng, shape)
        for c in globally_consistent(shape, orders, 100, 0):
            for left_out in c.support:
                fewer = set(c.inputs) - {left_out}
                assert len(fewer) == len(c.segment) or not prefix_invariant(fewer, orders)


def test_a_star_has_no_cache_of_leaves_alone() -> None:
    orders = [(1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2)]
    assert all(0 in c.segment for c in candidates(star(4), orders, m=20))


def test_no_key_no_cache() -> None:
    # R < S only, S = T: nothing but a scan finds the S⋈T that joins with an R.
    shape = Shape(3, (frozenset((1, 2)),), frozenset({frozenset((0, 1))}))
    assert [c.label("RST") for c in candidates(shape, [(1, 2), (2, 0), (1, 0)], 20)] == ["(R⋈S)⋉T in ΔT"]


def test_a_theta_on_its_own_input_rules_an_anchored_cache_out() -> None:
    edges = (frozenset((0, 1)), frozenset((1, 2)))
    orders = [(1, 2), (0, 2), (1, 0)]
    plain, other = Shape(3, edges), Shape(3, edges, frozenset({frozenset((0, 2))}))
    assert [c.label("RST") for c in candidates(plain, orders)] == ["R⋈S in ΔT", "(S⋈T)⋉R in ΔR"]
    assert [c.label("RST") for c in candidates(other, orders)] == ["R⋈S in ΔT", "(R⋈T)⋉S in ΔS"]


def test_the_key_of_an_anchored_cache_holds_all_that_its_input_shares() -> None:
    # R meets S in class 0 and U in class 3; S⋈T in ΔR is supported by R and U.
    shape = Shape(4, (frozenset((0, 1)), frozenset((1, 2)), frozenset((2, 3)), frozenset((0, 3))))
    orders = [(1, 2, 3), (0, 2, 3), (3, 1, 0), (0, 1, 2)]
    cache = next(c for c in candidates(shape, orders, 30) if c.pipeline == 0 and c.segment == (1, 2))
    assert cache.anchored and cache.support == (0, 3) and cache.key == (0, 3)


def test_the_three_conflicts() -> None:
    orders = [(1, 2, 3), (0, 2, 3), (1, 0, 3), (1, 0, 2)]
    exact = Candidate(2, 0, 1, (0, 1), (0,))
    assert exact in prefix_caches(clique(4), orders)
    inside = Candidate(2, 0, 2, (0, 1, 3), (0,), (2,))
    assert conflicts(exact, inside, orders)  # 1: they overlap
    elsewhere = Candidate(0, 0, 2, (1, 2, 3), (0,), (0,))
    assert conflicts(exact, elsewhere, orders)  # 2: a hit skips the point after the first join in ΔR1
    withholding = Candidate(0, 0, 1, (1, 2), (0,), (0, 3))
    wide, all_but = Candidate(3, 0, 2, (0, 1, 2), (0,)), Candidate(1, 0, 2, (0, 2, 3), (0,), (1,))
    assert conflicts(withholding, wide, orders)  # 3: R1⋈R2⋈R3 would lose what joins with no R4
    assert not conflicts(withholding, all_but, orders)  # that must join with R4 anyway
    assert conflicts(all_but, exact, orders) and not conflicts(exact, exact, orders)


def test_re_ordering_one_pipeline_takes_caches_of_others() -> None:
    old = [(1, 2), (0, 2), (1, 0)]
    cache = candidates(chain(3), old)[0]
    assert still_valid([cache], old, old) == (cache,)
    assert still_valid([cache], old, [(1, 2), (0, 2), (0, 1)]) == ()  # its own pipeline
    assert still_valid([cache], old, [(1, 2), (2, 0), (1, 0)]) == ()  # the erratum: ΔS maintains it no more
    wide = candidates(chain(3), old)[1]
    assert still_valid([wide], old, [(1, 2), (2, 0), (1, 0)]) == (wide,)  # the whole set always holds


@pytest.mark.parametrize("seed", range(60))
def test_what_is_true_of_all_candidates(seed: int) -> None:
    rng = random.Random(seed)
    shape = random_shape(rng, rng.randrange(3, 8))
    orders = random_orders(rng, shape)
    found = candidates(shape, orders, m=20)
    exact = [c for c in found if not c.support]
    assert len(set(found)) == len(found) and found == candidates(shape, orders, m=20)
    assert len(found) <= max(20, len(exact))
    for c in found:
        assert tuple(sorted(orders[c.pipeline][c.first : c.last + 1])) == c.segment
        assert c.key and len(c.segment) >= 2 and shape.whole(c.segment)
        assert not set(c.segment) & set(c.support) and c.pipeline not in c.segment
        assert all(at in c.inputs and q == len(c.inputs) - 1 for at, q in maintenance(c, orders))
        # No cache skips its own maintenance point: in its own pipeline it lies behind the segment.
        assert all(not c.first < q <= c.last for at, q in maintenance(c, orders) if at == c.pipeline)
        assert Candidate.load(c.state()) == c
    for a in found:
        for b in found:
            assert conflicts(a, b, orders) == conflicts(b, a, orders)
    for a in exact:
        for b in exact:
            overlap = a.pipeline == b.pipeline and set(a.operators) & set(b.operators)
            assert conflicts(a, b, orders) == (a != b and bool(overlap))
            if overlap:
                assert set(a.segment) <= set(b.segment) or set(b.segment) <= set(a.segment)


def test_maintenance_without_the_prefix_invariant_is_refused() -> None:
    with pytest.raises(ValueError, match="prefix invariant"):
        maintenance(Candidate(2, 0, 1, (0, 1), (1,)), [(1, 2), (2, 0), (1, 0)])
