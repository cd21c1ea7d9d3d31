"""Places the columns ``window_start`` and ``window_end`` in a plan: as far up as possible.

All rows of ``[HOP …]`` and ``[RANGE … SLIDE …]`` at one instant are in the same window. So an aggregate that only
groups by its edges has the groups of the aggregate without them, and gets the columns afterwards: each element is then
in the aggregate once, not once for each window, and panes can stand below it.
"""

from __future__ import annotations

from dataclasses import replace

from eddyline.core.window import Session, Stepping
from eddyline.expr.nodes import Column, columns_of
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


def renewed(p: Plan) -> Window | None:
    """The window whose rows make up a relation so that at each of its ends every row that is there enters, whether or
    not an equal one was there before; None: there is none, or it cannot be derived."""
    p = below_items(p)
    if isinstance(p, Aggregate):
        return p.input if without_columns(p) is not None else fresh_window(p)  # type: ignore[return-value]
    if isinstance(p, Window) and isinstance(p.spec, Stepping | Session):
        return p if isinstance(p.spec, Session) or p.columns or in_one_window(p) else None
    return None


def below_items(p: Plan) -> Plan:
    """What a select list and conditions are evaluated over."""
    while isinstance(p, Project | Select):
        p = p.input
    return p


def has_edge(p: Aggregate, window: Window) -> bool:
    """Whether an edge of the window is a key, so that rows of different windows differ."""
    edges = {c.name for c in window.columns}
    return any(isinstance(e, Column) and e.name in edges for _, e in p.keys)


def fresh_window(p: Aggregate) -> Window | None:
    """The window below an aggregate whose groups are complete when they enter, and gone at the next end: a session or
    a window that is no longer than its step. (Conditions on the edges of the latter stand in between.)"""
    window = p.input
    while isinstance(window, Select):
        window = window.input
    if not p.grouped or not isinstance(window, Window):
        return None
    if isinstance(window.spec, Session):
        return window
    whole = window is p.input and (not window.columns or without_columns(p) is not None)
    return window if whole and in_one_window(window) else None
