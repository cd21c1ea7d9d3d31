"""The session: declarations, queries that come and go, and the data that flow between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from eddyline.adapting.filter_choice import Filtering
from eddyline.adapting.join_choice import memory_of
from eddyline.adapting.planning import plan_query
from eddyline.adapting.readapt import share_memory
from eddyline.core import arguments as check
from eddyline.core.amounts import amount
from eddyline.core.catalog import Catalog, RelationDef, StreamDef
from eddyline.core.errors import EddylineError, JobError, OverloadError
from eddyline.core.overload import WEIGHT
from eddyline.core.time import Clock, TimeKind, from_datetime
from eddyline.cql.steering import AlterQuery, AlterStream, PinQuery, Steer, UndoDecision
from eddyline.engine.alter_stream import Width, change_width, checked_widths
from eddyline.engine.base_session import Declaring
from eddyline.engine.declaration_checks import folder
from eddyline.engine.estimates import Estimator, companion_of
from eddyline.engine.feeds import Feed
from eddyline.engine.input_manager import InputStream, StreamReader
from eddyline.engine.learned import NAME as LEARNED
from eddyline.engine.learned import Learned
from eddyline.engine.left_out import LeftOut, Notices, warn_of_missed
from eddyline.engine.ownership import in_turn
from eddyline.engine.query import Query
from eddyline.engine.relation_changes import TimedRelation
from eddyline.engine.running_query import RunningQuery
from eddyline.engine.side_streams import SideStream
from eddyline.engine.snapshot import Snapshots
from eddyline.engine.steering import named_query
from eddyline.engine.system_streams import SystemStreams
from eddyline.io import durable
from eddyline.io.locking import DirectoryLock
from eddyline.io.resolve import open_source
from eddyline.io.source import Source
from eddyline.plan.choice import BACK, PlannedQuery, exchanged
from eddyline.plan.logical import BoundQuery, RelationScan, StreamScan, streams_of
from eddyline.plan.physical import build
from eddyline.streamon.decision import Decision
from eddyline.synopses.store import Registry


class Session(Declaring[Query]):
    """Runs continuous queries in this process.

    ``strict`` stops at the first malformed row; ``sharing`` lets windows over the same elements share their rows
    (assign ``session.sharing`` to switch it while queries run); ``learned`` is a file, or the directory of a snapshot,
    with what earlier runs learned, where the same queries begin (``save_learned``
    writes it); ``spill`` is a folder for rows that joins under constraints keep outside of memory; ``clock`` is for
    tests.

    >>> session = Session()
    >>> packets = [{"ts": 1, "size": 40}, {"ts": 2, "size": 1500}, {"ts": 5, "size": 900}]
    >>> session.stream("packets", packets, timestamp="ts")
    >>> q = session.query("SELECT Istream(size) FROM packets WHERE size > 500")
    >>> q.to_arrow().to_pylist()
    [{'size': 1500, '_time': 2}, {'size': 900, '_time': 5}]

    Threads may share a session: one is at work in it at a time, and others wait for their turn (``ownership``).
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        strict: bool = False,
        sharing: bool = True,
        base: Path | str | None = None,
        learned: Path | str | None = None,
        spill: Path | str | None = None,
    ) -> None:
        super().__init__(clock=clock, strict=strict, base=base)
        self.learned = Learned(None if learned is None else check.path(learned, "learned"))
        self.inputs: dict[str, InputStream] = {}
        self.feeds: dict[str, Feed] = {}
        self.queries: list[Query] = []
        self.sides: dict[str, SideStream] = {}
        self.system = SystemStreams(self)
        self.warns = True  # that rows were left out; a caller that reports them in another way sets it to False
        self._notices = Notices()
        self._registry = Registry(
            check.flag(sharing, "sharing"), None if spill is None else str(check.path(spill, "spill"))
        )
        self._named: dict[str, Query] = {}
        self._started = 0  # queries, those dropped included
        self._saved: dict[Path, int] = {}  # by directory the last snapshot that is of this session

    # ── declarations ──────────────────────────────────────────────────────────────────────────────────────────────

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
        return query

    def _start(self, bound: BoundQuery, planned: PlannedQuery | None) -> Query:
        planned = planned or plan_query(bound, self.catalog)
        plan = planned.plan
        inputs = {n: self._input_of(n, bound.options) for n in streams_of(plan)}
        epochs = {n.lower(): s.accepted for n, s in inputs.items()}
        filtering = Filtering.of(bound.options, self.clock)
        physical = build(
            planned, self.catalog, self._registry, self._load, epochs, self.clock, filtering.select, filtering.judge
        )
        self._started += 1
        label = bound.name or f"query {self._started}"
        physical.context.log.clock = self.clock
        readers: dict[int, StreamReader] = {}
        for i, node in enumerate(physical.nodes):
            if node.scan is not None:
                name = f"{len(self.queries)}/{i}"
                readers[i] = self._reader(node.scan, name, list(readers.values()), bound.options)
        scheduler = str(bound.options.get("scheduler", "fifo"))
        running = RunningQuery(bound, plan, physical, inputs, readers, self.clock, scheduler)
        if bound.options.get("on_error", "stop") == "invalid":
            physical.context.divert = running.divert
        query = Query(self, label, running)
        for stream in inputs.values():
            stream.logs.append(physical.context.log)
        if (memory := memory_of(bound.options)) is not None:
            share_memory((n.operator for n in physical.nodes if n.operator is not None), memory)
        self.queries.append(query)
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
        """Deregister a query: its operators and its share of the windows are gone; others go on undisturbed."""
        if not any(query is q for q in self.queries):
            name = query.name if isinstance(query, Query) else check.shown(query)
            raise EddylineError(f"{name} is not running in this session.")
        self.queries.remove(query)
        for reader in query.running.readers.values():
            reader.close()
        for stream in query.running.inputs.values():
            stream.logs = [log for log in stream.logs if log is not query.running.physical.context.log]
        self.system.dropped(query)
        for stub in query.running.physical.stubs:
            self._registry.forget(stub)
        # A snapshot finds readers by their query's place, which is what a session that restores it will have.
        for place, other in enumerate(self.queries):
            for node, reader in other.running.readers.items():
                reader.name = f"{place}/{node}"
        for name, side in list(self.sides.items()):
            if side.owner is query.running:
                side.end()
                del self.sides[name]
        if query.companion is not None:
            self.drop(query.companion)
        self._named = {n: q for n, q in self._named.items() if q is not query}
        if query.running.query.name is not None:
            self.catalog.views.pop(query.running.query.name.lower(), None)

    def _reader(
        self, scan: StreamScan | RelationScan, name: str, mine: list[StreamReader], options: Mapping[str, Any]
    ) -> StreamReader:
        stream = self._input_of(scan.stream if isinstance(scan, StreamScan) else scan.relation, options)
        wanted = list(dict.fromkeys(scan.columns))
        if isinstance(scan, StreamScan):
            # Windows that share a store bring all columns that any of them keeps, and sharing may be switched on later.
            everyone = [*mine, *(r for q in self.queries for r in q.running.readers.values())]
            peers = [r for r in everyone if r.stream is stream and r.since == stream.accepted]
            wanted = list(dict.fromkeys([*wanted, *(c for r in peers for c in r.columns)]))
            for r in peers:
                r.widen(wanted)
        reader = stream.reader(wanted, name)
        feed = self.feeds.get(stream.name.lower())
        if feed is not None:
            stamp = stream.definition.timestamp
            more = [c for c in (stamp, getattr(stream.definition, "sign", None)) if c is not None]
            everything = stream.definition.schema.names if isinstance(stream, TimedRelation) else ()
            feed.want([c for c in (*wanted, *more, *everything) if c != WEIGHT])
        return reader

    def _input_of(self, name: str, options: Mapping[str, Any]) -> InputStream:
        found = self.inputs.get(name.lower())
        if found is None:
            found = self.system.input_of(name, options)
        return found if found is not None else self._side(name)

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

    # ── data ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @in_turn
    def push(self, name: str, rows: Any) -> None:
        """Bring rows to a stream: an Arrow batch or table, a pandas frame, or a list of dictionaries."""
        stream = self._pushed(name)
        if stream.guard is not None and stream.full:
            raise OverloadError(
                f"{stream.name!r} holds as much as it may (ON OVERLOAD {stream.guard.spec}), and took no row: bring"
                " rows or heartbeats to the streams that it waits for, and then push these again."
            )
        if isinstance(rows, pa.RecordBatch):
            stream.accept(rows)
        else:
            schema = pa.schema([f for f in stream.definition.schema.to_arrow() if f.name != WEIGHT])
            for batch in open_source(rows, schema=schema).open():
                if batch.invalid:
                    stream.reject([i.row for i in batch.invalid], [i.reason for i in batch.invalid])
                if batch.rows.num_rows:
                    stream.accept(batch.rows)
        self._advance()

    @in_turn
    def heartbeat(self, name: str, time: int | datetime) -> None:
        """Promise that nothing before ``time`` (less the slack) will come any more: an integer in the ticks of the
        stream, or a datetime where its times are timestamps (one without a zone is UTC).

        >>> session = Session()
        >>> session.stream("S", schema=pa.schema({"ts": pa.timestamp("us"), "a": pa.int64()}), timestamp="ts")
        >>> q = session.query("SELECT Istream(a) FROM S")
        >>> session.push("S", [{"ts": datetime(2026, 1, 1, 12), "a": 1}])
        >>> session.heartbeat("S", datetime(2026, 1, 1, 13))
        >>> q.to_arrow()["a"].to_pylist()
        [1]
        """
        stream = self._pushed(name)
        what = "the time of a heartbeat, in ticks (microseconds of a timestamp),"
        if isinstance(time, datetime):
            if stream.definition.time_kind is not TimeKind.TIMESTAMP:
                raise JobError(f"{what} is an integer, because the time of {stream.name!r} is; {time} is a timestamp.")
            time = from_datetime(time)
        stream.heartbeat(check.integer(time, what))
        self._advance()

    def __repr__(self) -> str:
        """
        >>> session = Session()
        >>> session.stream("S", [{"ts": 1, "a": 7}], timestamp="ts")
        >>> q = session.query("SELECT Istream(a) FROM S")
        >>> session
        <Session: S (0 rows); 1 query>
        >>> _ = q.to_arrow(); session
        <Session: S (1 row, ended); 1 query>
        """
        streams = [f"{s.name} ({amount(s.arrived, 'row')}{', ended' * s.finished})" for s in self.inputs.values()]
        constant = [d.name for d in self.catalog.relations.values() if d.constant]
        declared = ", ".join([*streams, *constant]) or "nothing declared"
        return f"<Session: {declared}; {amount(len(self.queries), 'query', 'queries')}>"

    @in_turn
    def tick(self) -> None:
        """Let idle intervals pass: look at the clock."""
        for stream in self.inputs.values():
            stream.tick()
        self._advance()

    @in_turn
    def finish(self, name: str | None = None) -> None:
        """End one stream, or all."""
        for stream in self.inputs.values() if name is None else (self._pushed(name),):
            stream.finish()
        self._advance()
        if all(s.finished for s in self.inputs.values()):
            self._end_system_streams()

    @in_turn
    def advance(self) -> None:
        """Answer what has closed. An error stops its query and is raised when the others have gone on."""
        self._advance()

    def _end_system_streams(self) -> None:
        """After all other answers, whose decisions are the last to be published."""
        if self.system.read:
            self.system.publish(last=True)
            self._advance()

    def _advance(self) -> None:
        errors: list[Exception] = []
        if self.system.read:
            self.system.publish()
        for r in [q.running for q in self.queries]:
            if r.error is None:
                try:
                    r.advance()
                except Exception as e:
                    r.stop(e)
                    errors.append(e)
            # Its side streams are read by queries that were registered later, so they come later in this loop.
            for side in self.sides.values():
                if side.owner is r:
                    side.progress()
        for q in self.queries:
            if q.estimator is not None:
                q.estimator.drain()
        if self.learned.reviewing:
            self.learned.review()
        if errors:
            raise errors[0]
        if self.warns and self._loses:
            self._notices.warn(self.left_out())

    @property
    def _loses(self) -> bool:
        if self.invalid_of_relations or any(
            s.late.count or s.invalid.count or s.shed.count for s in self.inputs.values()
        ):
            return True
        return any(q.running.invalid.count for q in self.queries)

    def left_out(self) -> list[LeftOut]:
        """What streams, relations and queries have turned away so far, those that turned nothing away included."""
        queries = [LeftOut.by(q.name, q.running.invalid) for q in self.queries]
        return [*map(LeftOut.of, self.inputs.values()), *self.invalid_of_relations.values(), *queries]

    @in_turn
    def step(self) -> bool:
        """Pull one batch from the source that is furthest behind; False when all sources are at their end."""
        return self._step()

    def _step(self) -> bool:
        waiting = [f for f in self.feeds.values() if not f.done and f.stream.is_read]
        if not waiting:
            for f in self.feeds.values():
                f.stream.finish()
            self._advance()
            self._end_system_streams()
            return False
        fresh = [f for f in waiting if f.can_begin]
        if len(fresh) > 1:
            with ThreadPoolExecutor(len(fresh)) as pool:
                for f in fresh:
                    f.begin(pool)
        # A stream that is full waits, unless all do: then only rows of the one furthest behind can help.
        able = [f for f in waiting if not f.stream.full] or waiting
        behind = min(able, key=lambda f: f.stream.shown_bound)
        behind.pull()
        self._advance()
        return True

    def run(self, each: Callable[[], None] | None = None) -> None:
        """Read all sources to their end. ``each`` is called after every batch."""
        if each is not None and not callable(each):
            raise JobError(f"run calls a function after every batch, and {check.shown(each)} is none.")
        while self.step():
            if each is not None:
                each()
        if each is not None:
            each()

    @property
    def pulls(self) -> bool:
        """Whether there is a source to read from."""
        return bool(self.feeds)

    # ── steering ──────────────────────────────────────────────────────────────────────────────────────────────────

    @in_turn
    def alter_stream(self, name: str, *, slack: Width | None = None, idle: Width | None = None) -> list[Decision]:
        """Change the slack or the idle interval of a stream: ``ALTER STREAM s SET SLACK 5 SECONDS``. What was closed
        stays closed, and what waits keeps waiting or is answered sooner. Every query that reads the stream gets a
        record; the records are returned."""
        return self._alter_stream(name, {"slack": slack, "idle": idle})

    def _alter_stream(self, name: str, given: Mapping[str, Width | None]) -> list[Decision]:
        stream = self._pushed(name)
        widths = checked_widths(stream.definition, given)
        return [d for what, ticks in widths.items() for d in self._set_width(stream.name, what, ticks)]

    def _set_width(self, name: str, what: str, ticks: int | None, because: str = "the user set it") -> list[Decision]:
        stream = self.inputs[name.lower()]
        decision = change_width(stream, what, ticks, because)
        if decision is None:
            return []
        readers = [q.running for q in self.queries if any(s is stream for s in q.running.inputs.values())]
        made = [r.physical.context.log.record(replace(decision, time=r.reached)) for r in readers]
        self._advance()  # a smaller slack closes instants
        return made

    def _steer(self, statement: Steer) -> list[Decision]:
        if isinstance(statement, AlterStream):
            return self._alter_stream(statement.name, statement.widths)
        steering = named_query(self.queries, statement.name).steering
        match statement:
            case AlterQuery():
                return steering.alter(statement.options)
            case PinQuery():
                return steering.pin(statement.pinned)
            case UndoDecision():
                if statement.shard is not None:
                    raise JobError("queries in one process have no shards: leave IN SHARD out.")
                return steering.undo(statement.number)

    # ── sharing and snapshots ─────────────────────────────────────────────────────────────────────────────────────

    @property
    def sharing(self) -> bool:
        return self._registry.sharing

    @sharing.setter
    @in_turn
    def sharing(self, on: bool) -> None:
        self._registry.switch(check.flag(on, "sharing"))

    @property
    @in_turn
    def store_size(self) -> tuple[int, int]:
        """Rows and bytes in window stores, shared ones counted once."""
        return self._registry.size()

    def snapshot(self, directory: str | Path, extra: Mapping[str, Any] | None = None) -> int:
        """Save all state; returns the snapshot's number. What an earlier snapshot holds is not written again.

        ``extra`` is saved with it and returned by ``restore``. Each session needs a directory of its own."""
        place = folder(directory, "snapshot")
        if not isinstance(extra, Mapping | None) or not all(isinstance(k, str) for k in extra or ()):
            raise JobError(
                f"what is saved with a snapshot is a dictionary with texts as keys, not {check.shown(extra)}."
            )
        try:
            durable.make_folder(place)
        except OSError as e:
            raise EddylineError(f"the directory {str(place)!r} cannot be made: {e.strerror}.") from e
        with DirectoryLock(place, "the directory"):
            return self.save_to(Snapshots(place), extra)

    @in_turn
    def save_learned(self, path: str | Path | None = None) -> None:
        """Save what the queries have learned, for the next run of the same ones: ``ed.Session(learned=…)``. Without a
        path it goes to the file that the session was given."""
        for q in self.queries:
            self.learned.take(q)
        self.learned.save(None if path is None else check.path(path, "save_learned"))

    @in_turn
    def save_to(self, snapshots: Snapshots, extra: Mapping[str, Any] | None = None) -> int:
        """Save all state in a directory that is locked already."""
        for q in self.queries:
            if q.running.error is not None:
                raise EddylineError(f"{q.name} was stopped by an error and cannot be saved; drop it first.")
        place = snapshots.directory.resolve()
        found, mine = snapshots.newest(), self._saved.get(place)
        if mine is not None and found > mine:
            raise EddylineError(
                f"another session has saved snapshot {found} in {str(snapshots.directory)!r} since this one saved"
                f" {mine}; give each session a directory of its own."
            )
        self._saved[place] = number = snapshots.save({"extra": dict(extra or {}), **self.state()})
        for q in self.queries:
            self.learned.take(q)
        if self.learned.known:
            self.learned.save(snapshots.directory / LEARNED, alone=True)
        return number

    def restore(self, directory: str | Path) -> dict[str, Any]:
        """Go on from the newest snapshot. The same streams and queries must have been declared, in the same order."""
        snapshots = Snapshots(folder(directory, "restore"))
        if not snapshots.newest():
            snapshots.load()  # says that there is none, and leaves no lock behind
        with DirectoryLock(snapshots.directory, "the directory", reading=True):
            return self.restore_from(snapshots)

    @in_turn
    def restore_from(self, snapshots: Snapshots) -> dict[str, Any]:
        """Go on from the newest snapshot in a directory that is locked already."""
        tree = snapshots.load()
        texts = [q.running.query.text for q in self.queries]
        saved = [q["text"] for q in tree["queries"]]
        if texts != saved or set(tree["inputs"]) != set(self.inputs) or set(tree["sides"]) != set(self.sides):
            raise EddylineError(
                f"the snapshot in {str(snapshots.directory)!r} was made by other streams or queries; declare the same"
                " ones in the same order, or start from an empty directory. It holds:"
                f" {'; '.join(saved) or 'no query'}."
            )
        self._check_operators(tree, snapshots.directory)
        self.load(tree)
        self._saved[snapshots.directory.resolve()] = snapshots.newest()
        return dict(tree["extra"])

    def _check_operators(self, tree: Mapping[str, Any], directory: Path) -> None:
        """Refuse to load the state of one operator into another."""
        for q, saved in zip(self.queries, tree["queries"], strict=True):
            # A snapshot that says nothing of its operators was written before they could be chosen.
            for what in exchanged(saved.get("chosen", q.running.chosen()), q.running.chosen()):
                raise EddylineError(
                    f"the snapshot in {str(directory)!r} cannot be taken over by {q.name}, because {what}: {BACK}, or"
                    " start from an empty directory."
                )

    def state(self) -> dict[str, Any]:
        """All that ``load`` needs, as a tree that ``state_codec`` can take apart."""
        return {
            "inputs": {n: s.state() for n, s in self.inputs.items()},
            "feeds": {n: f.state() for n, f in self.feeds.items()},
            "sides": {n: {"stream": s.stream.state(), "reached": s.reached} for n, s in self.sides.items()},
            "estimates": [None if q.estimator is None else q.estimator.state() for q in self.queries],
            "system": self.system.state(),
            "queries": [{**q.running.state(), "steering": q.steering.state()} for q in self.queries],
        }

    def load(self, tree: Mapping[str, Any]) -> None:
        """Go on where a session with the same streams and queries, in the same order, stood."""
        for n, state in tree["inputs"].items():
            self.inputs[n].load(state)
        for n, state in tree["feeds"].items():
            self.feeds[n].load(state)
        for n, state in tree["sides"].items():
            self.sides[n].stream.load(state["stream"])
            self.sides[n].reached = state["reached"]
        self.system.load(tree.get("system", {}))  # a snapshot of an earlier version has none
        for q, state in zip(self.queries, tree["queries"], strict=True):
            if "steering" in state:  # a snapshot of an earlier version has none
                q.steering.load(state["steering"])
            q.running.load(state)
        for q, rows in zip(self.queries, tree.get("estimates", ()), strict=False):
            if q.estimator is not None and rows is not None:
                q.estimator.load(rows)
        self._registry.switch(self._registry.sharing)

    # ── helpers ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _add_input(self, definition: StreamDef | RelationDef, opened: Source | None) -> None:
        make = InputStream if isinstance(definition, StreamDef) else TimedRelation
        stream = make(definition, self.clock, strict=self._is_strict(definition.options))  # type: ignore[arg-type]
        key = stream.name.lower()
        self.inputs[key] = stream
        if opened is not None:
            guard, self.feeds[key] = stream.guard, Feed(opened, stream)
            if guard is not None and guard.spec.unit == "rows":
                # What is read at once is half of what may be held: a file can wait, and is no reason to shed rows.
                feed = self.feeds[key]
                feed.batch_rows = min(feed.batch_rows, max(1, guard.spec.limit // 2))

    def _pushed(self, name: str) -> InputStream:
        stream = self.inputs.get(check.text(name, "the name of a stream", empty=True).lower())
        if stream is None:
            raise JobError(f"there is no stream {name!r}.{self.catalog.suggest(name)}")
        return stream
