"""The session: declarations, queries that come and go, and the data that flow between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from eddyline.core.catalog import AggregateDef, Catalog, FunctionDef, RelationDef, StreamDef
from eddyline.core.errors import EddylineError, JobError
from eddyline.core.schema import Schema
from eddyline.core.time import Clock, SystemClock, TimeKind
from eddyline.cql import bind
from eddyline.cql.job import CreateRelation, CreateStream, CreateView, QueryStatement, Statement, parse_job
from eddyline.cql.options import check_options
from eddyline.io.resolve import OPTIONS as SOURCE_OPTIONS
from eddyline.io.resolve import open_source
from eddyline.io.source import Source, whole
from eddyline.plan.logical import BoundQuery, RelationScan, StreamScan, streams_of
from eddyline.plan.physical import build
from eddyline.plan.rules import optimize
from eddyline.runtime.declarations import column_named, data_type, duration, placed, time_kind
from eddyline.runtime.feeds import Feed
from eddyline.runtime.inline.input_manager import InputStream, StreamReader
from eddyline.runtime.inline.relation_changes import TimedRelation, latest
from eddyline.runtime.inline.scheduler import SCHEDULERS
from eddyline.runtime.query import Query
from eddyline.runtime.running import RunningQuery
from eddyline.runtime.side_streams import SideStream
from eddyline.runtime.snapshot import Snapshots
from eddyline.synopses.store import Registry

OPTIONS = ("on_error", "scheduler")


class Session:
    """Runs continuous queries in this process.

    ``strict`` stops at the first malformed row; ``sharing`` lets windows over the same elements share their rows
    (assign ``session.sharing`` to switch it while queries run); ``clock`` is for tests.

    >>> session = Session()
    >>> packets = [{"ts": 1, "size": 40}, {"ts": 2, "size": 1500}, {"ts": 5, "size": 900}]
    >>> session.stream("packets", packets, timestamp="ts")
    >>> q = session.query("SELECT Istream(size) FROM packets WHERE size > 500")
    >>> q.to_arrow().to_pylist()
    [{'size': 1500, '_time': 2}, {'size': 900, '_time': 5}]
    """

    def __init__(
        self,
        spark: Any = None,
        *,
        clock: Clock | None = None,
        strict: bool = False,
        sharing: bool = True,
        base: Path | str | None = None,
    ) -> None:
        if spark is not None:
            raise EddylineError(
                "this version runs queries in one process only; call ed.Session() without a SparkSession."
            )
        self.catalog = Catalog()
        self.clock = clock or SystemClock()
        self.strict = strict
        self.base = Path(base) if base is not None else None
        self.inputs: dict[str, InputStream] = {}
        self.feeds: dict[str, Feed] = {}
        self.relations: dict[str, pa.Table] = {}
        self.queries: list[Query] = []
        self.sides: dict[str, SideStream] = {}
        self.invalid_relation_rows = 0  # malformed rows of constant relations
        self._sources: dict[str, Source] = {}
        self._registry = Registry(sharing)
        self._named: dict[str, Query] = {}
        self._started = 0  # queries, those dropped included

    # ── declarations ──────────────────────────────────────────────────────────────────────────────────────────────

    def stream(
        self,
        name: str,
        source: Any = None,
        timestamp: str | None = None,
        slack: int | float | str | timedelta = 0,
        idle: int | float | str | timedelta | None = None,
        schema: pa.Schema | None = None,
        **options: Any,
    ) -> None:
        """Declare a stream: a path, glob, directory, Arrow table or reader, pandas frame, iterable of rows or batches;
        or, without a source, a ``schema`` for rows that ``push`` will bring.

        ``slack`` is how far an element may lie behind the largest timestamp before it (a number counts ticks of an
        integer time, seconds of a timestamp; or ``'5 seconds'``): larger waits longer and loses less. ``idle`` is the
        silence after which the stream no longer holds others back.
        """
        opened, found = self._open(name, source, schema, options, timestamp)
        stamp = None if timestamp is None else column_named(name, found, timestamp)
        kind = time_kind(name, found, stamp)
        wait = None if idle is None else duration(idle, TimeKind.TIMESTAMP, "idle")
        definition = StreamDef(name, found, kind, stamp, duration(slack, kind, "slack"), wait, source, options)
        self.catalog.add("streams", definition)
        self._input(InputStream(definition, self.clock, strict=self._is_strict(options)), opened)

    def relation(
        self,
        name: str,
        source: Any = None,
        timestamp: str | None = None,
        key: Sequence[str] = (),
        sign: str | None = None,
        schema: pa.Schema | None = None,
        **options: Any,
    ) -> None:
        """Declare a relation: constant, or with ``timestamp`` one whose elements insert, replace by ``key``, or insert
        and delete by ``sign``."""
        opened, found = self._open(name, source, schema, options, timestamp)
        stamp = None if timestamp is None else column_named(name, found, timestamp)
        kind = None if stamp is None else time_kind(name, found, stamp)
        keys = tuple(column_named(name, found, c) for c in key)
        mark = None if sign is None else column_named(name, found, sign)
        if stamp is None and mark is not None:
            raise JobError(f"the sign {mark!r} of {name!r} says what changes, so TIMESTAMP BY must say when.")
        if stamp is None and opened is None:
            raise JobError(f"the relation {name!r} is constant and needs a source.")
        definition = RelationDef(name, found, kind, stamp, keys, mark, source, options)
        self.catalog.add("relations", definition)
        if stamp is not None:
            self._input(TimedRelation(definition, self.clock, strict=self._is_strict(options)), opened)
        elif opened is not None:
            self._sources[name.lower()] = opened

    def view(self, name: str, text: str) -> None:
        """Give a query a name that other queries can read."""
        self.catalog.add("views", bind(text, self.catalog), name)

    def function(
        self,
        name: str,
        function: Callable[..., Any],
        returns: str | pa.DataType = "boolean",
        arguments: Sequence[str | pa.DataType] | None = None,
        kind: str = "row",
        cost: float | None = None,
        deterministic: bool = True,
    ) -> None:
        """Make a Python function callable from queries. ``kind``: ``row`` gets Python values, ``pandas`` Series,
        ``arrow`` Arrow arrays."""
        if kind not in ("row", "pandas", "arrow"):
            raise JobError(f"the kind of a function is 'row', 'pandas' or 'arrow', not {kind!r}.")
        if not callable(function):
            raise JobError(f"the function {name!r} must be callable, and a {type(function).__name__} is not.")
        args = None if arguments is None else tuple(data_type(a) for a in arguments)
        self.catalog.functions[name.lower()] = FunctionDef(
            name, function, data_type(returns), args, kind, cost, deterministic  # type: ignore[arg-type]
        )  # fmt: skip

    def aggregate(self, name: str, function: Callable[[list[Any]], Any], returns: str | pa.DataType = "double") -> None:
        """Make a Python function of a group's values callable as an aggregate."""
        self.catalog.aggregates[name.lower()] = AggregateDef(name, function, data_type(returns))

    def execute(self, job: str) -> list[Query]:
        """Run the statements of a job text: declarations take effect, queries are registered and returned."""
        return [q for s in parse_job(job) if (q := self.declare(s)) is not None]

    def declare(self, statement: Statement) -> Query | None:
        match statement:
            case CreateStream() | CreateRelation():
                try:
                    self._create(statement)
                except JobError as e:
                    raise placed(e, statement, statement.source) from e
                return None
            case CreateView():
                try:
                    self.catalog.add("views", bind(statement, self.catalog), statement.name)
                except JobError as e:
                    raise placed(e, statement) from e
                return None
            case QueryStatement():
                bound = bind(statement, self.catalog)
                try:
                    return self._register(bound)
                except JobError as e:
                    raise placed(e, statement) from e

    def _create(self, s: CreateStream | CreateRelation) -> None:
        schema = None if s.columns is None else pa.schema(list(s.columns))
        if isinstance(s, CreateStream):
            slack: Any = 0 if s.slack is None else s.slack
            idle: Any = s.idle
            self.stream(s.name, s.source, s.timestamp, slack, idle, schema, **s.options)
        else:
            self.relation(s.name, s.source, s.timestamp, s.key, s.sign, schema, **s.options)

    # ── queries ───────────────────────────────────────────────────────────────────────────────────────────────────

    def query(self, text: str, name: str | None = None, **options: Any) -> Query:
        """Register a continuous query; it sees the elements that come from now on."""
        bound = bind(text, self.catalog)
        merged = {**bound.options, **options}
        return self._register(
            BoundQuery(name or bound.name, bound.plan, bound.time_kind, bound.text, bound.target, merged)
        )

    def _register(self, bound: BoundQuery) -> Query:
        self._check_options(bound)
        if bound.name is None:
            return self._start(bound)
        self.catalog.add("views", bound, bound.name)
        try:
            return self._start(bound)
        except BaseException:
            del self.catalog.views[bound.name.lower()]  # what could not start has no name either
            raise

    def _start(self, bound: BoundQuery) -> Query:
        plan = optimize(bound.plan, diverting=bound.options.get("on_error") == "invalid")
        inputs = {n: self._input_of(n) for n in streams_of(plan)}
        epochs = {n.lower(): s.accepted for n, s in inputs.items()}
        physical = build(bound, plan, self.catalog, self._registry, self._load, epochs)
        self._started += 1
        label = bound.name or f"query {self._started}"
        readers: dict[int, StreamReader] = {}
        for i, node in enumerate(physical.nodes):
            if node.scan is not None:
                readers[i] = self._reader(node.scan, f"{len(self.queries)}/{i}", list(readers.values()))
        scheduler = str(bound.options.get("scheduler", "fifo"))
        running = RunningQuery(bound, plan, physical, inputs, readers, self.clock, scheduler)
        if bound.options.get("on_error", "stop") == "invalid":
            physical.context.divert = running.divert
        query = Query(self, label, running)
        self.queries.append(query)
        if bound.name is not None:
            self._named[bound.name.lower()] = query
        return query

    def _check_options(self, bound: BoundQuery) -> None:
        check_options(bound.options, OPTIONS)
        for option, value in bound.options.items():
            known = {"on_error": ("stop", "invalid"), "scheduler": tuple(SCHEDULERS)}.get(option)
            if known is not None and value not in known:
                raise JobError(f"the option {option!r} is one of {', '.join(known)}, not {value!r}.")

    def drop(self, query: Query) -> None:
        """Deregister a query: its operators and its share of the windows are gone; others go on undisturbed."""
        if query not in self.queries:
            raise EddylineError(f"{query.name} is not running in this session.")
        self.queries.remove(query)
        for reader in query.running.readers.values():
            reader.close()
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
        self._named = {n: q for n, q in self._named.items() if q is not query}
        if query.running.query.name is not None:
            self.catalog.views.pop(query.running.query.name.lower(), None)

    def _reader(self, scan: StreamScan | RelationScan, name: str, mine: list[StreamReader]) -> StreamReader:
        stream = self._input_of(scan.stream if isinstance(scan, StreamScan) else scan.relation)
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
            feed.want([*wanted, *more, *everything])
        return reader

    def _input_of(self, name: str) -> InputStream:
        found = self.inputs.get(name.lower())
        return found if found is not None else self._side(name)

    def _side(self, name: str) -> InputStream:
        """``late(q)`` or ``invalid(q)``, made when first asked for."""
        key = name.lower()
        if key not in self.sides:
            which, _, rest = key.partition("(")
            owner = self._named.get(rest.rstrip(")"))
            if owner is None:
                raise JobError(f"{name} needs a query of that name that is running in this session.")
            self.sides[key] = SideStream(name, which, owner.running, self.clock)
        return self.sides[key].stream

    # ── data ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def push(self, name: str, rows: Any) -> None:
        """Bring rows to a stream: an Arrow batch or table, a pandas frame, or a list of dictionaries."""
        stream = self._pushed(name)
        if isinstance(rows, pa.RecordBatch):
            stream.accept(rows)
        else:
            for batch in open_source(rows, schema=stream.definition.schema.to_arrow()).open():
                if batch.invalid:
                    stream.reject([i.row for i in batch.invalid], [i.reason for i in batch.invalid])
                if batch.rows.num_rows:
                    stream.accept(batch.rows)
        self.advance()

    def heartbeat(self, name: str, time: int) -> None:
        """Promise that nothing before ``time`` (in ticks, less the slack) will come any more."""
        self._pushed(name).heartbeat(time)
        self.advance()

    def tick(self) -> None:
        """Let idle intervals pass: look at the clock."""
        for stream in self.inputs.values():
            stream.tick()
        self.advance()

    def finish(self, name: str | None = None) -> None:
        """End one stream, or all."""
        for stream in self.inputs.values() if name is None else (self._pushed(name),):
            stream.finish()
        self.advance()

    def advance(self) -> None:
        """Answer what has closed. An error stops its query and is raised when the others have gone on."""
        errors: list[Exception] = []
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
        if errors:
            raise errors[0]

    def step(self) -> bool:
        """Pull one batch from the source that is furthest behind; False when all sources are at their end."""
        waiting = [f for f in self.feeds.values() if not f.done and f.stream.is_read]
        if not waiting:
            for f in self.feeds.values():
                f.stream.finish()
            self.advance()
            return False
        fresh = [f for f in waiting if f.can_begin]
        if len(fresh) > 1:
            with ThreadPoolExecutor(len(fresh)) as pool:
                for f in fresh:
                    f.begin(pool)
        behind = min(waiting, key=lambda f: f.stream.shown_bound)
        behind.pull()
        self.advance()
        return True

    def run(self, each: Callable[[], None] | None = None) -> None:
        """Read all sources to their end. ``each`` is called after every batch."""
        while self.step():
            if each is not None:
                each()
        if each is not None:
            each()

    @property
    def pulls(self) -> bool:
        """Whether there is a source to read from."""
        return bool(self.feeds)

    # ── sharing and snapshots ─────────────────────────────────────────────────────────────────────────────────────

    @property
    def sharing(self) -> bool:
        return self._registry.sharing

    @sharing.setter
    def sharing(self, on: bool) -> None:
        self._registry.switch(on)

    @property
    def store_size(self) -> tuple[int, int]:
        """Rows and bytes in window stores, shared ones counted once."""
        return self._registry.size()

    def snapshot(self, directory: str | Path, extra: Mapping[str, Any] | None = None) -> int:
        """Save all state; returns the snapshot's number. What an earlier snapshot holds is not written again.

        ``extra`` is saved with it and returned by ``restore``."""
        for q in self.queries:
            if q.running.error is not None:
                raise EddylineError(f"{q.name} was stopped by an error and cannot be saved; drop it first.")
        tree = {
            "extra": dict(extra or {}),
            "inputs": {n: s.state() for n, s in self.inputs.items()},
            "feeds": {n: f.state() for n, f in self.feeds.items()},
            "sides": {n: {"stream": s.stream.state(), "reached": s.reached} for n, s in self.sides.items()},
            "queries": [q.running.state() for q in self.queries],
        }
        return Snapshots(Path(directory)).save(tree)

    def restore(self, directory: str | Path) -> dict[str, Any]:
        """Go on from the newest snapshot. The same streams and queries must have been declared, in the same order."""
        tree = Snapshots(Path(directory)).load()
        texts = [q.running.query.text for q in self.queries]
        saved = [q["text"] for q in tree["queries"]]
        if texts != saved or set(tree["inputs"]) != set(self.inputs) or set(tree["sides"]) != set(self.sides):
            raise EddylineError(
                f"the snapshot in {str(directory)!r} was made by other streams or queries; declare the same ones in the"
                f" same order, or start from an empty directory. It holds: {'; '.join(saved) or 'no query'}."
            )
        for n, state in tree["inputs"].items():
            self.inputs[n].load(state)
        for n, state in tree["feeds"].items():
            self.feeds[n].load(state)
        for n, state in tree["sides"].items():
            self.sides[n].stream.load(state["stream"])
            self.sides[n].reached = state["reached"]
        for q, state in zip(self.queries, tree["queries"], strict=True):
            q.running.load(state)
        self.sharing = self.sharing
        return dict(tree["extra"])

    # ── helpers ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _open(
        self, name: str, source: Any, schema: pa.Schema | None, options: Mapping[str, Any], timestamp: str | None
    ) -> tuple[Source | None, Schema]:
        check_options(options, SOURCE_OPTIONS)
        if source is None:
            if schema is None:
                raise JobError(f"{name!r} needs a source, or a schema for rows that are pushed to it.")
            return None, Schema.from_arrow(schema)
        opened = open_source(source, self.base, schema, {"strict": self.strict, **options}, timestamp)
        return opened, Schema.from_arrow(opened.schema)

    def _input(self, stream: InputStream, opened: Source | None) -> None:
        key = stream.name.lower()
        self.inputs[key] = stream
        if opened is not None:
            self.feeds[key] = Feed(opened, stream)

    def _pushed(self, name: str) -> InputStream:
        stream = self.inputs.get(name.lower())
        if stream is None:
            raise JobError(f"there is no stream {name!r}.{self.catalog.suggest(name)}")
        return stream

    def _is_strict(self, options: Mapping[str, Any]) -> bool:
        return bool(options.get("strict", self.strict))

    def _load(self, name: str) -> pa.Table:
        key = name.lower()
        if key not in self.relations:
            source = self._sources[key]
            if not source.finite:
                raise JobError(f"the relation {name!r} has no TIMESTAMP BY, so its source must end; it does not.")
            batches = list(source.open())
            self.invalid_relation_rows += sum(len(b.invalid) for b in batches)
            definition = self.catalog.relations[key]
            table = whole(batches, definition.schema.to_arrow())
            self.relations[key] = latest(definition, table) if definition.key else table
        return self.relations[key]
