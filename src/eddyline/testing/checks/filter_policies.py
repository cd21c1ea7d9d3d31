"""Checks of policies that order filters, and join orders, which are ordered as filters (``filters``, ``joins``).

The contract is that of ``adaptive.filters.policy``. Each check drives a policy over drop bits that are known, so that
what it should find is known, too.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.adaptive.filters.policy import FilterPolicy
from eddyline.adaptive.filters.simulate import draw, simulate
from eddyline.core.delta import Bools, Float64s
from eddyline.testing.checks.check import require, same_state, saved

Make = Callable[..., FilterPolicy]

STATE_BYTES = 20_000  # of a policy over five filters with the quick parameters
GROWTH_BYTES = 200  # numbers that got longer


def filter_policy_checks(make: Make, seeded: bool) -> Iterator[tuple[str, Callable[[], None]]]:
    """``make(pipeline, **parameters)`` constructs the policy with parameters under which few rows suffice; ``seeded``:
    it takes a ``seed``."""
    yield "never changes answers", partial(_answers, make)
    yield "orders are permutations within walls", partial(_permutations, make)
    yield "decisions are data", partial(_decisions, make)
    yield "state is bounded", partial(_bounded, make)
    yield "the same seed gives the same decisions", partial(_deterministic, make, seeded)
    yield "state and load go on identically", partial(_goes_on, make)
    yield "nothing is profiled where nothing can move", partial(_walls, make)
    yield "empty batches", partial(_empty, make)
    yield "promises no gain between equals, and settles", partial(_equals, make)


def shifting(rows: int, n: int, seed: int) -> Bools:
    """Drop bits in four phases with different rates and correlated pairs of filters.

    >>> shifting(400, 3, seed=1).shape
    (400, 3)
    """
    random = np.random.default_rng(seed)
    groups = [i // 2 for i in range(n)]
    return np.concatenate(
        [
            draw(rows // 4, random.permutation(np.linspace(0.1, 0.9, n)).tolist(), groups=groups, seed=seed + i)
            for i in range(4)
        ]
    )


def prices(rows: int, n: int, seed: int) -> Float64s:
    """What each filter costs for each row: other prices in every sixth of the rows."""
    random = np.random.default_rng(seed)
    phases = [random.uniform(1e-6, 1e-4, n) for _ in range(6)]
    return np.stack([phases[row * 6 // rows] for row in range(rows)])


def _answers(make: Make) -> None:
    for n, batch, seed in ((1, 7, 1), (3, 1, 2), (4, 50, 3), (6, 13, 4)):
        drops = shifting(1200, n, seed)
        run = simulate(make(Pipeline(n)), drops, batch=batch)
        require(np.array_equal(run.passed, ~drops.any(1)), f"with {n} filters other rows pass than without a policy")


def _permutations(make: Make) -> None:
    for pinned in (frozenset[int](), frozenset({0}), frozenset({2}), frozenset({1, 3})):
        pipeline = Pipeline(6, pinned=pinned)
        policy, drops, costs = make(pipeline), shifting(6_000, 6, seed=3), prices(6_000, 6, seed=4)
        for start in range(0, len(drops), 50):
            simulate(policy, drops[start : start + 50], costs[start : start + 50], batch=50)
            require(
                pipeline.allows(policy.order),
                f"the order {policy.order} is no permutation within walls, with {sorted(pinned)} pinned",
            )


def _decisions(make: Make) -> None:
    pipeline = Pipeline(5, operator="select 7")
    policy, drops, costs = make(pipeline), shifting(8_000, 5, seed=3), prices(8_000, 5, seed=4)
    order = policy.order
    for start in range(0, len(drops), 50):
        run = simulate(policy, drops[start : start + 50], costs[start : start + 50], batch=50)
        for decision in run.decisions:
            require(
                (decision.before, decision.after) == (order, policy.order) and order != policy.order,
                f"the decision says {decision.before} → {decision.after}, the order went {order} → {policy.order}",
            )
            require(decision.operator == "select 7", f"the decision names the operator {decision.operator!r}")
            require(decision.reason, "the decision gives no reason")
            gain = decision.expected_gain
            require(gain is None or gain > 0, f"the expected gain is {gain}")
            json.dumps(decision.to_dict())
        require(run.decisions or order == policy.order, f"the order went {order} → {policy.order} without a decision")
        order = policy.order
    json.dumps(dict(policy.statistics()))


def _bounded(make: Make) -> None:
    policy = make(Pipeline(5))
    simulate(policy, shifting(4_000, 5, seed=1))
    before = len(pickle.dumps(policy.state()))
    simulate(policy, shifting(12_000, 5, seed=2))
    after = len(pickle.dumps(policy.state()))
    require(after <= before + GROWTH_BYTES, f"the state grew from {before} to {after} bytes")
    require(after <= STATE_BYTES, f"the state has {after} bytes, more than {STATE_BYTES}")


def _deterministic(make: Make, seeded: bool) -> None:
    drops, costs, options = shifting(4_000, 4, seed=5), prices(4_000, 4, seed=6), {"seed": 1} if seeded else {}
    first, second = (simulate(make(Pipeline(4), **options), drops, costs) for _ in range(2))
    require(first.decisions == second.decisions, "two runs with the same seed decide differently")
    require(first.cost == second.cost, "two runs with the same seed profile different rows")


def _goes_on(make: Make) -> None:
    pipeline, drops, costs = Pipeline(5, pinned=frozenset({1})), shifting(6_000, 5, seed=11), prices(6_000, 5, seed=3)
    for cut in (0, 150, 2_350):
        here, there = make(pipeline), make(pipeline)
        simulate(here, drops[:cut], costs[:cut])
        there.load(saved(here.state()))
        require(same_state(here.state(), there.state()), f"after {cut} rows the loaded state is not the saved one")
        runs = [simulate(p, drops[cut:], costs[cut:]) for p in (here, there)]
        require(runs[0].decisions == runs[1].decisions, f"loaded after {cut} rows it decides differently")
        require(runs[0].cost == runs[1].cost, f"loaded after {cut} rows it profiles different rows")
        require(same_state(here.state(), there.state()), f"loaded after {cut} rows its state ends differently")


def _walls(make: Make) -> None:
    for pipeline in (Pipeline(1), Pipeline(3, pinned=frozenset(range(3))), Pipeline(2, frozenset({1}))):
        run = simulate(make(pipeline), shifting(2_000, pipeline.filters, seed=12))
        require(run.profiling == 0, "it profiles where no filter can move")
        require(not run.decisions, "it decides where no filter can move")


def _empty(make: Make) -> None:
    policy = make(Pipeline(3))
    require(len(policy.wants_profile(0)) == 0, "it profiles rows of an empty batch")
    nothing: Any = np.zeros(3, np.int64)
    policy.processed(nothing, nothing, np.full(3, np.nan))
    require(policy.decide(None) is None, "it decides after an empty batch")


def _equals(make: Make) -> None:
    equal = np.repeat(draw(8_000, [0.5], seed=3), 4, axis=1)
    run = simulate(make(Pipeline(4)), equal)
    for d in run.decisions:
        gain = d.expected_gain
        require(gain is None or gain <= 1 + 1e-9, f"it promises a gain of {gain} between filters that are equal")
    late = [d for d in run.decisions if d.time is not None and d.time > 4_000]
    require(not late, f"it still reorders filters that are equal: {len(late)} decisions after 4,000 rows")
