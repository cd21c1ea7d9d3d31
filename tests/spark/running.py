"""Random cases on Spark: many of them in one program, so that one Spark run answers all.

The inputs of the cases get names of their own (``c17_S``) in the program. Rows either come packed, from one Parquet
file for each micro-batch that was packed in this process, or as they are, from files that ``pipeline.pack`` reads.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from eddyline.core.catalog import Catalog
from eddyline.core.errors import JobError
from eddyline.plan.logical import BoundQuery, Plan, RelationScan, StreamScan
from eddyline.plan.rewrite import bottom_up
from eddyline.plan.traverse import streams_of
from eddyline.spark import pipeline
from eddyline.spark.output_columns import TAG
from eddyline.spark.packing import PACKED, Packer
from eddyline.spark.program import Group, Program, plan_group
from eddyline.spark.statistics import Account
from eddyline.testing.case_data import TimeScale, draw_relation, draw_stream
from eddyline.testing.case_queries import OPERATORS, RELATIONS, STREAMS, TO_STREAM, Focus, QueryWriter
from eddyline.testing.case_windows import WINDOWS
from eddyline.testing.cases import Case
from tests.shards.shards import Answer, Arrived, Expected, expect, in_time, schema_of, to_batch


@dataclass(frozen=True)
class Asked:
    """A case as one group of a program; ``prefix`` makes the names of its inputs its own."""

    arrived: Arrived
    prefix: str

    @cached_property
    def expected(self) -> Expected:
        """The same on any number of shards."""
        return expect(self.arrived)

    def group(self, shards: int) -> Group:
        case = self.arrived.case
        old, catalog = case.catalog(), Catalog()
        for stream in old.streams.values():
            catalog.add("streams", replace(stream, name=self.prefix + stream.name))
        for relation in old.relations.values():
            catalog.add("relations", replace(relation, name=self.prefix + relation.name))
        bound: BoundQuery = case.bound()
        bound = replace(bound, plan=bottom_up(bound.plan, self._renamed))
        everything = frozenset(n.lower() for n in (*catalog.streams, *catalog.relations))
        positions = everything if self.arrived.positions else frozenset[str]()
        return plan_group([bound], catalog, self._load, shards=shards, positions=positions)

    def _renamed(self, p: Plan) -> Plan:
        match p:
            case StreamScan():
                return replace(p, stream=self.prefix + p.stream)
            case RelationScan():
                return replace(p, relation=self.prefix + p.relation)
            case _:
                return p

    def _load(self, name: str) -> pa.Table:
        case, own = self.arrived.case, name.removeprefix(self.prefix)
        return pa.Table.from_pylist([dict(r) for r in case.relations[own].rows], case.scale.relation_schema(own))


def make_program(asked: Sequence[Asked], shards: int) -> Program:
    return Program(tuple(a.group(shards) for a in asked))


# ── rows packed here ──────────────────────────────────────────────────────────────────────────────────────────────


def write_packed(program: Program, asked: Sequence[Asked], folder: Path) -> None:
    """A file of packed rows for each micro-batch; the last one ends all inputs."""
    count = asked[0].arrived.count
    for number in range(count):
        batches: list[pa.RecordBatch] = []
        for a in asked:
            for name, parts in a.arrived.batches.items():
                source = a.prefix + name
                routes = program.routes(source)
                rows = to_batch(a.arrived.case, name, parts[number], program.positioned(source))
                batches += Packer(routes, program.timestamp(source))(iter([rows]), ended=number == count - 1)
        _write(pa.Table.from_batches(batches, PACKED), folder, number)


def _write(table: pa.Table, folder: Path, number: int) -> None:
    """Spark takes files in the order in which they were written, to the millisecond."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number}.parquet"
    pq.write_table(table, path, row_group_size=1 << 16)
    os.utime(path, (1_700_000_000 + number,) * 2)


def read_packed(spark: Any, folder: Path, streaming: bool) -> Any:
    return _read(spark, pipeline.PACKED_TYPE, folder, streaming)


def _read(spark: Any, schema: Any, folder: Path, streaming: bool) -> Any:
    if streaming:
        return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    return spark.read.schema(schema).parquet(str(folder))


# ── rows as they are ──────────────────────────────────────────────────────────────────────────────────────────────


def write_rows(arrived: Arrived, folder: Path) -> None:
    """A folder for each input with a file for each micro-batch, be it empty."""
    for name, parts in arrived.batches.items():
        for number, rows in enumerate(parts):
            batch = to_batch(arrived.case, name, rows, positioned=False)
            _write(pa.Table.from_batches([batch]), folder / name, number)


def pack_rows(spark: Any, program: Program, arrived: Arrived, folder: Path, streaming: bool) -> list[Any]:
    """Each input of the program through Spark's own map side."""
    from pyspark.sql.pandas.types import from_arrow_schema

    frames = {}
    for name in program.sources():
        schema = from_arrow_schema(schema_of(arrived.case, name), prefer_timestamp_ntz=True)
        frames[name] = _read(spark, schema, folder / name, streaming)
    return [pipeline.pack(frames, program, 2 if streaming else None)] if frames else []


# ── running ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Collected:
    """Tagged output by micro-batch, and what the shards reported."""

    program: Program
    batches: list[pa.Table] = field(default_factory=list)
    account: Account = field(default_factory=Account)

    def take(self, table: pa.Table) -> None:
        tags = table.column(TAG)
        self.account.add(tags.drop_null().to_pylist())
        self.batches.append(table.filter(tags.is_null()))

    def answer(self, number: int) -> Answer:
        """Of one group, in as many micro-batches as there were."""
        group = self.program.groups[number]
        schema = _result_schema(group)
        tables = []
        for batch in self.batches:
            mine = batch.filter(pc.equal(batch.column("query"), number))
            parts = [b for payload in mine.column("payload").to_pylist() for b in _opened(payload)]
            tables.append(in_time(pa.Table.from_batches(parts, schema)))
        return Answer(tables, self.account.report(number, 0), group.shares)


def _result_schema(group: Group) -> pa.Schema:
    from eddyline.spark.shard import ShardEngine

    return ShardEngine(group, 0).queries[0].schema


def _opened(payload: bytes) -> Iterator[pa.RecordBatch]:
    with pa.ipc.open_stream(payload) as reader:
        yield from reader


def run_batch(program: Program, packed: Sequence[Any]) -> Collected:
    found = Collected(program)
    found.take(pipeline.process(program, packed, None, streaming=False).toArrow())
    return found


def run_stream(program: Program, packed: Sequence[Any], checkpoint: Path) -> Collected:
    """All that is there now, in micro-batches of one file of each source."""
    found = Collected(program)
    out = pipeline.process(program, packed, None, streaming=True)
    query = (
        out.writeStream.foreachBatch(lambda df, _: found.take(df.toArrow()))
        .trigger(availableNow=True)
        .option("checkpointLocation", str(checkpoint))
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return found


# ── queries over the same streams ─────────────────────────────────────────────────────────────────────────────────


def draw_job(rng: random.Random, count: int, scale: TimeScale) -> tuple[Case, list[Case]]:
    """Streams and relations, and queries that all read them; each query as a case with the inputs that it reads."""
    length = 45
    streams = {n: draw_stream(rng, 24, length, scale) for n in STREAMS}
    relations = {n: draw_relation(rng, n, length, scale) for n in RELATIONS}
    cases: list[Case] = []
    while len(cases) < count:
        focus = Focus(rng.choice(OPERATORS), rng.choice(WINDOWS), rng.choice(TO_STREAM))
        writer = QueryWriter(rng, focus, scale)
        text = writer.query()
        mine = {n: data for n, data in streams.items() if n in writer.used}
        known = {n: data for n, data in relations.items() if n in writer.used}
        case = Case(text, mine, known, focus.to_stream, writer.views, scale)
        try:
            inputs = streams_of(case.bound().plan)
        except JobError:
            continue
        if inputs and len(writer.used) < 4:  # the reference is slow on products of windows
            cases.append(case)
    return Case("", streams, relations, scale=scale), cases


def same_batches(everything: Arrived, case: Case, ended: bool) -> Arrived:
    """What one of the cases gets of micro-batches that bring all streams."""
    read = {s.lower() for s in streams_of(case.bound().plan)}
    mine = {n: b for n, b in everything.batches.items() if n.lower() in read}
    return Arrived(case, mine, everything.positions, ended)
