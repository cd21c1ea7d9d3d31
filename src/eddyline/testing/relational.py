"""Relation-to-relation operators of the reference: functions of instantaneous relations, from their definitions."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from eddyline.core.errors import DataError
from eddyline.expr.nodes import Expr, columns_of
from eddyline.plan.logical import (
    Aggregate,
    AsOfJoin,
    Distinct,
    Explode,
    Frame,
    Join,
    MarkJoin,
    Neighbour,
    OuterJoin,
    Over,
    Plan,
    Project,
    Rank,
    Select,
    SetOperation,
)
from eddyline.testing.folds import fold
from eddyline.testing.rows import evaluate
from eddyline.testing.values import Failed, Row, canonical, order_key, row_key


def apply(node: Plan, inputs: Sequence[list[Row]]) -> list[Row]:
    """A relation-to-relation operator on instantaneous relations."""
    match node:
        case Select():
            names = node.schema.names
            return [row for row in inputs[0] if holds(node.conjuncts, named(names, row))]
        case Project():
            names = node.input.schema.names
            return [project(node, names, row) for row in inputs[0]]
        case Join():
            return join([i.schema.names for i in node.inputs], inputs, node.conjuncts)
        case OuterJoin():
            return outer_join(node, *inputs)
        case MarkJoin():
            return mark_join(node, *inputs)
        case Aggregate():
            return aggregate(node, inputs[0])
        case Distinct():
            return list(dict.fromkeys(inputs[0]))
        case Explode():
            at = node.input.schema.names.index(node.column)
            return [(*row, element) for row in inputs[0] for element in row[at] or ()]
        case Rank():
            return rank(node, inputs[0])
        case SetOperation():
            return set_operation(node, *inputs)
        case _:
            raise TypeError(f"{type(node).__name__} is not a relation-to-relation operator")


def named(names: Sequence[str], row: Row) -> dict[str, Any]:
    return dict(zip(names, row, strict=True))


def holds(conjuncts: Sequence[Expr], row: Mapping[str, Any]) -> bool:
    """Whether every conjunct is TRUE. FALSE or NULL from any forgets the others' errors; else the first one counts."""
    error: DataError | None = None
    for c in conjuncts:
        try:
            if evaluate(c, row) is not True:
                return False
        except DataError as e:
            error = error or e
    if error is not None:
        raise error
    return True


def project(node: Project, names: Sequence[str], row: Row) -> Row:
    values = named(names, row)
    return tuple(canonical(evaluate(e, values)) for _, e in node.items)


def join(names: Sequence[Sequence[str]], inputs: Sequence[list[Row]], conjuncts: Sequence[Expr]) -> list[Row]:
    """The rows of the product that satisfy the condition; each conjunct is looked at once its columns are there."""
    rows: list[Row] = [()]
    known: list[str] = []
    waiting = list(conjuncts)
    for columns, right in zip(names, inputs, strict=True):
        known += columns
        ready = [c for c in waiting if columns_of(c) <= set(known)]
        waiting = [c for c in waiting if c not in ready]
        product = (left + extra for left, extra in itertools.product(rows, right))
        rows = [row for row in product if holds(ready, named(known, row))]
    return rows


def outer_join(node: OuterJoin, left: list[Row], right: list[Row]) -> list[Row]:
    names = node.schema.names
    pairs = [
        (i, j)
        for (i, one), (j, other) in itertools.product(enumerate(left), enumerate(right))
        if holds(node.conjuncts, named(names, one + other))
    ]
    rows = [left[i] + right[j] for i, j in pairs]
    if node.kind in ("left", "full"):
        matched = {i for i, _ in pairs}
        rows += [row + (None,) * len(node.right.schema) for i, row in enumerate(left) if i not in matched]
    if node.kind in ("right", "full"):
        matched = {j for _, j in pairs}
        rows += [(None,) * len(node.left.schema) + row for j, row in enumerate(right) if j not in matched]
    return rows


def as_of_join(node: AsOfJoin, left: list[tuple[int, Row]], right: list[tuple[int, Row]]) -> list[tuple[int, Row]]:
    """Each left element with the nearest right one, at the time at which that is known; in order of the left elements
    among those of one instant. Elements that wait have no result; those of the future are left out by the caller."""
    names = node.left.schema.names, node.right.schema.names
    found = []
    for time, row in left:
        mine = [named(names[0], row)[a] for a, _ in node.keys]
        partners = [
            (t, other)
            for t, other in right
            if {"le": t <= time, "lt": t < time, "ge": t >= time, "gt": t > time}[node.comparison]
            and (node.within is None or abs(t - time) <= node.within)
            and None not in mine
            and mine == [named(names[1], other)[b] for _, b in node.keys]
        ]
        padded = row + (None,) * len(names[1])
        if partners and node.backward:
            found.append((time, row + partners[-1][1]))
        elif partners:
            found.append((partners[0][0], row + partners[0][1]))
        elif node.outer and node.backward:
            found.append((time, padded))
        elif node.outer and node.within is not None:
            found.append((time + node.within + 1, padded))
    return sorted(found, key=lambda e: e[0])


def over(node: Over, elements: list[tuple[int, Row]]) -> list[tuple[int, Row]]:
    """Each element with its values, at the time of the row of its partition that completes it, in order of these."""
    names = node.input.schema.names
    parts: dict[Row, list[tuple[int, dict[str, Any]]]] = {}
    found = []
    for time, row in elements:
        values = named(names, row)
        part = parts.setdefault(tuple(values[n] for n in node.partition), [])
        part.append((time, values))
        i = len(part) - 1 - node.waits
        if i >= 0:
            mine = part[i][1]
            rows = [r for _, r in part]
            found.append((time, (*(mine[n] for n in names), *(_over_value(v, rows, i) for _, v in node.values))))
    return found


def _over_value(v: Neighbour | Frame, rows: list[dict[str, Any]], i: int) -> Any:
    at = i + v.shift
    if isinstance(v, Frame):
        first = 0 if v.rows is None else max(0, at - v.rows + 1)
        return canonical(fold(v.call, rows[first : at + 1] if at >= 0 else []))
    if at >= 0:
        return rows[at][v.column]
    return None if v.default is None else rows[i][v.default]


def mark_join(node: MarkJoin, left: list[Row], right: list[Row]) -> list[Row]:
    """IN and EXISTS: TRUE with a match; NULL with none but a row that might have been one; else FALSE.

    The mark stands for a condition, and an error in it counts only if no other condition drops the row.
    """
    left_names, right_names = node.left.schema.names, node.right.schema.names
    both = (*left_names, *right_names)
    rows = []
    for row in left:
        mark: Any
        try:
            candidates = [other for other in right if holds(node.on, named(both, row + other))]
            marks = [all_equal(node, named(left_names, row), named(right_names, other)) for other in candidates]
            mark = True if True in marks else None if None in marks else False
        except DataError as e:
            mark = Failed(e)
        rows.append((*row, mark))
    return rows


def all_equal(node: MarkJoin, left: Mapping[str, Any], right: Mapping[str, Any]) -> bool | None:
    """The conjunction of x_i = q_i in three-valued logic; empty (EXISTS) it is TRUE."""
    truth: list[bool | None] = []
    for x, q in node.operands:
        a, b = canonical(evaluate(x, left)), canonical(evaluate(q, right))
        truth.append(None if a is None or b is None else (a,) == (b,))
    return False if False in truth else None if None in truth else True


def aggregate(node: Aggregate, rows: list[Row]) -> list[Row]:
    names = node.input.schema.names
    groups: dict[Row, list[dict[str, Any]]] = {} if node.grouped else {(): []}
    for row in rows:
        values = named(names, row)
        key = tuple(canonical(evaluate(e, values)) for _, e in node.keys)
        groups.setdefault(key, []).append(values)
    return [key + tuple(fold(call, group) for _, call in node.aggregates) for key, group in groups.items()]


def rank(node: Rank, rows: list[Row]) -> list[Row]:
    """Every row with its rank, whatever limit the plan has. Sorting is stable: ties stay in order of arrival."""
    names = node.input.schema.names
    ordered = list(rows) if node.by_arrival else sorted(rows, key=row_key)
    for name in reversed(node.ties):
        at = names.index(name)
        ordered.sort(key=lambda row: order_key(row[at]))
    for key in reversed(node.order):
        at = names.index(key.column)
        ordered.sort(key=lambda row: order_key(row[at]), reverse=key.descending)
        ordered.sort(key=lambda row: (row[at] is None) != key.nulls_first)
    parts: dict[Row, list[tuple[Row, Row]]] = {}  # by partition: sort keys and rows
    for row in ordered:
        values = named(names, row)
        part = parts.setdefault(tuple(values[n] for n in node.partition), [])
        part.append((tuple(values[k.column] for k in node.order), row))
    return [(*row, number) for part in parts.values() for number, row in _numbered(node.function, part)]


def _numbered(function: str, part: list[tuple[Row, Row]]) -> list[tuple[int, Row]]:
    keys = [key for key, _ in part]
    match function:
        case "row_number":
            numbers = list(range(1, len(part) + 1))
        case "rank":
            numbers = [1 + keys.index(key) for key in keys]
        case _:
            different = list(dict.fromkeys(keys))
            numbers = [1 + different.index(key) for key in keys]
    return [(number, row) for number, (_, row) in zip(numbers, part, strict=True)]


def set_operation(node: SetOperation, left: list[Row], right: list[Row]) -> list[Row]:
    one, other = (Counter(left), Counter(right)) if node.all else (Counter(set(left)), Counter(set(right)))
    match node.kind:
        case "union":
            return list((one + other if node.all else one | other).elements())
        case "except":
            return list((one - other).elements())
        case "intersect":
            return list((one & other).elements())
