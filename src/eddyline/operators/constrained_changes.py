"""The changes of an input of a constrained join that is a relation: rows come and are deleted in any order.

A deletion finds its row by an *identity*, which is stored where a row of a window has the time at which it leaves: the
id that a window gave the row, or a hash of its values. Among the rows of one key, equal hashes are taken for equal
values: of n different rows with one key the probability that two have the same hash is n² / 2⁶⁵.

At each instant all deletions are applied before the rows that come, as rows leave their windows before others arrive.
That is possible because changes are netted: what comes and is deleted at one instant was never there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Int64s
from eddyline.operators.join_tree import hashed, port_keys
from eddyline.synopses.codes import hash_codes


@dataclass(frozen=True, slots=True)
class Departures:
    """Deletions of one input: times, identities, and the codes of the keys of its rows."""

    time: Int64s
    identity: Int64s
    codes: Int64s

    @staticmethod
    def none() -> Departures:
        empty = np.empty(0, np.int64)
        return Departures(empty, empty, empty)

    def __len__(self) -> int:
        return len(self.time)


@dataclass(frozen=True, slots=True)
class AllDepartures:
    """Deletions of all inputs, one input after another: times, identities and keys at the first port. ``next`` and
    ``stop`` by input say which are to be applied."""

    time: Int64s
    identity: Int64s
    key: Int64s
    next: Int64s
    stop: Int64s

    @staticmethod
    def of(departures: Sequence[Departures], keys: Sequence[Sequence[tuple[int, ...]]]) -> AllDepartures:
        counts = [len(d) for d in departures]
        stop = np.cumsum(counts)
        first = [port_keys(d.codes, mine[:1], 1)[:, 0] for d, mine in zip(departures, keys, strict=True) if len(d)]
        empty = np.empty(0, np.int64)
        return AllDepartures(
            np.concatenate([d.time for d in departures]),
            np.concatenate([d.identity for d in departures]),
            np.ascontiguousarray(np.concatenate(first)) if first else empty,
            (stop - counts).astype(np.int64),
            stop.astype(np.int64),
        )

    def __len__(self) -> int:
        return int((self.stop - self.next).sum())

    def earliest(self) -> int:
        """The time of the first that is not applied."""
        there = self.next < self.stop
        return int(self.time[self.next[there]].min())

    def until(self, last: int, width: int) -> Int64s:
        """Of those that are not applied, up to an instant: lines of the first port of the input, key and identity."""
        lines = []
        for i, (a, b) in enumerate(zip(self.next.tolist(), self.stop.tolist(), strict=True)):
            many = int(np.searchsorted(self.time[a:b], last, side="right"))
            mine = np.full((many, 3), i * width, np.int64)
            mine[:, 1], mine[:, 2] = self.key[a : a + many], self.identity[a : a + many]
            lines.append(mine)
        return np.concatenate(lines)


def hashed_rows(columns: Mapping[str, pa.Array], n: int) -> Int64s:
    """A hash of the values of each row."""
    codes = np.zeros((n, 2 * len(columns)), np.int64)
    for j, column in enumerate(columns.values()):
        codes[:, 2 * j], nulls = hash_codes(column)
        if nulls is not None:
            codes[nulls, 2 * j], codes[nulls, 2 * j + 1] = 0, 1
    return hashed(codes)


def net_changes(time: Int64s, identity: Int64s, weight: Int64s) -> tuple[Int64s, Int64s]:
    """Which elements bring a row and which delete one, when the changes of each instant are netted. An element is
    named as often as it counts.

    >>> net_changes(np.array([1, 1, 1, 2]), np.array([7, 8, 7, 8]), np.array([1, 2, -1, -1]))
    (array([1, 1]), array([3]))
    """
    if (weight == 1).all():
        return np.arange(len(time)), np.empty(0, np.int64)
    order = np.lexsort((identity, time))
    sorted_time, sorted_identity = time[order], identity[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (sorted_time[1:] != sorted_time[:-1]) | (sorted_identity[1:] != sorted_identity[:-1])
    first = order[begins]
    sums = np.add.reduceat(weight[order], np.flatnonzero(begins))
    by_arrival = np.argsort(first, kind="stable")
    first, sums = first[by_arrival], sums[by_arrival]
    return np.repeat(first, np.maximum(sums, 0)), np.repeat(first, np.maximum(-sums, 0))
