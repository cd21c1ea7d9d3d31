"""Checks of slack policies (``slack``): what they choose depends on the rows, and on nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from eddyline.adaptive.disorder.policy import SlackPolicy
from eddyline.core.delta import Int64s
from eddyline.streamon.decision import Decision
from eddyline.testing.checks.check import require, saved

Make = Callable[[], SlackPolicy]
INTERVALS = 60


def slack_policy_checks(make: Make) -> Iterator[tuple[str, Callable[[], None]]]:
    yield "how rows are cut into batches does not matter", partial(_cut, make)
    yield "goes on from its state", partial(_state, make)
    yield "a decision is what has changed", partial(_decisions, make)
    yield "lateness that grows makes the slack grow", partial(_grows, make)


def _lateness(policy: SlackPolicy, seed: int, most: int = 500) -> list[Int64s]:
    random = np.random.default_rng(seed)
    return [random.integers(0, most, policy.interval) for _ in range(INTERVALS)]


def _observe(policy: SlackPolicy, lateness: Int64s, parts: int = 1) -> Decision | None:
    for part in np.array_split(lateness, parts):
        policy.observe(part, int((part > policy.slack).sum()), 3)
    return policy.decide(7)


def _cut(make: Make) -> None:
    whole, cut = make(), make()
    for n, part in enumerate(_lateness(whole, 1)):
        _observe(whole, part)
        _observe(cut, part, 1 + n % 5)
        require(whole.slack == cut.slack and whole.reach == cut.reach, f"after interval {n} the slack is another")


def _state(make: Make) -> None:
    first, second = make(), make()
    for n, part in enumerate(_lateness(first, 2)):
        _observe(first, part)
        if n == INTERVALS // 2:
            second.load(saved(first.state()))
        elif n > INTERVALS // 2:
            _observe(second, part)
            require(first.slack == second.slack, "a loaded policy chooses another slack")


def _decisions(make: Make) -> None:
    policy = make()
    for part in _lateness(policy, 3):
        before = policy.slack
        decision = _observe(policy, part)
        require(policy.slack >= 0 and policy.reach >= 0, "the slack or the reach is negative")
        require((decision is None) == (policy.slack == before), "the slack changed without a decision, or none did")
        if decision is not None:
            require((decision.before, decision.after) == (before, policy.slack), "a decision says another slack")
            require(decision.kind == "slack" and decision.time == 7 and bool(decision.reason), "a decision lacks facts")


def _grows(make: Make) -> None:
    slacks = []
    for most in (100, 10_000):
        policy = make()
        for part in _lateness(policy, 4, most):
            _observe(policy, part)
        slacks.append(policy.slack)
    require(slacks[0] < slacks[1], f"rows 100 times as late give a slack of {slacks[1]} instead of {slacks[0]}")
