"""``window_start`` and ``window_end``: the edges of the window that a row is in, as columns.

Where a window is no longer than its step, an element is in one window at most, and the edges are a function of its
time: ``ElementColumns`` adds them to the stream, below the window.

Otherwise a row is in several windows, one after another: at each end it leaves with the edges of the old window and
enters with those of the new one. ``WindowColumns`` stands above the window, or above an aggregate of it, since all rows
of the relation at one instant are in the same window: a group is in the relation once, and not once for each window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Delta, Int64s
from eddyline.core.schema import Schema
from eddyline.core.window import Stepping
from eddyline.operators.base import Context, Operator
from eddyline.operators.held_relation import HeldRelation, ShowsWhenClosed, steps_while_held
from eddyline.operators.windows import enter_times

Edges = Mapping[str, str]  # the columns, and whether each is the 'start' or the 'end'


def edge_columns(edges: Edges, schema: Schema, start: Int64s, end: Int64s) -> dict[str, pa.Array]:
    """The columns of rows whose windows have these starts and ends."""
    values = {"start": start, "end": end}
    return {name: pa.array(values[edge]).view(schema[name].type) for name, edge in edges.items()}


class ElementColumns(Operator):
    """The elements of a stream with the edges of the one window that each may be in.

    >>> from eddyline.core.window import Hop
    >>> from eddyline.core.schema import Field
    >>> schema = Schema((Field("a", pa.int64()), Field("s", pa.int64()), Field("e", pa.int64())))
    >>> operator = ElementColumns("window-columns 1", schema, Hop(5, 5), {"s": "start", "e": "end"})
    >>> out = operator.process([Delta(np.array([4, 5]), {"a": pa.array([1, 2])})], 5)
    >>> out.columns["s"].to_pylist(), out.columns["e"].to_pylist()
    ([0, 5], [5, 10])
    """

    def __init__(self, name: str, schema: Schema, spec: Stepping, edges: Edges) -> None:
        super().__init__(name, schema)
        self.spec, self.edges = spec, edges

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        (delta,) = deltas
        end = enter_times(self.spec, delta.time)
        return delta.with_columns(
            {**delta.columns, **edge_columns(self.edges, self.schema, end - self.spec.width, end)}
        )


class WindowColumns(ShowsWhenClosed):
    """A relation that changes when a window of it ends, each row with the edges of the present window. With
    ``inserts_only`` no deletion is emitted: every row is an insertion at each end."""

    def __init__(
        self, name: str, schema: Schema, spec: Stepping, edges: Edges, by_id: bool, context: Context,
        inserts_only: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(name, schema)
        self.spec, self.edges, self.context, self.inserts_only = spec, edges, context, inserts_only
        self.below = Schema(tuple(f for f in schema if f.name not in edges))
        self.held = HeldRelation(self.below, by_id)
        self.rows = 0
        self.done: int | None = None

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        (delta,) = deltas
        since = self.context.start if self.done is None else self.done + 1
        if since is None:
            return Delta.empty(self.schema)
        step = self.spec.slide
        ticks = steps_while_held(step, self.spec.offset, delta, self.rows, since, frontier)
        shown = self._before(since, frontier)
        now = self.held.at(delta, ticks)
        self.rows += int(delta.weights.sum())
        self.done = max(frontier, since - 1)
        entering = self._with_edges(now, now.time, now.time)
        if self.inserts_only:
            return entering
        going = now.slice(0, int(now.time.searchsorted(frontier - step, "right")))
        leaving = self._with_edges(going, going.time + step, going.time)
        parts = [*shown, _signed(leaving, -1), _signed(entering, 1)]
        return Delta.merge(parts)

    def _before(self, since: int, frontier: int) -> list[Delta]:
        """What was shown at the last end leaves at the next one, if that has come."""
        step, offset = self.spec.slide, self.spec.offset
        following = -(-(since - offset) // step) * step + offset
        if self.inserts_only or self.rows == 0 or following > frontier:
            return []
        tick = np.array([following], np.int64)
        held = self.held.at(Delta.empty(self.below), tick)
        return [_signed(self._with_edges(held, held.time, held.time - step), -1)]

    def _with_edges(self, rows: Delta, time: Int64s, end: Int64s) -> Delta:
        edges = edge_columns(self.edges, self.schema, end - self.spec.width, end)
        return Delta(time, {n: edges[n] if n in edges else rows.columns[n] for n in self.schema.names})

    def describe(self) -> str:
        return "the rows of the present window: they leave with its edges when the next one ends"


def _signed(rows: Delta, sign: int) -> Delta:
    return Delta(rows.time, rows.columns, np.full(len(rows), sign, np.int64))
