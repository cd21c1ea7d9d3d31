"""``ed.fit``: from a source of samples to a segment table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core import arguments as check
from eddyline.core.errors import JobError
from eddyline.core.schema import Schema
from eddyline.engine.declaration_checks import column_named, duration, time_kind
from eddyline.io.resolve import open_source
from eddyline.io.segments import SegmentSource
from eddyline.io.source import plain
from eddyline.models.fitting import ErrorBound, Fitter
from eddyline.models.segments import FROM, SAMPLES, TO, ModelledValue, SegmentLayout

COUNTS = b"eddyline.fit"  # in the schema's metadata: what was counted while fitting


def fit(
    source: Any,
    *,
    time: str,
    value: str | Sequence[str],
    key: str | Sequence[str] = (),
    error: float | str | Sequence[float | str],
    degree: int = 1,
    floor: float = 0.0,
    max_gap: int | float | str | timedelta | None = None,
    interpolate: bool = False,
    base: Path | str | None = None,
) -> pa.Table:
    """Fit the samples of a source: a table of polynomial segments, ordered by start (``docs/models.md``).

    ``source`` is whatever ``session.stream`` reads. ``error`` is absolute (``0.5``) or a share of each value
    (``"0.05%"``, never less than ``floor``); with several values one for all, or one for each. A silence longer than
    ``max_gap`` belongs to no segment. ``interpolate`` makes the bound hold between samples, too. What was counted (late
    samples, violations) is in the schema's metadata under ``eddyline.fit``.

    >>> import eddyline as ed
    >>> samples = [{"ts": t, "room": "a", "heat": 20.0 + 0.5 * t} for t in range(100)]
    >>> table = ed.fit(samples, key="room", time="ts", value="heat", error=0.1)
    >>> table.to_pylist()
    [{'room': 'a', '_from': 0, '_to': 100, '_samples': 100, 'heat': [20.0, 0.5]}]
    """
    opened = open_source(source, None if base is None else Path(base), timestamp=check.text(time, "the time"))
    if not opened.finite:
        raise JobError("fit reads a source to its end, and this one has none.")
    called = str(source) if isinstance(source, str | Path) else "samples"
    if isinstance(opened, SegmentSource):
        raise JobError(f"{called!r} holds segments already: fit the samples that they were fitted to.")
    plan = FitPlan.of(
        Schema.from_arrow(opened.schema), called, time=time, value=value, key=key, error=error, degree=degree,
        floor=floor, max_gap=max_gap, interpolate=interpolate,
    )  # fmt: skip
    fitter = plan.fitter()
    wanted = pa.schema([opened.schema.field(n) for n in plan.columns])
    malformed = 0
    for batch in opened.open(plan.columns):
        malformed += len(batch.invalid)
        plan.add(fitter, batch.rows if plan.layout.key else plain(batch.rows, wanted))
    fitter.finish()
    fitter.counts.invalid += malformed
    return with_counts(fitter.table(), fitter)


@dataclass(frozen=True, slots=True)
class FitPlan:
    """What is fitted and how, checked: the same inline, and in every task on Spark."""

    layout: SegmentLayout
    key_types: tuple[pa.DataType, ...]
    bounds: tuple[ErrorBound, ...]
    degree: int
    interpolate: bool

    @staticmethod
    def of(
        found: Schema, called: str, *, time: str, value: str | Sequence[str], key: str | Sequence[str],
        error: float | str | Sequence[float | str], degree: int, floor: float,
        max_gap: int | float | str | timedelta | None, interpolate: bool,
    ) -> FitPlan:  # fmt: skip
        """From the arguments of ``fit`` and the columns that there are; ``called`` is the source in messages."""
        keys = check.texts(key, "the key")
        values = check.texts(value, "the value")
        if not values:
            raise JobError("fit needs at least one value.")
        names = [column_named(called, found, n) for n in (check.text(time, "the time"), *keys, *values)]
        stamp, keys, values = names[0], tuple(names[1 : 1 + len(keys)]), tuple(names[1 + len(keys) :])
        reserved = [n for n in (*keys, *values) if n in (FROM, TO, SAMPLES)]
        if reserved:
            raise JobError(f"{reserved[0]!r} is a column of every segment table: give it another name.")
        twice = [n for n in names if names.count(n) > 1]
        if twice:
            raise JobError(f"time, key and value are different columns, and {twice[0]!r} is named twice.")
        for name in keys:
            if pa.types.is_nested(found[name].type):
                raise JobError(f"the key {name!r} is {found[name].type}: keys are texts, numbers, Booleans or times.")
        for name in values:
            if not _is_number(found[name].type):
                raise JobError(f"the value {name!r} is {found[name].type}, and only numbers can be modelled.")
        kind = time_kind(called, found, stamp)
        degree = int(degree) if isinstance(degree, np.integer) else degree
        bounds = tuple(bounds_of(error, floor, len(values)))
        gap = None if max_gap is None else duration(max_gap, kind, "max_gap")
        if gap == 0:
            raise JobError("max_gap must be larger than 0: leave it out if every silence belongs to a segment.")
        if floor and not any(b.relative for b in bounds):
            raise JobError("floor is for a relative error such as '0.05%': an absolute one is its own floor.")
        modelled = (
            ModelledValue(n, degree, b.amount, b.relative, b.floor) for n, b in zip(values, bounds, strict=True)
        )
        layout = SegmentLayout(keys, tuple(modelled), kind, stamp, gap)
        plan = FitPlan(
            layout, tuple(found[k].type for k in keys), bounds, degree, check.flag(interpolate, "interpolate")
        )
        plan.fitter()  # refuses what cannot be fitted
        return plan

    @property
    def columns(self) -> list[str]:
        """What is read: the time, the key, the values."""
        return [self.layout.time, *self.layout.key, *(v.name for v in self.layout.values)]

    def fitter(self) -> Fitter:
        return Fitter(self.layout, self.key_types, self.bounds, self.degree, self.layout.max_gap, self.interpolate)

    def add(self, fitter: Fitter, rows: pa.RecordBatch) -> None:
        """Hand the samples of a batch over."""
        add_batch(fitter, rows, self.layout.time, self.layout.key, [v.name for v in self.layout.values])


def bounds_of(error: float | str | Sequence[float | str], floor: float, many: int) -> list[ErrorBound]:
    """One bound for each value."""
    several = isinstance(error, Sequence | np.ndarray) and not isinstance(error, str | bytes)
    given: list[Any] = list(error) if several else [error] * many  # type: ignore[arg-type]
    if len(given) != many:
        raise JobError(f"error is one bound, or one for each of the {many} values, not {len(given)}.")
    return [ErrorBound.of(e, floor) for e in given]


def add_batch(fitter: Fitter, rows: pa.RecordBatch, time: str, keys: Sequence[str], values: Sequence[str]) -> None:
    """Hand the samples of a batch over; NULLs are invalid."""
    stamps = rows.column(time)
    if pa.types.is_dictionary(stamps.type):
        stamps = stamps.dictionary_decode()
    invalid = np.asarray(stamps.is_null()) if stamps.null_count else np.zeros(len(stamps), np.bool_)
    numbers = []
    for name in values:
        column = rows.column(name)
        column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        if column.null_count:
            invalid = invalid | np.asarray(column.is_null())
            column = column.fill_null(0)
        numbers.append(column.cast(pa.float64()).to_numpy(zero_copy_only=False))
    ticks = stamps.cast(pa.timestamp("us")).view(pa.int64()) if pa.types.is_timestamp(stamps.type) else stamps
    ticks = ticks.cast(pa.int64())
    ticks = (ticks.fill_null(0) if ticks.null_count else ticks).to_numpy(zero_copy_only=False)
    matrix = np.column_stack(numbers) if len(numbers) > 1 else numbers[0].reshape(-1, 1)
    fitter.add([rows.column(k) for k in keys], ticks, matrix, invalid if invalid.any() else None)


def with_counts(table: pa.Table, fitter: Fitter) -> pa.Table:
    return table.replace_schema_metadata({**table.schema.metadata, COUNTS: json.dumps(asdict(fitter.counts)).encode()})


def counts_of(table: pa.Table) -> dict[str, int]:
    """What was counted while the table was fitted: samples, late, violations, repeated, invalid."""
    found: dict[str, int] = json.loads((table.schema.metadata or {}).get(COUNTS, b"{}"))
    return found


def _is_number(type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_decimal(type))
