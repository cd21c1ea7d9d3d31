"""Random queries with aggregates, of groups and of whole relations."""

from __future__ import annotations

from collections.abc import Sequence

from eddyline.testing.case_blocks import Block, Writer
from eddyline.testing.case_expressions import Attribute, Type


def aggregate_block(writer: Writer, depth: int) -> Block:
    source = writer.source(depth, nested=0.4)
    scope = source.scope()
    conditions = [writer.expressions.predicate(scope, 1)] if writer.rng.random() < 0.35 else []
    return grouped(writer, scope, f"FROM {source.text}{writer.where(conditions)}", source.ordered)


def grouped(writer: Writer, scope: Sequence[Attribute], tail: str, ordered: bool) -> Block:
    keys = writer.items(scope, plain=writer.rng.random() < 0.8, most=2) if writer.rng.random() < 0.65 else ()
    keys = tuple(k for k in keys if "p" in k[0])  # a constant is no key
    edges = [c for c in scope if c.text.endswith((".window_start", ".window_end"))]
    if edges and writer.rng.random() < 0.6:
        chosen = writer.rng.choice(edges)
        keys = tuple(dict.fromkeys((*keys, (chosen.text, chosen.type))))
    calls = [_aggregate(writer, scope, ordered) for _ in range(writer.rng.randint(1, 3))]
    if keys:
        tail += f" GROUP BY {', '.join(text for text, _ in keys)}"
    if writer.rng.random() < 0.3:
        tail += f" HAVING {writer.rng.choice(['count(*) > 1', 'count(*) <= 2', 'count(*) <> 3'])}"
    return Block((*keys, *calls), tail)


def _aggregate(writer: Writer, scope: Sequence[Attribute], ordered: bool) -> tuple[str, Type]:
    if writer.approximate and writer.rng.random() < 0.7:
        error = writer.rng.choice([0.25, 0.25, 0.1, 0.01])
        if writer.rng.random() < 0.5:
            return f"approx_count_distinct({writer.rng.choice(list(scope)).text}, {error})", "int"
        share = writer.rng.choice([0, 0.1, 0.5, 0.9, 1])
        value = writer.expressions.value(scope, writer.rng.choice(["int", "double"]), 1)
        return f"approx_percentile({value}, {share}, {error})", "double"
    functions = ["count", "count", "sum", "sum", "avg", "min", "max", "stddev", "stddev_pop", "variance", "var_pop"]
    function = writer.rng.choice([*functions, *(["first", "last"] if ordered else [])])
    column = writer.rng.choice(list(scope))
    if function == "count":
        if writer.rng.random() < 0.5:
            return "count(*)", "int"
        return f"count({writer.rng.choice(['', 'DISTINCT '])}{column.text})", "int"
    if function in ("min", "max", "first", "last"):
        return f"{function}({column.text})", column.type
    type_: Type = writer.rng.choice(["int", "double"])
    argument = writer.expressions.value(scope, type_, 1)
    distinct = "DISTINCT " if function in ("sum", "avg") and writer.rng.random() < 0.2 else ""
    only = f" FILTER (WHERE {writer.expressions.predicate(scope, 1)})" if writer.rng.random() < 0.15 else ""
    return f"{function}({distinct}{argument}){only}", type_ if function == "sum" else "double"
