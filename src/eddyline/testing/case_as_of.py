"""Random queries with as-of joins, of streams and of filtered streams, alone and under windows."""

from __future__ import annotations

from eddyline.testing.case_blocks import Block, Source, Writer


def as_of_block(writer: Writer, depth: int) -> Block:
    """The result is a stream: half of the time a window is put on it."""
    rng = writer.rng
    sides = [_side(writer)]
    text = sides[0].text
    for _ in range(rng.choice([1, 1, 1, 1, 2])):
        right = _side(writer)
        text += _joined(writer, sides[0], right, last=len(sides) == 1)
        sides.append(right)
    scope = [c for s in sides for c in s.scope()]
    conditions = [writer.expressions.predicate(scope, 1)] if rng.random() < 0.3 else []
    if rng.random() < 0.3:  # of one side: such a condition may be judged before the join
        conditions.append(writer.expressions.predicate(rng.choice(sides).scope(), 1))
    items = writer.items(scope, plain=rng.random() < 0.8, most=4)
    tail = f"FROM {text}{writer.where(conditions)}"
    if rng.random() < 0.4:
        return Block(items, tail)
    alias = writer.alias()
    window = writer.window(columns=[f"c{i}" for i in range(len(items))])
    inner = Block(items, tail).text()
    outer = tuple((f"{alias}.c{i}", t) for i, (_, t) in enumerate(items))
    return Block(outer, f"FROM ({inner}) {window} {alias}")


def _side(writer: Writer) -> Source:
    plain = writer.stream(window="")
    if writer.rng.random() < 0.6:
        return plain
    alias = writer.alias()
    listed = ", ".join(f"{plain.alias}.{n} AS {n}" for n, _ in plain.columns)
    condition = writer.expressions.predicate(plain.scope(), 1)
    return Source(f"(SELECT {listed} FROM {plain.text} WHERE {condition}) {alias}", alias, plain.columns)


def _joined(writer: Writer, left: Source, right: Source, last: bool) -> str:
    """Looks back, or ahead in the only join: a further one compares with the left element's time."""
    rng = writer.rng
    keys = writer.equality(left, right)
    sign = rng.choice(["<=", "<=", "<", ">=", ">"] if last else ["<=", "<"])
    times = f"{right.alias}.ts {sign} {left.alias}.ts"
    if rng.random() < 0.3:
        turned = {"<=": ">=", "<": ">", ">=": "<=", ">": "<"}[sign]
        times = f"{left.alias}.ts {turned} {right.alias}.ts"
    outer = rng.random() < 0.4
    bounded = rng.random() < 0.5 or (outer and sign in (">=", ">"))
    within = f" WITHIN {writer.scale.width(rng.randint(0, 8), rng)}" if bounded else ""
    word = rng.choice(["LEFT ASOF JOIN", "ASOF LEFT JOIN"]) if outer else "ASOF JOIN"
    conditions = [*keys, times]
    rng.shuffle(conditions)
    return f" {word} {right.text} ON {' AND '.join(conditions)}{within}"
