"""Declarations as the catalog keeps them, and how each becomes part of a session, now and after a restart."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from sqlglot import exp

from eddyline.core.errors import JobError, quoted
from eddyline.core.system_streams import DECISIONS, SYS_STREAM
from eddyline.cql.dialect import Source
from eddyline.cql.job import CreateRelation, CreateStream, CreateView, QueryStatement, parse_job
from eddyline.cql.options import check_options
from eddyline.cql.query_names import unsafe
from eddyline.engine.query import Query
from eddyline.expr.types import parse_type
from eddyline.io.resolve import OPTIONS as SOURCE_OPTIONS
from eddyline.server.folders import check_source
from eddyline.session import Session

KINDS = ("stream", "relation", "view", "query")
LOOK_SECONDS = 0.05  # between two looks at a watched directory: the engine's thread waits so long


@dataclass(frozen=True, slots=True)
class Declaration:
    """``body`` is plain data: ``text`` for CQL, otherwise the arguments of the session's method."""

    kind: str
    name: str
    body: Mapping[str, Any] = field(default_factory=dict)


def from_statement(statement: CreateStream | CreateRelation | CreateView | QueryStatement) -> Declaration:
    """What a statement of a job declares."""
    text = statement.text[statement.span.start : statement.span.end]
    match statement:
        case CreateStream():
            return Declaration("stream", statement.name, {"text": text})
        case CreateRelation():
            return Declaration("relation", statement.name, {"text": text})
        case CreateView():
            return Declaration("view", statement.name, {"text": text})
        case QueryStatement():
            return Declaration("query", statement.name or "", {"text": text, "options": {}})


def checked(declaration: Declaration, folders: Sequence[Path]) -> Declaration:
    """The declaration, if a request may make it."""
    reason = unsafe(declaration.name) or _hides(declaration.name)
    if reason is not None:
        raise JobError(f"a {declaration.kind} cannot be called {quoted(declaration.name)}: {reason}.")
    text = declaration.body.get("text")
    if declaration.kind in ("stream", "relation") and text is not None:
        (statement,) = parse_job(text)
        assert isinstance(statement, CreateStream | CreateRelation)
        check_source(statement.source, folders)
    elif declaration.kind in ("stream", "relation"):
        check_source(declaration.body.get("source"), folders)
    elif declaration.kind == "view":
        _check_view(declaration)
    elif declaration.kind == "query":
        statement = query_of(str(text))
        if statement.target is not None:
            raise JobError("a server writes no files: leave INSERT INTO out, and follow the results of the query.")
    return declaration


def _hides(name: str) -> str | None:
    """Why a name that is safe is refused all the same: the graphs of the page, and of everybody else, read these."""
    system = next((n for n in (SYS_STREAM, DECISIONS) if n.lower() == name.lower()), None)
    return system and f"{system} is the stream on which the server describes itself"


def _check_view(declaration: Declaration) -> None:
    statements = parse_job(str(declaration.body.get("text")))
    one = statements[0] if len(statements) == 1 else None
    if not isinstance(one, QueryStatement) and not (isinstance(one, CreateView) and one.name == declaration.name):
        raise JobError("a view takes the text of one query; other statements go to /v1/execute.")


def query_of(text: str) -> QueryStatement:
    """The one query of a text."""
    statements = parse_job(text)
    if len(statements) != 1 or not isinstance(statements[0], QueryStatement):
        raise JobError("this takes the text of one query; declarations and several statements go to /v1/execute.")
    return statements[0]


def declare(session: Session, declaration: Declaration, *, running: bool = True) -> Query | None:
    """Make it part of the session. A query that is not ``running`` any more leaves its name to those that read it."""
    body, name = declaration.body, declaration.name
    text = body.get("text")
    match declaration.kind:
        case "stream" | "relation" if text is not None:
            (statement,) = parse_job(text)
            _look_often(statement)
            session.declare(statement)
        case "stream":
            session.stream(name, body.get("source"), body.get("timestamp"), body.get("slack", 0), body.get("idle"),
                           _schema(body), body.get("overload"), **_options(body))  # fmt: skip
        case "relation":
            session.relation(name, body.get("source"), body.get("timestamp"), tuple(body.get("key", ())),
                             body.get("sign"), _schema(body), **_options(body))  # fmt: skip
        case "view":
            statement = parse_job(str(text))[0]
            if isinstance(statement, CreateView):
                session.declare(statement)
            else:
                session.view(name, str(text))
        case _:
            if running:
                return session.query(str(text), name, **body.get("options", {}))
            session.view(name, str(text))
    return None


def reads(declaration: Declaration) -> Iterator[tuple[str, str | None]]:
    """The names that a view or a query reads, in lower case, each with ``late``, ``invalid`` or ``shed`` where it reads
    what another query put aside.

    >>> sorted(reads(Declaration("query", "q", {"text": "SELECT * FROM (SELECT a FROM S [ROWS 2]) x, V"})))
    [('s', None), ('v', None)]
    >>> list(reads(Declaration("query", "q", {"text": "SELECT * FROM late(hot)"})))
    [('hot', 'late')]
    """
    if declaration.kind not in ("view", "query"):
        return
    statement = parse_job(str(declaration.body["text"]))[0]
    assert isinstance(statement, QueryStatement | CreateView)
    for source in statement.query.find_all(Source):
        this = source.this
        if isinstance(this, exp.Identifier):
            yield this.name.lower(), None
        elif isinstance(this, exp.Anonymous):
            for argument in this.expressions:
                yield argument.name.lower(), str(this.this).lower()


def checked_options(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Options of a query that can be handed over by name; whether they exist is for the session to say."""
    for name in options:
        if not name.isidentifier() or name in ("name", "self", "text"):
            raise JobError(f"an option has a name such as filters, not {quoted(name)}.")
    return options


def register_functions(session: Session, modules: Sequence[str]) -> None:
    """Let each module named at start register its functions: ``def register(session)``."""
    for name in modules:
        if "" not in sys.path:
            sys.path.insert(0, "")  # as with python -m: modules of the current folder
        try:
            module = importlib.import_module(name)
        except ImportError as error:
            raise JobError(f"the module {name!r} of --functions cannot be imported: {error}.") from error
        register = getattr(module, "register", None)
        if not callable(register):
            raise JobError(
                f"the module {name!r} of --functions needs a function register(session) that adds functions."
            )
        register(session)


def _schema(body: Mapping[str, Any]) -> pa.Schema | None:
    columns = body.get("columns")
    if columns is None:
        return None
    try:
        return pa.schema([(str(n), parse_type(str(t))) for n, t in columns])
    except ValueError as error:
        raise JobError(str(error)) from None


def _options(body: Mapping[str, Any]) -> dict[str, Any]:
    options = dict(body.get("options") or {})
    check_options(options, SOURCE_OPTIONS)
    if options.get("watch") or "until_idle" in options:
        options["poll"] = LOOK_SECONDS
    return options


def _look_often(statement: Any) -> None:
    """A look at a watched directory must not keep the engine's thread for long."""
    if statement.options.get("watch") or "until_idle" in statement.options:
        statement.options["poll"] = LOOK_SECONDS
