"""Puts a query to the engine and to the reference and hands back the answer on which they agree.

Streams and relations are lists of tuples under columns of integers (``ts, a, b, c`` and ``t, k, v`` unless said
otherwise). The engine answers three times: element by element, stream after stream, and in batches of three.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import eddyline
from eddyline.cql import bind
from eddyline.testing.reference import Reference, RelationData, StreamData
from eddyline.testing.values import row_key

SECOND = 1_000_000
INT, DOUBLE, STRING, TIMESTAMP = pa.int64(), pa.float64(), pa.string(), pa.timestamp("us")
Answer = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Stream:
    """Elements in order of arrival; the first column is the time, in ticks."""

    rows: Sequence[tuple[Any, ...]]
    slack: int = 0  # in ticks
    columns: Sequence[str] = ("ts", "a", "b", "c")
    types: Mapping[str, pa.DataType] = field(default_factory=dict)

    def schema(self) -> pa.Schema:
        width = max((len(r) for r in self.rows), default=2)
        return pa.schema([(c, self.types.get(c, INT)) for c in self.columns[:width]])

    def dicts(self) -> list[dict[str, Any]]:
        schema = self.schema()
        return [{f.name: _value(v, f.type) for f, v in zip(schema, row, strict=True)} for row in self.rows]


@dataclass(frozen=True, slots=True)
class Relation:
    """Rows; with ``timestamp`` they are elements in order of arrival."""

    rows: Sequence[tuple[Any, ...]]
    timestamp: str | None = None
    key: tuple[str, ...] = ()
    sign: str | None = None
    columns: Sequence[str] = ("k", "v")
    types: Mapping[str, pa.DataType] = field(default_factory=dict)

    def schema(self) -> pa.Schema:
        return pa.schema([(c, self.types.get(c, INT)) for c in self.columns])

    def dicts(self) -> list[dict[str, Any]]:
        schema = self.schema()
        return [{f.name: _value(v, f.type) for f, v in zip(schema, row, strict=True)} for row in self.rows]


def _value(value: Any, kind: pa.DataType) -> Any:
    if value is not None and pa.types.is_timestamp(kind):
        return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=value)
    return value


def ask(
    text: str,
    relations: Mapping[str, Relation] | None = None,
    views: Mapping[str, str] | None = None,
    **streams: Stream | list[tuple[Any, ...]],
) -> Answer:
    """(time, *values) for streams and (time, sign, *values) for relations, sorted; times are ticks."""
    inputs = {n: s if isinstance(s, Stream) else Stream(s) for n, s in streams.items()}
    held = dict(relations or {})
    expected = refer(text, inputs, held, views or {})
    for order in (by_element, one_after_another, in_threes):
        answer = run(text, inputs, held, views or {}, list(order(inputs, held)))
        assert Counter(map(row_key, answer)) == Counter(map(row_key, expected)), (
            f"{order.__name__}: the engine says {answer}, the reference {expected}"
        )
    return sorted(expected, key=row_key)


def declare(inputs: Mapping[str, Stream], held: Mapping[str, Relation], views: Mapping[str, str]) -> eddyline.Session:
    session = eddyline.Session()
    for name, s in inputs.items():
        schema = s.schema()
        kind = schema.field(s.columns[0]).type
        slack = s.slack / SECOND if pa.types.is_timestamp(kind) else s.slack
        session.stream(name, schema=schema, timestamp=s.columns[0], slack=slack)
    for name, r in held.items():
        if r.timestamp is None:
            session.relation(name, pa.Table.from_pylist(r.dicts(), r.schema()), key=r.key)
        else:
            session.relation(name, timestamp=r.timestamp, key=r.key, sign=r.sign, schema=r.schema())
    for name, text in views.items():
        session.view(name, text)
    return session


def refer(
    text: str, inputs: Mapping[str, Stream], held: Mapping[str, Relation], views: Mapping[str, str]
) -> list[tuple[Any, ...]]:
    query = bind(text, declare(inputs, held, views).catalog)
    streams = {
        n: StreamData([(t[0], row) for t, row in zip(s.rows, s.dicts(), strict=True)], s.slack)
        for n, s in inputs.items()
    }
    relations = {n: RelationData(r.dicts(), r.timestamp, r.key, r.sign) for n, r in held.items()}
    rows = Reference(query, streams, relations).run()
    return [(t, *values) if sign is None else (t, sign, *values) for t, values, sign in rows]


def run(
    text: str,
    inputs: Mapping[str, Stream],
    held: Mapping[str, Relation],
    views: Mapping[str, str],
    pushes: Sequence[tuple[str, list[dict[str, Any]]]],
) -> Answer:
    session = declare(inputs, held, views)
    query = session.query(text)
    for name, rows in pushes:
        schema = (inputs[name] if name in inputs else held[name]).schema()
        session.push(name, pa.RecordBatch.from_pylist(rows, schema))
    session.finish()
    return rows_of(query.to_arrow())


def rows_of(table: pa.Table) -> Answer:
    """Results as tuples, in the order in which they came; times must not decrease, − comes before +."""
    signed = "_sign" in table.schema.names
    columns = table.columns[: -2 if signed else -1]
    times = table.column("_time").cast(INT).to_pylist()
    signs = table.column("_sign").to_pylist() if signed else None
    values = list(zip(*(c.to_pylist() for c in columns), strict=True)) if columns else [()] * len(times)
    assert times == sorted(times)
    if signs is None:
        return [(t, *v) for t, v in zip(times, values, strict=True)]
    together = list(zip(times, signs, strict=True))
    assert together == sorted(together)
    return [(t, s, *v) for t, s, v in zip(times, signs, values, strict=True)]


Pushes = Iterator[tuple[str, list[dict[str, Any]]]]


def _queues(inputs: Mapping[str, Stream], held: Mapping[str, Relation]) -> dict[str, list[dict[str, Any]]]:
    timed = {n: r.dicts() for n, r in held.items() if r.timestamp is not None}
    return {n: s.dicts() for n, s in inputs.items()} | timed


def by_element(inputs: Mapping[str, Stream], held: Mapping[str, Relation]) -> Pushes:
    queues = _queues(inputs, held)
    while any(queues.values()):
        for name, rows in queues.items():
            if rows:
                yield name, [rows.pop(0)]


def one_after_another(inputs: Mapping[str, Stream], held: Mapping[str, Relation]) -> Pushes:
    yield from reversed(list(_queues(inputs, held).items()))


def in_threes(inputs: Mapping[str, Stream], held: Mapping[str, Relation]) -> Pushes:
    queues = _queues(inputs, held)
    while any(queues.values()):
        for name in queues:
            part, queues[name] = queues[name][:3], queues[name][3:]
            if part:
                yield name, part
