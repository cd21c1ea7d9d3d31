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
from dataclasses import dataclass, field
from math import ceil, inf
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
    mean: float = 0.0


@dataclass(slots=True)
class Standing:
    """What is known where the same inputs are bound: the inputs that may come next, how many batches stood here, and
    the steps that were taken from here."""

    candidates: list[int]
    batches: int = 0
    steps: dict[int, Fanout] = field(default_factory=dict)


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
        self._standings: dict[frozenset[int], Standing] = {}
        self._in_order: dict[tuple[int, ...], Standing] = {}  # the same by inputs in the order in which they were bound

    @property
    def fanout(self) -> dict[Step, Fanout]:
        """What is known of each step that was taken."""
        return {(bound, i): step for bound, at in self._standings.items() for i, step in at.steps.items()}

    def standing(self, bound: Sequence[int]) -> Standing:
        """What is known of the steps from these inputs."""
        order = tuple(bound)
        found = self._in_order.get(order)
        if found is None:
            known = frozenset(order)
            if known not in self._standings:
                rest = [i for i in range(len(self.neighbours)) if i not in known]
                connected = [i for i in rest if self.neighbours[i] & known]
                self._standings[known] = Standing(connected or rest)
            found = self._in_order[order] = self._standings[known]
        return found

    def next(self, bound: Sequence[int]) -> int:
        """The input that a batch with these inputs bound goes to."""
        here = self.standing(bound)
        here.batches += 1
        possible = here.candidates
        if len(possible) == 1 or self.policy == "written":
            return possible[0]
        if self.policy == "random":
            return possible[int(self._draw() * len(possible))]
        # Of steps that were never taken the first is as good as any; a few rows try the others.
        if not here.steps:
            return possible[0]
        if self.policy == "greedy":
            best, least = possible[0], inf
            for i in possible:
                step = here.steps.get(i)
                if step is not None and step.mean < least:
                    best, least = i, step.mean
            return best
        tickets = {i: 1 / max(here.steps[i].mean, LEAST_FANOUT) for i in possible if i in here.steps}
        draw = self._draw() * sum(tickets.values())
        for i, ticket in tickets.items():
            draw -= ticket
            if draw <= 0:
                return i
        return next(reversed(tickets))

    def aside(self, bound: Sequence[int], rows: int, target: int) -> tuple[int, int] | None:
        """Another input than ``target`` for a few rows of a batch, and for how many of them."""
        here = self.standing(bound)
        if self.policy == "random" or len(here.candidates) < 2 or rows < 2:
            return None
        rarely = self._draw() * self.explore * ROWS_PARTED >= rows
        if rarely and len(here.steps) == len(here.candidates):  # as for most batches: nothing is new
            return None
        others = [i for i in here.candidates if i != target]
        new = [i for i in others if i not in here.steps]
        if rarely and not new:
            return None
        chosen = new or others
        other = chosen[int(self._draw(again=True) * len(chosen))]
        return other, min(_few(here.steps.get(other)), rows // 2)

    def _draw(self, *, again: bool = False) -> float:
        """The next of the numbers that are drawn in pairs; ``again``: the second of the pair."""
        self.draws += not again
        return uniform_draw(self.seed, 2 * self.draws + again, 1)[0]

    def searched(self, bound: Sequence[int], target: int, requests: int, matches: int) -> None:
        """A batch took a step: what went in, and what came out."""
        if requests == 0:
            return
        here = self.standing(bound)
        weight, at = min(1.0, requests / ROWS_PARTED), here.batches
        step = here.steps.get(target)
        if step is None:
            step = here.steps[target] = Fanout(0.0, 0.0, at)
        kept = KEPT ** (at - step.at)
        step.matches = kept * step.matches + weight * matches / requests
        step.weight = kept * step.weight + weight
        step.at, step.mean = at, step.matches / step.weight

    def state(self) -> dict[str, Any]:
        return {
            "draws": self.draws,
            "stood": [[sorted(b), here.batches] for b, here in self._standings.items()],
            "steps": [[sorted(b), t, f.matches, f.weight, f.at] for (b, t), f in self.fanout.items()],
        }

    def load(self, state: Mapping[str, Any]) -> None:
        self.draws = int(state["draws"])
        self._standings, self._in_order = {}, {}
        for bound, batches in state["stood"]:
            self.standing([int(i) for i in bound]).batches = int(batches)
        for bound, target, matches, weight, at in state["steps"]:
            step = Fanout(float(matches), float(weight), int(at), float(matches) / float(weight))
            self.standing([int(i) for i in bound]).steps[int(target)] = step


def _few(past: Fanout | None) -> int:
    """How many rows tell enough about a step."""
    return ROWS_PARTED if past is None else max(1, min(ROWS_PARTED, ceil(MATCHES / max(past.mean, LEAST_FANOUT))))
