"""Streams in FROM: their scans, and whether a query is one on models (``bind_model``), which queries on tuples do not
load."""

from __future__ import annotations

from sqlglot import exp

from eddyline.core.catalog import Catalog, StreamDef
from eddyline.core.schema import Field, Schema
from eddyline.cql.dialect import Source
from eddyline.plan.logical import BoundQuery, ModelQuery, StreamScan


def scan_of(stream: StreamDef, alias: str) -> StreamScan:
    """All columns of a declared stream of tuples."""
    schema = Schema(tuple(Field(f"{alias}.{f.name}", f.type) for f in stream.schema))
    return StreamScan(stream.name, alias, schema, stream.schema.names, None)


def is_modelled(query: exp.Expression, catalog: Catalog) -> bool:
    """Whether a query is one on models, before it is bound."""
    if query.meta.get("clauses") is not None:
        return True
    for node in query.find_all(Source):
        if node.args.get("models"):
            return True
        if isinstance(node.this, exp.Identifier):
            stream = catalog.streams.get(node.this.name.lower())
            if stream is not None and stream.segments is not None:
                return True
            view = catalog.views.get(node.this.name.lower())
            if view is not None and _reads_values(query, view):
                return True
    return False


def _reads_values(query: exp.Expression, view: BoundQuery) -> bool:
    """Whether a query names a value of a view whose result is segments, which have coefficients: it asks for the
    polynomial, so it is on models."""
    plan = view.plan
    if not isinstance(plan, ModelQuery) or plan.program.sample is not None:
        return False
    names = {name.lower() for name, modelled in plan.program.columns if modelled}
    return any(column.name.lower() in names for column in query.find_all(exp.Column))
