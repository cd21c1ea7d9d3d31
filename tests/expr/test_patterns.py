"""Patterns: RE2 alone matches them, wherever they come from."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

from eddyline.expr.evaluate import compile_expr
from eddyline.expr.nodes import Call, Column, Expr, Literal
from eddyline.testing.row_text_functions import like_pattern
from tests.cql.build import error, underlined

S = pa.string()
TEXT, PATTERN, ESCAPE = Column("text", S), Column("pattern", S), Column("escape", S)
GUARD = 20  # seconds after which a match that goes on for ever is ended; a good one takes none


class GoesOn(BaseException):
    """No exception of a row, so that nobody asks the row again."""


@contextmanager
def ended() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise GoesOn

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(GUARD)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run(function: str, args: tuple[Expr, ...], **columns: list[str | None]) -> list[bool | None]:
    arrays = {n: pa.array(v, S) for n, v in columns.items()}
    length = len(next(iter(arrays.values())))
    compiled = compile_expr(Call(function, args, pa.bool_()))
    found: list[bool | None] = compiled(arrays, length).to_pylist()
    return found


@pytest.mark.parametrize(
    ("function", "pattern", "text"),
    [
        ("rlike", "(x+x+)+y", "x" * 35),
        ("rlike", "^(a|a)*$", "a" * 35 + "b"),
        ("rlike", "^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 35),
        ("like", "%a" * 20 + "%b", "a" * 200),
        ("ilike", "%a" * 20 + "%b", "A" * 200),
    ],
)
def test_no_pattern_backtracks(function: str, pattern: str, text: str) -> None:
    with ended():
        for args in ((TEXT, PATTERN), (TEXT, Literal(pattern, S)), (Literal(text, S), PATTERN)):
            assert run(function, args, text=[text, None], pattern=[pattern, None])[0] is False


def test_patterns_of_a_column_mean_what_constant_ones_mean() -> None:
    texts = ["", "a", "ab", "a.b", "aab", "a%b", "Ab", "ä", "a\nb", None]
    patterns = ["", "a", "a%", "%b", "_", "a_b", r"a\%b", "%", "a%b%", ".*", "^a+b$", "[a-z]", None]
    rows = [(t, p) for t in texts for p in patterns]
    columns = {"text": [t for t, _ in rows], "pattern": [p for _, p in rows]}
    for function in ("like", "ilike", "rlike"):
        together = run(function, (TEXT, PATTERN), **columns)
        for (text, pattern), found in zip(rows, together, strict=True):
            alone = run(function, (TEXT, Literal(pattern, S)), text=[text])
            assert [found] == alone, (function, text, pattern)
            if text is None or pattern is None:
                assert found is None
            elif function == "like":
                assert found == (re.fullmatch(like_pattern(pattern, "\\"), text, re.DOTALL) is not None)


def test_the_rows_of_a_bad_pattern_fail_and_the_others_do_not() -> None:
    compiled = compile_expr(Call("rlike", (TEXT, PATTERN), pa.bool_()))
    columns = {"text": pa.array(["a", "a", "b", None]), "pattern": pa.array(["a", "(?!a)", "(", "("])}
    values, errors = compiled.rows(columns, 4)
    assert values.to_pylist() == [True, None, None, None]
    assert sorted(errors) == [1, 2]
    assert "look-around and back-references are refused" in str(errors[1])
    assert "'(' is malformed: RE2 says 'missing ): ('" in str(errors[2])


@pytest.mark.parametrize("pattern", ["(?x)a", "(?#a)", r"\R", r"\h", "(?=a)", "(?<!a)b", r"(a)\1", "(?P<x>a)(?P=x)"])
def test_only_look_around_and_back_references_are_called_so(pattern: str) -> None:
    _, errors = compile_expr(Call("rlike", (TEXT, PATTERN), pa.bool_())).rows(
        {"text": pa.array(["a"]), "pattern": pa.array([pattern])}, 1
    )
    assert "RE2 says" in str(errors[0])
    assert ("look-around" in str(errors[0])) == (pattern not in ("(?x)a", "(?#a)", r"\R", r"\h"))


def test_the_escape_may_come_from_a_column() -> None:
    columns: dict[str, list[str | None]] = {
        "text": ["a%b", "axb", "a%b"], "pattern": ["a!%b", "a!%b", "a?%b"], "escape": ["!", "!", "?"]
    }  # fmt: skip
    assert run("like", (TEXT, PATTERN, ESCAPE), **columns) == [True, False, True]


@pytest.mark.parametrize(
    ("condition", "place", "said"),
    [
        ("name RLIKE '(a)\\1'", "'(a)\\1'", "look-around and back-references are refused"),
        ("name RLIKE '(?<=a)b'", "'(?<=a)b'", "look-around and back-references are refused"),
        ("regexp_like(name, '[')", "'['", "is malformed: RE2 says 'missing ]: ['"),
        ("name LIKE 'a\\b'", "'a\\b'", "before a character that needs none"),
        ("name LIKE 'a' ESCAPE 'xy'", "'a'", "the escape of LIKE must be one character"),
        ("name NOT LIKE 'a\\'", "'a\\'", "before a character that needs none"),
    ],
)
def test_a_constant_pattern_that_cannot_match_is_refused_when_the_query_is_bound(
    condition: str, place: str, said: str
) -> None:
    caught = error(f"SELECT a FROM S WHERE {condition}")
    assert said in caught.message
    assert underlined(caught) == place
