"""``FROM trades t ASOF JOIN quotes q ON t.symbol = q.symbol AND q.ts <= t.ts WITHIN 5 SECONDS``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from sqlglot import exp

from eddyline.core.catalog import Catalog
from eddyline.cql.defaults import elements_of
from eddyline.cql.scope import Context
from eddyline.cql.windows import interval_text, resolve_duration
from eddyline.expr.nodes import Call, Column, Expr, columns_of
from eddyline.plan.graph import alias_of
from eddyline.plan.logical import AsOfJoin, Plan, Project
from eddyline.plan.time_columns import time_columns

Comparison = Literal["le", "lt", "ge", "gt"]
_TURNED: Final[dict[str, Comparison]] = {"le": "ge", "lt": "gt", "ge": "le", "gt": "lt"}


def as_of_join(
    context: Context, join: exp.Join, left: Sequence[Plan], right: Sequence[Plan], conjuncts: Sequence[Expr]
) -> AsOfJoin:
    if join.args.get("side") not in (None, "", "LEFT") or join.args.get("kind") not in (None, "", "INNER", "OUTER"):
        raise context.error("an as-of join is ASOF JOIN or LEFT ASOF JOIN.", join)
    streams = [_stream(context, join, side) for side in (left, right)]
    comparison, keys = _conditions(context, join, streams, conjuncts)
    within = _within(context, join)
    outer = join.args.get("side") == "LEFT"
    if outer and within is None and comparison in ("ge", "gt"):
        message = "a LEFT ASOF JOIN that looks ahead waits for ever for a partner: bound it, as in WITHIN 5 SECONDS."
        raise context.error(message, join)
    left_side, left_keys = _with_columns(context, streams[0], [a for a, _ in keys])
    right_side, right_keys = _with_columns(context, streams[1], [b for _, b in keys])
    pairs = tuple(zip(left_keys, right_keys, strict=True))
    return AsOfJoin(left_side, right_side, pairs, comparison, within, outer)


def _stream(context: Context, join: exp.Join, inputs: Sequence[Plan]) -> Plan:
    stream = elements_of(inputs[0]) if len(inputs) == 1 else None
    if stream is None:
        message = (
            f"an as-of join reads streams without a window, and {alias_of(inputs[0])} is something else: leave its"
            " window out, put one on the result (SELECT … ASOF JOIN …) [RANGE …], or use JOIN."
        )
        raise context.error(message, join)
    return stream


def _conditions(
    context: Context, join: exp.Join, streams: Sequence[Plan], conjuncts: Sequence[Expr]
) -> tuple[Comparison, list[tuple[Expr, Expr]]]:
    """What the right time is in comparison with the left one, and the pairs of values that must be equal."""
    comparison: Comparison | None = None
    keys: list[tuple[Expr, Expr]] = []
    for c in conjuncts:
        pair = _sides(c, [frozenset(s.schema.names) for s in streams])
        if pair is not None and pair[0] == "eq":
            keys.append(pair[1:])
        elif pair is not None and comparison is None and _are_times(pair[1:], streams, context.catalog):
            comparison = pair[0]  # type: ignore[assignment]
        else:
            message = (
                "ON of an as-of join takes equalities of both sides and one comparison of their timestamps, as in"
                " q.ts <= t.ts: put other conditions into WHERE, or filter a side in a subquery."
            )
            raise context.error_at(message, c.span)
    if comparison is None:
        message = "an as-of join needs one comparison of both streams' timestamps in ON, as in q.ts <= t.ts."
        raise context.error(message, join)
    return comparison, keys


def _sides(c: Expr, names: Sequence[frozenset[str]]) -> tuple[str, Expr, Expr] | None:
    """A comparison of both sides: what the right one is compared with the left one, the left one, the right one."""
    if not (isinstance(c, Call) and c.function in ("eq", *_TURNED)):
        return None
    a, b = c.args
    if columns_of(a) and columns_of(b):
        if columns_of(a) <= names[0] and columns_of(b) <= names[1]:
            return (c.function if c.function == "eq" else _TURNED[c.function]), a, b
        if columns_of(a) <= names[1] and columns_of(b) <= names[0]:
            return c.function, b, a
    return None


def _are_times(pair: Sequence[Expr], streams: Sequence[Plan], catalog: Catalog) -> bool:
    both = zip(pair, streams, strict=True)
    return all(isinstance(e, Column) and e.name in time_columns(s, catalog) for e, s in both)


def _within(context: Context, join: exp.Join) -> int | None:
    written = join.meta.get("within")
    if written is None:
        return None
    ticks = resolve_duration(interval_text(written, context.text), context.kinds[-1][0])
    if ticks < 0:
        raise context.error("WITHIN must not be negative.", written)
    return ticks


def _with_columns(context: Context, stream: Plan, values: Sequence[Expr]) -> tuple[Plan, list[str]]:
    """The stream with each value as a column."""
    computed = {e: context.fresh("_key") for e in values if not isinstance(e, Column)}
    if computed:
        kept = tuple((f.name, Column(f.name, f.type)) for f in stream.schema)
        stream = Project(stream, (*kept, *((n, e) for e, n in computed.items())))
    return stream, [e.name if isinstance(e, Column) else computed[e] for e in values]
