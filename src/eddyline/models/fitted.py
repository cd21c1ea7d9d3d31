"""Samples that are fitted inside a query: segments as they become complete, and how far all of them are known.

What is correct: the segments are those of ``Fitter`` over all samples, however these were cut into batches. A segment
is complete when a sample does not fit it, when its run ends (``MAX GAP``), or when it is as long as it may get. Until
then its line may still turn, so nothing is known from its first sample on: results wait for the first open segment of
any key. Neighbours share a sample, so the bound holds for the straight line between any two samples of a run; one
tick behind the last sample of a run the model stands still.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Bools, Float64s, Int64s
from eddyline.core.schema import Field, Schema
from eddyline.core.time import BEGINNING, TimeKind
from eddyline.models.arithmetic import numbers
from eddyline.models.fitting import ErrorBound, Fitter
from eddyline.models.inverting import Samples
from eddyline.models.pieces import Pieces
from eddyline.models.segments import TO, ModelledValue, SegmentLayout
from eddyline.models.sources import BoundedSegments, FittedRows, RowStore

CODE = "#key"  # the column of a segment's key as a number, in order of first appearance
FEW_SAMPLES = 256  # before which nothing is said of how many signals there are
KEPT_EPOCHS = 8  # before old ones are looked for
MOST_SAMPLES = 4096  # of a segment: what bounds the wait for the segments of a signal that any line fits


class FittedStore:
    """The fit of one input, and its segments that can still matter."""

    def __init__(self, model: FittedRows, schema: Schema, prefix: str, kind: TimeKind) -> None:
        self.model, self.schema = model, schema
        modelled = (
            ModelledValue(n, 1, b.amount, b.relative, b.floor) for n, b in zip(model.values, model.bounds, strict=True)
        )
        self.layout = SegmentLayout(model.key, tuple(modelled), kind, "_time", model.max_gap)
        self.fitter = Fitter(
            self.layout, [schema[k].type for k in model.key], model.bounds, 1, model.max_gap, True, model.longest,
            MOST_SAMPLES,
        )  # fmt: skip
        flat = [Field(f"{n}#{i}", pa.float64()) for n in model.values for i in ("0", "1", "e0", "e1")]
        fields = (*(schema[k] for k in model.key), Field(TO, self.layout.time_type), Field(CODE, pa.int64()), *flat)
        # From which instant on samples have which bounds.
        self.epochs: list[tuple[int, tuple[ErrorBound, ...]]] = [(BEGINNING, model.bounds)]
        # (key, instant) at which an open segment was ended because its signal goes on in another way.
        self.handed_over: set[tuple[int, int]] = set()
        self.rows = RowStore(BoundedSegments(self.layout), Schema(fields), prefix, None, self.layout.scale)
        self._none: Pieces | None = None

    def __len__(self) -> int:
        return len(self.rows) + int((self.fitter.open_segments[:, 0] > 0).sum())

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.fitter.nbytes

    def add(self, time: Int64s, columns: Mapping[str, pa.Array]) -> None:
        """Samples in order of time."""
        if not len(time):
            return
        values, good = self._samples(columns)
        keys = [columns[k] for k in self.model.key]
        self.fitter.add(keys, time, values, None if good is None else ~good, self._bounds(time, values))

    def _samples(self, columns: Mapping[str, pa.Array]) -> tuple[Float64s, Bools | None]:
        """The values, and which samples have numbers; None: all have."""
        values = np.column_stack(list(self.values(columns).values()))
        good: Bools = np.asarray(np.isfinite(values).all(axis=1) if values.shape[1] > 1 else np.isfinite(values[:, 0]))
        for name in self.model.values:
            if columns[name].null_count:
                good &= np.asarray(columns[name].is_valid())
        return values, None if good.all() else good

    def _bounds(self, time: Int64s, values: Float64s) -> Float64s | None:
        """The bounds of samples where they changed; None: they are the model's."""
        if len(self.epochs) == 1:
            return None
        bounds = np.empty_like(values)
        epoch = np.searchsorted([t for t, _ in self.epochs], time, "right") - 1
        for k in np.unique(epoch).tolist():
            mine = epoch == k
            for j, bound in enumerate(self.epochs[k][1]):
                bounds[mine, j] = bound.at(values[mine, j])
        return bounds

    def single_samples(self) -> str | None:
        """A sentence, if so many signals have few samples that a column of the key must tell samples apart."""
        samples, signals = self.fitter.counts.samples, len(self.fitter.table_of_keys)
        if not self.model.key or samples < FEW_SAMPLES or signals <= samples / 2:
            return None
        return (
            f"{samples} samples belong to {signals} signals, by the key {', '.join(self.model.key)}: name the "
            "columns that identify a signal, ERROR WITHIN … BY (column)."
        )

    def samples(self, time: Int64s, columns: Mapping[str, pa.Array], coded: bool) -> Samples:
        """The samples that have numbers; ``coded``: with the numbers of their signals."""
        values, good = self._samples(columns)
        keys = [columns[k] for k in self.model.key]
        if good is not None:
            mask = pa.array(good)
            keys, time, values = [k.filter(mask) for k in keys], time[good], values[good]
        code = self.fitter.codes(keys, len(time)) if coded and len(time) else np.zeros(len(time), np.int64)
        return Samples(code, time, {n: values[:, j] for j, n in enumerate(self.model.values)})

    def values(self, columns: Mapping[str, pa.Array]) -> dict[str, Float64s]:
        """The samples' values as numbers."""
        return {name: numbers(columns[name]) for name in self.model.values}

    def schedule(self, start: int, bounds: Sequence[ErrorBound]) -> None:
        """Samples from an instant on have other bounds. Epochs before all open segments are forgotten."""
        self.epochs.append((start, tuple(bounds)))
        since = self.fitter.open_since() if len(self.epochs) > KEPT_EPOCHS else None
        while since is not None and len(self.epochs) > 2 and self.epochs[1][0] <= since:
            del self.epochs[0]

    def known(self, frontier: int, ended: bool) -> float:
        """The instant before which all segments are complete, when every sample up to the frontier has come."""
        if ended:
            self.fitter.finish()
        else:
            self.fitter.end_silent(frontier)
        self._take()
        since = self.fitter.open_since()
        return float(frontier + 1 if since is None else min(frontier + 1, since))

    def _take(self) -> None:
        out, c = self.fitter.completed()
        if not len(out):
            return
        last = self._ends_run(out)
        key, start, end = out[:, 0], out[:, 1], out[:, 2]
        rest = end - last  # where a run ends, its last tick is a piece of its own
        wide = rest > start
        tail = np.flatnonzero(last)
        tails = c[tail].copy()
        tails[:, :, 0] += tails[:, :, 1] * ((rest - start)[tail] * self.layout.scale)[:, None]
        tails[:, :, 1] = 0.0
        both = np.concatenate([c[wide], tails])
        starts, ends = np.concatenate([start[wide], rest[tail]]), np.concatenate([rest[wide], end[tail]])
        codes = np.concatenate([key[wide], key[tail]])
        order = np.lexsort((codes, starts))
        both, starts, ends, codes = both[order], starts[order], ends[order], codes[order]
        found = self.fitter.table_of_keys.values(np.ascontiguousarray(codes)) if self.model.key else []
        columns = dict(zip(self.model.key, found, strict=True))
        columns[TO] = pa.array(ends).cast(self.layout.time_type)
        columns[CODE] = pa.array(codes)
        for j, name in enumerate(self.model.values):
            error = self._error(j, both[:, j], starts, ends)
            for i in range(2):
                columns[f"{name}#{i}"] = pa.array(np.ascontiguousarray(both[:, j, i]))
                columns[f"{name}#e{i}"] = pa.array(error[:, i])
        self.rows.add(starts, columns)
        # By start and key: in which order segments become complete depends on the batches.
        order = np.lexsort((self.rows.columns[CODE].to_numpy(), self.rows.time))
        if not (np.diff(order) == 1).all():
            where = pa.array(order)
            self.rows.time = self.rows.time[order]
            self.rows.columns = {n: c.take(where) for n, c in self.rows.columns.items()}

    def _error(self, j: int, c: Float64s, starts: Int64s, ends: Int64s) -> Float64s:
        """Of each segment the largest of the bounds that its samples had."""
        times = [t for t, _ in self.epochs]
        width: Float64s = ((ends - starts) * self.layout.scale).astype(np.float64)
        first, last = (np.searchsorted(times, t, "right") - 1 for t in (starts, ends))
        at_low, at_high = np.zeros(len(c)), np.zeros(len(c))
        for k in range(int(first.min()), int(last.max()) + 1):
            during = (first <= k) & (k <= last)
            error = chord(c, width, self.epochs[k][1][j])
            at_low = np.where(during, np.maximum(at_low, error[:, 0]), at_low)
            at_high = np.where(during, np.maximum(at_high, error[:, 0] + error[:, 1] * width), at_high)
        return np.column_stack([at_low, np.where(at_low == at_high, 0.0, (at_high - at_low) / width)])

    def _ends_run(self, out: Int64s) -> Bools:
        """Segments that none of their key begins at the end of: they end one tick behind their last sample."""
        order = np.lexsort((out[:, 1], out[:, 0]))
        o = out[order]
        open_ = self.fitter.open_segments
        following = np.where(open_[o[:, 0], 0] > 0, open_[o[:, 0], 1], BEGINNING)  # no segment ends there
        same = np.r_[o[1:, 0] == o[:-1, 0], False]
        following[same] = np.r_[o[1:, 1], 0][same]
        last = following != o[:, 2]
        if self.handed_over:
            at = np.flatnonzero(last)
            last[at] = [(k, t) not in self.handed_over for k, t in o[at][:, [0, 2]].tolist()]
            self.handed_over.clear()
        ends = np.empty(len(o), np.bool_)
        ends[order] = last
        return ends

    def pieces(self, known: float, end: float | None) -> Pieces:
        if len(self.rows):
            return self.rows.pieces(known, None)
        if self._none is None:  # where all signals are on tuples there is never a segment
            self._none = self.rows.pieces(known, None)
        return self._none

    def forget(self, before: float) -> None:
        self.rows.forget(before)

    def adapts(self) -> list[str]:
        return []

    def statistics(self) -> dict[str, int]:
        return asdict(self.fitter.counts)

    def state(self) -> dict[str, Any]:
        epochs = [[t, [[b.amount, b.relative, b.floor] for b in bounds]] for t, bounds in self.epochs]
        return {"fit": self.fitter.state(), "segments": self.rows.state(), "epochs": json.dumps(epochs)}

    def load(self, state: Mapping[str, Any]) -> None:
        self.fitter.load(state["fit"])
        self.rows.load(state["segments"])
        self.epochs = [(t, tuple(ErrorBound(*b) for b in bounds)) for t, bounds in json.loads(state["epochs"])]


def chord(c: Float64s, width: Float64s, bound: ErrorBound) -> Float64s:
    """A line that is nowhere on its segment below the distance from the straight lines between samples.

    A sample y is within max(r·|y|, f) of the model m, so |m − y| ≤ max(r·|m|/(1 − r), f). That is convex in time, as
    |m| is, and so are the straight lines between its values at samples below the chord between its ends.

    >>> chord(np.array([[2.0, 0.5]]), np.array([4.0]), ErrorBound(0.5)).tolist()
    [[0.5, 0.0]]
    >>> chord(np.array([[2.0, 0.5]]), np.array([4.0]), ErrorBound(0.5, relative=True)).tolist()
    [[2.0, 0.5]]
    """
    if not bound.relative:
        return np.column_stack([np.full(len(c), bound.amount), np.zeros(len(c))])
    share = bound.amount / (1.0 - bound.amount)
    at_low = np.maximum(share * np.abs(c[:, 0]), bound.floor)
    at_high = np.maximum(share * np.abs(c[:, 0] + c[:, 1] * width), bound.floor)
    return np.column_stack([at_low, (at_high - at_low) / width])
