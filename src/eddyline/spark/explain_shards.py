"""explain on Spark: the plan that every shard runs, how rows travel to the shards, and the state of all shards."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from eddyline.adapting.eddy_statistics import matched
from eddyline.adapting.join_history import bracketed
from eddyline.core.amounts import size
from eddyline.engine.query_plan import graph_of
from eddyline.plan.partitioning import partition
from eddyline.plan.plan_data import PlanGraph
from eddyline.plan.print_text import LEGEND, SHOWN_DECISIONS
from eddyline.plan.print_text import explain as print_plan
from eddyline.plan.traverse import streams_of
from eddyline.spark.program import SHARDS_PER_PARTITION, panes_by_lane, panes_text
from eddyline.spark.shard import ShardEngine
from eddyline.streamon.wording import decided_line

if TYPE_CHECKING:
    from eddyline.engine.query import Query
    from eddyline.engine.session import Session
    from eddyline.plan.logical import BoundQuery
    from eddyline.spark.frame_reports import FrameObservation
    from eddyline.spark.program import Program
    from eddyline.spark.statistics import Account


class ExplainedQuery(Protocol):
    """The part of a query on Spark (``spark_query``) that explain uses."""

    name: str
    bound: BoundQuery
    frame_observation: FrameObservation | None

    @property
    def stateless(self) -> Any: ...

    @property
    def program(self) -> Program: ...

    def read(self) -> Account: ...


def explain(query: ExplainedQuery) -> str:
    stateless = query.stateless
    if stateless is not None:
        said = [query.bound.text.strip(), "", "on Spark, without a shuffle: each element is evaluated where it is read"]
        said += [f"  {line}" for line in stateless.explain()]
        by_now = [] if query.frame_observation is None else list(query.frame_observation.read().explain())
        return "\n".join([*said, *(["", "by now", *(f"  {line}" for line in by_now)] if by_now else [])])
    plan = plan_of(query)
    lines = [print_plan(plan), "", "on Spark", *(f"  {line}" for line in plan.partitioning)]
    if plan.shards:
        rows, bytes, stored = (int(plan.totals[n]) for n in ("rows", "bytes", "stored_bytes"))
        lines.append(f"  all shards together: {rows:,} rows, {size(bytes)}; {size(stored)} in the state store")
        lines += by_shard(plan)
    return "\n".join(lines)


def plan_of(query: ExplainedQuery) -> PlanGraph:
    """The plan that every shard runs, as data: totals of all shards, the statistics of each, and their decisions."""
    group = query.program.groups[0]
    running = ShardEngine(group, 0).queries[0].running
    account = query.read()
    report = account.report(0, 0) if account.shards else None
    totals = {} if report is None else {o["name"]: o for o in report["operators"]}
    planned = tuple({**d.to_dict(), "shard": None} for d in running.context.log)
    plan = graph_of(running, query.name, totals, decisions=planned)
    stateless = query.stateless
    partitioning = travel(group.shares, group.reasons) if stateless is None else list(stateless.explain())
    plan = replace(plan, partitioning=tuple(partitioning))
    if report is None:
        return plan
    adapting: dict[int, list[Any]] = {}
    for one in report["adapting"]:
        adapting.setdefault(one["shard"], []).append(one)
    decided = tuple(d for d in report["decisions"] if d["time"] is not None)
    return replace(
        plan,
        # The operators on the driver have the orders of the start; the present ones are in the shards' statistics.
        nodes=tuple(replace(n, adapts=(), knows={}) for n in plan.nodes),
        decisions=(*planned, *decided),
        shards=tuple({**s, "adapting": adapting.get(s["shard"], [])} for s in report["shards"]),
        totals=report["state"],
    )


def by_shard(plan: PlanGraph) -> list[str]:
    """The filters and joins of all shards as they stand by now, those with the same plan together, and what shards
    decided."""
    adapting = [a for s in plan.shards for a in s["adapting"]]
    filters = [a for a in adapting if "order" in a and a.get("filters")]
    lines = ["", "filters in the shards", *(f"  {line}" for line in ordered_together(filters))] if filters else []
    joins = [a for a in adapting if "orders" in a]
    lines += ["", f"joins in the shards{LEGEND}", *(f"  {line}" for line in drawn_together(joins))] if joins else []
    decided = [d for d in plan.decisions if d["shard"] is not None]
    if decided:
        hidden = len(decided) - SHOWN_DECISIONS
        lines += [
            "",
            f"decided in the shards{f' (the last {SHOWN_DECISIONS} of {len(decided)})' if hidden > 0 else ''}",
        ]
        lines += [f"  shard {d['shard']}: {decided_line(d)}" for d in decided[-SHOWN_DECISIONS:]]
    return lines


def ordered_together(filters: Sequence[Mapping[str, Any]]) -> list[str]:
    """
    >>> one = {"operator": "select 1", "policy": "default", "filters": ["a(x)", "b(x)"], "order": [1, 0],
    ...        "asked": [10, 100], "passed": [9, 10]}
    >>> for line in ordered_together([{"shard": 0, **one}, {"shard": 2, **one}]):
    ...     print(line)
    select 1 in shards 0, 2: ordered by the policy default
      1. b(x): passes 10.0% of 200 rows
      2. a(x): passes 90.0% of 20 rows

    Relations of a routed join have partners:

    >>> star = {**one, "operator": "star-look-up 1", "filters": ["R", "T"], "passed": [25, 10], "joins": True}
    >>> print(ordered_together([{"shard": 1, **star}])[-1])
      2. R: 2.50 matches per row, 10 look-ups
    """
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for f in filters:
        groups.setdefault((f["operator"], f["policy"], tuple(f["order"])), []).append(f)
    lines = []
    for (operator, policy, order), some in groups.items():
        lines.append(f"{operator} in {_shards([f['shard'] for f in some])}: ordered by the policy {policy}")
        for place, number in enumerate(order, 1):
            asked, passed = (sum(f[n][number] for f in some) for n in ("asked", "passed"))
            known = matched(passed / asked, asked, bool(some[0].get("joins"))) if asked else "not evaluated yet"
            lines.append(f"  {place}. {some[0]['filters'][number]}: {known}")
    return lines


def drawn_together(joins: Sequence[Mapping[str, Any]]) -> list[str]:
    """
    >>> one = {"operator": "mjoin 1", "orders": {"R": ["S", "T"], "S": ["T", "R"], "T": ["S", "R"]}, "elements": 9,
    ...        "accesses": 30, "caches": []}
    >>> for line in drawn_together([{"shard": 0, **one}, {"shard": 2, **one}]):
    ...     print(line)
    mjoin 1 in shards 0, 2: 18 elements came or left, 3.33 accesses each
      ΔR → S → T
      ΔS → T → R
      ΔT → S → R
    """
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for j in joins:
        used = tuple(sorted(c["cache"] for c in j.get("caches", ()) if c["state"] == "used"))
        orders = tuple((name, *order) for name, order in j["orders"].items())
        groups.setdefault((j["operator"], orders, used), []).append(j)
    lines = []
    for (operator, orders, used), some in groups.items():
        elements, work = sum(j["elements"] for j in some), sum(j["accesses"] for j in some)
        cost = f": {elements:,} elements came or left, {work / elements:.2f} accesses each" if elements else ""
        shards = [j["shard"] for j in some if "shard" in j]  # none: in one process
        lines.append(f"{operator}{f' in {_shards(shards)}' if shards else ''}{cost}")
        spans = {c["cache"]: c["span"] for j in some for c in j.get("caches", ()) if c["state"] == "used"}
        lines += [f"  Δ{name} → {' → '.join(bracketed(name, steps, spans.values()))}" for name, *steps in orders]
        lines += [f"  {_cache_in(cache, some)}" for cache in used]
    return lines


def _cache_in(cache: str, joins: Sequence[Mapping[str, Any]]) -> str:
    """A cache in all the shards that use it: hits together, benefit and cost from the least to the most."""
    rows = [c for j in joins for c in j["caches"] if c["cache"] == cache]
    probes, misses = (sum(c.get(n, 0) for c in rows) for n in ("probes", "misses"))
    figures = [f"hits {1 - misses / probes:.1%}"] if probes else []
    if all(c["benefit"] is not None for c in rows):
        spares, costs = (_range([c[n] for c in rows]) for n in ("benefit", "cost"))
        figures.append(f"spares {spares} and costs {costs} accesses an element")
    if any("bytes" in c for c in rows):
        held = sum(c.get("rows", 0) for c in rows)
        figures.append(f"{held:,} rows in {size(sum(c.get('bytes', 0) for c in rows))}")
    return f"cache in use  {cache}: {', '.join(figures) or 'no statistics yet'}"


def _range(numbers: Sequence[float]) -> str:
    low, high = f"{min(numbers):.2f}", f"{max(numbers):.2f}"
    return low if low == high else f"{low} to {high}"


def _shards(numbers: Sequence[int]) -> str:
    return f"shard{'s' if len(numbers) > 1 else ''} {', '.join(map(str, sorted(numbers)))}"


def travel(shares: Sequence[int], reasons: Sequence[str]) -> list[str]:
    """How many shards, and what is split, copied or kept together, and why."""
    return [*reasons, "the number of shards is fixed for the life of a checkpoint"] if shares else list(reasons)


def travel_of(query: Query, session: Session) -> list[str]:
    """The same for a query that is only explained: nothing of Spark is needed to plan."""
    running = query.running
    if any("(" in s for s in streams_of(running.plan)):
        return ["runs where the query is whose late or invalid rows it reads"]
    split = partition(running.plan, session.catalog, SHARDS_PER_PARTITION * (os.cpu_count() or 1))
    panes = panes_by_lane(split.plan, split.lanes, session.catalog)
    return travel(split.shares, (*split.reasons, *map(panes_text, panes.items())))
