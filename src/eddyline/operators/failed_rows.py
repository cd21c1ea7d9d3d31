"""The row that an expression failed for, described for the user: the stream, the time, the values of its columns, and
the line of its file where one is found.

Operators have the columns that the plan reads, under names such as ``S.v``. They have no lines or row numbers, because
rows are put in order, joined and grouped on the way. ``locate`` finds the row in its source by time and values.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from typing import Any, Final

from eddyline.core.errors import DataError, clipped
from eddyline.core.time import TimeKind, time_text

COLUMNS_SHOWN: Final = 6  # in a message, at most
VALUE_CHARACTERS: Final = 40  # of a value in a message, at most

# The stream, values of some of its columns, and the time of the failure → the place of the row, if it is found.
Locate = Callable[[str, Mapping[str, Any], int], str | None]


def described(
    row: Mapping[str, Any], time: int | None, kind: TimeKind, sources: Mapping[str, str], locate: Locate | None = None
) -> str:
    """``sources`` has the stream or relation of each alias in the plan. ``time`` is None where rows have none.

    >>> described({"S.v": 0, "S.k": None}, 5, TimeKind.INTEGER, {"S": "S"})
    'a row of S at time 5: v = 0, k = NULL'
    >>> described({"a.v": "x", "b.v": 2}, 0, TimeKind.TIMESTAMP, {"a": "S", "b": "R"})
    "a row of S and R at time 1970-01-01 00:00:00: a.v = 'x', b.v = 2"
    >>> described({"n": 3}, 7, TimeKind.INTEGER, {"S": "S"})
    'a row at time 7: n = 3'
    >>> described({"S.v": 0}, None, TimeKind.INTEGER, {"S": "S"})
    'a row of S: v = 0'
    >>> described({"S.v": 0}, 5, TimeKind.INTEGER, {"S": "S"}, lambda stream, values, time: "calls.csv, line 3")
    'a row of S at time 5: v = 0 (calls.csv, line 3)'
    """
    # What starts with _ is not the user's: the alias of a subquery without one, a mark, a position.
    split = [(*n.rpartition(".")[::2], value) for n, value in row.items()]
    parts = [("" if alias.startswith("_") else alias, n, value) for alias, n, value in split if not n.startswith("_")]
    aliases = list(dict.fromkeys(alias for alias, _, _ in parts if alias in sources))
    streams = " and ".join(dict.fromkeys(sources[a] for a in aliases))
    shown = [
        f"{f'{alias}.' if alias and len(aliases) > 1 else ''}{name} = {_value(value)}" for alias, name, value in parts
    ]
    more = ", …" if len(shown) > COLUMNS_SHOWN else ""
    values = f": {', '.join(shown[:COLUMNS_SHOWN])}{more}" if shown else ""
    places: dict[str, str] = {}
    for alias in aliases:
        if locate is None or time is None:
            break
        mine = {name: value for a, name, value in parts if a == alias}
        if (place := locate(sources[alias], mine, time)) is not None:
            places[alias] = place
    found = "; ".join(p if len(aliases) == 1 else f"{alias}: {p}" for alias, p in places.items())
    where = f" ({found})" if found else ""
    of, at = f" of {streams}" if streams else "", "" if time is None else f" at time {time_text(time, kind)}"
    return f"a row{of}{at}{values}{where}"


def for_row(error: DataError, which: str) -> DataError:
    """
    >>> print(for_row(DataError("division by zero in '1 / S.v'."), "a row of S: v = 0"))
    division by zero in '1 / S.v', for a row of S: v = 0.
    """
    return DataError(f"{str(error).rstrip('.')}, for {which}.")


def _value(value: Any) -> str:
    if value is None:
        return "NULL"
    return clipped(
        str(value) if isinstance(value, datetime.date | datetime.timedelta) else repr(value), VALUE_CHARACTERS
    )
