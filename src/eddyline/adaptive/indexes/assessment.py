"""Index assessment: how often a state is searched by each access pattern (sections 5.2 to 5.4).

==========  =======================================================================  ============================
``sria``    every pattern in a table                                                 at most 2^N − 1 patterns
``csria``   rare patterns are removed (lossy counting)                               (1/ε)·log(ε·requests)
``dia``     every pattern, in the lattice of search benefits                         at most 2^N − 1 patterns
``cdia``    rare patterns are combined with one that benefits them                   h·(1/ε)·log(ε·requests)
==========  =======================================================================  ============================

*The invariant of the compact methods.* Requests come in segments of ⌈1/ε⌉, numbered from 1. A pattern that is stored
with count c and error δ was asked for at most c + δ times: it is removed at the end of segment s only if c + δ ≤ s, and
when it is stored again later, its δ is the number of the segment before. So a pattern above the threshold θ is found
if the final step tests c + δ and not c alone. (The paper numbers the first segment 0, which would make its δ negative,
and tests CDIA's frequencies without δ, which loses a pattern that starts rare.)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from eddyline.adaptive.indexes.access_patterns import FULL_SCAN, is_leaf, leaves_first, parents
from eddyline.streamon.draws import uniform_draws


class Assessment(ABC):
    """Counts search requests by access pattern. ``n`` is the number of join attributes of the state."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.requests = 0
        self.counts: dict[int, int] = {}

    def search(self, pattern: int, requests: int = 1) -> None:
        """That many search requests by a pattern."""
        self.requests += requests
        self.counts[pattern] = self.counts.get(pattern, 0) + requests

    @abstractmethod
    def frequencies(self) -> dict[int, float]:
        """The share of each pattern in the requests, for the patterns that the method reports."""

    @property
    def entries(self) -> int:
        """Patterns that are stored: the memory of the method."""
        return len(self.counts)

    def restart(self) -> None:
        """Forget all requests: a new assessment begins."""
        self.requests = 0
        self.counts.clear()

    def state(self) -> dict[str, Any]:
        return {"requests": self.requests, "counts": [[p, c] for p, c in sorted(self.counts.items())]}

    def load(self, state: Mapping[str, Any]) -> None:
        self.requests = int(state["requests"])
        self.counts = {int(p): int(c) for p, c in state["counts"]}


class Sria(Assessment):
    """Self Reliant Index Assessment: the exact frequency of every pattern.

    >>> table = Sria(3)
    >>> table.search(0b100, 3)
    >>> table.search(0b011)
    >>> table.frequencies()
    {4: 0.75, 3: 0.25}
    """

    name = "sria"

    def frequencies(self) -> dict[int, float]:
        return {p: c / self.requests for p, c in self.counts.items()}


class Dia(Sria):
    """Dependent Index Assessment: the exact frequency of every pattern, with the lattice of search benefits.

    It stores and reports what SRIA does; ``leaves`` are the patterns that benefit no other stored one.

    >>> lattice = Dia(3)
    >>> for pattern in (0b100, 0b110, 0b001):
    ...     lattice.search(pattern)
    >>> lattice.leaves()
    [6, 1]
    """

    name = "dia"

    def leaves(self) -> list[int]:
        return [p for p in leaves_first(self.counts) if is_leaf(p, self.counts)]


class Compact(Assessment):
    """What CSRIA and CDIA share: segments, the error δ of each pattern, and a compression after each segment."""

    def __init__(self, n: int, theta: float, epsilon: float) -> None:
        super().__init__(n)
        self.theta, self.epsilon = theta, epsilon
        self.width = math.ceil(1 / epsilon)
        self.errors: dict[int, int] = {}

    @property
    def segment(self) -> int:
        """The number of the segment that the last request belongs to, from 1."""
        return max(1, -(-self.requests // self.width))

    def search(self, pattern: int, requests: int = 1) -> None:
        while requests:
            part = min(requests, self.width - self.requests % self.width)
            super().search(pattern, part)
            self.errors.setdefault(pattern, self.segment - 1)
            requests -= part
            if self.requests % self.width == 0:
                self.compress()

    @abstractmethod
    def compress(self) -> None:
        """Reduce the stored patterns at the end of a segment."""

    def at_most(self, pattern: int) -> float:
        """The largest share that the pattern can have, (c + δ) / requests."""
        return (self.counts[pattern] + self.errors[pattern]) / self.requests

    def remove(self, pattern: int) -> int:
        """Forget a pattern; returns its count."""
        del self.errors[pattern]
        return self.counts.pop(pattern)

    def restart(self) -> None:
        super().restart()
        self.errors.clear()

    def state(self) -> dict[str, Any]:
        return {**super().state(), "errors": [[p, e] for p, e in sorted(self.errors.items())]}

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        self.errors = {int(p): int(e) for p, e in state["errors"]}


class Csria(Compact):
    """Compact SRIA: patterns that are rare at the end of a segment are removed (lossy counting).

    ``theta`` is the share from which a pattern is reported (larger keeps fewer), ``epsilon`` the error of a share
    (smaller is more exact and keeps more patterns in between).

    >>> table = Csria(3, theta=0.05, epsilon=0.01)
    >>> for _ in range(100):
    ...     table.search(0b111, 9)
    ...     table.search(0b110)
    >>> table.frequencies()
    {7: 0.9, 6: 0.1}
    """

    name = "csria"

    def __init__(self, n: int, theta: float = 0.1, epsilon: float = 0.05) -> None:
        super().__init__(n, theta, epsilon)

    def compress(self) -> None:
        for pattern in [p for p, c in self.counts.items() if c + self.errors[p] <= self.segment]:
            self.remove(pattern)

    def frequencies(self) -> dict[int, float]:
        kept = (p for p in self.counts if self.at_most(p) >= self.theta - self.epsilon)
        return {p: self.counts[p] / self.requests for p in kept}


class Cdia(Compact):
    """Compact DIA: a leaf of the lattice that is rare at the end of a segment is combined with a parent.

    A parent lacks one attribute of the leaf, so an index for the parent benefits searches by the leaf: the frequency
    is kept where it still says something. Which parent, is decided by the subclass.
    """

    def __init__(self, n: int, theta: float = 0.1, epsilon: float = 0.05) -> None:
        super().__init__(n, theta, epsilon)

    @abstractmethod
    def choose(self, stored: list[int], counts: Mapping[int, int]) -> int:
        """One of the parents, which are not none."""

    def compress(self) -> None:
        for pattern in leaves_first(self.counts):
            rare = self.counts[pattern] + self.errors[pattern] <= self.segment
            if pattern != FULL_SCAN and rare and is_leaf(pattern, self.counts):
                count = self.remove(pattern)
                self._add(self._parent(pattern, self.counts), count)

    def _add(self, pattern: int, count: int) -> None:
        self.counts[pattern] = self.counts.get(pattern, 0) + count
        self.errors.setdefault(pattern, self.segment - 1)

    def _parent(self, pattern: int, counts: Mapping[int, int]) -> int:
        possible = sorted(parents(pattern))
        return self.choose([p for p in possible if p in counts] or possible, counts)

    def frequencies(self) -> dict[int, float]:
        """Final results: from the leaves up, a pattern that cannot reach θ is combined with a parent."""
        counts, found = dict(self.counts), {}
        levels: dict[int, list[int]] = {}
        for pattern in counts:
            levels.setdefault(pattern.bit_count(), []).append(pattern)
        for level in range(self.n, -1, -1):
            for pattern in sorted(levels.get(level, ())):
                count = counts[pattern]
                error = self.errors.get(pattern, self.segment - 1)
                if pattern == FULL_SCAN or (count + error) / self.requests >= self.theta:
                    found[pattern] = count / self.requests
                    continue
                parent = self._parent(pattern, counts)
                if parent not in counts:
                    levels.setdefault(level - 1, []).append(parent)
                counts[parent] = counts.get(parent, 0) + count
        return found


class CdiaHighestCount(Cdia):
    """CDIA with highest count combination: a rare pattern joins the parent that was asked for most.

    >>> lattice = CdiaHighestCount(3, theta=0.05, epsilon=0.001)
    >>> for pattern, percent in {0b100: 4, 0b010: 10, 0b001: 10, 0b110: 4, 0b101: 16, 0b011: 10, 0b111: 46}.items():
    ...     lattice.search(pattern, 100 * percent)
    >>> lattice.frequencies()[0b010]
    0.14
    """

    name = "cdia"

    def choose(self, stored: list[int], counts: Mapping[int, int]) -> int:
        return max(stored, key=lambda p: (counts.get(p, 0), -p))


class CdiaRandom(Cdia):
    """CDIA with random combination: a rare pattern joins any of its parents; ``seed`` makes it repeatable."""

    name = "cdia-random"

    def __init__(self, n: int, theta: float = 0.1, epsilon: float = 0.05, seed: int = 0) -> None:
        super().__init__(n, theta, epsilon)
        self.seed, self.drawn = seed, 0

    def choose(self, stored: list[int], counts: Mapping[int, int]) -> int:
        draw = float(uniform_draws(self.seed, self.drawn, 1)[0, 0])
        self.drawn += 1
        return stored[int(draw * len(stored))]

    def state(self) -> dict[str, Any]:
        return {**super().state(), "drawn": self.drawn}

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        self.drawn = int(state["drawn"])


ASSESSMENTS: Mapping[str, Callable[..., Assessment]] = {
    method.name: method for method in (CdiaHighestCount, CdiaRandom, Csria, Dia, Sria)
}


def make_assessment(name: str, n: int, theta: float, epsilon: float, seed: int = 0) -> Assessment:
    """The method of that name for a state of ``n`` join attributes; exact methods have no error.

    >>> make_assessment("csria", 3, theta=0.1, epsilon=0.05).width
    20
    """
    if name in (Sria.name, Dia.name):
        return ASSESSMENTS[name](n)
    options = {"seed": seed} if name == CdiaRandom.name else {}
    return ASSESSMENTS[name](n, theta=theta, epsilon=epsilon, **options)
