"""Checks of declarations: names of columns, kinds of time, widths, types."""

from __future__ import annotations

import math
import os
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from eddyline.adaptive.disorder.policies import make_policy
from eddyline.core.arguments import shown
from eddyline.core.errors import CqlError, JobError, did_you_mean
from eddyline.core.overload import WEIGHT, Overload
from eddyline.core.schema import Field, Schema
from eddyline.core.time import TimeKind
from eddyline.cql.job import QueryStatement, Statement
from eddyline.cql.places import quoted_place
from eddyline.cql.windows import IntervalText, resolve_duration
from eddyline.expr.types import normalise, parse_type, type_name
from eddyline.io.conform import other_delimiter
from eddyline.streamon.strategies import strategies


def column_named(name: str, schema: Schema, column: str) -> str:
    """The column of a source as it is spelled there; names are case-insensitive."""
    found = next((n for n in schema.names if n.lower() == column.lower()), None)
    if found is None:
        known = f"It has: {', '.join(schema.names)}." if schema.names else "It has none."
        hint = other_delimiter(schema.names)
        raise JobError(f"{name!r} has no column {column!r}.{did_you_mean(column, schema.names)} {known}{hint}")
    return found


def time_kind(name: str, schema: Schema, timestamp: str | None) -> TimeKind:
    """The kind of time that a timestamp column brings; without one, arrival time in microseconds."""
    if timestamp is None:
        return TimeKind.TIMESTAMP
    type = schema[timestamp].type
    if pa.types.is_integer(type):
        return TimeKind.INTEGER
    if pa.types.is_timestamp(type):
        return TimeKind.TIMESTAMP
    hint = " Declare the columns, this one as timestamp." if pa.types.is_string(type) or pa.types.is_date(type) else ""
    raise JobError(
        f"the timestamp column {timestamp!r} of {name!r} is a {type_name(type)}; it must be an integer or a timestamp."
        + hint
    )


# Names that say of a column that it holds the time of its row. ``_time`` is what results call it.
TIME_NAMES: Final = ("ts", "timestamp", "time", "event_time", "eventtime", "event_timestamp", "datetime", "_time")


def inferred_time(name: str, schema: Schema) -> str:
    """The column of time of a stream that ends and names none: its only column of a timestamp type, or, of several, the
    one that is plainly named; without such columns, the only integer that is plainly named. Otherwise it is refused
    with the choice: the clock's time instead would make the answer another one on each day.

    >>> inferred_time("S", Schema.from_arrow(pa.schema([("key", pa.int64()), ("ts", pa.int64())])))
    'ts'
    >>> inferred_time("S", Schema.from_arrow(pa.schema([("sent", pa.timestamp("us")), ("time", pa.timestamp("us"))])))
    'time'
    """
    stamps = [f.name for f in schema if pa.types.is_timestamp(f.type)]
    named = [f.name for f in schema if f.name.lower() in TIME_NAMES and _may_count(f.type)]
    plain = [n for n in stamps if n.lower() in TIME_NAMES]
    found = plain if len(plain) == 1 and not named else [*stamps, *named]
    if len(found) == 1:
        return found[0]
    several = found or [f.name for f in schema if _may_count(f.type)]
    which = f"several columns could be it ({', '.join(several)})" if found else "no column is plainly it"
    if found:
        remedy = f"Say which: TIMESTAMP BY {several[0]}"
    elif several:
        remedy = f"Say which column it is with TIMESTAMP BY ({', '.join(several)} could serve)"
    else:
        remedy = "Declare the columns, one of them as timestamp, and name it with TIMESTAMP BY"
    raise JobError(
        f"{name!r} names no column of time, and {which}. {remedy}; rows without a time are a relation, and"
        " WITH (arrival = true) stamps them when they are read."
    )


def _may_count(type: pa.DataType) -> bool:
    """Whether a column may hold an integer time; that of a file without rows has no type yet."""
    return bool(pa.types.is_integer(type) or pa.types.is_null(type))


def data_type(t: str | pa.DataType) -> pa.DataType:
    if isinstance(t, pa.DataType):
        try:
            return normalise(t)
        except ValueError:
            raise JobError(f"Eddyline has no values of the type {t}.") from None
    if not isinstance(t, str):
        raise JobError(f"a type is a text such as 'bigint' or a pyarrow.DataType, not {shown(t)}.")
    try:
        return parse_type(t)
    except ValueError as e:
        raise JobError(str(e)) from None


def duration(value: Any, kind: TimeKind, what: str) -> int:
    """Ticks of a width given in Python.

    >>> duration("5 seconds", TimeKind.TIMESTAMP, "slack"), duration(timedelta(seconds=2), TimeKind.INTEGER, "slack")
    (5000000, 2)
    """
    number = isinstance(value, int | float | Decimal | np.number) and not isinstance(value, bool)
    if not (number or isinstance(value, str | timedelta | IntervalText)) or (number and not math.isfinite(value)):
        raise JobError(f"{what} is a number or a text such as '5 seconds', not {shown(value)}.")
    if isinstance(value, timedelta):
        value = IntervalText(Decimal(value // timedelta(microseconds=1)), "microseconds")
    if isinstance(value, str):
        amount, _, unit = value.strip().partition(" ")
        try:
            value = IntervalText(Decimal(amount), unit.strip() or None)
        except InvalidOperation as e:
            raise JobError(f"{what} is a number or a text such as '5 seconds', not {value!r}.") from e
    try:
        ticks = resolve_duration(value, kind)
    except CqlError as error:
        if error.text:
            raise
        raise JobError(f"{what}: {error.message}") from None
    if ticks < 0:
        raise JobError(f"{what} must not be negative, and it is {value}.")
    return ticks


def slack_of(name: str, value: Any, kind: TimeKind, timestamp: str | None) -> tuple[int, str | None]:
    """The width of a fixed slack, and the policy of one that is chosen while the stream runs (None: it is fixed).

    >>> slack_of("S", "5 seconds", TimeKind.TIMESTAMP, "ts"), slack_of("S", "99.5 %", TimeKind.TIMESTAMP, "ts")
    ((5000000, None), (0, 'auto(target=99.5)'))
    """
    if not isinstance(value, str):
        return duration(value, kind, "slack"), None
    text = value.strip()
    if text.endswith("%"):
        text = f"auto(target={text[:-1].strip()})"
    if not text[:1].isalpha():
        return duration(value, kind, "slack"), None
    if not any(text.lower().startswith(name) for name in strategies("slack")):
        raise JobError(f"slack is a number or a text such as '5 seconds', '99 %' or 'auto', not {value!r}.")
    make_policy(text)  # checks it
    if timestamp is None:
        raise JobError(
            f"{name!r} is stamped on arrival, so no row of it is late: SLACK AUTO needs TIMESTAMP BY, or leave it out."
        )
    return 0, text


def weighted(name: str, schema: Schema, overload: Overload | None) -> Schema:
    """The columns of a stream: one that samples under overload has the weight of each row beside its own."""
    if overload is None or overload.action != "sample":
        return schema
    if WEIGHT in schema.names:
        raise JobError(
            f"{name!r} has a column {WEIGHT!r}, where ON OVERLOAD SAMPLE puts the weight of a row: declare the columns"
            " under other names, or use DROP."
        )
    return Schema((*schema, Field(WEIGHT, pa.float64())))


def placed(error: JobError, statement: Statement, otherwise: str | None = None) -> CqlError:
    """The error with its place in the job; ``otherwise`` is where to look if the message quotes nothing."""
    if isinstance(error, CqlError) and error.span is not None:
        return error
    message = str(error)
    options = statement.options_span if isinstance(statement, QueryStatement) else None
    span = quoted_place(message, statement.text, statement.span, statement.name, otherwise, options)
    return CqlError(message, statement.text, span)


def folder(path: Any, what: str) -> Path:
    """The path of a directory, given as a text or a path."""
    is_path = isinstance(path, str | os.PathLike) and isinstance(os.fspath(path), str) and os.fspath(path)
    try:
        if is_path:
            Path(path).stat()  # says whether the system can look for such a name at all
            return Path(path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return Path(path)
    except (OSError, ValueError) as e:
        raise JobError(f"{what} needs the path of a directory, and {shown(path)} cannot be one: {e}.") from None
    raise JobError(f"{what} needs the path of a directory, not {shown(path)}.")
