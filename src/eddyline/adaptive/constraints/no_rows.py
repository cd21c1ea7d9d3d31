"""Which constraints to exploit (thesis 6.10): whether rows of a child that are No are kept or dropped.

Using more constraints removes more rows, with one exception (Example 6.10.2, Figure 6.18). Under RIDS(k) or OAC(k) the
No rows of a child are dropped. A parent that comes after such a row does not find it and waits for k arrivals of the
child. Had the row been kept, the parent would have been dropped at once; and the row itself only stays until CA or OAP
says that all its parents have come. So of the subsets of the usable constraints only two can be best: all of them, and
all of them with the No rows of a child kept, which is never worse than to ignore RIDS and OAC.

By Little's law, with f the share of children that are No, a the parents that come after such a row was dropped, L how
many arrivals of the child's stream a child stays until its parents have come (its window, where nothing tells), k_e how
long a parent waits, and g half of the arrivals between two garbage collections, for which everything stays longer:

    dropped: f · (g + a · (k_e + g)) rows           kept: f · (g + L) rows

f cancels: the No rows are dropped where a · (k_e + g) < L.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MARGIN = 0.1  # of the rows that the other way would keep: less changes more often
SAMPLES = 20  # children that were followed to their end, before the first prediction


@dataclass(frozen=True, slots=True)
class Followed:
    """What was seen of sampled children along one edge: ``samples`` of them, with ``after`` parents each that came
    when the child would have been dropped, and ``stay`` arrivals of the child's stream until its parents had come;
    ``lag`` is half of those between two garbage collections."""

    samples: int
    after: float
    stay: float
    lag: float = 0.0


@dataclass(frozen=True, slots=True)
class Prediction:
    """Time-averaged rows for each child that is No, if such rows are dropped and if they are kept."""

    dropped: float
    kept: float

    @property
    def drop(self) -> bool:
        return self.dropped <= self.kept


def predict(edges: Sequence[tuple[Followed, float]]) -> Prediction | None:
    """Of a child with the edges to its parents, each with the k_e for which its parents wait; None: too little known.

    >>> both_ways = predict([(Followed(200, after=1.5, stay=9_000), 2_000)])
    >>> both_ways.dropped, both_ways.kept, both_ways.drop
    (3000.0, 9000.0, True)
    >>> predict([(Followed(200, after=1.5, stay=9_000), 8_000)]).drop
    False
    """
    if not edges or any(f.samples < SAMPLES for f, _ in edges):
        return None
    lag = max(f.lag for f, _ in edges)
    waiting = sum(f.after * (k_e + lag) for f, k_e in edges)
    return Prediction(lag + waiting, lag + max(f.stay for f, _ in edges))


def choose(before: bool, found: Prediction | None) -> bool:
    """Whether No rows are dropped from now on; with hysteresis, as predictions vary.

    >>> choose(True, Prediction(105.0, 100.0)), choose(True, Prediction(120.0, 100.0)), choose(False, None)
    (True, False, False)
    """
    if found is None:
        return before
    now, other = (found.dropped, found.kept) if before else (found.kept, found.dropped)
    return before if now <= (1 + MARGIN) * other else found.drop
