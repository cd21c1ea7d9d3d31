"""Random cases: a query as text, streams with ties, NULLs, disorder and late rows, and relations.

``draw_case(random.Random(seed))`` is deterministic. Time is a small range of integers and keys come from tiny domains,
so that windows overlap, joins match and groups collide.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from eddyline.core.catalog import Catalog, RelationDef, StreamDef
from eddyline.core.errors import JobError
from eddyline.core.schema import Schema
from eddyline.core.time import TimeKind
from eddyline.plan.logical import BoundQuery
from eddyline.testing.case_queries import (
    OPERATORS,
    RELATION_COLUMNS,
    RELATIONS,
    STREAM_COLUMNS,
    TO_STREAM,
    WINDOWS,
    Focus,
    QueryWriter,
)
from eddyline.testing.coverage import Cell, features
from eddyline.testing.reference import Element, Reference, RelationData, ResultRow, StreamData

_ARROW: Final = {"int": pa.int64(), "double": pa.float64(), "string": pa.string()}
STREAM_SCHEMA: Final = pa.schema([(n, _ARROW[t]) for n, t in STREAM_COLUMNS])
RELATION_SCHEMAS: Final = {
    "K": pa.schema([(n, _ARROW[t]) for n, t in RELATION_COLUMNS]),
    "P": pa.schema([("t", pa.int64()), *((n, _ARROW[t]) for n, t in RELATION_COLUMNS)]),
    "Q": pa.schema([("t", pa.int64()), ("g", pa.int64()), *((n, _ARROW[t]) for n, t in RELATION_COLUMNS)]),
}
# Elements per stream by the number of inputs: a product of windows must stay small for the reference.
_ELEMENTS: Final = {1: (6, 36), 2: (8, 26), 3: (8, 18), 4: (7, 13)}


@dataclass(frozen=True, slots=True)
class Case:
    """A query, its inputs in order of arrival, and what the query covers."""

    text: str
    streams: Mapping[str, StreamData]
    relations: Mapping[str, RelationData]
    to_stream: str = "none"
    refused: tuple[str, ...] = field(default=(), compare=False)  # texts that the binder refused on the way here

    def catalog(self) -> Catalog:
        catalog = Catalog()
        schema = Schema.from_arrow(STREAM_SCHEMA)
        for name, data in self.streams.items():
            catalog.add("streams", StreamDef(name, schema, TimeKind.INTEGER, timestamp="ts", slack=data.slack))
        for name, rows in self.relations.items():
            kind = TimeKind.INTEGER if rows.timestamp else None
            relation_schema = Schema.from_arrow(RELATION_SCHEMAS[name])
            catalog.add("relations", RelationDef(name, relation_schema, kind, rows.timestamp, rows.key, rows.sign))
        return catalog

    def bound(self) -> BoundQuery:
        from eddyline.cql import bind

        return bind(self.text, self.catalog())

    def reference(self) -> Reference:
        return Reference(self.bound(), self.streams, self.relations)

    def expected(self) -> list[ResultRow]:
        return self.reference().run()

    def features(self) -> frozenset[Cell]:
        return features(self.bound().plan, self.to_stream)

    @property
    def ties(self) -> bool:
        times = [ts for data in self.streams.values() for ts, _ in data.elements]
        return len(set(times)) < len(times)

    @property
    def nulls(self) -> bool:
        return any(v is None for data in self.streams.values() for _, row in data.elements for v in row.values())

    def with_elements(self, stream: str, elements: Sequence[Element]) -> Case:
        data = self.streams[stream]
        return replace(self, streams={**self.streams, stream: StreamData(tuple(elements), data.slack)})

    def with_rows(self, relation: str, rows: Sequence[Mapping[str, Any]]) -> Case:
        return replace(
            self, relations={**self.relations, relation: replace(self.relations[relation], rows=tuple(rows))}
        )

    def snippet(self) -> str:
        """Python text that rebuilds the case."""
        lines = ["from math import inf, nan", "from eddyline.testing.cases import Case", ""]
        lines += ["from eddyline.testing.reference import RelationData, StreamData", "", "case = Case("]
        lines += [f"    {self.text!r},", "    streams={"]
        for name, data in self.streams.items():
            lines += [f"        {name!r}: StreamData(", "            ["]
            lines += [f"                ({ts}, {dict(row)})," for ts, row in data.elements]
            lines += ["            ],", f"            slack={data.slack},", "        ),"]
        lines += ["    },", "    relations={"]
        for name, rows in self.relations.items():
            lines += [f"        {name!r}: RelationData(", "            ["]
            lines += [f"                {dict(row)}," for row in rows.rows]
            lines += ["            ],", f"            {rows.timestamp!r}, {rows.key!r}, {rows.sign!r},", "        ),"]
        lines += ["    },", f"    to_stream={self.to_stream!r},", ")"]
        return "\n".join(lines)


def draw_case(rng: random.Random, focus: Focus | None = None) -> Case:
    """A case around a focus. What the binder refuses is drawn again (and noted in ``refused``)."""
    from eddyline.cql import bind

    if focus is None:
        focus = Focus(rng.choice(OPERATORS), rng.choice(WINDOWS), rng.choice(TO_STREAM))
    refused: list[str] = []
    while True:
        writer = QueryWriter(rng, focus)
        text = writer.query()
        case = draw_data(rng, text, writer.used, focus)
        try:
            bind(text, case.catalog())
        except JobError as error:
            refused.append(f"{text}\n  {error}")
            if len(refused) > 50:
                raise AssertionError(f"the binder refuses everything around {focus}:\n" + "\n".join(refused)) from None
            continue
        return replace(case, refused=tuple(refused))


def draw_data(rng: random.Random, text: str, used: Sequence[str], focus: Focus) -> Case:
    names = [n for n in dict.fromkeys(used) if n not in RELATIONS]
    least, most = _ELEMENTS[min(4, max(1, len(used)))]
    length = rng.choice([12, 25, 40, 60]) if len(used) == 1 else rng.choice([9, 15, 30, 45])
    streams = {n: draw_stream(rng, rng.randint(least, most), length) for n in names}
    relations = {n: draw_relation(rng, n, length) for n in dict.fromkeys(used) if n in RELATIONS}
    return Case(text, streams, relations, focus.to_stream)


def draw_stream(rng: random.Random, count: int, length: int) -> StreamData:
    """Elements in order of arrival: disorder within the slack, a few rows beyond it, seldom a row without a time."""
    slack = rng.choice([0, 0, 1, 3, 6])
    start = rng.choice([0, 0, rng.randint(0, length // 3)])
    times = [rng.randint(start, length) for _ in range(count)]
    # Ties: elements come in bursts, at times in so few that a window of rows passes over whole elements at once.
    bursts, share = rng.choice([(count // 3, 0.0), (count // 3, 0.6), (count // 3, 0.6), (2, 0.8)])
    instants = rng.choices(range(start, length + 1), k=max(2, bursts))
    times = [rng.choice(instants) if rng.random() < share else t for t in times]
    arrival = sorted(times, key=lambda t: t + rng.uniform(0, slack))
    for _ in range(rng.choice([0, 0, 1, 2])):  # held up on the way, most of them for too long
        late = arrival.pop(rng.randrange(len(arrival)))
        arrival.insert(rng.randint(0, len(arrival)), late)
    elements: list[Element] = [(ts, draw_row(rng, ts)) for ts in arrival]
    if rng.random() < 0.08:
        elements.insert(rng.randint(0, len(elements)), (None, draw_row(rng, None)))
    return StreamData(tuple(elements), slack)


def draw_row(rng: random.Random, ts: int | None) -> dict[str, Any]:
    return {
        "ts": ts,
        "a": rng.choice([1, 2, 3, rng.choice([1, 2, None])]),
        "b": rng.choice([0, 1, 2, 3, 4, None]),
        "x": rng.choice([rng.randint(-4, 12) / 4] * 12 + [None, None, 0.1, float("nan"), float("inf"), -0.0]),
        "s": rng.choice(["u", "u", "v", "w", "", None]),
    }


def draw_relation(rng: random.Random, name: str, length: int) -> RelationData:
    rows: list[dict[str, Any]] = [
        {"k": rng.choice([1, 2, 3, None]), "v": rng.randint(0, 4), "w": rng.choice(["u", "v", "w", None])}
        for _ in range(rng.randint(0, 6))
    ]
    if name == "K":
        return RelationData(tuple(rows))
    times = sorted(rng.randint(0, length) for _ in rows)
    if name == "P":
        keyed = [{"t": t, **row} for t, row in zip(times, rows, strict=True)]
        return RelationData(tuple(keyed), timestamp="t", key=("k",))
    signed: list[dict[str, Any]] = []
    held: list[dict[str, Any]] = []
    for t, row in zip(times, rows, strict=True):
        if held and rng.random() < 0.4:  # only what is there is deleted
            signed.append({"t": t, "g": -1, **held.pop(rng.randrange(len(held)))})
        else:
            held.append(row)
            signed.append({"t": t, "g": 1, **row})
    return RelationData(tuple(signed), timestamp="t", sign="g")
