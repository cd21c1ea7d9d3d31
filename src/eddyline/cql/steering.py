"""Statements that change running queries and streams.

::

    ALTER QUERY name SET (option = value, …)
    ALTER STREAM name SET SLACK width [IDLE width]
    PIN QUERY name
    UNPIN QUERY name
    UNDO DECISION number [OF QUERY name] [IN SHARD number]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot.tokenizer_core import TokenType

from eddyline.core.errors import Span, did_you_mean
from eddyline.cql.cursor import Cursor
from eddyline.cql.options import parse_options


@dataclass(frozen=True, slots=True)
class AlterQuery:
    """An option with the value NULL goes back to its default."""

    name: str
    options: Mapping[str, Any]
    span: Span
    text: str = field(repr=False, default="")


@dataclass(frozen=True, slots=True)
class AlterStream:
    """``widths`` by clause in lower case, as the clauses of ``CREATE STREAM`` are written."""

    name: str
    widths: Mapping[str, Any]
    span: Span
    text: str = field(repr=False, default="")


@dataclass(frozen=True, slots=True)
class PinQuery:
    name: str
    pinned: bool
    span: Span
    text: str = field(repr=False, default="")


@dataclass(frozen=True, slots=True)
class UndoDecision:
    """``name`` is None where only one query runs; ``shard`` is for queries on Spark."""

    number: int
    name: str | None
    shard: int | None
    span: Span
    text: str = field(repr=False, default="")


Steer = AlterQuery | AlterStream | PinQuery | UndoDecision
Clauses = Callable[[Cursor, tuple[str, ...]], dict[str, Any]]


def parse_steering(cursor: Cursor, span: Span, clauses: Clauses) -> Steer | None:
    """The statement at the cursor; None if it is another kind of statement. ``clauses`` reads those of a stream."""
    if cursor.word("ALTER"):
        return _alter(cursor, span, clauses)
    for word, pinned in (("PIN", True), ("UNPIN", False)):
        if cursor.word(word, "QUERY"):
            name = cursor.name("the name of the query")
            return _ended(cursor, PinQuery(name, pinned, span, cursor.text))
    if cursor.word("UNDO"):
        return _undo(cursor, span)
    return None


def _alter(cursor: Cursor, span: Span, clauses: Clauses) -> Steer:
    if cursor.word("QUERY"):
        name = cursor.name("the name of the query")
        _set(cursor)
        return _ended(cursor, AlterQuery(name, parse_options(cursor, "SET"), span, cursor.text))
    if cursor.word("STREAM"):
        name = cursor.name("the name of the stream")
        _set(cursor)
        cursor.index += 1
        found = clauses(cursor, ("SLACK", "IDLE"))
        if not found:
            raise cursor.error(f"expected SLACK or IDLE with a width, but {cursor.found()}.")
        return AlterStream(name, {clause.lower(): width for clause, width in found.items()}, span, cursor.text)
    hint = did_you_mean(cursor.current.text, ["QUERY", "STREAM"]) if cursor.current else ""
    raise cursor.error(f"expected QUERY or STREAM after ALTER, but {cursor.found()}.{hint}")


def _set(cursor: Cursor) -> None:
    at = cursor.current
    if at is None or at.text.upper() != "SET":
        raise cursor.error(f"expected SET after the name, but {cursor.found()}.")


def _undo(cursor: Cursor, span: Span) -> Steer:
    if not cursor.word("DECISION"):
        raise cursor.error(f"expected DECISION and its number after UNDO, but {cursor.found()}.")
    number = _whole(cursor, "the number of a decision")
    name = cursor.name("the name of the query") if cursor.word("OF", "QUERY") else None
    shard = _whole(cursor, "the number of a shard") if cursor.word("IN", "SHARD") else None
    return _ended(cursor, UndoDecision(number, name, shard, span, cursor.text))


def _whole(cursor: Cursor, what: str) -> int:
    number = cursor.take(TokenType.NUMBER)
    if number is None or not number.text.isdecimal():
        raise cursor.error(f"expected {what}, but {cursor.found()}.", number)
    return int(number.text)


def _ended(cursor: Cursor, statement: Steer) -> Steer:
    if cursor.current is not None:
        raise cursor.error(f"the statement should end here, but {cursor.found()}.")
    return statement
