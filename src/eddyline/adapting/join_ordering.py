"""Ordering the pipelines of a join: one filter policy a pipeline, over its logical filters (thesis 5.2.3).

The logical filter of an input drops an element if the join along the path to that input is empty. So a policy for
pipelined filters (A-Greedy) orders a pipeline, with the profiled elements as its tuples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from eddyline.adapting.plan_hold import PlanHold, held_decision, impose
from eddyline.adaptive.filters.policy import FilterPolicy
from eddyline.adaptive.joins.shape import LogicalFilters, Shape
from eddyline.core.delta import Int64s
from eddyline.streamon.decision import Decision

SIGNIFICANT_DEVIATIONS = 3.0  # standard deviations by which a drop rate must move to be more than chance
ROUTINE_RUNS_PER_REPORT = 8  # profiling runs without news of which one is reported: a report costs more than a run


class JoinOrdering:
    """``policies`` order the pipelines, one each."""

    def __init__(self, operator: str, names: Sequence[str], shape: Shape, policies: list[FilterPolicy]) -> None:
        self.operator, self.names, self.shape, self.policies = operator, tuple(names), shape, policies
        self.filters = tuple(LogicalFilters(shape, i) for i in range(shape.size))
        all_after = np.triu(np.ones((shape.size - 1, shape.size - 1), np.bool_), 1)
        self._sees_all = [bool((p.reach >= all_after).all()) for p in policies]
        self.holds = [PlanHold(shape.size - 1) for _ in policies]
        self.start_over()

    def start_over(self) -> None:
        """Forget what was going on, but not what was learned."""
        m = self.shape.size
        self.shares = [1.0] * m  # of the elements, by input, of late
        self._reported = self._unreported = [[0] * m] * m  # by pipeline: samples, dropped by each filter
        self._unreported_runs = 0  # profiling runs since the last report to the policies

    def draw(self, i: int, count: int) -> Sequence[int]:
        """Which of the next elements of an input its policy wants to have profiled."""
        wanted: list[int] = self.policies[i].wants_profile(count).tolist()
        return wanted

    def alarm(self) -> None:
        for policy in self.policies:
            policy.alarm()

    @property
    def hoped_saving(self) -> float:
        """Accesses an element that better orders are suspected to save."""
        # An input without elements contributes nothing.
        return sum(p.hoped * s for p, s in zip(self.policies, self.shares, strict=True) if s)

    def news(self, profiles: Sequence[Int64s], routine: bool) -> bool:
        """Whether a profiling run is reported to the policies, which costs more than the run: if it is not
        ``routine``, or if a drop rate has moved by more than chance since the last report. Every few runs one is
        reported anyway: the filters together can drop other elements while the rate of each stays."""
        m = self.shape.size
        if not any(map(len, profiles)):
            return False
        seen = [[len(rows), *np.count_nonzero(rows[:, 1:m] < 0, axis=0).tolist()] for rows in profiles]
        self._unreported = [
            [a + b for a, b in zip(*both, strict=True)] for both in zip(self._unreported, seen, strict=True)
        ]
        self._unreported_runs += 1
        if (
            routine
            and self._unreported_runs < ROUTINE_RUNS_PER_REPORT
            and deviations(self._reported, self._unreported) < SIGNIFICANT_DEVIATIONS
        ):
            return False
        self._reported, self._unreported, self._unreported_runs = seen, [[0] * m] * m, 0
        return True

    def reorder(
        self,
        profiles: Sequence[Int64s],
        orders: list[tuple[int, ...]],
        now: int,
        refused: Callable[[int, tuple[int, ...]], bool] | None = None,
    ) -> tuple[list[tuple[Decision, float]], list[Decision]]:
        """Report the profiled elements to the policies and change ``orders`` by their decisions. Returns the decisions,
        each with the accesses per element that it is expected to save, and those that were not applied because the
        order is pinned. A policy keeps the order of a pipeline if the new one is ``refused``."""
        made, suggested = [], []
        for i in range(self.shape.size):
            decision = self.decide(i, profiles[i], now)
            if decision is None:
                continue
            order = self.filters[i].order_of(decision.after)
            if order != orders[i] and not decision.applied:
                suggested.append(self._named(decision, i, orders[i], order))
            elif order != orders[i] and refused is not None and refused(i, order):
                self.impose(i, orders[i])
            elif order != orders[i]:
                saved = float(decision.evidence.get("saved", np.inf)) * self.shares[i]
                made.append((self._named(decision, i, orders[i], order), saved))
                orders[i] = order
        return made, suggested

    def decide(self, i: int, rows: Int64s, now: int) -> Decision | None:
        """Report to the policy of a pipeline which filters drop the sampled elements, as if they were the batch."""
        policy, m = self.policies[i], self.shape.size
        if len(rows):
            work = rows[:, 1:m]
            dropped = work < 0
            order = list(policy.order)
            in_order = dropped[:, order]
            place = np.where(in_order.any(1), in_order.argmax(1), m - 1)  # where each was dropped
            gone = np.bincount(place, minlength=m)
            passed = len(rows) - gone[: m - 1].cumsum()  # each position
            rows_in, rows_out = np.zeros(m - 1, np.int64), np.zeros(m - 1, np.int64)
            rows_in[order], rows_out[order] = passed + gone[: m - 1], passed
            price = np.abs(work).mean(0)
            policy.processed(rows_in, rows_out, np.where(rows_in > 0, price, np.nan))
            if not self._sees_all[i]:  # a bit that the policy did not ask for is no drop
                beyond = np.arange(m - 1)[None, :] > place[:, None]
                in_order &= ~beyond | policy.reach[np.minimum(place, m - 2)]
                dropped = np.empty_like(dropped)
                dropped[:, order] = in_order
            policy.profiled(dropped, price)
            self.holds[i].add(rows_in, rows_out)
        self.policies[i], decision = held_decision(self.holds[i], policy, now)
        return decision

    def impose(self, i: int, order: Sequence[int]) -> None:
        """Give the policy of a pipeline an order of its joins that it did not choose."""
        targets = self.filters[i].targets
        impose(self.policies[i], [targets.index(x) for x in order])

    def _named(self, decision: Decision, i: int, before: tuple[int, ...], after: tuple[int, ...]) -> Decision:
        labels = ["⋈".join(self.names[x] for x in path) for path in self.filters[i].paths]
        return replace(
            decision,
            operator=self.operator,
            kind=f"order of Δ{self.names[i]}",
            before=[self.names[x] for x in before],
            after=[self.names[x] for x in after],
            names=tuple(labels),
        )


def deviations(before: Sequence[Sequence[int]], now: Sequence[Sequence[int]]) -> float:
    """By how many standard deviations the share that has moved most has moved; rows are samples, then drops by filter.

    >>> round(deviations([[100, 50, 20]], [[400, 200, 140]]), 1)
    2.9
    """
    most = 0.0
    for (samples, *dropped), (more, *lately) in zip(before, now, strict=True):
        for was, is_now in zip(dropped, lately, strict=True) if samples and more else ():
            pooled = (was + is_now + 1) / (samples + more + 2)  # never 0 nor 1
            deviation = math.sqrt(pooled * (1 - pooled) * (1 / samples + 1 / more))
            most = max(most, abs(was / samples - is_now / more) / deviation)
    return most
