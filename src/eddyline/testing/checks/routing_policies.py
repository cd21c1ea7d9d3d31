"""Checks of policies that route tuples by content (``routing``): the contract of ``adaptive.routing.policy``."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.adaptive.routing.policy import RoutingPolicy
from eddyline.adaptive.routing.setting import Setting
from eddyline.adaptive.routing.simulate import simulate
from eddyline.adaptive.routing.stream_star import StreamStar, stream_star
from eddyline.testing.checks.check import require, same_state, saved

Make = Callable[..., RoutingPolicy]

STATE_BYTES = 40_000  # of a policy over four operators and three attributes with the quick parameters
GROWTH_BYTES = 400  # numbers that got longer


def routing_policy_checks(make: Make, seeded: bool) -> Iterator[tuple[str, Callable[[], None]]]:
    """``make(setting, **parameters)`` constructs the policy with parameters under which few tuples suffice."""
    yield "never changes answers", partial(_answers, make)
    yield "routes are permutations within walls", partial(_permutations, make)
    yield "decisions are data", partial(_decisions, make)
    yield "state is bounded", partial(_bounded, make)
    yield "the same seed gives the same routes", partial(_deterministic, make, seeded)
    yield "state and load go on identically", partial(_goes_on, make)
    yield "empty batches", partial(_empty, make)


def shifting(rows: int, n: int, seed: int, d: int = 6) -> StreamStar:
    """Four phases, each with selectivities of its own for the classes of another attribute."""
    random = np.random.default_rng(seed)
    parts = [stream_star(random.random((4, n)), rows // 4, others=2, d=d, seed=seed + i) for i in range(4)]
    classes = [p.classes[:, np.roll(range(3), i)] for i, p in enumerate(parts)]
    return StreamStar(
        parts[0].setting, np.concatenate([p.passes for p in parts]), np.concatenate(classes), parts[0].selectivity
    )


def _answers(make: Make) -> None:
    for n, batch, seed in ((1, 7, 1), (3, 1, 2), (4, 60, 3)):
        star = shifting(1200, n, seed)
        run = simulate(make(star.setting), star.passes, star.classes, batch=batch)
        require(np.array_equal(run.out == 1, star.passes.all(1)), f"with {n} operators other tuples pass")


def _permutations(make: Make) -> None:
    star = shifting(6_000, 5, seed=3)
    for pinned in (frozenset[int](), frozenset({2})):
        pipeline = Pipeline(5, pinned=pinned)
        policy = make(Setting(pipeline, star.setting.attributes, star.setting.d))
        for start in range(0, len(star.passes), 100):
            part = slice(start, start + 100)
            orders = policy.route(star.classes[part])
            require(orders.shape == (len(star.classes[part]), 5), f"the routes have the shape {orders.shape}")
            for order in np.unique(orders, axis=0).tolist():
                require(pipeline.allows(order), f"the route {order} is no permutation within walls")
            policy.processed(np.full(orders.shape, -1, np.int8), np.full(5, np.nan))
            simulate(policy, star.passes[part], star.classes[part], batch=100)


def _decisions(make: Make) -> None:
    star = shifting(8_000, 4, seed=3)
    pipeline = Pipeline(4, operator="select 7")
    policy = make(Setting(pipeline, star.setting.attributes, star.setting.d))
    run = simulate(policy, star.passes, star.classes, batch=100)
    for decision in run.decisions:
        require(decision.operator == "select 7", f"the decision names the operator {decision.operator!r}")
        require(decision.reason, "the decision gives no reason")
        json.dumps(decision.to_dict())
    json.dumps(dict(policy.statistics()))


def _bounded(make: Make) -> None:
    star, more = shifting(4_000, 4, seed=1), shifting(12_000, 4, seed=2)
    policy = make(star.setting)
    simulate(policy, star.passes, star.classes)
    before = len(pickle.dumps(policy.state()))
    simulate(policy, more.passes, more.classes)
    after = len(pickle.dumps(policy.state()))
    require(after <= before + GROWTH_BYTES, f"the state grew from {before} to {after} bytes")
    require(after <= STATE_BYTES, f"the state has {after} bytes, more than {STATE_BYTES}")


def _deterministic(make: Make, seeded: bool) -> None:
    star, options = shifting(4_000, 4, seed=5), {"seed": 1} if seeded else {}
    first, second = (simulate(make(star.setting, **options), star.passes, star.classes) for _ in range(2))
    require(first.decisions == second.decisions, "two runs with the same seed decide differently")
    require(
        np.array_equal(first.calls_by_batch, second.calls_by_batch), "two runs with the same seed route differently"
    )


def _goes_on(make: Make) -> None:
    star = shifting(6_000, 4, seed=11)
    for cut in (0, 500, 2_600):
        here, there = make(star.setting), make(star.setting)
        simulate(here, star.passes[:cut], star.classes[:cut], batch=100)
        there.load(saved(here.state()))
        require(same_state(here.state(), there.state()), f"after {cut} tuples the loaded state is not the saved one")
        runs = [simulate(p, star.passes[cut:], star.classes[cut:], batch=100) for p in (here, there)]
        require(runs[0].decisions == runs[1].decisions, f"loaded after {cut} tuples it decides differently")
        require(
            np.array_equal(runs[0].calls_by_batch, runs[1].calls_by_batch),
            f"loaded after {cut} tuples it routes differently",
        )


def _empty(make: Make) -> None:
    star = shifting(400, 3, seed=1)
    policy = make(star.setting)
    routes = policy.route(np.empty((0, 3), np.int64))
    require(routes.shape == (0, 3), f"the routes of an empty batch have the shape {routes.shape}")
    policy.processed(np.empty((0, 3), np.int8), np.full(3, np.nan))
    require(policy.decide(None) is None, "it decides after an empty batch")
