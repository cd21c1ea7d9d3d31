"""The session: declarations, queries that come and go, and the data that flow between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from eddyline.adapting.join_choice import memory_of
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
from eddyline.engine.input_manager import InputStream
from eddyline.engine.learned import NAME as LEARNED
from eddyline.engine.learned import Learned
from eddyline.engine.left_out import LeftOut, Notices, warn_of_missed
from eddyline.engine.ownership import in_turn
from eddyline.engine.query import Query
from eddyline.engine.relation_changes import TimedRelation
from eddyline.engine.row_places import place_of
from eddyline.engine.running_graph import RunningGraph
from eddyline.engine.running_query import RunningQuery
from eddyline.engine.session_scheduling import Scheduled
from eddyline.engine.side_streams import SideStream
from eddyline.engine.snapshot import Snapshots
from eddyline.engine.steering import named_query
from eddyline.engine.system_streams import SystemStreams
from eddyline.io import durable
from eddyline.io.locking import DirectoryLock
from eddyline.io.nested import flat_batch
from eddyline.io.resolve import open_source
from eddyline.io.source import Source
from eddyline.plan.choice import BACK, PlannedQuery
from eddyline.plan.logical import BoundQuery, streams_of
from eddyline.streamon.decision import Decision


class Session(Scheduled, Declaring[Query]):
    """Runs continuous queries in this process.

    ``strict`` stops at the first malformed row; ``sharing`` lets queries share the operators of equal sub-plans and the
    rows of windows over the same elements (assign ``session.sharing`` to switch it while queries run); ``scheduler``
    names the policy that chooses which operator runs next (by default ``fifo``, and ``chain`` under a budget);
    ``learned`` is a file, or the directory of a snapshot, with what earlier runs learned, where the same queries begin
    (``save_learned`` writes it); ``spill`` is a folder for rows that joins under constraints keep outside of memory;
    ``clock`` is for tests.

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
        scheduler: str | None = None,
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
        self._graph = RunningGraph(
            self.catalog, self.clock, self._load, self._want, sharing=check.flag(sharing, "sharing"),
            scheduler=None if scheduler is None else check.text(scheduler, "the scheduler"),
            spill=None if spill is None else str(check.path(spill, "spill")),
        )  # fmt: skip
        self._graph.rebuilt = self._steer_again
        self._steered: dict[int, Mapping[str, Any]] = {}  # what was altered, of queries that are being loaded
        self._named: dict[str, Query] = {}
        self._diverting: list[RunningQuery] = []  # those that put failing rows aside
        self._estimators: list[Estimator] = []
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
            self._estimators.append(query.estimator)
        return query

    def _start(self, bound: BoundQuery, planned: PlannedQuery | None) -> Query:
        inputs = {
            n: self._input_of(n, bound.options) for n in streams_of(bound.plan if planned is None else planned.plan)
        }
        label = bound.name or f"query {self._started + 1}"
        running = self._graph.start(bound, label, inputs, planned)
        physical = running.physical
        running.context.log.clock = self.clock
        if "scheduler" in bound.options:
            self._graph.schedule(str(bound.options["scheduler"]))
        self._started += 1
        running.context.locate = self._locate
        query = Query(self, label, running)
        for stream in inputs.values():
            stream.logs.append(physical.context.log)
        if (memory := memory_of(bound.options)) is not None:
            share_memory((n.operator for n in physical.nodes if n.operator is not None), memory)
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
        """Deregister a query: its operators and its share of the windows are gone; others go on undisturbed."""
        if not any(query is q for q in self.queries):
            name = query.name if isinstance(query, Query) else check.shown(query)
            raise EddylineError(f"{name} is not running in this session.")
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
        if query.companion is not None:
            self.drop(query.companion)
        self._named = {n: q for n, q in self._named.items() if q is not query}
        if query.running.query.name is not None:
            self.catalog.views.pop(query.running.query.name.lower(), None)

    def _steer_again(self, running: RunningQuery, fresh: bool) -> None:
        """Operators that are built anew get what was altered since their query was declared, or before it was saved;
        those that will not get the state of others (``fresh``) begin with what was learned in earlier runs."""
        if fresh:
            self.learned.start(running)
        for q in self.queries:
            if q.running is running:
                saved = self._steered.pop(id(running), None) or q.steering.state()
                q.steering.options, q.steering.pinned = dict(running.query.options), False
                if (memory := memory_of(running.query.options)) is not None:
                    share_memory((n.operator for n in running.physical.nodes if n.operator is not None), memory)
                q.steering.load(saved)

    def _want(self, stream: InputStream, columns: Sequence[str]) -> None:
        """A source is asked for the columns that are read of its stream."""
        feed = self.feeds.get(stream.name.lower())
        if feed is not None:
            stamp = stream.definition.timestamp
            more = [c for c in (stamp, getattr(stream.definition, "sign", None)) if c is not None]
            everything = stream.definition.schema.names if isinstance(stream, TimedRelation) else ()
            feed.want([c for c in (*columns, *more, *everything) if c != WEIGHT])

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

    # ── data ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @in_turn
    def push(self, name: str, rows: Any) -> None:
        """Bring rows to a stream: an Arrow batch or table, a pandas frame, or a list of dictionaries.

        Where a queue that the stream fills is full, operators work first, and the caller waits for them. Rows that wait
        for another stream wait in their queue, whatever its bound: only the other stream's rows can help them."""
        stream = self._pushed(name)
        if stream.guard is not None and stream.full:
            raise OverloadError(
                f"{stream.name!r} holds as much as it may (ON OVERLOAD {stream.guard.spec}), and took no row: bring"
                " rows or heartbeats to the streams that it waits for, and then push these again."
            )
        if self._graph.is_full(stream):
            self._advance(drain=True)
        if isinstance(rows, pa.RecordBatch):
            stream.accept(flat_batch(rows))
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

    def _advance(self, drain: bool = False) -> None:
        drain = drain or self._graph.budget is None or all(s.finished for s in self.inputs.values())
        errors: list[Exception] = []
        if self.system.read:
            self.system.publish()
        while True:
            errors += [error for _, error in self._graph.advance(drain)]
            # What a query turns away may close instants of those that read it.
            for side in self.sides.values():
                side.progress()
            if not self.sides or not self._graph.can_advance:
                break
        for estimator in self._estimators:
            estimator.drain()
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
        return any(r.invalid.count for r in self._diverting)

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
        able = [f for f in waiting if not (f.stream.full or self._graph.is_full(f.stream))]
        if not able:  # the operators have work enough
            self._advance()
            if self._graph.ran:
                return True
            able = waiting  # they wait for rows that have not been read: those of the one furthest behind can help
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
        """Whether queries share the operators of equal sub-plans, and windows their rows."""
        return self._graph.sharing

    @sharing.setter
    @in_turn
    def sharing(self, on: bool) -> None:
        self._graph.share(check.flag(on, "sharing"))

    @property
    @in_turn
    def store_size(self) -> tuple[int, int]:
        """Rows and bytes in window stores, shared ones counted once."""
        return self._graph.registry.size()

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
        for q, saved, place in zip(self.queries, tree["queries"], tree["graph"]["queries"], strict=True):
            for what in self._graph.exchanged(q.running, place, saved["chosen"]):
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
            "graph": self._graph.state([q.running for q in self.queries]),
        }

    def load(self, tree: Mapping[str, Any]) -> None:
        """Go on where a session with the same streams and queries, in the same order, stood."""
        running = [q.running for q in self.queries]
        self._steered = {id(q.running): s["steering"] for q, s in zip(self.queries, tree["queries"], strict=True)}
        self._graph.load(running, tree["graph"], self._input_of)
        for n, state in tree["inputs"].items():
            self.inputs[n].load(state)
        for n, state in tree["feeds"].items():
            self.feeds[n].load(state)
        for n, state in tree["sides"].items():
            self.sides[n].stream.load(state["stream"])
            self.sides[n].reached = state["reached"]
        self.system.load(tree.get("system", {}))  # a snapshot of an earlier version has none
        for q, state in zip(self.queries, tree["queries"], strict=True):
            q.running.load(state)
        for q, rows in zip(self.queries, tree.get("estimates", ()), strict=False):
            if q.estimator is not None and rows is not None:
                q.estimator.load(rows)

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
