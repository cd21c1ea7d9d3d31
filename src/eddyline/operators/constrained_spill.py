"""Rows of a constrained join that go outside of memory, and those that come back before a run which may need them."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from eddyline.core.delta import Bools, Int64s
from eddyline.kernels import constrained_filter as kernel_filter
from eddyline.kernels.constrained_staging import count_coming, stage_marked
from eddyline.operators.constrained_changes import AllDepartures
from eddyline.operators.constrained_events import Arrivals
from eddyline.operators.constrained_side import ConstrainedSide
from eddyline.synopses.constrained_slots import Slots
from eddyline.synopses.spill import Spill

Members = np.ndarray[Any, Any]  # a set of arriving keys, in bits
MORE_STAGED = 1_024  # rows of each input, beyond as many as arrive, that a run may stage: fewer wait for its end
COMING_PLACES = 4  # for each element to come, one to two times as many: fewer are taken for others


class SpillingJoin(Protocol):
    """What of a constrained join is needed here. ``ends`` and ``limits`` are by input; ``fetches`` counts rows."""

    spill: Spill | None
    slots: Slots
    sides: list[ConstrainedSide]
    ends: npt.NDArray[np.uint8]
    limits: Int64s
    fetches: int


class ArrivingKeys:
    """A set of the keys that arrive in a run, in bits. It is made when it is first asked for: most runs find no spilled
    row that they may need."""

    def __init__(self, arrivals: Arrivals, ports: Members) -> None:
        self.arrivals, self.ports = arrivals, ports
        self._bits: Members | None = None

    @property
    def bits(self) -> Members:
        if self._bits is None:
            a = self.arrivals
            self._bits = np.zeros(max(8, 1 << (2 * a.keys.size).bit_length()), np.uint8)
            kernel_filter.note_arrivals(a.state, a.keys, a.next, a.stop, self.ports, self._bits)
        return self._bits


def fetch_needed(join: SpillingJoin, arrivals: Arrivals) -> Int64s:
    """Before a run: all spilled rows that it may need for a result. Returns their slots."""
    assert join.spill is not None
    back = [np.empty(0, np.int64)]
    if join.spill.total == 0 or len(arrivals) == 0:
        return back[0]
    members = ArrivingKeys(arrivals, join.slots.ports)
    now, begin = int(arrivals.time.min()), arrivals.next
    starts: Int64s | None = None
    while starts is None or len(starts):
        slots, starts = join.slots, np.empty(0, np.int64) if starts is None else starts
        room = slots.capacity * slots.width
        elements = int((arrivals.stop - begin).sum())
        asked = np.empty(((elements + len(starts) + room) * slots.width, 3), np.int64)
        seen, reached = np.zeros(room, np.uint8), np.empty(room, np.int64)
        known = join.spill.filters, join.spill.bits, join.ends, seen, reached, asked
        given = arrivals.state, arrivals.keys, begin, arrivals.stop, starts
        many = int(kernel_filter.reach(*given, *slots.arrays, *known))
        if many:
            lookups = join.spill.filters, join.spill.bits, members.bits
            lines = asked[:many], arrivals.keys, join.spill.filter_of
            many = int(kernel_filter.drop_vain(*lines, *slots.arrays, *lookups))
        if many and join.spill.index(asked[:many]):
            many = int(kernel_filter.keep_known(asked[:many], join.spill.filters, join.spill.bits))
        starts = _fetch(join, asked[:many], members, now) if many else np.empty(0, np.int64)
        begin = arrivals.stop  # from now on only rows that were brought back
        back.append(starts)
    return np.concatenate(back)


def fetch_deleted(join: SpillingJoin, departures: AllDepartures, until: int) -> Int64s:
    """Before a run that lasts until an instant: the spilled rows that it deletes, with others of their keys. Returns
    their slots."""
    assert join.spill is not None
    none = np.empty(0, np.int64)
    if join.spill.total == 0 or len(departures) == 0:
        return none
    asked = departures.until(until, join.slots.width)
    many = int(kernel_filter.keep_possible(asked, join.spill.filters, join.spill.bits))
    if many and join.spill.index(asked[:many]):
        many = int(kernel_filter.keep_known(asked[:many], join.spill.filters, join.spill.bits))
    return _fetch(join, asked[:many], None, departures.earliest()) if many else none


def _fetch(join: SpillingJoin, asked: Int64s, members: ArrivingKeys | None, now: int) -> Int64s:
    """Bring rows of some keys back from the spill, with ``members`` only those that may be part of a result: their
    slots. They go again after the run, unless one of them is part of a result: that is what refutes a constraint."""
    assert join.spill is not None
    back, slots = [], join.slots
    worth_it = None if members is None else lambda port, keys: _may_complete(join, members, port, keys)
    for port, rows in join.spill.take(asked, worth_it):
        i = port // slots.width
        limit = int(join.limits[i])
        if limit >= 0:
            rows = rows.filter(rows.number + limit >= slots.arrived[i] if limit else rows.leave > now)
        if len(rows) == 0:
            continue
        join.fetches += len(rows)
        start = join.sides[i].rows.insert(rows.columns, len(rows))
        places = slots.take_free(len(rows) * (np.arange(slots.inputs) == i))
        slots.fill(places, i, rows.number, rows.leave, rows.keys, now)
        slots.set_place(places, start + np.arange(len(rows)))
        slots.mark_victims(places, rows.why)
        slots.put(places)
        back.append(places)
    return np.concatenate(back) if back else np.empty(0, np.int64)


def _may_complete(join: SpillingJoin, members: ArrivingKeys, port: int, keys: Int64s) -> Bools:
    """Which spilled rows that were found at a port may be part of a result of this run."""
    assert join.spill is not None
    worth = np.zeros(len(keys), np.int64)
    filters = join.spill.filters, join.spill.bits
    keys = np.ascontiguousarray(keys)
    kernel_filter.may_complete(keys, port, *join.slots.arrays, *filters, members.bits, worth)
    accepted: Bools = worth != 0
    return accepted


class StagedRows:
    """The rows that leave memory during a run, which is about to apply ``arrivals``, and those that go at its end
    (``kernels.constrained_staging``). Rows of an input are staged as long as there is room; others wait for the end."""

    def __init__(self, join: SpillingJoin, arrivals: Arrivals, back: Int64s) -> None:
        slots, coming = join.slots, arrivals.stop - arrivals.next
        stop = self.stop = np.cumsum(coming + MORE_STAGED)
        self.start = stop - coming - MORE_STAGED
        self.fields, self.keys = (
            np.empty((4, int(stop[-1])), np.int64),
            np.empty((int(stop[-1]), slots.width), np.int64),
        )
        self.bounds = np.stack([self.start, stop])
        sizes = np.array([1 << (COMING_PLACES * int(n)).bit_length() for n in np.repeat(coming, slots.width)])
        self.coming_of = np.stack([np.cumsum(sizes) - sizes, sizes - 1])
        self.coming = np.zeros(int(sizes.sum()), np.uint8)
        given = arrivals.state, arrivals.keys, arrivals.next, arrivals.stop, arrivals.clean
        count_coming(*given, slots.ports, self.coming, self.coming_of)
        self.ends = join.ends
        self.marked = np.empty(1 + len(slots) + int(coming.sum()), np.int32)
        self.marked[0] = len(back)
        self.marked[1 : 1 + len(back)] = back

    def close(self) -> None:
        """Let all rows wait for the end of the run: it deletes rows, and finds them in memory only."""
        self.bounds[1] = self.start

    def open(self) -> None:
        self.bounds[1] = self.stop

    @property
    def arrays(self) -> tuple[np.ndarray[Any, Any], ...]:
        """What kernels take (``kernels.constrained_staging.Stage``)."""
        return self.fields, self.keys, self.bounds, self.coming, self.coming_of, self.ends, self.marked


def nothing_staged(join: SpillingJoin) -> tuple[np.ndarray[Any, Any], ...]:
    """What kernels take of a join whose rows are dropped."""
    none, width = np.zeros((2, 0), np.int64), join.slots.width
    return none, np.zeros((0, width), np.int64), none, np.zeros(1, np.uint8), none, join.ends, np.zeros(1, np.int32)


def spill_useless(join: SpillingJoin, staged: StagedRows) -> None:
    """After a run: put what is useless outside of memory."""
    staged.open()
    if staged.marked[0] >= len(staged.marked):  # some are missing
        marked = join.slots.victims()
        staged.marked = np.concatenate([[len(marked)], marked]).astype(np.int32)
    at = -1
    while at < staged.marked[0]:
        at = int(stage_marked(max(at, 0), *join.slots.arrays, *staged.arrays))
        _spill(join, staged)


def _spill(join: SpillingJoin, staged: StagedRows) -> None:
    """Spill the rows that are staged."""
    assert join.spill is not None
    for i, (side, start, stop) in enumerate(
        zip(join.sides, staged.start.tolist(), staged.bounds[0].tolist(), strict=True)
    ):
        if start < stop:
            number, leave, why, place = staged.fields[:, start:stop]
            columns = side.rows.probe(place, side.spec.schema.names)
            join.spill.add(i, number, leave, staged.keys[start:stop], why, columns)
    staged.bounds[0] = staged.start
