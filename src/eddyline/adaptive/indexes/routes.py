"""Routes through the states of a multi-route join: which state a batch of partial results is taken to next.

A batch has bound some inputs and may go to any other; those that a join predicate connects with what is bound come
first, because any other is a product. What is known of a step, (inputs bound, next input), is how many rows came out
for one that went in and what a search cost.

==============  ================================================================================================
``greedy``      the step that drops most for its price, (1 − fanout) / cost
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
    >>> routes.searched((1,), 0, requests=100, matches=300, cost=200.0)
    >>> routes.searched((1,), 2, requests=100, matches=10, cost=200.0)
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
        self.cost: dict[tuple[frozenset[int], int], float] = {}

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
            return max(possible, key=lambda i: (self._worth(known, i), -i))
        tickets = [1 / max(self.fanout.get((known, i), UNKNOWN), LEAST_FANOUT) for i in possible]
        draw = second * sum(tickets)
        for i, ticket in zip(possible, tickets, strict=True):
            draw -= ticket
            if draw <= 0:
                return i
        return possible[-1]

    def _worth(self, bound: frozenset[int], target: int) -> float:
        step = (bound, target)
        if step not in self.fanout:
            return float("inf")  # it is tried once
        return (1 - self.fanout[step]) / max(self.cost[step], 1e-9)

    def searched(self, bound: Sequence[int], target: int, requests: int, matches: int, cost: float) -> None:
        """A batch took a step: what went in, what came out, and the cost of the searches."""
        if requests == 0:
            return
        step = (frozenset(bound), target)
        for known, value in ((self.fanout, matches / requests), (self.cost, cost / requests)):
            known[step] = value if step not in known else KEPT * known[step] + (1 - KEPT) * value

    def state(self) -> dict[str, Any]:
        steps = [[sorted(b), t, f, self.cost[b, t]] for (b, t), f in self.fanout.items()]
        return {"batches": self.batches, "steps": steps}

    def load(self, state: Mapping[str, Any]) -> None:
        self.batches = int(state["batches"])
        steps = [((frozenset(int(i) for i in b), int(t)), float(f), float(c)) for b, t, f, c in state["steps"]]
        self.fanout, self.cost = {s: f for s, f, _ in steps}, {s: c for s, _, c in steps}
