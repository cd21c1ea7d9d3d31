"""Where a node of the syntax tree stands in the text."""

from __future__ import annotations

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
