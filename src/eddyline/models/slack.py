"""Slack (Pulse 2.6): how far models without a result are from one, so that tuples within it need no processing.

A condition is a system of rows vᵢ(t) ≤ 0; vᵢ(t) > 0 is how far row i is from being true. At an instant the slack of AND
is the largest vᵢ among the rows that are violated, that of OR the least of its disjuncts; the slack of a piece is the
least over its time:

    slack = min_t ‖v(t)‖∞ over violated rows

Invariant: let every attribute move from its model by at most σ times its accuracy limit, on the whole piece. Then row i
moves by at most Eᵢ(σ), which is a polynomial of σ without a constant term and with no negative coefficient
(``models.error_bounds``). So from what is known at a factor f, E(σ) ≤ σ/f·E(f) below f, and E(σ) ≤ (σ/f)ᵍ·E(f) above,
where g is the degree of the row in the attributes. While maxᵢ Eᵢ(σ) is less than the slack no row of the result can
come into being, at no instant. Of linear rows f = 1 is exact; of others several f are tried, and the best counts. What
looks right and is not: to divide the slack by the Lipschitz constants at the models; those of products grow on the way.

Of rows with square roots, and of very many rows, slack is bounded from below: min_t max ≥ max min_t.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Float64s, Int64s
from eddyline.expr.nodes import Call, Cast, Column, Expr, columns_of
from eddyline.kernels.polynomials import EQ, GE, GT, LOW_CLOSED, NE
from eddyline.models.arithmetic import added, constant, evaluate, exponent
from eddyline.models.error_bounds import cut_at_signs, highest, squared, with_error
from eddyline.models.joining import joined
from eddyline.models.pieces import Pieces, Value, padded
from eddyline.models.program import Aggregate, Join, Map, Node, Restrict, Source
from eddyline.models.solving import CODES, NEGATED, solve, truths

ROUNDED = 1.0 - 2.0**-20
NEVER = 1e250  # how far a row is from being true that no deviation makes true
MOST_ROWS = 8  # of which all pairs are compared
TRIED = (1.0, 16.0, 256.0)  # accuracy limits at which rows that are not linear are looked at


@dataclass(frozen=True, slots=True)
class Row:
    """``a`` ≤ ``b``: names of hidden values of pieces; ``error``: of one that bounds what both may move by."""

    a: str
    b: str
    error: str


@dataclass(frozen=True, slots=True)
class All:
    of: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Any:
    of: tuple[Tree, ...]


Tree = Row | All | Any


@dataclass(frozen=True, slots=True)
class _System:
    """Pieces with the hidden values of their rows; ``orders``: the degree of each value in the attributes."""

    pieces: Pieces
    orders: Mapping[str, int]
    trees: tuple[Tree, ...] = ()
    order: int = 1  # the largest of a row


def measurable(node: Node) -> bool:
    """Whether the slack of a query can be measured: it has conditions, and no aggregate."""
    match node:
        case Source():
            return False
        case Restrict():
            return _simple(node.input)
        case Map():
            return measurable(node.input)
        case Join():
            return _simple(node.left) and _simple(node.right)
        case Aggregate():
            return False


def _simple(node: Node) -> bool:
    match node:
        case Aggregate():
            return False
        case Source():
            return True
        case Join():
            return _simple(node.left) and _simple(node.right)
        case _:
            return _simple(node.input)


def slacks(root: Node, inputs: Sequence[Pieces], scale: float, since: float) -> list[Float64s]:
    """For each piece of each input by how many accuracy limits all may move, from ``since`` on, so that no result comes
    of it. Values of pieces have their limits as errors. 0: there may be one; infinity: there is nothing
    that it could meet."""
    system = _Walk(inputs, scale, since).of(root)
    found = [np.full(len(p), np.inf) for p in inputs]
    if not len(system.pieces):
        return found
    rows = [r for t in system.trees for r in _rows(t)]
    factor = np.zeros(len(system.pieces))
    if rows:
        slack = ROUNDED * _slack(All(system.trees), rows, system.pieces, scale)
        for f in TRIED if system.order > 1 else TRIED[:1]:
            there = system if f == 1.0 else _Walk([_scaled(p, f) for p in inputs], scale, since).of(root)
            moved = np.max([there.pieces.values[r.error].c[:, 0] for r in rows], axis=0)
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.where(slack > 0.0, slack / moved, 0.0)
            factor = np.maximum(factor, f * np.where(ratio > 1.0, ratio ** (1.0 / system.order), ratio))
        factor = np.where(factor > 1.0, factor, 0.0)
    for i, least in enumerate(found):
        name = _number(i)
        if name in system.pieces.columns:
            np.minimum.at(least, system.pieces.columns[name].to_numpy(), factor)
    return found


def _scaled(pieces: Pieces, by: float) -> Pieces:
    """The same with limits that are ``by`` times as wide."""
    values = {
        n: Value(v.c, v.root, v.over, None if v.error is None else by * v.error) for n, v in pieces.values.items()
    }
    return pieces.with_columns(values, pieces.columns)


def _number(i: int) -> str:
    return f"\x00row{i}"


class _Walk:
    """The program without its cuts: all pieces that meet, with the rows of all conditions on them."""

    def __init__(self, inputs: Sequence[Pieces], scale: float, since: float) -> None:
        self.inputs, self.scale, self.since = inputs, scale, since
        self.made = 0

    def of(self, node: Node) -> _System:
        match node:
            case Source():
                return self.source(node.input)
            case Restrict():
                return self.restricted(self.of(node.input), node.conjuncts)
            case Map():
                return self.mapped(self.of(node.input), node.items)
            case Join():
                a, b = self.of(node.left), self.of(node.right)
                both = joined(a.pieces, b.pieces, node.keys, self.scale)
                system = _System(both, {**a.orders, **b.orders}, (*a.trees, *b.trees), max(a.order, b.order))
                return self.restricted(system, node.conjuncts)
            case Aggregate():
                raise AssertionError("the slack of an aggregate is not measured")

    def source(self, i: int) -> _System:
        p = self.inputs[i]
        p = p.with_columns(p.values, {**p.columns, _number(i): pa.array(np.arange(len(p)))})
        p = p.take(np.flatnonzero(p.high > self.since))
        low = np.maximum(p.low, self.since)
        closed = np.where(low > p.low, p.closed | LOW_CLOSED, p.closed).astype(np.uint8)
        p = Pieces(low, p.high, closed, p.base, p.values, p.columns)
        return _System(p, dict.fromkeys(p.values, 1))

    def mapped(self, system: _System, items: Sequence[tuple[str, Expr]]) -> _System:
        pieces = cut_at_signs(system.pieces, [e for _, e in items], self.scale)
        values = {n: v for n, v in pieces.values.items() if n.startswith("\x00")}
        columns = {n: c for n, c in pieces.columns.items() if n.startswith("\x00")}
        orders = {}
        for name, e in items:
            if columns_of(e) & pieces.values.keys():
                values[name] = with_error(e, pieces, self.scale)
                orders[name] = order_of(e, system.orders)
            else:
                columns[name] = constant(e, pieces)
        return _System(pieces.with_columns(values, columns), orders, system.trees, system.order)

    def restricted(self, system: _System, conjuncts: Sequence[Expr]) -> _System:
        pieces = system.pieces
        modelled = [c for c in conjuncts if columns_of(c) & pieces.values.keys()]
        for c in conjuncts:
            if c not in modelled:
                pieces = pieces.take(np.flatnonzero(truths(constant(c, pieces))))
        pieces = cut_at_signs(pieces, modelled, self.scale)
        hidden: dict[str, Value] = {}
        trees = tuple(self.tree(c, pieces, hidden, False) for c in modelled)
        order = max([system.order, *(order_of(c, system.orders) for c in modelled)])
        pieces = pieces.with_columns({**pieces.values, **hidden}, pieces.columns)
        return _System(pieces, system.orders, (*system.trees, *trees), order)

    def tree(self, e: Expr, pieces: Pieces, hidden: dict[str, Value], negated: bool) -> Tree:
        if not columns_of(e) & pieces.values.keys():
            holds = truths(constant(e, pieces)) != negated
            far, zero = np.where(holds, 0.0, NEVER).reshape(-1, 1), np.zeros((len(pieces), 1))
            return self.row(Value(far), Value(zero), zero, hidden)
        match e:
            case Call(function="not", args=(a,)):
                return self.tree(a, pieces, hidden, not negated)
            case Call(function="and" | "or", args=args):
                parts = tuple(self.tree(a, pieces, hidden, negated) for a in args)
                return All(parts) if (e.function == "and") != negated else Any(parts)
            case Call(function=function, args=(x, y)):
                code = CODES[NEGATED[function] if negated else function]
                return self.comparison(x, y, code, pieces, hidden)
        raise AssertionError("a condition is a comparison under AND, OR and NOT")

    def comparison(self, x: Expr, y: Expr, code: int, pieces: Pieces, hidden: dict[str, Value]) -> Tree:
        a, b = (
            with_error(e, pieces, self.scale) if columns_of(e) & pieces.values.keys() else evaluate(e, pieces)
            for e in (x, y)
        )
        errors = [highest(v.error, pieces, self.scale) for v in (a, b) if v.error is not None]
        error = np.sum(errors, axis=0).reshape(-1, 1)
        if code == NE:  # only where the difference vanishes it is not true
            zero = np.zeros((len(pieces), 1))
            return self.row(Value(zero), Value(zero), error, hidden)
        if code == EQ:
            return All((self.row(a, b, error, hidden), self.row(b, a, error, hidden)))
        return self.row(b, a, error, hidden) if code in (GE, GT) else self.row(a, b, error, hidden)

    def row(self, a: Value, b: Value, error: Float64s, hidden: dict[str, Value]) -> Row:
        self.made += 1
        names = [f"\x00{part}{self.made}" for part in ("a", "b", "e")]
        # Errors of the values themselves have been read: they need not be carried further.
        hidden |= {names[0]: Value(a.c, a.root), names[1]: Value(b.c, b.root), names[2]: Value(error)}
        return Row(*names)


def order_of(e: Expr, orders: Mapping[str, int]) -> int:
    """The degree of an expression in the attributes.

    >>> x = Column("x", pa.float64())
    >>> order_of(Call("lt", (Call("multiply", (x, x), pa.float64()), x), pa.bool_()), {"x": 1})
    2
    """
    match e:
        case Column():
            return orders.get(e.name, 0)
        case Cast(operand=operand):
            return order_of(operand, orders)
        case Call(function="multiply", args=(a, b)):
            return order_of(a, orders) + order_of(b, orders)
        case Call(function="pow", args=(a, b)):
            return order_of(a, orders) * (exponent(b) or 0)
        case Call(function="sqrt", args=(a,)):
            squares = list(squared(a))
            if squares and all(s is not None for s in squares):
                return max(order_of(s, orders) for s in squares if s is not None)
            return order_of(a, orders)
        case Call(args=args):
            return max((order_of(a, orders) for a in args), default=0)
        case _:
            return 0


# ── the least over time ───────────────────────────────────────────────────────────────────────────────────────────────


def _rows(tree: Tree) -> list[Row]:
    return [tree] if isinstance(tree, Row) else [r for t in tree.of for r in _rows(t)]


def _combined(tree: Tree, violations: Mapping[Row, Float64s]) -> Float64s:
    if isinstance(tree, Row):
        return np.maximum(violations[tree], 0.0)
    parts = [_combined(t, violations) for t in tree.of]
    found: Float64s = np.max(parts, axis=0) if isinstance(tree, All) else np.min(parts, axis=0)
    return found


def _slack(tree: Tree, rows: Sequence[Row], pieces: Pieces, scale: float) -> Float64s:
    """The least violation over the time of each piece."""
    values = pieces.values
    plain = all(values[r.a].plain and values[r.b].plain for r in rows)
    if not plain or len(rows) > MOST_ROWS:
        return _combined(tree, {r: _least(r, pieces, scale) for r in rows})
    width = max(max(values[r.a].c.shape[1], values[r.b].c.shape[1]) for r in rows)
    differences = [padded(added(values[r.a].c, -values[r.b].c), width) for r in rows]
    # Between two neighbours of these instants the slack is one of the polynomials, and monotonous.
    turns = [_ends(pieces)]
    zero = np.zeros((len(pieces), 1))
    for i, d in enumerate(differences):
        turns.append(_instants(d, zero, pieces, scale))
        turns.append(_instants(_derivative(d), zero, pieces, scale))
        turns += [_instants(d, other, pieces, scale) for other in differences[:i]]
    row, t = (np.concatenate([turn[k] for turn in turns]) for k in (0, 1))
    x = (t - pieces.base[row]) * scale
    at = {r: Value(d[row]).at(x) for r, d in zip(rows, differences, strict=True)}
    found = np.full(len(pieces), np.inf)
    np.minimum.at(found, row, _combined(tree, at))
    return found


def _least(r: Row, pieces: Pieces, scale: float) -> Float64s:
    """A number that a − b is nowhere on the piece below."""
    a, b = pieces.values[r.a], pieces.values[r.b]
    if a.plain and b.plain:
        return _extreme(added(a.c, -b.c), pieces, scale, np.min)
    low, high = _extreme(a.c, pieces, scale, np.min), _extreme(b.c, pieces, scale, np.max)
    low, high = (np.sqrt(np.maximum(v, 0.0)) if of.root else v for v, of in ((low, a), (high, b)))
    least: Float64s = low - high
    return least


def _extreme(c: Float64s, pieces: Pieces, scale: float, of: object) -> Float64s:
    ends, turns = _ends(pieces), _instants(_derivative(c), np.zeros((len(pieces), 1)), pieces, scale)
    row, t = (np.concatenate([ends[k], turns[k]]) for k in (0, 1))
    y = Value(c[row]).at((t - pieces.base[row]) * scale)
    least = of is np.min
    found = np.full(len(pieces), np.inf if least else -np.inf)
    (np.minimum if least else np.maximum).at(found, row, y)
    return found


def _ends(pieces: Pieces) -> tuple[Int64s, Float64s]:
    every = np.arange(len(pieces))
    return np.concatenate([every, every]), np.concatenate([pieces.low, pieces.high])


def _instants(a: Float64s, b: Float64s, pieces: Pieces, scale: float) -> tuple[Int64s, Float64s]:
    """Instants at which two polynomials are equal, and the ends of intervals on which they are."""
    if a.shape[1] == 1 and b.shape[1] == 1:
        return np.empty(0, np.int64), np.empty(0)
    found = solve(a, b, EQ, pieces, scale)
    return np.concatenate([found.row, found.row]), np.concatenate([found.low, found.high])


def _derivative(c: Float64s) -> Float64s:
    if c.shape[1] == 1:
        return np.zeros_like(c)
    found: Float64s = c[:, 1:] * np.arange(1, c.shape[1])
    return found
