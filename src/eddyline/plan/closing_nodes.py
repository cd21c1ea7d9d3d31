"""Windows that close: columns with their edges, groups of each window by itself, and ``Wstream``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from eddyline.core.schema import Schema
from eddyline.core.time import TimeKind
from eddyline.core.window import Session, Stepping, counts_elements
from eddyline.expr.describe import describe_aggregate
from eddyline.expr.nodes import Column
from eddyline.operators.base import Operator
from eddyline.operators.pane_columns import PaneColumns
from eddyline.plan.aggregate_nodes import Aggregates
from eddyline.plan.closing_windows import own_sessions, own_steps, own_windows
from eddyline.plan.deletions import Deletions
from eddyline.plan.graph import MakeJudge, MakeSelect, Output
from eddyline.plan.logical import Aggregate, StreamScan, ToStream, Window
from eddyline.plan.numbering import Numbering
from eddyline.plan.panes import panes_below
from eddyline.plan.window_columns import below_items, fresh_window, has_edge, in_one_window, renewed, without_columns


class ClosingWindows(Aggregates):
    """The part of the builder that builds windows whose edges are shown or that close."""

    numbers: Numbering

    def __init__(self, select: MakeSelect, judge: MakeJudge, kind: TimeKind) -> None:
        super().__init__(select, judge, kind)
        self.shown: set[int] = set()  # relations that Wstream emits as a whole, by number
        self.sessions: dict[int, int] = {}  # by number of a window with sessions: the node that reports when one closes

    def wstream(self, p: ToStream) -> Output:
        """Where every row of the relation enters at each end of its window, those that enter are what is shown."""
        from eddyline.operators.wstream import WStream

        steps, sessions = own_steps(p.input), own_sessions(p.input)
        afresh = len(list(own_windows(p.input))) == 1 and renewed(p.input) is not None
        if afresh:
            self.shown.add(self.numbers.of(below_items(p.input)))
        child = self.relation(p.input, Deletions.NONE if afresh else Deletions.ALL)
        if afresh and child.append_only:
            return child
        operator = WStream(self.name("w-stream"), child.schema, steps, child.ids, self.context)
        return Output(self.add(operator, (child.node, *self.closing(sessions))), child.schema, append_only=True)

    def closing(self, windows: Sequence[Window]) -> tuple[int, ...]:
        """The nodes whose elements enter when sessions of these windows close. The windows are built already."""
        numbers = dict.fromkeys(self.numbers.of(w) for w in windows if isinstance(w.spec, Session))
        return tuple(self.sessions[n] for n in numbers)

    def window(self, p: Window, need: Deletions) -> Output:
        if p.columns and in_one_window(p):
            return self.windowed(self.over_columns(p), self.element_columns(p), need, shared=False)
        child = self.stream(p.input, ordered=counts_elements(p.spec))
        if p.columns and isinstance(p.spec, Stepping):
            below = self.windowed(replace(p, columns=()), child, Deletions.ALL)
            return self.window_columns(below, p, {c.name: c.edge for c in p.columns}, p.schema, need)
        out = self.windowed(p, child, need)
        if isinstance(p.spec, Session):
            self.sessions[self.numbers.of(p)] = out.node
        return out

    def element_columns(self, p: Window) -> Output:
        """The stream below a window, with the edges of the window that each element is in."""
        from eddyline.operators.window_columns import ElementColumns

        assert isinstance(p.spec, Stepping)
        edges = {c.name: c.edge for c in p.columns}
        operator = ElementColumns(self.name("window-columns"), p.schema, p.spec, edges)
        node = self.add(operator, (self.stream(p.input).node,), note=", ".join(edges))
        return Output(node, p.schema, append_only=True)

    def over_columns(self, p: Window) -> Window:
        """The window on the stream that has its columns already."""
        return Window(StreamScan("", "", p.schema, p.schema.names), p.spec)

    def window_columns(
        self, child: Output, window: Window, edges: Mapping[str, str], schema: Schema, need: Deletions
    ) -> Output:
        """A relation of a window with its edges; its rows are renewed when the window ends."""
        from eddyline.operators.window_columns import WindowColumns

        assert isinstance(window.spec, Stepping)
        inserts = need == Deletions.NONE
        operator = WindowColumns(
            self.name("window-columns"), schema, window.spec, edges, child.ids, self.context, inserts
        )
        node = self.add(operator, (child.node,), note=", ".join(edges))
        return Output(node, schema, append_only=inserts)

    def aggregate(self, p: Aggregate, need: Deletions) -> Output:
        fresh = self.fresh_aggregate(p, need)
        if fresh is not None:
            return fresh
        found = without_columns(p)
        if found is None:
            # Without deletions it would bring the groups that change, and not all of them.
            return self.groups(p, Deletions.ALL if self.numbers.of(p) in self.shown else need)
        bare, edges = found
        assert isinstance(p.input, Window)
        out = self.window_columns(self.groups(bare, Deletions.ALL), p.input, edges, p.schema, need)
        return replace(out, identity=frozenset(p.schema.names))

    def fresh_aggregate(self, p: Aggregate, need: Deletions) -> Output | None:
        """The groups of each window by themselves, if each row of the result differs from those of the window before
        (by an edge), or if all of them are asked for again."""
        window = fresh_window(p)
        if window is None:
            return None
        if not has_edge(p, window) and self.numbers.of(p) not in self.shown:
            return None
        bare, edges = without_columns(p) or (p, {})
        pane_columns = panes_below(bare)
        if pane_columns is None:
            child = self.relation(bare.input, Deletions.NONE)
        else:
            child = self.panes(bare, pane_columns, Deletions.NONE)
        return self.fresh_groups(p, bare, edges, window, pane_columns, child, need) if child.append_only else None

    def fresh_groups(
        self, p: Aggregate, bare: Aggregate, edges: Mapping[str, str], window: Window, pane_columns: PaneColumns | None,
        child: Output, need: Deletions,
    ) -> Output:  # fmt: skip
        from eddyline.operators.aggregate import AggregateOperator
        from eddyline.operators.fresh_aggregate import FreshAggregate

        name, instant = self.name("aggregate"), Column("_instant", pa.int64())
        if pane_columns is not None:
            pane_columns = replace(pane_columns, keys=(*pane_columns.keys, instant))
            instant = pane_columns.key(len(pane_columns.keys) - 1)
        keys = (*bare.keys, (instant.name, instant))

        def make() -> Operator:
            return AggregateOperator(
                name, keys, bare.aggregates, child.schema, True, self.context, fifo=True, inserts_only=True,
                append_only=True, pane_columns=pane_columns,
            )  # fmt: skip

        stay, width = (window.spec.slide, window.spec.width) if isinstance(window.spec, Stepping) else (1, 0)
        deletes = need != Deletions.NONE
        operator = FreshAggregate(name, p.schema, make, instant.name, stay, width, edges, deletes)
        note = ", ".join(describe_aggregate(a) for _, a in p.aggregates)
        node = self.add(operator, (child.node,), note=note)
        identity = frozenset(p.schema.names) if has_edge(p, window) else None
        return Output(node, p.schema, append_only=not deletes, identity=identity)
