"""Random cases: a query as text, streams with ties, NULLs, disorder and late rows, and relations.

``draw_case(random.Random(seed))`` is deterministic. Time is a small range of integers and keys come from tiny domains,
so that windows overlap, joins match and groups collide.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from eddyline.core.catalog import Catalog, RelationDef, StreamDef
from eddyline.core.errors import JobError
from eddyline.core.schema import Schema
from eddyline.plan.logical import BoundQuery
from eddyline.testing.case_data import TimeScale, draw_relation, draw_scale, draw_stream
from eddyline.testing.case_queries import CLOSING_TO_STREAM, OPERATORS, RELATIONS, TO_STREAM, Focus, QueryWriter
from eddyline.testing.case_windows import CLOSING_WINDOWS, WINDOWS
from eddyline.testing.coverage import Cell, features
from eddyline.testing.reference import Element, Reference, RelationData, ResultRow, StreamData

# Elements per stream by the number of inputs: a product of windows must stay small for the reference.
_ELEMENTS: Final = {1: (6, 36), 2: (8, 26), 3: (8, 18), 4: (7, 13)}


@dataclass(frozen=True, slots=True)
class Case:
    """A query, its inputs in order of arrival, and what the query covers."""

    text: str
    streams: Mapping[str, StreamData]
    relations: Mapping[str, RelationData]
    to_stream: str = "none"
    views: Mapping[str, str] = field(default_factory=dict)
    scale: TimeScale = field(default_factory=TimeScale)
    refused: tuple[str, ...] = field(default=(), compare=False)  # texts that the binder refused on the way here

    def catalog(self) -> Catalog:
        from eddyline.cql import bind

        catalog = Catalog()
        schema = Schema.from_arrow(self.scale.schema())
        for name, data in self.streams.items():
            unique = (data.unique,) if data.unique else ()
            definition = StreamDef(name, schema, self.scale.kind, "ts", data.slack, auto=data.auto, unique=unique)
            catalog.add("streams", replace(definition, within=data.within))
        for name, rows in self.relations.items():
            kind = self.scale.kind if rows.timestamp else None
            relation_schema = Schema.from_arrow(self.scale.relation_schema(name))
            catalog.add("relations", RelationDef(name, relation_schema, kind, rows.timestamp, rows.key, rows.sign))
        for name, text in self.views.items():
            catalog.add("views", bind(text, catalog), name)
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
        return replace(self, streams={**self.streams, stream: replace(data, elements=tuple(elements))})

    def with_rows(self, relation: str, rows: Sequence[Mapping[str, Any]]) -> Case:
        return replace(
            self, relations={**self.relations, relation: replace(self.relations[relation], rows=tuple(rows))}
        )

    def snippet(self) -> str:
        """Python text that rebuilds the case."""
        lines = ["import datetime", "from math import inf, nan", "from eddyline.core.time import TimeKind"]
        lines += ["from eddyline.testing.case_data import TimeScale", "from eddyline.testing.cases import Case"]
        lines += ["from eddyline.testing.reference import RelationData, StreamData", "", "case = Case("]
        lines += [f"    {self.text!r},", "    streams={"]
        for name, data in self.streams.items():
            lines += [f"        {name!r}: StreamData(", "            ["]
            lines += [f"                ({ts}, {dict(row)})," for ts, row in data.elements]
            keys = f" unique={data.unique!r}, within={data.within}," if data.unique else ""
            lines += ["            ],", f"            slack={data.slack}, auto={data.auto!r},{keys}", "        ),"]
        lines += ["    },", "    relations={"]
        for name, rows in self.relations.items():
            lines += [f"        {name!r}: RelationData(", "            ["]
            lines += [f"                {dict(row)}," for row in rows.rows]
            lines += ["            ],", f"            {rows.timestamp!r}, {rows.key!r}, {rows.sign!r},", "        ),"]
        lines += ["    },", f"    to_stream={self.to_stream!r},", f"    views={dict(self.views)!r},"]
        kind, unit, origin, expiring = str(self.scale.kind), self.scale.unit, self.scale.origin, self.scale.expiring
        lines += [f"    scale=TimeScale({kind}, {unit}, {origin}, {expiring}),", ")"]
        return "\n".join(lines)


def draw_case(rng: random.Random, focus: Focus | None = None, plain: bool = False) -> Case:
    """A case around a focus. What the binder refuses is drawn again (and noted in ``refused``).

    ``plain`` keeps to integer time, windows in brackets and relations without changes, for comparisons with others.
    """
    from eddyline.cql import bind

    if focus is None and not plain and rng.random() < 0.3:
        focus = Focus(rng.choice(OPERATORS), rng.choice(CLOSING_WINDOWS), rng.choice(CLOSING_TO_STREAM))
    if focus is None:
        focus = Focus(rng.choice(OPERATORS), rng.choice(WINDOWS), rng.choice(TO_STREAM))
    refused: list[str] = []
    while True:
        scale = TimeScale() if plain else draw_scale(rng)
        if focus.window in CLOSING_WINDOWS:
            scale = replace(scale, expiring=True)
        writer = QueryWriter(rng, focus, scale, plain)
        text = writer.query()
        case = draw_data(rng, text, writer, scale)
        try:
            bind(text, case.catalog())
        except JobError as error:
            refused.append(f"{text}\n  {error}")
            if len(refused) > 50:
                raise AssertionError(f"the binder refuses everything around {focus}:\n" + "\n".join(refused)) from None
            continue
        return replace(case if plain else _with_keys(case), refused=tuple(refused))


def _with_keys(case: Case) -> Case:
    """One stream in eight declares a key, which some of its elements repeat. What is drawn depends on the elements
    alone, so that the other streams of a seed stay as they are."""
    streams = dict(case.streams)
    for name, data in case.streams.items():
        rng = random.Random(f"{name} {data.elements}")
        if rng.random() < 0.125:
            unique = rng.choice([("b",), ("a", "b"), ("s",), ("x",), ("b", "s", "x")])
            within = rng.choice([None, rng.randint(0, 9) * case.scale.unit])
            streams[name] = replace(data, unique=unique, within=within)
    return replace(case, streams=streams)


def draw_data(rng: random.Random, text: str, writer: QueryWriter, scale: TimeScale) -> Case:
    used = writer.used
    names = [n for n in dict.fromkeys(used) if n not in RELATIONS]
    least, most = _ELEMENTS[min(4, max(1, len(used)))]
    length = rng.choice([12, 25, 40, 60]) if len(used) == 1 else rng.choice([9, 15, 30, 45])
    streams = {n: draw_stream(rng, rng.randint(least, most), length, scale) for n in names}
    relations = {n: draw_relation(rng, n, length, scale) for n in dict.fromkeys(used) if n in RELATIONS}
    return Case(text, streams, relations, writer.focus.to_stream, writer.views, scale)
