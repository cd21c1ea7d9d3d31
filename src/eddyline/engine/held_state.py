"""The size of the state that the operators of a query hold: now, and at its largest."""

from __future__ import annotations


class HeldState:
    """Rows and bytes now and at most. A batch may bring a stream from its first element to its last, behind which
    windows are empty again: so it is looked at after each run of an operator, and operators with windows look within a
    run.

    >>> held = HeldState(10, 80)
    >>> held.change(5, 40, within=3); held.change(-15, -120)
    >>> held.rows, held.peak
    (0, (18, 120))
    """

    def __init__(self, rows: int = 0, bytes: int = 0) -> None:
        self.rows, self.bytes = rows, bytes
        self.peak = (rows, bytes)
        self.users = 0  # queries

    def change(self, rows: int, bytes: int, within: int = 0) -> None:
        """``within``: rows that there were for a moment, beside those that are left."""
        self.rows += rows
        self.bytes += bytes
        self.peak = max(self.peak[0], self.rows + within), max(self.peak[1], self.bytes)
