"""Aggregates of models (Pulse 2.4): envelopes over keys and over time, and integrals over windows.

``min`` and ``max`` at t are those of all keys' models that are defined at t; with a window of w, the infimum and
supremum over (t − w, t]. ``sum`` is ∫ x ds over the window, ``avg`` the same divided by w, of one key's model. Windows
that are not wholly covered have no value, unless they may be partial: then ``avg`` divides by what is covered.

The infimum over a sliding window is an envelope, too: a stretch on which x is monotone is represented, while the window
covers it, by a constant (its lower end) and by x(t) at the head of the window or x(t − w) at its tail.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Float64s, Int64s
from eddyline.kernels.envelope import clip, lower_envelope
from eddyline.kernels.polynomials import EQ, LOW_CLOSED
from eddyline.kernels.polynomials import solve as solve_kernel
from eddyline.kernels.sliding_steps import sliding_steps
from eddyline.kernels.window_integral import window_integral
from eddyline.models.pieces import Pieces, Value, for_kernel, horner, shifted
from eddyline.synopses.keys import numbered


def aggregate(
    pieces: Pieces, groups: Sequence[str], function: str, argument: str, name: str, width: float, partial: bool,
    scale: float, order: Sequence[str] = (),
) -> Pieces:  # fmt: skip
    """One aggregate of the value ``argument`` by the constant columns ``groups``, as the value ``name``. Ties between
    keys go to the smallest by the columns ``order``."""
    wide = np.flatnonzero(pieces.high > pieces.low)  # a single instant has no length, and no envelope
    pieces = pieces.take(wide) if len(wide) < len(pieces) else pieces
    if not len(pieces):
        columns = {g: pieces.columns[g] for g in groups}
        return pieces.with_columns({name: Value(np.zeros((0, 1)))}, columns)
    columns_of_group = [_plain(pieces.columns[g]) for g in groups]
    code = numbered(columns_of_group, len(pieces))[0] if groups else np.zeros(len(pieces), np.int64)
    integral = function in ("sum", "avg")
    rank = _ranks(pieces, () if integral else order)
    sort = np.lexsort((pieces.low, code) if integral else (rank, pieces.low, code))
    p, code, rank = _only(pieces, groups, argument).take(sort), code.take(sort), rank.take(sort)
    c = np.ascontiguousarray(p.values[argument].c)
    if integral:
        group, low, high, out, over = _integrals(code, c, p, width, partial, function, scale)
        base = low
    else:
        group, low, high, base, out = _extremes(code, rank, c, p, width, partial, function, scale)
        over = None
    first = np.full(int(code.max()) + 1, -1, np.int64)
    first[code[::-1]] = np.arange(len(code))[::-1]
    where = pa.array(first[group])
    columns = {g: p.columns[g].take(where) for g in groups}
    closed = np.full(len(low), LOW_CLOSED, np.uint8)
    return Pieces(low, high, closed, base, {name: Value(out, over=over)}, columns)


def _only(pieces: Pieces, columns: Sequence[str], value: str) -> Pieces:
    """Without what an aggregate does not read: every column costs a copy."""
    return pieces.with_columns({value: pieces.values[value]}, {c: pieces.columns[c] for c in columns})


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _ranks(pieces: Pieces, order: Sequence[str]) -> Int64s:
    """Numbers in the order of the keys' values."""
    if not order:
        return np.zeros(len(pieces), np.int64)
    table = pa.table({str(i): _plain(pieces.columns[n]) for i, n in enumerate(order)})
    index = pa.compute.sort_indices(table, sort_keys=[(str(i), "ascending") for i in range(len(order))]).to_numpy()
    codes, _ = numbered([_plain(pieces.columns[n]) for n in order], len(pieces))
    along = codes[index]
    rank = np.empty(len(pieces), np.int64)
    rank[index] = np.cumsum(np.r_[0, along[1:] != along[:-1]])
    return rank


def _integrals(
    code: Int64s, c: Float64s, p: Pieces, width: float, partial: bool, function: str, scale: float
) -> tuple[Int64s, Float64s, Float64s, Float64s, Float64s | None]:
    room = 4 * len(p)
    group, low, high = np.empty(room, np.int64), np.empty(room), np.empty(room)
    out, cover = np.empty((room, c.shape[1] + 1)), np.empty((room, 2))
    arrays = for_kernel(p.base, p.low, p.high)
    made = window_integral(code, c, *arrays, scale, width, partial, group, low, high, out, cover)
    out, cover = out[:made], cover[:made]
    over = None
    if function == "avg":
        if partial:
            over = cover
        else:
            out = out / (width * scale)
    return group[:made], low[:made], high[:made], out, over


def _extremes(
    code: Int64s, rank: Int64s, c: Float64s, p: Pieces, width: float, partial: bool, function: str, scale: float
) -> tuple[Int64s, Float64s, Float64s, Float64s, Float64s]:
    sign = -1.0 if function == "max" else 1.0
    row, low, high = _envelope(code, sign * c, p.base, p.low, p.high, rank, scale)
    group, base, out = code[row], p.base[row], sign * c[row]
    if width > 0:
        runs = _runs(group, low, high)
        group, low, high, base, out = _sliding(group, low, high, base, out, width, scale)
        if not partial:
            keep, low, high = _covered(group, low, high, runs, width)
            group, base, out = group[keep], base[keep], out[keep]
    return group, low, high, base, sign * out


def _envelope(
    code: Int64s, c: Float64s, base: Float64s, low: Float64s, high: Float64s, rank: Int64s, scale: float
) -> tuple[Int64s, Float64s, Float64s]:
    if ((high[:-1] <= low[1:]) | (code[:-1] != code[1:])).all():
        return np.arange(len(code)), low, high  # one at a time: it is its own envelope
    constant = ~c[:, 1:].any(axis=1)
    arrays = for_kernel(code, c, base, low, high, rank, constant)
    room = 4 * len(code) + 16
    while True:
        row, start, end = np.empty(room, np.int64), np.empty(room), np.empty(room)
        made = lower_envelope(*arrays, scale, row, start, end)
        if made >= 0:
            return row[:made], start[:made], end[:made]
        room *= 4


def _sliding(
    group: Int64s, low: Float64s, high: Float64s, base: Float64s, c: Float64s, width: float, scale: float
) -> tuple[Int64s, Float64s, Float64s, Float64s, Float64s]:
    """The infimum over (t − width, t] of pieces that are disjoint within a group."""
    row, begin, end = _monotone(low, high, base, c, scale)
    group, base, c = group[row], base[row], c[row]
    at_begin, at_end = horner(c, (begin - base) * scale), horner(c, (end - base) * scale)
    rises = at_end > at_begin
    flat = np.zeros_like(c)
    flat[:, 0] = np.where(rises, at_begin, at_end)
    # Rising: the lower end while the window covers it, then the tail. Falling: the head, then the lower end.
    moving = shifted(c, (begin - base) * scale)
    moving_low = np.where(rises, begin + width, begin)
    moving_high = np.where(rises, end + width, end)
    flat_low = np.where(rises, begin, end)
    # Points inside the window are steps first: an envelope compares all pieces that hold at an instant.
    steps, flat_low, flat_high = _steps(group, flat_low, flat[:, 0], width)
    groups = np.concatenate([group[steps], group])
    lows, highs = np.concatenate([flat_low, moving_low]), np.concatenate([flat_high, moving_high])
    bases, every = np.concatenate([flat_low, moving_low]), np.concatenate([flat[steps], moving])
    order = np.lexsort((lows, groups))
    groups, lows, highs, bases, every = groups[order], lows[order], highs[order], bases[order], every[order]
    ranks = np.zeros(len(groups), np.int64)
    row, low, high = _envelope(groups, every, bases, lows, highs, ranks, scale)
    return groups[row], low, high, bases[row], every[row]


def _steps(group: Int64s, low: Float64s, value: Float64s, width: float) -> tuple[Int64s, Float64s, Float64s]:
    """The smallest of numbers that hold for a width each: the rows, and from when to when."""
    room = 2 * len(group)
    row, begin, end = np.empty(room, np.int64), np.empty(room), np.empty(room)
    made = sliding_steps(*for_kernel(group, low, value), width, row, begin, end)
    return row[:made], begin[:made], end[:made]


def _monotone(
    low: Float64s, high: Float64s, base: Float64s, c: Float64s, scale: float
) -> tuple[Int64s, Float64s, Float64s]:
    """Pieces cut where their derivative vanishes."""
    n = len(low)
    if c.shape[1] <= 2:
        return np.arange(n), low, high
    slope = np.ascontiguousarray(c[:, 1:] * np.arange(1, c.shape[1]))
    reach = np.maximum(np.abs(low - base), np.abs(high - base)) * scale
    room = n * (slope.shape[1] + 1)
    row, at, to, closed = np.empty(room, np.int64), np.empty(room), np.empty(room), np.empty(room, np.uint8)
    arrays = for_kernel(base, low, high)
    open_ends = np.zeros(n, np.uint8)
    made = solve_kernel(slope, horner(np.abs(slope), reach), scale, *arrays, open_ends, EQ, row, at, to, closed)
    points = at[:made] == to[:made]
    rows = np.concatenate([np.arange(n), row[:made][points]])
    starts = np.concatenate([low, at[:made][points]])
    order = np.lexsort((starts, rows))
    rows, starts = rows[order], starts[order]
    ends = np.where(np.r_[rows[1:] == rows[:-1], False], np.r_[starts[1:], 0.0], high[rows])
    return rows, starts, ends


def _runs(group: Int64s, low: Float64s, high: Float64s) -> tuple[Int64s, Float64s, Float64s]:
    """Stretches without a gap."""
    first = np.r_[True, (group[1:] != group[:-1]) | (low[1:] != high[:-1])]
    last = np.r_[first[1:], True]
    return group[first], low[first], high[last]


def _covered(
    group: Int64s, low: Float64s, high: Float64s, runs: tuple[Int64s, Float64s, Float64s], width: float
) -> tuple[Int64s, Float64s, Float64s]:
    """The rows, and what of them lies where the whole window is covered: run.low + width ≤ t < run.high."""
    run_group, run_low, run_high = runs
    keep = run_high > run_low + width
    wanted = for_kernel(run_group[keep], run_low[keep] + width, run_high[keep])
    room = len(group) + len(wanted[0])
    row, begin, end = np.empty(room, np.int64), np.empty(room), np.empty(room)
    made = clip(*for_kernel(group, low, high), *wanted, row, begin, end)
    return row[:made], begin[:made], end[:made]
