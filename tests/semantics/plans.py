"""Small builders of logical plans, so that hand-worked tests need no parser."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from eddyline.core.schema import Field, Schema
from eddyline.core.time import TimeKind
from eddyline.core.window import WindowSpec
from eddyline.expr.nodes import AggregateCall, Call, Column, Expr, Literal
from eddyline.plan.logical import BoundQuery, Plan, Project, StreamScan, ToStream, Window
from eddyline.testing.reference import Reference

INT, DOUBLE, BOOL = pa.int64(), pa.float64(), pa.bool_()


def stream(name: str, *columns: str, alias: str | None = None) -> StreamScan:
    alias = alias or name
    return StreamScan(name, alias, Schema(tuple(Field(f"{alias}.{c}", INT) for c in columns)), columns)


def window(spec: WindowSpec, name: str = "S", *columns: str, alias: str | None = None) -> Window:
    return Window(stream(name, *(columns or ("a",)), alias=alias), spec)


def col(name: str, type_: pa.DataType = INT) -> Column:
    return Column(name, type_)


def lit(value: Any, type_: pa.DataType = INT) -> Literal:
    return Literal(value, type_)


def call(function: str, *args: Expr, type_: pa.DataType = BOOL) -> Call:
    return Call(function, args, type_)


def agg(function: str, *args: Expr, type_: pa.DataType = INT, distinct: bool = False) -> AggregateCall:
    return AggregateCall(function, args, type_, distinct)


def pick(plan: Plan, *names: str) -> Project:
    return Project(plan, tuple((n, col(n, plan.schema[n].type)) for n in names))


def bound(plan: Plan) -> BoundQuery:
    return BoundQuery(None, plan, TimeKind.INTEGER, "")


def reference(plan: Plan, **inputs: Any) -> Reference:
    """Inputs whose name begins with a capital are streams; streams of one column may be given as (ts, value) pairs."""
    streams = {n: elements(e) if isinstance(e, list) else e for n, e in inputs.items() if n[0].isupper()}
    relations = {n: e for n, e in inputs.items() if not n[0].isupper()}
    return Reference(bound(plan), streams, relations)


def elements(pairs: list[tuple[int, Any]]) -> list[tuple[int, dict[str, Any]]]:
    return [(ts, value if isinstance(value, dict) else {"a": value}) for ts, value in pairs]


def run(plan: Plan, **inputs: Any) -> list[tuple[Any, ...]]:
    """(time, *values) for streams, (time, sign, *values) for relations."""
    rows = reference(plan, **inputs).run()
    return [(t, *values) if sign is None else (t, sign, *values) for t, values, sign in rows]


def istream(plan: Plan, **inputs: Any) -> list[tuple[Any, ...]]:
    return run(ToStream("istream", plan), **inputs)


def dstream(plan: Plan, **inputs: Any) -> list[tuple[Any, ...]]:
    return run(ToStream("dstream", plan), **inputs)


def rstream(plan: Plan, **inputs: Any) -> list[tuple[Any, ...]]:
    return run(ToStream("rstream", plan), **inputs)
