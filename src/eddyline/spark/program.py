"""The program that is shipped to the workers: groups of queries with their lanes, grids of shards and constants.

A *group* is what one engine of a shard runs: a query, together with those that read its ``late(q)`` and ``invalid(q)``,
or several queries that have a sub-plan in common, which then runs once in each shard (``spark.grouping``).
A program holds all groups of a job, so that one Spark query reads every source once and answers them all.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from eddyline.adapting.planning import choose_operators, optimized
from eddyline.core.catalog import Catalog, RelationDef, StreamDef
from eddyline.core.errors import JobError
from eddyline.core.schema import Field, Schema
from eddyline.core.time import TimeKind
from eddyline.core.window import counts_elements
from eddyline.io.source import Source
from eddyline.plan.choice import PlannedQuery
from eddyline.plan.logical import (
    Aggregate,
    AsOfJoin,
    BoundQuery,
    ModelQuery,
    Over,
    Plan,
    Rank,
    RelationScan,
    StreamScan,
    Window,
    WithArrivals,
)
from eddyline.plan.panes import SourcePanes, panes_for_all
from eddyline.plan.partitioning import ANY, Lane, Partitioning, partition
from eddyline.plan.traverse import each, streams_of
from eddyline.spark.packing import ARRIVAL, ARRIVED, NOTHING, Route
from eddyline.spark.shard_keys import key_of

MAX_SHARDS: Final = 1 << 12  # of a query
SHARDS_PER_PARTITION: Final = 2  # so that a partition is no worse off when one shard has more than its share


@dataclass(frozen=True, slots=True)
class Group:
    """``planned`` have plans that name lanes, and the operators that were chosen for them on the driver; ``catalog``
    has the lanes as streams and relations."""

    name: str
    planned: tuple[PlannedQuery, ...]
    catalog: Catalog
    lanes: tuple[Lane, ...]  # shipped ones
    constants: tuple[Lane, ...]
    shares: tuple[int, ...]
    tables: Mapping[str, bytes]  # constant relations by declared name, Arrow IPC
    strict: bool
    ordered: bool  # whether the order of elements with equal timestamps can show
    reasons: tuple[str, ...]
    panes: Mapping[str, SourcePanes] = field(default_factory=dict)  # by lane, where no query needs its elements
    learned: Mapping[str, Any] = field(default_factory=dict)  # by earlier runs (``engine.learned``)
    files: Mapping[str, Source] = field(default_factory=dict)  # by declared name, to find the line of a failing row

    @property
    def queries(self) -> tuple[BoundQuery, ...]:
        return tuple(p.query for p in self.planned)

    @property
    def shards(self) -> int:
        n = 1
        for s in self.shares:
            n *= s
        return n

    def schema(self, lane: Lane) -> pa.Schema:
        """Of the blobs of a lane: what the plan reads, and what the input manager needs."""
        return self.definition(lane).schema.to_arrow()

    def definition(self, lane: Lane) -> StreamDef | RelationDef:
        key = lane.name.lower()
        return self.catalog.streams.get(key) or self.catalog.relations[key]

    def timestamp(self, lane: Lane) -> str:
        name = self.definition(lane).timestamp
        assert name is not None
        return name


@dataclass(frozen=True, slots=True)
class Program:
    """``places`` has for each query, group by group, its place in the job. A query *is* its place: its text may stand
    in a job twice, and it need not have a name."""

    groups: tuple[Group, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    name: str = field(default_factory=lambda: uuid.uuid4().hex)  # of no other program
    places: tuple[int, ...] = ()

    def sources(self) -> tuple[str, ...]:
        """The declared streams and timed relations that must be shipped."""
        return tuple(dict.fromkeys(lane.source for g in self.groups for lane in g.lanes))

    def routes(self, source: str, streaming: bool = True) -> list[Route]:
        """How rows of a source travel. They also wake the groups that read nothing but constants."""
        found = [
            Route(
                i, number, g.schema(lane), lane.split, g.shares, g.panes.get(lane.name), self.name, streaming,
                getattr(g.definition(lane), "auto", None),
            )
            for i, g in enumerate(self.groups)
            for number, lane in enumerate(g.lanes)
            if lane.source.lower() == source.lower()
        ]  # fmt: skip
        return found + [Route(i, NOTHING, pa.schema([]), (), ()) for i, g in enumerate(self.groups) if not g.lanes]

    def columns(self, source: str) -> list[str]:
        """The source's own columns that must be read, hidden ones aside."""
        wanted: dict[str, None] = {}
        for g in self.groups:
            for lane in g.lanes:
                if lane.source.lower() == source.lower():
                    wanted |= dict.fromkeys(g.schema(lane).names)
                    wanted |= dict.fromkeys(c for c in lane.split if c not in (None, "*"))
        return [c for c in wanted if c not in (ARRIVAL, ARRIVED)]

    def timestamp(self, source: str) -> str:
        """The column that holds the time of a source's rows, possibly the hidden one."""
        return next(g.timestamp(x) for g in self.groups for x in g.lanes if x.source.lower() == source.lower())

    def positioned(self, source: str) -> bool:
        """Whether rows of the source must bring their position."""
        return any(ARRIVAL in r.schema.names for r in self.routes(source))

    def keys(self) -> list[int]:
        return [key_of(i, s) for i, g in enumerate(self.groups) for s in range(g.shards)]


def check_shards(shards: int) -> int:
    if not isinstance(shards, int) or not 1 <= shards <= MAX_SHARDS:
        raise JobError(f"the number of shards must be between 1 and {MAX_SHARDS}, not {shards}.")
    return shards


def state_partitions(spark: Any) -> int:
    """How many partitions the state of a new query gets; Spark keeps that number in the checkpoint."""
    return int(spark.conf.get("spark.sql.shuffle.partitions", "200"))


def plan_group(
    queries: Sequence[BoundQuery],
    catalog: Catalog,
    load: Callable[[str], pa.Table],
    *,
    shards: int,
    rates: Mapping[str, float] | None = None,
    strict: bool = False,
    positions: frozenset[str] = frozenset(),
) -> Group:
    """Decide how the first query is split (the others read what it turns away) and gather what its shards need.

    ``positions`` names the sources whose rows can bring their position; elsewhere ties are ordered by value.
    """
    check_shards(shards)
    main, *followers = queries
    plans = [optimized(q) for q in queries]
    split = _split(main, plans, catalog, shards, rates, followers)
    renamed = [split.plan, *plans[1:]]
    planned = tuple(choose_operators(replace(q, plan=p), p, catalog) for q, p in zip(queries, renamed, strict=True))
    keyed = any(reads_keys(p, catalog) for p in plans)
    return assemble(planned, split, catalog, load, strict=strict, positions=positions, keyed=keyed)


def assemble(
    planned: tuple[PlannedQuery, ...],
    split: Partitioning,
    catalog: Catalog,
    load: Callable[[str], pa.Table],
    *,
    strict: bool = False,
    positions: frozenset[str] = frozenset(),
    keyed: bool = False,
) -> Group:
    """A group of queries whose plans name the lanes of a partitioning; ``keyed``: streams with keys are read."""
    main, renamed = planned[0].query, [p.plan for p in planned]
    shipped = tuple(lane for lane in split.lanes if not lane.constant and "(" not in lane.source)
    constants = tuple(lane for lane in split.lanes if lane.constant)
    # Side streams cannot count on an order either.
    ordered = keyed or any(map(needs_order, renamed))
    lanes = Catalog(functions=catalog.functions, aggregates=catalog.aggregates)
    for lane in shipped:
        _add(lane, lanes, catalog, renamed, ordered, positions)
    for lane in constants:
        definition = catalog.relations[lane.source.lower()]
        lanes.add("relations", replace(definition, name=lane.name, source=None), lane.name)
    tables = {lane.source: _ipc(load(lane.source)) for lane in constants}
    name = main.name or "the query"
    panes = {} if len(planned) > 1 else panes_by_lane(split.plan, shipped, lanes)
    reasons = (*split.reasons, *map(panes_text, panes.items()))
    return Group(name, planned, lanes, shipped, constants, split.shares, tables, strict, ordered, reasons, panes)


def panes_by_lane(plan: Plan, shipped: Sequence[Lane], catalog: Catalog) -> dict[str, SourcePanes]:
    """The lanes whose rows may be added up before they travel: none where the order of elements can show. A stream
    that can fall idle is left out, and so is one that is stamped on arrival: what is late there does not follow from
    what it has shown. With SLACK AUTO shards hold rows back until they are believed."""
    found: dict[str, SourcePanes] = {}
    for lane in () if needs_order(plan) else shipped:
        stream = catalog.streams.get(lane.name.lower()) or catalog.streams.get(lane.source.lower())
        if stream is None or stream.unique or stream.idle is not None or stream.auto is not None:
            continue
        if stream.timestamp not in (None, ARRIVED):
            # Whether a task that is run again ships rows or panes, each element must go to the same shard.
            panes = None if ANY in lane.split else panes_for_all(plan, lane.name)
            if panes is not None:
                found[lane.name] = panes
    return found


def panes_text(lane: tuple[str, SourcePanes]) -> str:
    name, panes = lane
    return f"{name} travels as panes: sums {panes.pane_columns.describe()}"


def _split(
    main: BoundQuery,
    plans: Sequence[Plan],
    catalog: Catalog,
    shards: int,
    rates: Mapping[str, float] | None,
    followers: Sequence[BoundQuery],
) -> Partitioning:
    split = partition(plans[0], catalog, shards, rates)
    if main.options.get("on_error") == "invalid" and _copies(split):
        one = partition(plans[0], catalog, 1, rates)
        why = "one shard: on_error = 'invalid' counts each failing row once, and copies of a row would fail again"
        return replace(one, reasons=(why,))
    for query, plan in zip(followers, plans[1:], strict=True):
        others = [s for s in streams_of(plan) if "(" not in s]
        if others or (split.shards > 1 and partition(plan, catalog, shards).shards == 1):
            one = partition(plans[0], catalog, 1, rates)
            why = f"one shard: {query.name or 'a query'} reads its late or invalid rows and needs all of them together"
            return replace(one, reasons=(why,))
    return split


def _copies(split: Partitioning) -> bool:
    return any(
        column is None and share > 1
        for lane in split.lanes
        if not lane.constant
        for column, share in zip(lane.split, split.shares, strict=True)
    )


def needs_order(plan: Plan) -> bool:
    """Whether the order of elements with equal timestamps can show."""
    for n in each(plan):
        if isinstance(n, Window) and counts_elements(n.spec):
            return True
        if isinstance(n, Aggregate) and any(a.function in _ORDERED for _, a in n.aggregates):
            return True
        if isinstance(n, RelationScan) and not n.constant:
            return True
        if isinstance(n, AsOfJoin | Over | WithArrivals | ModelQuery) or (isinstance(n, Rank) and n.by_arrival):
            return True
    return False


def reads_keys(plan: Plan, catalog: Catalog) -> bool:
    """Whether a stream with a declared key is read: of elements at one instant the first has it."""
    streams = (catalog.streams.get(n.stream.lower()) for n in each(plan) if isinstance(n, StreamScan))
    return any(s is not None and bool(s.unique) for s in streams)


_ORDERED: Final = ("first", "last", "user")


def _add(
    lane: Lane, lanes: Catalog, catalog: Catalog, plans: Sequence[Plan], ordered: bool, positions: frozenset[str]
) -> None:
    """Declare a lane: a stream or timed relation with the columns that its scans read."""
    key = lane.source.lower()
    stream, relation = catalog.streams.get(key), catalog.relations.get(key)
    definition = stream or relation
    assert definition is not None
    wanted = {c for p in plans for n in each(p) if _reads(n, lane.name) for c in n.columns}  # type: ignore[union-attr]
    # The rows of a relation are found again by all their columns, and an order by value looks at all of them.
    if relation is not None or (ordered and key not in positions):
        wanted = set(definition.schema.names)
    if stream is not None:
        wanted |= {c for key in stream.unique for c in key}
    timestamp = definition.timestamp
    kept = [f for f in definition.schema if f.name in wanted or f.name == timestamp]
    if timestamp is None:
        kind = definition.time_kind or TimeKind.TIMESTAMP
        timestamp = ARRIVED
        kept.append(Field(ARRIVED, pa.timestamp("us") if kind is TimeKind.TIMESTAMP else pa.int64()))
    if ordered and key in positions:
        kept.append(Field(ARRIVAL, pa.int64()))
    changed = replace(definition, name=lane.name, schema=Schema(tuple(kept)), timestamp=timestamp, source=None)
    lanes.add("streams" if stream is not None else "relations", changed, lane.name)


def _reads(n: Plan, name: str) -> bool:
    if isinstance(n, StreamScan):
        return n.stream.lower() == name.lower()
    return isinstance(n, RelationScan) and n.relation.lower() == name.lower()


def _ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]
