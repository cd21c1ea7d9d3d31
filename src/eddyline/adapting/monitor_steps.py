"""The distances that a kernel measures of a batch, for the monitors of a constraint: in arrivals and in ticks.

A *step* is the position and the distance of a row whose distance no later row of the batch reaches: only these can
become the largest of a window of arrivals (``kernels.constrained_monitors``).
"""

from __future__ import annotations

import numpy as np

from eddyline.adaptive.constraints.forms import Forms
from eddyline.core.delta import Int64s


class MonitorSteps:
    """Room for the steps of so many rows; ``arrays`` is what kernels take."""

    def __init__(self, forms: Forms, rows: int) -> None:
        self.forms = forms
        self.arrivals, self.ticks = np.empty((2, rows + 1), np.int64), np.empty((2, rows + 1), np.int64)
        self.arrivals[:, 0] = self.ticks[:, 0] = 0
        self.taken = np.ones(3, np.int64)  # places in both; the third is for the kernel's own use
        self.arrays = forms.limits, self.arrivals, self.ticks, self.taken

    def hand_over(self, arrived: int, now: int) -> None:
        """Give the steps to the monitors, which have seen so many arrivals until ``now``."""
        a, t, _ = self.taken.tolist()
        self.forms.arrivals.observe(*_made(self.arrivals, a), arrived)
        self.forms.observe_ticks(*_made(self.ticks, t), now)


def _made(steps: Int64s, taken: int) -> tuple[Int64s, Int64s]:
    """Positions and distances; the first above the limit comes first, before a larger one replaced it."""
    part = steps[:, 0 if steps[1, 0] else 1 : taken]
    return part[0], part[1]
