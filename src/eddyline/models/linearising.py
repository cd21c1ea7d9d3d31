"""Square roots of polynomials as lines, with a certified error: what an average of a distance is computed from.

The second derivative of √p has one sign wherever p, of degree 2 at most, is positive: (4ac − b²)/(4 p^{3/2}). So the
difference g between √p and its chord on an interval is zero at both ends and concave or convex between them, and |g| is
nowhere more than twice |g| in the middle. The chord moved by g in the middle is within |g(middle)| of √p everywhere.
Intervals are halved until that is small enough, which takes most of them where the distance turns round.
"""

from __future__ import annotations

import numpy as np

from eddyline.core.delta import Float64s, Int64s
from eddyline.kernels.polynomials import HIGH_CLOSED, LOW_CLOSED
from eddyline.models.arithmetic import magnitude
from eddyline.models.pieces import Intervals, Pieces, Value

LINE_ERROR_SHARE = 2.0**-16  # of the largest value of a piece: what the lines may be away from its root
ROUNDING = 2.0**-48  # of the sum of the terms' magnitudes: what rounding makes of p, and its root of √p near zero
DEEPEST = 24  # halvings of a piece


def linearised(pieces: Pieces, name: str, scale: float) -> Pieces:
    """The pieces cut so that the square root ``name`` is a line on each; its error grows by what the line is away."""
    value = pieces.values[name]
    row, low, high = _cuts(pieces, value, scale)
    first = np.r_[True, row[1:] != row[:-1]]
    last = np.r_[first[1:], True]
    begins = np.where(first, pieces.closed[row] & LOW_CLOSED, LOW_CLOSED)
    ends = np.where(last, pieces.closed[row] & HIGH_CLOSED, 0)
    cut = pieces.cut(Intervals(row, low, high, (begins | ends).astype(np.uint8)))
    at_low, at_high, gap, x = _chords(value.take(row), pieces.base[row], low, high, scale)
    width = (high - low) * scale
    slope = np.divide(at_high - at_low, width, out=np.zeros(len(row)), where=width > 0)
    line = np.column_stack([at_low + gap - slope * x, slope])
    error = cut.values[name].error
    if error is not None:
        error = error.copy()
        error[:, 0] += np.abs(gap) + _rounding(cut, name, scale)
    return cut.with_columns({**cut.values, name: Value(line, error=error)}, cut.columns)


def with_rounding(pieces: Pieces, name: str, scale: float) -> Pieces:
    """The pieces with what rounding makes of the square root ``name`` as part of its error: an extreme of it is near
    zero as often as not, where the root of a rounded number is far from the root of the number itself."""
    value = pieces.values[name]
    if value.error is None:
        return pieces
    error = value.error.copy()
    error[:, 0] += _rounding(pieces, name, scale)
    return pieces.with_columns({**pieces.values, name: Value(value.c, root=True, error=error)}, pieces.columns)


def _rounding(pieces: Pieces, name: str, scale: float) -> Float64s:
    """|√(p + δ) − √p| ≤ √δ, with δ the rounding of the largest terms on a piece."""
    x, y = (pieces.low - pieces.base) * scale, (pieces.high - pieces.base) * scale
    terms = magnitude(pieces.values[name].c, np.maximum(np.abs(x), np.abs(y)))
    return np.sqrt(ROUNDING * terms)


def _cuts(pieces: Pieces, value: Value, scale: float) -> tuple[Int64s, Float64s, Float64s]:
    row, low, high = np.arange(len(pieces)), pieces.low, pieces.high
    at_low, at_high, _, _ = _chords(value, pieces.base, low, high, scale)
    allowed = LINE_ERROR_SHARE * np.maximum(at_low, at_high)
    done: list[tuple[Int64s, Float64s, Float64s]] = []
    for _ in range(DEEPEST):
        gap = np.abs(_chords(value.take(row), pieces.base[row], low, high, scale)[2])
        far = gap > allowed[row]
        done.append((row[~far], low[~far], high[~far]))
        row, low, high = row[far], low[far], high[far]
        if not len(row):
            break
        middle = 0.5 * (low + high)
        row, low, high = np.r_[row, row], np.r_[low, middle], np.r_[middle, high]
    done.append((row, low, high))
    rows, lows, highs = (np.concatenate(part) for part in zip(*done, strict=True))
    order = np.lexsort((lows, rows))
    return rows[order], lows[order], highs[order]


def _chords(
    value: Value, base: Float64s, low: Float64s, high: Float64s, scale: float
) -> tuple[Float64s, Float64s, Float64s, Float64s]:
    """The root at both ends, how far it is above the chord in the middle, and the low end as the value takes it."""
    x, y = (low - base) * scale, (high - base) * scale
    at_low, at_high = value.at(x), value.at(y)
    return at_low, at_high, value.at(0.5 * (x + y)) - 0.5 * (at_low + at_high), x
