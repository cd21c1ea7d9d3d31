"""Holding a plan: what keeps the order, the routes or the caches of one operator from being changed.

Two things hold a plan. The user *pins* it: it stays until it is unpinned, and what the policy would have done is
reported. Or a decision was *undone*: the plan stays until the statistics have drifted from those after the undo, for
otherwise the policy would take the same decision again from the same statistics.

A policy changes its own order when it decides, and its statistics are shaped by that order. So a pinned policy is asked
with a copy at hand: if it decides, the copy goes on in its place, and the decision is entered as not applied. It is not
asked again before the statistics have drifted: from the same ones the same decision would come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from eddyline.adaptive.filters.policy import FilterPolicy
from eddyline.core.delta import Int64s
from eddyline.streamon.decision import Decision
from eddyline.streamon.drift import DropRates

# How far a drop rate must have moved before a held plan is thought about again: in standard deviations, and as a share
# of the rows, because tuples that meet the same window are no independent samples.
DRIFT_DEVIATIONS, MOVED_SHARE = 4.5, 0.2


class Decides(Protocol):
    def decide(self, now: int | None = None) -> Decision | None: ...


Policy = TypeVar("Policy", bound=Decides)


class PlanHold:
    """Whether the plan of an operator with so many filters (conjuncts, inputs to join with) may change.

    >>> import numpy as np
    >>> hold = PlanHold(1)
    >>> hold.wait()
    >>> for dropped in (0.5, 0.5, 0.5, 0.9):
    ...     hold.add(np.array([1024]), np.array([int(1024 * (1 - dropped))]))
    ...     print(hold.lets_decide())
    False
    False
    False
    True
    """

    def __init__(self, filters: int) -> None:
        self.pinned = self.waiting = self.reported = False
        self._rates = DropRates(filters)

    @property
    def holds(self) -> bool:
        return self.pinned or self.waiting

    def pin(self, pinned: bool) -> None:
        """Until further notice, or no longer; what an undo waits for is not affected."""
        self.pinned = pinned
        self.waiting = self.waiting and not (self.reported and not pinned)

    def wait(self, reported: bool = False) -> None:
        """Until drop rates have drifted from those of the next rows. ``reported``: what would have been done stands in
        the log, and is not reported twice."""
        self.waiting, self.reported = True, reported
        self._rates.settle()

    def add(self, rows_in: Int64s, rows_out: Int64s) -> None:
        """What the filters did with a batch."""
        if self.waiting:
            self._rates.add(rows_in, rows_out)

    def lets_decide(self) -> bool:
        """Whether the policy is to be asked now. Of a pinned plan this is a question; the plan stays all the same."""
        if self.waiting and self._rates.drift() > DRIFT_DEVIATIONS and self._rates.moved() > MOVED_SHARE:
            self.waiting = False
        return not self.waiting

    def state(self) -> dict[str, Any]:
        flags = {"pinned": self.pinned, "waiting": self.waiting, "reported": self.reported}
        return {**flags, "rates": self._rates.state()}

    def load(self, state: Mapping[str, Any]) -> None:
        self.pinned, self.waiting, self.reported = (bool(state[n]) for n in ("pinned", "waiting", "reported"))
        self._rates.load(state["rates"])


def held_decision(hold: PlanHold, policy: Policy, now: int | None) -> tuple[Policy, Decision | None]:
    """What the policy decides, and the policy to go on with."""
    if not hold.holds:
        return policy, policy.decide(now)
    if not hold.lets_decide():
        return policy, None
    if not hold.pinned:
        return policy, policy.decide(now)
    before = deepcopy(policy)
    decision = policy.decide(now)
    if decision is None:
        return policy, None
    hold.wait(reported=True)
    return before, replace(decision, applied=False)


def impose(policy: FilterPolicy, order: Sequence[int]) -> None:
    """Give a policy another order than the one that it chose; what it has learned stays."""
    policy.load({**policy.state(), "order": list(order)})
