"""Dates, timestamps (UTC, microseconds) and what can be read from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.expr.arrays import Kernel, Value, both_valid, broadcast, from_numpy, to_numpy, valid_mask
from eddyline.expr.builtins.base import Argument, Builder, Built, plain
from eddyline.expr.failures import within
from eddyline.expr.types import DATE, DATE_RANGE, INT32, INT64, TIMESTAMP, TIMESTAMP_RANGE

_UNITS = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    "quarter": "quarter",
    **dict.fromkeys(("month", "mon", "mm"), "month"),
    "week": "week",
    **dict.fromkeys(("day", "dd"), "day"),
    "hour": "hour",
    "minute": "minute",
    "second": "second",
    "millisecond": "millisecond",
    "microsecond": "microsecond",
}


def _part(kernel: Kernel) -> Builder:
    return plain(lambda a: pc.cast(kernel(a), INT32))


def _truncate(unit: str | None, times: pa.Array) -> pa.Array:
    """An unknown unit gives NULL, as in Spark."""
    name = _UNITS.get(unit.lower()) if unit is not None else None
    if name is None:
        return pa.nulls(len(times), TIMESTAMP)
    return pc.floor_temporal(times, unit=name, week_starts_monday=True)


def _date_trunc(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
    if arguments[0].literal is not None:
        unit = arguments[0].value
        return Built(lambda _, times: _truncate(unit, broadcast(times, 1)))

    def by_unit(units: pa.Array, times: Value) -> pa.Array:
        all_times = broadcast(times, len(units))
        result = pa.nulls(len(units), TIMESTAMP)
        for unit in pc.unique(units).to_pylist():
            if unit is not None:
                here = pc.fill_null(pc.equal(units, unit), False)
                result = pc.if_else(here, _truncate(unit, all_times), result)
        return result

    return Built(by_unit)


def _shift_days(sign: int) -> Builder:
    def kernel(dates: Value, days: Value) -> pa.Array:
        if any(isinstance(x, pa.Scalar) and not x.is_valid for x in (dates, days)):
            return pa.nulls(len(dates) if isinstance(dates, pa.Array) else len(days), DATE)
        start, by = np.int64(to_numpy(dates)), to_numpy(days)
        moved = start + sign * np.clip(by, -(1 << 40), 1 << 40)  # no int64 overflow, and still out of range
        valid = both_valid(dates, days)
        small = np.clip(moved, -(1 << 31), (1 << 31) - 1).astype(np.int32)
        return within(from_numpy(small, valid, DATE), DATE_RANGE)

    return lambda arguments, returns: Built(kernel, can_fail=True)


def _datediff(end: Value, start: Value) -> pa.Array:
    return pc.subtract(pc.cast(end, INT32), pc.cast(start, INT32))


def _since_epoch(unit: int) -> Builder:
    def kernel(times: pa.Array) -> pa.Array:
        micros = to_numpy(times)
        return from_numpy(micros if unit == 1 else np.floor_divide(micros, unit), valid_mask(times), INT64)

    return plain(kernel)


def _from_epoch(unit: int) -> Builder:
    def kernel(numbers: pa.Array) -> pa.Array:
        return within(pc.cast(pc.multiply_checked(numbers, unit), TIMESTAMP), TIMESTAMP_RANGE)

    return lambda arguments, returns: Built(kernel, can_fail=True)


BUILDERS: dict[str, Builder] = {
    "year": _part(pc.year),
    "month": _part(pc.month),
    "day": _part(pc.day),
    "hour": _part(pc.hour),
    "minute": _part(pc.minute),
    "second": _part(pc.second),
    "quarter": _part(pc.quarter),
    "week": _part(pc.iso_week),
    "dayofyear": _part(pc.day_of_year),
    "dayofweek": _part(lambda a: pc.day_of_week(a, count_from_zero=False, week_start=7)),  # Sunday is 1
    "weekday": _part(lambda a: pc.day_of_week(a, count_from_zero=True, week_start=1)),  # Monday is 0
    "date_trunc": _date_trunc,
    "date_add": _shift_days(1),
    "date_sub": _shift_days(-1),
    "datediff": plain(_datediff),
    "to_date": plain(lambda a: a),
    "to_timestamp": plain(lambda a: a),
    "unix_micros": _since_epoch(1),
    "unix_millis": _since_epoch(1_000),
    "unix_seconds": _since_epoch(1_000_000),
    "unix_date": plain(lambda a: pc.cast(a, INT32)),
    "timestamp_micros": _from_epoch(1),
    "timestamp_millis": _from_epoch(1_000),
    "timestamp_seconds": _from_epoch(1_000_000),
}
