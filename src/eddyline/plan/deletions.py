"""Which deletions are computed: only those that can show.

``NONE``: they cannot; ``AT_ARRIVALS``: only at instants at which something enters (below ``Istream``, through operators
that are linear in their input); ``ALL``: always (below aggregates, differences, antijoins, ``Dstream``, signed results,
and wherever state must forget).
"""

from __future__ import annotations

from eddyline.core.catalog import Catalog
from eddyline.core.deletions import Deletions
from eddyline.core.window import Unbounded, is_time_based
from eddyline.expr.nodes import Column
from eddyline.plan.conjuncts import bare_mark
from eddyline.plan.logical import (
    Aggregate,
    Distinct,
    Explode,
    Join,
    MarkJoin,
    OuterJoin,
    Plan,
    Project,
    RelationScan,
    Select,
    SetOperation,
    StreamScan,
    Window,
)
from eddyline.plan.traverse import each
from eddyline.plan.window_columns import in_one_window

__all__ = ["Deletions", "cannot_cancel", "cannot_net", "is_constant", "only_grows"]


def cannot_cancel(p: Plan, catalog: Catalog) -> bool:
    """Whether a row that leaves can never equal one that enters at the same instant. It cannot if
    the result is linear and keeps the timestamp of every windowed stream, or it keeps all columns of an aggregate,
    whose old and new rows differ."""
    kept = set(p.schema.names)
    while isinstance(p, Select | Project):
        if isinstance(p, Project):
            kept = {e.name for n, e in p.items if n in kept and isinstance(e, Column)}
        p = p.input
    if isinstance(p, Aggregate):
        return kept.issuperset(p.schema.names)
    for child in p.inputs if isinstance(p, Join) else (p,):
        if isinstance(child, RelationScan) and child.constant:
            continue
        names = kept & set(child.schema.names)
        while isinstance(child, Select | Project):
            if isinstance(child, Project):
                names = {e.name for n, e in child.items if n in names and isinstance(e, Column)}
            child = child.input
        if not isinstance(child, Window):
            return False
        if isinstance(child.spec, Unbounded):
            continue
        if not is_time_based(child.spec):
            return False  # what enters may be expelled by an element of the same instant, with the same timestamp
        if child.columns and not in_one_window(child) and not names & {c.name for c in child.columns}:
            return False  # each element leaves its window when it enters the next
        source = child.input
        while isinstance(source, Select | Project):
            if isinstance(source, Project):
                names = {e.name for n, e in source.items if n in names and isinstance(e, Column)}
            source = source.input
        if not isinstance(source, StreamScan):
            return False
        stream = catalog.streams.get(source.stream.lower())
        if stream is None or stream.timestamp is None or f"{source.alias}.{stream.timestamp}" not in names:
            return False
    return True


def cannot_net(p: Plan, catalog: Catalog) -> bool:
    """Whether no row of a relation leaves at an instant at which an equal one enters, whichever rows one looks at: then
    ``Istream``, ``Dstream`` and the signed changes of parts of the relation add up to those of the whole."""
    return cannot_cancel(p, catalog) or only_grows(p, catalog)


def only_grows(p: Plan, catalog: Catalog, known: dict[int, bool] | None = None) -> bool:
    """Whether no row of a relation ever leaves; ``known`` is what was found of the nodes below, by identity."""
    known = {} if known is None else known
    if id(p) not in known:
        known[id(p)] = _only_grows(p, catalog, known)
    return known[id(p)]


def _only_grows(p: Plan, catalog: Catalog, known: dict[int, bool]) -> bool:
    match p:
        case Window():
            return isinstance(p.spec, Unbounded)
        case RelationScan():
            if p.constant:
                return True
            relation = catalog.relations.get(p.relation.lower())
            return relation is not None and not relation.key and relation.sign is None
        case Select() if bare_mark(p) == "semi" and isinstance(p.input, MarkJoin):
            return only_grows(p.input.left, catalog, known) and only_grows(p.input.right, catalog, known)
        case Select() | Project() | Distinct() | Explode():
            return only_grows(p.input, catalog, known)
        case Join():
            return all(only_grows(i, catalog, known) for i in p.inputs)
        case SetOperation(kind="union" | "intersect"):
            return only_grows(p.left, catalog, known) and only_grows(p.right, catalog, known)
        case SetOperation(kind="except") | MarkJoin() | OuterJoin(kind="left"):
            return only_grows(p.left, catalog, known) and is_constant(p.right)
        case OuterJoin(kind="right"):
            return only_grows(p.right, catalog, known) and is_constant(p.left)
        case _:
            return False


def is_constant(p: Plan) -> bool:
    """Whether all there is comes at the start of time."""
    return all(n.constant for n in each(p) if isinstance(n, RelationScan)) and not any(
        isinstance(n, StreamScan) for n in each(p)
    )
