"""Accumulators of aggregates with a declared error (``expr.approximate``).

What is correct: the value is a function of the bag alone. ``approx_count_distinct`` looks at the k + 1 least hashes of
the distinct values: if h is the greatest of them, as a part of 2⁶⁴, there are about k/h values. Where nothing leaves,
no other hash has to be kept; otherwise all are, since any of them may become one of the least. ``approx_percentile``
counts the values in buckets (as DDSketch does, Masson et al. 2019) that are the first bits of doubles, so that a bucket
is found without rounding; its result is the middle of the bucket that the exact result is in.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from hashlib import blake2b
from math import ceil
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Int64s
from eddyline.expr.approximate import hashes_kept, mantissa_bits
from eddyline.operators.accumulators import NO_NULLS, Accumulator, Argument, Codes, Walk
from eddyline.synopses.codes import direct_codes, is_direct

_SPACE = 2.0**64
_MANTISSA = 52
_LEAST_NORMAL = 1 << _MANTISSA  # the least normal number: smaller ones count as zero


def value_hashes(array: pa.Array) -> list[int]:
    """A hash of 64 bits for each value; NULLs have any.

    >>> len(set(value_hashes(pa.array(["a", "b", "a"])))), len(set(value_hashes(pa.array([0.0, -0.0]))))
    (2, 1)
    """
    if is_direct(array.type):
        codes, _ = direct_codes(array)
        return list(mixed(codes.view(np.uint64)).tolist())
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    known = [_digest(v) for v in array.dictionary.to_pylist()] or [0]
    return [known[i or 0] for i in array.indices.to_pylist()]


def _digest(value: Any) -> int:
    raw = value if isinstance(value, bytes) else str(value).encode()
    return int.from_bytes(blake2b(raw, digest_size=8).digest(), "little")


def mixed(x: Any) -> Any:
    """The finaliser of splitmix64, for arrays of 64 bits without a sign."""
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def distinct_estimate(least: list[int], k: int) -> int:
    """About how many hashes there are, given the least in order (all of them, or more than k).

    >>> distinct_estimate([1, 5], 400), distinct_estimate([2**62, 2**63], 1)
    (2, 2)
    """
    return len(least) if len(least) <= k else round(k * _SPACE / max(1, least[k]))


class DistinctSketch(Accumulator):
    """The hashes of each group in order; only the least ones where nothing ever leaves (``forever``)."""

    def __init__(self, error: float, forever: bool) -> None:
        self.k, self.forever = hashes_kept(error), forever
        self.least: dict[int, list[int]] = {}
        self.counts: dict[int, dict[int, int]] = {}

    def walk(self, w: Walk, arguments: tuple[Argument, ...]) -> None:
        (x,) = arguments
        self.out: Int64s = np.zeros(w.size, np.int64)
        valid = x.valid.tolist() if len(x.valid) else [True] * len(w.group)
        rows = zip(w.group.tolist(), w.weight.tolist(), w.slot.tolist(), value_hashes(x.array), valid, strict=True)
        for g, weight, slot, h, there in rows:
            if there and weight:
                self._change(g, h, weight)
            if slot >= 0:
                self.out[slot] = distinct_estimate(self.least.get(g, []), self.k)

    def _change(self, g: int, h: int, weight: int) -> None:
        least = self.least.setdefault(g, [])
        if self.forever:
            if len(least) <= self.k or h < least[-1]:
                at = bisect_left(least, h)
                if at == len(least) or least[at] != h:
                    least.insert(at, h)
                    del least[self.k + 1 :]
            return
        counts = self.counts.setdefault(g, {})
        before = counts.get(h, 0)
        counts[h] = before + weight
        if before == 0:
            insort(least, h)
        if before + weight == 0:
            del counts[h], least[bisect_left(least, h)]
            if not least:
                del self.least[g], self.counts[g]

    def emitted(self, function: str) -> Codes:
        return Codes(self.out, NO_NULLS)

    def state(self) -> dict[str, Any]:
        rows = [(g, h, self.counts.get(g, {}).get(h, 1)) for g, least in self.least.items() for h in least]
        return {
            "group": np.array([r[0] for r in rows], np.int64),
            "hash": np.array([r[1] for r in rows], np.uint64).view(np.int64),
            "count": np.array([r[2] for r in rows], np.int64),
        }

    def load(self, state: dict[str, Any]) -> None:
        self.least, self.counts = {}, {}
        hashes = np.array(state["hash"], np.int64).view(np.uint64).tolist()
        for g, h, n in zip(state["group"].tolist(), hashes, state["count"].tolist(), strict=True):
            self._change(g, h, n)

    def describe(self) -> str:
        if self.forever:
            return f"at most {self.k + 1} hashes a group"
        return "the hashes of all distinct values, since rows leave"

    def size(self) -> tuple[int, int]:
        rows = sum(map(len, self.least.values()))
        return rows, rows * (48 if self.forever else 150)


def buckets(codes: Int64s, bits: int) -> Int64s:
    """The bucket of each double, given its bits: in the order of the values, NaN last.

    >>> buckets(np.array([-2.0, 0.0, 1.0, 1.01, 2.0]).view(np.int64), 6).tolist()
    [-65536, 0, 65472, 65472, 65536]
    """
    size = codes & np.int64(0x7FFF_FFFF_FFFF_FFFF)
    found = np.where(size < _LEAST_NORMAL, 0, size >> (_MANTISSA - bits))
    return np.where(codes < 0, -found, found)


def middle(bucket: int, bits: int) -> float:
    """The middle of a bucket.

    >>> middle(65472, 6), middle(-65536, 6), middle(0, 6)
    (1.0078125, -2.015625, 0.0)
    """
    if bucket == 0:
        return 0.0
    first = abs(bucket) << (_MANTISSA - bits)
    value = float(np.array([first], np.int64).view(np.float64)[0])
    if np.isfinite(value):
        value = float(np.array([first | 1 << (_MANTISSA - bits - 1)], np.int64).view(np.float64)[0])
    return value if bucket > 0 else -value


class QuantileSketch(Accumulator):
    """The numbers of values in each bucket of each group; ``share`` is the part of the values up to the result."""

    def __init__(self, share: float, error: float) -> None:
        self.share, self.bits = share, mantissa_bits(error)
        self.counts: dict[int, dict[int, int]] = {}
        self.keys: dict[int, list[int]] = {}
        self.totals: dict[int, int] = {}

    def walk(self, w: Walk, arguments: tuple[Argument, ...]) -> None:
        (x,) = arguments
        values, self.valid = np.zeros(w.size, np.float64), np.zeros(w.size, np.bool_)
        valid = x.valid.tolist() if len(x.valid) else [True] * len(w.group)
        found = buckets(x.codes, self.bits).tolist()
        for g, weight, slot, b, there in zip(
            w.group.tolist(), w.weight.tolist(), w.slot.tolist(), found, valid, strict=True
        ):
            if there and weight:
                self._change(g, b, weight)
            if slot >= 0 and g in self.totals:
                values[slot], self.valid[slot] = self._quantile(g), True
        self.out = values.view(np.int64)

    def _change(self, g: int, bucket: int, weight: int) -> None:
        counts, keys = self.counts.setdefault(g, {}), self.keys.setdefault(g, [])
        before = counts.get(bucket, 0)
        counts[bucket] = before + weight
        self.totals[g] = self.totals.get(g, 0) + weight
        if before == 0:
            insort(keys, bucket)
        if before + weight == 0:
            del counts[bucket], keys[bisect_left(keys, bucket)]
            if not keys:
                del self.counts[g], self.keys[g], self.totals[g]

    def _quantile(self, g: int) -> float:
        counts, place = self.counts[g], max(1, ceil(self.share * self.totals[g]))
        for b in self.keys[g]:
            place -= counts[b]
            if place <= 0:
                return middle(b, self.bits)
        raise AssertionError("buckets hold all values")

    def emitted(self, function: str) -> Codes:
        return Codes(self.out, self.valid)

    def state(self) -> dict[str, Any]:
        rows = [(g, b, n) for g, counts in self.counts.items() for b, n in counts.items()]
        names = ("group", "bucket", "count")
        return {name: np.array([r[i] for r in rows], np.int64) for i, name in enumerate(names)}

    def load(self, state: dict[str, Any]) -> None:
        self.counts, self.keys, self.totals = {}, {}, {}
        for g, b, n in zip(*(state[name].tolist() for name in ("group", "bucket", "count")), strict=True):
            self._change(g, b, n)

    def describe(self) -> str:
        return f"a number for each bucket of values, {1 << self.bits} buckets from a number to its double"

    def size(self) -> tuple[int, int]:
        rows = sum(map(len, self.keys.values()))
        return rows, rows * 150
