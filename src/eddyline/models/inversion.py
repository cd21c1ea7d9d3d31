"""Query inversion (Pulse 2.6.2): from a bound on results to bounds on the samples of the inputs.

*Lineage* of a result column: its **translations** are the input attributes that it is computed from, with the Lipschitz
constant of the result in each; its **inferences** are those that conditions read on the way, which decide whether there
is a result. A split function (2.6.3) gives each of them a share of the bound; an attribute with share s and Lipschitz
constant L gets s·bound/L, and of several results the least.

What is promised never rests on this: the bounds that the samples really have are carried forward through the query
(``models.error_bounds``), and what they do not prove is marked uncertain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from eddyline.core.catalog import Attribute, SplitDef
from eddyline.expr.nodes import Call, Cast, Column, Expr, Literal, columns_of
from eddyline.models.arithmetic import exponent
from eddyline.models.error_bounds import squared
from eddyline.models.fitting import ErrorBound
from eddyline.models.program import Aggregate, Join, Map, Node, Restrict, Source
from eddyline.models.splits import EQUI, shares

Constants = Mapping[Attribute, float]
# A share of a bound below it, so that what is proved of rounded numbers is within the bound.
ROUNDED = 1.0 - 2.0**-30


@dataclass(frozen=True, slots=True)
class Dependence:
    """What is known of a column of an intermediate result: its Lipschitz constants, and its largest magnitude."""

    constants: Constants
    size: float


@dataclass(frozen=True, slots=True)
class Lineage:
    """Of every modelled column its ``translations``; ``inferences`` are those of the whole part of the query."""

    columns: Mapping[str, Dependence]
    inferences: frozenset[Attribute] = field(default_factory=frozenset)

    def dependencies(self, name: str) -> frozenset[Attribute]:
        """D(o) of the paper: translations(o) ∪ inferences(o)."""
        return frozenset(self.columns[name].constants) | self.inferences


def lineage(
    node: Node, inputs: Mapping[int, Mapping[str, str]], sizes: Mapping[Attribute, float], scale: float
) -> Lineage:
    """Of a query. ``inputs`` has for each input the modelled columns as the query names them, with their own names;
    ``sizes`` the largest magnitude of an attribute (one where it is not known)."""
    match node:
        case Source():
            columns = {
                name: Dependence({(node.input, own): 1.0}, sizes.get((node.input, own), 1.0))
                for name, own in inputs[node.input].items()
            }
            return Lineage(columns)
        case Restrict():
            below = lineage(node.input, inputs, sizes, scale)
            return Lineage(below.columns, below.inferences | _read(node.conjuncts, below))
        case Map():
            below = lineage(node.input, inputs, sizes, scale)
            items = {n: constants_of(e, below.columns) for n, e in node.items if columns_of(e) & below.columns.keys()}
            return Lineage(items, below.inferences)
        case Join():
            left, right = (lineage(n, inputs, sizes, scale) for n in (node.left, node.right))
            both = Lineage({**left.columns, **right.columns}, left.inferences | right.inferences)
            return Lineage(both.columns, both.inferences | _read(node.conjuncts, both))
        case Aggregate():
            below = lineage(node.input, inputs, sizes, scale)
            found = {}
            for name, function, argument in node.functions:
                one = constants_of(argument, below.columns)
                by = node.width * scale if function == "sum" else 1.0
                found[name] = Dependence({a: by * c for a, c in one.constants.items()}, by * one.size)
            return Lineage(found, below.inferences)


def _read(conjuncts: tuple[Expr, ...], below: Lineage) -> frozenset[Attribute]:
    read = {n for c in conjuncts for n in columns_of(c) if n in below.columns}
    return frozenset(a for n in read for a in below.columns[n].constants)


def constants_of(e: Expr, columns: Mapping[str, Dependence]) -> Dependence:
    """The Lipschitz constants of an expression by interval arithmetic.

    >>> import pyarrow as pa
    >>> x = Column("x", pa.float64())
    >>> constants_of(Call("multiply", (x, x), pa.float64()), {"x": Dependence({(0, "x"): 1.0}, 5.0)})
    Dependence(constants={(0, 'x'): 10.0}, size=25.0)
    """
    match e:
        case Column() if e.name in columns:
            return columns[e.name]
        case Cast(operand=operand):
            return constants_of(operand, columns)
        case Literal(value=value) if isinstance(value, int | float | Decimal):
            return Dependence({}, abs(float(value)))
        case Call(function="negate", args=(a,)):
            return constants_of(a, columns)
        case Call(function="add" | "subtract", args=(a, b)):
            one, other = constants_of(a, columns), constants_of(b, columns)
            return Dependence(_sum(one.constants, other.constants), one.size + other.size)
        case Call(function="multiply", args=(a, b)):
            one, other = constants_of(a, columns), constants_of(b, columns)
            return Dependence(
                _sum(_by(one.constants, other.size), _by(other.constants, one.size)), one.size * other.size
            )
        case Call(function="divide", args=(a, b)):
            one, other = constants_of(a, columns), constants_of(b, columns)
            by = 1.0 / other.size if other.size > 0 else 1.0
            return Dependence(_by(one.constants, by), one.size * by)
        case Call(function="pow", args=(a, b)):
            one, power = constants_of(a, columns), exponent(b) or 0
            by = power * one.size ** (power - 1) if power else 0.0
            return Dependence(_by(one.constants, by), one.size**power)
        case Call(function="sqrt", args=(a,)):
            return _root(a, columns)
        case _:
            return Dependence({}, 1.0)  # not modelled: a constant of each piece, which is not known here


def _root(a: Expr, columns: Mapping[str, Dependence]) -> Dependence:
    squares = [s for s in squared(a) if s is not None]
    inner = constants_of(a, columns)
    if len(squares) < len(list(squared(a))):
        return Dependence(dict.fromkeys(inner.constants, 1.0), inner.size**0.5)
    constants: Constants = {}
    for u in squares:
        constants = _sum(constants, constants_of(u, columns).constants)
    return Dependence(constants, inner.size**0.5)


def _sum(a: Constants, b: Constants) -> Constants:
    return {k: a.get(k, 0.0) + b.get(k, 0.0) for k in {**a, **b}}


def _by(a: Constants, factor: float) -> Constants:
    return {k: factor * c for k, c in a.items()}


def inverted(
    found: Lineage,
    results: tuple[str, ...],
    bound: ErrorBound,
    split: SplitDef = EQUI,
    gradients: Mapping[Attribute, float] | None = None,
) -> dict[Attribute, ErrorBound]:
    """The bound of each input attribute such that every result is within the given one. ``gradients`` are the mean
    |x′| of the attributes, as far as they are known.

    A relative bound stays relative: with r = ε/(1 + 2ε) a value within r of its samples is within ε of them, as far as
    that can be seen from the value alone.
    """
    limits: dict[Attribute, ErrorBound] = {}
    for name in results:
        known = {a: (gradients or {}).get(a, 0.0) for a in found.dependencies(name)}
        for attribute, share in shares(split, name, known).items():
            constant = found.columns[name].constants.get(attribute, 1.0) or 1.0
            if bound.relative:
                amount = share * bound.amount / (1.0 + 2.0 * bound.amount) * ROUNDED
                own = ErrorBound(amount, True, share * bound.floor / constant * ROUNDED)
            else:
                own = ErrorBound(share * bound.amount / constant)
            before = limits.get(attribute, own)
            limits[attribute] = ErrorBound(min(own.amount, before.amount), own.relative, min(own.floor, before.floor))
    return limits
