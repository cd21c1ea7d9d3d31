"""Declarations of streams, relations, views, functions and queries: the same in every session, inline and on Spark."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa

from eddyline.adapting.filter_choice import Filtering
from eddyline.adapting.join_choice import Joining
from eddyline.core import arguments as check
from eddyline.core.catalog import AggregateDef, Attribute, Catalog, FunctionDef, RelationDef, SplitDef, StreamDef
from eddyline.core.errors import CqlError, JobError, MissingColumnWarning, did_you_mean
from eddyline.core.overload import Overload
from eddyline.core.predicate import Predicate, check_cost
from eddyline.core.schema import Schema
from eddyline.core.time import Clock, SystemClock, TimeKind
from eddyline.cql import bind
from eddyline.cql.job import CreateRelation, CreateStream, CreateView, QueryStatement, Statement, parse_job
from eddyline.cql.options import check_options
from eddyline.cql.overload import overload_of
from eddyline.cql.steering import AlterQuery, AlterStream, PinQuery, Steer, UndoDecision
from eddyline.engine.declaration_checks import (
    column_named,
    data_type,
    duration,
    folder,
    inferred_time,
    placed,
    slack_of,
    time_kind,
    weighted,
)
from eddyline.engine.ownership import Turn, in_turn, not_pickled
from eddyline.engine.relation_changes import latest
from eddyline.engine.row_warnings import LeftOut, outside
from eddyline.engine.scheduler import make_scheduler
from eddyline.engine.system_streams import interval_of
from eddyline.expr.functions import is_aggregate
from eddyline.io.conform import engine_schema
from eddyline.io.resolve import OPTIONS as SOURCE_OPTIONS
from eddyline.io.resolve import open_source, truth
from eddyline.io.source import Source, segment_layout, whole
from eddyline.models.segments import FROM
from eddyline.models.splits import BUILT_IN
from eddyline.plan import candidates
from eddyline.plan.logical import BoundQuery
from eddyline.streamon.decision import Decision
from eddyline.streamon.strategies import KINDS

_CHOICES = (option for option, kind in KINDS.items() if kind.of == "query")
OPTIONS = tuple(
    sorted((*_CHOICES, "every", "memory", "models", "on_error", "pinned", "priority", "strict_order", "tree"))
)
Q = TypeVar("Q")  # what a session hands out for a query


class Declaring(ABC, Generic[Q]):
    """``strict`` stops at the first malformed row; ``base`` is what relative paths are relative to."""

    __reduce_ex__ = not_pickled("a session")
    _complete = False  # whether all of its properties are there

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse a property that a session does not have: it would be set, and nothing would happen."""
        if self._complete and not name.startswith("_") and name not in self.__dict__ and not hasattr(type(self), name):
            there = [n for n in dir(type(self)) if getattr(getattr(type(self), n), "fset", None) is not None]
            known = f" The properties that can be set are {', '.join(there)}." if there else ""
            raise AttributeError(f"a session has no property {name!r}.{did_you_mean(name, there)}{known}")
        object.__setattr__(self, name, value)

    def __init__(self, *, clock: Clock | None, strict: bool, base: Path | str | None) -> None:
        self.turn = Turn()
        self.catalog = Catalog()
        self.clock = SystemClock() if clock is None else clock
        if not all(callable(getattr(self.clock, n, None)) for n in ("now", "nanoseconds")) or isinstance(clock, type):
            raise JobError(f"a clock has now() and nanoseconds(), and {check.shown(clock)} is none.")
        self.strict = check.flag(strict, "strict")
        self.base = None if base is None else folder(base, "base")
        self.relations: dict[str, pa.Table] = {}  # constant ones, once they were read
        self.invalid_of_relations: dict[str, LeftOut] = {}  # malformed rows of constant relations, where there are some
        self._sources: dict[str, Source] = {}  # of constant relations

    @abstractmethod
    def _add_input(self, definition: StreamDef | RelationDef, opened: Source | None) -> None:
        """A stream or timed relation was declared."""

    @abstractmethod
    def _register(self, bound: BoundQuery) -> Q:
        """A query was bound."""

    @abstractmethod
    def _steer(self, statement: Steer) -> list[Decision]:
        """Change something of a query or a stream; the records of it."""

    @in_turn
    def register(self, bound: BoundQuery) -> Q:
        """Register a query that is bound already."""
        if not isinstance(bound, BoundQuery):
            raise JobError(f"register takes a bound query, not {check.shown(bound)}; query() takes a text.")
        return self._register(bound)

    # ── declarations ──────────────────────────────────────────────────────────────────────────────────────────────

    @in_turn
    def stream(
        self,
        name: str,
        source: Any = None,
        timestamp: str | None = None,
        slack: int | float | str | timedelta = 0,
        idle: int | float | str | timedelta | None = None,
        schema: pa.Schema | None = None,
        overload: str | Overload | None = None,
        unique: Sequence[str] = (),
        within: int | float | str | timedelta | None = None,
        **options: Any,
    ) -> None:
        """Declare a stream: a path, glob, directory, Arrow table or reader, pandas frame, iterable of rows or batches;
        or, without a source, a ``schema`` for rows that ``push`` will bring.

        ``slack`` is how far an element may lie behind the largest timestamp before it (a number counts ticks of an
        integer time, seconds of a timestamp; or ``'5 seconds'``): larger waits longer and loses less. With ``'auto'``
        (99.9 % of the rows are kept) or ``'99 %'`` it is found from the rows that come, and rows stamped far ahead of
        all others are put aside (``docs/disorder-and-overload.md``). ``idle`` is the silence after which the stream no
        longer holds others back. ``overload`` is what happens when more waits than a bound: ``'drop above 64 MB'``,
        ``'sample 10 % above 50000 rows'``, ``'block above 2 seconds'``. ``unique`` are columns in which no two
        elements may agree: one that repeats a key is invalid and put aside (``docs/semantics.md``), and joins may keep
        less (``docs/constraints.md``). With ``within`` (``'10 minutes'``) a key may come again after that time;
        without, all keys are remembered.

        Without ``timestamp`` rows that are pushed, or come from a source without an end, are stamped on arrival. In a
        file, a table or a list the column of time must be plain (``docs/semantics.md`` has the rule); ``arrival=True``
        stamps the rows of those, too.
        """
        check.text(name, "the name of a stream")
        check.optional_text(timestamp, f"the timestamp of {name!r}")
        opened, found = self._open(name, source, schema, options, timestamp)
        layout = segment_layout(opened)
        if layout is not None:
            if timestamp not in (None, FROM):
                raise JobError(f"{name!r} holds segments, whose time is {FROM!r}: leave TIMESTAMP BY out.")
            timestamp = FROM
        if timestamp is None and self._ends(name, opened) and not truth(options.get("arrival", False), "arrival"):
            timestamp = inferred_time(name, found)
            if pa.types.is_null(found[timestamp].type):
                opened, found = self._open(name, source, schema, options, timestamp)
        stamp = None if timestamp is None else column_named(name, found, timestamp)
        kind = time_kind(name, found, stamp)
        wait = None if idle is None else duration(idle, TimeKind.TIMESTAMP, "idle")
        width, auto = slack_of(name, slack, kind, stamp)
        guard = overload_of(overload) if isinstance(overload, str) else overload
        if not isinstance(guard, Overload | None):
            raise JobError(f"overload is a text such as 'drop above 50000 rows', not {check.shown(overload)}.")
        columns = weighted(name, found, guard)
        differing = tuple(column_named(name, found, c) for c in check.texts(unique, f"unique of {name!r}"))
        keys = (differing,) if differing else ()
        scope = None if within is None else duration(within, kind, "within")
        if scope is not None and not keys:
            raise JobError(f"within belongs to unique: which columns of {name!r} may not repeat within {within}?")
        definition = StreamDef(
            name, columns, kind, stamp, width, wait, source, options, auto, guard, layout, keys, scope
        )
        self.catalog.add("streams", definition)
        self._add_input(definition, opened)

    @in_turn
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
        check.text(name, "the name of a relation")
        check.optional_text(timestamp, f"the timestamp of {name!r}")
        check.optional_text(sign, f"the sign of {name!r}")
        opened, found = self._open(name, source, schema, options, timestamp)
        stamp = None if timestamp is None else column_named(name, found, timestamp)
        kind = None if stamp is None else time_kind(name, found, stamp)
        keys = tuple(column_named(name, found, c) for c in check.texts(key, f"the key of {name!r}"))
        mark = None if sign is None else column_named(name, found, sign)
        lists = [f.name for f in found if pa.types.is_nested(f.type)]
        if lists:
            raise JobError(
                f"the relation {name!r} has lists in its column {lists[0]!r}, which only streams may have: declare its "
                "columns, and leave it out."
            )
        if stamp is None and mark is not None:
            raise JobError(f"the sign {mark!r} of {name!r} says what changes, so TIMESTAMP BY must say when.")
        if stamp is None and opened is None:
            raise JobError(f"the relation {name!r} is constant and needs a source.")
        definition = RelationDef(name, found, kind, stamp, keys, mark, source, options)
        self.catalog.add("relations", definition)
        if stamp is not None:
            self._add_input(definition, opened)
        elif opened is not None:
            self._sources[name.lower()] = opened

    @in_turn
    def view(self, name: str, text: str) -> None:
        """Give a query a name that other queries can read."""
        check.text(name, "the name of a view")
        check.text(text, f"the query of the view {name!r}", empty=True)
        self.catalog.add("views", bind(text, self.catalog), name)

    @in_turn
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
        """Make a Python function, or an ``ed.predicate``, callable from queries. ``kind``: ``row`` gets Python values,
        ``pandas`` Series, ``arrow`` Arrow arrays.

        Conjuncts are asked in the order that costs least. ``cost``, in seconds a row, is believed until the function
        was measured. A function that is not ``deterministic``, or that has side effects, is called for exactly the
        rows that satisfy the conjuncts written before it."""
        check.text(name, "the name of a function")
        _refuse_aggregates(name, "function")
        if isinstance(function, Predicate):
            self.catalog.functions[name.lower()] = function.definition(name)
            return
        check_cost(name, cost)
        check.one_of(kind, ("row", "pandas", "arrow"), "the kind of a function")
        check.flag(deterministic, "deterministic")
        if not callable(function):
            raise JobError(f"the function {name!r} must be callable, and a {type(function).__name__} is not.")
        if isinstance(arguments, str | bytes) or not isinstance(arguments, Iterable | None):
            raise JobError(f"the arguments of {name!r} are a list of types, not {check.shown(arguments)}.")
        args = None if arguments is None else tuple(data_type(a) for a in arguments)
        self.catalog.functions[name.lower()] = FunctionDef(
            name, function, data_type(returns), args, kind, cost, deterministic  # type: ignore[arg-type]
        )  # fmt: skip

    @in_turn
    def aggregate(self, name: str, function: Callable[[list[Any]], Any], returns: str | pa.DataType = "double") -> None:
        """Make a Python function of a group's values callable as an aggregate."""
        check.text(name, "the name of an aggregate")
        _refuse_aggregates(name, "aggregate")
        if not callable(function):
            raise JobError(f"the aggregate {name!r} must be callable, and a {type(function).__name__} is not.")
        self.catalog.aggregates[name.lower()] = AggregateDef(name, function, data_type(returns))

    @in_turn
    def split(self, name: str, function: Callable[[str, Mapping[Attribute, float]], Mapping[Attribute, float]]) -> None:
        """Make a Python function divide the bound of results: ``ERROR WITHIN 0.5 SPLIT name``.

        It gets the name of a result column and the attributes that it depends on: (number of the input in FROM, column)
        with the mean |x′| of the column, 0 as long as nothing is known. It gives each a share above 0, together at most
        1, and is called again when the |x′| have changed.

        >>> import eddyline as ed
        >>> session = ed.Session()
        >>> session.stream("S", [{"ts": 0, "k": "a", "x": 1.0, "y": 2.0}], timestamp="ts")
        >>> session.split("x_first", lambda result, attributes: {a: 0.75 if a[1] == "x" else 0.25 for a in attributes})
        >>> gap = session.query("SELECT k, x - y AS gap FROM S ERROR WITHIN 1 SPLIT x_first")
        >>> print(gap.explain().splitlines()[5].strip())
        model-query 1  fit S.x within 0.75, S.y within 0.25 → segments
        """
        check.text(name, "the name of a split function")
        if name.lower() in BUILT_IN:
            raise JobError(f"the split function {name!r} is built in: take another name.")
        if not callable(function):
            raise JobError(f"the split function {name!r} must be callable, and a {type(function).__name__} is not.")
        self.catalog.splits[name.lower()] = SplitDef(name, function)

    def execute(self, job: str) -> list[Q]:
        """Run statements: declarations take effect, queries are registered and returned, and ``ALTER``, ``PIN``,
        ``UNPIN`` and ``UNDO`` change what runs.

        >>> import eddyline as ed
        >>> session = ed.Session()
        >>> session.stream("S", [{"ts": 1, "a": 2}], timestamp="ts")
        >>> (hot,) = session.execute("hot: SELECT Istream(a) FROM S WHERE a > 1 AND a < 9; PIN QUERY hot")
        >>> session.execute("ALTER QUERY hot SET (filters = 'sweep', scheduler = 'chain')")
        []
        >>> [d.kind for d in hot.decisions]
        ['pinned', 'option filters', 'option scheduler']
        """
        check.text(job, "a job", empty=True)
        return [q for s in parse_job(job) if (q := self.declare(s)) is not None]

    def declare(self, statement: Statement) -> Q | None:
        match statement:
            case CreateStream() | CreateRelation():
                try:
                    self._create(statement)
                except JobError as e:
                    raise placed(e, statement, statement.source) from e
                return None
            case CreateView():
                with self.turn:
                    try:
                        self.catalog.add("views", bind(statement, self.catalog), statement.name)
                    except JobError as e:
                        raise placed(e, statement) from e
                return None
            case QueryStatement():
                with self.turn:
                    bound = bind(statement, self.catalog)
                    try:
                        return self._register(bound)
                    except JobError as e:
                        raise placed(e, statement) from e
                    except RecursionError:  # the caller's own stack leaves no room
                        raise CqlError("this query is nested too deeply.", statement.text, statement.span) from None
            case AlterQuery() | AlterStream() | PinQuery() | UndoDecision():
                with self.turn:
                    try:
                        self._steer(statement)
                    except JobError as e:
                        raise placed(e, statement) from e
                return None
        raise JobError(f"a statement comes from a job's text, and {check.shown(statement)} does not.")

    def _create(self, s: CreateStream | CreateRelation) -> None:
        schema = None if s.columns is None else pa.schema(list(s.columns))
        if isinstance(s, CreateStream):
            slack: Any = 0 if s.slack is None else s.slack
            idle: Any = s.idle
            within: Any = s.within
            self.stream(s.name, s.source, s.timestamp, slack, idle, schema, s.overload, s.unique, within, **s.options)
        else:
            self.relation(s.name, s.source, s.timestamp, s.key, s.sign, schema, **s.options)

    @in_turn
    def bind(self, text: str) -> BoundQuery:
        """What a query means, without registering it: a mistake has its place, one behind ``WITH`` too."""
        check.text(text, "a query", empty=True)
        bound = bind(text, self.catalog)
        try:
            self._check_options(bound)
        except JobError as e:
            raise placed(e, parse_job(text)[0]) from e
        return bound

    @in_turn
    def query(self, text: str, name: str | None = None, **options: Any) -> Q:
        """Register a continuous query; it sees the elements that come from now on. ``options`` are those of ``WITH``;
        where both say something, these count."""
        check.text(text, "a query", empty=True)
        check.optional_text(name, "the name of a query")
        bound = bind(text, self.catalog)
        merged = {**bound.options, **options}
        try:
            return self._register(
                BoundQuery(name or bound.name, bound.plan, bound.time_kind, bound.text, bound.target, merged)
            )
        except JobError as e:
            if not bound.options or any(repr(x) in str(e) for option in options.items() for x in option):
                raise  # it is not about what the text says behind WITH
            raise placed(e, parse_job(text)[0]) from e

    def _check_options(self, bound: BoundQuery) -> None:
        read = (*OPTIONS, *Filtering.of(bound.options).options)
        for name in bound.options:
            if name not in read and (remedy := Joining.instead_of(name)):
                raise JobError(f"unknown option {name!r}. {remedy}")
        check_options(bound.options, read)
        Joining.of(bound.options)
        candidates.check_options(bound.options)
        interval_of(bound.options, bound.plan)
        for option, value in bound.options.items():
            if option == "on_error" and not (isinstance(value, str) and value in ("stop", "invalid")):
                raise JobError(f"the option 'on_error' is one of stop, invalid, not {check.shown(value)}.")
            if option == "priority" and (not isinstance(value, int) or isinstance(value, bool)):
                raise JobError(
                    f"the option 'priority' is an integer (a larger one runs first), not {check.shown(value)}."
                )
            if option == "pinned":
                check.flag(value, "the option 'pinned'")
            if option == "scheduler":
                if not isinstance(value, str):
                    raise JobError(f"the option 'scheduler' is a text such as 'chain', not {check.shown(value)}.")
                make_scheduler(value)

    def _open(
        self, name: str, source: Any, schema: pa.Schema | None, options: Mapping[str, Any], timestamp: str | None
    ) -> tuple[Source | None, Schema]:
        check_options(options, SOURCE_OPTIONS)
        check.schema(schema, f"the schema of {name!r}")
        if source is None:
            if schema is None:
                raise JobError(f"{name!r} needs a source, or a schema for rows that are pushed to it.")
            return None, Schema.from_arrow(engine_schema(schema, f"the schema of {name!r}"))
        opened = open_source(source, self.base, schema, {"strict": self.strict, **options}, timestamp)
        for note in getattr(opened, "notes", ()):
            warnings.warn(note, MissingColumnWarning, stacklevel=outside())
        return opened, Schema.from_arrow(opened.schema)

    def _ends(self, name: str, opened: Source | None) -> bool:
        """Whether the rows are there already, so that the clock has nothing to do with them."""
        return opened is not None and opened.finite

    def _is_strict(self, options: Mapping[str, Any]) -> bool:
        return bool(options.get("strict", self.strict))

    def _load(self, name: str) -> pa.Table:
        key = name.lower()
        if key not in self.relations:
            source = self._sources[key]
            if not source.finite:
                raise JobError(f"the relation {name!r} has no TIMESTAMP BY, so its source must end; it does not.")
            batches = list(source.open())
            definition = self.catalog.relations[key]
            if invalid := [row for b in batches for row in b.invalid]:
                left_out = LeftOut(definition.name, invalid=len(invalid), reason=invalid[0].reason, readable=False)
                self.invalid_of_relations[key] = left_out
            table = whole(batches, definition.schema.to_arrow())
            self.relations[key] = latest(definition, table) if definition.key else table
        return self.relations[key]


def _refuse_aggregates(name: str, what: str) -> None:
    if is_aggregate(name):
        raise JobError(f"the {what} {name!r} would replace the aggregate of this name: give it another name.")
