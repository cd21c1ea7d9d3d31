"""Jobs: a text of statements ended by ``;``.

::

    CREATE STREAM name [(col type, …)] FROM 'path or uri' [TIMESTAMP BY col]
        [SLACK width | SLACK AUTO | SLACK FOR number %] [IDLE width]
        [ON OVERLOAD BLOCK | DROP | SAMPLE p % ABOVE bound] [UNIQUE (col, …) [WITHIN width]] [WITH (…)]
    CREATE RELATION name [(col type, …)] FROM '…' [TIMESTAMP BY col] [KEY (col, …)] [SIGN BY col] [WITH (…)]
    CREATE VIEW name AS query
    [name:] [INSERT INTO 'path'] query [WITH (option = value, …)]

and the statements that change what runs (``steering``).

Only the syntax is checked here; names and types are checked by the binder, which needs the sources' schemas.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from eddyline.core.errors import CqlError, Span, did_you_mean
from eddyline.core.overload import Overload
from eddyline.cql.cursor import Cursor
from eddyline.cql.model_syntax import clause_at, split_model_clauses
from eddyline.cql.options import parse_options, split_options
from eddyline.cql.overload import parse_overload
from eddyline.cql.parsing import parse_query, tokenize
from eddyline.cql.query_names import folded, unsafe
from eddyline.cql.steering import Steer, parse_steering
from eddyline.cql.widths import read_width
from eddyline.cql.windows import IntervalText, resolve_duration
from eddyline.expr.types import parse_type

__all__ = [
    "CreateRelation",
    "CreateStream",
    "CreateView",
    "IntervalText",
    "QueryStatement",
    "Statement",
    "parse_job",
    "resolve_duration",
]

Columns = tuple[tuple[str, pa.DataType], ...]


@dataclass(frozen=True, slots=True)
class CreateStream:
    name: str
    columns: Columns | None
    source: str
    timestamp: str | None
    slack: IntervalText | str | None  # a text names the policy that chooses it: 'auto(target=99)'
    idle: IntervalText | None
    options: Mapping[str, Any]
    span: Span
    text: str = field(repr=False, default="")
    overload: Overload | None = None
    unique: tuple[str, ...] = ()
    within: IntervalText | None = None


@dataclass(frozen=True, slots=True)
class CreateRelation:
    name: str
    columns: Columns | None
    source: str
    timestamp: str | None
    key: tuple[str, ...]
    sign: str | None
    options: Mapping[str, Any]
    span: Span
    text: str = field(repr=False, default="")


@dataclass(frozen=True, slots=True)
class CreateView:
    """``query`` is the syntax tree, ``query_text`` the view's own part of the job's ``text``."""

    name: str
    query: exp.Expression = field(repr=False)
    query_text: str
    options: Mapping[str, Any]
    span: Span
    text: str = field(repr=False, default="")


@dataclass(frozen=True, slots=True)
class QueryStatement:
    """``target`` is the path of INSERT INTO; ``query_text`` is the query's own part of the job's ``text``, and
    ``options_span`` the place of its ``WITH (…)``, ``name_span`` that of its name and ``target_span`` of its path."""

    name: str | None
    target: str | None
    query: exp.Expression = field(repr=False)
    query_text: str
    options: Mapping[str, Any]
    span: Span
    text: str = field(repr=False, default="")
    options_span: Span | None = None
    name_span: Span | None = None
    target_span: Span | None = None


Statement = CreateStream | CreateRelation | CreateView | QueryStatement | Steer


def parse_job(text: str) -> tuple[Statement, ...]:
    """The statements of a job, in order.

    >>> job = parse_job("CREATE STREAM S (a int) FROM 's.csv' TIMESTAMP BY a SLACK 5 SECONDS; hot: SELECT * FROM S")
    >>> [type(s).__name__ for s in job], job[0].slack.unit, job[1].name
    (['CreateStream', 'QueryStatement'], 'seconds', 'hot')
    """
    statements: list[Statement] = []
    chunk: list[Token] = []
    for token in tokenize(text):
        if token.token_type == TokenType.SEMICOLON:
            if chunk:
                statements.append(_statement(chunk, text))
            chunk = []
        else:
            chunk.append(token)
    if chunk:
        statements.append(_statement(chunk, text))
    _refuse_namesakes(statements)
    return tuple(statements)


def _refuse_namesakes(statements: list[Statement]) -> None:
    """Neither the catalog nor every file system distinguishes names that differ in case alone."""
    seen: dict[str, str] = {}
    for s in statements:
        if not isinstance(s, QueryStatement) or s.name is None:
            continue
        other = seen.get(folded(s.name))
        if other is not None:
            same = "two queries are called" if other == s.name else f"case does not matter, so {other!r} is the same as"
            raise CqlError(f"{same} {s.name!r}; give one of them another name.", s.text, s.name_span)
        seen[folded(s.name)] = s.name


def _statement(tokens: list[Token], text: str) -> Statement:
    cursor = Cursor(tokens, text)
    span = Span(tokens[0].start, tokens[-1].end + 1)
    if cursor.word("CREATE"):
        for word, parse in (("STREAM", _stream), ("RELATION", _relation), ("VIEW", _view)):
            if cursor.word(word):
                return parse(cursor, span)
        hint = did_you_mean(cursor.current.text, ["STREAM", "RELATION", "VIEW"]) if cursor.current else ""
        if cursor.current and cursor.current.text.upper() == "TABLE":
            hint = " A table whose rows only come is a STREAM, one whose rows change (KEY, SIGN BY) a RELATION."
        raise cursor.error(f"expected STREAM, RELATION or VIEW after CREATE, but {cursor.found()}.{hint}")
    named = len(tokens) > 1 and tokens[1].token_type == TokenType.COLON  # a query may be called pin
    steer = None if named else parse_steering(cursor, span, _clauses)
    return _query(cursor, span) if steer is None else steer


def _stream(cursor: Cursor, span: Span) -> CreateStream:
    name = cursor.name("the name of the stream")
    columns = _columns(cursor)
    source = _source(cursor)
    clauses = _clauses(cursor, ("TIMESTAMP BY", "SLACK", "IDLE", "ON OVERLOAD", "UNIQUE", "WITH"))
    return CreateStream(
        name,
        columns,
        source,
        clauses.get("TIMESTAMP BY"),
        clauses.get("SLACK"),
        clauses.get("IDLE"),
        clauses.get("WITH", {}),
        span,
        cursor.text,
        clauses.get("ON OVERLOAD"),
        clauses.get("UNIQUE", ()),
        clauses.get("WITHIN"),
    )


def _relation(cursor: Cursor, span: Span) -> CreateRelation:
    name = cursor.name("the name of the relation")
    columns = _columns(cursor)
    source = _source(cursor)
    clauses = _clauses(cursor, ("TIMESTAMP BY", "KEY", "SIGN BY", "WITH"))
    if "KEY" in clauses and "SIGN BY" in clauses:
        raise CqlError(
            "a relation has KEY (an element replaces) or SIGN BY (it inserts or deletes), not both.", cursor.text, span
        )
    return CreateRelation(
        name,
        columns,
        source,
        clauses.get("TIMESTAMP BY"),
        clauses.get("KEY", ()),
        clauses.get("SIGN BY"),
        clauses.get("WITH", {}),
        span,
        cursor.text,
    )


def _view(cursor: Cursor, span: Span) -> CreateView:
    name = cursor.name("the name of the view")
    if not cursor.word("AS"):
        raise cursor.error(f"expected AS after the name of the view, but {cursor.found()}.")
    query, query_text, options, _ = _query_part(cursor)
    return CreateView(name, query, query_text, options, span, cursor.text)


def _query(cursor: Cursor, span: Span) -> QueryStatement:
    name = target = named = aimed = None
    if len(cursor.tokens) > 1 and cursor.tokens[1].token_type == TokenType.COLON:
        first = cursor.tokens[0]
        name, named = cursor.name("the name of the query"), Span(first.start, first.end + 1)
        reason = unsafe(name)
        if reason is not None:
            message = f"the query cannot be called {name!r}, because its results go to a file of that name: {reason}."
            raise cursor.error(message, first)
        cursor.expect(TokenType.COLON, ":")
    if cursor.word("INSERT", "INTO"):
        path = cursor.current
        target = cursor.string("the path to write to, as in 'results.parquet',")
        aimed = None if path is None else Span(path.start, path.end + 1)
        if not target.strip():
            raise cursor.error("INSERT INTO needs a path, and this one is an empty text.", path)
    query, query_text, options, place = _query_part(cursor)
    return QueryStatement(name, target, query, query_text, options, span, cursor.text, place, named, aimed)


def _query_part(cursor: Cursor) -> tuple[exp.Expression, str, dict[str, Any], Span | None]:
    tokens, option_tokens = split_options(cursor.rest)
    tokens, clauses = split_model_clauses(tokens, cursor.text)
    if not tokens:
        raise cursor.error(f"expected a query, but {cursor.found()}.")
    options: dict[str, Any] = {}
    place = None
    if option_tokens:
        place = Span(option_tokens[0].start, option_tokens[-1].end + 1)
        tail = Cursor(option_tokens, cursor.text)
        options = parse_options(tail)
        if tail.current is not None:
            raise tail.error(f"unexpected '{tail.current.text}' after the options.")
    query_text = cursor.text[tokens[0].start : tokens[-1].end + 1]
    try:
        query = parse_query(tokens, cursor.text)
    except CqlError as error:
        inside = None if error.span is None else clause_at(tokens, error.span.start)
        if inside is None:
            raise
        message = f"{inside} belongs to a whole query: write it at the end, behind all parentheses."
        raise CqlError(message, error.text, error.span) from None
    if clauses is not None:
        query.meta["clauses"] = clauses
        query_text = cursor.text[tokens[0].start : clauses.span.end]
    return query, query_text, options, place


def _source(cursor: Cursor) -> str:
    if not cursor.word("FROM"):
        raise cursor.error(
            f"expected FROM and the source, but {cursor.found()}. Where rows are pushed, Python (session.stream) or a"
            " request (POST /v1/streams) declares it."
        )
    return cursor.string("the source")


def _clauses(cursor: Cursor, allowed: tuple[str, ...]) -> dict[str, Any]:
    """The optional clauses of a declaration, in any order, each once."""
    found: dict[str, Any] = {}
    while (place := cursor.current) is not None:
        clause = next((c for c in allowed if _starts(cursor, c)), None)
        if clause is None:
            hint = did_you_mean(place.text, [word for c in allowed for word in (c, c.split()[0])])
            raise cursor.error(f"expected {', '.join(allowed)} or ';', but {cursor.found()}.{hint}")
        if clause in found:
            raise cursor.error(f"{clause} is given twice.", place)
        found[clause] = _clause(cursor, clause)
        if clause == "UNIQUE" and cursor.word("WITHIN"):
            found["WITHIN"] = _width(cursor, "WITHIN")
    return found


def _starts(cursor: Cursor, clause: str) -> bool:
    if clause == "WITH":
        return cursor.current is not None and cursor.current.token_type == TokenType.WITH
    return cursor.word(*clause.split())


def _clause(cursor: Cursor, clause: str) -> Any:
    match clause:
        case "SLACK":
            return _slack(cursor)
        case "IDLE":
            return _width(cursor, clause)
        case "ON OVERLOAD":
            return parse_overload(cursor)
        case "KEY" | "UNIQUE":
            cursor.expect(TokenType.L_PAREN, "(")
            names = [cursor.name("a column of the key")]
            while cursor.take(TokenType.COMMA):
                names.append(cursor.name("a column of the key"))
            cursor.expect(TokenType.R_PAREN, ")")
            return tuple(names)
        case "WITH":
            return parse_options(cursor)
        case _:
            return cursor.name("a column")


def _slack(cursor: Cursor) -> IntervalText | str:
    """A width, ``AUTO``, ``FOR 99.9 %``, or a policy with its parameters as a text: ``'auto(window=4096)'``."""
    if cursor.word("AUTO"):
        return "auto"
    if cursor.word("FOR"):
        number = cursor.take(TokenType.NUMBER)
        if number is None:
            raise cursor.error(f"SLACK FOR needs the percentage of rows to keep, as in 99.9 %, but {cursor.found()}.")
        if not (cursor.take(TokenType.MOD) or cursor.word("PERCENT")):
            raise cursor.error(f"expected % after SLACK FOR {number.text}, but {cursor.found()}.")
        return f"auto(target={number.text})"
    text = cursor.current
    if text is not None and text.token_type == TokenType.STRING and text.text.strip()[:1].isalpha():
        return cursor.string("a slack")
    return _width(cursor, "SLACK")


_AFTER_A_WIDTH = ("SLACK", "IDLE", "TIMESTAMP", "ON", "WITH")


def _width(cursor: Cursor, clause: str) -> IntervalText:
    value = read_width(cursor, clause, _AFTER_A_WIDTH)
    if value.amount < 0:
        raise CqlError(f"{clause} must not be negative.", cursor.text, value.span)
    return value


def _columns(cursor: Cursor) -> Columns | None:
    """``(col type, …)``: the type is everything up to the next comma outside parentheses."""
    if cursor.take(TokenType.L_PAREN) is None:
        return None
    columns: list[tuple[str, pa.DataType]] = []
    while True:
        place = cursor.current
        name = cursor.name("the name of a column")
        if name.lower() in (c.lower() for c, _ in columns):
            raise cursor.error(f"the column {name!r} is declared twice.", place)
        columns.append((name, _type(cursor)))
        if not cursor.take(TokenType.COMMA):
            break
    cursor.expect(TokenType.R_PAREN, ")")
    return tuple(columns)


def _type(cursor: Cursor) -> pa.DataType:
    first, depth = cursor.current, 0
    words: list[Token] = []
    while (token := cursor.current) is not None:
        if depth == 0 and token.token_type in (TokenType.COMMA, TokenType.R_PAREN):
            break
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
        words.append(token)
        cursor.index += 1
    if first is None or not words:
        raise cursor.error(f"expected the type of the column, but {cursor.found()}.")
    span = Span(first.start, words[-1].end + 1)
    written = re.sub(r"\s+", " ", cursor.text[span.start : span.end])
    try:
        return parse_type(written)
    except ValueError as error:
        raise CqlError(str(error), cursor.text, span) from None
