"""seq-window where no deletion can change the result: every element enters at its own instant, and none is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eddyline.core.delta import Delta
from eddyline.operators.base import Operator


class AppendOnlyWindow(Operator):
    """``[ROWS UNBOUNDED]``, and ``[RANGE]`` below an ``Istream`` that cannot show deletions. Gives elements ids."""

    next_id = 0

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        (delta,) = deltas
        ids = np.arange(self.next_id, self.next_id + len(delta), dtype=np.int64)
        self.next_id += len(delta)
        return Delta(delta.time, delta.columns, None, ids)

    def state(self) -> dict[str, Any]:
        return {"next_id": self.next_id}

    def load(self, state: dict[str, Any]) -> None:
        self.next_id = int(state["next_id"])
