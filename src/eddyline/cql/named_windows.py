"""``OVER w … WINDOW w AS (PARTITION BY … ORDER BY …)``: the definition is put in the place of each name.

This is done with tokens, before the parser sees them, so the parser and the binder never see the clause. The tokens
that replace a name have that name's place in the text, so that messages underline what the user wrote there.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from eddyline.core.errors import CqlError, Span


def expand_named_windows(tokens: Sequence[Token], text: str) -> list[Token]:
    """The tokens without their WINDOW clauses.

    >>> from eddyline.cql.parsing import tokenize
    >>> query = "SELECT sum(a) OVER w, LAG(a) OVER w FROM S WINDOW w AS (ORDER BY ts ROWS 2 PRECEDING)"
    >>> " ".join(t.text for t in expand_named_windows(tokenize(query), query))
    'SELECT sum ( a ) OVER ( ORDER BY ts ROWS 2 PRECEDING ) , LAG ( a ) OVER ( ORDER BY ts ROWS 2 PRECEDING ) FROM S'
    """
    found = list(tokens)
    while (at := _clause(found)) is not None:
        found = _without_clause(found, at, text)
    return found


def _clause(tokens: Sequence[Token]) -> int | None:
    """Where ``WINDOW name AS (`` stands; our suffix WINDOW is followed by a number."""
    for i in range(len(tokens) - 3):
        if _word(tokens[i]) == "WINDOW" and _is_definition(tokens, i + 1):
            return i
    return None


def _is_definition(tokens: Sequence[Token], i: int) -> bool:
    return (
        i + 2 < len(tokens)
        and tokens[i + 1].token_type == TokenType.ALIAS
        and tokens[i + 2].token_type == TokenType.L_PAREN
    )


def _without_clause(tokens: list[Token], at: int, text: str) -> list[Token]:
    """Read the definitions of one clause and replace their names in the SELECT that it belongs to."""
    definitions: dict[str, list[Token]] = {}
    end = at + 1
    while True:
        close = _closing(tokens, end + 2)
        if close is None:
            raise CqlError("expected ')' at the end of WINDOW.", text, Span(tokens[at].start, tokens[-1].end + 1))
        name = tokens[end]
        if name.text.lower() in definitions:
            message = f"WINDOW defines {name.text!r} twice: give one of them another name."
            raise CqlError(message, text, Span(name.start, name.end + 1))
        definitions[name.text.lower()] = _inherited(tokens[end + 3 : close], definitions)
        end = close + 1
        if not (end < len(tokens) and tokens[end].token_type == TokenType.COMMA and _is_definition(tokens, end + 1)):
            break
        end += 1
    begin = _select(tokens, at)
    replaced = [t for i in range(begin, at) for t in _replaced(tokens, i, definitions)]
    rest = [t for i in range(end, len(tokens)) for t in _replaced(tokens, i, definitions)]
    return [*tokens[:begin], *replaced, *rest]


def _inherited(body: list[Token], definitions: dict[str, list[Token]]) -> list[Token]:
    """``w2 AS (w ROWS 3 PRECEDING)`` begins with what w has."""
    first = body[0].text.lower() if body else ""
    if first in definitions and (len(body) < 2 or body[1].token_type != TokenType.COMMA):
        return [*definitions[first], *body[1:]]
    return body


def _replaced(tokens: Sequence[Token], i: int, definitions: dict[str, list[Token]]) -> list[Token]:
    here = tokens[i]
    body = definitions.get(here.text.lower())
    if body is None:
        return [here]
    if i > 0 and _word(tokens[i - 1]) == "OVER":
        opening, closing = (Token(kind, text) for kind, text in ((TokenType.L_PAREN, "("), (TokenType.R_PAREN, ")")))
        return [_moved(t, here) for t in (opening, *body, closing)]
    if i > 1 and tokens[i - 1].token_type == TokenType.L_PAREN and _word(tokens[i - 2]) == "OVER":
        return [_moved(t, here) for t in body]
    return [here]


def _moved(token: Token, here: Token) -> Token:
    return Token(token.token_type, token.text, here.line, here.col, here.start, here.end)


def _select(tokens: Sequence[Token], at: int) -> int:
    """The SELECT that a clause at ``at`` belongs to: the last one before it at its depth."""
    depth = 0
    for i in range(at - 1, -1, -1):
        kind = tokens[i].token_type
        depth += (kind == TokenType.R_PAREN) - (kind == TokenType.L_PAREN)
        if depth == 0 and kind == TokenType.SELECT:
            return i
        if depth < 0:
            return i + 1
    return 0


def _closing(tokens: Sequence[Token], i: int) -> int | None:
    depth = 0
    for j in range(i, len(tokens)):
        kind = tokens[j].token_type
        depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
        if depth == 0:
            return j
    return None


def _word(token: Token) -> str:
    return "" if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER) else token.text.upper()
