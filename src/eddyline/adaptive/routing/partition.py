"""Partitioning functions f_j: from the values of an attribute to the numbers of their partitions.

Section 4.1: a discrete attribute is hashed into d buckets, a continuous one is cut into d ranges between the running
minimum and maximum. Section 4.4: attributes that cannot be good classifiers are left out, here by giving all tuples the
class −1, which no policy learns anything from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from zlib import crc32

import numpy as np
import numpy.typing as npt

from eddyline.core.delta import Bools, Int64s

Values = npt.NDArray[Any]

VALUES_BEFORE_PRUNING = 5000  # values of an attribute after which it is kept or pruned
_VALUES_PER_ATTRIBUTE = 16  # times d: with more, a value identifies single tuples and not a kind of tuples
_DISTINCT_VALUE_BITS = 1 << 14


class Partition(Protocol):
    """Values in, classes out: 0 to d − 1; NULL and NaN are the last. −1 for all once the attribute is pruned."""

    pruned: str | None

    def classes(self, values: Values, valid: Bools | None = None) -> Int64s: ...
    def state(self) -> dict[str, Any]: ...
    def load(self, state: Mapping[str, Any]) -> None: ...


class HashPartition:
    """Buckets by hash. The first d values that come have a bucket each: small domains are not torn apart or thrown
    together by chance, as a plain hash would do to most. Later values share the buckets by their hash.

    Domains of more than 16·d values are pruned, as are constants and sequences.

    >>> rooms = HashPartition(d=3)
    >>> rooms.classes(np.array(["a", "b", "a", "c", "d"])).tolist()
    [0, 1, 0, 2, 1]
    >>> comments = HashPartition(d=3)
    >>> comments.classes(np.array([f"{i % 997} is long" for i in range(6000)]))[:3].tolist(), comments.pruned
    ([-1, -1, -1], 'large domain')
    """

    __slots__ = ("bits", "d", "known", "pruned", "watched")

    def __init__(self, d: int = 24) -> None:
        self.d = d
        self.known: dict[Any, int] = {}
        self.watched = 0
        self.bits: Bools = np.zeros(_DISTINCT_VALUE_BITS, np.bool_)  # linear counting of distinct values
        self.pruned: str | None = None

    def classes(self, values: Values, valid: Bools | None = None) -> Int64s:
        if self.pruned is not None:
            return np.full(len(values), -1, np.int64)
        there = _there(values, valid)
        distinct, first, inverse = np.unique(values[there], return_index=True, return_inverse=True)
        keys = distinct.tolist()
        for at in np.argsort(first).tolist() if len(self.known) < self.d else ():
            if len(self.known) < self.d:
                self.known.setdefault(keys[at], len(self.known))
        numbers = np.array([self.known.get(k, -1) for k in keys], np.int64)
        new = np.flatnonzero(numbers < 0)
        hashed = np.array([crc32(repr(keys[i]).encode()) for i in new.tolist()], np.int64)
        numbers[new] = hashed % self.d
        result = np.full(len(values), self.d - 1, np.int64)
        result[there] = numbers[inverse]
        if self.watched < VALUES_BEFORE_PRUNING:
            self._watch(hashed, int(there.sum()))
        return result if self.pruned is None else np.full(len(values), -1, np.int64)

    def _watch(self, hashed: Int64s, count: int) -> None:
        self.bits[hashed % _DISTINCT_VALUE_BITS] = True
        self.watched += count
        if self.watched >= VALUES_BEFORE_PRUNING:
            distinct = len(self.known) - _DISTINCT_VALUE_BITS * np.log(max(1.0 - self.bits.mean(), 1e-9))
            if distinct > _VALUES_PER_ATTRIBUTE * self.d:
                self.pruned = "large domain"
            elif len(self.known) < 2:
                self.pruned = "constant"

    def state(self) -> dict[str, Any]:
        bits = np.packbits(self.bits)
        return {"known": list(self.known), "watched": self.watched, "bits": bits, "pruned": self.pruned}

    def load(self, state: Mapping[str, Any]) -> None:
        self.known = {key: number for number, key in enumerate(state["known"])}
        self.watched, self.pruned = int(state["watched"]), state["pruned"]
        self.bits = np.unpackbits(np.asarray(state["bits"], np.uint8)).astype(np.bool_)


class RangePartition:
    """Ranges of equal width between the least and the greatest value so far, with a margin, so that the borders move
    seldom. When they do, classes mean other values than before; running selectivities follow as they follow any change.

    An attribute that never falls (or never rises), as timestamps and identifiers, is pruned; so is a constant.

    >>> light = RangePartition(d=4)
    >>> light.classes(np.array([0.0, 10.0, 20.0, 30.0, 40.0])).tolist()
    [0, 1, 2, 3, 3]
    >>> light.classes(np.array([-30.0, 40.0, np.nan])).tolist(), (light.low, light.high)
    ([0, 3, 3], (-47.5, 40.0))
    >>> stamps = RangePartition(d=4)
    >>> stamps.classes(np.arange(6000))[:2].tolist(), stamps.pruned
    ([-1, -1], 'monotonic')
    """

    __slots__ = ("d", "falls", "high", "last", "low", "pruned", "rises", "watched")

    def __init__(self, d: int = 24) -> None:
        self.d = d
        self.low, self.high = np.inf, -np.inf
        self.last, self.rises, self.falls = np.nan, 0, 0
        self.watched = 0
        self.pruned: str | None = None

    def classes(self, values: Values, valid: Bools | None = None) -> Int64s:
        if self.pruned is not None:
            return np.full(len(values), -1, np.int64)
        numbers = np.asarray(values, np.float64)
        there = _there(numbers, valid) & np.isfinite(numbers)
        known = numbers[there]
        result = np.full(len(values), self.d - 1, np.int64)
        if not len(known):
            return result
        self._stretch(float(known.min()), float(known.max()))
        width = max(self.high - self.low, 1e-300) / self.d
        result[there] = np.clip((known - self.low) / width, 0, self.d - 1).astype(np.int64)
        if self.watched < VALUES_BEFORE_PRUNING:
            self._watch(known)
        return result if self.pruned is None else np.full(len(values), -1, np.int64)

    def _stretch(self, low: float, high: float) -> None:
        if self.low > self.high:
            self.low, self.high = low, high
            return
        margin = 0.25 * (max(high, self.high) - min(low, self.low))
        if low < self.low:
            self.low = low - margin
        if high > self.high:
            self.high = high + margin

    def _watch(self, known: npt.NDArray[np.float64]) -> None:
        steps = np.diff(known, prepend=self.last)
        self.rises += int((steps > 0).sum())
        self.falls += int((steps < 0).sum())
        self.last = float(known[-1])
        self.watched += len(known)
        if self.watched >= VALUES_BEFORE_PRUNING:
            if not self.rises and not self.falls:
                self.pruned = "constant"
            elif not self.rises or not self.falls:
                self.pruned = "monotonic"

    def state(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__ if name != "d"}

    def load(self, state: Mapping[str, Any]) -> None:
        for name in self.__slots__:
            if name != "d":
                setattr(self, name, state[name])


def classify(partitions: Sequence[Partition], columns: Sequence[Values]) -> Int64s:
    """The classes of tuples by each attribute: rows × attributes.

    >>> classify([HashPartition(3), RangePartition(2)], [np.array(["x", "y", "x"]), np.array([1.5, 2.0, 9.0])]).tolist()
    [[0, 0], [1, 0], [0, 1]]
    """
    found: Int64s = np.column_stack([p.classes(c) for p, c in zip(partitions, columns, strict=True)])
    return found


def _there(values: Values, valid: Bools | None) -> Bools:
    there: Bools = np.ones(len(values), np.bool_) if valid is None else valid
    if values.dtype.kind == "f":
        there = there & ~np.isnan(values)
    elif values.dtype.kind == "O":
        there = there & np.array([v is not None and v == v for v in values.tolist()], np.bool_)
    return there
