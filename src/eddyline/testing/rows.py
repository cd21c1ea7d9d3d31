"""Expressions, one row at a time: the reference's own evaluator.

It reads the same nodes as the vectorised evaluator and shares nothing else with it, so that a mistake has to be made
twice to go unnoticed. Meaning: Spark 4 in ANSI mode. A value is a plain Python value, NULL is None; what cannot be
computed (overflow, division by zero, a failing cast) is a ``DataError``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from eddyline.core.errors import DataError
from eddyline.expr.nodes import Call, Case, Cast, Column, Expr, Literal, UserCall
from eddyline.testing.row_casts import cast
from eddyline.testing.row_functions import FUNCTIONS, NULL_AWARE
from eddyline.testing.values import Failed, canonical, compare


def evaluate(expr: Expr, row: Mapping[str, Any]) -> Any:
    """The value of an expression for one row, given by plan name.

    >>> import pyarrow as pa
    >>> a, x = Column("S.a", pa.int64()), Literal(None, pa.bool_())
    >>> greater = Call("gt", (a, Literal(3, pa.int64())), pa.bool_())
    >>> evaluate(Call("or", (greater, x), pa.bool_()), {"S.a": 4})  # TRUE OR NULL
    True
    >>> evaluate(Call("and", (greater, x), pa.bool_()), {"S.a": 4}) is None
    True
    """
    match expr:
        case Column(name=name):
            found = row[name]
            if isinstance(found, Failed):
                raise found.error
            return found
        case Literal(value=value):
            return value
        case Call():
            return _call(expr, row)
        case Cast():
            value = evaluate(expr.operand, row)
            if not expr.safe:
                return cast(value, expr.operand.type, expr.type)
            try:
                return cast(value, expr.operand.type, expr.type)
            except DataError:
                return None
        case Case():
            for condition, result in expr.branches:
                if evaluate(condition, row) is True:
                    return evaluate(result, row)
            return evaluate(expr.default, row)
        case UserCall():
            return _user_call(expr, row)


def _call(expr: Call, row: Mapping[str, Any]) -> Any:
    name, args = expr.function, expr.args
    if name in _LAZY:
        return _LAZY[name](args, row)
    values = [evaluate(a, row) for a in args]
    if name in NULL_AWARE:
        return NULL_AWARE[name](values)
    if any(v is None for v in values):
        return None
    if name not in FUNCTIONS:
        raise NotImplementedError(f"the reference does not know the function {name}")
    try:
        return FUNCTIONS[name](expr.type, *values)
    except OverflowError as e:  # Python's dates and floats end somewhere too
        raise DataError(f"{name}: {e}") from None


# What is not needed is not computed, and cannot fail.


def _and(args: tuple[Expr, ...], row: Mapping[str, Any]) -> bool | None:
    truth: bool | None = True
    for a in args:
        value = evaluate(a, row)
        if value is False:
            return False
        truth = None if value is None else truth
    return truth


def _or(args: tuple[Expr, ...], row: Mapping[str, Any]) -> bool | None:
    truth: bool | None = False
    for a in args:
        value = evaluate(a, row)
        if value is True:
            return True
        truth = None if value is None else truth
    return truth


def _if(args: tuple[Expr, ...], row: Mapping[str, Any]) -> Any:
    return evaluate(args[1 if evaluate(args[0], row) is True else 2], row)


def _coalesce(args: tuple[Expr, ...], row: Mapping[str, Any]) -> Any:
    for a in args:
        value = evaluate(a, row)
        if value is not None:
            return value
    return None


def _in(args: tuple[Expr, ...], row: Mapping[str, Any]) -> bool | None:
    """x IN (v, …): TRUE with a match, NULL with a NULL and no match, else FALSE."""
    x = evaluate(args[0], row)
    if x is None:
        return None
    unknown = False
    for a in args[1:]:
        value = evaluate(a, row)
        if value is None:
            unknown = True
        elif compare(x, value) == 0:
            return True
    return None if unknown else False


_LAZY = {"and": _and, "or": _or, "if": _if, "coalesce": _coalesce, "in": _in}


def _user_call(expr: UserCall, row: Mapping[str, Any]) -> Any:
    values = [evaluate(a, row) for a in expr.args]
    definition = expr.function
    if definition.kind == "row":
        return canonical(definition.function(*values))
    arrays = [pa.array([v], a.type) for v, a in zip(values, expr.args, strict=True)]
    if definition.kind == "arrow":
        result = definition.function(*arrays)
        return canonical(result[0].as_py())
    result = definition.function(*(a.to_pandas() for a in arrays))
    return canonical(pa.array(result, definition.returns, from_pandas=True)[0].as_py())
