"""New names for the columns of a plan."""

from __future__ import annotations

from collections.abc import Sequence

from eddyline.expr.nodes import Column, UserCall, walk
from eddyline.plan.logical import Plan, Project


def renamed(p: Plan, prefix: str, named: bool = False) -> Project:
    """A plan with its columns named ``prefix.column``; a projection is renamed in place instead of projected again.

    The projection of a ``named`` query, which may be read several times, stays as it is if it asks users' functions:
    all who read it read the same answers.
    """
    asks = named and isinstance(p, Project) and any(isinstance(x, UserCall) for _, e in p.items for x in walk(e))
    if isinstance(p, Project) and not asks:
        return Project(p.input, tuple((f"{prefix}.{n}", e) for n, e in p.items))
    return Project(p, tuple((f"{prefix}.{f.name}", Column(f.name, f.type)) for f in p.schema))


def with_names(p: Plan, names: Sequence[str]) -> Project:
    """A plan with its columns named anew, in order."""
    items = p.items if isinstance(p, Project) else [(f.name, Column(f.name, f.type)) for f in p.schema]
    values = tuple((name, e) for name, (_, e) in zip(names, items, strict=True))
    return Project(p.input if isinstance(p, Project) else p, values)
