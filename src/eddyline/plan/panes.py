"""Panes in place of the elements of a stream: below sliding windows whose elements an aggregate only adds up.

``Aggregate`` directly over ``[RANGE w SLIDE l]`` or ``[HOP w EVERY l]`` of a stream, with counts, sums and averages of
expressions that cannot fail: between two instants at which the window can change, its result depends only on the sums
of its elements for each group. Everywhere else windows get the elements themselves.

Panes can also be made where a stream is read, before its elements travel: if a set of panes is their only reader.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from eddyline.core.window import Stepping
from eddyline.expr.nodes import Column, Expr, substitute
from eddyline.operators.pane_columns import PaneColumns
from eddyline.plan.logical import Aggregate, Plan, StreamScan, ToStream, Window, children
from eddyline.plan.traverse import each
from eddyline.plan.window_columns import without_columns
from eddyline.synopses.store import Elements


def panes_below(p: Plan) -> PaneColumns | None:
    """What the panes below an aggregate hold; None: it needs the elements themselves."""
    if not (isinstance(p, Aggregate) and isinstance(p.input, Window) and isinstance(p.input.spec, Stepping)):
        return None
    if p.input.columns:
        found = without_columns(p)
        if found is None:
            return None
        p, _ = found
    return PaneColumns.of([e for _, e in p.keys], [call for _, call in p.aggregates])


def same_panes(p: Plan, elements: Elements | None) -> Hashable | None:
    """The panes below an aggregate over these elements of a stream, independent of its alias: those that are equal can
    be made once. None: there is nothing to compare."""
    if elements is None or not isinstance(p, Aggregate):
        return None
    pane_columns = _in_source(p)
    return None if pane_columns is None else (elements, pane_columns)


@dataclass(frozen=True, slots=True)
class SourcePanes:
    """Panes in terms of a stream's own columns, and the windows that set their ends."""

    pane_columns: PaneColumns
    windows: tuple[Stepping, ...]


def panes_for_all(p: Plan, stream: str) -> SourcePanes | None:
    """The panes that can stand in for the elements of a stream everywhere in a plan; None: some node needs elements.

    An ``Rstream`` needs them: it shows its relation at the instant of each element.
    """
    if any(isinstance(n, ToStream) and n.kind == "rstream" for n in each(p)):
        return None
    scans = [n for n in each(p) if isinstance(n, StreamScan) and n.stream.lower() == stream.lower()]
    windows = _readers(p, scans)
    above = _readers(p, windows)
    if not all(isinstance(n, Window) for n in windows) or p in (*scans, *windows):
        return None
    found = {_in_source(n) if isinstance(n, Aggregate) else None for n in above}
    if len(found) != 1:
        return None
    (pane_columns,) = found
    slides: list[Stepping] = [n.spec for n in windows]  # type: ignore[union-attr, misc]
    return None if pane_columns is None else SourcePanes(pane_columns, tuple(slides))


def _readers(p: Plan, read: Sequence[Plan]) -> list[Plan]:
    """The nodes of a plan right above others (the very objects)."""
    wanted = set(map(id, read))
    return [n for n in each(p) if any(id(c) in wanted for c in children(n))]


def _in_source(p: Aggregate) -> PaneColumns | None:
    pane_columns = panes_below(p)
    if pane_columns is None:
        return None
    scan = next(n for n in each(p) if isinstance(n, StreamScan))
    by: dict[str, Expr] = {f.name: Column(c, f.type) for f, c in zip(scan.schema, scan.columns, strict=True)}
    keys = tuple(substitute(e, by) for e in pane_columns.keys)
    return PaneColumns(keys, tuple(substitute(e, by) for e in pane_columns.arguments), pane_columns.summed)
