"""Sizes in bytes and counts of things as texts for people: ``3.0 MB``, ``2,000 rows``; and sizes read from texts."""

from __future__ import annotations

import re
from typing import Any, Final

_UNITS: Final = {"": 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}


def size(count: int) -> str:
    """
    >>> size(500), size(3 << 20)
    ('500 B', '3.0 MB')
    """
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1024:
            return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GB"


def amount(count: int, one: str, many: str | None = None) -> str:
    """
    >>> amount(1, "row"), amount(2000, "row"), amount(0, "query", "queries")
    ('1 row', '2,000 rows', '0 queries')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def bytes_of(amount: Any) -> int | None:
    """A size as people write it, in bytes; None if it is none.

    >>> bytes_of("64 MB"), bytes_of("1.5kB"), bytes_of(500), bytes_of("much"), bytes_of(-1)
    (67108864, 1536, 500, None, None)
    """
    if isinstance(amount, int) and not isinstance(amount, bool):
        return amount if amount >= 0 else None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmg]?b?)\s*", amount.lower()) if isinstance(amount, str) else None
    if found is None or found[2] not in _UNITS:
        return None
    return int(float(found[1]) * _UNITS[found[2]])
