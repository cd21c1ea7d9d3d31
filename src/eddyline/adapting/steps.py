"""Distances of a batch that a kernel measures for the monitors of a constraint, in arrivals and in ticks."""

from __future__ import annotations

import numpy as np

from eddyline.adaptive.constraints.forms import Forms
from eddyline.core.delta import Int64s


class Steps:
    """Room for the steps (``kernels.constrained_monitors``) of so many rows; ``arrays`` is what kernels take."""

    def __init__(self, forms: Forms, rows: int) -> None:
        self.forms = forms
        self.arrivals, self.ticks = np.empty((2, rows + 1), np.int64), np.empty((2, rows + 1), np.int64)
        self.arrivals[:, 0] = self.ticks[:, 0] = 0
        self.taken = np.ones(3, np.int64)  # places in both; the third is for the kernel's own use
        self.arrays = forms.limits, self.arrivals, self.ticks, self.taken

    def tell(self, arrived: int, now: int) -> None:
        """Let the monitors know, which have seen so many arrivals until ``now``."""
        a, t, _ = self.taken.tolist()
        self.forms.arrivals.observe(*_made(self.arrivals, a), arrived)
        self.forms.observe_ticks(*_made(self.ticks, t), now)


def _made(steps: Int64s, taken: int) -> tuple[Int64s, Int64s]:
    """Positions and distances; the first above the limit comes first, before a larger one replaced it."""
    part = steps[:, 0 if steps[1, 0] else 1 : taken]
    return part[0], part[1]
