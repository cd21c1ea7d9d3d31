"""Routes learn from a few rows of a batch: how many go another way, how soon a better step is found, what is saved."""

from __future__ import annotations

import numpy as np
import pytest

from eddyline.adaptive.indexes.routes import ROWS_PARTED, Routes

ALL = [{1, 2, 3}, {0, 2, 3}, {0, 1, 3}, {0, 1, 2}]


def go(routes: Routes, fanouts: dict[int, float], rows: int, rng: np.random.Generator) -> tuple[int, int]:
    """A batch of input 0 takes its first step; returns where it went and how many of its rows went another way."""
    target = routes.next((0,))
    aside = routes.aside((0,), rows, target)
    other, few = aside if aside is not None else (target, 0)
    for to, n in ((target, rows - few), (other, few)):
        routes.searched((0,), to, n, int(rng.binomial(50 * n, fanouts[to] / 50)))
    return target, few


def test_few_rows_go_another_way() -> None:
    rng, routes = np.random.default_rng(1), Routes(ALL, explore=64)
    parted = [go(routes, {1: 1.0, 2: 2.0, 3: 3.0}, 256, rng)[1] for _ in range(600)]
    assert 0.5 / 64 < sum(parted) / (256 * 600) < 1.3 / 64
    assert max(parted) <= ROWS_PARTED
    assert sum(n > 0 for n in parted) > 200  # often, a few


@pytest.mark.parametrize("policy", ["greedy", "lottery"])
def test_a_step_that_becomes_the_best_is_found(policy: str) -> None:
    rng, routes = np.random.default_rng(2), Routes(ALL, policy, explore=64)
    for best in (1, 3, 2):
        fanouts = {i: 1.0 if i == best else 6.0 for i in (1, 2, 3)}
        taken = [go(routes, fanouts, 256, rng)[0] for _ in range(100)]
        late = taken[60:]
        assert late.count(best) >= (len(late) if policy == "greedy" else 0.5 * len(late)), (best, taken)


def test_steps_that_alternate_in_luck_do_not_change_places() -> None:
    """The rows of a batch are alike: all of them match, or none. The better step stays for most of the time."""
    rng, routes = np.random.default_rng(3), Routes(ALL[:3], explore=64)
    taken = []
    for _ in range(600):
        target = routes.next((0,))
        taken.append(target)
        aside = routes.aside((0,), 256, target)
        steps = [(target, 256), *([aside] if aside is not None else [])]
        for to, n in steps:
            often = 0.1 if to == 1 else 0.5
            routes.searched((0,), to, n, 20 * n if rng.random() < often else 0)
    assert taken[100:].count(1) > 0.9 * 500


def test_what_was_learned_is_saved() -> None:
    rng, routes = np.random.default_rng(4), Routes(ALL, "lottery", seed=7)
    for _ in range(30):
        go(routes, {1: 1.0, 2: 2.0, 3: 3.0}, 100, rng)
    other = Routes(ALL, "lottery", seed=7)
    other.load(routes.state())
    for _ in range(20):
        a, b = np.random.default_rng(5), np.random.default_rng(5)
        assert go(routes, {1: 3.0, 2: 2.0, 3: 1.0}, 64, a) == go(other, {1: 3.0, 2: 2.0, 3: 1.0}, 64, b)


def test_random_routes_part_from_no_batch() -> None:
    assert Routes(ALL, "random").aside((0,), 1000, 1) is None
