"""Random queries with memberships: ``IN`` and ``EXISTS``, negated or not."""

from __future__ import annotations

from eddyline.testing.case_blocks import Block, Source, Writer


def membership_block(writer: Writer, negated: bool, depth: int) -> Block:
    outers = [writer.source(depth, nested=0.15)]
    writer.windowless(outers)
    (outer,) = outers
    scope = outer.scope()
    conditions = [membership(writer, negated, outer, depth)]
    if writer.rng.random() < 0.25:
        conditions.append(membership(writer, not negated, outer, depth))
    if writer.rng.random() < 0.3:
        conditions.insert(writer.rng.randint(0, 1), writer.expressions.predicate(scope, 1))
    items = writer.items(scope, plain=writer.rng.random() < 0.8)
    return Block(items, f"FROM {outer.text}{writer.where(conditions)}", writer.rng.random() < 0.15)


def membership(writer: Writer, negated: bool, outer: Source, depth: int) -> str:
    """A condition with IN or EXISTS, correlated or not, sometimes under OR."""
    inner = writer.relation() if writer.rng.random() < 0.25 else writer.source(depth, nested=0.15)
    scope, inner_scope = outer.scope(), inner.scope()
    inside = [writer.expressions.predicate(inner_scope, 1)] if writer.rng.random() < 0.5 else []
    word = "NOT " if negated else ""
    shape = writer.rng.random()
    if shape < 0.35:  # EXISTS, mostly correlated
        inside += writer.equality(outer, inner) if writer.rng.random() < 0.85 else []
        inside += writer.residual([*scope, *inner_scope]) if writer.rng.random() < 0.3 else []
        condition = f"{word}EXISTS (SELECT * FROM {inner.text}{writer.where(inside)})"
    else:
        pairs = writer.equality(outer, inner) or ["1 = 1"]
        pairs = pairs[:1] if shape < 0.85 else pairs
        if writer.rng.random() < 0.2:
            inside += writer.equality(outer, inner)
        left = ", ".join(p.split(" = ")[0] for p in pairs)
        right = ", ".join(p.split(" = ")[1] for p in pairs)
        left = f"({left})" if len(pairs) > 1 else left
        condition = f"{left} {word}IN (SELECT {right} FROM {inner.text}{writer.where(inside)})"
    if writer.rng.random() < 0.12:
        condition = f"({condition} OR {writer.expressions.predicate(scope, 0)})"
    return condition
