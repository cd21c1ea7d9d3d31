"""Compares the rows that wait in front of queries with the limit of a stream: when to block, and which rows to shed."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.adaptive.overload.shedding import Shedding
from eddyline.core.delta import Bools, Float64s, Int64s
from eddyline.core.overload import WEIGHT, Overload
from eddyline.engine.reorder import Chunk
from eddyline.engine.side_output import Diverted, SideOutput


class OverloadGuard:
    """One stream's ``ON OVERLOAD``. Shed rows are put into ``output``."""

    def __init__(self, spec: Overload, stream: str, output: SideOutput) -> None:
        self.spec, self.stream, self.output = spec, stream, output
        self.policy = Shedding(spec, stream)
        self._pressing: set[object] = set()  # queries whose state is above their limits of memory
        self._came: deque[tuple[int, int]] = deque()  # number after the last row of a batch, and when it came (µs)

    def sift(
        self, raw: pa.RecordBatch, time: Int64s, held: list[Chunk], first: int, now: int, shown: int | None
    ) -> tuple[Bools | None, Float64s | None]:
        """Which of the next rows are kept (None: all), and the weights of those. ``held`` is what waits, ``first`` the
        number of the first row."""
        load, each = self._load(held, now, raw)
        self._came.append((first + len(time), now))
        if not self.sheds:
            return None, None
        keep = self.policy.keeps(len(time), load, each, shown, bool(self._pressing))
        weights = np.ones(len(time))
        if keep is None:
            return None, weights
        assert self.policy.since is not None
        if self.spec.action == "sample":
            weights[self.policy.since :] = 1.0 / self.spec.share
        gone = ~keep
        at = np.maximum.accumulate(time)[gone]
        reason = pa.repeat(f"shed: ON OVERLOAD {self.spec}", len(at))
        self.output.add(Diverted(self.stream, raw.filter(pa.array(gone)), at, reason))
        return keep, weights[keep]

    @property
    def sheds(self) -> bool:
        return self.spec.action != "block"

    def full(self, held: list[Chunk], now: int) -> bool:
        """Whether as much waits as may."""
        return self._load(held, now)[0] >= self.spec.limit

    def press(self, query: object, above: bool) -> None:
        """Whether the state of a query that reads the stream is above its limit of memory, and nothing else helps."""
        (self._pressing.add if above else self._pressing.discard)(query)

    def _load(self, held: list[Chunk], now: int, raw: pa.RecordBatch | None = None) -> tuple[float, float]:
        """What waits, and what one more row adds to it, in the unit of the bound."""
        match self.spec.unit:
            case "rows":
                return float(sum(len(c) for c in held)), 1.0
            case "bytes":
                row = 0.0 if raw is None else raw.nbytes / max(1, raw.num_rows)
                return float(sum(c.rows.nbytes + c.time.nbytes for c in held)), row + 8.0
            case "µs":
                return float(self._waited(held, now)), 0.0

    def _waited(self, held: list[Chunk], now: int) -> int:
        """How long ago the oldest row came that still waits."""
        if not held:
            self._came.clear()
            return 0
        oldest = min(int(c.arrivals.min()) for c in held)
        while self._came and self._came[0][0] <= oldest:
            self._came.popleft()
        return now - self._came[0][1] if self._came else 0

    def state(self) -> dict[str, Any]:
        return self.policy.state()

    def load(self, state: Mapping[str, Any]) -> None:
        self.policy.load(state)  # rows that waited when it was saved count from now on: no time passed while it was off


def with_weights(rows: pa.RecordBatch, weights: Float64s) -> pa.RecordBatch:
    return rows.append_column(WEIGHT, pa.array(weights))
