"""Runs a random case on the shards that the planner asks for, as Spark would, without Spark."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from eddyline.runtime.spark.packing import ARRIVAL, GROUP_BITS, Packer
from eddyline.runtime.spark.program import Group, Program, plan_group
from eddyline.runtime.spark.shard import ShardEngine
from eddyline.testing.cases import Case
from eddyline.testing.values import ticks


def planned(case: Case, shards: int, rates: Mapping[str, float] | None = None) -> Group:
    """A case as it is shipped to its shards."""

    def load(name: str) -> pa.Table:
        found = next(n for n in case.relations if n.lower() == name.lower())
        return pa.Table.from_pylist([dict(r) for r in case.relations[found].rows], case.scale.relation_schema(found))

    names = frozenset(n.lower() for n in (*case.streams, *case.relations))
    return plan_group([case.bound()], case.catalog(), load, shards=shards, rates=rates, positions=names)


def run_sharded(case: Case, group: Group, batches: int = 1, seed: int = 0) -> pa.Table:
    """The results of all shards in order of time, after some micro-batches. What is late was removed: a micro-batch
    is one arrival, and keeps more."""
    program = Program((group,))
    engines = [ShardEngine(group, shard) for shard in range(group.shards)]
    found: list[pa.RecordBatch] = []
    feeds = {name: _cut(case, name, batches, random.Random(f"{seed}/{name}")) for name in program.sources()}
    packers = {name: Packer(program.routes(name), program.timestamp(name)) for name in feeds}
    for number in range(batches):
        packed: dict[int, list[Any]] = {shard: [] for shard in range(group.shards)}
        for name, parts in feeds.items():
            for rows in packers[name](iter([parts[number]]), ended=number == batches - 1):
                for r in rows.to_pylist():
                    low, high = (None if r[n] is None else int(r[n]) for n in ("low", "high"))
                    shard = r["key"] & ((1 << GROUP_BITS) - 1)
                    packed[shard].append((r["lane"], r["kind"], low, high, r["rows"], r["ended"], r["blob"]))
        for shard, engine in enumerate(engines):
            found += [batch for _, batch in engine.process(packed[shard], ended=number == batches - 1)]
    table = pa.Table.from_batches(found, engines[0].queries[0].schema)
    order = [("_time", "ascending"), *([("_sign", "ascending")] if "_sign" in table.schema.names else [])]
    return table.sort_by(order)


def _cut(case: Case, name: str, count: int, rng: random.Random) -> list[pa.RecordBatch]:
    """The rows of an input that are on time, with their positions, in as many parts."""
    data = case.streams.get(name)
    elements = list(case.relations[name].elements() if data is None else data.elements)
    late = Counter(repr(e) for e in case.reference().late.get(name, []))
    rows: list[dict[str, Any]] = []
    for position, e in enumerate(elements):
        if late[repr(e)] and _is_late(elements[:position], e, 0 if data is None else data.slack):
            late[repr(e)] -= 1
        elif e[0] is not None:
            rows.append({**e[1], ARRIVAL: position})
    schema = case.scale.schema() if data is not None else case.scale.relation_schema(name)
    table = pa.Table.from_pylist(rows, schema.append(pa.field(ARRIVAL, pa.int64())))
    cuts = sorted(rng.randint(0, len(rows)) for _ in range(count - 1))
    return [_batch(table.slice(a, b - a)) for a, b in _pairs([0, *cuts, len(rows)])]


def _is_late(before: list[Any], element: Any, slack: int) -> bool:
    ts = element[0]
    shown = [t for t, _ in before if t is not None]
    return ts is not None and bool(shown) and ts < max(shown) - slack


def _batch(table: pa.Table) -> pa.RecordBatch:
    (batch,) = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
    return batch


def _pairs(cuts: list[int]) -> Iterator[tuple[int, int]]:
    return zip(cuts[:-1], cuts[1:], strict=True)
