"""Where the columns ``window_start`` and ``window_end`` are added: as high as they may.

All rows of ``[HOP …]`` and ``[RANGE … SLIDE …]`` at one instant are in the same window. So an aggregate that only
groups by its edges has the groups of the aggregate without them, and gets the columns afterwards: each element is then
in the aggregate once, not once for each window, and panes can stand below it.
"""

from __future__ import annotations

from dataclasses import replace

from eddyline.core.window import Stepping
from eddyline.expr.nodes import Column, columns_of
from eddyline.plan.closing_windows import Step
from eddyline.plan.logical import Aggregate, Plan, Project, Select, Window


def without_columns(p: Aggregate) -> tuple[Aggregate, dict[str, str]] | None:
    """The aggregate over the window alone, and the keys that are left out of it, with the edge that each is; None
    where there are none, or where they are more than keys."""
    window = p.input
    if not (isinstance(window, Window) and window.columns and isinstance(window.spec, Stepping)):
        return None
    edge = {c.name: c.edge for c in window.columns}
    left_out = {n: edge[e.name] for n, e in p.keys if isinstance(e, Column) and e.name in edge}
    keys = tuple((n, e) for n, e in p.keys if n not in left_out)
    read = [*(e for _, e in keys), *(a for _, call in p.aggregates for a in call.args)]
    if not left_out or any(columns_of(e) & edge.keys() for e in read):
        return None
    return Aggregate(replace(window, columns=()), keys, p.aggregates, grouped=True), dict(left_out)


def in_one_window(window: Window) -> bool:
    """Whether an element is in one window at most, so that its edges follow from its time."""
    return isinstance(window.spec, Stepping) and window.spec.width <= window.spec.slide


def renewed(p: Plan) -> Step | None:
    """The step at which every row of a relation that is there enters, whether or not it was there before; None: there
    is no such step, or nobody knows."""
    while isinstance(p, Project | Select):
        p = p.input
    window = p.input if isinstance(p, Aggregate) and without_columns(p) is not None else p
    if isinstance(window, Window) and isinstance(window.spec, Stepping) and (window.columns or in_one_window(window)):
        return window.spec.slide, window.spec.offset
    return None
