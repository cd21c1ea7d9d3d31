from __future__ import annotations

import pyarrow as pa
import pytest

from eddyline.expr.builtins import BUILDERS
from eddyline.expr.functions import (
    ALIASES,
    TypeMismatch,
    UnknownFunction,
    function_names,
    resolve,
    resolve_aggregate,
)
from tests.expr.build import F32, F64, I32, I64, IV, TS, B, D, S

LAZY = {"and", "or", "coalesce", "if", "nullif"}


def test_every_name_has_an_implementation() -> None:
    canonical = {ALIASES.get(n, n) for n in function_names()}
    assert canonical == set(BUILDERS) | LAZY


@pytest.mark.parametrize(
    ("name", "types", "arguments", "returns", "can_fail"),
    [
        ("add", (I32, I64), (I64, I64), I64, True),
        ("add", (I32, F32), (F64, F64), F64, False),
        ("divide", (I32, I32), (F64, F64), F64, True),
        ("MATCHES", (S, S), (S, S), B, False),
        ("log", (I32,), (F64,), F64, False),
        ("eq", (pa.null(), I32), (I32, I32), B, False),
        ("year", (D,), (TS,), I32, False),
        ("subtract", (TS, TS), (TS, TS), IV, True),
        ("length", (I32,), (S,), I32, False),
        ("coalesce", (I32, pa.null(), F64), (F64, F64, F64), F64, False),
    ],
)
def test_resolve(
    name: str, types: tuple[pa.DataType, ...], arguments: tuple[pa.DataType, ...], returns: pa.DataType, can_fail: bool
) -> None:
    r = resolve(name, types)
    assert (r.arguments, r.returns, r.can_fail) == (arguments, returns, can_fail)


@pytest.mark.parametrize(
    ("name", "types", "message"),
    [
        ("add", (B, I32), "add cannot combine boolean and int; cast one of them."),
        ("add", (TS, TS), "+ wants numbers, not timestamp and timestamp."),
        ("eq", (B, I32), "cannot compare boolean and int; cast one of them."),
        ("and", (I32, B), "AND wants conditions, not int."),
        ("upper", (S, S), "upper takes 1 argument, not 2."),
        ("sqrt", (TS,), "sqrt wants double, not timestamp."),
        ("substring", (S, TS), "substring wants bigint as argument 2, not timestamp."),
        ("round", (F64, S), "round wants a whole number of digits, not string."),
        ("abs", (D,), "abs wants a number, not date."),
    ],
)
def test_mismatches_are_one_sentence(name: str, types: tuple[pa.DataType, ...], message: str) -> None:
    with pytest.raises(TypeMismatch) as e:
        resolve(name, types)
    assert e.value.message == message


def test_unknown() -> None:
    with pytest.raises(UnknownFunction, match=r"unknown function 'SUBSTRNG'. Did you mean 'substring'\?"):
        resolve("SUBSTRNG", (S,))


def test_aggregates() -> None:
    assert resolve_aggregate("COUNT", ()).returns == I64
    assert resolve_aggregate("sum", (I32,)).arguments == (I64,)
    assert resolve_aggregate("sum", (F32,)).returns == F64
    assert resolve_aggregate("sum", (pa.decimal128(5, 2),)).returns == pa.decimal128(38, 2)
    assert resolve_aggregate("avg", (I32,)).returns == F64
    assert resolve_aggregate("max", (S,)).returns == S
    assert resolve_aggregate("stddev_samp", (I32,)).function == "stddev"
    with pytest.raises(TypeMismatch, match="avg wants a number, not timestamp"):
        resolve_aggregate("avg", (TS,))
    with pytest.raises(TypeMismatch, match="sum takes one argument, not 2"):
        resolve_aggregate("sum", (I32, I32))
    with pytest.raises(UnknownFunction):
        resolve_aggregate("median", (I32,))
