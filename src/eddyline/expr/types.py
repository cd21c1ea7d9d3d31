"""The engine's types: their names in CQL, how two of them meet, and what a source's types become.

The set is small on purpose: boolean, tinyint … bigint, float, double, decimal, string, binary, date, timestamp in
microseconds (UTC), interval (a duration in microseconds), lists of these, which only some functions read, and the type
of a bare ``NULL``. Coercions are those of Spark 4 in ANSI mode.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
import pyarrow.types as pat

from eddyline.core.errors import did_you_mean

BOOLEAN: Final = pa.bool_()
INT8: Final = pa.int8()
INT16: Final = pa.int16()
INT32: Final = pa.int32()
INT64: Final = pa.int64()
FLOAT: Final = pa.float32()
DOUBLE: Final = pa.float64()
STRING: Final = pa.string()
BINARY: Final = pa.binary()
DATE: Final = pa.date32()
TIMESTAMP: Final = pa.timestamp("us")
DURATION: Final = pa.duration("us")
NULL: Final = pa.null()

# The years 1 to 9999, which is also what Python, and so every user's function, can hold.
TIMESTAMP_RANGE: Final = (-62_135_596_800_000_000, 253_402_300_799_999_999)
DATE_RANGE: Final = (-719_162, 2_932_896)
LONGEST_TEXT: Final = 1 << 26  # characters that repeat, lpad and rpad may make: a longer result is a mistake

_NAMES: Final[dict[str, pa.DataType]] = {
    "boolean": BOOLEAN,
    "bool": BOOLEAN,
    "tinyint": INT8,
    "byte": INT8,
    "smallint": INT16,
    "short": INT16,
    "int": INT32,
    "integer": INT32,
    "bigint": INT64,
    "long": INT64,
    "float": FLOAT,
    "real": FLOAT,
    "double": DOUBLE,
    "double precision": DOUBLE,
    "string": STRING,
    "text": STRING,
    "varchar": STRING,
    "char": STRING,
    "character": STRING,
    "character varying": STRING,
    "binary": BINARY,
    "bytea": BINARY,
    "varbinary": BINARY,
    "date": DATE,
    "timestamp": TIMESTAMP,
    "datetime": TIMESTAMP,
    "interval": DURATION,
    "decimal": pa.decimal128(10, 0),
    "numeric": pa.decimal128(10, 0),
    "dec": pa.decimal128(10, 0),
}

_INTEGER_ORDER: Final = (INT8, INT16, INT32, INT64)
_INTEGER_DIGITS: Final = {INT8: 3, INT16: 5, INT32: 10, INT64: 20}
_SQL_NAMES: Final = {
    BOOLEAN: "boolean",
    INT8: "tinyint",
    INT16: "smallint",
    INT32: "int",
    INT64: "bigint",
    FLOAT: "float",
    DOUBLE: "double",
    STRING: "string",
    BINARY: "binary",
    DATE: "date",
    TIMESTAMP: "timestamp",
    DURATION: "interval",
    NULL: "NULL",
}


def parse_type(text: str) -> pa.DataType:
    """The type that a CQL type name means.

    >>> parse_type("BIGINT"), parse_type("varchar(20)"), parse_type("decimal(12, 2)")
    (DataType(int64), DataType(string), Decimal128Type(decimal128(12, 2)))
    >>> parse_type("bigit")
    Traceback (most recent call last):
    ...
    ValueError: unknown type 'bigit'. Did you mean 'bigint'?
    """
    name = re.sub(r"\s+", " ", text.strip().lower())
    with_arguments = re.fullmatch(r"([a-z ]+?) ?\( ?(\d+) ?(?:, ?(\d+) ?)?\)", name)
    if with_arguments is None:
        if name in _NAMES:
            return _NAMES[name]
        raise ValueError(f"unknown type {text.strip()!r}.{did_you_mean(name, _NAMES)}")
    base, first, second = with_arguments.groups()
    if base in ("decimal", "numeric", "dec"):
        precision, scale = int(first), int(second or 0)
        if not 1 <= precision <= 38 or scale > precision:
            raise ValueError(f"decimal({precision}, {scale}) does not exist: 1 <= precision <= 38, scale <= precision.")
        return pa.decimal128(precision, scale)
    if second is None and (_NAMES.get(base) in (STRING, BINARY) or base == "timestamp"):
        return _NAMES[base]
    raise ValueError(f"unknown type {text.strip()!r}.{did_you_mean(base, _NAMES)}")


def type_name(t: pa.DataType) -> str:
    """The name of a type in messages and in printed expressions.

    >>> type_name(pa.int64()), type_name(pa.decimal128(5, 2))
    ('bigint', 'decimal(5,2)')
    """
    if pat.is_list(t):
        return f"array<{type_name(t.value_type)}>"
    if pat.is_decimal(t):
        return f"decimal({t.precision},{t.scale})"
    return _SQL_NAMES.get(t, str(t))


def is_integer(t: pa.DataType) -> bool:
    return t in _INTEGER_DIGITS


def is_float(t: pa.DataType) -> bool:
    return t in (DOUBLE, FLOAT)


def is_decimal(t: pa.DataType) -> bool:
    return bool(pat.is_decimal(t))


def is_numeric(t: pa.DataType) -> bool:
    return is_integer(t) or is_float(t) or is_decimal(t)


def decimal_of(t: pa.DataType) -> pa.DataType:
    """The decimal type that holds every value of an integer type (or the decimal type itself)."""
    return t if is_decimal(t) else pa.decimal128(_INTEGER_DIGITS[t], 0)


def bounded_decimal(precision: int, scale: int) -> pa.DataType:
    """Spark's rule for results that would need more than 38 digits: give up fraction digits, but keep up to six."""
    if precision <= 38:
        return pa.decimal128(max(precision, 1), scale)
    whole = precision - scale
    return pa.decimal128(38, max(38 - whole, min(scale, 6)))


def common_type(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The type to which both sides of a comparison, a CASE or a set operation are cast; None if there is none.

    >>> common_type(pa.int32(), pa.float32())
    DataType(double)
    >>> common_type(pa.string(), pa.int32())  # ANSI: the text is read as a number
    DataType(int64)
    >>> common_type(pa.bool_(), pa.int32()) is None
    True
    """
    if a == b:
        return a
    if a == NULL:
        return b
    if b == NULL:
        return a
    if is_numeric(a) and is_numeric(b):
        return _common_number(a, b)
    if {a, b} == {DATE, TIMESTAMP}:
        return TIMESTAMP
    if b == STRING:
        a, b = b, a
    if a == STRING and b != DURATION:
        if is_integer(b):
            return INT64
        return DOUBLE if is_numeric(b) else b
    return None


def _common_number(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    if is_float(a) or is_float(b):
        return DOUBLE  # equal types were handled before: float with anything else is double
    if is_decimal(a) or is_decimal(b):
        a, b = decimal_of(a), decimal_of(b)
        scale = max(a.scale, b.scale)
        return bounded_decimal(max(a.precision - a.scale, b.precision - b.scale) + scale, scale)
    return _INTEGER_ORDER[max(_INTEGER_ORDER.index(a), _INTEGER_ORDER.index(b))]


def implicitly_castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether an argument of one type may be given where a function wants another (ANSI implicit casts)."""
    if source in (target, NULL):
        return True
    if pat.is_list(source) or pat.is_list(target):
        return False
    if is_numeric(source) and is_numeric(target):
        return is_float(target) or (is_integer(source) and target in (INT64, common_type(source, target)))
    if source == STRING:
        return bool(target != DURATION)
    if target == STRING:
        return source not in (BINARY, DURATION)
    return (source, target) == (DATE, TIMESTAMP)


def castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether ``CAST(source AS target)`` exists at all in ANSI mode."""
    if source == target or NULL in (source, target):
        return True
    if pat.is_list(source) or pat.is_list(target):
        return False
    if source == STRING:
        return True
    if target == STRING:
        return True
    if is_numeric(source):
        return is_numeric(target) or target in (BOOLEAN, TIMESTAMP)
    if source == BOOLEAN:
        return is_numeric(target)
    if source == TIMESTAMP:
        return target in (DATE,) or is_numeric(target)
    return (source, target) == (DATE, TIMESTAMP)


def cast_can_fail(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether some value of the source type has no value in the target type."""
    if source in (target, NULL):
        return False
    if target == STRING:
        return source in (BINARY,)  # bytes that are not UTF-8
    if source == STRING:
        return target not in (BINARY,)
    if is_integer(source) and is_integer(target):
        return _INTEGER_ORDER.index(source) > _INTEGER_ORDER.index(target)
    if target == BOOLEAN or is_float(target):
        return False
    if is_decimal(target):
        if is_float(source) or source == TIMESTAMP:
            return True
        digits = pa.decimal128(1, 0) if source == BOOLEAN else decimal_of(source)
        rounds = digits.scale > target.scale  # 9.99 needs another digit before the point
        return bool(digits.precision - digits.scale + rounds > target.precision - target.scale)
    if source == BOOLEAN:
        return False
    return (source, target) not in ((TIMESTAMP, DATE), (DATE, TIMESTAMP))


def normalise(t: pa.DataType) -> pa.DataType:
    """The engine's type for a source's type; ValueError for types that the engine does not hold.

    >>> normalise(pa.uint16()), normalise(pa.timestamp("ns", "Europe/Paris")), normalise(pa.large_string())
    (DataType(int32), TimestampType(timestamp[us]), DataType(string))
    """
    if t in _SQL_NAMES:
        return t
    if pat.is_dictionary(t) or pat.is_run_end_encoded(t):
        return normalise(t.value_type)
    if pat.is_timestamp(t):
        return TIMESTAMP
    if pat.is_duration(t):
        return DURATION
    if pat.is_date(t):
        return DATE
    if pat.is_decimal(t):
        return pa.decimal128(min(t.precision, 38), min(t.scale, 38))
    simple = {
        pa.large_string(): STRING,
        pa.string_view(): STRING,
        pa.large_binary(): BINARY,
        pa.binary_view(): BINARY,
        pa.float16(): FLOAT,
        pa.uint8(): INT16,
        pa.uint16(): INT32,
        pa.uint32(): INT64,
        pa.uint64(): pa.decimal128(20, 0),
    }
    if t in simple:
        return simple[t]
    if pat.is_fixed_size_binary(t):
        return BINARY
    if (pat.is_list(t) or pat.is_large_list(t) or pat.is_fixed_size_list(t)) and not pat.is_nested(t.value_type):
        return pa.list_(normalise(t.value_type))
    raise ValueError(f"columns of type {t} are not supported; cast them to a number, a text or a time first.")
