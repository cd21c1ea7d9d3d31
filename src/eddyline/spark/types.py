"""From Spark's types to the engine's and back, and Arrow batches across that border.

The engine has one kind of timestamp: microseconds since the epoch, read as UTC. Spark has two, and the rule is:

- ``TimestampType`` is an instant. The engine takes its microseconds since the epoch as they are, whatever
  ``spark.sql.session.timeZone`` says (that setting only changes how Spark *shows* an instant), and gives them back as
  ``TimestampType``: the same instants in every session. Fields of it (``hour(ts)``, ``CAST(ts AS STRING)``) are those
  of UTC, as in the inline engine.
- ``TimestampNTZType`` is what a clock shows. The engine takes that clock for one in UTC and gives it back as
  ``TimestampNTZType``: the same figures in every session.
- What a query makes of timestamps is an NTZ if all the timestamps that it is made of are, and otherwise (also for
  literals and casts of texts) a ``TimestampType``. ``_time`` is an NTZ if the timestamps of all inputs are.

An Arrow schema carries an NTZ as a mark in its field's metadata, because the engine's own type does not have it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from eddyline.core.catalog import Catalog
from eddyline.core.errors import JobError
from eddyline.engine.delivery import result_schema
from eddyline.expr import types as t
from eddyline.expr.nodes import Call, Case, Cast, Column, Expr, Literal, UserCall
from eddyline.io.conform import cast
from eddyline.plan.logical import (
    Aggregate,
    AsOfJoin,
    BoundQuery,
    Distinct,
    Explode,
    Join,
    MarkJoin,
    ModelQuery,
    OuterJoin,
    Over,
    Plan,
    Project,
    Rank,
    RelationScan,
    Select,
    SetOperation,
    StreamScan,
    ToStream,
    Window,
    WithArrivals,
)
from eddyline.plan.traverse import streams_of

_MARK: Final = {b"spark": b"timestamp_ntz"}
_SIMPLE: Final[dict[type[DataType], pa.DataType]] = {
    BooleanType: t.BOOLEAN,
    ByteType: t.INT8,
    ShortType: t.INT16,
    IntegerType: t.INT32,
    LongType: t.INT64,
    FloatType: t.FLOAT,
    DoubleType: t.DOUBLE,
    StringType: t.STRING,
    BinaryType: t.BINARY,
    DateType: t.DATE,
    TimestampType: t.TIMESTAMP,
    TimestampNTZType: t.TIMESTAMP,
    DayTimeIntervalType: t.DURATION,
    NullType: t.NULL,
    CharType: t.STRING,
    VarcharType: t.STRING,
}
_OTHER_FORMS: Final = (TimestampNTZType, CharType, VarcharType)
_BACK: Final[dict[pa.DataType, DataType]] = {a: s() for s, a in _SIMPLE.items() if s not in _OTHER_FORMS}
_INSTANT: Final = pa.timestamp("us", "UTC")


# ── schemas ───────────────────────────────────────────────────────────────────────────────────────────────────────


def from_spark(struct: StructType, place: str = "the DataFrame") -> pa.Schema:
    """The engine's schema of a DataFrame; what the engine does not hold is a ``JobError`` with the column's name.

    >>> from_spark(StructType().add("a", "integer").add("at", "timestamp")).types
    [DataType(int32), TimestampType(timestamp[us])]
    """
    twice = {n for n in struct.names if struct.names.count(n) > 1}
    if twice:
        raise JobError(f"{place} has more than one column named {sorted(twice)[0]!r}; rename one of them.")
    return pa.schema([_from_field(f, place) for f in struct.fields])


def _from_field(field: StructField, place: str) -> pa.Field:
    found = field.dataType
    if isinstance(found, DecimalType):
        return pa.field(field.name, pa.decimal128(found.precision, found.scale))
    collated = isinstance(found, StringType) and not found.isUTF8BinaryCollation()  # compares differently
    if type(found) not in _SIMPLE or collated:
        raise JobError(
            f"{place}: column {field.name!r} has the type {found.simpleString()}, which Eddyline does not hold; "
            "cast it first, for example to string, or drop it."
        )
    return pa.field(field.name, _SIMPLE[type(found)], metadata=_MARK if isinstance(found, TimestampNTZType) else None)


def to_spark(schema: pa.Schema, place: str = "the result") -> StructType:
    """The DataFrame schema of columns of the engine; timestamps are instants unless they bear the mark of an NTZ.

    >>> to_spark(pa.schema([("a", pa.int64()), ("_time", pa.timestamp("us"))])).simpleString()
    'struct<a:bigint,_time:timestamp>'
    """
    fields = []
    for f in schema:
        try:
            fields.append(StructField(f.name, TimestampNTZType() if is_ntz(f) else spark_type(f.type)))
        except ValueError as error:
            raise JobError(f"{place}: column {f.name!r} has the type {f.type}; cast it first.") from error
    return StructType(fields)


def spark_type(type: pa.DataType) -> DataType:
    """Spark's type for one of the engine's, or of a source's; a timestamp is an instant."""
    engine = t.normalise(type)
    return DecimalType(engine.precision, engine.scale) if t.is_decimal(engine) else _BACK[engine]


def is_ntz(field: pa.Field) -> bool:
    return bool(field.type == t.TIMESTAMP and (field.metadata or {}).get(b"spark") == _MARK[b"spark"])


def ntz_of(schema: pa.Schema) -> frozenset[str]:
    """The columns that came as ``TimestampNTZType``.

    >>> ntz_of(from_spark(StructType().add("a", "timestamp").add("b", "timestamp_ntz")))
    frozenset({'b'})
    """
    return frozenset(f.name for f in schema if is_ntz(f))


def with_ntz(schema: pa.Schema, ntz: Collection[str]) -> pa.Schema:
    """The same schema with the mark of an NTZ on these timestamps."""
    return pa.schema([f.with_metadata(_MARK) if f.name in ntz and f.type == t.TIMESTAMP else f for f in schema])


# ── what a query makes of timestamps ──────────────────────────────────────────────────────────────────────────────


def result_type(query: BoundQuery, plan: Plan, catalog: Catalog, ntz: Mapping[str, Collection[str]]) -> StructType:
    """The DataFrame schema of a query's result: its columns, ``_time``, and ``_sign`` for a relation's changes.

    ``ntz`` gives the NTZ columns of each declared stream and relation by its name.
    """
    schema = result_schema(plan.schema, query.time_kind, signed=not query.is_stream)
    inside = ntz_outputs(plan, ntz)
    marked = {new for new, old in zip(schema.names, plan.schema.names, strict=False) if old in inside}
    if time_is_ntz(plan, catalog, ntz):
        marked.add("_time")
    return to_spark(with_ntz(schema, marked))


def time_is_ntz(plan: Plan, catalog: Catalog, ntz: Mapping[str, Collection[str]]) -> bool:
    """Whether the timestamps of all inputs are NTZ; a stream stamped on arrival has instants."""
    stamps = [(n.lower(), catalog.streams.get(n.lower()) or catalog.relations.get(n.lower())) for n in streams_of(plan)]
    marked = {name.lower(): columns for name, columns in ntz.items()}
    return bool(stamps) and all(d is not None and d.timestamp in marked.get(n, ()) for n, d in stamps)


def ntz_outputs(plan: Plan, ntz: Mapping[str, Collection[str]]) -> frozenset[str]:
    """The columns of a plan that are NTZ, by their plan names.

    >>> from eddyline.core.schema import Field, Schema
    >>> scan = StreamScan("S", "s", Schema((Field("s.t", t.TIMESTAMP), Field("s.u", t.TIMESTAMP))), ("t", "u"))
    >>> first = Call("coalesce", (Column("s.u", t.TIMESTAMP), Column("s.t", t.TIMESTAMP)), t.TIMESTAMP)
    >>> ntz_outputs(Project(scan, (("u", Column("s.u", t.TIMESTAMP)), ("first", first))), {"S": ["u"]})
    frozenset({'u'})
    """
    match plan:
        case StreamScan() | RelationScan():
            name = (plan.stream if isinstance(plan, StreamScan) else plan.relation).lower()
            marked = next((columns for n, columns in ntz.items() if n.lower() == name), ())
            return frozenset(f.name for f, c in zip(plan.schema, plan.columns, strict=True) if c in marked)
        case Window() | Select() | Distinct() | Rank() | WithArrivals() | ToStream():
            return ntz_outputs(plan.input, ntz)
        case Explode(input=below):
            return ntz_outputs(below, ntz)
        case Project(input=below, items=items):
            inside = ntz_outputs(below, ntz)
            return frozenset(n for n, e in items if made_of_ntz([e], inside))
        case Aggregate(input=below, keys=keys, aggregates=aggregates):
            inside = ntz_outputs(below, ntz)
            from_values = (n for n, a in aggregates if a.type == t.TIMESTAMP and made_of_ntz(a.args, inside))
            return frozenset((*(n for n, e in keys if made_of_ntz([e], inside)), *from_values))
        case Join(inputs=inputs) | ModelQuery(inputs=inputs):
            return frozenset[str]().union(*(ntz_outputs(i, ntz) for i in inputs))
        case Over(input=below, values=values):
            inside = ntz_outputs(below, ntz)
            stamps = (n for n, v in values if v.type == t.TIMESTAMP and v.read <= inside)
            return inside | frozenset(stamps)
        case OuterJoin() | MarkJoin() | AsOfJoin():
            return ntz_outputs(plan.left, ntz) | ntz_outputs(plan.right, ntz)
        case SetOperation(left=left, right=right):
            sides = ntz_outputs(left, ntz), ntz_outputs(right, ntz)
            pairs = zip(left.schema.names, right.schema.names, strict=True)
            return frozenset(a for a, b in pairs if a in sides[0] and b in sides[1])


def made_of_ntz(expressions: Iterable[Expr], ntz: Collection[str]) -> bool:
    """Whether what expressions make of the timestamps that they read is an NTZ."""
    made_of = [name for e in expressions for name in _timestamps_in(e)]
    return bool(made_of) and all(name in ntz for name in made_of)


def _timestamps_in(e: Expr) -> list[str]:
    """The timestamp columns whose values can become the expression's value, not those that only decide about it."""
    if e.type != t.TIMESTAMP:
        return []
    match e:
        case Column(name=name):
            return [name]
        case Literal():
            return []
        case Cast(operand=operand):
            return _timestamps_in(operand)
        case Case(branches=branches, default=default):
            return [n for v in (*(v for _, v in branches), default) for n in _timestamps_in(v)]
        case Call(args=args) | UserCall(args=args):
            return [n for a in args for n in _timestamps_in(a)]


# ── batches ───────────────────────────────────────────────────────────────────────────────────────────────────────


def quoted(name: str) -> str:
    """A column's name as Spark (and CQL) takes it, whatever is in it.

    >>> quoted("a.b`c")
    '`a.b``c`'
    """
    return "`" + name.replace("`", "``") + "`"


def to_engine(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of ``schema`` of an Arrow batch from Spark, in the engine's types, copied only where they differ.

    >>> at = pa.array([0], pa.timestamp("us", "Europe/Paris"))
    >>> to_engine(pa.record_batch({"at": at, "x": pa.array([1])}), pa.schema([("at", pa.timestamp("us"))]))[0].type
    TimestampType(timestamp[us])
    """
    columns = [engine_array(batch.column(f.name), f.type) for f in schema]
    bare = pa.schema([pa.field(f.name, f.type) for f in schema])
    return pa.RecordBatch.from_arrays(columns, schema=bare) if columns else batch.select([])


def engine_array(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """One column as Spark sends it, in the engine's type: instants lose their zone and keep their microseconds."""
    return array if array.type == wanted else cast(array, wanted)


def arrow_schema(struct: StructType) -> pa.Schema:
    """What Spark wants to get for a DataFrame schema: instants come with a zone (any will do), NTZ without.

    >>> arrow_schema(StructType().add("a", "timestamp").add("b", "timestamp_ntz")).types
    [TimestampType(timestamp[us, tz=UTC]), TimestampType(timestamp[us])]
    """
    engine = from_spark(struct, "the result")
    return pa.schema([pa.field(f.name, _arrow_type(f)) for f in engine])


def _arrow_type(field: pa.Field) -> pa.DataType:
    return _INSTANT if field.type == t.TIMESTAMP and not is_ntz(field) else field.type


def from_engine(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table of the engine with the types of an ``arrow_schema``, by position; dictionaries are decoded.

    >>> made = pa.table({"_time": pa.array([1], pa.timestamp("us"))})
    >>> from_engine(made, arrow_schema(StructType().add("_time", "timestamp"))).schema.types
    [TimestampType(timestamp[us, tz=UTC])]
    """
    columns = [
        pa.chunked_array([spark_array(c, f.type) for c in column.chunks], f.type)
        for column, f in zip(table.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def spark_array(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """One column of the engine as Spark wants it."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array if array.type == wanted else array.cast(wanted)
