"""A query on models as a tree of operators, and what it means: a pure function from pieces to pieces.

``run`` is the whole semantics. What streams in is handed to it again as far as it can still matter
(``operators.model_query``), so there is no second, incremental reading of any operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.core.catalog import SplitDef
from eddyline.expr.nodes import Column, Expr, columns_of
from eddyline.models.aggregate_errors import aggregate_within, beside
from eddyline.models.arithmetic import constant, refuse_divisions_by_zero
from eddyline.models.error_bounds import bounded, cut_at_signs, with_error
from eddyline.models.fitting import ErrorBound
from eddyline.models.joining import joined
from eddyline.models.linearising import linearised, with_rounding
from eddyline.models.margins import restrict_within
from eddyline.models.pieces import Grid, Pieces, Value
from eddyline.models.solving import restrict
from eddyline.models.splits import EQUI

TAKEN_SHARE = 0.75  # the share of pieces with an instant that is asked for, above which the others are not taken out
END_OF_MODELS = 1 << 62  # the last instant of a query on models: behind all segments


@dataclass(frozen=True, slots=True)
class Source:
    """The pieces of an input, by its number."""

    input: int


@dataclass(frozen=True, slots=True)
class Restrict:
    """The filter: the parts of pieces on which all conjuncts hold."""

    input: Node
    conjuncts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Map:
    """New columns by name: polynomials, and what is constant."""

    input: Node
    items: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True, slots=True)
class Join:
    """Instantaneous, on equal keys, then restricted by the other conjuncts."""

    left: Node
    right: Node
    keys: tuple[tuple[str, str], ...]
    conjuncts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Each function (name, function, argument) over the same window by the same groups; ``order`` breaks ties."""

    input: Node
    groups: tuple[tuple[str, Expr], ...]
    functions: tuple[tuple[str, str, Expr], ...]
    width: int
    partial: bool
    order: tuple[str, ...] = ()


Node = Source | Restrict | Map | Join | Aggregate


@dataclass(frozen=True, slots=True)
class Program:
    """``columns`` are those of the result in order, with whether they are modelled. ``sample``: rows at multiples of so
    many ticks; None: segments. ``scale`` is units of t in a tick. ``bound``: of every result, against the same query
    over the straight lines between samples (``ERROR WITHIN``); ``split``: the function that divides it."""

    root: Node
    columns: tuple[tuple[str, bool], ...]
    scale: float
    sample: int | None
    bound: ErrorBound | None = None
    split: SplitDef = EQUI

    @property
    def reach(self) -> int:
        """Ticks before t that a result at t depends on."""
        return reach_of(self.root)


def reach_of(node: Node) -> int:
    match node:
        case Source():
            return 0
        case Join():
            return max(reach_of(node.left), reach_of(node.right))
        case Aggregate():
            return reach_of(node.input) + node.width
        case _:
            return reach_of(node.input)


def run(node: Node, inputs: Sequence[Pieces], scale: float, grid: Grid | None = None) -> Pieces:
    """What a program computes from all pieces of its inputs; of a ``grid`` only what holds at one of its instants is
    wanted. Above the last aggregate operators are instantaneous: a piece without such an instant is of no use there."""
    match node:
        case Source():
            return _on_grid(inputs[node.input], grid)
        case Restrict():
            return _restricted(run(node.input, inputs, scale, grid), node.conjuncts, scale)
        case Map():
            return _mapped(run(node.input, inputs, scale, grid), node.items, scale)
        case Join():
            left, right = run(node.left, inputs, scale, grid), run(node.right, inputs, scale, grid)
            return joined(left, right, node.keys, scale, node.conjuncts, _restricted, grid)
        case Aggregate():
            return _on_grid(_aggregated(node, run(node.input, inputs, scale), scale), grid)


def _on_grid(pieces: Pieces, grid: Grid | None) -> Pieces:
    if grid is None or not len(pieces):
        return pieces
    held = grid.held(pieces.low, pieces.high, pieces.closed)
    return pieces if len(held) > TAKEN_SHARE * len(pieces) else pieces.take(held)


def _restricted(pieces: Pieces, conjuncts: Sequence[Expr], scale: float) -> Pieces:
    how = restrict_within if bounded(pieces) else restrict
    return how(pieces, conjuncts, scale)


def _mapped(pieces: Pieces, items: Sequence[tuple[str, Expr]], scale: float) -> Pieces:
    for _, e in items:
        refuse_divisions_by_zero(e, pieces)
    pieces = cut_at_signs(pieces, [e for _, e in items], scale)
    values: dict[str, Value] = {}
    columns = {}
    for name, e in items:
        if isinstance(e, Column):
            if e.name in pieces.values:
                values[name] = pieces.values[e.name]
            else:
                columns[name] = pieces.columns[e.name]
        elif columns_of(e) & pieces.values.keys():
            values[name] = with_error(e, pieces, scale)
        else:
            columns[name] = constant(e, pieces)
    return pieces.with_columns(values, columns)


def _aggregated(node: Aggregate, pieces: Pieces, scale: float) -> Pieces:
    items = [*node.groups, *((f"{name}\x00", argument) for name, _, argument in node.functions)]
    items += [(n, e) for n in node.order if n not in dict(items) for e in [_column(pieces, n)]]
    given = _mapped(pieces, items, scale)
    groups = [n for n, _ in node.groups]
    found: Pieces | None = None
    for name, function, _ in node.functions:
        argument = f"{name}\x00"
        below = given
        if given.values[argument].root:
            below = (linearised if function in ("avg", "sum") else with_rounding)(given, argument, scale)
        one = aggregate_within(
            below, groups, function, argument, name, float(node.width), node.partial, scale, node.order
        )
        if found is None:
            found = one
        else:
            found = beside(found, one, groups, scale)
    assert found is not None
    return found


def _column(pieces: Pieces, name: str) -> Expr:
    return Column(name, pieces.columns[name].type)


def order_of(pieces: Pieces) -> Pieces:
    """By time, whatever the operators made of it."""
    return pieces.take(np.lexsort((pieces.high, pieces.low)))
