"""Where panes stand in for the elements of a stream: below sliding windows that an aggregate only adds up.

``Aggregate`` directly over ``[RANGE w SLIDE l]`` of a stream, with counts, sums and averages of expressions that cannot
fail: the window cannot show more of its elements than their sums for each group between two instants at which it can
change. Everywhere else windows get the elements themselves.
"""

from __future__ import annotations

from collections.abc import Hashable

from eddyline.core.window import Slide
from eddyline.expr.nodes import Column, Expr, substitute
from eddyline.operators.bundles import Bundles
from eddyline.plan.logical import Aggregate, Plan, StreamScan, Window, walk
from eddyline.synopses.store import Elements


def panes_below(p: Plan) -> Bundles | None:
    """What the panes below an aggregate hold; None: it needs the elements themselves."""
    if not (isinstance(p, Aggregate) and isinstance(p.input, Window) and isinstance(p.input.spec, Slide)):
        return None
    return Bundles.of([e for _, e in p.keys], [call for _, call in p.aggregates])


def same_panes(p: Plan, elements: Elements | None) -> Hashable | None:
    """The panes below an aggregate over these elements of a stream, independent of its alias: those that are equal can
    be made once. None: there is nothing to compare."""
    bundles = panes_below(p)
    if bundles is None or elements is None:
        return None
    scan = next(n for n in walk(p) if isinstance(n, StreamScan))
    by: dict[str, Expr] = {f.name: Column(c, f.type) for f, c in zip(scan.schema, scan.columns, strict=True)}
    keys = tuple(substitute(e, by) for e in bundles.keys)
    arguments = tuple(substitute(e, by) for e in bundles.arguments)
    return elements, keys, arguments, bundles.summed
