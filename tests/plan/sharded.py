"""Runs a random case on the shards that the planner asks for, as Spark would, without Spark."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pyarrow as pa

from eddyline.spark.packing import ARRIVAL, Packer
from eddyline.spark.program import Group, Program, plan_group
from eddyline.spark.shard import ShardEngine
from eddyline.spark.shard_keys import shard_of
from eddyline.testing.cases import Case
from eddyline.testing.reference import split_late


def planned(case: Case, shards: int) -> Group:
    """A case as it is shipped to its shards."""

    def load(name: str) -> pa.Table:
        return pa.Table.from_pylist([dict(r) for r in case.relations[name].rows], case.scale.relation_schema(name))

    names = frozenset(n.lower() for n in (*case.streams, *case.relations))
    return plan_group([case.bound()], case.catalog(), load, shards=shards, positions=names)


def run_sharded(case: Case, group: Group, batches: int = 1, seed: int = 0) -> pa.Table:
    """The results of all shards in order of time, after some micro-batches."""
    program = Program((group,))
    engines = [ShardEngine(group, shard) for shard in range(group.shards)]
    found: list[pa.RecordBatch] = []
    feeds = {name: _cut(case, name, batches, random.Random(f"{seed}/{name}")) for name in program.sources()}
    packers = {name: Packer(program.routes(name), program.timestamp(name)) for name in feeds}
    for number in range(batches):
        last = number == batches - 1
        packed: list[list[Any]] = [[] for _ in engines]
        for name, parts in feeds.items():
            for rows in packers[name](iter([parts[number]]), ended=last):
                for r in rows.to_pylist():
                    low, high = (None if r[n] is None else int(r[n]) for n in ("low", "high"))
                    shard = shard_of(r["key"])
                    packed[shard].append((r["lane"], r["kind"], low, high, r["rows"], r["ended"], r["blob"]))
        for engine, rows in zip(engines, packed, strict=True):
            found += [batch for _, batch in engine.process(rows, ended=last)]
    table = pa.Table.from_batches(found, engines[0].queries[0].schema)
    order = [("_time", "ascending"), *([("_sign", "ascending")] if "_sign" in table.schema.names else [])]
    return table.sort_by(order)


def _cut(case: Case, name: str, count: int, rng: random.Random) -> list[pa.RecordBatch]:
    """The rows of an input with their positions, in as many parts. What is late was taken out: a micro-batch is one
    arrival and would keep more."""
    data = case.streams.get(name)
    elements = case.relations[name].elements() if data is None else data.elements
    numbered = [(ts, {**row, ARRIVAL: i}) for i, (ts, row) in enumerate(elements)]
    on_time, _, _ = split_late(numbered, 0 if data is None else data.slack)
    rows = sorted((row for _, row in on_time), key=lambda row: row[ARRIVAL])
    schema = case.scale.relation_schema(name) if data is None else case.scale.schema()
    batch = pa.RecordBatch.from_pylist(rows, schema.append(pa.field(ARRIVAL, pa.int64())))
    cuts = sorted(rng.randint(0, len(rows)) for _ in range(count - 1))
    return [batch.slice(a, b - a) for a, b in pairwise([0, *cuts, len(rows)])]
