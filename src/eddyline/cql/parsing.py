"""Text to tokens and tokens to syntax trees, with every error of sqlglot in Eddyline's own wording."""

from __future__ import annotations

from typing import Final

from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from eddyline.core.errors import CqlError, Span
from eddyline.cql.dialect import Cql, CqlParser
from eddyline.cql.named_windows import expand_named_windows
from eddyline.cql.other_spellings import refuse_other_spellings
from eddyline.cql.window_syntax import PlacedParseError

SHALLOWER: Final = "put its inner parts into views, which other queries can read"


def tokenize(text: str) -> list[Token]:
    """Tokens of a text, or a ``CqlError`` for a quotation that does not end."""
    try:
        return list(Cql().tokenize(text))
    except TokenError as error:
        raise unterminated(text, str(error)) from None


def unterminated(text: str, message: str) -> CqlError:
    """Say which quotation or comment does not end: the last one that was opened and not closed."""
    closers = {"'": "'", '"': '"', "`": "`", "“": "”", "‘": "’"}
    names = {"'": "string", '"': "name", "`": "name", "“": "string", "‘": "string"}
    index = 0
    while index < len(text):
        if text.startswith("--", index):
            newline = text.find("\n", index)
            index = len(text) if newline < 0 else newline + 1
        elif text.startswith("/*", index):
            close = text.find("*/", index + 2)
            if close < 0:
                return CqlError("this comment does not end: '*/' is missing.", text, Span(index, index + 2))
            index = close + 2
        elif text[index] in closers:
            close = text.find(closers[text[index]], index + 1)
            if close < 0:
                opener = text[index]
                end = text.find("\n", index)
                what = f"this {names[opener]} does not end: a closing {closers[opener]} is missing."
                return CqlError(what, text, Span(index, len(text) if end < 0 else end))
            index = close + 1
        else:
            index += 1
    return CqlError(f"the text cannot be read: {message}.", text, Span(0, 1))


def parse_query(tokens: list[Token], text: str) -> exp.Expression:
    """The syntax tree of one query whose tokens are given; places refer to ``text``, the whole job."""
    try:
        refuse_other_spellings(tokens, text)
        return _parse(tokens, text)
    except CqlError as error:
        raise with_remedy(error, tokens, text) from None


def with_remedy(error: CqlError, tokens: list[Token], text: str) -> CqlError:
    """The message for users of other engines where the query is refused for what they are used to."""
    import eddyline.cql.remedy_sources  # noqa: F401  (its rules are needed where a query is refused, and only there)
    from eddyline.cql.remedies import remedy

    return remedy(tokens, text) or error


def _parse(tokens: list[Token], text: str) -> exp.Expression:
    parser = CqlParser(error_level=ErrorLevel.IMMEDIATE, dialect=Cql())
    try:
        tree = parser.parse_tokens(expand_named_windows(tokens, text), text)
    except PlacedParseError as error:
        raise CqlError(readable(error, text), text, Span(error.start, error.end)) from None
    except ParseError as error:
        raise CqlError(f"this query cannot be read: {error}", text, Span(tokens[0].start, tokens[-1].end + 1)) from None
    except CqlError:
        raise
    except RecursionError:
        raise CqlError(f"this query is nested too deeply: {SHALLOWER}.", text, _deepest(tokens)) from None
    except Exception as error:  # any other exception of sqlglot is a mistake in the text, not a crash
        whole = Span(tokens[0].start, tokens[-1].end + 1)
        raise CqlError(f"this query cannot be read ({type(error).__name__}: {error}).", text, whole) from error
    return tree


def _deepest(tokens: list[Token]) -> Span:
    """Where the parentheses and CASEs are deepest, or the first word where there are none."""
    deepest, level, at = 0, 0, tokens[0]
    for token in tokens:
        if token.token_type in (TokenType.L_PAREN, TokenType.CASE):
            level += 1
            if level > deepest:
                deepest, at = level, token
        elif token.token_type in (TokenType.R_PAREN, TokenType.END):
            level -= 1
    return Span(at.start, at.end + 1)


def _unseparated(found: str, rest: str) -> str:
    """What to add where the unexpected word may begin the next statement."""
    if found.upper() in ("SELECT", "WITH", "CREATE", "INSERT") or rest.lstrip().startswith(":"):
        return ": if a new statement starts here, a ';' is missing before it"
    return ": if a named query starts here, a ';' is missing before its name" if found == ":" else ""


def readable(error: PlacedParseError, text: str) -> str:
    """sqlglot's message in Eddyline's own wording."""
    message = error.description
    found = text[error.start : error.end]
    where = f"found '{found}'" if found.strip() else "the text ends here"
    if message.startswith("Expecting "):
        return f"expected '{message.removeprefix('Expecting ')}', but {where}."
    if message.endswith((" does not support CTE", " following CTE")):
        return "WITH must be followed by SELECT, or by a stream operator such as Istream(SELECT …)."
    if message == "Expected CTE to have alias":
        return f"expected the name of a query in WITH, but {where}."
    if message.startswith("Invalid expression / Unexpected token"):
        return f"unexpected '{found}'{_unseparated(found, text[error.end :])}."
    if message.startswith(("Required argument", "Required keyword")):
        return f"something is missing here: {where}."
    if message[:1].isupper() and not message.split()[0].isupper():
        message = message[0].lower() + message[1:]
    return message if message.endswith((".", "?")) else f"{message}: {where}."
