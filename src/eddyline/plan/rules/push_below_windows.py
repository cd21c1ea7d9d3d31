"""push_below_windows: filter and project elements before a time-based window keeps them.

Which elements a time-based window holds depends on their timestamps alone, so filters and projections commute with it;
a tuple-based window counts elements, so they do not (thesis 2.2.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eddyline.core.window import Stepping, columns_read, is_time_based
from eddyline.expr.nodes import Column, Expr, columns_of
from eddyline.plan.logical import Plan, Project, Select, Window, WithArrivals
from eddyline.plan.rewrite import bottom_up, movable, select, without


def push_below_windows(plan: Plan) -> Plan:
    return bottom_up(plan, _push)


def _push(p: Plan) -> Plan:
    if isinstance(p, Select | Project) and isinstance(p.input, Window) and is_time_based(p.input.spec):
        window = p.input
        # An element that falls between two slides is never judged by the query as written.
        everything = not isinstance(window.spec, Stepping)
        edges = {c.name for c in window.columns}
        if isinstance(p, Project):
            # Renaming saves the window nothing (what is not asked for is not read), and keeps it from sharing its rows.
            computes = any(not isinstance(e, Column) for _, e in p.items)
            may = computes and (everything or all(movable(e) for _, e in p.items))
            may = may and not edges and not columns_read(window.spec)
            return Window(Project(window.input, p.items), window.spec) if may else p
        go = [c for c in p.conjuncts if (everything or movable(c)) and not columns_of(c) & edges]
        stay = without(p.conjuncts, go)
        return select(replace(window, input=_below_numbers(window.input, go)), stay)
    return p


def _below_numbers(stream: Plan, conjuncts: Sequence[Expr]) -> Plan:
    """A stream that is filtered before its elements are numbered: those that stay keep their order."""
    if isinstance(stream, WithArrivals):
        return replace(stream, input=_below_numbers(stream.input, conjuncts))
    return select(stream, conjuncts)
