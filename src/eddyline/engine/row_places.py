"""The line of the row that an expression failed for, found in the file that the row came from.

Time and values identify the row. A row with these values at the instant of the failure is the one (another with the
same values and time would have failed as well). Where no row is at that instant, since a join or a sliding window
answers later, exactly one row must have the values; otherwise no place is reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import pyarrow as pa

from eddyline.core.errors import EddylineError
from eddyline.io.row_places import ROWS_SEARCHED, Candidate, candidates
from eddyline.io.source import Source


def place_of(
    source: Source, stamp: str | None, values: Mapping[str, Any], time: int, most: int = ROWS_SEARCHED
) -> str | None:
    """The file and the line or row number, among the first ``most`` rows of the source; None if it is not found.
    ``stamp`` is the column of time.

    An error while the place is searched (a file was removed or changed) must not hide the error that is reported.
    """
    try:
        found = _found(source, stamp, values, time, min(most, ROWS_SEARCHED))
        return None if found is None else found.place()
    except (EddylineError, OSError, pa.ArrowException):
        return None


def place_among(
    source: Source, stamp: str | None, values: Mapping[str, Any], time: int, before: int, most: int = ROWS_SEARCHED
) -> str | None:
    """The place of the row with these values at an instant, where ``before`` earlier rows of that instant have the same
    values. If the source has more or fewer such rows, one was left out, and there is no answer."""
    try:
        spelled = {n.lower(): n for n in source.schema.names}
        if stamp is None or stamp.lower() not in spelled:
            return None
        column = spelled[stamp.lower()]
        there = {column: _value(time, source.schema.field(column).type)}
        wanted = {spelled[n.lower()]: v for n, v in values.items() if n.lower() in spelled}
        found = list(islice(candidates(source, wanted | there, min(most, ROWS_SEARCHED)), before + 2))
        return found[before].place() if len(found) == before + 1 else None
    except (EddylineError, OSError, pa.ArrowException):
        return None


def _found(source: Source, stamp: str | None, values: Mapping[str, Any], time: int, most: int) -> Candidate | None:
    spelled = {n.lower(): n for n in source.schema.names}
    wanted = {spelled[n.lower()]: v for n, v in values.items() if n.lower() in spelled}
    stamp = None if stamp is None else spelled.get(stamp.lower())
    if stamp is not None:
        there = {stamp: _value(time, source.schema.field(stamp).type)}
        at_once = next(candidates(source, wanted | there, most), None)
        if at_once is not None:
            return at_once
    some = list(islice(candidates(source, wanted, most), 2))
    return some[0] if len(some) == 1 else None


def _value(time: int, kind: pa.DataType) -> Any:
    """What a column of time holds at an instant."""
    if not pa.types.is_temporal(kind):
        return time
    return pa.scalar(time, pa.int64()).cast(pa.timestamp("us")).cast(kind).as_py()
