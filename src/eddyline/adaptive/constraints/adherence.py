"""The adherence parameter of one constraint, as the Profiler of k-Mon estimates it (thesis 6.6.3).

Distances are observed with the count of arrivals at which they were seen. A distance above k_u is an increase: k_u
becomes infinite, for all that a wrong k loses is lost at once. After enough arrivals k_u is set to the largest distance
of that time.

A k is known once it was *exceeded by time*: k arrivals after an increase only distances up to k can have been seen. So
careful monitors set k_u when the largest distance has stopped growing, not when some arrivals are over. From then on
all rows that matter were kept, and the largest distance of the last arrivals lowers k_u, whatever was seen before.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np

from eddyline.core.delta import Int64s

MARGIN = 1.2  # times the largest distance seen: arrivals for which a careful monitor looks before it sets k_u
GROWN = 1.2  # times the largest distance that was noted: one that is larger has grown. Less waits longer for a k
RECENT = 0.4  # times k_u: arrivals that a careful monitor looks at to lower it, at least. More follow a decrease later
BACK_OFF = 2.0  # each increase doubles the arrivals until k_u is set again, where a wrong k is paid for with look-ups
MOST_BACK_OFF = 1024.0
DISTANCES_SEEN_ONE_BY_ONE = 32  # distances that are looked at one by one: of more the largest are found first


class Adherence:
    """``c`` (k_e = c · k_u: what is kept to see an increase), ``p`` (of rows that are kept to the end of their window
    to see larger ones) and ``W`` (arrivals that are looked at before k_u is lowered) as in the thesis; ``careful``
    sets k_u after 1.2 times the largest distance since an increase, when that has not grown any more for ``recent``
    arrivals, and takes a distance up to k_e as the new k_u.

    >>> k = Adherence(W=4)
    >>> k.observe(np.array([1, 2, 4]), np.array([3, 1, 2]), 4)
    >>> k.k_u
    inf
    >>> k.observe(np.array([5]), np.array([3]), 5)
    >>> k.k_u, k.k_e
    (3, 3)
    >>> k.observe(np.array([6]), np.array([7]), 6)
    >>> k.k_u
    inf
    """

    def __init__(self, c: float = 1.0, p: float = 0.01, W: int = 500, careful: bool = True) -> None:
        self.c, self.p, self.W, self.careful = c, p, W, careful
        self.k_u = math.inf
        self.reset_at = 0  # arrivals when k_u last became infinite, or at the start
        self.largest = 0  # distance since then
        self.grown_to = self.grown_at = 0  # the largest distance when it last had grown by a fifth, and the arrivals
        self.increases = 0
        self.back_off = 1.0
        self._recent: deque[tuple[int, int]] = deque()  # positions and distances, decreasing: the largest first

    @property
    def k_u(self) -> float:
        """The estimated k; infinite: not known."""
        return self._k_u

    @k_u.setter
    def k_u(self, k: float) -> None:
        self._k_u: float = k
        self._k_e: float = k if k == math.inf else math.ceil(self.c * k)  # read much more often than k_u is set

    @property
    def k_e(self) -> float:
        """The largest k that is certain to be noticed."""
        return self._k_e

    @property
    def limit(self) -> float:
        """The largest distance that is no increase."""
        return self._k_e if self.careful else self._k_u

    @property
    def growing(self) -> int:
        """A distance, of a k that is known, from which on k_u should be set anew before more rows are given up."""
        return int((self.k_u + self.k_e) / 2)

    def look(self) -> int:
        """Arrivals that are looked at before k_u is set, after an increase and at the start."""
        return int(max(self.W, math.ceil(MARGIN * self.largest) if self.careful else 0))

    def recent(self) -> int:
        """Arrivals whose largest distance lowers k_u. Where a wrong k is paid for with look-ups, more after each."""
        if not self.careful:
            return self.W
        k = self.largest if math.isinf(self.k_u) else self.k_u
        return int(max(self.W, math.ceil(RECENT * k)) * self.back_off)

    def observe(self, positions: Int64s, distances: Int64s, arrived: int) -> None:
        """Distances that were seen up to ``arrived`` arrivals, by increasing position; those of 0 need not be told."""
        if len(distances):
            self._seen(positions, distances)
        look, recent, unknown = self.look(), self.recent(), self._k_u == math.inf
        kept = look if not self.careful else look + recent if unknown else recent
        while self._recent and self._recent[0][0] <= arrived - kept:
            self._recent.popleft()
        grows = self.careful and unknown and arrived - max(self.reset_at, self.grown_at) < recent
        if arrived - self.reset_at >= look * self.back_off and not grows:
            found = self._recent[0][1] if self._recent else 0
            if found < self.k_u:
                self.k_u = found

    def _seen(self, positions: Int64s, distances: Int64s) -> None:
        # Of a window's largest distance only those matter that no later one reaches; and the first that is an increase.
        first: int | None = None
        if len(distances) > DISTANCES_SEEN_ONE_BY_ONE:
            first = int(positions[np.argmax(distances > self.limit)])
            later = np.maximum.accumulate(distances[::-1])
            at = len(distances) - 1 - np.flatnonzero(np.concatenate([[True], later[1:] > later[:-1]]))[::-1]
            positions, distances = positions[at], distances[at]
        seen = list(zip(positions.tolist(), distances.tolist(), strict=True))
        largest = max(distance for _, distance in seen)
        if largest > self._k_u:
            if self.careful and largest <= self._k_e:
                self.k_u = largest  # rows are kept for k_e: nothing was missed
            else:
                if first is None:
                    first = next(position for position, distance in seen if distance > self.limit)
                self.increased(first)
        self.largest = max(self.largest, largest)
        if largest > GROWN * self.grown_to:
            self.grown_to, self.grown_at = largest, max(position for position, each in seen if each == largest)
        while self._recent and self._recent[-1][1] <= largest:
            self._recent.pop()
        for position, distance in seen:
            while self._recent and self._recent[-1][1] <= distance:
                self._recent.pop()
            self._recent.append((position, distance))

    def increased(self, arrived: int) -> None:
        """A distance above k_u was seen."""
        if not math.isinf(self.k_u):
            self.increases += 1
        self.k_u, self.reset_at, self.largest = math.inf, arrived, 0
        self.grown_to, self.grown_at = 0, arrived

    def refuted(self, arrived: int) -> None:
        """A row was needed that the constraint had made useless: each time it takes longer until k_u is set again."""
        if not math.isinf(self.k_u):
            self.back_off = min(MOST_BACK_OFF, self.back_off * BACK_OFF)
        self.increased(arrived)

    def state(self) -> dict[str, Any]:
        recent = np.array(self._recent, np.int64).reshape(-1, 2)
        return {
            "k_u": -1 if math.isinf(self.k_u) else int(self.k_u), "reset_at": self.reset_at, "largest": self.largest,
            "grown_to": self.grown_to, "grown_at": self.grown_at,
            "increases": self.increases, "back_off": self.back_off,
            "positions": np.ascontiguousarray(recent[:, 0]), "distances": np.ascontiguousarray(recent[:, 1]),
        }  # fmt: skip

    def load(self, state: dict[str, Any]) -> None:
        self.k_u = math.inf if state["k_u"] < 0 else int(state["k_u"])
        self.reset_at, self.largest = int(state["reset_at"]), int(state["largest"])
        self.grown_to, self.grown_at = int(state.get("grown_to", 0)), int(state.get("grown_at", 0))
        self.increases, self.back_off = int(state["increases"]), float(state["back_off"])
        self._recent = deque(zip(state["positions"].tolist(), state["distances"].tolist(), strict=True))
