"""How many random cases a test draws.

``EDDYLINE_CASES`` scales the numbers: 1 is the usual run, less a quick one, more a deep one. ``make test-deep`` takes
5 so that it can be run whole after a change; ``make test-deep CASES=20`` is for a night. In a deep run the tests of
the whole language, of long joins and of random sessions grow with it; those of one feature grow to ``MOST`` times
their usual size.
"""

from __future__ import annotations

import os

FACTOR = float(os.environ.get("EDDYLINE_CASES", "1"))
DEEP = FACTOR > 1
MOST = 5


def scaled(usual: int, least: int, most: float = MOST) -> int:
    """The number of cases where ``usual`` is that of the usual run and ``least`` that of a quick one."""
    return max(least, round(usual * min(FACTOR, most)))
