from __future__ import annotations

import pyarrow as pa
import pytest

from eddyline.expr.types import common_type, normalise, parse_type
from tests.expr.build import F32, F64, I8, I16, I32, I64, IV, TS, B, D, S

DEC = pa.decimal128


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INT", I32),
        ("integer", I32),
        ("bigint", I64),
        ("LONG", I64),
        ("smallint", I16),
        ("tinyint", I8),
        ("float", F32),
        ("real", F32),
        ("double", F64),
        ("Double  Precision", F64),
        ("varchar(20)", S),
        ("char ( 3 )", S),
        ("text", S),
        ("bool", B),
        ("timestamp", TS),
        ("timestamp(6)", TS),
        ("date", D),
        ("binary", pa.binary()),
        ("decimal(10,2)", DEC(10, 2)),
        ("numeric(5)", DEC(5, 0)),
        ("interval", IV),
    ],
)
def test_names(text: str, expected: pa.DataType) -> None:
    assert parse_type(text) == expected


@pytest.mark.parametrize("text", ["strng", "decimal(50, 2)", "int(3)", "decimal(2,5)", ""])
def test_unknown_names(text: str) -> None:
    with pytest.raises(ValueError, match=r"unknown type|does not exist"):
        parse_type(text)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (I8, I16, I16),
        (I32, I64, I64),
        (I64, F32, F64),
        (F32, F64, F64),
        (F32, F32, F32),
        (DEC(5, 2), F32, F64),
        (DEC(5, 2), I32, DEC(12, 2)),
        (DEC(5, 2), DEC(10, 1), DEC(11, 2)),
        (D, TS, TS),
        (pa.null(), S, S),
        (S, I32, I64),
        (S, F32, F64),
        (S, D, D),
        (S, B, B),
        (B, I32, None),
        (TS, I64, None),
        (IV, S, None),
        (IV, I64, None),
    ],
)
def test_common_type(a: pa.DataType, b: pa.DataType, expected: pa.DataType | None) -> None:
    assert common_type(a, b) == expected
    assert common_type(b, a) == expected


def test_normalise() -> None:
    assert normalise(pa.dictionary(pa.int32(), pa.large_string())) == S
    assert normalise(pa.timestamp("s", "UTC")) == TS
    assert normalise(pa.uint64()) == DEC(20, 0)
    assert normalise(pa.float16()) == F32
    assert normalise(pa.date64()) == D
    assert normalise(pa.duration("ns")) == IV
    assert normalise(pa.large_list(pa.large_string())) == pa.list_(S)
    for nested in (pa.list_(pa.list_(I64)), pa.struct([("a", I64)]), pa.map_(S, I64)):
        with pytest.raises(ValueError, match="not supported"):
            normalise(nested)
