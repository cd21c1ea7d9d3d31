"""Fitting: samples of many keys, in order of arrival, become segments within an error bound.

The bound holds for every sample that is fitted: |model(t) − value| ≤ bound, where a relative bound is that share of
|value| and never less than a floor. What is not fitted is counted: a sample before the last one of its key is late, one
of the same instant with another value is a violation, one that is NULL or not finite is invalid.

Segments of degree 0 and 1 are as few as disjoint runs of samples allow (``kernels.fit``); those of degree 2 to 4 are
checked (``kernels.fit_checked``). How the samples were cut into batches does not show in the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from eddyline.core.arguments import shown
from eddyline.core.delta import Bools, Float64s, Int64s
from eddyline.core.errors import JobError
from eddyline.kernels.fit import LATE, REPEATED, VIOLATIONS, fit_greedy, group_rows
from eddyline.kernels.fit_checked import fit_checked, fit_keogh
from eddyline.kernels.fit_line import fit_lines
from eddyline.models.near_keys import NearKeys
from eddyline.models.pieces import for_kernel
from eddyline.models.segments import MAX_INPUT_DEGREE, SegmentLayout, polynomial_array
from eddyline.synopses.keys import KeyTable

CW: Final = ("C", "W")  # as kernels take arrays
ROUNDING = 2.0**-48  # of a value: what the bound is narrowed by, so that rounding does not break it


@dataclass(frozen=True, slots=True)
class ErrorBound:
    """``amount`` is absolute, or relative to |value| with an absolute ``floor``."""

    amount: float
    relative: bool = False
    floor: float = 0.0

    @staticmethod
    def of(value: float | str | ErrorBound, floor: float = 0.0) -> ErrorBound:
        """
        >>> ErrorBound.of("0.05%"), ErrorBound.of(0.5)
        (ErrorBound(amount=0.0005, relative=True, floor=0.0), ErrorBound(amount=0.5, relative=False, floor=0.0))
        """
        if isinstance(value, ErrorBound):
            return value
        text = str(value).strip()
        relative = text.endswith("%")
        amount = _not_negative(
            text.removesuffix("%"), value, "error", "an error bound is a number or a percentage such as '0.05%'"
        )
        floor = _not_negative(floor, floor, "floor", "the floor of a relative error bound is a number")
        return ErrorBound(amount / 100 if relative else amount, relative, floor)

    def at(self, values: Float64s) -> Float64s:
        """The bound of each value."""
        if not self.relative:
            return np.full(values.shape, self.amount)
        bounds: Float64s = np.maximum(self.amount * np.abs(values), self.floor)
        return bounds

    def narrowed(self, values: Float64s) -> Float64s:
        """The bound of each value, narrowed so that rounding does not break it."""
        return narrowed(self.at(values) if self.relative else self.amount, values)

    def __str__(self) -> str:
        if not self.relative:
            return f"{self.amount:g}"
        return f"{self.amount * 100:.4g}%" + (f" (floor {self.floor:.4g})" if self.floor else "")


def _not_negative(text: Any, given: Any, name: str, wanted: str) -> float:
    try:
        number = float(text)
    except (TypeError, ValueError):
        number = np.nan
    if isinstance(given, bool | bytes) or (np.isnan(number) and not isinstance(given, float)):
        raise JobError(f"{wanted}, not {repr(given) if isinstance(given, str) else shown(given)}.")
    if not (np.isfinite(number) and number >= 0):
        raise JobError(f"{name} is finite and not negative, and {given!r} is not.")
    return number


def narrowed(bounds: Float64s | float, values: Float64s) -> Float64s:
    """Bounds of values, narrowed so that rounding does not break them."""
    found: Float64s = np.abs(values)
    found *= ROUNDING
    np.minimum(found, bounds / 2, out=found)
    np.subtract(bounds, found, out=found)
    return found


@dataclass(slots=True)
class FitCounts:
    samples: int = 0
    late: int = 0
    violations: int = 0
    repeated: int = 0
    invalid: int = 0


@dataclass(slots=True)
class _Made:
    """Segments in the order in which they were completed."""

    out: list[Int64s] = field(default_factory=list)
    coefficients: list[Float64s] = field(default_factory=list)


class Fitter:
    """Fits online. ``add`` takes a batch, ``finish`` ends all segments, ``table`` gives those that are complete.

    Parameters
    ----------
    degree
        Of the polynomials, 0 to 4: a higher one needs fewer segments of a smooth signal and more work for each.
    max_gap
        Ticks of silence after which a segment ends with its last sample. Without it a segment reaches to the next one,
        however far that is.
    interpolate
        Neighbouring segments share a sample, so that the bound also holds for the linear interpolation between any two
        samples. It costs a sample for each segment. For degree 1.
    longest, most
        Ticks and samples that a segment holds at most, for degrees 0 and 1: what bounds how long one may stay open.
    """

    def __init__(
        self, layout: SegmentLayout, keys: Sequence[pa.DataType], errors: Sequence[ErrorBound], degree: int = 1,
        max_gap: int | None = None, interpolate: bool = False, longest: int = 0, most: int = 0,
    ) -> None:  # fmt: skip
        if isinstance(degree, bool) or not isinstance(degree, int) or not 0 <= degree <= MAX_INPUT_DEGREE:
            raise JobError(f"degree is a whole number from 0 to {MAX_INPUT_DEGREE}, not {degree!r}.")
        if interpolate and degree != 1:
            raise JobError(f"interpolate needs degree 1, not {degree}: the interpolation of samples is linear.")
        self.layout, self.key_types, self.errors, self.degree = layout, tuple(keys), tuple(errors), degree
        self.gap, self.share, self.longest, self.most = max_gap or 0, interpolate, longest, most
        self.table_of_keys = KeyTable(keys)
        self._near_keys = NearKeys()
        self.counts = FitCounts()
        self._made = _Made()
        self.segments_by_key: Int64s | None = None  # complete ones, where they are counted
        width = len(errors)
        self._open = np.zeros((0, 3), np.int64)
        self._state = np.zeros((0, width, 6))
        self._hull = np.empty(0), np.empty(0)
        self._hull_at = np.zeros((0, 2 * width + 1), np.int64)
        # Of higher degrees: the last time of each key, and the samples of open segments by key.
        self._last_time: dict[int, int] = {}
        self._waiting: tuple[Int64s, Int64s, Float64s, Float64s] = (
            np.empty(0, np.int64), np.empty(0, np.int64), np.empty((width, 0)), np.empty((width, 0)),
        )  # fmt: skip

    def add(
        self, keys: Sequence[pa.Array], time: Int64s, values: Float64s, invalid: Bools | None = None,
        bounds: Float64s | None = None,
    ) -> None:  # fmt: skip
        """Samples in order of arrival; ``values`` is (rows, values), and so are ``bounds``, which are those of
        ``errors`` if they are not given."""
        good = np.isfinite(values[:, 0]) if values.shape[1] == 1 else np.isfinite(values).all(axis=1)
        if invalid is not None:
            good &= ~invalid
        if not good.all():
            self.counts.invalid += int((~good).sum())
            mask = pa.array(good)
            keys, time, values = [k.filter(mask) for k in keys], time[good], values[good]
            bounds = None if bounds is None else bounds[good]
        n = len(time)
        self.counts.samples += n
        if n == 0:
            return
        self.add_coded(self.codes(keys, n), time, values, bounds)

    def add_coded(self, code: Int64s, time: Int64s, values: Float64s, bounds: Float64s | None = None) -> None:
        """Samples that are numbers, by the numbers of their keys (``codes``)."""
        n, known = len(time), self.known_keys
        values = np.require(values, requirements=CW)
        if bounds is not None:
            bounds = narrowed(bounds, values)
        elif len(self.errors) == 1:
            bounds = self.errors[0].narrowed(values)
        else:
            bounds = np.column_stack([e.narrowed(values[:, j]) for j, e in enumerate(self.errors)])
        begin, order = np.zeros(known + 1, np.int64), np.empty(n, np.int64)
        group_rows(np.require(code, requirements=CW), begin, order)
        if self.degree <= 1:
            self._greedy(begin, order, np.require(time, requirements=CW), values, bounds)
        else:
            self._checked(code[order], time[order], values[order].T, bounds[order].T, known, final=False)

    @property
    def known_keys(self) -> int:
        """One more than the largest number of a key."""
        return max(1, self.table_of_keys.capacity) if self.key_types else 1

    def codes(self, keys: Sequence[pa.Array], n: int) -> Int64s:
        """Numbers of the keys. Of one key of whole numbers that lie near each other only new ones are looked up, in
        the order in which they come first."""
        if not keys:
            return np.zeros(n, np.int64)
        one = keys[0]
        near = len(keys) == 1 and pa.types.is_integer(one.type) and one.type != pa.uint64()
        if near and not one.null_count:
            found = self._near_keys.numbers(one, self.table_of_keys)
            if found is not None:
                return found
        return self.table_of_keys.intern(list(keys), n)

    def _greedy(self, begin: Int64s, order: Int64s, time: Int64s, values: Float64s, bounds: Float64s) -> None:
        known, width = len(begin) - 1, values.shape[1]
        more = known - len(self._open)
        if more > 0:
            self._open = np.concatenate([self._open, np.zeros((more, 3), np.int64)])
            self._state = np.concatenate([self._state, np.zeros((more, width, 6))])
            at = np.full((more, 2 * width + 1), len(self._hull[0]), np.int64)
            self._hull_at = np.concatenate([self._hull_at, at])
        room = len(self._hull[0]) + 2 * width * (len(time) + known) if self.degree == 1 else 1
        new_x, new_y, new_at = np.empty(room), np.empty(room), np.empty_like(self._hull_at)
        out = np.empty((len(time), 4), np.int64)
        coefficients = np.zeros((len(time), width, self.degree + 1))
        counts = np.zeros(3, np.int64)
        if self._lines_only:
            made = fit_lines(
                begin, order, time, values, bounds, self.layout.scale, self.gap, self._open, self._state, *self._hull,
                self._hull_at, new_x, new_y, new_at, out, coefficients, counts,
            )  # fmt: skip
        else:
            made = fit_greedy(
                begin, order, time, values, bounds, self.layout.scale, self.degree, self.gap, self.longest,
                self.most, self.share, self._open, self._state, *self._hull, self._hull_at, new_x, new_y, new_at, out,
                coefficients, counts,
            )  # fmt: skip
        end = int(new_at[-1, -1])
        self._hull, self._hull_at = (new_x[:end].copy(), new_y[:end].copy()), new_at
        self._count(counts)
        self._keep(out[:made], coefficients[:made])

    @property
    def _lines_only(self) -> bool:
        """Whether the kernel for one value and plain lines does what is asked."""
        return len(self.errors) == 1 and self.degree == 1 and not (self.share or self.longest or self.most)

    def _checked(
        self, code: Int64s, time: Int64s, values: Float64s, bounds: Float64s, known: int, *, final: bool
    ) -> None:
        old = self._waiting
        code, time = np.concatenate([old[0], code]), np.concatenate([old[1], time])
        values, bounds = np.concatenate([old[2], values], axis=1), np.concatenate([old[3], bounds], axis=1)
        order = np.argsort(code, kind="stable")
        code, time, values, bounds = code[order], time[order], values[:, order], bounds[:, order]
        keep = self._in_order(code, time, values)
        code, time = code[keep], np.ascontiguousarray(time[keep])
        values, bounds = np.ascontiguousarray(values[:, keep]), np.ascontiguousarray(bounds[:, keep])
        begin = np.searchsorted(code, np.arange(known + 1))
        rest, out = np.empty(known, np.int64), np.empty((len(time), 4), np.int64)
        coefficients = np.zeros((len(time), len(values), self.degree + 1))
        made = fit_checked(
            begin, time, values, bounds, self.layout.scale, self.degree, self.gap, final, rest, out, coefficients
        )
        waits = np.arange(len(time)) >= rest[code]
        self._waiting = code[waits], time[waits], values[:, waits], bounds[:, waits]
        self._keep(out[:made], coefficients[:made])
        if len(time):
            last = np.flatnonzero(np.r_[code[1:] != code[:-1], True])
            self._last_time.update(zip(code[last].tolist(), time[last].tolist(), strict=True))

    def _in_order(self, code: Int64s, time: Int64s, values: Float64s) -> Bools:
        """The samples that are neither late nor of an instant that their key has; the others are counted."""
        n = len(time)
        keep = np.ones(n, np.bool_)
        if n == 0:
            return keep
        first = np.flatnonzero(np.r_[True, code[1:] != code[:-1]])
        start = np.array([self._last_time.get(int(c), np.iinfo(np.int64).min) for c in code[first]])
        waited = np.bincount(self._waiting[0], minlength=int(code.max()) + 1)[code[first]]
        for f, stop, last, w in zip(first, np.r_[first[1:], n], start, waited, strict=True):
            # Samples that waited were judged before.
            fresh = int(f + w)
            if fresh >= stop:
                continue
            before = np.maximum.accumulate(np.r_[last, time[fresh:stop]])[:-1]
            bad = time[fresh:stop] <= before
            for i in np.flatnonzero(bad) + fresh:
                if time[i] < before[i - fresh]:
                    self.counts.late += 1
                else:
                    twin = np.flatnonzero((time[f:i] == time[i]) & keep[f:i])
                    same = len(twin) > 0 and bool((values[:, f + twin[0]] == values[:, i]).all())
                    self.counts.repeated += same
                    self.counts.violations += not same
                keep[i] = False
        return keep

    def _count(self, counts: Int64s) -> None:
        self.counts.late += int(counts[LATE])
        self.counts.violations += int(counts[VIOLATIONS])
        self.counts.repeated += int(counts[REPEATED])

    def _keep(self, out: Int64s, coefficients: Float64s) -> None:
        if len(out):
            self._made.out.append(out.copy())
            self._made.coefficients.append(coefficients.copy())
            if self.segments_by_key is not None:
                more = self.known_keys - len(self.segments_by_key)
                self.segments_by_key = np.concatenate([self.segments_by_key, np.zeros(max(more, 0), np.int64)])
                np.add.at(self.segments_by_key, out[:, 0], 1)

    def segments_of(self, keys: Int64s) -> Int64s:
        """How many segments keys had so far, with the open ones; ``segments_by_key`` is counted."""
        assert self.segments_by_key is not None
        complete, open_ = (np.zeros(self.known_keys, np.int64) for _ in range(2))
        complete[: len(self.segments_by_key)] = self.segments_by_key
        open_[: len(self._open)] = self._open[:, 0] > 0
        found: Int64s = (complete + open_)[keys]
        return found

    def close(self, keys: Int64s) -> None:
        """End the open segments of keys at their last samples, which belong to what comes after them."""
        live = keys[self._open[keys, 0] > 0]
        wide = live[self._open[live, 2] > self._open[live, 1]]
        self._end(wide, behind=0)
        self._open[live, 0] = 0

    def finish(self) -> None:
        """End every open segment one tick behind its last sample."""
        if self.degree > 1:
            none = np.empty(0, np.int64)
            width = len(self.errors)
            empty = np.empty((width, 0))
            self._checked(none, none, empty, empty, max(1, self.table_of_keys.capacity), final=True)
            return
        self._end(np.flatnonzero(self._open[:, 0] > 0))
        self._hull, self._hull_at = (np.empty(0), np.empty(0)), np.zeros_like(self._hull_at)

    def end_silent(self, now: int) -> None:
        """End the segments of degree 0 and 1 to which a sample behind ``now`` cannot belong: it is beyond the gap."""
        if self.gap:
            self._end(np.flatnonzero((self._open[:, 0] > 0) & (now - self._open[:, 2] > self.gap)))

    @property
    def open_segments(self) -> Int64s:
        """(samples, first time, last time) of each key's segment that is not complete; no samples: it has none."""
        return self._open

    @property
    def nbytes(self) -> int:
        arrays = (self._open, self._state, *self._hull, self._hull_at)
        return self.table_of_keys.nbytes + self._near_keys.nbytes + sum(int(a.nbytes) for a in arrays)

    def open_since(self) -> int | None:
        """Where the first segment of degree 0 or 1 begins that is not complete; None: all are."""
        live = self._open[:, 0] > 0
        return int(self._open[live, 1].min()) if live.any() else None

    def _end(self, live: Int64s, behind: int = 1) -> None:
        out = np.column_stack([live, self._open[live, 1], self._open[live, 2] + behind, self._open[live, 0]])
        coefficients = np.zeros((len(live), len(self.errors), self.degree + 1))
        coefficients[:, :, 0] = 0.5 * self._state[live, :, 0] + 0.5 * self._state[live, :, 2]
        if self.degree == 1:
            coefficients[:, :, 1] = 0.5 * self._state[live, :, 1] + 0.5 * self._state[live, :, 3]
        self._open[live, 0] = 0
        self._keep(out.astype(np.int64), coefficients)

    def state(self) -> dict[str, Any]:
        """What the segments that are open depend on. Those that are complete are taken with ``table`` before."""
        assert not self._made.out, "complete segments are taken before the state"
        last = np.array(sorted(self._last_time.items()), np.int64).reshape(-1, 2)
        return {
            "keys": self.table_of_keys.state(), "counts": asdict(self.counts), "open": self._open,
            "lines": self._state.reshape(len(self._state), 6 * len(self.errors)),
            "hull_x": self._hull[0], "hull_y": self._hull[1], "hull_at": self._hull_at, "last": last,
            "waiting": {str(i): a for i, a in enumerate(self._waiting)},
        }  # fmt: skip

    def load(self, state: Mapping[str, Any]) -> None:
        width = len(self.errors)
        self.table_of_keys.load(state["keys"])
        self._near_keys = NearKeys()
        self.counts = FitCounts(**state["counts"])
        self._open, self._hull_at = for_kernel(state["open"], state["hull_at"])
        self._state = np.array(state["lines"]).reshape(-1, width, 6)
        self._hull = state["hull_x"], state["hull_y"]
        self._last_time = dict(state["last"].tolist())
        self._waiting = tuple(state["waiting"][str(i)] for i in range(4))

    def completed(self) -> tuple[Int64s, Float64s]:
        """The complete segments since the last call, ordered by their start: (key, first time, end, samples), and the
        coefficients of each value."""
        made, self._made = self._made, _Made()
        width = len(self.errors)
        out = np.concatenate(made.out) if made.out else np.empty((0, 4), np.int64)
        coefficients = np.concatenate(made.coefficients) if made.out else np.empty((0, width, self.degree + 1))
        order = np.lexsort((out[:, 0], out[:, 1]))
        return out[order], coefficients[order]

    def table(self) -> pa.Table:
        """The complete segments since the last call, ordered by their start."""
        out, coefficients = self.completed()
        width = len(self.errors)
        keys = self.table_of_keys.values(np.ascontiguousarray(out[:, 0])) if self.layout.key else []
        times = [pa.array(np.ascontiguousarray(out[:, i])).cast(self.layout.time_type) for i in (1, 2)]
        values = [polynomial_array(np.ascontiguousarray(coefficients[:, j])) for j in range(width)]
        arrays = [*keys, *times, pa.array(np.ascontiguousarray(out[:, 3])), *values]
        return pa.Table.from_arrays(arrays, schema=self.layout.schema(self.key_types))


def keogh(time: Int64s, values: Float64s, error: ErrorBound, scale: float = 1.0) -> tuple[Int64s, Float64s]:
    """Keogh's online segmentation of one signal: (key 0, first time, end, samples) and coefficients by segment.

    >>> out, line = keogh(np.arange(5), np.array([0.0, 1.0, 2.0, 1.0, 0.0]), ErrorBound(0.1))
    >>> out[:, 1:].tolist(), line.tolist()
    ([[0, 3, 3], [3, 5, 2]], [[0.0, 1.0], [1.0, -1.0]])
    """
    out, lines = np.empty((len(time), 4), np.int64), np.zeros((len(time), 2))
    made = fit_keogh(np.require(time, None, CW), np.require(values, None, CW), error.at(values), scale, out, lines)
    return out[:made], lines[:made]
