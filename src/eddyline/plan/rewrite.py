"""Helpers for rules: rebuild a node with other children, ask whether an expression may be moved."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from operator import is_

from eddyline.expr.evaluate import compile_expr
from eddyline.expr.nodes import Expr, UserCall, walk
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
    children,
)


def with_children(p: Plan, new: Sequence[Plan]) -> Plan:
    """The node itself, if the children are its own."""
    if all(map(is_, new, children(p))):
        return p
    match p:
        case StreamScan() | RelationScan():
            return p
        case Join() | ModelQuery():
            return replace(p, inputs=tuple(new))
        case OuterJoin() | MarkJoin() | SetOperation() | AsOfJoin():
            return replace(p, left=new[0], right=new[1])
        case Window() | Select() | Project() | Aggregate() | Distinct() | Explode() | Rank():
            return replace(p, input=new[0])
        case Over() | WithArrivals() | ToStream():
            return replace(p, input=new[0])


def bottom_up(p: Plan, rule: Callable[[Plan], Plan]) -> Plan:
    """Apply a rule to every node, children first; a node (the very object) that is read in several places stays one."""
    done: dict[int, Plan] = {}

    def of(n: Plan) -> Plan:
        if id(n) not in done:
            done[id(n)] = rule(with_children(n, [of(c) for c in children(n)]))
        return done[id(n)]

    return of(p)


def movable(e: Expr) -> bool:
    """Whether evaluating the expression for more rows, or for rows that another conjunct drops, cannot be noticed.

    What can fail would raise errors that the written query does not have; a user's function may count its calls.
    """
    return not any(isinstance(x, UserCall) for x in walk(e)) and not compile_expr(e).can_fail


def may_pass(conjuncts: Sequence[Expr]) -> tuple[Expr, ...]:
    """The movable ones of a conjunction. What is written behind a function that is not deterministic, or has side
    effects, stays behind it: that function is called for the rows that satisfy what is written before it, no fewer."""
    wall = next((i for i, c in enumerate(conjuncts) if not deterministic(c)), len(conjuncts))
    return tuple(c for c in conjuncts[:wall] if movable(c))


def without(conjuncts: Sequence[Expr], gone: Collection[Expr]) -> tuple[Expr, ...]:
    """The conjuncts that are not among ``gone``, by value: a conjunct that is written twice is removed twice."""
    found = frozenset(gone)
    return tuple(c for c in conjuncts if c not in found)


def deterministic(e: Expr) -> bool:
    return all(x.function.deterministic for x in walk(e) if isinstance(x, UserCall))


def select(p: Plan, conjuncts: Sequence[Expr]) -> Plan:
    """A Select, or nothing where there is nothing to select by; two in a row become one."""
    if not conjuncts:
        return p
    if isinstance(p, Select):
        return Select(p.input, (*p.conjuncts, *conjuncts))
    return Select(p, tuple(conjuncts))
