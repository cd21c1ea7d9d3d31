"""Hands the state of a join over between two instants: from a constrained join to a plain one, and back.

A plain join keeps the rows of a window as a ring: row numbers without gaps, where rows that join with nothing have
weight 0. A constrained join has the rows of a window in slots and in a spill, without those that join with nothing. A
tuple-based window counts all rows, so for such a window the missing rows are inserted as rows of NULLs with weight 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Int64s, combine
from eddyline.core.time import NEVER
from eddyline.operators.constrained_join import ConstrainedJoin
from eddyline.operators.join_tree import port_keys
from eddyline.operators.mjoin import MJoin
from eddyline.synopses.spill_segment import SpilledRows


def to_plain(join: ConstrainedJoin, plain: MJoin, earlier: Int64s, now: int) -> None:
    """Fill a plain join that has no rows with those of a constrained one, in memory and spilled, and with the elements
    that wait. Elements up to ``now`` were applied; ``earlier`` rows of each window came before the first that the
    constrained join counted."""
    plain.load({str(i): _ring(join, plain, i, int(earlier[i]), now) for i in range(len(join.sides))})


def _ring(join: ConstrainedJoin, plain: MJoin, i: int, earlier: int, now: int) -> dict[str, Any]:
    """The state of one input of the plain join (``MJoin.state``)."""
    side, limit, arrived = join.sides[i], int(join.limits[i]), int(join.slots.arrived[i])
    rows = _rows_of(join, i)
    rows = rows.filter(rows.number >= arrived - limit if limit else rows.leave > now)
    columns: Mapping[str, pa.Array] = rows.columns
    # A column that is compared is a key of the plain join only: a NULL there joins with nothing.
    _, weights = plain.sides[i].key_codes(columns, len(rows))
    leaves = rows.leave
    if limit:
        row_count = min(limit, arrived + earlier)
        source = np.full(row_count, -1, np.int64)
        source[rows.number - (arrived - row_count)] = np.arange(len(rows))
        weights = np.where(source < 0, 0, weights[source]) if len(rows) else np.zeros(row_count, np.int64)
        columns = {n: c.take(pa.array(source, mask=source < 0)) for n, c in columns.items()}
        leaves = np.full(row_count, NEVER, np.int64)
    held, waiting = len(weights), len(side.time)
    later = side.rows.probe(side.slot, side.spec.schema.names)
    codes, valid = plain.sides[i].key_codes(later, waiting)
    events = {
        "time": side.time, "leave": side.leave, "weight": np.ones(waiting, np.int64),
        "slot": np.zeros(waiting, np.int64), "valid": valid * (side.valid != 0) * (side.failed == 0),
        "codes": np.ascontiguousarray(codes.reshape(-1)),
    }  # fmt: skip
    whole = {n: combine([columns[n], later[n]]) for n in side.spec.schema.names}
    stub = {"low": 0, "end": held + waiting, "rows": whole, "epoch": None}
    return {"stub": stub, "first": 0, "tail": held, "leaves": leaves, "weights": weights, "events": events}


def _rows_of(join: ConstrainedJoin, i: int) -> SpilledRows:
    """All rows of an input that can join, by increasing number."""
    slots, side = join.slots, join.sides[i]
    used = slots.of(i)
    used = used[slots.place(used) >= 0]
    used = used[np.argsort(slots.number(used), kind="stable")]
    columns = side.rows.probe(slots.place(used), side.spec.schema.names)
    held = SpilledRows(slots.number(used), slots.leave(used), slots.why(used), slots.keys(used), columns)
    spilled = [] if join.spill is None else join.spill.rows_of(i)
    return SpilledRows.concat([held, *spilled]).by_number()


def to_constrained(plain: MJoin, join: ConstrainedJoin, now: int) -> Int64s:
    """Fill a constrained join that has no rows with those of a plain one, and with the elements that wait. Rows get
    numbers below 0, so that the arrivals that are counted and measured begin with the next, and wait since ``now``.
    Returns by input how many rows its window has."""
    earlier = (plain.arrays.tail - plain.arrays.first).astype(np.int64)
    for i, side in enumerate(join.sides):
        there = plain.sides[i]
        assert there.stub is not None
        live = plain.arrays.live(i)
        at = plain.arrays.place(i, live)
        joins = plain.arrays.weight[at] != 0
        number, leave = (live - int(plain.arrays.tail[i]))[joins], plain.arrays.leave[at][joins].copy()
        columns = there.rows_at(live[joins])
        codes, _ = side.key_codes(columns, len(number))
        start = side.rows.insert(columns, len(number))
        slots = join.slots.take_free(len(number) * (np.arange(len(join.sides)) == i))
        join.slots.fill(slots, i, number, leave, port_keys(codes, join.keys[i], join.slots.width), now)
        join.slots.set_place(slots, start + np.arange(len(number)))
        join.slots.put(slots)
        waiting = len(there.time)
        columns = there.rows_at(int(plain.arrays.tail[i]) + np.arange(waiting))
        side.time, side.leave, side.weight = there.time.copy(), there.leave.copy(), there.weight.copy()
        side.codes, side.valid = side.key_codes(columns, waiting)
        side.valid[side.leave <= side.time] = 0
        side.slot = side.rows.insert(columns, waiting) + np.arange(waiting)
        side.failed = side.rejected(columns, waiting)
    return earlier
