"""Moving rows from one ring to another of a different size."""

from __future__ import annotations

from collections.abc import Iterator


def pieces(first: int, end: int, old_mask: int, mask: int) -> Iterator[tuple[int, int, int]]:
    """The positions ``first`` … ``end`` in pieces that two rings have in one piece: where each begins, its length.

    >>> list(pieces(6, 11, 7, 15)), list(pieces(14, 18, 7, 15))
    ([(6, 6, 2), (0, 8, 3)], [(6, 14, 2), (0, 0, 2)])
    """
    while first < end:
        was, now = first & old_mask, first & mask
        n = min(end - first, old_mask + 1 - was, mask + 1 - now)
        yield was, now, n
        first += n
