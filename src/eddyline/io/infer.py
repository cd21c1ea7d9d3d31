"""The types of text columns, from a sample.

A column has the first type in the list that fits its values. A few values may not fit: a column of ten thousand numbers
and one typing error is a column of numbers with one malformed row, not a column of texts. The limits are narrow
(one value in twenty, and never more than one in five), and a declared schema takes precedence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from eddyline.expr.types import normalise

UTC_TIMES: Final = (
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
    pa.timestamp("ns"),
    pa.timestamp("ns", "UTC"),
)
CANDIDATES: Final = (pa.int64(), pa.float64(), pa.bool_(), pa.date32(), *UTC_TIMES)
TIME: Final = r"^\d{4}-\d\d-\d\d([ T]\d\d(:\d\d(:\d\d(\.\d{1,9})?)?)?(Z|[+-]\d\d(:?\d\d)?)?)?$"
PATTERNS: Final[tuple[tuple[Callable[[pa.DataType], bool], str], ...]] = (
    (pa.types.is_integer, r"^-?\d{1,18}$"),
    (pa.types.is_floating, r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"),
    (pa.types.is_boolean, r"(?i)^(true|false)$"),
    (pa.types.is_temporal, TIME),
)


def infer(texts: pa.Array, forgiving: bool = True, candidates: Sequence[pa.DataType] = CANDIDATES) -> pa.DataType:
    """The type in which to parse a column of texts. Its engine type is ``normalise`` of it.

    >>> infer(pa.array(["1", "2", None])), infer(pa.array(["1", "2.5"])), infer(pa.array(["a", "2"]))
    (DataType(int64), DataType(double), DataType(string))
    >>> infer(pa.array(["1", "2", "3", "4", "oops"]))
    DataType(int64)
    >>> infer(pa.array(["2024-05-01T10:00:00Z"]))
    TimestampType(timestamp[us, tz=UTC])
    """
    values = pc.utf8_trim_whitespace(texts.drop_null())
    values = values.filter(pc.not_equal(values, ""))  # a quoted nothing is NULL to every type but text
    if len(values) == 0:
        return pa.string()
    for candidate in candidates:
        if fits(values, candidate):
            return candidate
    if forgiving:
        # Which kind of text is most frequent, and is it frequent enough?
        for kind, pattern in PATTERNS:
            good = pc.sum(pc.match_substring_regex(values, pattern)).as_py() or 0
            bad = len(values) - good
            if bad <= max(1, len(values) // 20) and good >= 4 * bad:
                some = values.filter(pc.match_substring_regex(values, pattern))
                return next((c for c in candidates if kind(c) and fits(some, c)), pa.string())
    return pa.string()


def parse_type_for(texts: pa.Array, declared: pa.DataType) -> pa.DataType:
    """The form in which to parse a declared type: times come with and without zone, in micro- and nanoseconds.

    >>> parse_type_for(pa.array(["2024-05-01 10:00:00.123456789"]), pa.timestamp("us"))
    TimestampType(timestamp[ns])
    """
    wanted = normalise(declared)
    if not pa.types.is_timestamp(wanted):
        return wanted
    values = pc.utf8_trim_whitespace(texts.drop_null())
    # The other values decide which type a few bad ones were meant to have.
    times = values.filter(pc.match_substring_regex(values, TIME))
    return next((c for c in UTC_TIMES if len(times) and fits(times, c)), wanted)


def fits(texts: pa.Array, wanted: pa.DataType) -> bool:
    """Whether every text is a value of the type."""
    try:
        pc.cast(texts, wanted)
        return True
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
