"""Vectorised text functions give what the reference's row functions give: for constants, columns and slices of them."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from eddyline.core.errors import DataError
from eddyline.expr.evaluate import compile_expr
from eddyline.expr.functions import resolve
from eddyline.expr.nodes import Call, Column, Expr, Literal
from eddyline.testing.row_functions import FUNCTIONS

LETTERS = ["a", "b", "A", "Z", " ", ",", "ß", "é", "Σ", "ǆ", "日", "𝄞", "ı", "\n", "0"]
PARTS = ["", "a", ",", " ", "ab", "ß", "日", "aa", "Σ", "𝄞b", ", "]
NUMBERS = [*range(-6, 12), 40, 1 << 40, (1 << 63) - 1, -(1 << 63)]
SMALL = [n for n in NUMBERS if -10 < n < 50]  # what may become a length

# The parameters of each function; T is the text.
SIGNATURES: dict[str, list[list[Any]]] = {
    "upper": [["T"]],
    "lower": [["T"]],
    "initcap": [["T"]],
    "ascii": [["T"]],
    "length": [["T"]],
    "reverse": [["T"]],
    "trim": [["T"], ["T", PARTS]],
    "ltrim": [["T"], ["T", PARTS]],
    "rtrim": [["T"], ["T", PARTS]],
    "substring": [["T", NUMBERS], ["T", NUMBERS, NUMBERS]],
    "left": [["T", NUMBERS]],
    "right": [["T", NUMBERS]],
    "replace": [["T", PARTS], ["T", PARTS, PARTS]],
    "instr": [["T", PARTS]],
    "locate": [[PARTS, "T"], [PARTS, "T", NUMBERS]],
    "lpad": [["T", SMALL], ["T", SMALL, PARTS]],
    "rpad": [["T", SMALL], ["T", SMALL, PARTS]],
    "repeat": [["T", SMALL]],
    "split_part": [["T", PARTS, [-3, -2, -1, 0, 1, 2, 3, (1 << 63) - 1, -(1 << 63)]]],
    "startswith": [["T", PARTS]],
    "endswith": [["T", PARTS]],
    "contains": [["T", PARTS]],
}


def text(rng: random.Random, letters: list[str]) -> str | None:
    return None if rng.random() < 0.1 else "".join(rng.choices(letters, k=rng.choice([0, 1, 2, 3, 5, 9])))


def expected(name: str, returns: pa.DataType, row: tuple[Any, ...]) -> Any:
    """The row function's value, or the class of its error."""
    if None in row:
        return None
    try:
        return FUNCTIONS[name](returns, *row)
    except DataError:
        return DataError


def check(name: str, arguments: list[Expr], data: dict[str, pa.Array], count: int) -> None:
    resolved = resolve(name, [a.type for a in arguments])
    assert resolved.arguments == tuple(a.type for a in arguments)
    expr = Call(resolved.function, tuple(arguments), resolved.returns)
    values, errors = compile_expr(expr).rows(data, count)
    assert values.type == resolved.returns
    values.validate(full=True)
    lists = [[a.value] * count if isinstance(a, Literal) else data[a.name].to_pylist() for a in arguments]  # type: ignore[union-attr]
    for i, (row, ours) in enumerate(zip(zip(*lists, strict=True), values.to_pylist(), strict=True)):
        theirs = expected(name, resolved.returns, row)
        assert (DataError if i in errors else ours) == theirs, f"{name}{row}"
    if not compile_expr(expr).can_fail:
        assert not errors


@pytest.mark.parametrize("name", list(SIGNATURES))
def test_texts(name: str) -> None:
    for seed in range(60):
        rng = random.Random(f"{name}/{seed}")
        letters = rng.choice([LETTERS, ["a", "b", " ", ","], ["ß", "日", "𝄞", ","]])
        count = rng.choice([0, 1, 7, 60, 400])
        data: dict[str, pa.Array] = {}
        arguments: list[Expr] = []
        constant_text = False
        for i, pool in enumerate(rng.choice(SIGNATURES[name])):
            values = None if pool == "T" else rng.sample(pool, rng.choice([1, 2, len(pool)]))
            type_ = pa.string() if values is None or isinstance(values[0], str) else pa.int64()

            def draw(values: list[Any] | None = values, letters: list[str] = letters, rng: random.Random = rng) -> Any:
                if values is None:
                    return text(rng, letters)
                return None if rng.random() < 0.05 else rng.choice(values)

            if rng.random() < (0.15 if values is None else 0.5):
                arguments.append(Literal(draw(), type_))
                constant_text |= values is None
                continue
            column = pa.array([draw() for _ in range(count + 5)], type_)
            data[f"c{i}"] = column.slice(rng.choice([0, 2, 5]), count)
            arguments.append(Column(f"c{i}", type_))
        if not data:
            continue
        check(name, arguments, data, count)


def test_too_long_a_text_fails_for_its_row_alone() -> None:
    for function in ("lpad", "rpad", "repeat"):
        lengths = pa.array([3, 1 << 40, 2, None] * 40, pa.int64())
        texts = pa.array(["ab", "cd", None, "ef"] * 40)
        call = Call(function, (Column("t", pa.string()), Column("n", pa.int64())), pa.string())
        _, errors = compile_expr(call).rows({"t": texts, "n": lengths}, 160)
        assert sorted(errors) == [i for i in range(160) if i % 4 == 1]
        constant = Call(function, (Column("t", pa.string()), Literal(1 << 40, pa.int64())), pa.string())
        _, errors = compile_expr(constant).rows({"t": texts}, 160)
        assert sorted(errors) == [i for i in range(160) if i % 4 != 2]


def test_constants_of_every_kind() -> None:
    """Each pair of constant parameters, over texts with NULL and over NULLs alone: drawn cases meet few of them."""
    column = Column("t", pa.string())
    some = pa.array(["", "a", "ab,a", "日ß,", None, ",,", "𝄞b𝄞b"])
    for name, signatures in SIGNATURES.items():
        for signature in signatures:
            pools: list[list[Expr]] = [[column] if pool == "T" else [literal(v) for v in pool] for pool in signature]
            for arguments in product(*pools):
                for texts in (some, pa.nulls(3, pa.string())):
                    check(name, list(arguments), {"t": texts}, len(texts))


def literal(value: Any) -> Literal:
    return Literal(value, pa.string() if isinstance(value, str) else pa.int64())
