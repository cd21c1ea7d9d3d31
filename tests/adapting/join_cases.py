"""Random joins as CQL text, with their data: two to seven inputs on stars, chains and cycles, and options for them.

Windows hold few rows each, so that the reference can afford the product of seven of them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

from eddyline.core.errors import JobError
from eddyline.cql import bind
from eddyline.testing.case_data import TimeScale, draw_relation, draw_scale, draw_stream
from eddyline.testing.cases import Case
from eddyline.testing.reference import RelationData, StreamData

SHAPES = ("star", "chain", "cycle", "class", "loose")
RELATIONS = "KPQBR"
# Policies that decide after a few elements; A-Caching selects every few of them, on next to no evidence.
ORDERS = tuple(f"{n}(p=0.7, window=6)" for n in ("independent", "a-greedy", "sweep", "local-swaps", "default"))
HASTY = "interval=8, W=1, W_d=2, threshold=0.001"
CACHES = (
    f"prefix({HASTY})",
    f"global({HASTY})",
    f"global({HASTY}, m=12)",
    f"global({HASTY}, memory=512, page=64)",
    f"prefix({HASTY}, memory=2048, page=128)",
    f"global({HASTY}, memory=0)",
    "global(interval=20, interval_time=3, W=2, W_d=3)",
)


@dataclass(frozen=True, slots=True)
class Shape:
    """How a case was made: for the messages of failures, and to see that all kinds were there."""

    name: str
    inputs: int
    aliases: tuple[str, ...]


def draw_join(rng: random.Random) -> tuple[Case, Shape]:
    """A case whose query joins ``inputs`` windows and relations."""
    while True:
        case, shape = _draw(rng)
        try:
            bind(case.text, case.catalog())
        except JobError:
            continue
        return case, shape


def _draw(rng: random.Random) -> tuple[Case, Shape]:
    inputs = rng.choice([2, 3, 3, 3, 4, 4, 5, 6, 7])
    scale = draw_scale(rng)
    aliases = [f"p{i}" for i in range(inputs)]
    kinds: list[str] = ["stream"] * inputs
    for i in range(1, inputs):
        if rng.random() < 0.15:
            kinds[i] = "relation"
    names = [f"S{rng.randrange(inputs)}" if k == "stream" else rng.choice(RELATIONS) for k in kinds]
    wide = rng.randrange(2 * inputs) if inputs < 5 else inputs  # at most one that keeps everything
    sources = [
        f"{n} {window(rng, scale, inputs, i == wide)} {a}" if k == "stream" else f"{n} {a}"
        for i, (n, k, a) in enumerate(zip(names, kinds, aliases, strict=True))
    ]
    shape = rng.choice(SHAPES)
    conditions = _conditions(rng, shape, aliases, kinds)
    columns = [f"{a}.{c}" for a, k in zip(aliases, kinds, strict=True) for c in ("abs" if k == "stream" else "kvw")]
    text = _select(rng, columns, f"FROM {', '.join(sources)} WHERE {' AND '.join(conditions)}")
    length = rng.choice([24, 40]) if inputs < 5 else 40
    most = {2: 60, 3: 50, 4: 44}.get(inputs, 40)
    values = 2 if inputs > 4 else rng.choice([2, 3])
    streams = {
        n: dense(rng, draw_stream(rng, rng.randint(most // 2, most), length, scale), values)
        for n, k in zip(names, kinds, strict=True)
        if k == "stream"
    }
    relations: dict[str, RelationData] = {
        n: dense_relation(draw_relation(rng, n, length // 2, scale), values)
        for n, k in zip(names, kinds, strict=True)
        if k == "relation"
    }
    to_stream = text.split("(")[0].removeprefix("SELECT ").lower() if "stream(" in text else "none"
    return Case(text, streams, relations, to_stream, scale=scale), Shape(shape, inputs, tuple(aliases))


def window(rng: random.Random, scale: TimeScale, inputs: int, wide: bool) -> str:
    rows, ticks = {2: (8, 12), 3: (8, 8), 4: (5, 5)}.get(inputs, (3, 3))
    width = scale.width(rng.randint(1, ticks), rng)
    kinds = [
        f"[ROWS {rng.randint(1, rows)}]",
        f"[ROWS {rng.randint(1, rows)}]",
        f"[RANGE {width}]",
        f"[RANGE {width}]",
        f"[RANGE {width}]",
        f"[RANGE {width} SLIDE {scale.width(rng.randint(1, 3), rng)}]",
        f"[PARTITION BY a ROWS {rng.randint(1, 2)}]",
        *(["[NOW]"] if inputs < 4 else []),
    ]
    return "[ROWS UNBOUNDED]" if wide else rng.choice(kinds)


def dense(rng: random.Random, data: StreamData, values: int) -> StreamData:
    """Few values, seldom NULL, so that joins of many inputs find something and caches are hit. Some streams repeat
    whole rows: equal rows in one window."""
    few = [_row(rng, values) for _ in range(rng.choice([2, 4, 50]))]
    return replace(data, elements=tuple((ts, {**row, **rng.choice(few)}) for ts, row in data.elements))


def dense_relation(data: RelationData, values: int) -> RelationData:
    """The same for relations; equal rows stay equal, so that deletions still find theirs."""

    def number(v: int | None) -> int | None:
        return None if v is None else v % values + 1

    rows = [
        {**r, "k": number(r["k"] or 1), "v": number(r["v"]), "w": "u" if r["w"] == "w" else r["w"]} for r in data.rows
    ]
    return replace(data, rows=tuple(rows))


def _row(rng: random.Random, values: int) -> dict[str, Any]:
    number = [1] * 4 + [*range(1, values + 1)] * 6 + [None]
    return {"a": rng.choice(number), "b": rng.choice(number), "s": rng.choice([*"uv"] * 8 + [None, ""])}


def _conditions(rng: random.Random, shape: str, aliases: list[str], kinds: list[str]) -> list[str]:
    m = len(aliases)
    match shape:
        case "star":
            pairs = [(0, i) for i in range(1, m)]
        case "cycle" if m > 2:
            pairs = [(i, (i + 1) % m) for i in range(m)]
        case _:
            pairs = [(i - 1, i) for i in range(1, m)]
    if shape == "loose" and m > 3:  # two parts that nothing connects: an inevitable product
        pairs.pop(rng.randrange(1, len(pairs)))
    fixed = rng.choice("ab") if shape == "class" else None
    found = []
    for i, j in pairs:
        x, y = _column(rng, kinds[i], fixed), _column(rng, kinds[j], fixed)
        if (x in "sw") != (y in "sw"):
            y = {"stream": "s", "relation": "w"}[kinds[j]] if x in "sw" else _number(rng, kinds[j])
        found.append(f"{aliases[i]}.{x} = {aliases[j]}.{y}")
        if rng.random() < 0.1:
            found.append(f"{aliases[i]}.{_number(rng, kinds[i])} = {aliases[j]}.{_number(rng, kinds[j])}")
    if m > 3 and rng.random() < 0.2 and shape != "class":
        found.pop(rng.randrange(len(found)))
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        i, j = rng.sample(range(m), 2)
        left, right = f"{aliases[i]}.{_number(rng, kinds[i])}", f"{aliases[j]}.{_number(rng, kinds[j])}"
        op = rng.choice(["<", "<=", ">", ">=", "<>"])
        found.append(rng.choice([f"{left} {op} {right}", f"{left} {op} {right}", f"{left} + {right} {op} 3"]))
    rng.shuffle(found)
    return found or ["1 = 1"]


def _column(rng: random.Random, kind: str, fixed: str | None) -> str:
    if fixed is not None:
        return fixed if kind == "stream" else "k"
    return rng.choice("aabs" if kind == "stream" else "kkvw")


def _number(rng: random.Random, kind: str) -> str:
    return rng.choice("ab" if kind == "stream" else "kv")


def _select(rng: random.Random, columns: list[str], tail: str) -> str:
    chosen = [f"{c} AS c{i}" for i, c in enumerate(rng.sample(columns, rng.randint(1, min(5, len(columns)))))]
    kind = rng.choice(["Istream", "Istream", "Dstream", "Rstream", ""])
    listed = ", ".join(chosen)
    if rng.random() < 0.1:
        key = chosen[0].split(" AS ")[0]
        listed, tail = f"{chosen[0]}, count(*) AS n", f"{tail} GROUP BY {key}"
    elif rng.random() < 0.1:
        return f"SELECT {kind}(DISTINCT {listed}) {tail}" if kind else f"SELECT DISTINCT {listed} {tail}"
    return f"SELECT {kind}({listed}) {tail}" if kind else f"SELECT {listed} {tail}"


def draw_options(rng: random.Random, shape: Shape) -> dict[str, Any]:
    """Any policies, seldom the defaults; or a tree."""
    kind = rng.random()
    if kind < 0.15:
        return {"tree": draw_tree(rng, list(shape.aliases))}
    options: dict[str, Any] = {}
    if kind < 0.9:
        options["joins"] = rng.choice([*ORDERS, "static"])
    if kind > 0.2:
        options["caches"] = rng.choice([*CACHES, *CACHES, "none"])
    return options


def draw_tree(rng: random.Random, names: list[str]) -> str:
    parts = list(names)
    rng.shuffle(parts)
    while len(parts) > 1:
        size = min(len(parts), rng.choice([2, 2, 2, 3]))
        inner = [parts.pop(rng.randrange(len(parts))) for _ in range(size)]
        parts.append(f"({', '.join(inner)})")
    return parts[0]
