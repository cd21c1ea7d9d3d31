"""The columns of a stream that hold the time of its elements, and what comparisons of them say about a join."""

from __future__ import annotations

from collections.abc import Sequence

from eddyline.core.catalog import Catalog
from eddyline.core.window import Range, Unbounded
from eddyline.expr.nodes import Call, Column, Expr
from eddyline.plan.logical import AsOfJoin, Over, Plan, Project, Select, StreamScan, Window, WithArrivals


def time_columns(p: Plan, catalog: Catalog) -> frozenset[str]:
    """The columns of a stream whose value is the time of the element."""
    match p:
        case StreamScan():
            definition = catalog.streams.get(p.stream.lower())
            stamp = None if definition is None else definition.timestamp
            return frozenset(n for n, c in zip(p.schema.names, p.columns, strict=True) if c == stamp)
        case Select() | WithArrivals():
            return time_columns(p.input, catalog)
        case Over():
            return frozenset() if p.waits else time_columns(p.input, catalog)
        case Project():
            below = time_columns(p.input, catalog)
            return frozenset(n for n, e in p.items if isinstance(e, Column) and e.name in below)
        case AsOfJoin():
            if p.outer and not p.backward:
                return frozenset()
            return time_columns(p.left if p.backward else p.right, catalog)
        case _:
            return frozenset()


def never_earlier(inputs: Sequence[Plan], conjuncts: Sequence[Expr], i: int, catalog: Catalog) -> bool:
    """Whether the elements of input i join only with elements of the others that are not younger than they are:
    ``i.ts >= j.ts`` (or ``>``, ``=``) for every other input j. A later element of j then never looks for one of i.

    Elements must enter at their own time: under a window that slides or closes they do not.
    """
    times = [_entering(p, catalog) for p in inputs]
    ordered = [pair for c in conjuncts for pair in _later_and_earlier(c)]

    def not_before(j: int) -> bool:
        return any(later in times[i] and earlier in times[j] for later, earlier in ordered)

    return len(inputs) > 1 and all(not_before(j) for j in range(len(inputs)) if j != i)


def _later_and_earlier(c: Expr) -> list[tuple[str, str]]:
    """The columns of a comparison, the one first that is not less; of a conjunction (BETWEEN), of all its parts."""
    if isinstance(c, Call) and c.function == "and":
        return [pair for part in c.args for pair in _later_and_earlier(part)]
    if not (isinstance(c, Call) and c.function in ("ge", "gt", "eq", "le", "lt")):
        return []
    a, b = c.args
    if not (isinstance(a, Column) and isinstance(b, Column)):
        return []
    found = [(a.name, b.name)] if c.function in ("ge", "gt", "eq") else []
    return [*found, (b.name, a.name)] if c.function in ("le", "lt", "eq") else found


def _entering(p: Plan, catalog: Catalog) -> frozenset[str]:
    """The columns of an input of a join with the time at which its rows enter."""
    while isinstance(p, Select):
        p = p.input
    if isinstance(p, Window) and isinstance(p.spec, Unbounded | Range):
        return time_columns(p.input, catalog)
    return frozenset()
