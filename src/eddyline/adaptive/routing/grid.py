"""The fixed grid on which routing policies are measured: Table 3 for several numbers of operators and skews."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from eddyline.adaptive.routing.content_knows import ContentKnows
from eddyline.adaptive.routing.policy import RoutingPolicy
from eddyline.adaptive.routing.sbr import SourceBasedRouting
from eddyline.adaptive.routing.setting import Setting
from eddyline.adaptive.routing.simulate import simulate
from eddyline.adaptive.routing.stream_star import CLASSIFIER, skewed, stream_star

OPERATORS = (2, 4, 6, 8)
SKEWS = tuple(a / 100 for a in range(5, 100, 5))


@dataclass(frozen=True, slots=True)
class Cell:
    """Routing calls of source-based routing, of Content-Knows and of the measured policy, on the same tuples."""

    operators: int
    a: float
    tuples: int
    sbr: int
    content_knows: int
    learns: int
    wrong: float

    @property
    def possible(self) -> float:
        """The share of source-based routing's calls that Content-Knows saves."""
        return 1 - self.content_knows / self.sbr

    @property
    def saved(self) -> float:
        return 1 - self.learns / self.sbr

    @property
    def share(self) -> float:
        """The part of the possible saving that was made."""
        return self.saved / self.possible if self.possible else 1.0

    @property
    def negative_skew(self) -> bool:
        """A < B: each class has one operator that drops more than the others."""
        return self.a < float(skewed(self.operators, self.a)[0, 1])


def grid(
    make: Callable[[Setting], RoutingPolicy],
    tuples: int = 100_000,
    *,
    operators: Sequence[int] = OPERATORS,
    skews: Sequence[float] = SKEWS,
    batch: int = 500,
    seed: int = 0,
) -> Iterator[Cell]:
    """Measure a policy in each cell: N operators, A from 5 % to 95 %, B such that 5 % of the tuples pass all; eight
    attributes beside the classifier that have nothing to do with the operators.

    >>> from eddyline.adaptive.routing.content_learns import ContentLearns
    >>> for cell in grid(ContentLearns, 30_000, operators=[2, 4], skews=[0.05]):
    ...     print(cell.operators, f"{cell.possible:.1%} possible, {cell.saved:.1%} saved")
    2 31.3% possible, 19.3% saved
    4 55.3% possible, 41.7% saved
    """
    for n in operators:
        for a in skews:
            table = skewed(n, a)
            star = stream_star(table, tuples, seed=seed * 10_000 + n * 100 + round(a * 100))
            best = {i: tuple(sorted(range(n), key=lambda o: float(row[o]))) for i, row in enumerate(table)}
            bound = simulate(ContentKnows(star.setting, CLASSIFIER, best), star.passes, star.classes, batch=tuples)
            sbr = simulate(SourceBasedRouting(star.setting, seed=seed), star.passes, star.classes, batch=batch)
            learns = simulate(make(star.setting), star.passes, star.classes, batch=batch)
            yield Cell(n, a, tuples, sbr.calls, bound.calls, learns.calls, learns.wrong(CLASSIFIER))
