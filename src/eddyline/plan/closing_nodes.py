"""Windows that close, and windows whose elements have a time of their own: their operators, columns and ``Wstream``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from eddyline.core.schema import Schema
from eddyline.core.time import TimeKind
from eddyline.core.window import Session, Stepping, Until, counts_elements, spelled
from eddyline.operators.base import Operator
from eddyline.plan.closing_windows import own_sessions, own_steps
from eddyline.plan.deletions import Deletions
from eddyline.plan.graph import MakeJudge, MakeSelect, Output
from eddyline.plan.logical import Aggregate, StreamScan, ToStream, Window
from eddyline.plan.matches import Matches
from eddyline.plan.numbering import Numbering
from eddyline.plan.window_columns import in_one_window, renewed, without_columns


class ClosingWindows(Matches):
    """The part of the builder that knows the edges of windows."""

    numbers: Numbering

    def __init__(self, select: MakeSelect, judge: MakeJudge, kind: TimeKind) -> None:
        super().__init__(select, judge, kind)
        self.sessions: dict[int, int] = {}  # windows with sessions by their number: the nodes that tell when one closes

    def groups(self, p: Aggregate, need: Deletions) -> Output:
        raise AssertionError("the builder knows how")

    def wstream(self, p: ToStream) -> Output:
        """Where every row of the relation enters at each end of its window, those that enter are what is shown."""
        from eddyline.operators.wstream import WStream

        steps, sessions = own_steps(p.input), own_sessions(p.input)
        afresh = not sessions and [renewed(p.input)] == steps
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

    def own_time(self, p: Window, spec: Session | Until, child: Output, need: Deletions) -> Output:
        """Windows whose elements come or go at a time of their own."""
        deletes, label = need != Deletions.NONE, spelled(spec, self.kind)
        if isinstance(spec, Session):
            from eddyline.operators.session_window import SessionWindow

            edges = {c.name: c.edge for c in p.columns}
            operator: Operator = SessionWindow(self.name("session-window"), p.schema, spec, edges, deletes, label)
        else:
            from eddyline.operators.until_window import UntilWindow

            operator = UntilWindow(self.name("until-window"), p.schema, spec, deletes, label)
        node = self.add(operator, (child.node,), note=label)
        fifo = isinstance(spec, Session)
        return Output(node, p.schema, ids=True, fifo=fifo, append_only=not deletes, leaving=deletes and fifo)

    def aggregate(self, p: Aggregate, need: Deletions) -> Output:
        found = without_columns(p)
        if found is None:
            return self.groups(p, need)
        bare, edges = found
        assert isinstance(p.input, Window)
        out = self.window_columns(self.groups(bare, Deletions.ALL), p.input, edges, p.schema, need)
        return replace(out, identity=frozenset(p.schema.names))
