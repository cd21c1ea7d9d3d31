"""How the rows of a stream become pieces: they are segments, or a query declares a model of their columns.

A row is a segment of its key. It holds from its time on, until its own end or until the next row of the key begins; of
two that begin at the same instant the later arrival counts. A segment that another one begins in is cut there, and what
would be behind the other is dropped.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.amounts import amount
from eddyline.core.delta import Bools, Float64s, Int64s, combine
from eddyline.core.errors import InvalidRowsWarning
from eddyline.core.schema import Field, Schema
from eddyline.kernels.polynomials import LOW_CLOSED
from eddyline.kernels.time_join import next_starts
from eddyline.models.arithmetic import numbers
from eddyline.models.fitting import ErrorBound
from eddyline.models.pieces import Pieces, Value, for_kernel
from eddyline.models.segments import TO, SegmentLayout, flat_names
from eddyline.synopses.keys import numbered

Monomials = tuple[tuple[int, float, tuple[str, ...]], ...]  # power of t, factor, columns: their product


@dataclass(frozen=True, slots=True)
class SegmentRows:
    """Rows of a segment table, whose coefficients stand in columns ``value#0``, ``value#1``, …"""

    layout: SegmentLayout

    @property
    def key(self) -> tuple[str, ...]:
        return self.layout.key

    @property
    def degrees(self) -> dict[str, int]:
        return {v.name: v.degree for v in self.layout.values}

    def ends(self, columns: Mapping[str, pa.Array], start: Int64s, horizon: int | None) -> Float64s:
        ends = ticks(columns[TO])
        # A segment of a few ticks may be shorter than two doubles of its size are apart: it holds at its beginning.
        least = np.nextafter(start.astype(np.float64), np.inf)
        end = np.where(ends > start, np.maximum(ends, least), ends).astype(np.float64)
        return end if horizon is None else np.minimum(end, start + float(horizon))

    def coefficients(self, columns: Mapping[str, pa.Array]) -> dict[str, Float64s]:
        return {
            v.name: np.column_stack([numbers(columns[f"{v.name}#{i}"]) for i in range(v.degree + 1)])
            for v in self.layout.values
        }

    def errors(self, columns: Mapping[str, pa.Array]) -> dict[str, Float64s]:
        """Bounds of the values' errors, as polynomials; a segment table's own bound holds at its samples only."""
        return {}

    def constants(self, schema: Schema) -> list[str]:
        return list(self.layout.key)


@dataclass(frozen=True, slots=True)
class BoundedSegments(SegmentRows):
    """Segments with a bound of each value's error that is linear in time, in columns ``value#e0`` and ``value#e1``."""

    def errors(self, columns: Mapping[str, pa.Array]) -> dict[str, Float64s]:
        found = {}
        for v in self.layout.values:
            e = np.column_stack([numbers(columns[f"{v.name}#e{i}"]) for i in range(2)])
            found[v.name] = e if e[:, 1].any() else np.ascontiguousarray(e[:, :1])
        return found


@dataclass(frozen=True, slots=True)
class FittedRows:
    """Tuples that are samples of signals, which are fitted inside the query: ``ERROR WITHIN``. A sample is within its
    value's one of ``bounds``, a silence of more than ``max_gap`` ticks ends a signal's run, and a segment holds for
    ``longest`` ticks at most (0: any)."""

    key: tuple[str, ...]
    values: tuple[str, ...]
    bounds: tuple[ErrorBound, ...] = ()
    max_gap: int | None = None
    longest: int = 0

    @property
    def degrees(self) -> dict[str, int]:
        return dict.fromkeys(self.values, 1)


@dataclass(frozen=True, slots=True)
class DeclaredRows:
    """Tuples with ``MODEL``: each modelled column is a polynomial whose coefficients are computed from columns."""

    key: tuple[str, ...]
    values: tuple[tuple[str, Monomials], ...]

    @property
    def degrees(self) -> dict[str, int]:
        return {name: max((p for p, _, _ in terms), default=0) for name, terms in self.values}

    def ends(self, columns: Mapping[str, pa.Array], start: Int64s, horizon: int | None) -> Float64s:
        if horizon is None:
            return np.full(len(start), np.inf)
        ends: Float64s = start.astype(np.float64) + float(horizon)
        return ends

    def coefficients(self, columns: Mapping[str, pa.Array]) -> dict[str, Float64s]:
        out = {}
        for name, terms in self.values:
            c = np.zeros((len(next(iter(columns.values()))), self.degrees[name] + 1))
            for power, factor, names in terms:
                term = np.full(len(c), factor)
                for n in names:
                    term = term * numbers(columns[n])
                c[:, power] += term
            out[name] = c
        return out

    def errors(self, columns: Mapping[str, pa.Array]) -> dict[str, Float64s]:
        return {}

    def read_columns(self) -> frozenset[str] | None:
        """The columns of a row that a model reads, or that its results may show; None: all."""
        return None

    def constants(self, schema: Schema) -> list[str]:
        modelled = {n for n, _ in self.values}
        return [n for n in schema.names if n not in modelled]


StoredRows = SegmentRows | DeclaredRows
RowModel = StoredRows | FittedRows


def physical_schema(model: RowModel, schema: Schema) -> Schema:
    """The columns that have to be read for a model, of a stream's own."""
    if isinstance(model, DeclaredRows):
        read = model.read_columns()
        return schema if read is None else Schema(tuple(f for f in schema if f.name in read))
    if isinstance(model, FittedRows):
        return Schema(tuple(f for f in schema if f.name in (*model.key, *model.values)))
    fields = [f for f in schema if f.name in (*model.key, TO)]
    return Schema((*fields, *(Field(n, pa.float64()) for n in flat_names(model.layout))))


def ticks(column: pa.Array) -> Int64s:
    if pa.types.is_timestamp(column.type):
        column = column.view(pa.int64())
    found: Int64s = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return found


class RowStore:
    """The rows of one input that can still matter, and what they mean as pieces."""

    def __init__(self, model: StoredRows, schema: Schema, prefix: str, horizon: int | None, scale: float) -> None:
        self.model, self.schema, self.prefix, self.horizon, self.scale = model, schema, prefix, horizon, scale
        self.time: Int64s = np.empty(0, np.int64)
        self.columns: dict[str, pa.Array] = {n: pa.array([], schema[n].type) for n in schema.names}
        self.warned = False  # of rows whose coefficients are no numbers
        self._next: Float64s | None = None
        self._ends: Float64s | None = None
        self.twin: RowStore | None = None  # another input that may read the same rows, as in a self-join

    def __len__(self) -> int:
        return len(self.time)

    @property
    def nbytes(self) -> int:
        return int(self.time.nbytes) + int(sum(c.nbytes for c in self.columns.values()))

    def known(self, frontier: int, ended: bool) -> float:
        """The instant before which all is known, when every row up to the frontier has come."""
        return float(frontier + 1)

    def adapts(self) -> list[str]:
        return []

    def statistics(self) -> dict[str, int]:
        return {}

    def add(self, time: Int64s, columns: Mapping[str, pa.Array]) -> None:
        """Rows in order of time; ``columns`` by the stream's own names."""
        if not len(time):
            return
        self._next = self._ends = None
        if len(self.time):
            self.columns = {n: combine([self.columns[n], columns[n]]) for n in self.schema.names}
            self.time = np.concatenate([self.time, time])
        else:
            self.columns, self.time = {n: columns[n] for n in self.schema.names}, time.copy()

    def _warn(self, good: Bools) -> None:
        if not self.warned:
            self.warned = True
            rows = amount(int((~good).sum()), "row")
            message = (
                f"{self.prefix.rstrip('.')}: a coefficient of {rows} so far is NULL or not finite. Such a row "
                "ends the model before it and has no value itself: repair it, or leave it out."
            )
            warnings.warn(message, InvalidRowsWarning, stacklevel=2)

    def pieces(self, known: float, end: float | None) -> Pieces:
        """All pieces. The future of those without an end is known up to ``known`` only; ``end`` is that of time."""
        n = len(self.time)
        low = self.time.astype(np.float64)
        high, closed, keep = self._extents(low, known, end)
        values = {}
        errors = self.model.errors(self.columns)
        for name, c in self.model.coefficients(self.columns).items():
            values[f"{self.prefix}{name}"] = Value(c, error=errors.get(name))
            finite = np.isfinite(c)
            if not finite.all():
                good: Bools = np.logical_and.reduce(finite, axis=1)
                self._warn(good)
                keep &= good
        constants = {f"{self.prefix}{c}": self.columns[c] for c in self.model.constants(self.schema)}
        found = Pieces(low, high, closed, low, values, constants)
        return found if keep.all() and n else found.take(np.flatnonzero(keep))

    def _extents(self, low: Float64s, known: float, end: float | None) -> tuple[Float64s, Any, Bools]:
        n = len(low)
        if n == 0:
            return np.empty(0), np.empty(0, np.uint8), np.empty(0, np.bool_)
        if self._ends is None or len(self._ends) != n:  # asked for twice between two changes, and so remembered
            self._ends = np.minimum(self.model.ends(self.columns, self.time, self.horizon), self._following(low))
        high = self._ends.copy()
        closed = np.full(n, LOW_CLOSED, np.uint8)
        keep = high > low
        if end is not None and self.horizon is None and isinstance(self.model, DeclaredRows):
            high = np.minimum(high, end)  # nothing is known behind the end of time
        endless = np.isinf(high)
        if endless.any():
            # Wide enough, and not wider each time more is known: roots are found on the same interval again.
            spans = 2.0 ** np.ceil(np.log2(np.maximum(known - low[endless], 0.0) + 2.0))
            high[endless] = low[endless] + spans
        return high, closed, keep

    def _following(self, low: Float64s) -> Float64s:
        """Where the next row of each row's key begins; a twin asks for it, too."""
        if self._next is None or len(self._next) != len(low):
            if self.twin is not None and self._same_keys(self.twin):
                self._next = self.twin._following(low)
                return self._next
            code, keys = np.zeros(len(low), np.int64), 1
            if self.model.key:
                code, keys = numbered([self.columns[k] for k in self.model.key], len(low))
            self._next = np.empty(len(low))
            next_starts(*for_kernel(code, low), max(keys, 1), self._next)
        return self._next

    def _same_keys(self, other: RowStore) -> bool:
        keys = self.model.key
        return np.array_equal(self.time, other.time) and all(self.columns[k].equals(other.columns[k]) for k in keys)

    def forget(self, before: float) -> None:
        """Drop rows that hold for no instant from ``before`` on. One that ends there stays: a result that begins there
        may do so because of it. A row that begins later stays even if it holds nowhere (it ends before it begins, or
        has no end): it cuts the one before it."""
        if not len(self.time):
            return
        low = self.time.astype(np.float64)
        high, _, _ = self._extents(low, before, None)
        keep = np.fmax(low, high) >= before
        if not keep.all():
            index = np.flatnonzero(keep)
            where = pa.array(index)
            self._next = self._ends = None
            self.time = self.time[index]
            self.columns = {n: c.take(where) for n, c in self.columns.items()}

    def state(self) -> dict[str, Any]:
        return {"time": self.time, "rows": dict(self.columns)}

    def load(self, state: Mapping[str, Any]) -> None:
        self.time, self.columns, self._next, self._ends = state["time"], dict(state["rows"]), None, None
