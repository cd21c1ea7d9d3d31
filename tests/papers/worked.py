"""The worked-out results of the papers' queries: ``results/*.toml`` as data."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from eddyline.core.catalog import Catalog
from eddyline.core.schema import Schema
from eddyline.cql import bind
from eddyline.testing import Reference, table
from tests.papers.catalogs import PaperQuery, catalog, paper_queries

FOLDER = Path(__file__).with_name("results")


@dataclass(frozen=True)
class Worked:
    """A query with small data and its whole answer, which the engine had no part in."""

    key: str
    query: PaperQuery
    text: str
    by: str
    how: str
    expected: str
    streams: Mapping[str, pa.Table] = field(repr=False)
    relations: Mapping[str, pa.Table] = field(repr=False)

    @property
    def answer(self) -> pa.Table:
        return table(self.expected)

    def reference(self) -> pa.Table:
        """The answer of the reference interpreter, in the form of the expected one."""
        bound = bind(self.text, catalog(self.query.catalog))
        streams = {n: [(row["ts"], row) for row in t.to_pylist()] for n, t in self.streams.items()}
        relations = {n: t.to_pylist() for n, t in self.relations.items()}
        rows = Reference(bound, streams, relations).run()
        names = [*bound.plan.schema.names, "_time"] + ([] if bound.is_stream else ["_sign"])
        types = [*(f.type for f in bound.plan.schema), pa.int64()] + ([] if bound.is_stream else [pa.int8()])
        values = [(*r.values, r.time) if r.sign is None else (*r.values, r.time, r.sign) for r in rows]
        columns = [pa.array([v[i] for v in values], t) for i, t in enumerate(types)]
        return pa.table(columns, names=names)


def worked_results() -> list[Worked]:
    queries = {q.key: q for q in paper_queries()}
    entries: dict[str, dict[str, Any]] = {}
    for path in sorted(FOLDER.glob("*.toml")):
        entries |= tomllib.loads(path.read_text(encoding="utf-8"))
    return [_worked(key, entry, entries, queries) for key, entry in entries.items()]


def _worked(
    key: str, entry: Mapping[str, Any], entries: Mapping[str, Any], queries: Mapping[str, PaperQuery]
) -> Worked:
    query = queries[entry.get("query", key)]
    text = query.text
    for old, new in entry.get("instead", {}).items():
        assert old in text, f"{key}: {old!r} is not in the query"
        text = text.replace(old, new)
    data = entries[entry.get("data", key)]
    schemas = catalog(query.catalog)
    streams = {n: _typed(t, _schema(schemas, n)) for n, t in data["streams"].items()}
    relations = {n: _typed(t, _schema(schemas, n)) for n, t in data.get("relations", {}).items()}
    return Worked(key, query, text, entry["by"], entry["how"], entry["expected"], streams, relations)


def _schema(schemas: Catalog, name: str) -> Schema:
    found = schemas.streams.get(name.lower()) or schemas.relations[name.lower()]
    return found.schema


def _typed(text: str, schema: Schema) -> pa.Table:
    raw = table(text)
    return pa.table([raw[f.name].cast(f.type) for f in schema], schema=schema.to_arrow())
