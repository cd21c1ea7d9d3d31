"""Rows of a constrained join that go outside of memory, and those that come back before a run which may need them."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from eddyline.core.delta import Bools, Int64s
from eddyline.kernels import constrained_filter as kernel_filter
from eddyline.operators.constrained_changes import AllDepartures
from eddyline.operators.constrained_events import Arrivals
from eddyline.operators.constrained_side import ConstrainedSide
from eddyline.synopses.constrained_slots import Slots
from eddyline.synopses.spill import Spill

Members = np.ndarray[Any, Any]  # a set of arriving keys, in bits


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


def fetch_needed(join: SpillingJoin, arrivals: Arrivals) -> None:
    """Before a run: all spilled rows that it may need for a result."""
    assert join.spill is not None
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


def fetch_deleted(join: SpillingJoin, departures: AllDepartures, until: int) -> None:
    """Before a run that lasts until an instant: the spilled rows that it deletes, with others of their keys."""
    assert join.spill is not None
    if len(departures) == 0:
        return
    asked = departures.until(until, join.slots.width)
    many = int(kernel_filter.keep_possible(asked, join.spill.filters, join.spill.bits))
    if many and join.spill.index(asked[:many]):
        many = int(kernel_filter.keep_known(asked[:many], join.spill.filters, join.spill.bits))
    if many:
        _fetch(join, asked[:many], None, departures.earliest())


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


def spill_useless(join: SpillingJoin) -> None:
    """After a run: put what is useless outside of memory."""
    assert join.spill is not None
    slots = join.slots
    for i, (side, victims) in enumerate(zip(join.sides, slots.victims(), strict=True)):
        if len(victims):
            number, leave, why, place, keys = slots.copy_out(victims)
            join.spill.add(i, number, leave, keys, why, side.rows.probe(place, side.spec.schema.names))
            slots.remove(victims)
