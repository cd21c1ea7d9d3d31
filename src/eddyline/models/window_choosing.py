"""Windows over signals of which some are fitted and the others evaluated on tuples.

What is correct beside ``models.choosing``: tuples give the windows of a key that end before it began to be fitted, and
those up to a width behind that, which its models do not cover; and from the sample on with which it returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Float64s, Int64s
from eddyline.core.schema import Schema
from eddyline.core.time import Clock, TimeKind
from eddyline.kernels import window_tuples as kernels
from eddyline.kernels.interpolate import AHEAD, LAST, MODELS, TUPLES
from eddyline.kernels.window_tuples import BEGIN, NEWEST, OLDEST, RING, ROOM, RUN, UNTIL
from eddyline.models.choosing import ChoosingStore
from eddyline.models.instants import at_instants
from eddyline.models.pieces import Pieces, Value, for_kernel
from eddyline.models.sources import FittedRows
from eddyline.models.window_instants import WindowPlan

FIRST_ROOM: Final = 16  # samples of a key's ring, before it grows


class WindowStore(ChoosingStore):
    def __init__(
        self, model: FittedRows, schema: Schema, prefix: str, kind: TimeKind, step: int, plan: WindowPlan,
        fixed: bool = False, clock: Clock | None = None,
    ) -> None:  # fmt: skip
        super().__init__(model, schema, prefix, kind, step, plan.conditions, fixed, clock, plan.names)
        self.plan, self.root = plan, plan.root
        self.kind = np.array([k for k, _ in plan.functions], np.int64)
        self.column = np.array([j for _, j in plan.functions], np.int64)
        width = len(plan.arguments.items)
        self.argument: Float64s = np.empty((0, width))  # of the samples that are walked along
        self.head = np.empty(width)  # room for the arguments at an instant
        self.state_of_ring = np.zeros((0, RING), np.int64)
        self.ends = np.zeros((0, len(self.kind), 2), np.int64)  # of each function's queue
        self.times = np.empty(0, np.int64)
        self.ring, self.sums = np.empty((0, width)), np.empty((0, 2 * width))
        self.queue = np.empty((0, len(self.kind)), np.int64)

    @property
    def rings(self) -> tuple[Any, ...]:
        return self.state_of_ring, self.times, self.ring, self.sums, self.queue, self.ends

    def __len__(self) -> int:
        return super().__len__() + int((self.state_of_ring[:, NEWEST] - self.state_of_ring[:, OLDEST]).sum())

    @property
    def nbytes(self) -> int:
        return super().nbytes + sum(int(a.nbytes) for a in self.rings)

    # ── samples ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _grow(self, known: int) -> None:
        super()._grow(known)
        more = known - len(self.state_of_ring)
        if more > 0:
            fresh = np.zeros((more, RING), np.int64)
            fresh[:, ROOM] = FIRST_ROOM
            fresh[:, BEGIN] = len(self.times) + FIRST_ROOM * np.arange(more)
            self.state_of_ring = np.concatenate([self.state_of_ring, fresh])
            self.ends = np.concatenate([self.ends, np.zeros((more, len(self.kind), 2), np.int64)])
            self.times, self.ring, self.sums, self.queue = (
                np.concatenate([a, np.zeros((more * FIRST_ROOM, *a.shape[1:]), a.dtype)])
                for a in (self.times, self.ring, self.sums, self.queue)
            )

    def _begin(self, time: Int64s, values: Float64s, keys: Mapping[str, pa.Array]) -> None:
        t = time.astype(np.float64)
        numbers = {f"{self.prefix}{n}": Value(values[:, j : j + 1]) for j, n in enumerate(self.model.values)}
        columns = {f"{self.prefix}{n}": c for n, c in keys.items()}
        rows = Pieces(t, t, np.zeros(len(t), np.uint8), t, numbers, columns)
        found = at_instants(self.plan.arguments, rows)
        (self.argument,) = for_kernel(np.column_stack([found.values[n].c[:, 0] for n in self.plan.argument_names]))

    def _walk(
        self, rows: Int64s, code: Int64s, time: Int64s, values: Float64s, prices: Float64s, fitted: Int64s,
        waiting: Int64s, out: Int64s, found: Float64s, meta: Int64s,
    ) -> bool:  # fmt: skip
        choice = self.choice
        return bool(
            kernels.pass_windows(
                rows, code, time, values, self.argument, self.step, self.model.max_gap or 0, self.plan.width,
                self.kind, self.column, choice.keys, choice.last, choice.rate, choice.since, prices, *self.rings,
                fitted, waiting, out, found, meta, self.head,
            )
        )  # fmt: skip

    def _more_room(self, meta: Int64s) -> bool:
        """Rings that are half full get twice the room at once: to move them costs as much as all they hold."""
        full, meta[kernels.FULL] = int(meta[kernels.FULL]) - 1, 0
        if full < 0:
            return False
        state = self.state_of_ring
        many = state[:, NEWEST] - state[:, OLDEST]
        room = np.where(2 * many >= state[:, ROOM], 2 * state[:, ROOM], state[:, ROOM])
        new = state.copy()
        new[:, ROOM], new[:, BEGIN] = room, np.cumsum(room) - room
        total = int(room.sum())
        arrays = [np.zeros((total, *a.shape[1:]), a.dtype) for a in (self.times, self.ring, self.sums, self.queue)]
        kernels.repack(*self.rings, new, *arrays, self.ends)
        self.state_of_ring = new
        self.times, self.ring, self.sums, self.queue = arrays
        return True

    def _go_on(self, held: Int64s, before: Int64s, after: Int64s) -> None:
        keys, state = self.choice.keys, self.state_of_ring
        begins = held[(before == TUPLES) & (after == MODELS)]
        state[begins, UNTIL] = keys[begins, LAST] + self.plan.width
        back = held[(before == MODELS) & (after == TUPLES)]
        last = keys[back, LAST]
        keys[back, AHEAD] = np.maximum(keys[back, AHEAD], (last // self.step + 1) * self.step)
        # Models gave what is before the sample at which a key was held, and tuples what is before ``UNTIL``.
        due = (last % self.step == 0) & (last >= state[back, RUN] + self.plan.width) & (last >= state[back, UNTIL])
        (at,) = for_kernel(back[due])
        out, found = np.empty((len(at), 2), np.int64), np.empty((len(at), len(self.names)))
        kernels.windows_at_last(at, self.plan.width, self.kind, self.column, *self.rings, out, found, self.head)
        self._found(out, found)

    # ── state ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def state(self) -> dict[str, Any]:
        rings = {"state": self.state_of_ring, "times": self.times, "ring": self.ring, "sums": self.sums}
        ends = self.ends.reshape(len(self.ends), 2 * len(self.kind))
        return {**super().state(), "rings": {**rings, "queue": self.queue, "ends": ends}}

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        rings = state["rings"]
        self.state_of_ring, self.times, self.ring, self.sums, self.queue, ends = for_kernel(
            *(rings[n] for n in ("state", "times", "ring", "sums", "queue", "ends"))
        )
        (self.ends,) = for_kernel(ends.reshape(-1, len(self.kind), 2))
