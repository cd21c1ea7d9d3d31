"""explain on Spark: the plan that every shard runs, how rows travel to the shards, and what all of them hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eddyline.runtime.explain import explain as explain_running
from eddyline.runtime.progress import size
from eddyline.runtime.spark.shard import ShardEngine

if TYPE_CHECKING:
    from eddyline.runtime.spark.program import Group
    from eddyline.runtime.spark.query import SparkQuery


def explain(query: SparkQuery) -> str:
    group = query.program.groups[0]
    engine = ShardEngine(group, 0)
    report = query.account.report(0, 0) if query.account.shards else None
    sizes = {} if report is None else {o["name"]: (o["rows"], o["bytes"]) for o in report["operators"]}
    lines = [explain_running(engine.queries[0].running, sizes), "", "on Spark"]
    lines += [f"  {line}" for line in travel(group)]
    if report is not None:
        rows, bytes = report["state"]["rows"], report["state"]["bytes"]
        stored = report["state"]["stored_bytes"]
        lines.append(f"  all shards together: {rows:,} rows, {size(bytes)}; {size(stored)} in the state store")
    return "\n".join(lines)


def travel(group: Group) -> list[str]:
    """How many shards, and what is split, copied or kept together, and why."""
    count = group.shards
    first = "1 shard" if count == 1 else f"{count} shards"
    grid = f" ({' × '.join(map(str, group.shares))})" if len(group.shares) > 1 else ""
    return [f"{first}{grid}, fixed for the life of a checkpoint", *group.reasons]
