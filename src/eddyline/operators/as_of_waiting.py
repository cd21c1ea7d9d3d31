"""As-of joins that look ahead: each element waits for the first one of another stream that has its key.

What is correct: the partner of an element at τ is, of the other stream's elements with its key and a time from τ on
(after τ if the comparison is strict), the first by (time, arrival), and the result has its time. With a bound w nothing
can come after τ + w; then the element is dropped, or (LEFT) comes without a partner, at τ + w + 1. Results of one
instant stand in the order of the elements that waited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Delta, Int64s
from eddyline.core.schema import Schema
from eddyline.kernels.as_of import first_after
from eddyline.operators.accumulators import writable
from eddyline.operators.as_of_join import key_numbers
from eddyline.operators.base import Operator
from eddyline.synopses.keys import KeyTable


class FirstAfter(Operator):
    """``keys`` are pairs of a left and a right column; ``within`` is in ticks. The elements that wait are kept as a
    delta, in order."""

    def __init__(
        self, name: str, left: Schema, right: Schema, keys: Sequence[tuple[str, str]], strict: bool,
        within: int | None, outer: bool,
    ) -> None:  # fmt: skip
        super().__init__(name, Schema((*left, *right)))
        self.left, self.right, self.strict, self.within, self.outer = left, right, strict, within, outer
        self.left_keys, self.right_keys = [a for a, _ in keys], [b for _, b in keys]
        self.waiting = Delta.empty(left)

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        left, right = deltas
        left = Delta(left.time, {n: left.columns[n] for n in self.left.names})
        if len(self.waiting):
            left = Delta.concat([self.waiting, left]) if len(left) else self.waiting
        table = KeyTable([self.left[n].type for n in self.left_keys])
        left_key = key_numbers(table, left, self.left_keys, new=True)
        right_key = key_numbers(table, right, self.right_keys, new=False)
        match, following = np.empty(len(left), np.int64), np.empty(len(left), np.int64)
        first_after(
            writable(left.time), left_key, writable(right.time), right_key, self.strict,
            -1 if self.within is None else self.within, np.full(max(1, table.capacity), -1, np.int64), following, match,
        )  # fmt: skip
        found = match >= 0
        over = np.zeros(len(left), np.bool_) if self.within is None else ~found & (left.time < frontier - self.within)
        never = ~found & (left_key < 0) if not self.outer else np.zeros(len(left), np.bool_)
        self.waiting = left.filter(~(found | over | never))
        return self._joined(left, right, match, found | over if self.outer else found)

    def _joined(self, left: Delta, right: Delta, match: Int64s, shown: Any) -> Delta:
        where = np.flatnonzero(shown)
        partner = match[where]
        alone = partner < 0
        time = np.where(alone, left.time[where] + (self.within or 0) + 1, 0)
        time[~alone] = right.time[partner[~alone]]
        order = np.lexsort((where, time))
        where, partner, alone, time = where[order], partner[order], alone[order], time[order]
        columns = {n: c.take(pa.array(where)) for n, c in left.columns.items()}
        taken = pa.array(partner, mask=alone) if alone.any() else pa.array(partner)
        columns |= {n: right.columns[n].take(taken) for n in self.right.names}
        return Delta(time, {n: columns[n] for n in self.schema.names})

    def state(self) -> dict[str, Any]:
        return {"time": self.waiting.time.copy(), "rows": dict(self.waiting.columns)}

    def load(self, state: dict[str, Any]) -> None:
        self.waiting = Delta(np.array(state["time"]), {n: state["rows"][n] for n in self.left.names})

    def size(self) -> tuple[int, int]:
        rows = self.waiting
        return len(rows), rows.time.nbytes + sum(c.nbytes for c in rows.columns.values())

    def describe(self) -> str:
        until = "one comes" if self.within is None else "one comes or none can come any more"
        return f"the elements that wait for a partner, until {until}"
