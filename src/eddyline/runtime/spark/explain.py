"""explain on Spark: the plan that every shard runs, how rows travel to the shards, and what all of them hold."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from eddyline.plan.logical import streams_of
from eddyline.plan.partitioning import partition
from eddyline.runtime.explain import explain as explain_running
from eddyline.runtime.progress import size
from eddyline.runtime.spark.program import SHARDS_PER_PARTITION
from eddyline.runtime.spark.shard import ShardEngine

if TYPE_CHECKING:
    from eddyline.runtime.query import Query
    from eddyline.runtime.session import Session
    from eddyline.runtime.spark.query import SparkQuery


def explain(query: SparkQuery) -> str:
    stateless = query.stateless
    if stateless is not None:
        said = [query.bound.text.strip(), "", "on Spark, without a shuffle: each element is judged where it is read"]
        said += [f"  {line}" for line in stateless.explain()]
        told = [] if query.watch is None else list(query.watch.read().explain())
        return "\n".join([*said, *(["", "by now", *(f"  {line}" for line in told)] if told else [])])
    group = query.program.groups[0]
    engine = ShardEngine(group, 0)
    report = query.account.report(0, 0) if query.account.shards else None
    sizes = {} if report is None else {o["name"]: (o["rows"], o["bytes"]) for o in report["operators"]}
    lines = [explain_running(engine.queries[0].running, sizes), "", "on Spark"]
    lines += [f"  {line}" for line in travel(group.shares, group.reasons)]
    if report is not None:
        rows, bytes = report["state"]["rows"], report["state"]["bytes"]
        stored = report["state"]["stored_bytes"]
        lines.append(f"  all shards together: {rows:,} rows, {size(bytes)}; {size(stored)} in the state store")
    return "\n".join(lines)


def travel(shares: Sequence[int], reasons: Sequence[str]) -> list[str]:
    """How many shards, and what is split, copied or kept together, and why."""
    return [*reasons, "the number of shards is fixed for the life of a checkpoint"] if shares else list(reasons)


def travel_of(query: Query, session: Session) -> list[str]:
    """The same for a query that is only explained: nothing of Spark is needed to plan."""
    running = query.running
    if any("(" in s for s in streams_of(running.plan)):
        return ["runs where the query is whose late or invalid rows it reads"]
    split = partition(running.plan, session.catalog, SHARDS_PER_PARTITION * (os.cpu_count() or 1))
    return travel(split.shares, split.reasons)
