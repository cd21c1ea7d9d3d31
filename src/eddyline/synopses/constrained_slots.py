"""The slots of a constrained join: rows of all inputs in one table, with statuses and the chains of their keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from eddyline.core.delta import Int64s
from eddyline.kernels import constrained_collect as collecting
from eddyline.kernels import constrained_join as kernel
from eddyline.kernels import constrained_layout as k

FIRST = 64  # slots at first


class Slots:
    """``ports`` is the directed join graph (``kernels.constrained_layout``), which may be exchanged by ``direct``.

    The arrays by slot are ``stream``, ``number``, ``status``, ``leave`` (when the row leaves a time-based window), and
    ``slot``, which has the rest. ``arrived`` counts the rows of each input, ``duplicates`` by port those that came
    while another row of their input had their key.
    """

    def __init__(self, ports: np.ndarray[Any, Any], order: np.ndarray[Any, Any]) -> None:
        self.ports, self.order = ports, order
        self.inputs, self.width = ports.shape[:2]
        self.stream, self.number, self.status, self.leave = (np.zeros(0, np.int64) for _ in range(4))
        self.slot = np.zeros((0, k.KEY + k.GROUPS * self.width), np.int64)
        self.head = np.full(1, -1, np.int64)
        self.stack = np.zeros(0, np.int64)
        self.free: Int64s = np.zeros(0, np.int64)
        self.arrived = np.zeros(self.inputs, np.int64)
        self.duplicates = np.zeros(self.inputs * self.width, np.int64)

    @property
    def capacity(self) -> int:
        return len(self.status)

    def __len__(self) -> int:
        return self.capacity - len(self.free)

    def assign(self, many: int) -> Int64s:
        """Free slots for so many rows."""
        if many > len(self.free):
            self._grow(many - len(self.free))
        taken, self.free = self.free[:many], self.free[many:]
        return taken

    def _grow(self, many: int) -> None:
        old = self.capacity
        size = max(FIRST, 1 << (old + many - 1).bit_length())
        for name in ("stream", "number", "status", "leave"):
            setattr(self, name, np.concatenate([getattr(self, name), np.zeros(size - old, np.int64)]))
        self.slot = np.concatenate([self.slot, np.zeros((size - old, self.slot.shape[1]), np.int64)])
        self.stack = np.zeros(size + 1, np.int64)
        self.free = np.concatenate([self.free, np.arange(old, size)])
        self.head = np.full(2 * size, -1, np.int64)
        self._link(self.live())

    def fill(self, slots: Int64s, stream: int | Int64s, number: Int64s, leave: Int64s, keys: Int64s) -> None:
        """Put rows into slots, in which they wait for their turn."""
        self.stream[slots], self.number[slots], self.leave[slots] = stream, number, leave
        self.status[slots] = k.WAITING
        self.slot[slots] = 0
        self.slot[slots, k.KEY : k.KEY + self.width] = keys

    def live(self) -> Int64s:
        """The slots of the rows that have arrived and have not left."""
        return np.flatnonzero((self.status != k.FREE) & (self.status != k.WAITING))

    def of(self, stream: int, live: Int64s | None = None) -> Int64s:
        """The numbers of the rows of an input, increasing."""
        live = self.live() if live is None else live
        return np.sort(self.number[live[self.stream[live] == stream]])

    def give_back(self, slots: Int64s) -> None:
        """Slots whose rows have gone."""
        self.free = np.concatenate([self.free, slots])

    def shrink(self) -> None:
        """Give up memory for slots of which less than an eighth is in use."""
        if self.capacity <= 16 * FIRST or 8 * len(self) > self.capacity:
            return
        used = np.flatnonzero(self.status != k.FREE)
        size = max(FIRST, 1 << (2 * len(used)).bit_length())
        for name in ("stream", "number", "status", "leave", "slot"):
            old = getattr(self, name)
            new = np.zeros((size, *old.shape[1:]), np.int64)
            new[: len(used)] = old[used]
            setattr(self, name, new)
        self.stack, self.free = np.zeros(size + 1, np.int64), np.arange(len(used), size)
        self.head = np.full(2 * size, -1, np.int64)
        self._link(self.live())

    def direct(self, ports: np.ndarray[Any, Any]) -> None:
        """Another directed join graph over the same tree: every status is computed anew."""
        self.ports = ports
        self._link(self.live())

    def _link(self, live: Int64s) -> None:
        kernel.link_all(live, self.ports, self.stream, self.status, self.slot, self.head, self.stack)

    def put_back(self, slots: Int64s) -> None:
        """Rows that wait in slots and arrived long ago."""
        self.status[slots] = k.UNKNOWN
        kernel.put_back(slots, self.ports, self.stream, self.status, self.slot, self.head, self.arrived, self.stack)
        self.status[slots] = np.where(self.status[slots] == k.WAITING, k.UNKNOWN, self.status[slots])

    def infer(self, wait: Int64s, low: Int64s) -> int:
        """Make rows NO that have no match at a port and will get none."""
        arrays = self.ports, self.stream, self.status, self.slot, self.head
        return int(collecting.infer(*arrays, self.arrived, wait, low, self.stack))

    def collect(self, deletes: bool, share: int, facts: np.ndarray[Any, Any], low: Int64s) -> Int64s:
        """Take useless rows out: their slots, which the caller gives back when it has read them. ``facts`` are root,
        only_root, all_roots and drop_no by input; ``share`` of 65,536 rows stay."""
        victims = np.empty(self.capacity, np.int64)
        by_input = (np.ascontiguousarray(row) for row in facts)
        arrays = self.ports, self.stream, self.status, self.slot, self.head
        many = collecting.collect(deletes, share, *by_input, *arrays, low, self.stack, victims)
        return victims[:many]

    def close(self, keys: Int64s, port: int, why: int) -> Int64s:
        """Keys that have no future match at a port; returns 1 for those that still have to wait."""
        kept = np.zeros(len(keys), np.int64)
        child, p = divmod(port, self.width)
        arrays = self.ports, self.stream, self.status, self.slot, self.head
        collecting.close_keys(keys, child, p, why, *arrays, kept)
        return kept

    def keys(self, slots: Int64s) -> Int64s:
        return self.slot[slots, k.KEY : k.KEY + self.width]

    def counts(self) -> Int64s:
        """Rows by input and status (UNKNOWN, YES, NO)."""
        live = self.live()
        return np.bincount(self.stream[live] * 4 + self.status[live], minlength=4 * self.inputs).reshape(-1, 4)[:, 1:]

    @property
    def nbytes(self) -> int:
        arrays = (self.stream, self.number, self.status, self.leave, self.slot, self.head, self.stack, self.free)
        return sum(a.nbytes for a in arrays)

    def state(self) -> dict[str, Any]:
        live = self.live()
        fields = self.slot[live, : k.KEY + 4 * self.width]
        return {
            "stream": self.stream[live], "number": self.number[live], "leave": self.leave[live],
            "slot": np.ascontiguousarray(fields.reshape(-1)), "arrived": self.arrived.copy(),
            "duplicates": self.duplicates.copy(),
        }  # fmt: skip

    def load(self, state: dict[str, Any]) -> None:
        many = len(state["stream"])
        slots = self.assign(many)
        self.stream[slots], self.number[slots], self.leave[slots] = state["stream"], state["number"], state["leave"]
        self.slot[slots] = 0
        self.slot[slots, : k.KEY + 4 * self.width] = np.array(state["slot"]).reshape(many, k.KEY + 4 * self.width)
        self.slot[slots, k.QUEUED] = 0
        self.arrived[:], self.duplicates[:] = state["arrived"], state["duplicates"]
        self.status[slots] = k.UNKNOWN
        self._link(self.live())
