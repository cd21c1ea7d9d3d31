"""The place of a node of the syntax tree in the text."""

from __future__ import annotations

import re
from typing import Any

from eddyline.core.errors import Span


def span_of(node: Any) -> Span | None:
    """The smallest span that covers a node and everything below it; None if nothing below it has a place.

    sqlglot gives places to names, literals and calls only, so an operator's place is that of its operands.
    """
    if node is None or not hasattr(node, "walk"):
        return None
    low: int | None = None
    high = 0
    for part in node.walk():
        start, end = part.meta.get("start"), part.meta.get("end")
        if start is None or end is None:
            continue
        low = start if low is None else min(low, start)
        high = max(high, end + 1)
    return None if low is None else Span(low, high)


def item_text(node: Any, text: str) -> str:
    """The text of a select item with its white space tidied, which is its output name where it has no alias."""
    item = node.meta.get("item")
    if item is None:
        span = span_of(node)
        item = (span.start, span.end - 1) if span else (0, -1)
    words = " ".join(text[item[0] : item[1] + 1].split())
    for loose, tight in (("( ", "("), (" )", ")"), (" ,", ",")):
        words = words.replace(loose, tight)
    return words


def quoted_place(
    message: str,
    text: str,
    span: Span,
    name: str | None = None,
    otherwise: str | None = None,
    options: Span | None = None,
) -> Span:
    """The first word in the statement at ``span`` that a message quotes: where the reader should look.

    ``name``, that of the thing declared, is where to look only if nothing else is quoted; ``otherwise`` is where to
    look if nothing is. The whole statement if that is not there either. A word that stands in the ``options`` of the
    statement too is meant there: a column may be called like an option.

    >>> text = "CREATE STREAM S FROM 's.csv' TIMESTAMP BY tz"
    >>> place = quoted_place("'S' has no column 'tz'. Did you mean 'ts'?", text, Span(0, len(text)), "S")
    >>> text[place.start : place.end]
    'tz'
    """
    quoted = re.findall(r"'([^']*)'", message)
    own = [q for q in quoted if q == name]
    words = [q for q in quoted if q not in own] + own
    for word in (*words, otherwise):
        if word is None:
            continue
        pattern = rf"(?<!\w){re.escape(word)}(?!\w)" if word else "''"
        for where in (span,) if options is None else (options, span):
            for flags in (0, re.IGNORECASE):
                found = re.compile(pattern, flags).search(text, where.start, where.end)
                if found is not None:
                    return Span(found.start(), found.end())
    return span
