"""Resolves a function by its name and argument types: the binder's half of the built-in functions.

``resolve`` gives the canonical name, the types to which the arguments are cast, the result type and whether a row can
make the call fail. Argument order is never changed, so that canonical functions read as they are written. What the
functions compute is in ``expr.builtins`` (vectorised); the reference interpreter implements them independently.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from eddyline.core.errors import did_you_mean
from eddyline.expr.signatures import RULES, Resolution, TypeMismatch
from eddyline.expr.types import (
    DOUBLE,
    INT64,
    NULL,
    STRING,
    is_decimal,
    is_integer,
    is_numeric,
    type_name,
)

__all__ = [
    "ALIASES",
    "Resolution",
    "TypeMismatch",
    "UnknownFunction",
    "aggregate_name",
    "function_names",
    "is_aggregate",
    "resolve",
    "resolve_aggregate",
]


class UnknownFunction(ValueError):
    """No function has this name; the message suggests the nearest one."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name = name
        self.message = f"unknown function {name!r}.{did_you_mean(name, known)}"
        super().__init__(self.message)


ALIASES: Final[dict[str, str]] = {
    "ifnull": "coalesce",
    "nvl": "coalesce",
    "iff": "if",
    "regexp": "rlike",
    "regexp_like": "rlike",
    "match": "contains",
    "matches": "contains",
    "ucase": "upper",
    "lcase": "lower",
    "btrim": "trim",
    "char_length": "length",
    "cardinality": "size",
    "array_size": "size",
    "character_length": "length",
    "len": "length",
    "substr": "substring",
    "position": "locate",
    "power": "pow",
    "signum": "sign",
    "ceiling": "ceil",
    "negative": "negate",
    "div": "integer_divide",
    "dayofmonth": "day",
    "weekofyear": "week",
    "date_diff": "datediff",
    "dateadd": "date_add",
    "unix_timestamp": "unix_seconds",
    "starts_with": "startswith",
    "ends_with": "endswith",
}

_AGGREGATE_ALIASES: Final[dict[str, str]] = {
    "mean": "avg",
    "average": "avg",
    "std": "stddev",
    "stddev_samp": "stddev",
    "var_samp": "variance",
    "first_value": "first",
    "last_value": "last",
    "any_value": "first",
    "percentile_approx": "approx_percentile",
}


def resolve(name: str, types: Sequence[pa.DataType]) -> Resolution:
    """What ``name(types…)`` means; raises UnknownFunction or TypeMismatch.

    >>> resolve("div", [pa.int32(), pa.int64()])
    Resolution(function='integer_divide', arguments=(DataType(int64), DataType(int64)), returns=DataType(int64),
               can_fail=True)
    >>> resolve("uper", [pa.string()])
    Traceback (most recent call last):
    ...
    eddyline.expr.functions.UnknownFunction: unknown function 'uper'. Did you mean 'upper'?
    """
    lower = name.lower()
    canonical = ALIASES.get(lower, lower)
    if canonical not in RULES:
        raise UnknownFunction(name, function_names())
    return RULES[canonical](canonical, tuple(types))


def function_names() -> list[str]:
    """All names that ``resolve`` accepts, canonical or not."""
    return sorted([*RULES, *ALIASES])


def is_aggregate(name: str) -> bool:
    return aggregate_name(name) in _AGGREGATES


def aggregate_name(name: str) -> str:
    """The canonical name of an aggregate; any other name as it is, in small letters."""
    lower = name.lower()
    return _AGGREGATE_ALIASES.get(lower, lower)


def resolve_aggregate(name: str, types: Sequence[pa.DataType], distinct: bool = False) -> Resolution:
    """What an aggregate call means; ``count(*)`` has no types. ``can_fail`` is the overflow of a sum.

    >>> resolve_aggregate("sum", [pa.int32()]).returns
    DataType(int64)
    """
    lower = name.lower()
    canonical = _AGGREGATE_ALIASES.get(lower, lower)
    given = tuple(types)
    if canonical not in _AGGREGATES:
        raise UnknownFunction(name, [*_AGGREGATES, *_AGGREGATE_ALIASES])
    if canonical == "count":
        if len(given) > 1 and not distinct:
            raise TypeMismatch("count takes one argument or *; count(DISTINCT a, b) takes several.")
        return Resolution("count", given, INT64)
    if canonical == "approx_count_distinct" and len(given) == 1:
        return Resolution(canonical, given, INT64)
    if len(given) != 1:
        raise TypeMismatch(f"{canonical} takes one argument, not {len(given)}.")
    (t,) = given
    if canonical in ("min", "max", "first", "last"):
        return Resolution(canonical, (t,), t)
    if t not in (STRING, NULL) and not is_numeric(t):
        raise TypeMismatch(f"{canonical} wants a number, not {type_name(t)}.")
    if canonical == "sum":
        if is_integer(t):
            return Resolution("sum", (INT64,), INT64, can_fail=True)
        if is_decimal(t):
            return Resolution("sum", (t,), pa.decimal128(38, t.scale), can_fail=True)
    if canonical == "avg" and is_integer(t):
        return Resolution("avg", (INT64,), DOUBLE)  # an exact sum, which sum(x) shares
    return Resolution(canonical, (DOUBLE,), DOUBLE)


_AGGREGATES: Final = (
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "first",
    "last",
    "stddev",
    "stddev_pop",
    "variance",
    "var_pop",
    "approx_count_distinct",
    "approx_percentile",
)
