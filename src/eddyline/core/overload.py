"""``ON OVERLOAD SAMPLE 10 % ABOVE 50000 ROWS``: what a stream does when more rows wait than it may hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

WEIGHT = "_weight"  # the column of a stream with SAMPLE: one over the probability with which the row was kept


@dataclass(frozen=True, slots=True)
class Overload:
    """``limit`` is in rows, bytes or, for the time that the oldest row has waited, microseconds of the wall clock.
    ``share`` is the probability with which SAMPLE keeps a row, ``seed`` says which ones.

    >>> str(Overload("sample", 50_000, "rows", 0.1)), str(Overload("drop", 2_000_000, "µs"))
    ('SAMPLE 10 % ABOVE 50,000 ROWS', 'DROP ABOVE 2 SECONDS')
    """

    action: Literal["block", "drop", "sample"]
    limit: int
    unit: Literal["rows", "bytes", "µs"]
    share: float = 0.0
    seed: int = 0

    def __str__(self) -> str:
        share = f" {100 * self.share:g} %" if self.action == "sample" else ""
        limit = {
            "rows": f"{self.limit:,} ROWS",
            "bytes": f"{self.limit:,} BYTES",
            "µs": f"{self.limit / 1e6:g} SECONDS",
        }
        return f"{self.action.upper()}{share} ABOVE {limit[self.unit]}"
