"""Estimates for the counts, sums and averages of a query whose stream samples under overload.

A *companion* runs beside such a query: the same input of its aggregation, with sums over weights (``_weight``) in place
of its aggregates. From these the report makes Horvitz–Thompson estimates of what the query would say had no row been
shed, at the last instant that it has answered, with an interval of 95 % each.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from eddyline.adaptive.overload.horvitz_thompson import Estimate, average, total
from eddyline.core.overload import WEIGHT
from eddyline.expr.nodes import AggregateCall, Call, Case, Cast, Column, Expr, Literal
from eddyline.plan.logical import Aggregate, BoundQuery, Plan, Project, Select, StreamScan, Window
from eddyline.plan.traverse import each

DOUBLE: Final = pa.float64()
GROUPS_SHOWN: Final = 100  # groups that a report shows
SUMS: Final = ("w", "ww", "wy", "wwy", "wwyy")  # over weights w, ww = w (w − 1), and values y


@dataclass(frozen=True, slots=True)
class Estimated:
    """One aggregate: ``column`` is what the query calls it, ``place`` the first of its sums in the companion's row."""

    column: str
    function: str
    place: int


@dataclass(frozen=True, slots=True)
class Companion:
    query: BoundQuery
    keys: tuple[str, ...]
    estimated: tuple[Estimated, ...]


def companion_of(bound: BoundQuery) -> Companion | None:
    """The companion of a query; None where it has no count, sum or average over one stream that samples."""
    found = [n for n in each(bound.plan) if isinstance(n, Aggregate)]
    if len(found) != 1 or (weight := _weight(found[0].input)) is None:
        return None
    (node,) = found
    called = _names(bound.plan, node)
    sums: dict[str, AggregateCall] = {}
    estimated = []
    for name, call in node.aggregates:
        if call.function not in ("count", "sum", "avg") or call.distinct or call.user is not None:
            continue
        if call.function != "count" and not _number(call.args[0].type):
            continue
        estimated.append(Estimated(called.get(name, name), call.function, len(sums)))
        y = call.args[0] if call.args else None
        for label, value in zip(SUMS, _terms(weight, y, call.function == "count"), strict=True):
            sums[f"{label} {name}"] = AggregateCall("sum", (value,), DOUBLE)
    if not estimated:
        return None
    plan = Aggregate(node.input, node.keys, tuple(sums.items()), node.grouped)
    items = tuple((f.name, Column(f.name, f.type)) for f in plan.schema)
    text = f"estimates of {bound.text}"
    made = BoundQuery(None, Project(plan, items), bound.time_kind, text, None, {})
    return Companion(made, tuple(n for n, _ in node.keys), tuple(estimated))


def _weight(plan: Plan) -> Column | None:
    """The weight of the rows, if only selections and a window stand between them and a stream that samples."""
    while isinstance(plan, Select | Window):
        plan = plan.input
    if not isinstance(plan, StreamScan) or WEIGHT not in plan.columns:
        return None
    return Column(plan.schema.names[plan.columns.index(WEIGHT)], DOUBLE)


def _names(plan: Plan, node: Aggregate) -> dict[str, str]:
    """What the select list calls each aggregate."""
    out: dict[str, str] = {}
    for p in each(plan):
        if isinstance(p, Project):
            out |= {e.name: n for n, e in reversed(p.items) if isinstance(e, Column) and e.name in node.schema}
    return out


def _number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _terms(w: Expr, y: Expr | None, counted: bool) -> tuple[Expr, ...]:
    """w, ww, w·y, ww·y and ww·y²; NULL where the argument is NULL, so that sums leave the row out."""

    def product(a: Expr, b: Expr) -> Expr:
        return Call("multiply", (a, b), DOUBLE)

    ww = product(w, Call("subtract", (w, Literal(1.0, DOUBLE)), DOUBLE))
    nothing = Literal(0.0, DOUBLE)
    if y is None:
        return w, ww, nothing, nothing, nothing
    there = Call("is_not_null", (y,), pa.bool_())
    only = tuple(Case(((there, e),), Literal(None, DOUBLE), DOUBLE) for e in (w, ww))
    if counted:
        return *only, nothing, nothing, nothing
    value = y if y.type == DOUBLE else Cast(y, DOUBLE)
    return *only, product(w, value), product(ww, value), product(product(ww, value), value)


class Answering(Protocol):
    """As much of a running query as its estimator uses."""

    results: deque[pa.RecordBatch]


class Estimator:
    """Follows the companion of a query: what its row, or the row of each group, is now."""

    def __init__(self, companion: Companion, running: Answering) -> None:
        self.companion, self.running = companion, running
        self.rows: dict[tuple[Any, ...], tuple[float | None, ...]] = {}

    def drain(self) -> None:
        """Take the changes since the last call, so that they do not pile up."""
        keys = len(self.companion.keys)
        results = self.running.results
        while results:
            for *values, _, sign in zip(*(c.to_pylist() for c in results.popleft().columns), strict=True):
                key = tuple(values[:keys])
                if sign > 0:
                    self.rows[key] = tuple(values[keys:])
                else:
                    self.rows.pop(key, None)

    def report(self) -> list[dict[str, Any]]:
        """For each group (the first hundred) and aggregate the estimate and its interval."""
        self.drain()
        out = []
        for key, sums in list(self.rows.items())[:GROUPS_SHOWN]:
            group = dict(zip(self.companion.keys, key, strict=True))
            for e in self.companion.estimated:
                made = estimate(e.function, sums[e.place : e.place + len(SUMS)])
                if made is not None:
                    out.append({"column": e.column, "function": e.function, "group": group, **made.to_dict()})
        return out

    def state(self) -> list[Any]:
        self.drain()
        return [[list(k), list(v)] for k, v in self.rows.items()]

    def load(self, state: list[Any]) -> None:
        self.rows = {tuple(k): tuple(v) for k, v in state}


def estimate(function: str, sums: tuple[float | None, ...]) -> Estimate | None:
    """
    >>> estimate("count", (120.0, 90.0, 0.0, 0.0, 0.0))
    Estimate(value=120.0, low=101.406..., high=138.593...)
    """
    w, ww, wy, wwy, wwyy = (0.0 if s is None else s for s in sums)
    match function:
        case "count":
            return total(w, ww)
        case "sum":
            return total(wy, wwyy) if w > 0 else None
        case _:
            return average(w, wy, ww, wwy, wwyy)
