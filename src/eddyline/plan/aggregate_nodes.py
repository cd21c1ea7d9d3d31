"""Aggregates over relations, and the panes that sliding windows below them are cut into."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from eddyline.core.time import TimeKind
from eddyline.expr.describe import describe_aggregate
from eddyline.operators.pane_columns import PaneColumns
from eddyline.plan.deletions import Deletions
from eddyline.plan.graph import MakeJudge, MakeSelect, Output
from eddyline.plan.logical import Aggregate, Plan, StreamScan, Window
from eddyline.plan.matches import Matches
from eddyline.plan.panes import panes_below, same_panes
from eddyline.plan.traverse import each


class Aggregates(Matches):
    """The part of the builder that builds aggregates. ``plan`` is the whole query."""

    plan: Plan

    def __init__(self, select: MakeSelect, judge: MakeJudge, kind: TimeKind) -> None:
        super().__init__(select, judge, kind)
        self.paned: dict[Hashable, Output] = {}  # by what they hold: panes that several windows read

    def groups(self, p: Aggregate, need: Deletions) -> Output:
        from eddyline.operators.aggregate import AggregateOperator

        pane_columns = panes_below(p)
        child = self.relation(p.input, Deletions.ALL) if pane_columns is None else self.panes(p, pane_columns)
        operator = AggregateOperator(
            self.name("aggregate"), p.keys, p.aggregates, child.schema, p.grouped, self.context, fifo=child.fifo,
            inserts_only=need == Deletions.NONE, append_only=child.append_only, pane_columns=pane_columns,
        )  # fmt: skip
        node = self.add(operator, (child.node,), note=", ".join(describe_aggregate(a) for _, a in p.aggregates))
        # Old and new row of a group differ, but only where all columns are kept can one tell.
        append_only = need == Deletions.NONE
        return Output(node, p.schema, append_only=append_only, identity=frozenset(p.schema.names))

    def panes(self, p: Aggregate, pane_columns: PaneColumns, need: Deletions = Deletions.ALL) -> Output:
        """A sliding window over panes. Panes of the same elements that hold the same are made once."""
        from eddyline.operators.panes import Panes

        window = p.input
        assert isinstance(window, Window)
        alike = self.same_panes(p)
        if alike is None or alike not in self.paned:
            others = [n for n in each(self.plan) if alike is not None and self.same_panes(n) == alike]
            windows: list[Any] = [n.input.spec for n in (p, *others)]  # type: ignore[union-attr]
            operator = Panes(self.name("panes"), pane_columns, windows)
            node = self.add(operator, (self.stream(window.input).node,), note=pane_columns.describe())
            alike = node if alike is None else alike
            self.paned[alike] = Output(node, operator.schema, append_only=True)
        source = StreamScan("", "", pane_columns.schema, pane_columns.schema.names)
        return self.windowed(Window(source, window.spec), self.paned[alike], need, shared=False)

    def same_panes(self, p: Plan) -> Hashable | None:
        if not (isinstance(p, Aggregate) and isinstance(p.input, Window)):
            return None
        return same_panes(p, self.signature(p.input.input)[0])
