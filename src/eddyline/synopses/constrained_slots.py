"""The slots of a constrained join: rows of all inputs in one table, with statuses and the chains of their keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from eddyline.core.delta import Int64s
from eddyline.kernels import constrained_layout as k
from eddyline.kernels.constrained_collect import close_keys
from eddyline.kernels.constrained_rows import NEARER
from eddyline.kernels.constrained_table import (
    insert,
    link_input,
    move_places,
    move_to_front,
    settle_all,
    take_free,
    victims,
)

INITIAL_SLOTS = 64  # slots at first
GROWTH = 1.3  # of the slots: more are copied less often and stay empty more often
SPARE = 16  # one slot in so many beyond what the last run needed: more find room more often and stay empty more often
MIN_USED_SHARE = 1 / 2  # of the slots: with fewer in use memory is freed, which copies the rows
# … after a call that brought as many rows as there are: to copy them is little beside what the call did.
MIN_USED_SHARE_AFTER_MANY = 2 / 3
SPARSE = 8  # places of a hash table for each row, beyond which it is made smaller: fewer put rows into chains anew
COPIED = 1 << 22  # bytes of records up to which they are copied: what grows in place gets memory that is not there yet
Array = np.ndarray[Any, Any]


class Slots:
    """``ports`` is the directed join graph (``kernels.constrained_layout``), which may be exchanged by ``direct``.

    ``arrived`` counts the rows of each input, ``duplicates`` by port those that came while another row of their input
    had their key, ``steps`` by port has the join distances that the control was not told yet.
    """

    def __init__(self, ports: Array, order: Array) -> None:
        self.ports, self.order = ports, order
        self.inputs, self.width = (int(n) for n in ports.shape[:2])
        many = self.inputs * self.width
        self.status, self.stream = np.zeros(0, np.uint8), np.zeros(0, np.uint8)
        self.records = np.zeros((0, k.record_bytes(self.width)), np.uint8)
        self._see()
        self.fifo = np.full((self.inputs, 2), -1, np.int64)
        self.live = np.zeros(self.inputs, np.int64)
        self.cursor = np.full(many + 2, -1, np.int64)
        self.cursor[-2] = k.CHANGED + 1
        self.base, self.mask = np.zeros(many, np.int64), np.full(many, -1, np.int64)
        self.head = np.zeros(0, np.int32)
        self._make_heads(self._heads_of(self.live))
        self.arrived = np.zeros(self.inputs, np.int64)
        self.duplicates = np.zeros(many, np.int64)
        self.steps = np.zeros((2 * many, 2 * k.STEPS + 1), np.int64)  # in arrivals, then in ticks
        # Not saved: after a restart bounds are raised by the control alone for a while.
        self.marks = np.zeros((many, k.FIRST_MARK + 3 * k.MARKS), np.int64)
        self.marks[:, 1] = k.LOWEST

    def _see(self) -> None:
        self.r64, self.r32, self.r16 = (self.records.view(t) for t in (np.int64, np.int32, np.uint16))
        beside = k.CHANGED + NEARER * self.inputs * self.width + self.width
        self.stack = np.empty(len(self.status) + 1 + beside, np.int32)  # has nothing between two calls

    def _heads_of(self, rows: Int64s) -> Int64s:
        """The sizes of the hash tables of all ports for so many rows of each input: two to four places for each row.
        An input has a table of one place at a port that leads nowhere."""
        sizes = [1 << max(3, int(n).bit_length() + 1) for n in rows.tolist()]
        there: Int64s = np.where(self.ports[:, :, k.NB] >= 0, np.array(sizes)[:, None], 1).reshape(-1)
        return there

    def _make_heads(self, sizes: Int64s) -> None:
        """Hash tables of these sizes for the ports; those that have their size already stay as they are."""
        old, base, head = self.mask + 1, self.base, self.head
        if (old == sizes).all():
            return
        self.mask = sizes - 1
        self.base = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        self.head = np.full(int(sizes.sum()), -1, np.int32)
        for q in np.flatnonzero(old == sizes).tolist():
            self.head[self.base[q] : self.base[q] + sizes[q]] = head[base[q] : base[q] + sizes[q]]
        for i in np.flatnonzero((old != sizes)[:: self.width] & (self.live > 0)).tolist():
            link_input(i, *self.arrays)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """What kernels take (``kernels.constrained_rows.Rows``)."""
        return (
            self.ports, self.status, self.stream, self.r64, self.r32, self.r16, self.head, self.base, self.mask,
            self.fifo, self.live, self.cursor, self.stack,
        )  # fmt: skip

    @property
    def capacity(self) -> int:
        return len(self.status)

    def __len__(self) -> int:
        return int(self.live.sum())

    def grow(self, many: int = 1) -> None:
        """Have room for so many rows more, of any input."""
        need = len(self) + many
        if need > self.capacity:
            self._enlarge(max(INITIAL_SLOTS, need, int(self.capacity * GROWTH)))
        self._have_heads(self.live + 1)

    def reserve(self, rows: int, coming: Int64s) -> None:
        """Have room for so many rows in all and a few more, of which those of each input may come soon: to grow step
        by step copies them again and again."""
        here, most = len(self), int(coming.sum())
        rows = min(rows + rows // SPARE, here + most)
        if rows > self.capacity:
            self._enlarge(rows)
        if rows > here:
            self._have_heads(self.live + (min(1.0, (rows - here) / most) * coming).astype(np.int64))

    def shrink(self, came: int) -> None:
        """After a call with so many elements: give up memory for slots that are not in use, where there are many."""
        here = len(self)
        full, spare = (MIN_USED_SHARE_AFTER_MANY, 16) if came >= here else (MIN_USED_SHARE, 8)
        if self.capacity > 4 * INITIAL_SLOTS and here < full * self.capacity:
            self._make_smaller(max(INITIAL_SLOTS, here + here // spare))
            sizes = self.mask + 1
            sparse = sizes > SPARSE * np.repeat(self.live, self.width)
            self._make_heads(np.where(sparse, self._heads_of(self.live), sizes))

    def _have_heads(self, rows: Int64s) -> None:
        """Have hash tables for so many rows of each input."""
        sizes = self.mask + 1
        if (rows > sizes[:: self.width]).any():
            self._make_heads(np.maximum(sizes, self._heads_of(np.maximum(rows, self.live))))

    def _set_size(self, size: int) -> None:
        """More or fewer slots: those that go have no rows, new ones are free and in no list. Large arrays grow in place
        where the system can do that, so no views of them may be kept."""
        old = self.capacity
        kept = min(old, size)
        del self.r64, self.r32, self.r16, self.stack
        for name in ("status", "stream", "records"):
            array: Array = getattr(self, name)
            if max(old, size) * k.record_bytes(self.width) > COPIED:
                array.resize((size, *array.shape[1:]), refcheck=False)
            else:
                made = np.empty((size, *array.shape[1:]), np.uint8)
                made[:kept] = array[:kept]
                setattr(self, name, made)
        self.status[old:] = k.FREE
        self._see()

    def _enlarge(self, size: int) -> None:
        """Rows keep their slots, and there are more free ones."""
        old, w = self.capacity, self.width
        self._set_size(size)
        self.r32[old:, k.later_at(w)] = np.arange(old + 1, size + 1)
        self.r32[size - 1, k.later_at(w)] = self.cursor[-1]
        self.cursor[-2:] = k.CHANGED + 1, old  # what changed is not remembered

    def _make_smaller(self, size: int) -> None:
        """Rows move to the front."""
        number = np.empty(self.capacity, np.int32)
        held = self.status, self.stream, self.r64, self.r32, self.head, self.fifo, self.cursor
        move_to_front(size, self.ports, *held, number)
        self.cursor[-2] = k.CHANGED + 1
        del held
        self._set_size(size)

    def take_free(self, rows: Int64s) -> Int64s:
        """Slots for so many rows of each input, which ``fill`` and ``put`` put there."""
        free = np.empty(int(rows.sum()), np.int64)
        if take_free(self.width, self.r32, self.cursor, free) < len(free):
            self.grow(len(free))
            take_free(self.width, self.r32, self.cursor, free)
        self._have_heads(self.live + rows)
        return free

    def fill(self, slots: Int64s, stream: int, number: Int64s, leave: Int64s, keys: Int64s, now: int) -> None:
        """Put rows into free slots, as if they had come just now."""
        w = self.width
        self.stream[slots] = stream
        self.r64[slots, :w], self.r64[slots, w], self.r64[slots, w + 1] = keys, number, leave
        self.r64[slots, k.time_at(w)], self.r32[slots, k.since_at(w) : k.since_at(w) + w] = now, 0
        self.r16[slots, k.gone_at(w) :] = 0

    def put(self, slots: Int64s, behind_newest: bool = False) -> None:
        """Put rows that were filled in, by input and number, into lists and chains."""
        insert(*self.arrays, int(behind_newest), slots, self.arrived)

    def direct(self, ports: Array) -> None:
        """Another directed join graph over the same tree: every status is computed anew."""
        self.ports = ports
        settle_all(*self.arrays)

    def close(self, keys: Int64s, port: int, why: int) -> Int64s:
        """Keys that have no future match at a port; returns 1 for those that still have to wait."""
        kept = np.zeros(len(keys), np.int64)
        child, p = divmod(port, self.width)
        close_keys(np.ascontiguousarray(keys), child, p, why, *self.arrays, kept)
        return kept

    def victims(self) -> Int64s:
        """The slots of the rows that are to be spilled."""
        slots = np.empty(len(self), np.int64)
        return slots[: int(victims(self.width, self.status, self.r16, slots))]

    def mark_victims(self, slots: Int64s, why: Int64s) -> None:
        """Rows that go into the spill at the end of the run, and why they are useless."""
        self.r16[slots, k.why_at(self.width)], self.r16[slots, k.why_at(self.width) + 1] = why, k.VICTIM

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────

    def of(self, stream: int) -> Int64s:
        """The slots of the rows of an input."""
        slots: Int64s = np.flatnonzero((self.status != k.FREE) & (self.stream == stream))
        return slots

    def move_places(self, stream: int) -> Int64s:
        """Number the places of the rows of an input that are stored anew; returns where they were stored."""
        places = np.empty(int(self.live[stream]), np.int64)
        return places[: int(move_places(stream, self.width, self.status, self.stream, self.r32, self.fifo, places))]

    def keys(self, slots: Int64s) -> Int64s:
        keys: Int64s = self.r64[slots, : self.width].astype(np.int64)
        return keys

    def number(self, slots: Int64s) -> Int64s:
        numbers: Int64s = self.r64[slots, k.number_at(self.width)]
        return numbers

    def leave(self, slots: Int64s) -> Int64s:
        times: Int64s = self.r64[slots, k.leave_at(self.width)]
        return times

    def place(self, slots: Int64s) -> Int64s:
        """Where rows are stored; −1: not at all, for a filter rejects them."""
        places: Int64s = self.r32[slots, k.place_at(self.width)].astype(np.int64)
        return places

    def set_place(self, slots: Int64s, places: Int64s) -> None:
        self.r32[slots, k.place_at(self.width)] = places

    def why(self, slots: Int64s) -> Int64s:
        why: Int64s = self.r16[slots, k.why_at(self.width)].astype(np.int64)
        return why

    def take_steps(self) -> Int64s:
        """Lines of port, count of the neighbour's arrivals and distance, of those not told yet; ports behind the last
        have times and distances in ticks."""
        lines = []
        for q in np.flatnonzero(self.steps[:, 0]).tolist():
            many = int(self.steps[q, 0])
            made = np.empty((many, 3), np.int64)
            made[:, 0], made[:, 1:] = q, self.steps[q, 1 : 2 * many + 1].reshape(-1, 2)
            lines.append(made)
        self.steps[:, 0] = 0
        return np.concatenate(lines) if lines else np.empty((0, 3), np.int64)

    def counts(self) -> Int64s:
        """Rows by input and status (UNKNOWN, YES, NO)."""
        used = np.flatnonzero(self.status != k.FREE)
        both = self.stream[used].astype(np.int64) * k.STATUSES + self.status[used]
        return np.bincount(both, minlength=k.STATUSES * self.inputs).reshape(-1, k.STATUSES)[:, 1:]

    @property
    def nbytes(self) -> int:
        arrays = (
            self.status, self.stream, self.records, self.head, self.base, self.mask, self.steps, self.marks, self.stack
        )  # fmt: skip
        return sum(a.nbytes for a in arrays)

    # ── state ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def state(self) -> dict[str, Any]:
        used = np.flatnonzero(self.status != k.FREE)
        used = used[np.lexsort((self.number(used), self.stream[used]))]
        w = self.width
        since = self.r32[used, k.since_at(w) : k.since_at(w) + w]
        known = self.r16[used, k.gone_at(w) : k.why_at(w) + 2].astype(np.int64)
        return {
            "stream": self.stream[used].astype(np.int64), "place": self.place(used),
            "numbers": np.ascontiguousarray(self.r64[used, : w + 3].reshape(-1)),
            "since": np.ascontiguousarray(since.astype(np.int64).reshape(-1)),
            "known": np.ascontiguousarray(known.reshape(-1)), "arrived": self.arrived.copy(),
            "duplicates": self.duplicates.copy(), "steps": np.ascontiguousarray(self.steps.reshape(-1)),
        }  # fmt: skip

    def load(self, state: dict[str, Any]) -> None:
        """Into slots that have no rows."""
        many, w = len(state["stream"]), self.width
        slots = self.take_free(np.bincount(np.array(state["stream"]), minlength=self.inputs))
        self.stream[slots] = state["stream"]
        self.r64[slots, : w + 3] = np.array(state["numbers"]).reshape(many, w + 3)
        self.r32[slots, k.since_at(w) : k.since_at(w) + w] = np.array(state["since"]).reshape(many, w)
        self.r16[slots, k.gone_at(w) : k.why_at(w) + 2] = np.array(state["known"]).reshape(many, 2 * w + 2)
        self.r16[slots, k.why_at(w) + 1] &= (1 << k.KNOWN_AT) - 1  # that is found again
        self.set_place(slots, np.array(state["place"]))
        self.arrived[:], self.duplicates[:] = state["arrived"], state["duplicates"]
        self.steps[:] = np.array(state["steps"]).reshape(self.steps.shape)
        self.put(slots, behind_newest=True)
