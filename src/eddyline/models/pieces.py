"""Pieces: what operators on models take and give, as columns.

A piece is an interval of time with its closedness, constant columns (keys and what else does not change), and values
that are polynomials of (t − base)·scale. Times are doubles in ticks: roots need not lie on a tick,
and 2⁵³ µs are 285 years.

Where a fit ends one piece and begins the next: ``kernels.fit``, and ``kernels.fit_checked`` for degrees 2 to 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.core.delta import Bools, Float64s, Int64s, combine
from eddyline.kernels.polynomials import HIGH_CLOSED, LOW_CLOSED, multiples

Flags = npt.NDArray[np.uint8]
BOTH = LOW_CLOSED | HIGH_CLOSED


@dataclass(frozen=True, slots=True)
class Value:
    """One polynomial for each piece, (pieces, degree + 1). ``root``: the value is its square root. ``over``: the value
    is the quotient by this polynomial, which is positive. ``error``: a polynomial that is nowhere on the piece below
    the distance between the value and what it stands for, before the division by ``over``; None: no promise."""

    c: Float64s
    root: bool = False
    over: Float64s | None = None
    error: Float64s | None = None

    @property
    def plain(self) -> bool:
        return not self.root and self.over is None

    def take(self, index: Int64s) -> Value:
        over, error = (None if a is None else a.take(index, axis=0) for a in (self.over, self.error))
        return Value(self.c.take(index, axis=0), self.root, over, error)

    def shifted(self, by: Float64s) -> Value:
        """The same function of the time since another base, which is ``by`` behind the old one."""
        over, error = (None if a is None else shifted(a, by) for a in (self.over, self.error))
        return Value(shifted(self.c, by), self.root, over, error)

    def at(self, x: Float64s) -> Float64s:
        """The value of each piece at x, which is (t − base)·scale."""
        y = horner(self.c, x)
        if self.root:
            y = np.sqrt(np.maximum(y, 0.0))
        if self.over is None:
            return y
        over = horner(self.over, x)
        held = over > 0.0  # where a window begins to cover something, it covers nothing yet
        quotient: Float64s = np.divide(y, over, out=np.full(len(y), np.nan), where=held)
        return quotient

    def error_at(self, x: Float64s) -> Float64s:
        """How far the value of each piece may be from what it stands for, at x."""
        if self.error is None:
            return np.zeros(len(self.c))
        return Value(self.error, over=self.over).at(x)


@dataclass(frozen=True, slots=True)
class Intervals:
    """Parts of the intervals of numbered rows, in order of (row, low), disjoint within a row."""

    row: Int64s
    low: Float64s
    high: Float64s
    closed: Flags


@dataclass(frozen=True, slots=True)
class Pieces:
    low: Float64s
    high: Float64s
    closed: Flags
    base: Float64s
    values: Mapping[str, Value]
    columns: Mapping[str, pa.Array]
    doubt: Bools | None = None  # pieces that only errors within their bounds may make true; None: there are none

    def __len__(self) -> int:
        return len(self.low)

    @property
    def intervals(self) -> Intervals:
        return Intervals(np.arange(len(self)), self.low, self.high, self.closed)

    def take(self, index: Int64s) -> Pieces:
        where = pa.array(index)
        return Pieces(
            self.low.take(index), self.high.take(index), self.closed.take(index), self.base.take(index),
            {n: v.take(index) for n, v in self.values.items()}, {n: c.take(where) for n, c in self.columns.items()},
            None if self.doubt is None else self.doubt[index],
        )  # fmt: skip

    def cut(self, by: Intervals) -> Pieces:
        """The pieces on these intervals only."""
        if len(by.row) == len(self) and np.array_equal(by.row, np.arange(len(self))):
            return Pieces(by.low, by.high, by.closed, self.base, self.values, self.columns, self.doubt)
        p = self.take(by.row)
        return Pieces(by.low, by.high, by.closed, p.base, p.values, p.columns, p.doubt)

    def with_columns(self, values: Mapping[str, Value], columns: Mapping[str, pa.Array]) -> Pieces:
        return Pieces(self.low, self.high, self.closed, self.base, values, columns, self.doubt)

    def with_doubt(self, doubt: Bools | None) -> Pieces:
        return Pieces(self.low, self.high, self.closed, self.base, self.values, self.columns, doubt)

    def rebased(self, base: Float64s, scale: float) -> Pieces:
        """The same functions, of the time since another base."""
        by = (base - self.base) * scale
        if not by.any():
            return self
        values = {n: v.shifted(by) for n, v in self.values.items()}
        return Pieces(self.low, self.high, self.closed, base, values, self.columns, self.doubt)


@dataclass(frozen=True, slots=True)
class Grid:
    """The instants that are asked for: multiples of ``step`` from ``start`` on and before ``stop``."""

    step: float
    start: float
    stop: float

    def multiples(self, low: Float64s, high: Float64s, closed: Flags) -> tuple[Float64s, Float64s]:
        """The numbers of the first and of the last instant in each interval."""
        first, last = np.empty(len(low)), np.empty(len(low))
        multiples(*for_kernel(low, high, closed), self.step, self.start, self.stop, first, last)
        return first, last

    def held(self, low: Float64s, high: Float64s, closed: Flags) -> Int64s:
        """The intervals with an instant."""
        first, last = self.multiples(low, high, closed)
        return np.flatnonzero(last >= first)


def for_kernel(*arrays: Any) -> tuple[Any, ...]:
    """Arrays as kernels take them: in one stretch, and writable."""
    return tuple(np.require(a, None, ("C", "W")) for a in arrays)


def horner(c: Float64s, x: Float64s) -> Float64s:
    """The polynomials at x.

    >>> horner(np.array([[1.0, 2.0, 3.0], [4.0, 0.0, 1.0]]), np.array([10.0, 2.0])).tolist()
    [321.0, 8.0]
    """
    y: Float64s = c[:, -1].copy()
    for k in range(c.shape[1] - 2, -1, -1):
        y *= x
        y += c[:, k]
    return y


def shifted(c: Float64s, by: Float64s) -> Float64s:
    """From functions of x to functions of x − ``by``: p(x) = q(x − by).

    >>> shifted(np.array([[1.0, 2.0, 3.0]]), np.array([1.0])).tolist()  # 1 + 2x + 3x² at x = 1 + y
    [[6.0, 8.0, 3.0]]
    """
    out = c.copy()
    n = c.shape[1]
    for i in range(n - 1):
        for j in range(n - 2, i - 1, -1):
            out[:, j] += by * out[:, j + 1]
    return out


def padded(c: Float64s, width: int) -> Float64s:
    """With zeros for the powers that are missing."""
    return c if c.shape[1] >= width else np.column_stack([c, np.zeros((len(c), width - c.shape[1]))])


def concat(parts: Sequence[Pieces]) -> Pieces:
    """One after another; values are brought to a common degree."""
    if len(parts) == 1:
        return parts[0]

    def together(arrays: Sequence[Float64s | None]) -> Float64s | None:
        given = [a for a in arrays if a is not None]
        width = max((a.shape[1] for a in given), default=0)
        return np.concatenate([padded(a, width) for a in given]) if given else None

    def joined(name: str) -> Value:
        found = [p.values[name] for p in parts]
        c = together([v.c for v in found])
        assert c is not None
        return Value(c, found[0].root, together([v.over for v in found]), together([v.error for v in found]))

    doubt = None
    if any(p.doubt is not None for p in parts):
        doubt = np.concatenate([np.zeros(len(p), np.bool_) if p.doubt is None else p.doubt for p in parts])
    return Pieces(
        np.concatenate([p.low for p in parts]), np.concatenate([p.high for p in parts]),
        np.concatenate([p.closed for p in parts]), np.concatenate([p.base for p in parts]),
        {n: joined(n) for n in parts[0].values},
        {n: combine([p.columns[n] for p in parts]) for n in parts[0].columns}, doubt,
    )  # fmt: skip
