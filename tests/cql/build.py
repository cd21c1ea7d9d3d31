"""A small catalog and short ways to write tests."""

from __future__ import annotations

import pyarrow as pa
import pytest

from eddyline.core.catalog import AggregateDef, Catalog, FunctionDef, RelationDef, StreamDef
from eddyline.core.errors import CqlError
from eddyline.core.schema import Field, Schema
from eddyline.core.time import TimeKind
from eddyline.cql import bind
from eddyline.cql.printing import format_plan
from eddyline.plan.logical import BoundQuery

INTEGER, TIMESTAMP = TimeKind.INTEGER, TimeKind.TIMESTAMP


def schema(**columns: pa.DataType) -> Schema:
    return Schema(tuple(Field(n, t) for n, t in columns.items()))


def make_catalog() -> Catalog:
    """Streams S, R, W on integer time, P and Q on timestamps; relations T (constant) and U (changing)."""
    c = Catalog()
    long, text, double = pa.int64(), pa.string(), pa.float64()
    c.add("streams", StreamDef("S", schema(a=long, b=long, name=text, t=long), INTEGER, "t"))
    c.add("streams", StreamDef("R", schema(a=long, c=long, t=long), INTEGER, "t"))
    c.add("streams", StreamDef("W", schema(Key=pa.int32(), v=double, ok=pa.bool_(), t=long), INTEGER, "t"))
    c.add("streams", StreamDef("P", schema(subnet=text, size=pa.int32(), ts=pa.timestamp("us")), TIMESTAMP, "ts"))
    c.add("streams", StreamDef("Q", schema(subnet=text, d=pa.date32(), ts=pa.timestamp("us")), TIMESTAMP, "ts"))
    c.add("relations", RelationDef("T", schema(a=long, label=text)))
    c.add("relations", RelationDef("U", schema(a=long, price=double, t=long), INTEGER, "t", key=("a",)))
    c.add("functions", FunctionDef("suspicious", lambda x: bool(x), pa.bool_(), (pa.string(),)))
    c.add("functions", FunctionDef("anything", lambda *x: 1, pa.int64()))
    c.add("aggregates", AggregateDef("median", lambda values: sorted(values)[len(values) // 2], double))
    return c


def bound(text: str, **views: str) -> BoundQuery:
    c = make_catalog()
    for name, query in views.items():
        c.add("views", bind(query, c), name)
    return bind(text, c)


def plan(text: str, **views: str) -> str:
    """The plan as a tree."""
    return format_plan(bound(text, **views).plan)


def names(text: str) -> tuple[str, ...]:
    return bound(text).plan.schema.names


def condition(text: str) -> str:
    """The bound form of a condition over ``S [ROWS 5], W [ROWS 5]``, in the join or above it."""
    shown = plan(f"SELECT 1 AS one FROM S [ROWS 5], W [ROWS 5] WHERE {text}").splitlines()[1]
    return shown.removeprefix("└─ ").removeprefix("select ").removeprefix("join on ")


def value(text: str) -> str:
    """The bound form of a select item over ``S [ROWS 5], W [ROWS 5]``."""
    shown = plan(f"SELECT {text} AS x FROM S [ROWS 5], W [ROWS 5]").splitlines()[0]
    return shown.removeprefix("project ").removesuffix(" AS x")


def error(text: str, **views: str) -> CqlError:
    with pytest.raises(CqlError) as caught:
        bound(text, **views)
    return caught.value


def underlined(e: CqlError) -> str:
    assert e.span is not None, e.message
    return e.text[e.span.start : e.span.end]
