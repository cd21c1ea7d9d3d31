"""Judging arrivals: a batch as it came → the declared columns in the declared types, and the rows that are invalid.

A row is invalid if its timestamp is NULL or out of range or one of its values cannot be read as the declared type.
A column that is missing, or of a type that no value could be read from, is a mistake in the job and stops it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from eddyline.core.catalog import RelationDef, StreamDef
from eddyline.core.delta import Int64s
from eddyline.core.errors import JobError, did_you_mean
from eddyline.core.time import BEGINNING, TimeKind
from eddyline.io.conform import cast, fit
from eddyline.io.nested import flat_batch, has_structures

# Timestamps stay within ±2^62 so that adding a window's or a slack's width to one can never wrap around, and so that
# no timestamp equals the sentinels BEGINNING and NEVER.
MAX_TICKS: Final = 1 << 62
MICROSECONDS_PER_DAY: Final = 86_400_000_000

Definition = StreamDef | RelationDef
Failures = dict[int, str]  # row → why it is invalid


def ticks(column: pa.Array) -> Int64s:
    """The instants of a time column without NULLs, as ticks; what does not fit becomes something out of range.

    >>> ticks(pa.array([1, -1], pa.timestamp("ns"))).tolist()  # an instant belongs to the microsecond that it is in
    [0, -1]
    """
    kind = column.type
    if pa.types.is_int64(kind):
        return column.to_numpy()  # type: ignore[no-any-return]
    if pa.types.is_timestamp(kind):
        values: Int64s = column.to_numpy().view(np.int64)
        if kind.unit == "us":
            return values
        if kind.unit == "ns":
            return values // 1000
        return _scaled(values, 1_000_000 if kind.unit == "s" else 1_000)
    if pa.types.is_date32(kind):
        return _scaled(column.view(pa.int32()).to_numpy().astype(np.int64), MICROSECONDS_PER_DAY)
    if pa.types.is_date64(kind):
        return _scaled(column.view(pa.int64()).to_numpy(), 1000)
    values = column.to_numpy()
    if values.dtype == np.uint64:
        values = np.minimum(values, np.uint64(MAX_TICKS + 1))
    return values.astype(np.int64)


def _scaled(values: Int64s, factor: int) -> Int64s:
    largest = MAX_TICKS // factor + 1
    return np.clip(values, -largest, largest) * factor


def extent(time: Int64s) -> tuple[bool, int, int]:
    """Whether times are in order, the smallest and the largest of them."""
    if len(time) == 1 or (time[1:] >= time[:-1]).all():
        return True, int(time[0]), int(time[-1])
    return False, int(time.min()), int(time.max())


def times_reached(column: pa.Array | None, before: Int64s, shown: int | None, believed: int = MAX_TICKS) -> Int64s:
    """The time that a stream has reached when ``before`` rows of a batch have come, for each of these numbers.

    ``column`` has the times of the batch, ``shown`` is what was shown before; times beyond ``believed`` show nothing.
    Before the first element of all it is the time of that element, and 0 where that is not in sight.

    >>> times_reached(pa.array([5, None, 9]), np.array([0, 1, 3]), 4).tolist()
    [4, 5, 9]
    """
    at = np.full(len(before), BEGINNING if shown is None else shown, np.int64)
    if column is not None and len(column) and (pa.types.is_integer(column.type) or pa.types.is_timestamp(column.type)):
        time = np.full(len(column), BEGINNING, np.int64)
        time[np.asarray(column.is_valid())] = ticks(column.drop_null())
        time[(time < -MAX_TICKS) | (time > min(believed, MAX_TICKS))] = BEGINNING
        some = before > 0
        at[some] = np.maximum(at[some], np.maximum.accumulate(time)[before[some] - 1])
        ahead = time[time > BEGINNING]
        if len(ahead):
            at[at == BEGINNING] = ahead[0]
    at[at == BEGINNING] = 0
    return at


def check_timestamp(definition: Definition) -> None:
    """Refuse a timestamp that is not there or is no time, with the remedy."""
    name = definition.timestamp
    if name is None:
        return
    if name not in definition.schema:
        hint = did_you_mean(name, definition.schema.names)
        columns = ", ".join(definition.schema.names)
        raise JobError(
            f"{definition.name!r} has no column {name!r} to take its timestamps from.{hint} Its columns are: {columns}."
        )
    kind = definition.schema[name].type
    temporal = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
    if not temporal and not pa.types.is_integer(kind):
        others = [f.name for f in definition.schema if pa.types.is_integer(f.type) or pa.types.is_timestamp(f.type)]
        hint = f" Columns that could serve: {', '.join(others)}." if others else ""
        raise JobError(
            f"the timestamp column {name!r} of {definition.name!r} has type {kind}; a timestamp is an integer, date or"
            f" timestamp. Declare it as one (CREATE STREAM {definition.name} ({name} TIMESTAMP, …)) or name another"
            f" column.{hint}"
        )
    if temporal != (definition.time_kind is TimeKind.TIMESTAMP):
        raise JobError(
            f"the timestamp column {name!r} of {definition.name!r} has type {kind}, but the time of"
            f" {definition.name!r} is declared as {'a timestamp' if not temporal else 'an integer'}."
        )


@dataclass(frozen=True, slots=True)
class _Layout:
    """How batches of one Arrow schema map to the declared columns."""

    position: dict[str, int]
    casts: tuple[tuple[int, pa.DataType], ...]  # position, declared type
    schema: pa.Schema  # after the casts


class Judge:
    """Remembers the layout of the last schema, so that the common case costs one comparison of schemas a batch."""

    def __init__(self, definition: Definition) -> None:
        check_timestamp(definition)
        self.definition = definition
        self._seen: pa.Schema | None = None  # of the last batch, as it came
        self._nested = False  # whether batches of that schema have structures
        self._layout = _Layout({}, (), pa.schema([]))
        self._selected: tuple[str, ...] | None = None
        self._places: list[int] = []
        self._rename: list[str] | None = None

    @property
    def position(self) -> dict[str, int]:
        """Where each declared column stands in the batches of the last call."""
        return self._layout.position

    def flat(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with its structures taken apart. What a schema decides is found once, with its first batch."""
        schema = batch.schema
        if self._seen is not None and schema.equals(self._seen):
            return flat_batch(batch) if self._nested else batch
        self._nested = has_structures(schema)
        flat = flat_batch(batch) if self._nested else batch
        self._layout, self._selected = self._learn(flat.schema), None
        self._seen = schema
        return flat

    def __call__(self, batch: pa.RecordBatch, needed: Sequence[str]) -> tuple[pa.RecordBatch, Failures]:
        """What ``flat`` returned in declared types, and the invalid rows that are still in it."""
        layout = self._layout
        for name in needed:
            if name not in layout.position:
                self._missing(name, batch.schema.names)
        failures: Failures = {}
        if layout.casts:
            columns = batch.columns
            for i, target in layout.casts:
                before = columns[i]
                if pa.types.is_dictionary(before.type):
                    before = before.dictionary_decode()
                columns[i], failed = fit(before, target)
                for row in failed.tolist():
                    failures.setdefault(row, self._reason(batch.schema.names[i], before[row], target))
            batch = pa.RecordBatch.from_arrays(columns, schema=layout.schema)
        time = self.definition.timestamp
        if time is not None:
            column = batch.column(layout.position[time])
            if column.null_count:
                for row in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
                    failures.setdefault(row, f"the timestamp {time!r} is NULL")
        return batch, failures

    def select(self, batch: pa.RecordBatch, columns: tuple[str, ...]) -> pa.RecordBatch:
        """Only these columns of a judged batch, under their declared names."""
        if columns != self._selected:
            self._selected = columns
            self._places = [self._layout.position[n] for n in columns]
            names = [self._layout.schema.names[i] for i in self._places]
            self._rename = list(columns) if names != list(columns) else None
        chosen = batch.select(self._places)
        return chosen if self._rename is None else chosen.rename_columns(self._rename)

    def _learn(self, schema: pa.Schema) -> _Layout:
        by_lower = {n.lower(): i for i, n in reversed(list(enumerate(schema.names)))}
        by_name = {n: i for i, n in enumerate(schema.names)}
        position: dict[str, int] = {}
        casts: list[tuple[int, pa.DataType]] = []
        fields = list(schema)
        for f in self.definition.schema:
            i = by_name.get(f.name, by_lower.get(f.name.lower()))
            if i is None:
                continue
            position[f.name] = i
            found = schema.field(i).type
            if pa.types.is_dictionary(found):
                # Dictionaries of the declared type stay: the same column in a cheaper form. A timestamp is read as
                # numbers, so there it is not cheaper.
                if found.value_type == f.type and f.name != self.definition.timestamp:
                    continue
                found = found.value_type
            if schema.field(i).type != f.type:
                self._castable(f.name, found, f.type)
                casts.append((i, f.type))
            fields[i] = pa.field(schema.field(i).name, f.type)
        name = self.definition.timestamp
        if name is not None and name not in position:
            self._missing(name, schema.names)
        return _Layout(position, tuple(casts), pa.schema(fields))

    def _castable(self, name: str, found: pa.DataType, declared: pa.DataType) -> None:
        try:
            cast(pa.array([], found), declared)
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError):
            raise JobError(
                f"column {name!r} of {self.definition.name!r} is declared as {declared}, but its data are {found},"
                f" which cannot be read as that. Declare it as {found} and cast it in the query."
            ) from None

    def _missing(self, name: str, found: Sequence[str]) -> None:
        role = "timestamp column" if name == self.definition.timestamp else "column"
        raise JobError(
            f"the data of {self.definition.name!r} have no {role} {name!r}.{did_you_mean(name, found)}"
            f" They have: {', '.join(found) or 'no columns at all'}."
        )

    def _reason(self, name: str, value: pa.Scalar, target: pa.DataType) -> str:
        text = repr(value.as_py()) if not pa.types.is_timestamp(value.type) else str(value)
        shown = text if len(text) <= 80 else text[:77] + "…"
        return f"column {name!r}: {shown} is not a valid {target}"
