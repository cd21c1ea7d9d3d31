"""Checks of policies that choose the caches of a join (``caches``): the contract of ``adaptive.joins.a_caching``.

A policy may be None (no caches at all); then there is nothing to drive.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from eddyline.adaptive.joins.candidates import candidates, conflicts
from eddyline.adaptive.joins.shape import LogicalFilters, Shape
from eddyline.streamon.decision import Decision
from eddyline.testing.checks.check import require, saved

Make = Callable[..., Any]

CHAIN = Shape(4, (frozenset({0, 1}), frozenset({1, 2}), frozenset({2, 3})))
NAMES = ("R", "S", "T", "U")


def cache_policy_checks(make: Make) -> Iterator[tuple[str, Callable[[], None]]]:
    """``make(shape, names, operator=…, **parameters)`` constructs the policy with a short interval."""
    yield "used caches are candidates without conflicts", partial(_valid, make)
    yield "decisions are data", partial(_decisions, make)
    yield "the same statistics give the same decisions", partial(_deterministic, make)
    yield "state and load go on identically", partial(_goes_on, make)


class World:
    """A join of four inputs whose statistics change every few steps; all of it follows from the seed."""

    def __init__(self, policy: Any, seed: int = 1) -> None:
        self.policy, self.random, self.tuples = policy, random.Random(seed), 0
        self.decisions: list[Decision] = []
        self.orders: Sequence[Sequence[int]] = ()

    def step(self) -> None:
        rng, policy = self.random, self.policy
        if self.tuples % 3000 == 0:
            self.rates = tuple(rng.randint(5, 90) for _ in NAMES)
            self.miss = {label: rng.random() for label in sorted(_labels())}
        if self.tuples % 5000 == 0:
            self.orders = tuple(_order(rng, source) for source in range(len(NAMES)))
            self.decisions += policy.orders(self.orders, self.tuples)
        self.tuples += 100
        policy.rates(self.rates, 100)
        for pipeline in range(len(NAMES)):
            policy.observe(pipeline, (1, 1, 1, 1), (1.0, 1.0, 1.0))
        for c in policy.profiled:
            policy.distinct(c, round(100 * self.miss.get(c.label(NAMES), 0.5)), 100)
            policy.costs(c, 0.3, 0.3)
        for c in policy.used:
            policy.missed(c, 100, round(100 * self.miss.get(c.label(NAMES), 0.5)))
        self.decisions += policy.decide(self.tuples, self.tuples)

    def steps(self, count: int) -> World:
        for _ in range(count):
            self.step()
        return self


def _order(rng: random.Random, source: int) -> tuple[int, ...]:
    filters = list(range(len(NAMES) - 1))
    rng.shuffle(filters)
    return LogicalFilters(CHAIN, source).order_of(filters)


def _labels() -> set[str]:
    rng, found = random.Random(0), set[str]()
    for _ in range(30):
        orders = [_order(rng, source) for source in range(len(NAMES))]
        found |= {c.label(NAMES) for c in candidates(CHAIN, orders)}
    return found


def _world(make: Make, seed: int = 1) -> World | None:
    policy = make(CHAIN, NAMES, operator="mjoin 7")
    return None if policy is None else World(policy, seed)


def _valid(make: Make) -> None:
    world = _world(make)
    for _ in range(150 if world is not None else 0):
        assert world is not None
        world.step()
        used = list(world.policy.used)
        for i, c in enumerate(used):
            for other in used[:i]:
                require(
                    not conflicts(c, other, world.orders),
                    f"{c.label(NAMES)} and {other.label(NAMES)} overlap and are both used",
                )


def _decisions(make: Make) -> None:
    world = _world(make)
    if world is None:
        return
    world.steps(150)
    require(world.decisions, "it never decides, though misses and rates change every 3,000 tuples")
    for decision in world.decisions:
        require(decision.operator == "mjoin 7", f"the decision names the operator {decision.operator!r}")
        require(decision.before != decision.after, f"a decision changes nothing: {decision.after}")
        require(decision.reason, "the decision gives no reason")
        json.dumps(decision.to_dict())
    json.dumps(world.policy.statistics())


def _deterministic(make: Make) -> None:
    worlds = [w.steps(120) for w in (_world(make), _world(make)) if w is not None]
    if worlds:
        require(worlds[0].decisions == worlds[1].decisions, "two runs over the same statistics decide differently")


def _goes_on(make: Make) -> None:
    for cut in (1, 40, 90):
        here = _world(make)
        if here is None:
            return
        here.steps(cut)
        there = _world(make)
        assert there is not None
        there.policy.load(saved(here.policy.state()))
        there.random.setstate(here.random.getstate())
        there.tuples, there.rates, there.miss, there.orders = here.tuples, here.rates, here.miss, here.orders
        here.decisions = []
        here.steps(80)
        there.steps(80)
        require(here.decisions == there.decisions, f"loaded after {cut} steps it decides differently")
        require(here.policy.used == there.policy.used, f"loaded after {cut} steps it uses other caches")
