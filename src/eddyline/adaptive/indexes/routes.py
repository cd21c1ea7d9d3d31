"""Routes through the states of a multi-route join: which state a batch of partial results is taken to next.

A batch has bound some inputs and may go to any other; those that a join predicate connects with what is bound come
first, because any other is a product. What is known of a step, (inputs bound, next input), is how many rows came out
for one that went in.

What a search costs is not asked: it says more of the index that the state happens to have than of the step. Routes that
followed it would avoid a good step whose index is bad, and indexes that follow routes would never mend it.

==============  ================================================================================================
``greedy``      the step with the least fanout
``lottery``     a draw with tickets inversely proportional to the fanouts, as in source-based routing (CBR 4.2)
``random``      any step: for tests and as the worst case
``written``     the first in the order of the query
==============  ================================================================================================

To learn, one batch in ``explore`` takes a step at random (a few tuples along suboptimal routes, AMRI 9.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eddyline.streamon.draws import uniform_draws

POLICIES = ("greedy", "lottery", "random", "written")
KEPT = 0.95  # share of the past in an average with each batch: larger is steadier and slower to follow a change
UNKNOWN = 1.0  # fanout of a step that was never taken
LEAST_FANOUT = 0.01  # with a fanout of 0 a lottery would be certain for ever


class Routes:
    """``neighbours`` are for each input those that a predicate connects it with.

    >>> routes = Routes([{1}, {0, 2}, {1}], "greedy", explore=10**9)
    >>> routes.next(bound=(1,)), routes.next(bound=(0,))
    (0, 1)
    >>> routes.searched((1,), 0, requests=100, matches=300)
    >>> routes.searched((1,), 2, requests=100, matches=10)
    >>> routes.next(bound=(1,))
    2
    """

    def __init__(
        self, neighbours: Sequence[set[int]], policy: str = "greedy", explore: int = 64, seed: int = 0
    ) -> None:
        self.neighbours, self.policy = neighbours, policy
        self.explore, self.seed = explore, seed
        self.batches = 0
        self.fanout: dict[tuple[frozenset[int], int], float] = {}

    def candidates(self, bound: Sequence[int]) -> list[int]:
        """Inputs that may come next: connected ones, if there are any."""
        rest = [i for i in range(len(self.neighbours)) if i not in bound]
        connected = [i for i in rest if self.neighbours[i] & set(bound)]
        return connected or rest

    def next(self, bound: Sequence[int]) -> int:
        """The input that a batch with these inputs bound goes to."""
        possible = self.candidates(bound)
        self.batches += 1
        if len(possible) == 1:
            return possible[0]
        first, second = uniform_draws(self.seed, self.batches, 1, 2)[0].tolist()
        if self.policy == "random" or first * self.explore < 1:
            return possible[int(second * len(possible))]
        if self.policy == "written":
            return possible[0]
        known = frozenset(bound)
        if self.policy == "greedy":
            # A step that was never taken is tried once.
            return min(possible, key=lambda i: (self.fanout.get((known, i), -1.0), i))
        tickets = [1 / max(self.fanout.get((known, i), UNKNOWN), LEAST_FANOUT) for i in possible]
        draw = second * sum(tickets)
        for i, ticket in zip(possible, tickets, strict=True):
            draw -= ticket
            if draw <= 0:
                return i
        return possible[-1]

    def searched(self, bound: Sequence[int], target: int, requests: int, matches: int) -> None:
        """A batch took a step: what went in, and what came out."""
        if requests == 0:
            return
        step, now = (frozenset(bound), target), matches / requests
        self.fanout[step] = now if step not in self.fanout else KEPT * self.fanout[step] + (1 - KEPT) * now

    def state(self) -> dict[str, Any]:
        return {"batches": self.batches, "steps": [[sorted(b), t, f] for (b, t), f in self.fanout.items()]}

    def load(self, state: Mapping[str, Any]) -> None:
        self.batches = int(state["batches"])
        self.fanout = {(frozenset(int(i) for i in b), int(t)): float(f) for b, t, f in state["steps"]}
