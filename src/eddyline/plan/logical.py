"""The logical plan: what a query means, before anything is decided about how to run it.

The binder (``cql``) builds it, the reference interpreter (``testing.reference``) evaluates it literally, the rules
(``plan.rules``) rewrite it and ``plan.physical`` turns it into operators. Nodes are immutable; ``schema`` is derived.

Two kinds of node: *stream-typed* (``StreamScan``, ``AsOfJoin``, ``Over``, ``WithArrivals``, ``ModelQuery``,
``ToStream``) and *relation-typed* (all others). A ``Window`` is the only way from stream to relation, ``ToStream`` the
only way back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from eddyline.core.schema import Field, Schema
from eddyline.core.time import TimeKind
from eddyline.core.window import WindowSpec
from eddyline.expr.nodes import AggregateCall, Expr, columns_of

if TYPE_CHECKING:  # Queries on tuples do without the models.
    from eddyline.models.program import Program
    from eddyline.models.sources import RowModel


@dataclass(frozen=True, slots=True)
class StreamScan:
    """The elements of a declared stream, its columns renamed to ``alias.column``.

    ``columns`` maps plan names to source columns, in schema order. ``stream`` may also be ``late(q)``/``invalid(q)``.
    """

    stream: str
    alias: str
    schema: Schema
    columns: tuple[str, ...]
    model: RowModel | None = None  # its elements are segments, and the schema is that of the modelled values


@dataclass(frozen=True, slots=True)
class RelationScan:
    """A declared relation: constant, or changing with its own timestamps."""

    relation: str
    alias: str
    schema: Schema
    columns: tuple[str, ...]
    constant: bool


@dataclass(frozen=True, slots=True)
class WindowColumn:
    """The start or the end of the window that a row is in, as a column of that row."""

    name: str
    type: pa.DataType
    edge: Literal["start", "end"]


@dataclass(frozen=True, slots=True)
class Window:
    """Stream to relation. ``input`` is stream-typed. ``columns`` are there for windows with a start and an end."""

    input: Plan
    spec: WindowSpec
    columns: tuple[WindowColumn, ...] = ()

    @property
    def schema(self) -> Schema:
        if not self.columns:
            return self.input.schema
        return Schema((*self.input.schema, *(Field(c.name, c.type) for c in self.columns)))


@dataclass(frozen=True, slots=True)
class Select:
    """Keeps rows for which every conjunct is TRUE; the conjuncts stand in written order."""

    input: Plan
    conjuncts: tuple[Expr, ...]

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, slots=True)
class Project:
    """Duplicate-preserving projection: new columns by name. The input may be stream-typed; then so is the output."""

    input: Plan
    items: tuple[tuple[str, Expr], ...]

    @property
    def schema(self) -> Schema:
        return Schema(tuple(Field(n, e.type) for n, e in self.items))


@dataclass(frozen=True, slots=True)
class Join:
    """Inner join of two or more relations with disjoint column names under a conjunction (may be empty: product)."""

    inputs: tuple[Plan, ...]
    conjuncts: tuple[Expr, ...]

    @property
    def schema(self) -> Schema:
        return Schema(tuple(f for i in self.inputs for f in i.schema))


@dataclass(frozen=True, slots=True)
class OuterJoin:
    """``left``, ``right`` or ``full`` join; ON is a conjunction."""

    kind: Literal["left", "right", "full"]
    left: Plan
    right: Plan
    conjuncts: tuple[Expr, ...]

    @property
    def schema(self) -> Schema:
        return Schema((*self.left.schema, *self.right.schema))


@dataclass(frozen=True, slots=True)
class MarkJoin:
    """Adds a Boolean column ``mark`` to the left rows: the value of ``IN`` or ``EXISTS`` (never negated here).

    For a left row l let Q be the right rows for which every conjunct of ``on`` (the correlation, over columns of both
    sides) is TRUE. Without ``operands`` (EXISTS) the mark is TRUE iff Q is not empty. With operands (x_i, q_i), x over
    left columns and q over right columns, the mark is IN's: TRUE if some row of Q has all x_i = q_i TRUE; else NULL if
    some row of Q has no x_i = q_i FALSE (so at least one NULL); else FALSE.
    """

    left: Plan
    right: Plan
    mark: str
    on: tuple[Expr, ...] = ()
    operands: tuple[tuple[Expr, Expr], ...] = ()

    @property
    def schema(self) -> Schema:
        return Schema((*self.left.schema, Field(self.mark, pa.bool_())))


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Grouping and aggregation. ``grouped`` False means no keys: exactly one row from the start of time."""

    input: Plan
    keys: tuple[tuple[str, Expr], ...]
    aggregates: tuple[tuple[str, AggregateCall], ...]
    grouped: bool

    @property
    def schema(self) -> Schema:
        return Schema(
            (*(Field(n, e.type) for n, e in self.keys), *(Field(n, a.type) for n, a in self.aggregates)),
        )


@dataclass(frozen=True, slots=True)
class Distinct:
    input: Plan

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, slots=True)
class SortKey:
    """A column to sort by. NULLs come first or last, whichever way the values go; NaN is the greatest double."""

    column: str
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True, slots=True)
class Explode:
    """A row for each element of the list in ``column``, with the element as the column ``name``."""

    input: Plan
    column: str
    name: str

    @property
    def schema(self) -> Schema:
        return Schema((*self.input.schema, Field(self.name, self.input.schema[self.column].type.value_type)))


@dataclass(frozen=True, slots=True)
class Rank:
    """Adds the rank of each row within its partition as a column: ``row_number``, ``rank`` or ``dense_rank``.

    Rows that agree in ``order`` are numbered by the columns ``ties`` (``plan.arrival_order``), NULL first; then, with
    ``by_arrival``, in the order of the input, otherwise by the values of all columns, NULL first.

    ``limit`` and ``numbered`` are what the optimizer found out, and change nothing that the query can see: only rows up
    to that rank are read above, and whether anybody reads the rank itself.
    """

    input: Plan
    function: Literal["row_number", "rank", "dense_rank"]
    partition: tuple[str, ...]
    order: tuple[SortKey, ...]
    name: str
    by_arrival: bool
    ties: tuple[str, ...] = ()
    limit: int | None = None
    numbered: bool = True

    @property
    def schema(self) -> Schema:
        return Schema((*self.input.schema, Field(self.name, pa.int32()))) if self.numbered else self.input.schema


@dataclass(frozen=True, slots=True)
class SetOperation:
    """``all`` False are the set operators, True the bag operators. Both sides have the same types; names are left's."""

    kind: Literal["union", "except", "intersect"]
    all: bool
    left: Plan
    right: Plan

    @property
    def schema(self) -> Schema:
        return self.left.schema


@dataclass(frozen=True, slots=True)
class ToStream:
    """Relation to stream. ``rstream`` also needs the query's ticks, which the engine supplies; ``wstream`` gives the
    relation at each instant at which one of its own windows closes (``plan.closing_windows``)."""

    kind: Literal["istream", "dstream", "rstream", "wstream"]
    input: Plan

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, slots=True)
class AsOfJoin:
    """Each element of a stream with one element of another: the nearest in time with equal keys. Both are streams.

    ``comparison`` is that of the right time with the left time. With ``le`` and ``lt`` the partner is the last one
    before, and the result has the left element's time. With ``ge`` and ``gt`` it is the first one after, and the result
    has the partner's time. ``within`` bounds the distance in ticks. With ``outer`` an element without a partner comes
    padded, where a partner was looked for afterwards as soon as none can come any more.
    """

    left: Plan
    right: Plan
    keys: tuple[tuple[str, str], ...]
    comparison: Literal["le", "lt", "ge", "gt"]
    within: int | None = None
    outer: bool = False

    @property
    def schema(self) -> Schema:
        return Schema((*self.left.schema, *self.right.schema))

    @property
    def backward(self) -> bool:
        return self.comparison in ("le", "lt")


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The value of a column in another row of the partition: ``shift`` rows on, or back where it is negative. Where
    there is no such row it is the element's own value of the column ``default``, or NULL."""

    column: str
    shift: int
    default: str | None
    type: pa.DataType

    @property
    def read(self) -> frozenset[str]:
        return frozenset((self.column,) if self.default is None else (self.column, self.default))


@dataclass(frozen=True, slots=True)
class Frame:
    """An aggregate of rows of the partition: the last ``rows`` of them (None: all) up to the one ``shift`` rows on, or
    back where that is negative. The arguments of the call are columns."""

    call: AggregateCall
    rows: int | None
    shift: int

    @property
    def type(self) -> pa.DataType:
        return self.call.type

    @property
    def read(self) -> frozenset[str]:
        return frozenset().union(*(columns_of(a) for a in self.call.args))


@dataclass(frozen=True, slots=True)
class Over:
    """Each element of a stream with values of the rows around it in its partition, in order of (time, arrival).

    An element whose values need no later row keeps its time. Otherwise all elements come when the row has come that is
    ``waits`` rows on in their partition, at the time of that row.
    """

    input: Plan
    partition: tuple[str, ...]
    values: tuple[tuple[str, Neighbour | Frame], ...]

    @property
    def schema(self) -> Schema:
        return Schema((*self.input.schema, *(Field(n, v.type) for n, v in self.values)))

    @property
    def waits(self) -> int:
        return max(0, max(v.shift for _, v in self.values))

    @property
    def kept(self) -> int:
        """How many rows of each partition have to be kept."""
        back = max(0, max(-v.shift for _, v in self.values))
        frames = [v.rows or 0 for _, v in self.values if isinstance(v, Frame)]
        return max([self.waits + back, *frames])


@dataclass(frozen=True, slots=True)
class WithArrivals:
    """Each element of a stream with two more columns: its ``time`` in ticks, and a ``number`` that grows with (time,
    arrival). Nothing but the order of the numbers may show: filters may go below, and shards count their own elements.
    """

    input: Plan
    time: str
    number: str

    @property
    def schema(self) -> Schema:
        return Schema((*self.input.schema, Field(self.time, pa.int64()), Field(self.number, pa.int64())))


@dataclass(frozen=True, slots=True)
class ModelQuery:
    """A whole query on models: its inputs are streams whose elements are segments, its result is a stream of samples
    or of segments. ``program`` is what it computes (``models.program``), one of ``models`` for each input."""

    inputs: tuple[Plan, ...]
    models: tuple[RowModel, ...]
    program: Program
    schema: Schema
    kind: TimeKind
    horizon: int | None = None
    predict: bool = False

    @property
    def outlasts_its_elements(self) -> bool:
        """Whether there are results behind the last element: of segments that reach further, or segments that are only
        complete when time ends."""
        from eddyline.models.sources import FittedRows, SegmentRows

        return self.program.sample is None or any(isinstance(m, SegmentRows | FittedRows) for m in self.models)


Plan = (
    StreamScan
    | RelationScan
    | Window
    | Select
    | Project
    | Join
    | OuterJoin
    | MarkJoin
    | Aggregate
    | Distinct
    | Explode
    | Rank
    | SetOperation
    | AsOfJoin
    | Over
    | WithArrivals
    | ModelQuery
    | ToStream
)


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A query with all defaults made explicit.

    The root of ``plan`` is a ``ToStream`` (or a ``Project`` over one) where the result is a stream; otherwise the
    result is a relation and shown as signed changes. ``plan.schema.names`` are the output names.
    """

    name: str | None
    plan: Plan
    time_kind: TimeKind
    text: str
    target: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_stream(self) -> bool:
        return is_stream(self.plan)


def children(p: Plan) -> tuple[Plan, ...]:
    match p:
        case Window() | Select() | Project() | Aggregate() | Distinct() | Explode() | Rank():
            return (p.input,)
        case Over() | WithArrivals() | ToStream():
            return (p.input,)
        case Join() | ModelQuery():
            return p.inputs
        case OuterJoin() | MarkJoin() | SetOperation() | AsOfJoin():
            return (p.left, p.right)
        case _:
            return ()


def is_stream(p: Plan) -> bool:
    match p:
        case StreamScan() | AsOfJoin() | Over() | WithArrivals() | ToStream():
            return True
        case ModelQuery():
            return not p.predict  # what was predicted is taken back
        case Project() | Select():
            return is_stream(p.input)
        case _:
            return False
