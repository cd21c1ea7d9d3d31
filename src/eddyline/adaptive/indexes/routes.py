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

To learn, a few rows of a batch are taken another way (AMRI 9.1: "the router periodically sends a few tuples along
suboptimal routes"): at most one row in ``explore``. A few rows of many batches tell more than all rows of one, because
the rows of a batch came together and are often alike; and they cost less, because a route that is not taken is mostly
one that is dear. Of a step that makes many rows of one, fewer rows are taken: ``MATCHES`` rows that come out tell what
it does, and each of them has the rest of a route before it. What is known of all steps from the same inputs fades
alike, with each batch that stands there, whichever step it takes: so steps are compared by what they did in the same
stretch of time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from eddyline.streamon.draws import uniform_draw

POLICIES = ("greedy", "lottery", "random", "written")
KEPT = 0.95  # share of the past in an average with each batch: larger is steadier and slower to follow a change
ROWS_PARTED = 8  # rows that are taken another way together at most, and from which on a batch counts in full
MATCHES = 16  # rows that are expected to come out of them: more tell more of a dear step, and cost more
LEAST_FANOUT = 0.01  # with a fanout of 0 a lottery would be certain for ever

Step = tuple[frozenset[int], int]  # inputs bound, next input


@dataclass(slots=True)
class Fanout:
    """Rows that came out of a step for one that went in: an average over batches that forgets. ``at`` counts the
    batches that had stood before the step when it was taken last."""

    matches: float
    weight: float
    at: int

    @property
    def mean(self) -> float:
        return self.matches / self.weight


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
        self.draws = 0
        self.stood: dict[frozenset[int], int] = {}  # batches by the inputs that they had bound
        self.fanout: dict[Step, Fanout] = {}
        self._candidates: dict[frozenset[int], list[int]] = {}

    def candidates(self, bound: frozenset[int]) -> list[int]:
        """Inputs that may come next: connected ones, if there are any."""
        found = self._candidates.get(bound)
        if found is None:
            rest = [i for i in range(len(self.neighbours)) if i not in bound]
            found = [i for i in rest if self.neighbours[i] & bound] or rest
            self._candidates[bound] = found
        return found

    def next(self, bound: Sequence[int]) -> int:
        """The input that a batch with these inputs bound goes to."""
        known = frozenset(bound)
        possible = self.candidates(known)
        self.stood[known] = self.stood.get(known, 0) + 1
        if len(possible) == 1 or self.policy == "written":
            return possible[0]
        if self.policy == "random":
            return possible[int(self._draw()[0] * len(possible))]
        # Of steps that were never taken the first is as good as any; a few rows try the others.
        tried = [(self.fanout[known, i].mean, i) for i in possible if (known, i) in self.fanout]
        if not tried:
            return possible[0]
        if self.policy == "greedy":
            return min(tried)[1]
        tickets = [1 / max(fanout, LEAST_FANOUT) for fanout, _ in tried]
        draw = self._draw()[0] * sum(tickets)
        for ticket, (_, i) in zip(tickets, tried, strict=True):
            draw -= ticket
            if draw <= 0:
                return i
        return tried[-1][1]

    def aside(self, bound: Sequence[int], rows: int, target: int) -> tuple[int, int] | None:
        """Another input than ``target`` for a few rows of a batch, and for how many of them."""
        known = frozenset(bound)
        others = [i for i in self.candidates(known) if i != target]
        if self.policy == "random" or not others or rows < 2:
            return None
        first, second = self._draw()
        new = [i for i in others if (known, i) not in self.fanout]
        if first * self.explore * ROWS_PARTED >= rows and not new:
            return None
        chosen = new or others
        other = chosen[int(second * len(chosen))]
        return other, min(self._few(known, other), rows // 2)

    def _few(self, bound: frozenset[int], target: int) -> int:
        """How many rows tell enough about a step."""
        past = self.fanout.get((bound, target))
        return ROWS_PARTED if past is None else max(1, min(ROWS_PARTED, ceil(MATCHES / max(past.mean, LEAST_FANOUT))))

    def _draw(self) -> tuple[float, float]:
        self.draws += 1
        first, second = uniform_draw(self.seed, self.draws, 2)
        return first, second

    def searched(self, bound: Sequence[int], target: int, requests: int, matches: int) -> None:
        """A batch took a step: what went in, and what came out."""
        if requests == 0:
            return
        known = frozenset(bound)
        weight, at = min(1.0, requests / ROWS_PARTED), self.stood.get(known, 0)
        past = self.fanout.setdefault((known, target), Fanout(0.0, 0.0, at))
        kept = KEPT ** (at - past.at)
        self.fanout[known, target] = Fanout(
            kept * past.matches + weight * matches / requests, kept * past.weight + weight, at
        )

    def state(self) -> dict[str, Any]:
        return {
            "draws": self.draws,
            "stood": [[sorted(b), n] for b, n in self.stood.items()],
            "steps": [[sorted(b), t, f.matches, f.weight, f.at] for (b, t), f in self.fanout.items()],
        }

    def load(self, state: Mapping[str, Any]) -> None:
        self.draws = int(state["draws"])
        self.stood = {frozenset(int(i) for i in b): int(n) for b, n in state["stood"]}
        self.fanout = {
            (frozenset(int(i) for i in b), int(t)): Fanout(float(m), float(w), int(at))
            for b, t, m, w, at in state["steps"]
        }
