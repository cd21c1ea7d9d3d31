"""New names for the columns of a plan."""

from __future__ import annotations

from eddyline.expr.nodes import Column
from eddyline.plan.logical import Plan, Project


def renamed(p: Plan, prefix: str) -> Project:
    """A plan with its columns named ``prefix.column``; a projection is renamed in place instead of projected again."""
    if isinstance(p, Project):
        return Project(p.input, tuple((f"{prefix}.{n}", e) for n, e in p.items))
    return Project(p, tuple((f"{prefix}.{f.name}", Column(f.name, f.type)) for f in p.schema))
