"""Random queries with LAG, LEAD and aggregates of the last rows of a partition, alone and under windows."""

from __future__ import annotations

from collections.abc import Sequence

from eddyline.testing.case_blocks import Block, Source, Writer
from eddyline.testing.case_expressions import Attribute, Type

_AGGREGATES = ("sum", "sum", "avg", "min", "max", "count", "first_value", "last_value", "first", "stddev_pop")


def over_block(writer: Writer, depth: int) -> Block:
    """The result is a stream: half of the time a window is put on it, or the rows are filtered by their values."""
    rng = writer.rng
    source = _source(writer)
    scope = source.scope()
    over = _over(writer, source)
    items = list(writer.items(scope, plain=rng.random() < 0.7, most=2))
    items += [_value(writer, scope, over) for _ in range(rng.choice([1, 1, 2, 3]))]
    rng.shuffle(items)
    conditions = [writer.expressions.predicate(scope, 1)] if rng.random() < 0.3 else []
    inner = Block(tuple(items), f"FROM {source.text}{writer.where(conditions)}")
    if rng.random() < 0.35:
        return inner
    alias = writer.alias()
    columns = tuple((f"c{i}", t) for i, (_, t) in enumerate(items))
    window = writer.window(columns=[n for n, _ in columns])
    outer = Source(f"({inner.text()}) {window} {alias}", alias, columns)
    kept = [writer.expressions.predicate(outer.scope(), 1)] if rng.random() < 0.3 else []
    chosen = rng.sample(outer.scope(), rng.randint(1, len(columns)))
    return Block(tuple((c.text, c.type) for c in chosen), f"FROM {outer.text}{writer.where(kept)}")


def _source(writer: Writer) -> Source:
    """A stream, or a filtered one that keeps its time."""
    plain = writer.stream(window="")
    if writer.rng.random() < 0.7:
        return plain
    alias = writer.alias()
    listed = ", ".join(f"{plain.alias}.{n} AS {n}" for n, _ in plain.columns)
    condition = writer.expressions.predicate(plain.scope(), 1)
    return Source(f"(SELECT {listed} FROM {plain.text} WHERE {condition}) {alias}", alias, plain.columns)


def _over(writer: Writer, source: Source) -> str:
    rng = writer.rng
    keys = [c.text for c in source.scope() if not c.text.endswith((".ts", ".x", ".u"))]
    by = rng.sample(keys, rng.choice([0, 1, 1, 1, 2]))
    if by and rng.random() < 0.15:
        by[0] = f"{source.alias}.a + 1"
    partition = f"PARTITION BY {', '.join(by)} " if by else ""
    return f"{partition}ORDER BY {source.alias}.ts"


def _value(writer: Writer, scope: Sequence[Attribute], over: str) -> tuple[str, Type]:
    rng = writer.rng
    type_: Type = rng.choice(["int", "int", "double", "string"])
    value = writer.expressions.value(scope, type_) if rng.random() < 0.3 else _column(writer, scope, type_)
    if rng.random() < 0.45:
        function, count = rng.choice(["LAG", "LAG", "LEAD"]), rng.choice([0, 1, 1, 1, 2, 3])
        more = rng.choice(["", f", {count}", f", {count}, {_column(writer, scope, type_)}"])
        return f"{function}({value}{more}) OVER ({over})", type_
    function = rng.choice(_AGGREGATES)
    frame = _frame(writer)
    if function == "count":
        argument = rng.choice(["*", value, f"DISTINCT {value}"])
        return f"count({argument}){_filter(writer, scope)} OVER ({over} {frame})", "int"
    if function in ("min", "max", "first_value", "last_value", "first"):
        return f"{function}({value}) OVER ({over} {frame})", type_
    number: Type = "double" if type_ == "string" else type_
    argument = _column(writer, scope, number)
    result: Type = number if function == "sum" else "double"
    return f"{function}({argument}){_filter(writer, scope)} OVER ({over} {frame})", result


def _column(writer: Writer, scope: Sequence[Attribute], type_: Type) -> str:
    found = [c.text for c in scope if c.type == type_ and not c.text.endswith(".ts")]
    return writer.rng.choice(found or {"int": ["1"], "double": ["1.5"]}.get(type_, ["'s'"]))


def _filter(writer: Writer, scope: Sequence[Attribute]) -> str:
    if writer.rng.random() < 0.8:
        return ""
    return f" FILTER (WHERE {writer.expressions.predicate(scope, 1)})"


def _frame(writer: Writer) -> str:
    rng = writer.rng
    back, on = rng.randint(0, 4), rng.randint(0, 2)
    return rng.choice(
        [
            f"ROWS BETWEEN {back} PRECEDING AND CURRENT ROW",
            f"ROWS BETWEEN {back} PRECEDING AND CURRENT ROW",
            f"ROWS {back} PRECEDING",
            f"ROWS BETWEEN {back} PRECEDING AND {on} FOLLOWING",
            f"ROWS BETWEEN {back + on} PRECEDING AND {on} PRECEDING",
            f"ROWS BETWEEN {on} FOLLOWING AND {on + back} FOLLOWING",
            "ROWS UNBOUNDED PRECEDING",
            f"ROWS BETWEEN UNBOUNDED PRECEDING AND {on} FOLLOWING",
            f"ROWS BETWEEN UNBOUNDED PRECEDING AND {on + 1} PRECEDING",
        ]
    )
