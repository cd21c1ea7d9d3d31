"""Random queries with ranks: ``ORDER BY … LIMIT``, and ``ROW_NUMBER() OVER …`` in a subquery, bounded or not."""

from __future__ import annotations

from collections.abc import Sequence

from eddyline.testing.case_blocks import Block, Writer
from eddyline.testing.case_expressions import Attribute, Type
from eddyline.testing.case_memberships import membership


def ranked_block(writer: Writer, depth: int) -> Block:
    """The first rows of a source, a join or groups; by one or two keys, so that ties are frequent."""
    rng = writer.rng
    scope, tail = _ranked_source(writer, depth)
    if rng.random() < 0.4:
        items = writer.items(scope, plain=rng.random() < 0.8)
        skipped = f" OFFSET {rng.randint(1, 2)}" if rng.random() < 0.2 else ""
        tail = f"{tail} ORDER BY {_order(writer, scope)} LIMIT {rng.randint(1, 4)}{skipped}"
        return Block(items, tail)
    function = rng.choice(["ROW_NUMBER", "RANK", "DENSE_RANK"])
    alias = writer.alias()
    if rng.random() < 0.2:  # groups by how many rows they have
        key = rng.choice([c for c in scope if not c.text.endswith(".ts")])
        listed = f"{key.text} AS c0, count(*) AS c1, {function}() OVER (ORDER BY count(*)"
        listed += f"{rng.choice(['', ' DESC'])}) AS r"
        inner: list[Attribute] = [Attribute(f"{alias}.c0", key.type), Attribute(f"{alias}.c1", "int")]
        tail += f" GROUP BY {key.text}"
    else:
        items = writer.items(scope, plain=rng.random() < 0.8)
        by = rng.sample(list(scope), rng.randint(1, min(2, len(scope)))) if rng.random() < 0.7 else []
        partition = f"PARTITION BY {', '.join(c.text for c in by)} " if by else ""
        listed = ", ".join(f"{text} AS c{i}" for i, (text, _) in enumerate(items))
        listed += f", {function}() OVER ({partition}ORDER BY {_order(writer, scope)}) AS r"
        inner = [Attribute(f"{alias}.c{i}", t) for i, (_, t) in enumerate(items)]
    n = rng.randint(1, 4)
    bound = rng.choice(
        [f"r <= {n}", f"r <= {n}", f"r < {n + 1}", f"{n} >= {alias}.r", f"r = {n}", f"r BETWEEN 2 AND {n + 1}", ""]
    )
    conditions = [bound] if bound else []
    if rng.random() < 0.2:
        conditions.append(writer.expressions.predicate(inner, 1))
    outer: list[tuple[str, Type]] = [(c.text, c.type) for c in inner]
    if rng.random() < 0.6:
        outer.append((f"{alias}.r", "int"))
    return Block(tuple(outer), f"FROM (SELECT {listed} {tail}) {alias}{writer.where(conditions)}")


def _ranked_source(writer: Writer, depth: int) -> tuple[list[Attribute], str]:
    """One source, filtered or with a membership, or a join of two or three: what has one arrival, several, or none."""
    rng = writer.rng
    sources = [writer.source(depth, nested=0.25)]
    conditions: list[str] = []
    joined = rng.random()
    while joined < 0.5 and len(sources) < (3 if joined < 0.1 else 2):
        sources.append(writer.relation() if rng.random() < 0.25 else writer.stream())
        conditions += writer.equality(sources[0], sources[-1])
    scope = [c for s in sources for c in s.scope()]
    tables = ", ".join(s.text for s in sources)
    if len(sources) == 2 and conditions and joined < 0.25:
        kind = rng.choice(["LEFT", "RIGHT", "FULL"])
        tables = f"{sources[0].text} {kind} JOIN {sources[1].text} ON {' AND '.join(conditions)}"
        conditions = []
    elif len(sources) == 1 and rng.random() < 0.15:
        conditions.append(membership(writer, rng.random() < 0.3, sources[0], depth))
    if rng.random() < 0.35:
        conditions.append(writer.expressions.predicate(scope, 1))
    return scope, f"FROM {tables}{writer.where(conditions)}"


def _order(writer: Writer, scope: Sequence[Attribute]) -> str:
    rng = writer.rng
    keys = []
    for column in rng.sample(list(scope), rng.randint(1, min(2, len(scope)))):
        plain = column.type == "time" or rng.random() < 0.8
        text = column.text if plain else writer.expressions.value(scope, column.type, 1)
        if not any(c.text in text for c in scope):
            text = column.text  # a number would be a position
        keys.append(f"{text}{rng.choice(['', ' ASC', ' DESC'])}{rng.choice(['', '', ' NULLS FIRST', ' NULLS LAST'])}")
    return ", ".join(keys)
