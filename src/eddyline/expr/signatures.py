"""The types of the built-in functions: one rule for each canonical name.

A rule sees the types of the arguments as written and answers with the types to which they are cast and the type of the
result, or says in one sentence why it cannot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from eddyline.expr.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    DURATION,
    FLOAT,
    INT32,
    INT64,
    NULL,
    STRING,
    TIMESTAMP,
    bounded_decimal,
    common_type,
    decimal_of,
    implicitly_castable,
    is_decimal,
    is_float,
    is_integer,
    is_numeric,
    type_name,
)

Types = tuple[pa.DataType, ...]


class TypeMismatch(ValueError):
    """The function exists but not for these arguments; the message is one sentence."""

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Resolution:
    """``function`` is canonical; the caller casts each argument to its type in ``arguments``."""

    function: str
    arguments: Types
    returns: pa.DataType
    can_fail: bool = False


Rule = Callable[[str, Types], Resolution]

# -- how rules are written -----------------------------------------------------------------------------------------


def _list(types: Types) -> str:
    return " and ".join(type_name(t) for t in types) if types else "nothing"


def _mismatch(name: str, types: Types, wanted: str) -> TypeMismatch:
    return TypeMismatch(f"{name} wants {wanted}, not {_list(types)}.")


def _arity(name: str, types: Types, least: int, most: int | None = None) -> None:
    most = least if most is None else most
    if not least <= len(types) <= most:
        count = str(least) if least == most else f"{least} to {most}"
        plural = "" if count == "1" else "s"
        raise TypeMismatch(f"{name} takes {count} argument{plural}, not {len(types)}.")


def _fixed(*wanted: pa.DataType, returns: pa.DataType, optional: int = 0, can_fail: bool = False) -> Rule:
    """A function with fixed argument types; the last ``optional`` arguments may be left out."""

    def rule(name: str, types: Types) -> Resolution:
        _arity(name, types, len(wanted) - optional, len(wanted))
        arguments = wanted[: len(types)]
        for i, (have, want) in enumerate(zip(types, arguments, strict=True)):
            if not implicitly_castable(have, want):
                place = "" if len(wanted) == 1 else f" as argument {i + 1}"
                raise TypeMismatch(f"{name} wants {type_name(want)}{place}, not {type_name(have)}.")
        return Resolution(name, arguments, returns, can_fail)

    return rule


def _common(name: str, types: Types, default: pa.DataType = STRING) -> pa.DataType:
    if any(map(pa.types.is_nested, types)):
        raise TypeMismatch(f"{name} does not go with lists: read them with element_at, size or array_contains.")
    found: pa.DataType | None = NULL
    for t in types:
        found = common_type(found, t)
        if found is None:
            verb = "cannot compare" if name in _COMPARISONS or name == "in" else f"{name} cannot combine"
            what = _list(tuple(dict.fromkeys(types)))
            if any(map(pa.types.is_integer, types)) and any(map(pa.types.is_duration, types)):
                raise TypeMismatch(f"{verb} {what}: an integer time counts ticks, so write a number without a unit.")
            raise TypeMismatch(f"{verb} {what}; cast one of them.")
    return default if found == NULL else found


_COMPARISONS: Final = ("eq", "ne", "lt", "le", "gt", "ge", "null_safe_eq")


def _comparison(name: str, types: Types) -> Resolution:
    _arity(name, types, 2)
    t = _common(name, types)
    return Resolution(name, (t, t), BOOLEAN)


def _in(name: str, types: Types) -> Resolution:
    if len(types) < 2:
        raise TypeMismatch("IN needs at least one value in its list.")
    t = _common(name, types)
    return Resolution(name, (t,) * len(types), BOOLEAN)


def _same(least: int, most: int | None = None) -> Rule:
    """All arguments and the result have their common type."""

    def rule(name: str, types: Types) -> Resolution:
        _arity(name, types, least, most if most is not None else max(least, len(types)))
        t = _common(name, types)
        return Resolution(name, (t,) * len(types), t)

    return rule


def _if(name: str, types: Types) -> Resolution:
    _arity(name, types, 3)
    if types[0] not in (BOOLEAN, NULL, STRING):
        raise TypeMismatch(f"if wants a condition, not {type_name(types[0])}.")
    t = _common(name, types[1:])
    return Resolution(name, (BOOLEAN, t, t), t)


def _logical(name: str, types: Types) -> Resolution:
    _arity(name, types, 1 if name == "not" else 2, 1 if name == "not" else max(2, len(types)))
    for t in types:
        if t not in (BOOLEAN, NULL, STRING):
            raise TypeMismatch(f"{name.upper()} wants conditions, not {type_name(t)}.")
    return Resolution(name, (BOOLEAN,) * len(types), BOOLEAN)


def _any_to_boolean(name: str, types: Types) -> Resolution:
    _arity(name, types, 1)
    return Resolution(name, types, BOOLEAN)


def _concat(name: str, types: Types) -> Resolution:
    if not types:
        raise TypeMismatch("concat needs at least one argument.")
    if not all(implicitly_castable(t, STRING) for t in types):
        raise _mismatch(name, types, "texts")
    return Resolution(name, (STRING,) * len(types), STRING)


# -- lists ---------------------------------------------------------------------------------------------------------


def _of_list(name: str, types: Types) -> Resolution:
    """``element_at(list, n)``, ``size(list)``, ``array_contains(list, x)``."""
    _arity(name, types, 1 if name == "size" else 2)
    if not pa.types.is_list(types[0]):
        raise TypeMismatch(f"{name} wants a list, not {type_name(types[0])}.")
    if name == "size":
        return Resolution(name, types, INT32)
    element = types[0].value_type
    if name == "array_contains":
        if not implicitly_castable(types[1], element):
            raise TypeMismatch(f"array_contains compares {_list((element,))} with {type_name(types[1])}: cast it.")
        return Resolution(name, (types[0], element), BOOLEAN)
    if not is_integer(types[1]) and types[1] != NULL:
        raise TypeMismatch(f"{name} wants a whole number as the position, not {type_name(types[1])}.")
    return Resolution(name, (types[0], INT64), element, can_fail=True)


# -- arithmetic ----------------------------------------------------------------------------------------------------


def _number_pair(name: str, types: Types) -> pa.DataType:
    """The common numeric type of two operands, decimals aside."""
    t = _common(name, types, default=DOUBLE)
    if t == STRING:
        return DOUBLE
    if not is_numeric(t):
        raise _mismatch(_VERBS[name], types, "numbers")
    return t


_VERBS: Final = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "integer_divide": "div", "mod": "%"}


def _temporal(name: str, types: Types) -> Resolution | None:
    """Arithmetic with dates, timestamps and intervals."""
    a, b = types
    if name == "add" and a == DURATION and b in (DATE, TIMESTAMP):
        return Resolution(name, (DURATION, TIMESTAMP), TIMESTAMP, can_fail=True)
    if name in ("add", "subtract"):
        if a in (DATE, TIMESTAMP) and b == DURATION:
            return Resolution(name, (TIMESTAMP, DURATION), TIMESTAMP, can_fail=True)
        if a == DATE and is_integer(b):
            return Resolution("date_add" if name == "add" else "date_sub", (DATE, INT64), DATE, can_fail=True)
        if (a == DURATION and b in (DURATION, NULL)) or (b == DURATION and a == NULL):
            return Resolution(name, (DURATION, DURATION), DURATION, can_fail=True)
    if name == "subtract" and {a, b} <= {DATE, TIMESTAMP, STRING, NULL} and {a, b} & {DATE, TIMESTAMP}:
        return Resolution(name, (TIMESTAMP, TIMESTAMP), DURATION, can_fail=True)
    if name in ("multiply", "divide") and a == DURATION and is_numeric(b):
        number = INT64 if name == "multiply" and is_integer(b) else DOUBLE
        return Resolution(name, (DURATION, number), DURATION, can_fail=True)
    if name == "multiply" and b == DURATION and is_numeric(a):
        return Resolution(name, (INT64 if is_integer(a) else DOUBLE, DURATION), DURATION, can_fail=True)
    return None


def _decimal_result(name: str, a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """Spark's precision and scale of a decimal result."""
    whole_a, whole_b, scale = a.precision - a.scale, b.precision - b.scale, max(a.scale, b.scale)
    if name in ("add", "subtract"):
        return bounded_decimal(max(whole_a, whole_b) + scale + 1, scale)
    if name == "multiply":
        return bounded_decimal(a.precision + b.precision + 1, a.scale + b.scale)
    if name == "divide":
        fraction = max(6, a.scale + b.precision + 1)
        return bounded_decimal(whole_a + b.scale + fraction, fraction)
    return bounded_decimal(min(whole_a, whole_b) + scale, scale)


def _arithmetic(name: str, types: Types) -> Resolution:
    _arity(name, types, 2)
    temporal = _temporal(name, types)
    if temporal is not None:
        return temporal
    t = _number_pair(name, types)
    if is_decimal(t):
        a, b = (decimal_of(t if x == NULL else x) for x in types)
        returns = INT64 if name == "integer_divide" else _decimal_result(name, a, b)
        return Resolution(name, (a, b), returns, can_fail=True)
    if name == "divide":
        return Resolution(name, (DOUBLE, DOUBLE), DOUBLE, can_fail=True)
    if name == "integer_divide":
        if is_float(t):
            if NULL not in types and STRING not in types:
                raise _mismatch("div", types, "integers")
            t = INT64
        return Resolution(name, (INT64, INT64), INT64, can_fail=True)
    return Resolution(name, (t, t), t, can_fail=name == "mod" or not is_float(t))


def _signed(name: str, types: Types) -> Resolution:
    """``negate`` and ``abs``: the smallest integer has no positive counterpart."""
    _arity(name, types, 1)
    t = DOUBLE if types[0] in (STRING, NULL) else types[0]
    if t != DURATION and not is_numeric(t):
        raise _mismatch(name, types, "a number")
    return Resolution(name, (t,), t, can_fail=is_integer(t) or t == DURATION)


def _to_whole(name: str, types: Types) -> Resolution:
    """``ceil`` and ``floor`` give bigint."""
    _arity(name, types, 1)
    t = DOUBLE if types[0] in (STRING, NULL, FLOAT) else types[0]
    if is_decimal(t):
        return Resolution(name, (t,), pa.decimal128(min(38, t.precision - t.scale + 1), 0), can_fail=True)
    if is_integer(t):
        return Resolution(name, (INT64,), INT64)
    if t != DOUBLE:
        raise _mismatch(name, types, "a number")
    return Resolution(name, (t,), INT64)


def _round(name: str, types: Types) -> Resolution:
    _arity(name, types, 1, 2)
    t = DOUBLE if types[0] in (STRING, NULL) else types[0]
    if not is_numeric(t):
        raise _mismatch(name, types[:1], "a number")
    if len(types) == 2 and not is_integer(types[1]):
        raise TypeMismatch(f"round wants a whole number of digits, not {type_name(types[1])}.")
    returns = pa.decimal128(min(38, t.precision + 1), t.scale) if is_decimal(t) else t
    return Resolution(name, (t, INT64)[: len(types)], returns, can_fail=not is_float(t))


def _log(name: str, types: Types) -> Resolution:
    if len(types) == 1:
        return _fixed(DOUBLE, returns=DOUBLE)("ln", types)
    return _fixed(DOUBLE, DOUBLE, returns=DOUBLE)(name, types)


def _to_time(target: pa.DataType) -> Rule:
    """``to_date`` and ``to_timestamp`` are casts by another name."""

    def rule(name: str, types: Types) -> Resolution:
        _arity(name, types, 1)
        if types[0] not in (STRING, DATE, TIMESTAMP, NULL) and not (target == TIMESTAMP and is_numeric(types[0])):
            raise _mismatch(name, types, "a text, a date or a timestamp")
        return Resolution(name, (target,), target)  # the argument's Cast does the work, and may fail

    return rule


RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(("add", "subtract", "multiply", "divide", "integer_divide", "mod"), _arithmetic),
    "negate": _signed,
    "abs": _signed,
    **dict.fromkeys(_COMPARISONS, _comparison),
    "and": _logical,
    "or": _logical,
    "not": _logical,
    "is_null": _any_to_boolean,
    "is_not_null": _any_to_boolean,
    "isnan": _fixed(DOUBLE, returns=BOOLEAN),
    "in": _in,
    "coalesce": _same(1),
    "nullif": _same(2, 2),
    "greatest": _same(2),
    "least": _same(2),
    "if": _if,
    # texts
    "like": _fixed(STRING, STRING, STRING, returns=BOOLEAN, optional=1, can_fail=True),
    "ilike": _fixed(STRING, STRING, STRING, returns=BOOLEAN, optional=1, can_fail=True),
    "rlike": _fixed(STRING, STRING, returns=BOOLEAN, can_fail=True),
    "regexp_extract": _fixed(STRING, STRING, INT64, returns=STRING, optional=1, can_fail=True),
    "regexp_replace": _fixed(STRING, STRING, STRING, returns=STRING, can_fail=True),
    **dict.fromkeys(("startswith", "endswith", "contains"), _fixed(STRING, STRING, returns=BOOLEAN)),
    **dict.fromkeys(("upper", "lower", "reverse", "initcap"), _fixed(STRING, returns=STRING)),
    **dict.fromkeys(("trim", "ltrim", "rtrim"), _fixed(STRING, STRING, returns=STRING, optional=1)),
    "length": _fixed(STRING, returns=INT32),
    "ascii": _fixed(STRING, returns=INT32),
    "substring": _fixed(STRING, INT64, INT64, returns=STRING, optional=1),
    **dict.fromkeys(("left", "right"), _fixed(STRING, INT64, returns=STRING)),
    "repeat": _fixed(STRING, INT64, returns=STRING, can_fail=True),
    "concat": _concat,
    "replace": _fixed(STRING, STRING, STRING, returns=STRING, optional=1),
    "instr": _fixed(STRING, STRING, returns=INT32),  # (text, part)
    "locate": _fixed(STRING, STRING, INT64, returns=INT32, optional=1),  # (part, text[, start])
    **dict.fromkeys(("lpad", "rpad"), _fixed(STRING, INT64, STRING, returns=STRING, optional=1, can_fail=True)),
    "split_part": _fixed(STRING, STRING, INT64, returns=STRING, can_fail=True),
    **dict.fromkeys(("element_at", "try_element_at", "size", "array_contains"), _of_list),
    # mathematics
    **dict.fromkeys(
        (
            *("sqrt", "exp", "ln", "log10", "log2", "log1p", "expm1", "sin", "cos", "tan", "asin", "acos", "atan"),
            *("sinh", "cosh", "tanh", "sign", "degrees", "radians", "cbrt"),
        ),
        _fixed(DOUBLE, returns=DOUBLE),
    ),
    **dict.fromkeys(("pow", "atan2", "hypot"), _fixed(DOUBLE, DOUBLE, returns=DOUBLE)),
    "log": _log,  # log(x) is ln, log(base, x)
    "pi": _fixed(returns=DOUBLE),
    "ceil": _to_whole,
    "floor": _to_whole,
    "round": _round,
    # dates and times
    **dict.fromkeys(
        ("year", "month", "day", "hour", "minute", "second", "dayofweek", "weekday", "dayofyear", "quarter", "week"),
        _fixed(TIMESTAMP, returns=INT32),
    ),
    "date_trunc": _fixed(STRING, TIMESTAMP, returns=TIMESTAMP),
    "date_format": _fixed(TIMESTAMP, STRING, returns=STRING, can_fail=True),
    "date_add": _fixed(DATE, INT64, returns=DATE, can_fail=True),
    "date_sub": _fixed(DATE, INT64, returns=DATE, can_fail=True),
    "datediff": _fixed(DATE, DATE, returns=INT32),
    "to_date": _to_time(DATE),
    "to_timestamp": _to_time(TIMESTAMP),
    **dict.fromkeys(("unix_micros", "unix_millis", "unix_seconds"), _fixed(TIMESTAMP, returns=INT64)),
    "unix_date": _fixed(DATE, returns=INT32),
    "timestamp_micros": _fixed(INT64, returns=TIMESTAMP, can_fail=True),
    "timestamp_millis": _fixed(INT64, returns=TIMESTAMP, can_fail=True),
    "timestamp_seconds": _fixed(INT64, returns=TIMESTAMP, can_fail=True),
}
