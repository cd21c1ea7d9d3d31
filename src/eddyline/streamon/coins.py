"""Which tuples are profiled: each with probability p, drawn as the number of tuples until the next one that is.

The state is three numbers, a batch costs as much as it has heads, and the outcome does not depend on batch borders.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_MASK = (1 << 64) - 1


class Coins:
    """Heads with probability p.

    >>> whole, cut = Coins(seed=7), Coins(seed=7)
    >>> whole.heads(1000, 0.01)[0]
    [18, 49, 67, 195, 243, 585, 616, 665, 700, 908, 953, 992]
    >>> [500 * i + h for i in (0, 1) for h in cut.heads(500, 0.01)[0]] == Coins(seed=7).heads(1000, 0.01)[0]
    True
    """

    __slots__ = ("p", "seed", "tails", "thrown")

    def __init__(self, seed: int) -> None:
        self.seed, self.thrown, self.p, self.tails = seed, 0, 0.0, 0

    def heads(self, count: int, p: float, most: int | None = None) -> tuple[list[int], int]:
        """The heads among the next ``count`` throws, and how many throws were made: fewer than ``count`` only if
        ``most`` heads came before.
        """
        if most is not None and most <= 0:
            return [], 0
        if p != self.p:
            # What is yet to come does not depend on the tails so far, so the next head may be drawn anew.
            self.p, self.tails = p, self._draw(p)
        found, at = [], self.tails
        while at < count:
            found.append(at)
            at += 1 + self._draw(p)
            if len(found) == most:
                self.tails = at - found[-1] - 1
                return found, found[-1] + 1
        self.tails = at - count
        return found, count

    def _draw(self, p: float) -> int:
        """Tails before the next head, by inversion of a hash of (seed, number of the draw)."""
        if p >= 1:
            return 0
        self.thrown += 1
        x = (self.seed * 0xD1342543DE82EF95 + self.thrown * 0x9E3779B97F4A7C15) & _MASK
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
        uniform = ((x ^ (x >> 31)) + 1) / (1 << 64)  # in (0, 1]
        return int(math.log(uniform) / math.log1p(-p))

    def state(self) -> dict[str, Any]:
        return {"seed": self.seed, "thrown": self.thrown, "p": self.p, "tails": self.tails}

    def load(self, state: Mapping[str, Any]) -> None:
        self.seed, self.thrown = int(state["seed"]), int(state["thrown"])
        self.p, self.tails = float(state["p"]), int(state["tails"])
