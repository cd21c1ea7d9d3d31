"""Adherence to constraints, watched on samples while a join does not use them.

Of keys one in ``share`` is followed, chosen by its hash, so that all rows of a key are followed together: how far apart
they come (CA), how long one side waits for the other (RIDS), whether a key comes twice within a window. Order (OA) is
seen in the largest and the smallest key of each ``BLOCK`` arrivals. Rows of different streams that are told together
are taken to be evenly mixed: such parts are short beside the distances that matter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from eddyline.core.delta import Int64s

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
# One key in so many is followed, fewer where windows are small: fewer follow a change later, and cost less.
KEYS_PER_FOLLOWED_KEY = 512
WINDOW_KEYS = 16  # keys of a window that are followed at least
BLOCK = 64  # arrivals of which the largest and the smallest key are looked at
LOOK_EVERY = 4_096  # arrivals that are looked at together, at most an eighth of a window: more cost less each
FAMILIES = 4_096  # keys that are followed at a time
FORGET_EVERY = 16  # looks between two searches for keys that have left their windows
MATCHED_KEYS_BEFORE_BELIEF = 8  # followed keys that matched, before a distance is believed
PERIOD = 1 << 16  # arrivals after which large distances are forgotten, where windows have no bound

NONE: Int64s = np.empty((0, 0), np.int64)


class Family:
    """A followed key: by side how many rows came, the arrivals at the first and the last, and those of the other side
    at the first."""

    __slots__ = ("first", "last", "many", "other")

    def __init__(self) -> None:
        self.many, self.first, self.last, self.other = [0, 0], [0, 0], [0, 0], [0, 0]


class Edge:
    """What was seen along one edge, by side: the largest wait for the other side, the largest distance within a
    cluster, keys that came twice, and keys that matched."""

    def __init__(self) -> None:
        self.open: dict[int, Family] = {}
        self.seen = np.zeros((2, 2, 4), np.int64)  # this period and the one before; side; wait, cluster, twice, matched

    def came(self, side: int, key: int, own: int, other: int, windows: Sequence[float]) -> None:
        """A row of a followed key came as number ``own`` of its side, when ``other`` rows of the other had come."""
        family = self.open.get(key)
        if family is None:
            if len(self.open) >= FAMILIES:
                return
            family = self.open[key] = Family()
        now, there = self.seen[0], 1 - side
        if family.many[side] == 0 or own - family.last[side] > windows[side]:
            family.many[side], family.first[side], family.other[side] = 0, own, other
            if family.many[there] and other - family.last[there] <= windows[there]:
                now[there, 0] = max(now[there, 0], own - family.other[there])
                now[there, 3] += 1
        else:
            now[side, 1] = max(now[side, 1], own - family.first[side] - family.many[side])
            now[side, 2] += 1
        family.many[side] += 1
        family.last[side] = own

    def forget(self, arrived: Sequence[int], windows: Sequence[float]) -> None:
        """Keys of which no row is in its window."""
        over = [
            key for key, f in self.open.items()
            if all(f.many[s] == 0 or arrived[s] - f.last[s] > windows[s] for s in (0, 1))
        ]  # fmt: skip
        for key in over:
            del self.open[key]


class Order:
    """Largest keys so far at the end of each block, and the largest distance between a row and the first larger one."""

    def __init__(self) -> None:
        self.maxima, self.at = np.empty(0, np.int64), np.empty(0, np.int64)
        self.seen = [0, 0]  # this period and the one before

    def came(self, keys: Int64s, before: int, window: float) -> None:
        starts = np.arange(0, len(keys), BLOCK)
        largest, smallest = np.maximum.reduceat(keys, starts), np.minimum.reduceat(keys, starts)
        if len(self.maxima):
            largest[0] = max(largest[0], self.maxima[-1])
        self.maxima = np.concatenate([self.maxima, np.maximum.accumulate(largest)])
        self.at = np.concatenate([self.at, before + np.minimum(starts + BLOCK, len(keys))])
        at = self.at[len(self.at) - len(starts) :]
        first = np.searchsorted(self.maxima, smallest, side="right")
        distance = at - self.at[np.minimum(first, len(self.at) - 1)]
        self.seen[0] = max(self.seen[0], int(distance.max()))
        if math.isfinite(window) and len(self.at) > 2 * (keep := int(window) // BLOCK + len(starts) + 1):
            self.maxima, self.at = self.maxima[-keep:], self.at[-keep:]


class AdherenceSample:
    """``edges`` are pairs of ports (input, port), ``ordered`` the ports whose keys have an order.

    >>> sample = AdherenceSample(2, [((0, 0), (1, 0))], ordered=[(0, 0), (1, 0)], share=1, look_every=10)
    >>> child, parent = np.arange(200)[:, None], np.repeat(np.arange(200), 2)[:, None]
    >>> for n in range(20):
    ...     sample.arrived([parent[20 * n : 20 * n + 20], child[10 * n : 10 * n + 10]], [100, 50])
    >>> sample.adheres([100, 50])
    'RIDS on edge 1'
    """

    def __init__(
        self,
        inputs: int,
        edges: Sequence[tuple[tuple[int, int], tuple[int, int]]],
        ordered: Sequence[tuple[int, int]],
        share: int | None = None,
        look_every: int | None = None,
    ) -> None:
        self.edges, self.asked = tuple(edges), (share, look_every)
        self.share, self.look_every = share or KEYS_PER_FOLLOWED_KEY, look_every or LOOK_EVERY
        self.ordered = tuple(ordered)
        self.waiting: list[list[Int64s]] = [[] for _ in range(inputs)]
        self.rows = 0  # that wait to be looked at
        self.count = [0] * inputs  # rows that were looked at
        self.followed = [Edge() for _ in edges]
        self.order = {q: Order() for q in ordered}
        self.period = self.periods = self.looks = 0  # arrivals of this period; periods that are over; looks

    def anew(self) -> AdherenceSample:
        """A sample of the same join that has seen nothing."""
        return AdherenceSample(len(self.count), self.edges, self.ordered, *self.asked)

    def arrived(self, keys: Sequence[Int64s], windows: Sequence[float]) -> None:
        """Keys by port of the rows of each input; ``windows`` are the rows that each window holds."""
        if self.period == 0 and self.rows == 0:
            smallest = int(min(*windows, KEYS_PER_FOLLOWED_KEY * WINDOW_KEYS * 8))
            self.share = self.asked[0] or max(1, min(KEYS_PER_FOLLOWED_KEY, smallest // WINDOW_KEYS))
            self.look_every = self.asked[1] or max(64, min(LOOK_EVERY, smallest // 8))
        for mine, came in zip(self.waiting, keys, strict=True):
            if len(came):
                mine.append(came)
                self.rows += len(came)
        if self.rows >= self.look_every:
            self._look(windows)

    def _look(self, windows: Sequence[float]) -> None:
        came = [np.concatenate(w) if w else NONE for w in self.waiting]
        many = [len(c) for c in came]
        for (a, b), edge in zip(self.edges, self.followed, strict=True):
            inputs = a[0], b[0]
            limits = [windows[i] for i in inputs]
            for share, side, key, number in self._sampled([_port(came[i], p) for i, p in (a, b)]):
                here, there = inputs[side], inputs[1 - side]
                edge.came(side, key, self.count[here] + number, self.count[there] + round(share * many[there]), limits)
            if self.looks % FORGET_EVERY == 0:
                edge.forget([self.count[i] + many[i] for i in inputs], limits)
        for (i, p), order in self.order.items():
            if many[i]:
                order.came(_port(came[i], p), self.count[i], windows[i])
        self.count = [n + m for n, m in zip(self.count, many, strict=True)]
        self.waiting = [[] for _ in many]
        self.period, self.looks, self.rows = self.period + self.rows, self.looks + 1, 0
        bound = sum(windows)
        if self.period >= (bound if math.isfinite(bound) else PERIOD):
            self._next_period()

    def _next_period(self) -> None:
        self.period, self.periods = 0, self.periods + 1
        for edge in self.followed:
            edge.seen[1], edge.seen[0] = edge.seen[0], 0
        for order in self.order.values():
            order.seen = [0, order.seen[0]]

    def _sampled(self, sides: Sequence[Int64s]) -> list[tuple[float, int, int, int]]:
        """The followed rows of both sides by their place in the part: place, side, key, number within the part."""
        events = []
        for side, keys in enumerate(sides):
            with np.errstate(over="ignore"):
                mixed = (keys.view(np.uint64) * MULTIPLIER) >> np.uint64(40)
            at = np.flatnonzero(mixed % np.uint64(self.share) == 0)
            events += [((j + 0.5) / len(keys), side, int(keys[j]), j + 1) for j in at.tolist()]
        return sorted(events)

    def adheres(self, windows: Sequence[float]) -> str | None:
        """A constraint that could be used, by the rule of k-Mon: its k is at most half of what arrives in a window."""
        if self.periods == 0:
            return None
        for n, ((a, b), edge) in enumerate(zip(self.edges, self.followed, strict=True), 1):
            seen = edge.seen.max(axis=0)
            for parent, child, here, there in ((a, b, 0, 1), (b, a, 1, 0)):
                wait, cluster, _, matched = seen[here].tolist()
                if seen[there, 2] or matched + int(seen[there, 3]) < MATCHED_KEYS_BEFORE_BELIEF:
                    continue  # keys of the child come twice, or too few were followed
                if wait <= windows[child[0]] / 2:
                    return f"RIDS on edge {n}"
                if seen[here, 2] and cluster <= windows[parent[0]] / 2:
                    return f"CA on edge {n}"
                for name, port in (("OAP", parent), ("OAC", child)):
                    if port in self.order and max(self.order[port].seen) <= windows[port[0]] / 2:
                        return f"{name} on edge {n}"
        return None

    @property
    def nbytes(self) -> int:
        followed = sum(200 * len(e.open) for e in self.followed)
        return followed + sum(o.maxima.nbytes + o.at.nbytes for o in self.order.values()) + 8 * self.rows


def _port(keys: Int64s, p: int) -> Int64s:
    """The keys of one port; none where no row came."""
    return np.ascontiguousarray(keys[:, p]) if len(keys) else np.empty(0, np.int64)
