"""Options: ``WITH (scheduler = 'chain', on_error = 'invalid')``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlglot.tokenizer_core import Token, TokenType

from eddyline.core.errors import CqlError, Span, did_you_mean
from eddyline.cql.cursor import Cursor


def parse_options(cursor: Cursor, before: str = "WITH") -> dict[str, Any]:
    """``WITH (key = value, …)`` at the cursor; an empty dictionary where there is none. ``before`` is the word that
    stands before the bracket.

    Values are strings, numbers, TRUE, FALSE, NULL or bare words (taken as strings).
    """
    if not cursor.word(before):
        return {}
    cursor.expect(TokenType.L_PAREN, "(")
    options: dict[str, Any] = {}
    while True:
        place = cursor.current
        name = cursor.name("the name of an option").lower()
        if name in options:
            raise cursor.error(f"the option {name!r} is given twice.", place)
        cursor.expect(TokenType.EQ, "=")
        options[name] = _value(cursor)
        if not cursor.take(TokenType.COMMA):
            break
    cursor.expect(TokenType.R_PAREN, ")")
    return options


def _value(cursor: Cursor) -> Any:
    negative = cursor.take(TokenType.DASH) is not None
    if number := cursor.take(TokenType.NUMBER):
        value = float(number.text) if any(c in number.text for c in ".eE") else int(number.text)
        return -value if negative else value
    if negative:
        raise cursor.error("expected a number after '-'.")
    if string := cursor.take(TokenType.STRING):
        return string.text
    word = cursor.name("a value")
    return {"true": True, "false": False, "null": None, "on": True, "off": False}.get(word.lower(), word)


def split_options(tokens: list[Token]) -> tuple[list[Token], list[Token]]:
    """Split a query's tokens from its trailing ``WITH (…)``; a CTE's WITH is followed by a name, never by ``(``."""
    depth = 0
    for index, token in enumerate(tokens):
        if token.token_type == TokenType.L_PAREN:
            depth += 1
        elif token.token_type == TokenType.R_PAREN:
            depth -= 1
        elif (
            token.token_type == TokenType.WITH
            and depth == 0
            and index + 1 < len(tokens)
            and tokens[index + 1].token_type == TokenType.L_PAREN
        ):
            return tokens[:index], tokens[index:]
    return tokens, []


def check_options(options: Mapping[str, Any], known: Iterable[str], text: str = "") -> None:
    """Refuse an option that does not exist, with the nearest one that exists.

    >>> check_options({"filter": "sweep"}, ["filters", "on_error"])
    Traceback (most recent call last):
    ...
    eddyline.core.errors.CqlError: unknown option 'filter'. Did you mean 'filters'?
    """
    known = list(known)
    for name in options:
        if name not in known:
            at = text.lower().rfind(name)
            span = Span(at, at + len(name)) if at >= 0 else None
            hint = did_you_mean(name, known) or f" Known options: {', '.join(sorted(known))}."
            raise CqlError(f"unknown option {name!r}.{hint}", text, span)
