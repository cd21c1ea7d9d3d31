"""``ed.Session(spark)``: the same declarations, queries that run on a SparkSession."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from eddyline.core import arguments as check
from eddyline.core.amounts import amount
from eddyline.core.catalog import RelationDef, StreamDef
from eddyline.core.errors import EddylineError, JobError
from eddyline.core.schema import Schema
from eddyline.core.system_streams import SYSTEM
from eddyline.core.time import Clock
from eddyline.cql.steering import AlterQuery, AlterStream, PinQuery, Steer, UndoDecision
from eddyline.engine.alter_stream import Width, altered, checked_widths
from eddyline.engine.base_session import Declaring
from eddyline.engine.learned import Learned
from eddyline.engine.steering import named_query
from eddyline.io.memory import is_frame as is_frame
from eddyline.io.row_places import in_files
from eddyline.io.source import Source
from eddyline.plan.logical import BoundQuery
from eddyline.plan.partitioning import partition
from eddyline.plan.traverse import streams_of
from eddyline.spark import requirements
from eddyline.spark.grouping import Split, planned_together, together_in
from eddyline.spark.job_run import answer_together
from eddyline.spark.monitor import Monitor
from eddyline.spark.program import (
    MAX_SHARDS,
    SHARDS_PER_PARTITION,
    Group,
    Program,
    assemble,
    check_shards,
    plan_group,
    reads_keys,
    state_partitions,
)
from eddyline.spark.spark_query import SparkQuery
from eddyline.spark.statistics import Account
from eddyline.spark.types import from_spark, ntz_of, to_spark
from eddyline.streamon.decision import Decision

ROWS_PER_BATCH = 500_000  # of a micro-batch over paths: larger costs less per row and more memory
SPARK_SOURCE = "spark:"  # before the name of one of Spark's own formats
MAX_DEFAULT_PARTITIONS = 8  # for the default number of shards; the option ``shards`` uses more cores


class SparkRuntime(Declaring[SparkQuery]):
    """Declares like the inline session; a source may also be a DataFrame, streaming or not.

    ``shards`` is the number of engines that a query is split over, fixed for the life of its checkpoint: a few for each
    core that will ever work on it. ``rates`` (rows a second, by stream) weigh what is copied in joins without a common
    key. ``rows_per_batch`` bounds the micro-batches over paths. ``learned`` is a file with what earlier runs learned,
    where the shards of the same queries begin; ``save_learned`` writes it.
    """

    def __init__(
        self,
        spark: Any,
        *,
        clock: Clock | None = None,
        strict: bool = False,
        base: Path | str | None = None,
        shards: int | None = None,
        rates: Mapping[str, float] | None = None,
        rows_per_batch: int = ROWS_PER_BATCH,
        learned: Path | str | None = None,
    ) -> None:
        super().__init__(clock=clock, strict=strict, base=base)
        self.learned = Learned(None if learned is None else check.path(learned, "learned"))
        self.spark: Any = None
        self.start: Callable[[], None] | None = None  # brings a SparkSession when one is needed before the job starts
        self.shards = shards or SHARDS_PER_PARTITION
        if spark is not None:
            self.attach(spark, shards)
        self.rates = {n.lower(): r for n, r in (rates or {}).items()}
        self.rows_per_batch = rows_per_batch
        self.frames: dict[str, Any] = {}  # DataFrames by declared name
        self.opened: dict[str, Source] = {}  # our own readers by declared name
        self.ntz: dict[str, frozenset[str]] = {}
        self.queries: list[SparkQuery] = []
        self.accounts: Callable[[], Mapping[str, Account]] = lambda: {q.name: q.account for q in list(self.queries)}
        self._monitor: Monitor | None = None
        self._complete = True

    def __repr__(self) -> str:
        """
        >>> SparkRuntime(None)
        <Session on Spark: nothing declared; 0 queries>
        """
        streams, relations = self.catalog.streams.values(), self.catalog.relations.values()
        declared = ", ".join([*(s.name for s in streams), *(r.name for r in relations)])
        queries = amount(len(self.queries), "query", "queries")
        return f"<Session on Spark: {declared or 'nothing declared'}; {queries}>"

    def attach(self, spark: Any, shards: int | None = None, *, sized: bool = False) -> None:
        """Go to work on this SparkSession; before, one can declare and plan. ``sized``: its partitions of state are as
        many as its cores, so that shards go by them."""
        if not isinstance(getattr(spark, "version", None), str) or not hasattr(spark, "createDataFrame"):
            raise JobError(
                f"ed.Session(spark) takes a SparkSession, not {check.shown(spark)}; without one, ed.Session() runs in"
                " this process."
            )
        requirements.check_session(spark, stateful=False)
        self.spark = spark
        by_default = SHARDS_PER_PARTITION * state_partitions(spark) if sized else default_shards(spark)
        self.shards = check_shards(shards if shards is not None else min(by_default, MAX_SHARDS))

    def _open(
        self, name: str, source: Any, schema: pa.Schema | None, options: Mapping[str, Any], timestamp: str | None
    ) -> tuple[Source | None, Schema]:
        if isinstance(source, str) and source.lower().startswith(SPARK_SOURCE):
            source = self._spark_source(name, source, schema, options)
        if not is_frame(source):
            return super()._open(name, source, schema, options, timestamp)
        found = from_spark(source.schema, f"the DataFrame of {name!r}")
        self.frames[name.lower()] = source
        self.ntz[name.lower()] = ntz_of(found)
        return None, Schema(tuple(Schema.from_arrow(found)))

    def _spark_source(self, name: str, uri: str, schema: pa.Schema | None, options: Mapping[str, Any]) -> Any:
        """``spark:rate``, ``spark:kafka`` and whatever else Spark reads as a stream; the options are the source's."""
        if self.spark is None and self.start is not None:
            self.start()  # only Spark can find the schema
        if self.spark is None:
            raise JobError(f"{name!r} reads {uri!r}, which only Spark can; run the job with --runtime spark.")
        reader = self.spark.readStream.format(uri[len(SPARK_SOURCE) :])
        reader = reader.options(**{k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in options.items()})
        try:
            return (reader if schema is None else reader.schema(to_spark(schema))).load()
        except Exception as error:
            said = str(error).strip().splitlines()[0]
            raise JobError(f"Spark cannot read {uri!r} for {name!r}: {said}") from None

    def relation(self, name: str, source: Any = None, *arguments: Any, **options: Any) -> None:
        timestamp = arguments[0] if arguments else options.get("timestamp")
        if is_frame(source) and timestamp is None:
            raise JobError(
                f"the relation {name!r} is constant and is sent to every shard, so its rows must be in this process:"
                " pass df.toArrow(), a table, a pandas frame or a path instead of a DataFrame."
            )
        super().relation(name, source, *arguments, **options)

    def _add_input(self, definition: StreamDef | RelationDef, opened: Source | None) -> None:
        key = definition.name.lower()
        overload = getattr(definition, "overload", None)
        if overload is not None and overload.action != "block":
            raise JobError(
                f"{definition.name!r} has ON OVERLOAD {overload.action.upper()}, and Spark pulls rows when it can take"
                " them: leave it out and bound micro-batches instead (rows_per_batch, or the source's own option such"
                " as maxOffsetsPerTrigger), or use --runtime inline."
            )
        if opened is not None:
            self.opened[key] = opened
        elif key not in self.frames:
            raise EddylineError(
                f"{definition.name!r} has no source: on Spark rows come from paths, tables and DataFrames; to push rows"
                " use ed.Session() without a SparkSession."
            )

    def _ends(self, name: str, opened: Source | None) -> bool:
        frame = self.frames.get(name.lower())
        return super()._ends(name, opened) if frame is None else not frame.isStreaming

    def definition(self, name: str) -> StreamDef | RelationDef:
        return self.catalog.streams.get(name.lower()) or self.catalog.relations[name.lower()]

    def shards_reported(self) -> None:
        """Shards have reported."""
        if self._monitor is not None:
            self._monitor.shards_reported()

    def end_monitor(self) -> None:
        """The shards have said their last words: publish them, and end the system's streams."""
        if self._monitor is not None:
            self._monitor.session.finish()

    def _monitored(self, bound: BoundQuery) -> Any:
        """A query over the system's streams runs on the driver, where the reports of all shards arrive."""
        if self._monitor is None:
            self._monitor = Monitor(self.clock, lambda: self.accounts())
        return self._monitor.session.register(bound)

    def _register(self, bound: BoundQuery) -> SparkQuery:
        self._check_options(bound)
        own = [s for s in streams_of(bound.plan) if s.lower() in SYSTEM and s.lower() not in self.catalog.streams]
        if own and len(own) == len(streams_of(bound.plan)):
            return self._monitored(bound)  # type: ignore[no-any-return]
        if own:
            raise JobError(
                f"on Spark {own[0]} is read on the driver and other streams in shards, so a query cannot read both:"
                " write a query for each."
            )
        query = SparkQuery(self, bound, f"query {len(self.queries) + 1}")
        if bound.name is not None:
            self.catalog.add("views", bound, bound.name)
        self.queries.append(query)
        return query

    def run(self) -> None:
        """Answer all queries in one Spark query: each source is read once, to its end (a streaming DataFrame as far as
        it reaches now), and what queries have in common runs once in each shard (``spark.grouping``). Then
        ``to_arrow()`` and ``report()`` of each have its answer."""
        if not self.queries:
            raise JobError("there is no query to run: register one with session.query(…).")
        answer_together(self, self.queries)

    # ── steering ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _steer(self, statement: Steer) -> list[Decision]:
        """Shards record what they do; here nothing is recorded."""
        if isinstance(statement, AlterStream):
            self._alter_stream(statement.name, statement.widths)
            return []
        query = named_query(self.queries, statement.name)
        match statement:
            case AlterQuery():
                query.alter(**statement.options)
            case PinQuery():
                query._pin(statement.pinned)
            case UndoDecision():
                query.undo(statement.number, statement.shard)
        return []

    def alter_stream(self, name: str, *, slack: Width | None = None, idle: Width | None = None) -> None:
        """Change the slack or the idle interval of a stream: for queries that have not started, and in all shards of
        those that have after the next micro-batch (the idle interval only before)."""
        self._alter_stream(name, {"slack": slack, "idle": idle})

    def _alter_stream(self, name: str, given: Mapping[str, Width | None]) -> None:
        definition = altered(self.catalog, name)
        widths = checked_widths(definition, given)
        for q in self.queries:
            q.alter_stream(definition.name, widths)
        slack, idle = widths.get("slack", definition.slack), widths.get("idle", definition.idle)
        self.catalog.streams[name.lower()] = replace(definition, slack=slack, idle=idle)

    # ── programs ──────────────────────────────────────────────────────────────────────────────────────────────────

    def program(self, queries: list[BoundQuery]) -> Program:
        """All queries in one program; those that read ``late(q)`` or ``invalid(q)`` go where q is."""
        named = {q.name.lower(): place for place, q in enumerate(queries) if q.name is not None}
        roots: list[int] = []  # by place: where the query must go that it reads from, its own place if it reads none
        for place, q in enumerate(queries):
            owners: set[int] = set()
            for s in streams_of(q.plan):
                if "(" in s:
                    owner = named.get(s[s.index("(") + 1 : -1].lower())
                    if owner is None or owner >= place:
                        raise JobError(f"{s} needs a query of that name in the same job.")
                    owners.add(roots[owner])
            if len(owners) > 1:
                raise JobError(
                    f"{q.name or f'query {place + 1}'} reads the late or invalid rows of several queries, which run"
                    " apart on Spark: write a query for each, or use --runtime inline."
                )
            roots.append(owners.pop() if owners else place)
        members = [[p for p, r in enumerate(roots) if r == root] for root in dict.fromkeys(roots)]
        alone = [places[0] for places in members if len(places) == 1]
        split = partial(partition, catalog=self.catalog, shards=self.shards, rates=self.rates or None)
        together = [[alone[i] for i in found] for found in together_in([queries[p] for p in alone], split)]
        groups = [(places, self._together([queries[p] for p in places], split)) for places in together]
        made = [(places, group) for places, group in groups if group is not None]
        taken = {p for places, _ in made for p in places}
        rest = [places for places in members if not taken.intersection(places)]
        made += [(places, self._group([queries[p] for p in places])) for places in rest]
        made.sort(key=lambda one: one[0][0])
        return Program(tuple(g for _, g in made), places=tuple(p for places, _ in made for p in places))

    def save_learned(self, path: Path | str | None = None, accounts: Iterable[Account] = ()) -> None:
        """Save what the shards have learned, for the next run of the same queries: of each query the plans of the
        shard that had most to do."""
        for account in (*accounts, *(q.account for q in self.queries)):
            account.teach(self.learned)
        self.learned.save(None if path is None else check.path(path, "save_learned"))

    def _group(self, queries: list[BoundQuery]) -> Group:
        group = plan_group(
            queries,
            self.catalog,
            self._load,
            shards=self.shards,
            rates=self.rates or None,
            strict=self.strict,
            positions=frozenset(self.opened),
        )
        return self._equipped(group)

    def _together(self, queries: list[BoundQuery], split: Split) -> Group | None:
        """One group for queries that have sub-plans in common; None: the plans in which those run once cannot be
        divided alike."""
        found = planned_together(queries, split, self.catalog)
        if found is None:
            return None
        planned, layout = found
        group = assemble(
            planned, layout, self.catalog, self._load, strict=self.strict, positions=frozenset(self.opened),
            keyed=any(reads_keys(q.plan, self.catalog) for q in queries),
        )  # fmt: skip
        return self._equipped(group)

    def _equipped(self, group: Group) -> Group:
        files = {lane.source.lower(): self.opened.get(lane.source.lower()) for lane in group.lanes}
        known = {name: source for name, source in files.items() if source is not None and in_files(source)}
        return replace(group, learned=self.learned.known, files=known)


def default_shards(spark: Any) -> int:
    return SHARDS_PER_PARTITION * min(state_partitions(spark), MAX_DEFAULT_PARTITIONS)
