"""Order structures against plain lists."""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np
import pytest

from eddyline.kernels import ordered

NO_NULLS = np.empty(0, np.bool_)


@pytest.mark.parametrize("seed", range(20))
def test_fifo_extremes_are_those_of_the_window(seed: int) -> None:
    rng = random.Random(seed)
    n_groups, steps = 3, 200
    group, weight, keys, ids, valid = [], [], [], [], []
    windows: list[list[tuple[int, int | None]]] = [[] for _ in range(n_groups)]
    expected = {"min": [], "max": []}
    for i in range(steps):
        g = rng.randrange(n_groups)
        if windows[g] and rng.random() < 0.45:
            id_, value = windows[g].pop(0)
            weight.append(-1)
        else:
            id_, value = i, rng.choice([None, *range(-5, 5)])
            windows[g].append((id_, value))
            weight.append(1)
        group.append(g)
        ids.append(id_)
        keys.append(value or 0)
        valid.append(value is not None)
        there = [v for _, v in windows[g] if v is not None]
        expected["min"].append(min(there, default=None))
        expected["max"].append(max(there, default=None))
    for name, flip in (("max", 0), ("min", -1)):
        pool, control = np.zeros((steps + 1) * ordered.DEQUE_STRIDE, np.int64), np.zeros(3, np.int64)
        out, present = np.zeros(steps, np.int64), np.zeros(steps, np.bool_)
        ordered.fifo_extreme(
            np.array(group),
            np.array(weight),
            np.array(valid),
            np.array(keys),
            np.array(ids),
            np.arange(steps),
            flip,
            False,
            np.zeros((n_groups, 2), np.int64),
            pool,
            control,
            out,
            present,
        )
        got = [v if p else None for v, p in zip(out.tolist(), present.tolist(), strict=True)]
        assert got == expected[name]


@pytest.mark.parametrize("seed", range(20))
def test_tree_extremes_under_any_deletions(seed: int) -> None:
    rng = random.Random(seed)
    n_groups, steps = 3, 300
    bags: list[Counter[int]] = [Counter() for _ in range(n_groups)]
    group, weight, keys, low, high = [], [], [], [], []
    for _ in range(steps):
        g = rng.randrange(n_groups)
        if bags[g] and rng.random() < 0.48:
            key = rng.choice(list(bags[g]))
            w = -rng.randint(1, bags[g][key])
        else:
            key, w = rng.choice([-(2**63), 2**63 - 1, *range(-20, 20)]), rng.randint(1, 3)
        bags[g][key] += w
        if bags[g][key] == 0:
            del bags[g][key]
        group.append(g)
        weight.append(w)
        keys.append(key)
        low.append(min(bags[g], default=None))
        high.append(max(bags[g], default=None))
    pool, control = np.zeros((steps + 1) * ordered.TREE_STRIDE, np.int64), np.zeros(3, np.int64)
    least, greatest, present = np.zeros(steps, np.int64), np.zeros(steps, np.int64), np.zeros(steps, np.bool_)
    ordered.tree_extremes(
        np.array(group),
        np.array(weight),
        NO_NULLS,
        np.array(keys),
        np.arange(steps),
        np.zeros(n_groups, np.int64),
        pool,
        control,
        least,
        greatest,
        present,
    )
    assert [v if p else None for v, p in zip(least.tolist(), present.tolist(), strict=True)] == low
    assert [v if p else None for v, p in zip(greatest.tolist(), present.tolist(), strict=True)] == high
    assert control[ordered.USED] <= sum(len(b) for b in bags) + steps


def test_forever_keeps_one_candidate() -> None:
    n = 100
    pool, control = np.zeros((n + 1) * ordered.DEQUE_STRIDE, np.int64), np.zeros(3, np.int64)
    out, present = np.zeros(n, np.int64), np.zeros(n, np.bool_)
    zeros = np.zeros(n, np.int64)
    ordered.fifo_extreme(
        zeros, np.ones(n, np.int64), NO_NULLS, np.arange(n)[::-1].copy(), zeros, np.arange(n), 0, True,
        np.zeros((1, 2), np.int64), pool, control, out, present,
    )  # fmt: skip
    assert (out == n - 1).all()
    assert control[ordered.USED] == 1


def test_order_keys_of_doubles() -> None:
    values = np.array([-math.inf, -1e300, -1.0, -5e-324, 0.0, 5e-324, 1.0, 1e300, math.inf, math.nan])
    keys = np.empty(len(values), np.int64)
    ordered.order_keys(values.view(np.int64), keys)
    assert sorted(set(keys.tolist())) == keys.tolist()
    back = np.empty_like(keys)
    ordered.order_keys(keys, back)
    assert (back == values.view(np.int64)).all()


@pytest.mark.parametrize("forever", [False, True])
def test_first_and_last_when_elements_leave_in_any_order(forever: bool) -> None:
    rng = random.Random(5)
    steps = 300
    lists: list[list[int]] = [[], []]
    group, weight, nodes, first, last = [], [], [], [], []
    for i in range(steps):
        g = rng.randrange(2)
        if lists[g] and not forever and rng.random() < 0.48:
            node = lists[g].pop(rng.randrange(len(lists[g])))
            weight.append(-1)
        else:
            node = i + 1
            lists[g].append(node)
            weight.append(1)
        group.append(g)
        nodes.append(node)
        first.append(lists[g][0] if lists[g] else 0)
        last.append(lists[g][-1] if lists[g] else 0)
    out_first, out_last, dead = np.zeros(steps, np.int64), np.zeros(steps, np.int64), np.zeros(steps, np.int64)
    gone = ordered.arrival_ends(
        np.array(group), np.array(weight), np.array(nodes), np.array(nodes), np.arange(steps), forever,
        np.zeros((2, 2), np.int64), np.zeros((steps + 1, 3), np.int64), out_first, out_last, dead,
    )  # fmt: skip
    assert out_first.tolist() == first
    assert out_last.tolist() == last
    assert gone == (steps - 4 if forever else weight.count(-1))
