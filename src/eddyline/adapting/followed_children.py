"""Follows a sample of children along an edge of a join: how many parents come after them, and for how long.

Keys are sampled by their hash, so that a child and its parents are sampled together. The order of rows of different
streams within one report is not known, and taken as even: reports are short beside the distances that matter.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eddyline.adaptive.constraints.no_rows import Followed
from eddyline.core.delta import Int64s

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
KEYS_PER_FOLLOWED = 64  # one key in so many, a power of two: more follow a change later, and cost less
KEYS_REDUCTION = 8  # times fewer once ``CHILDREN_TO_REDUCE`` were followed to their end
CHILDREN_TO_REDUCE = 64
MAX_CHILDREN = 128  # that are followed at a time
FIELDS = ("began", "came", "at", "first", "last", "parents", "after")
CHILDREN_IN_AVERAGE = 256  # children that were followed to their end: an average over as many


class Family:
    """A sampled key: arrivals of both streams when the child came, its parents, and when the first and last came."""

    __slots__ = ("after", "at", "began", "came", "first", "last", "parents")

    def __init__(self, began: int) -> None:
        self.began = began  # arrivals of the child's stream when the key was first seen
        self.came = self.at = self.first = self.last = -1  # the child: children and parents; its parents: parents
        self.parents = self.after = 0


class FollowedChildren:
    """
    >>> followed = FollowedChildren(share=1)
    >>> followed.came(np.array([7, 8]), np.array([7, 9, 7]), children=2, parents=3)
    >>> followed.settle(children=20, parents=30, k_ca=4, k_oa=float("inf"), window=15)
    >>> followed.seen()
    Followed(samples=2, after=0.0, stay=9.5, lag=1.0)
    """

    def __init__(self, share: int = KEYS_PER_FOLLOWED) -> None:
        self.share = share
        self.open: dict[int, Family] = {}
        self.fewer = False  # enough were followed to their end: one key in KEYS_REDUCTION · share is followed
        self.lag = 0.0  # arrivals of the child's stream until a row that is useless is dropped, on average
        self.done: list[tuple[int, float]] = []  # parents that came after, and how long the child had to stay

    def _sampled(self, keys: Int64s) -> Int64s:
        with np.errstate(over="ignore"):
            mixed = (keys.view(np.uint64) * MULTIPLIER) >> np.uint64(40)
        share = self.share * (KEYS_REDUCTION if self.fewer else 1)
        found: Int64s = np.flatnonzero((mixed & np.uint64(share - 1)) == 0)
        return found

    def came(self, child: Int64s, parent: Int64s, children: int, parents: int) -> None:
        """Keys of both streams in order of arrival; ``children`` and ``parents`` count all arrivals, these included."""
        self.lag = len(child) / 2
        events = []
        for is_parent, keys, total in ((0, child, children), (1, parent, parents)):
            for j in self._sampled(keys).tolist():
                share = (j + 0.5) / len(keys)
                events.append((share, is_parent, int(keys[j]), total - len(keys) + j + 1))
        for share, is_parent, key, count in sorted(events):
            other = (
                round((children - len(child)) + share * len(child))
                if is_parent
                else round((parents - len(parent)) + share * len(parent))
            )
            family = self.open.get(key)
            if family is None:
                if len(self.open) >= MAX_CHILDREN:
                    continue
                family = self.open[key] = Family(other if is_parent else count)
            if is_parent:
                family.parents += 1
                family.after += family.came >= 0 and other - family.came > self.lag
                family.first = count if family.first < 0 else family.first
                family.last = count
            elif family.came < 0:
                family.came, family.at = count, other

    def settle(self, children: int, parents: int, k_ca: float, k_oa: float, window: float) -> None:
        """Forget children whose parents have all come, by CA(k_ca) or OAP(k_oa) of the parent, or that left their
        window. ``window`` counts arrivals of the child's stream, ``children`` and ``parents`` all arrivals so far."""
        rate = children / max(1, parents)
        for key, family in list(self.open.items()):
            if family.came < 0:
                if children - family.began > window:
                    del self.open[key]  # parents without a child
                continue
            closes = math.inf
            if family.parents:
                closes = min(family.first + k_ca + family.parents, family.last + k_oa)
            if parents > closes:
                self.done.append((family.after, min(window, max(0.0, closes - family.at) * rate)))
            elif children - family.came >= window:
                self.done.append((family.after, window))
            else:
                continue
            del self.open[key]
        del self.done[:-CHILDREN_IN_AVERAGE]
        if len(self.done) >= CHILDREN_TO_REDUCE and not self.fewer:
            self.fewer = True
            keys = np.array(list(self.open), np.int64)
            kept = set(keys[self._sampled(keys)].tolist())
            self.open = {key: family for key, family in self.open.items() if key in kept}

    def seen(self) -> Followed:
        if not self.done:
            return Followed(0, 0.0, 0.0)
        many = len(self.done)
        after, stay = sum([parents for parents, _ in self.done]), sum([arrivals for _, arrivals in self.done])
        return Followed(many, after / many, stay / many, self.lag)

    @property
    def nbytes(self) -> int:
        return 96 * len(self.open) + 16 * len(self.done)

    def state(self) -> dict[str, Any]:
        lines = [[key, *(getattr(family, n) for n in FIELDS)] for key, family in self.open.items()]
        return {"open": np.array(lines, np.int64).reshape(-1), "done": np.array(self.done, np.float64).reshape(-1)}

    def load(self, state: dict[str, Any]) -> None:
        self.open = {}
        for key, *values in np.array(state["open"]).reshape(-1, 1 + len(FIELDS)).tolist():
            family = self.open[key] = Family(0)
            for name, value in zip(FIELDS, values, strict=True):
                setattr(family, name, value)
        self.fewer = False
        self.done = [(int(a), float(b)) for a, b in np.array(state["done"]).reshape(-1, 2).tolist()]
