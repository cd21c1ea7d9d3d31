"""Windows over single signals on tuples: which programs they can stand for, and what is computed of their values.

``avg``, ``min`` and ``max`` of a linear expression over (t − w, t] are known from the samples of a signal alone, if its
values lie on straight lines between them. Above, conditions and maps are evaluated at single instants
(``models.instants``); below, maps and conditions on what is constant may stand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from eddyline.expr.nodes import Call, Column, Expr, columns_of, substitute, walk
from eddyline.kernels.window_tuples import AVG, MAX, MIN
from eddyline.models import program as pg
from eddyline.models.arithmetic import Shape, shape_of
from eddyline.models.instants import AGGREGATED, below_conditions, by_instants
from eddyline.models.sources import FittedRows

_KINDS = {"avg": AVG, "min": MIN, "max": MAX}
_VALUE, _ARGUMENT = "\x00value", "\x00argument"  # no column of a query is called so


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """``arguments``: of rows with samples, the columns that the functions read. ``functions``: (kind, argument) of
    each. ``root``: the program of rows with their values at an instant, in the columns ``names``; ``conditions`` are
    those of it that can be asked of the values alone."""

    width: int
    arguments: pg.Map
    functions: tuple[tuple[int, int], ...]
    names: tuple[str, ...]
    root: pg.Node
    conditions: tuple[Expr, ...]

    @property
    def argument_names(self) -> tuple[str, ...]:
        return tuple(n for n, _ in self.arguments.items)


def window_plan(program: pg.Program, model: FittedRows, prefix: str) -> WindowPlan | str:
    """How the only input of a program is evaluated window by window, or the reason why not."""
    because = by_instants(program)
    if because is not None and because != AGGREGATED:
        return because
    node = below_conditions(program)
    if not isinstance(node, pg.Aggregate):
        return "the query has no window"
    if node.partial:
        return "windows may be covered in part (PARTIAL)"
    if node.width == 0:
        return "an aggregate of single instants reads more than one signal"
    below = _below(node.input, model, prefix)
    if isinstance(below, str):
        return below
    shapes, keys = below
    grouped = {e.name for _, e in node.groups if isinstance(e, Column)}
    if not all(names & grouped for names in keys):
        return "an extreme over several signals"
    if not all(_linear(e, shapes) for _, _, e in node.functions):
        return "the aggregated value is not linear in the samples"
    if any(isinstance(p, Call) and p.function == "divide" and columns_of(p.args[1]) for p in _parts(node)):
        return "the aggregated value is divided by a column"
    distinct = list(dict.fromkeys(e for _, _, e in node.functions))
    arguments = pg.Map(_without_conditions(node.input), tuple((f"{_ARGUMENT}{j}", e) for j, e in enumerate(distinct)))
    names = tuple(f"{_VALUE}{name}" for name, _, _ in node.functions)
    groups = {n for n, _ in node.groups}
    by: dict[str, Expr] = {n: Column(f"{_VALUE}{n}", pa.float64()) for n, _, _ in node.functions}
    first = _first_conditions(program.root)
    conditions = tuple(substitute(c, by) for c in first if not columns_of(c) & groups)
    functions = tuple((_KINDS[f], distinct.index(e)) for _, f, e in node.functions)
    root = _on_values(program.root, names, model, prefix)
    return WindowPlan(node.width, arguments, functions, names, root, conditions)


def _below(node: pg.Node, model: FittedRows, prefix: str) -> tuple[dict[str, Shape], list[set[str]]] | str:
    """The shapes of what is modelled below an aggregate, and for each part of the key the columns that are it."""
    match node:
        case pg.Source():
            return {f"{prefix}{n}": Shape(1) for n in model.values}, [{f"{prefix}{n}"} for n in model.key]
        case pg.Restrict():
            found = _below(node.input, model, prefix)
            if isinstance(found, str) or not any(columns_of(c) & found[0].keys() for c in node.conjuncts):
                return found
            return "a condition on a signal stands below its window"
        case pg.Map():
            found = _below(node.input, model, prefix)
            if isinstance(found, str):
                return found
            shapes = {n: s for n, e in node.items if (s := shape_of(e, found[0])) is not None}
            named = [(n, e.name) for n, e in node.items if isinstance(e, Column)]
            return shapes, [{n for n, old in named if old in names} for names in found[1]]
        case pg.Aggregate():
            return "an aggregate reads another one"
        case pg.Join():
            return "signals are joined"


def _parts(node: pg.Node) -> Iterator[Expr]:
    """All parts of the expressions of an aggregate and of what stands below it."""
    match node:
        case pg.Map():
            expressions = [e for _, e in node.items]
        case pg.Aggregate():
            expressions = [e for _, _, e in node.functions]
        case _:
            expressions = []
    for e in expressions:
        yield from walk(e)
    if not isinstance(node, pg.Source | pg.Join):
        yield from _parts(node.input)


def _linear(e: Expr, shapes: dict[str, Shape]) -> bool:
    shape = shape_of(e, shapes)
    return shape is not None and shape.plain and shape.degree <= 1


def _without_conditions(node: pg.Node) -> pg.Node:
    """The maps below an aggregate: all samples of a signal that is left out are left out with its values."""
    match node:
        case pg.Restrict():
            return _without_conditions(node.input)
        case pg.Map():
            return pg.Map(_without_conditions(node.input), node.items)
    return node


def _first_conditions(node: pg.Node) -> tuple[Expr, ...]:
    """The conditions on what an aggregate gives."""
    found: tuple[Expr, ...] = ()
    while isinstance(node, pg.Restrict | pg.Map):
        found = node.conjuncts if isinstance(node, pg.Restrict) else ()
        node = node.input
    return found


def _on_values(node: pg.Node, names: Sequence[str], model: FittedRows, prefix: str) -> pg.Node:
    """The same program, with the aggregate's values in columns of its rows."""
    match node:
        case pg.Restrict():
            return pg.Restrict(_on_values(node.input, names, model, prefix), node.conjuncts)
        case pg.Map():
            return pg.Map(_on_values(node.input, names, model, prefix), node.items)
        case pg.Aggregate():
            values = tuple((n.removeprefix(_VALUE), Column(n, pa.float64())) for n in names)
            return pg.Map(_with_values(node.input, names, model, prefix), (*node.groups, *values))
    raise AssertionError("a window plan has one aggregate")


def _with_values(node: pg.Node, names: Sequence[str], model: FittedRows, prefix: str) -> pg.Node:
    """What stands below the aggregate, of rows that have its values instead of the samples'."""
    match node:
        case pg.Restrict():
            return pg.Restrict(_with_values(node.input, names, model, prefix), node.conjuncts)
        case pg.Map():
            found = _below(node.input, model, prefix)
            assert not isinstance(found, str)
            kept = tuple((n, e) for n, e in node.items if not columns_of(e) & found[0].keys())
            values = tuple((n, Column(n, pa.float64())) for n in names)
            return pg.Map(_with_values(node.input, names, model, prefix), (*kept, *values))
    return node
