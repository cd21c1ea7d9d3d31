"""prune_columns: every node brings only what is read above it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from eddyline.core.schema import Schema
from eddyline.core.window import columns_read
from eddyline.expr.nodes import Expr, columns_of
from eddyline.plan.logical import (
    Aggregate,
    AsOfJoin,
    Distinct,
    Explode,
    Join,
    MarkJoin,
    ModelQuery,
    OuterJoin,
    Over,
    Plan,
    Project,
    Rank,
    RelationScan,
    Select,
    SetOperation,
    StreamScan,
    ToStream,
    Window,
    WithArrivals,
)


def prune_columns(plan: Plan, needed: frozenset[str] | None = None) -> Plan:
    """``needed`` are the columns that are read of the result; all of them by default."""
    return _prune(plan, frozenset(plan.schema.names) if needed is None else needed)


def _read(exprs: Iterable[Expr]) -> frozenset[str]:
    return frozenset().union(*(columns_of(e) for e in exprs))


def _prune(p: Plan, need: frozenset[str]) -> Plan:
    match p:
        case StreamScan() | RelationScan():
            kept = [(f, c) for f, c in zip(p.schema, p.columns, strict=True) if f.name in need]
            return replace(p, schema=Schema(tuple(f for f, _ in kept)), columns=tuple(c for _, c in kept))
        case Window():
            below = need & frozenset(p.input.schema.names) | columns_read(p.spec)
            return Window(_prune(p.input, below), p.spec, tuple(c for c in p.columns if c.name in need))
        case Select():
            return Select(_prune(p.input, need | _read(p.conjuncts)), p.conjuncts)
        case Project():
            items = tuple((n, e) for n, e in p.items if n in need)
            return Project(_prune(p.input, _read(e for _, e in items)), items)
        case Join():
            need |= _read(p.conjuncts)
            return Join(tuple(_prune(i, need & frozenset(i.schema.names)) for i in p.inputs), p.conjuncts)
        case OuterJoin():
            need |= _read(p.conjuncts)
            left, right = (_prune(i, need & frozenset(i.schema.names)) for i in (p.left, p.right))
            return OuterJoin(p.kind, left, right, p.conjuncts)
        case MarkJoin():
            pairs = [e for pair in p.operands for e in pair]
            need |= _read((*p.on, *pairs))
            left, right = (_prune(i, need & frozenset(i.schema.names)) for i in (p.left, p.right))
            return MarkJoin(left, right, p.mark, p.on, p.operands)
        case Aggregate():
            # Keys stay even if no node reads them: they define the groups.
            aggregates = tuple((n, a) for n, a in p.aggregates if n in need)
            read = _read((*(e for _, e in p.keys), *(e for _, a in aggregates for e in a.args)))
            return Aggregate(_prune(p.input, read), p.keys, aggregates, p.grouped)
        case Distinct():
            return Distinct(_prune(p.input, frozenset(p.input.schema.names)))
        case Explode():
            # The result has a row for each element of the list, whether or not any node reads the elements.
            return replace(p, input=_prune(p.input, (need - {p.name}) | {p.column}))
        case Rank():
            # Where nothing else orders ties, all columns do.
            ties = frozenset(p.ties if p.by_arrival else p.input.schema.names)
            keys = frozenset((*p.partition, *(k.column for k in p.order)))
            ranked = _prune(p.input, (need - {p.name}) | keys | ties)
            return replace(p, input=ranked, numbered=p.name in need)
        case SetOperation():
            return replace(
                p,
                left=_prune(p.left, frozenset(p.left.schema.names)),
                right=_prune(p.right, frozenset(p.right.schema.names)),
            )
        case Over():
            return _prune_over(p, need)
        case WithArrivals():
            stream = _prune(p.input, need & frozenset(p.input.schema.names))
            return replace(p, input=stream) if need & {p.time, p.number} else stream
        case AsOfJoin():
            need |= frozenset(n for pair in p.keys for n in pair)
            left, right = (_prune(i, need & frozenset(i.schema.names)) for i in (p.left, p.right))
            return replace(p, left=left, right=right)
        case ModelQuery():
            return p
        case ToStream():
            # Netting is by value: dropping a column below would make different rows equal.
            return ToStream(p.kind, _prune(p.input, frozenset(p.input.schema.names)))


def _prune_over(p: Over, need: frozenset[str]) -> Plan:
    """The input that waits longest decides when elements come, so it stays whether it is read or not."""
    values = [(n, v) for n, v in p.values if n in need]
    if p.waits and all(v.shift < p.waits for _, v in values):
        values.append(next(item for item in p.values if item[1].shift == p.waits))
    below = need & frozenset(p.input.schema.names)
    if not values:
        return _prune(p.input, below)
    read = frozenset().union(*(v.read for _, v in values))
    return replace(p, input=_prune(p.input, below | read | frozenset(p.partition)), values=tuple(values))
