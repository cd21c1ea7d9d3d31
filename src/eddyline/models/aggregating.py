"""Aggregates of models (Pulse 2.4): envelopes over keys and over time, and integrals over windows.

``min`` and ``max`` at t are those of all keys' models that are defined at t; with a window of w, the infimum and
supremum over (t − w, t]. ``sum`` is ∫ x ds over the window, ``avg`` the same divided by w, of one key's model. Windows
that are not wholly covered have no value, unless they may be partial: then ``avg`` divides by what is covered. A piece
counts at its ends where it is closed; of a window single instants are no part. The extreme of square roots is the root
of the extreme of what is below them, since the root is monotonic.

The infimum over a sliding window is an envelope, too: a stretch on which x is monotone is represented, while the window
covers it, by a constant (its lower end) and by x(t) at the head of the window or x(t − w) at its tail.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Bools, Float64s, Int64s
from eddyline.kernels.envelope import clip, lower_envelope
from eddyline.kernels.envelope_points import least_at, with_instants
from eddyline.kernels.polynomials import EQ, HIGH_CLOSED, LOW_CLOSED
from eddyline.kernels.polynomials import solve as solve_kernel
from eddyline.kernels.sliding_steps import sliding_steps
from eddyline.kernels.window_integral import window_integral
from eddyline.models.pieces import Flags, Pieces, Value, for_kernel, horner, shifted
from eddyline.synopses.keys import numbered


def aggregate(
    pieces: Pieces, groups: Sequence[str], function: str, argument: str, name: str, width: float, partial: bool,
    scale: float, order: Sequence[str] = (),
) -> Pieces:  # fmt: skip
    """One aggregate of the value ``argument`` by the constant columns ``groups``, as the value ``name``. Ties between
    keys go to the smallest by the columns ``order``."""
    if width > 0:
        wide = np.flatnonzero(pieces.high > pieces.low)
        pieces = pieces.take(wide) if len(wide) < len(pieces) else pieces
    if not len(pieces):
        columns = {g: pieces.columns[g] for g in groups}
        return pieces.with_columns({name: Value(np.zeros((0, 1)), root=_rooted(pieces, function, argument))}, columns)
    columns_of_group = [_plain(pieces.columns[g]) for g in groups]
    code = numbered(columns_of_group, len(pieces))[0] if groups else np.zeros(len(pieces), np.int64)
    integral = function in ("sum", "avg")
    rank = _ranks(pieces, () if integral else order)
    sort = np.lexsort((pieces.low, code) if integral else (rank, pieces.low, code))
    p, code, rank = _only(pieces, groups, argument).take(sort), code.take(sort), rank.take(sort)
    c = np.ascontiguousarray(p.values[argument].c)
    over = None
    if integral:
        group, low, high, closed, out, cover = _integrals(code, c, p, width, partial, function, scale)
        base, over = low, cover if partial and function == "avg" else None
    else:
        group, low, high, closed, base, out = _extremes(code, rank, c, p, width, partial, function, scale)
    first = np.full(int(code.max()) + 1, -1, np.int64)
    first[code[::-1]] = np.arange(len(code))[::-1]
    where = pa.array(first[group])
    columns = {g: p.columns[g].take(where) for g in groups}
    value = Value(out, root=_rooted(p, function, argument), over=over)
    return Pieces(low, high, closed, base, {name: value}, columns)


def _rooted(pieces: Pieces, function: str, argument: str) -> bool:
    """Whether the result is a square root, as the argument of an extreme may be; of an integral lines stand for it."""
    return pieces.values[argument].root and function in ("min", "max")


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
) -> tuple[Int64s, Float64s, Float64s, Flags, Float64s, Float64s]:
    """The window functions, and what length their windows cover (c₀, c₁)."""
    room = 4 * len(p)
    group, low, high = np.empty(room, np.int64), np.empty(room), np.empty(room)
    out, cover = np.empty((room, c.shape[1] + 1)), np.empty((room, 2))
    arrays = for_kernel(p.base, p.low, p.high)
    made = window_integral(code, c, *arrays, scale, width, partial, group, low, high, out, cover)
    group, low, high, out, cover = group[:made], low[:made], high[:made], out[:made], cover[:made]
    closed = np.full(made, LOW_CLOSED, np.uint8)
    if partial:
        closed[cover[:, 0] == 0.0] = 0  # where a window begins to cover something it covers a single instant
    elif (p.closed & HIGH_CLOSED).any():
        group, low, high, closed, out = _at_ends(code, c, p, width, scale, group, low, high, closed, out)
    if function == "avg" and not partial:
        out = out / (width * scale)
    return group, low, high, closed, out, cover


def _at_ends(
    code: Int64s, c: Float64s, p: Pieces, width: float, scale: float, group: Int64s, low: Float64s, high: Float64s,
    closed: Flags, out: Float64s,
) -> tuple[Int64s, Float64s, Float64s, Flags, Float64s]:  # fmt: skip
    """Integrals over whole windows, also at the ends of runs that are closed there; a run that is as long as the window
    has one window."""
    runs, run_low, run_high, ends = _runs(code, p.low, p.high, p.closed)
    whole = (ends & HIGH_CLOSED) > 0
    last = np.flatnonzero(np.r_[(group[1:] != group[:-1]) | (low[1:] != high[:-1]), True][: len(group)])
    closed[last[_among(group[last], high[last], runs[whole], run_high[whole])]] |= HIGH_CLOSED
    only = np.flatnonzero(whole & (run_high == run_low + width))
    if not len(only):
        return group, low, high, closed, out
    inner = shifted(c, (p.low - p.base) * scale) / np.arange(1, c.shape[1] + 1)
    length = (p.high - p.low) * scale
    number = np.cumsum(np.r_[False, (code[1:] != code[:-1]) | (p.low[1:] != p.high[:-1])])
    total = np.zeros((len(only), out.shape[1]))
    total[:, 0] = np.bincount(number, horner(inner, length) * length)[only]
    group, at = np.concatenate([group, runs[only]]), run_high[only]
    low, high, out = np.concatenate([low, at]), np.concatenate([high, at]), np.concatenate([out, total])
    closed = np.concatenate([closed, np.full(len(only), LOW_CLOSED | HIGH_CLOSED, np.uint8)])
    order = np.lexsort((low, group))
    return group[order], low[order], high[order], closed[order], out[order]


def _among(group: Int64s, at: Float64s, groups: Int64s, times: Float64s) -> Bools:
    """Whether each (group, time) is one of the others."""
    pairs = np.concatenate([group, groups]), np.concatenate([at, times])
    order = np.lexsort(pairs[::-1])
    g, t = (a[order] for a in pairs)
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(np.r_[False, (g[1:] != g[:-1]) | (t[1:] != t[:-1])])
    found: Bools = np.isin(number[: len(group)], number[len(group) :])
    return found


def _extremes(
    code: Int64s, rank: Int64s, c: Float64s, p: Pieces, width: float, partial: bool, function: str, scale: float
) -> tuple[Int64s, Float64s, Float64s, Flags, Float64s, Float64s]:
    sign = -1.0 if function == "max" else 1.0
    row, low, high, closed = _envelope(code, sign * c, p.base, p.low, p.high, p.closed, rank, scale)
    group, base, out = code[row], p.base[row], sign * c[row]
    if width > 0:
        group, low, high, closed, base, out = _without_instants(group, low, high, closed, base, out)
        runs = _runs(group, low, high, closed)
        group, low, high, closed, base, out = _sliding(group, low, high, closed, base, out, width, scale)
        if not partial:
            keep, low, high, closed = _covered(group, low, high, closed, runs, width)
            group, base, out = group[keep], base[keep], out[keep]
    return group, low, high, closed, base, sign * out


def _envelope(
    code: Int64s, c: Float64s, base: Float64s, low: Float64s, high: Float64s, closed: Flags, rank: Int64s, scale: float
) -> tuple[Int64s, Float64s, Float64s, Flags]:
    """The rows of the envelope of pieces in order of (code, low), and where they hold."""
    wide = np.flatnonzero(high > low)
    if ((high[wide[:-1]] <= low[wide[1:]]) | (code[wide[:-1]] != code[wide[1:]])).all():
        row, start, end = wide, low[wide], high[wide]  # one at a time: it is its own envelope
    else:
        constant = ~c[wide, 1:].any(axis=1)
        arrays = for_kernel(*(a[wide] for a in (code, c, base, low, high, rank)), constant)
        room, made = 4 * len(wide) + 16, -1
        while made < 0:
            row, start, end = np.empty(room, np.int64), np.empty(room), np.empty(room)
            made = lower_envelope(*arrays, scale, row, start, end)
            room *= 4
        row, start, end = wide[row[:made]], start[:made], end[:made]
    if (closed == LOW_CLOSED).all():
        return row, start, end, np.full(len(row), LOW_CLOSED, np.uint8)
    opens, ends = np.flatnonzero(~closed & LOW_CLOSED), np.flatnonzero(closed & HIGH_CLOSED)
    group, at = np.concatenate([code[opens], code[ends]]), np.concatenate([low[opens], high[ends]])
    order = np.lexsort((at, group))
    group, at = group[order], at[order]
    first = np.r_[True, (group[1:] != group[:-1]) | (at[1:] != at[:-1])][: len(at)]
    group, at = group[first], at[first]
    winner = np.empty(len(at), np.int64)
    least_at(*for_kernel(code, c, base, low, high, closed, rank), scale, *for_kernel(group, at), winner)
    room = len(row) + 2 * len(at)
    rows, begin, to, flags = np.empty(room, np.int64), np.empty(room), np.empty(room), np.empty(room, np.uint8)
    made = with_instants(*for_kernel(code[row], row, start, end, group, at), winner, rows, begin, to, flags)
    return rows[:made], begin[:made], to[:made], flags[:made]


def _without_instants(
    group: Int64s, low: Float64s, high: Float64s, closed: Flags, base: Float64s, c: Float64s
) -> tuple[Int64s, Float64s, Float64s, Flags, Float64s, Float64s]:
    """An envelope's pieces that have a length: one whose end is an instant of another piece holds there, too."""
    wide = high > low
    if wide.all():
        return group, low, high, closed, base, c
    behind = np.r_[~wide[1:] & (group[1:] == group[:-1]) & (low[1:] == high[:-1]), False]
    closed = np.where(behind, closed | HIGH_CLOSED, closed)[wide]
    return group[wide], low[wide], high[wide], closed, base[wide], c[wide]


def _sliding(
    group: Int64s, low: Float64s, high: Float64s, closed: Flags, base: Float64s, c: Float64s, width: float, scale: float
) -> tuple[Int64s, Float64s, Float64s, Flags, Float64s, Float64s]:
    """The infimum over (t − width, t] of pieces that are disjoint within a group."""
    row, begin, end = _monotone(low, high, base, c, scale)
    # What begins within its piece holds there; what begins with it as the piece does.
    flags = np.where(begin == low[row], closed[row], LOW_CLOSED) & LOW_CLOSED
    group, base, c = group[row], base[row], c[row]
    at_begin, at_end = horner(c, (begin - base) * scale), horner(c, (end - base) * scale)
    rises = at_end > at_begin
    flat = np.zeros_like(c)
    flat[:, 0] = np.where(rises, at_begin, at_end)
    # Rising: the lower end while the window covers it, then the tail. Falling: the head, then the lower end.
    moving = shifted(c, (begin - base) * scale)
    moving_low = np.where(rises, begin + width, begin)
    moving_high = np.where(rises, end + width, end)
    moving_flags = np.where(rises, LOW_CLOSED, flags)
    flat_low = np.where(rises, begin, end)
    flat_flags = np.where(rises, flags, LOW_CLOSED)
    # Points inside the window are steps first: an envelope compares all pieces that hold at an instant.
    steps, step_low, step_high = _steps(group, flat_low, flat[:, 0], width)
    step_flags = np.where(step_low == flat_low[steps], flat_flags[steps], LOW_CLOSED)
    groups = np.concatenate([group.take(steps), group])
    lows, highs = np.concatenate([step_low, moving_low]), np.concatenate([step_high, moving_high])
    bases = np.concatenate([step_low, moving_low])
    every = np.concatenate([flat.take(steps, axis=0), moving])
    both = np.concatenate([step_flags, moving_flags]).astype(np.uint8)
    order = np.lexsort((lows, groups))
    groups, both = groups.take(order), both.take(order)
    lows, highs, bases = lows.take(order), highs.take(order), bases.take(order)
    every = every.take(order, axis=0)  # twice as fast as an index in brackets
    ranks = np.zeros(len(groups), np.int64)
    row, low, high, closed = _envelope(groups, every, bases, lows, highs, both, ranks, scale)
    return groups.take(row), low, high, closed, bases.take(row), every.take(row, axis=0)


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


def _runs(group: Int64s, low: Float64s, high: Float64s, closed: Flags) -> tuple[Int64s, Float64s, Float64s, Flags]:
    """Stretches without a gap, with the closedness of their ends."""
    first = np.r_[True, (group[1:] != group[:-1]) | (low[1:] != high[:-1])]
    last = np.r_[first[1:], True]
    ends: Flags = ((closed[first] & LOW_CLOSED) | (closed[last] & HIGH_CLOSED)).astype(np.uint8)
    return group[first], low[first], high[last], ends


def _covered(
    group: Int64s, low: Float64s, high: Float64s, closed: Flags,
    runs: tuple[Int64s, Float64s, Float64s, Flags], width: float,
) -> tuple[Int64s, Float64s, Float64s, Flags]:  # fmt: skip
    """The rows, and what of them lies where the whole window is covered: from run.low + width to the run's end."""
    run_group, run_low, run_high, ends = runs
    keep = run_high > run_low + width
    keep |= (run_high == run_low + width) & (ends & HIGH_CLOSED > 0)
    wanted = for_kernel(run_group[keep], run_low[keep] + width, run_high[keep], ends[keep])
    room = len(group) + len(wanted[0])
    row, begin, end, flags = np.empty(room, np.int64), np.empty(room), np.empty(room), np.empty(room, np.uint8)
    made = clip(*for_kernel(group, low, high, closed), *wanted, row, begin, end, flags)
    return row[:made], begin[:made], end[:made], flags[:made]
