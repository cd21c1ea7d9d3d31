"""Registering and removing the queries of a session, and the inputs that they read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from eddyline.adapting.join_choice import memory_of
from eddyline.core import arguments as check
from eddyline.core.catalog import Catalog, RelationDef, StreamDef
from eddyline.core.errors import EddylineError, JobError
from eddyline.core.overload import WEIGHT
from eddyline.core.time import Clock
from eddyline.engine.base_session import Declaring
from eddyline.engine.estimates import Estimator, companion_of
from eddyline.engine.feeds import Feed
from eddyline.engine.input_manager import InputStream
from eddyline.engine.learned import Learned
from eddyline.engine.ownership import in_turn
from eddyline.engine.query import Query
from eddyline.engine.relation_changes import TimedRelation
from eddyline.engine.row_places import place_of
from eddyline.engine.row_warnings import Notices, warn_of_missed
from eddyline.engine.running_graph import RunningGraph
from eddyline.engine.running_query import RunningQuery
from eddyline.engine.session_scheduling import Scheduled
from eddyline.engine.side_streams import SideStream
from eddyline.engine.system_streams import SystemStreams
from eddyline.io.source import Source
from eddyline.plan.choice import PlannedQuery
from eddyline.plan.logical import BoundQuery
from eddyline.plan.traverse import streams_of
from eddyline.streamon.decision import Decision
from eddyline.synopses.spill_folder import check_directory


class Registering(Scheduled, Declaring[Query]):
    """Starts queries on the session's graph and drops them; finds the input of each stream that they name."""

    def __init__(
        self,
        *,
        clock: Clock | None,
        strict: bool,
        sharing: bool,
        scheduler: str | None,
        base: Path | str | None,
        learned: Path | str | None,
        spill: Path | str | None,
        memory: str | int | None,
    ) -> None:
        super().__init__(clock=clock, strict=strict, base=base)
        self.memory = None if memory is None else memory_of({"memory": memory})  # bytes for a query that says nothing
        self.learned = Learned(None if learned is None else check.path(learned, "learned"))
        self.inputs: dict[str, InputStream] = {}
        self.feeds: dict[str, Feed] = {}
        self.queries: list[Query] = []
        self.sides: dict[str, SideStream] = {}
        self.system = SystemStreams(self)
        self.warns = True  # that rows were left out; a caller that reports them in another way sets it to False
        self._notices = Notices()
        self._graph = RunningGraph(
            self.catalog, self.clock, self._load, self._want, sharing=check.flag(sharing, "sharing"),
            scheduler=None if scheduler is None else check.text(scheduler, "the scheduler"),
            spill=_spill_directory(spill),
        )  # fmt: skip
        self._graph.rebuilt = self._steer_again
        self._steered: dict[int, Mapping[str, Any]] = {}  # what was altered, of queries that are being loaded
        self._named: dict[str, Query] = {}
        self._diverting: list[RunningQuery] = []  # those that put failing rows aside
        self._estimators: list[Estimator] = []
        self._started = 0  # queries, those dropped included

    @abstractmethod
    def _step(self) -> bool:
        """Pull one batch from a source; False when all are at their end."""

    @abstractmethod
    def _set_width(self, name: str, what: str, ticks: int | None, because: str = "the user set it") -> list[Decision]:
        """Change the slack or the idle interval of a stream, for the reason that is given."""

    # ── inputs ────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def pulls(self) -> bool:
        """Whether there is a source to read from."""
        return bool(self.feeds)

    def _add_input(self, definition: StreamDef | RelationDef, opened: Source | None) -> None:
        make = InputStream if isinstance(definition, StreamDef) else TimedRelation
        stream = make(definition, self.clock, strict=self._is_strict(definition.options))  # type: ignore[arg-type]
        key = stream.name.lower()
        self.inputs[key] = stream
        if opened is not None:
            guard, self.feeds[key] = stream.guard, Feed(opened, stream)
            stream.locate = self.feeds[key].place_among
            if guard is not None and guard.spec.unit == "rows":
                # What is read at once is half of what may be held: a file can wait, and is no reason to shed rows.
                feed = self.feeds[key]
                feed.batch_rows = min(feed.batch_rows, max(1, guard.spec.limit // 2))

    def _pushed(self, name: str) -> InputStream:
        stream = self.inputs.get(check.text(name, "the name of a stream", empty=True).lower())
        if stream is None:
            raise JobError(f"there is no stream {name!r}.{self.catalog.suggest(name)}")
        return stream

    def adopt(self, catalog: Catalog, tables: Mapping[str, pa.Table]) -> None:
        """Take declarations as they are, for streams whose rows are pushed and relations whose rows are at hand: a
        shard of a distributed query is such a session."""
        for stream in catalog.streams.values():
            self.catalog.add("streams", stream)
            self._add_input(stream, None)
        for relation in catalog.relations.values():
            self.catalog.add("relations", relation)
            if not relation.constant:
                self._add_input(relation, None)
        self.relations |= {n.lower(): t for n, t in tables.items()}
        self.catalog.functions |= catalog.functions
        self.catalog.aggregates |= catalog.aggregates
        self.warns = False  # warnings of a worker are not shown; its account says what was left out

    # ── queries ───────────────────────────────────────────────────────────────────────────────────────────────────

    @in_turn
    def register_planned(self, planned: PlannedQuery) -> Query:
        """Start a query that was planned elsewhere, with the operators that were chosen there."""
        return self._add_query(planned.query, planned)

    def _register(self, bound: BoundQuery) -> Query:
        own = "memory" in bound.options or "memory" in str(bound.options.get("caches", ""))
        if self.memory is not None and not own:
            bound = replace(bound, options={**bound.options, "memory": self.memory})
        self._check_options(bound)
        return self._add_query(bound, None)

    def _add_query(self, bound: BoundQuery, planned: PlannedQuery | None) -> Query:
        if bound.name is None:
            return self._estimated(bound, self._start(bound, planned))
        self.catalog.add("views", bound, bound.name)
        try:
            return self._estimated(bound, self._start(bound, planned))
        except BaseException:
            del self.catalog.views[bound.name.lower()]  # what could not start has no name either
            raise

    def _estimated(self, bound: BoundQuery, query: Query) -> Query:
        """The query, with a companion for its report where a stream of it samples under overload."""
        companion = companion_of(bound)
        if companion is not None:
            query.companion = self._start(companion.query, None)
            query.estimator = Estimator(companion, query.companion.running)
            self._estimators.append(query.estimator)
        return query

    def _start(self, bound: BoundQuery, planned: PlannedQuery | None) -> Query:
        label = bound.name or f"query {self._started + 1}"
        try:
            read = streams_of(bound.plan if planned is None else planned.plan)
            inputs = {n: self._input_of(n, bound.options) for n in read}
            running = self._graph.start(bound, label, inputs, planned)
        except BaseException:
            self._leave_unread_sides()
            raise
        running.context.log.clock = self.clock
        if "scheduler" in bound.options:
            self._graph.schedule(str(bound.options["scheduler"]))
        self._started += 1
        running.context.locate = self._locate
        query = Query(self, label, running)
        for stream in inputs.values():
            stream.logs.append(running.physical.context.log)
        self._graph.limit_memory(running, memory_of(bound.options))
        self.queries.append(query)
        if running.context.divert is not None:
            self._diverting.append(running)
        self.system.registered(query)
        if self.warns:
            warn_of_missed(label, [s.name for n, s in inputs.items() if s.finished and n.lower() in self.feeds])
        if bound.name is not None:
            self._named[bound.name.lower()] = query
        self.learned.start(running)
        if bound.options.get("pinned", False):
            query.steering.pin(True)
        return query

    @in_turn
    def drop(self, query: Query) -> None:
        """Deregister a query: its operators and its share of the windows are removed; others go on."""
        if not any(query is q for q in self.queries):
            name = query.name if isinstance(query, Query) else check.shown(query)
            raise EddylineError(f"{name} is not running in this session.")
        self._drop(query)
        if query.companion is not None:
            self._drop(query.companion)

    @property
    def registered(self) -> list[Query]:
        """The queries that the user registered, without the companions that run for their reports."""
        beside = {id(q.companion) for q in self.queries if q.companion is not None}
        return [q for q in self.queries if id(q) not in beside]

    def _drop(self, query: Query) -> None:
        self.queries.remove(query)
        self._diverting = [r for r in self._diverting if r is not query.running]
        self._estimators = [e for e in self._estimators if e is not query.estimator]
        self._graph.stop(query.running)
        for stream in query.running.inputs.values():
            stream.logs = [log for log in stream.logs if log is not query.running.context.log]
        self.system.dropped(query)
        for name, side in list(self.sides.items()):
            if side.owner is query.running:
                side.end()
                del self.sides[name]
        self._leave_unread_sides()
        self._named = {n: q for n, q in self._named.items() if q is not query}
        if query.running.query.name is not None:
            self.catalog.views.pop(query.running.query.name.lower(), None)

    def _leave_unread_sides(self) -> None:
        """A side stream is there as long as a query reads it, so that a snapshot has those of its queries alone."""
        read = {id(s) for q in self.queries for s in q.running.inputs.values()}
        for name, side in list(self.sides.items()):
            if id(side.stream) not in read:
                side.leave()
                del self.sides[name]

    def _steer_again(self, running: RunningQuery, fresh: bool) -> None:
        """Operators that are built anew get what was altered since their query was declared, or before it was saved;
        those that will not get the state of others (``fresh``) begin with what was learned in earlier runs."""
        if fresh:
            self.learned.start(running)
        for q in self.queries:
            if q.running is running:
                saved = self._steered.pop(id(running), None) or q.steering.state()
                q.steering.options, q.steering.pinned = dict(running.query.options), False
                self._graph.limit_memory(running, memory_of(running.query.options))
                q.steering.load(saved)

    def _want(self, stream: InputStream, columns: Sequence[str]) -> None:
        """A source is asked for the columns that are read of its stream."""
        feed = self.feeds.get(stream.name.lower())
        if feed is not None:
            stamp = stream.definition.timestamp
            more = [c for c in (stamp, getattr(stream.definition, "sign", None)) if c is not None]
            everything = stream.definition.schema.names if isinstance(stream, TimedRelation) else ()
            key = () if stream.keys is None else stream.keys.columns
            feed.want([c for c in (*columns, *more, *everything, *key) if c != WEIGHT])

    def _input_of(self, name: str, options: Mapping[str, Any]) -> InputStream:
        found = self.inputs.get(name.lower())
        if found is None:
            found = self.system.input_of(name, options)
        return found if found is not None else self._side(name)

    def _locate(self, name: str, values: Mapping[str, Any], time: int) -> str | None:
        feed = self.feeds.get(name.lower())
        stamp = None if feed is None else feed.stream.definition.timestamp
        return None if feed is None else place_of(feed.source, stamp, values, time, feed.rows)

    def _side(self, name: str) -> InputStream:
        """``late(q)``, ``invalid(q)`` or ``shed(q)``, made when first asked for."""
        key = name.lower()
        if key not in self.sides:
            which, _, rest = key.partition("(")
            owner = self._named.get(rest.rstrip(")"))
            if owner is None:
                raise JobError(f"{name} needs a query of that name that is running in this session.")
            self.sides[key] = SideStream(name, which, owner.running, self.clock)
        return self.sides[key].stream


def _spill_directory(spill: Path | str | None) -> str | None:
    if spill is None:
        return None
    directory = str(check.path(spill, "spill"))
    check_directory(directory)
    return directory
