"""Widths of time in statements and clauses that are read token by token."""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from eddyline.cql.cursor import Cursor
from eddyline.cql.window_syntax import Duration
from eddyline.cql.windows import IntervalText, interval_text


def read_width(cursor: Cursor, clause: str, following: Collection[str]) -> IntervalText:
    """``5 SECONDS``, ``INTERVAL '5' SECOND``, ``INTERVAL 5 SECONDS``, ``'5 seconds'`` or a bare number.

    ``clause`` is named in errors; ``following`` are words that may come after the width, so that none of them is its
    unit.

    >>> from eddyline.cql.parsing import tokenize
    >>> text = "INTERVAL 5 SECONDS"
    >>> str(read_width(Cursor(tokenize(text), text), "SLACK", ()))
    '5 seconds'
    """
    first = cursor.current
    cursor.word("INTERVAL")
    number = cursor.take(TokenType.NUMBER) or cursor.take(TokenType.STRING)
    if number is None or first is None:
        raise cursor.error(f"{clause} needs a width such as 5 SECONDS, but {cursor.found()}.")
    amount, _, unit = number.text.strip().partition(" ")
    duration, end = Duration(amount=amount), number
    if unit:
        duration.set("unit", exp.Var(this=unit.strip()).update_positions(number))
    elif cursor.current is not None and cursor.current.text.upper() not in following:
        end = cursor.current
        duration.set("unit", exp.Var(this=cursor.name("a unit of time")).update_positions(end))
    duration.meta["start"], duration.meta["end"] = first.start, end.end
    return interval_text(duration, cursor.text)
