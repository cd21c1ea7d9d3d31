"""Amounts as people read them."""

from __future__ import annotations


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
