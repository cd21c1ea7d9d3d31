"""What every policy promises: a new one in the registry is held to all of it."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.adaptive.filters.bounds import optimal_order, order_cost
from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.adaptive.filters.policies import POLICIES, defaults, make_policy
from eddyline.adaptive.filters.policy import FilterPolicy
from eddyline.adaptive.filters.simulate import Run, draw, simulate
from eddyline.core.delta import Bools
from eddyline.engine.state_codec import decode, encode
from tests.adaptive.executor import execute

NAMES = sorted(POLICIES)
ADAPTIVE = [n for n in NAMES if n != "static"]
# Quick settings, so that few rows suffice; whatever a policy has of them.
QUICK: dict[str, Any] = {"p": 0.2, "burst": 0.5, "window": 100, "overhead": 0.5}


def quick(name: str, pipeline: Pipeline, **more: Any) -> FilterPolicy:
    return make_policy(name, pipeline, **{k: v for k, v in {**QUICK, **more}.items() if k in defaults(name)})


def shifting(rows: int, n: int, seed: int) -> Bools:
    """A few phases with different rates and correlated pairs."""
    random = np.random.default_rng(seed)
    groups = [i // 2 for i in range(n)]
    return np.concatenate(
        [draw(rows // 4, random.permutation(np.linspace(0.1, 0.9, n)), groups=groups, seed=seed + i) for i in range(4)]
    )


def same(a: Any, b: Any) -> bool:
    """Equal trees of numbers and arrays."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return bool(np.array_equal(np.asarray(a), np.asarray(b), equal_nan=np.asarray(a).dtype.kind == "f"))


def size(policy: FilterPolicy) -> int:
    return len(pickle.dumps(policy.state()))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=12)
@given(n=st.integers(1, 6), batch=st.integers(1, 60), seed=st.integers(0, 1000), pins=st.sets(st.integers(0, 5)))
def test_answers_calls_and_counts(name: str, n: int, batch: int, seed: int, pins: set[int]) -> None:
    """The answers are those of any order, errors of dropped rows are forgotten, nothing is asked twice, pinned filters
    see exactly what they would see anyway, and the vectorised executor agrees with the one by rows.
    """
    drops = shifting(240, n, seed)
    fails = np.random.default_rng(seed).random(drops.shape) < 0.05
    pipeline = Pipeline(n, pinned=frozenset(p for p in pins if p < n))
    seen = execute(quick(name, pipeline), drops, batch, fails)
    bits = drops & ~fails
    alive = ~bits.any(1)
    assert seen.passed == list(np.flatnonzero(alive & ~fails.any(1)))
    assert seen.failed == list(np.flatnonzero(alive & fails.any(1)))
    assert seen.asked.max() <= 1
    for f in pipeline.pinned:
        assert np.array_equal(seen.asked[:, f] == 1, ~bits[:, :f].any(1))

    run = simulate(quick(name, pipeline), bits, batch=batch)
    assert np.array_equal(run.passed, alive)
    assert run.cost == seen.asked.sum() and run.profiling == seen.extra
    assert [d.to_dict() for d in run.decisions] == [d.to_dict() for d in seen.decisions]


@pytest.mark.parametrize("name", NAMES)
def test_always_an_allowed_permutation_and_decisions_that_tell_so(name: str) -> None:
    pipeline = Pipeline(6, pinned=frozenset({2}), operator="select 7")
    policy, drops = quick(name, pipeline), shifting(8_000, 6, seed=3)
    order = policy.order
    for start in range(0, len(drops), 50):
        run = simulate(policy, drops[start : start + 50], batch=50)
        assert pipeline.allows(policy.order) and policy.order[2] == 2
        for decision in run.decisions:
            assert (decision.before, decision.after) == (order, policy.order) and order != policy.order
            assert (decision.operator, decision.kind) == ("select 7", "filter order")
            assert decision.expected_gain is not None and decision.expected_gain > 0 and decision.reason
            json.dumps(decision.to_dict())
        assert bool(run.decisions) == (order != policy.order)
        order = policy.order
    json.dumps(dict(policy.statistics()))


@pytest.mark.parametrize("name", NAMES)
def test_memory_is_bounded(name: str) -> None:
    policy = quick(name, Pipeline(5))
    simulate(policy, shifting(4_000, 5, seed=1))
    after_some = size(policy)
    simulate(policy, shifting(20_000, 5, seed=2))
    assert size(policy) <= after_some + 200  # numbers that got longer
    assert size(policy) < 10_000


@pytest.mark.parametrize("name", NAMES)
def test_deterministic_under_a_seed(name: str) -> None:
    drops = shifting(4_000, 4, seed=5)

    def run(seed: int) -> Run:
        return simulate(quick(name, Pipeline(4), seed=seed), drops)

    assert run(1).decisions == run(1).decisions and run(1).cost == run(1).cost
    if name != "static":
        assert not np.array_equal(run(1).profiling_by_batch, run(2).profiling_by_batch)


@pytest.mark.parametrize("name", sorted(set(ADAPTIVE) - {"default"}))
def test_which_tuples_are_profiled_does_not_depend_on_batches(name: str) -> None:
    def chosen(cuts: list[int]) -> list[int]:
        policy, at, found = quick(name, Pipeline(3)), 0, []
        for count in cuts:
            found += [at + int(w) for w in policy.wants_profile(count)]
            at += count
        return found

    assert chosen([1000]) == chosen([1] * 1000) == chosen([7, 493, 0, 500])
    assert 150 < len(chosen([1000])) < 250


@pytest.mark.parametrize("name", ADAPTIVE)
def test_finds_the_better_of_two(name: str) -> None:
    run = simulate(quick(name, Pipeline(2)), draw(3_000, [0.2, 0.7], seed=1))
    assert run.order == (1, 0)


@pytest.mark.parametrize("name", ADAPTIVE)
def test_costs_count(name: str) -> None:
    """A filter that drops twice as much for four times the price comes second, whether declared or measured."""
    drops = draw(4_000, [0.8, 0.4], seed=2)
    assert simulate(quick(name, Pipeline(2)), drops, [4e-3, 1e-3]).order == (1, 0)
    assert simulate(quick(name, Pipeline(2)), drops, [1e-3, 1e-3]).order == (0, 1)


@pytest.mark.parametrize("name", NAMES)
def test_no_decision_between_equals(name: str) -> None:
    same_bits = np.repeat(draw(6_000, [0.5], seed=3), 4, axis=1)
    assert simulate(quick(name, Pipeline(4)), same_bits).decisions == ()
    # Taking turns: never more than one tuple apart. What the very first tuples said may be taken back once.
    turns = np.tile(np.eye(3, dtype=np.bool_), (3_000, 1))
    run = simulate(quick(name, Pipeline(3), p=1.0), turns)
    assert len(run.decisions) <= 4 and all(d.time is not None and d.time < 3_000 for d in run.decisions)


@pytest.mark.parametrize("name", NAMES)
def test_few_decisions_between_equals_that_are_random(name: str) -> None:
    """With the defaults: a hundred batches of equal, independent filters."""
    run = simulate(make_policy(name, Pipeline(4)), draw(50_000, [0.5] * 4, seed=4), batch=500)
    settled = [d for d in run.decisions if d.time is not None and d.time > 25_000]
    assert len(settled) <= 3


@pytest.mark.parametrize("name", ADAPTIVE)
def test_slow_drift_adds_up(name: str) -> None:
    """Each batch differs from the last by a quarter of a percent; the whole way is from one order to the other."""
    share = np.repeat(np.linspace(0, 1, 160), 150)
    uniform = np.random.default_rng(6).random((len(share), 2))
    drops = uniform < np.column_stack([0.7 - 0.5 * share, 0.2 + 0.5 * share])
    policy = quick(name, Pipeline(2))
    assert simulate(policy, drops[:6_000], batch=150).order == (0, 1)
    assert simulate(policy, drops[6_000:], batch=150).order == (1, 0)


@pytest.mark.parametrize("name", ADAPTIVE)
@pytest.mark.parametrize("last", [[0.1, 0.3, 0.8], [0.8, 0.3, 0.1]])
def test_two_changes_within_one_batch(name: str, last: list[float]) -> None:
    """A batch that sees three regimes, the last of them here to stay."""
    policy = quick(name, Pipeline(3))
    simulate(policy, draw(3_000, [0.8, 0.3, 0.1], seed=7))
    batch = [draw(700, r, seed=8) for r in ([0.8, 0.3, 0.1], [0.1, 0.8, 0.3], last)]
    simulate(policy, np.concatenate(batch), batch=2_100)
    drops = draw(9_000, last, seed=9)
    run = simulate(policy, drops)
    assert order_cost(drops, run.order) <= 1.1 * order_cost(drops, optimal_order(drops))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("pinned", [frozenset({0}), frozenset({1, 3})])
def test_the_state_goes_on_elsewhere(name: str, pinned: frozenset[int]) -> None:
    pipeline, drops = Pipeline(5, pinned=pinned), shifting(6_000, 5, seed=11)
    for cut in (150, 2_350):
        here, there, third = (quick(name, pipeline, seed=4) for _ in range(3))
        simulate(here, drops[:cut])
        pieces: dict[str, bytes] = {}
        saved = decode(encode(here.state(), Store(pieces)), Store(pieces))
        there.load(pickle.loads(pickle.dumps(saved)))
        third = pickle.loads(pickle.dumps(here))
        assert same(here.state(), there.state())
        runs = [simulate(p, drops[cut:]) for p in (here, there, third)]
        assert runs[0].decisions == runs[1].decisions == runs[2].decisions
        assert runs[0].cost == runs[1].cost == runs[2].cost
        assert same(here.state(), there.state())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "pipeline", [Pipeline(1), Pipeline(3, pinned=frozenset(range(3))), Pipeline(2, frozenset({1}))]
)
def test_nothing_is_spent_where_nothing_can_move(name: str, pipeline: Pipeline) -> None:
    run = simulate(quick(name, pipeline, p=1.0), shifting(2_000, pipeline.filters, seed=12))
    assert run.profiling == 0 and run.decisions == () and run.order == tuple(range(pipeline.filters))


@pytest.mark.parametrize("name", NAMES)
def test_empty_batches_and_batches_that_all_pass(name: str) -> None:
    policy = quick(name, Pipeline(3))
    assert len(policy.wants_profile(0)) == 0
    run = simulate(policy, np.zeros((3_000, 3), np.bool_))
    assert run.decisions == () and run.profiling == 0 and run.passed.all()
    assert policy.decide(None) is None


class Store:
    def __init__(self, pieces: dict[str, bytes]) -> None:
        self.pieces = pieces

    def put(self, name: str, data: bytes) -> None:
        self.pieces[name] = data

    def get(self, name: str) -> bytes:
        return self.pieces[name]
