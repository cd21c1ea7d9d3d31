"""Which queries of a job run in the same engines, so that what they have in common runs once in each shard.

Queries go together if they have a sub-plan in common that costs more than reading its elements twice (a view or a named
query with a user's function, a join, an aggregate), and if one division of the rows over shards is right for all of
them: the same inputs, the same shares, and ways to travel that agree (rows that may be spread as one likes go with any
column). Queries that must be divided otherwise, say by another column, stay apart and compute the sub-plan again: to
bring them together would take the shards from one of them.

A group of several queries gets rows and no panes, and queries with ``on_error = 'invalid'`` stay alone, since failing
rows are counted by query.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

from eddyline.adapting.planning import choose_operators, optimized
from eddyline.core.catalog import Catalog
from eddyline.plan.choice import PlannedQuery
from eddyline.plan.logical import BoundQuery, Plan, children
from eddyline.plan.numbering import Numbering
from eddyline.plan.partitioning import Lane, Partitioning
from eddyline.plan.partitioning.grid import travel_together
from eddyline.plan.rules import optimize_together
from eddyline.plan.rules.share_subplans import worth_sharing
from eddyline.plan.sameness import Sameness
from eddyline.plan.traverse import each

Split = Callable[[Plan], Partitioning]


def together_in(queries: Sequence[BoundQuery], split: Split) -> list[list[int]]:
    """The places of queries that should go together, two or more in each list."""
    able = [i for i, q in enumerate(queries) if q.options.get("on_error") != "invalid"]
    numbers = Numbering(*(queries[i].plan for i in able))
    plans = {i: optimized(queries[i]) for i in able}
    parts = {i: _parts(queries[i].plan, plans[i], numbers) for i in able}
    able = [i for i in able if any(parts[i] & parts[j] for j in able if j != i)]
    layouts = {i: split(plans[i]) for i in able}
    found: list[tuple[list[int], set[Hashable], Partitioning]] = []
    for i in able:
        for at, (members, common, layout) in enumerate(found):
            joint = agreed(layout, layouts[i]) if common & parts[i] else None
            if joint is not None:
                found[at] = [*members, i], common | parts[i], joint
                break
        else:
            found.append(([i], set(parts[i]), layouts[i]))
    return [members for members, _, _ in found if len(members) > 1]


def _parts(written: Plan, optimized: Plan, numbers: Numbering) -> set[Hashable]:
    """What a query could have in common with others: sub-plans as they are written, which are planned together, and as
    they run, since filters of a stream are equal also where one query reads it as a stream and another as a relation.
    """
    same = Sameness(str.lower)
    as_written: set[Hashable] = {numbers.of(p) for p in each(written) if worth_sharing(p)}
    return as_written | {same.shared_key(p) for p in each(optimized) if worth_sharing(p)}


def planned_together(
    queries: Sequence[BoundQuery], split: Split, catalog: Catalog
) -> tuple[tuple[PlannedQuery, ...], Partitioning] | None:
    """Plan queries so that what several of them read has one plan, and divide them alike."""
    shared = optimize_together([q.plan for q in queries])
    layouts = [split(s.plan) for s in shared]
    joint = layouts[0]
    for other in layouts[1:]:
        found = agreed(joint, other)
        if found is None:
            return None
        joint = found
    planned = []
    for q, s, layout in zip(queries, shared, layouts, strict=True):
        parts = _renamed(s.plan, layout.plan, set(s.read_by_others))
        chosen = choose_operators(replace(q, plan=layout.plan), layout.plan, catalog)
        planned.append(replace(chosen, shared=parts))
    names = [q.name or f"query {i + 1} of the group" for i, q in enumerate(queries)]
    why = f"{', '.join(names)} run in the same shards: what they have in common runs once in each"
    return tuple(planned), replace(joint, reasons=(*joint.reasons, why))


def agreed(one: Partitioning, other: Partitioning) -> Partitioning | None:
    """The division that is right for both; None: there is none, or it would have fewer shards."""
    mine, theirs = {x.name: x for x in one.lanes}, {x.name: x for x in other.lanes}
    if one.shares != other.shares or mine.keys() != theirs.keys():
        return None
    lanes: list[Lane] = []
    for name, lane in mine.items():
        joint = travel_together(lane.split, theirs[name].split)
        if joint is None or (lane.source, lane.constant) != (theirs[name].source, theirs[name].constant):
            return None
        lanes.append(replace(lane, split=joint))
    return replace(one, lanes=tuple(lanes))


def _renamed(before: Plan, after: Plan, parts: set[int]) -> tuple[Plan, ...]:
    """What the parts of a plan have become where its scans were renamed: two trees of one shape."""
    found: dict[int, Plan] = {}
    waiting = [(before, after)]
    while waiting:
        old, new = waiting.pop()
        if id(old) in parts:
            found[id(new)] = new
        waiting += zip(children(old), children(new), strict=True)
    return tuple(found.values())
