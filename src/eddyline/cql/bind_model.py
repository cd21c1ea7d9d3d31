"""Queries on models: ``MODEL`` and segment tables in FROM, and the clauses at the end.

A query is one on models if it reads a segment stream, or carries ``MODEL`` or a clause of models. It is bound like any
other, with modelled values as columns of doubles, and then translated (``plan.models``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from eddyline.core.catalog import StreamDef
from eddyline.core.errors import CqlError, did_you_mean
from eddyline.core.schema import Field, Schema
from eddyline.core.time import TimeKind
from eddyline.cql.defaults import Bound
from eddyline.cql.dialect import Source
from eddyline.cql.model_syntax import ModelClauses, parse_model
from eddyline.cql.scans import scan_of
from eddyline.cql.scope import Context
from eddyline.cql.windows import IntervalText, resolve_duration
from eddyline.expr.types import type_name
from eddyline.models.fitting import ErrorBound
from eddyline.models.segments import SegmentLayout
from eddyline.models.sources import DeclaredRows, FittedRows, Monomials, SegmentRows
from eddyline.plan.logical import ModelQuery, StreamScan
from eddyline.plan.models import ModelOptions, translate
from eddyline.plan.traverse import each


def stream_scan(context: Context, node: Source, stream: StreamDef, alias: str) -> StreamScan:
    """The scan of a declared stream; in a query on models it says how its rows are models."""
    models = node.args.get("models") or []
    layout: SegmentLayout | None = stream.segments
    if layout is not None:
        if models:
            raise context.error(f"{stream.name} holds segments, which are models already.", models[0])
        keys = tuple(Field(f"{alias}.{k}", stream.schema[k].type) for k in layout.key)
        schema = Schema((*keys, *(Field(f"{alias}.{v.name}", pa.float64()) for v in layout.values)))
        names = (*layout.key, *(v.name for v in layout.values))
        return StreamScan(stream.name, alias, schema, names, SegmentRows(layout))
    clauses: ModelClauses | None = context.clauses
    if clauses is not None and clauses.error is not None and not models:
        return _fitted(context, clauses, node, stream, alias)
    scan = scan_of(stream, alias)
    if not models:
        return scan
    model = _declared(context, models, stream, alias)
    modelled = {f"{alias}.{n}" for n, _ in model.values}
    schema = Schema(tuple(Field(f.name, pa.float64()) if f.name in modelled else f for f in scan.schema))
    return replace(scan, schema=schema, model=model)


def _fitted(context: Context, clauses: ModelClauses, node: Source, stream: StreamDef, alias: str) -> StreamScan:
    """A stream of samples: its signals are the columns of real numbers, its key the columns that identify an object."""
    values = [f for f in stream.schema if _is_real(f.type) and f.name != stream.timestamp]
    key = [f for f in stream.schema if _is_discrete(f.type) and f.name != stream.timestamp]
    if clauses.by:
        names = {n.lower() for n in clauses.by}
        key = [f for f in stream.schema if f.name.lower() in names]
        values = [
            f for f in stream.schema if _is_number(f.type) and f.name not in (stream.timestamp, *(k.name for k in key))
        ]
        if len(key) < len(names):
            missing = next(n for n in clauses.by if n.lower() not in {k.name.lower() for k in key})
            hint = did_you_mean(missing, stream.schema.names)
            raise CqlError(
                f"BY names a column of {stream.name}, and {missing!r} is none.{hint}", context.text, clauses.span
            )
    if not values:
        raise context.error(
            f"{stream.name} has no column of real numbers to fit: ERROR WITHIN … BY (key) takes whole numbers, too.",
            node,
        )
    fields = (
        *(Field(f"{alias}.{f.name}", f.type) for f in key),
        *(Field(f"{alias}.{f.name}", pa.float64()) for f in values),
    )
    names_of = tuple(f.name for f in (*key, *values))
    if stream.timestamp is not None:
        context.unread[stream.timestamp.lower()] = "each row of the result has its instant as _time"
    why = "it is no number, and BY does not name it" if clauses.by else "it is neither a number, a text nor a Boolean"
    for f in stream.schema:
        if f.name not in (*names_of, stream.timestamp):
            context.unread[f.name.lower()] = why
    model = FittedRows(tuple(f.name for f in key), tuple(f.name for f in values))
    return StreamScan(stream.name, alias, Schema(fields), names_of, model)


def _declared(context: Context, models: list[Any], stream: StreamDef, alias: str) -> DeclaredRows:
    values: dict[str, Monomials] = {}
    for node in models:
        column, terms = parse_model(context.text, node.meta["tokens"], (alias, stream.name), stream.schema.names)
        if column in values:
            raise context.error(f"MODEL has {column!r} twice.", node)
        monomials = tuple((power, factor, names) for power, sums in sorted(terms.items()) for factor, names in sums)
        for name in (column, *(n for _, _, names in monomials for n in names)):
            if not _is_number(stream.schema[name].type):
                message = f"MODEL computes with numbers, and {name!r} is {type_name(stream.schema[name].type)}."
                raise context.error(message, node)
        values[column] = monomials
    read = {n for terms in values.values() for _, _, names in terms for n in names} | set(values)
    # Keys are discrete, so the columns that are neither read nor continuous identify an object.
    key = tuple(
        f.name for f in stream.schema if f.name not in read and f.name != stream.timestamp and _is_discrete(f.type)
    )
    return DeclaredRows(key, tuple(values.items()))


def _is_number(type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_decimal(type))


def _is_real(type: pa.DataType) -> bool:
    return bool(pa.types.is_floating(type) or pa.types.is_decimal(type))


def _is_discrete(type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type) or pa.types.is_string(type) or pa.types.is_boolean(type))


def model_query(context: Context, query: exp.Expression, bound: Bound) -> ModelQuery:
    """The plan of a query on models."""
    if bound.kind is not None:
        message = f"a query on models gives samples or segments: leave {bound.kind.capitalize()} out."
        raise context.error(message, query)
    if any(isinstance(n, ModelQuery) for n in each(bound.plan)):
        raise context.error("a view of models cannot be read again: write its query in FROM.", query)
    kind = context.kinds[0][0] if context.kinds else TimeKind.INTEGER
    clauses: ModelClauses | None = query.meta.get("clauses")
    if clauses is not None and clauses.max_gap is not None and clauses.error is None:
        raise CqlError("MAX GAP belongs to ERROR WITHIN, or to the fit of a segment table.", context.text, clauses.span)

    def ticks(width: IntervalText | None) -> int | None:
        return None if width is None else resolve_duration(width, kind)

    options = ModelOptions()
    if clauses is not None:
        within = None if clauses.error is None else ErrorBound(clauses.error, clauses.relative, clauses.floor)
        options = ModelOptions(
            ticks(clauses.sample),
            ticks(clauses.horizon),
            clauses.partial,
            within,
            ticks(clauses.max_gap),
            clauses.predict,
            clauses.split,
        )
    place = clauses.span if clauses is not None else None
    return translate(
        bound.plan, context.catalog, kind, options, lambda message, span: context.error_at(message, span or place)
    )
