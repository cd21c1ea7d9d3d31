"""Routes of queries: registering, explaining and steering them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from eddyline.core.errors import CqlError, EddylineError, JobError, Span
from eddyline.cql.job import CreateRelation, CreateStream, CreateView, QueryStatement, Statement, parse_job
from eddyline.server.bodies import JobBody, OptionsBody, QueryBody, TextBody
from eddyline.server.context import Context, context_of
from eddyline.server.declarations import Declaration, checked_options, from_statement, query_of
from eddyline.server.inputs import columns_of, described
from eddyline.server.refusals import refusal
from eddyline.server.service import Running, Service
from eddyline.streamon.decision import Decision

router = APIRouter(prefix="/v1")
ASIDE = ("late", "invalid", "shed")


def summary(service: Service, running: Running) -> dict[str, Any]:
    """A query in a list."""
    journal, query = running.journal, running.query
    out: dict[str, Any] = {
        "name": running.name,
        "kind": "query",
        "id": running.entry.id,
        "text": running.entry.body["text"],
        "status": journal.status if journal.status != "running" or query is not None else "failed",
        "message": journal.message,
        "rows": journal.last,
        "first": journal.first,
        "columns": [[f.name, str(f.type)] for f in journal.schema],
    }
    if query is not None:
        out |= service.steering_of(query)
    return out


def plain(data: Any) -> Response:
    """An answer from data that may hold numpy's numbers, infinities and NaN (as texts: JSON has none)."""
    return Response(json.dumps(finite(data), default=_plain), media_type="application/json")


def finite(value: Any) -> Any:
    """
    >>> finite({"a": [1.5, float("inf")], 3: None})
    {'a': [1.5, 'inf'], '3': None}
    """
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, dict):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [finite(v) for v in value]
    return finite(value.tolist()) if hasattr(value, "tolist") else value


def _plain(value: Any) -> Any:
    return str(value)


def _made(decisions: list[Decision]) -> Response:
    return plain([d.to_dict() for d in decisions])


@router.get("/catalog")
def catalog(request: Request) -> Response:
    """All declarations and queries."""
    service = context_of(request).service
    entries = list(service.entries.values())
    found: dict[str, list[Any]] = {"streams": [], "relations": [], "views": [], "queries": []}
    for e in entries:
        if e.kind == "query":
            running = service.queries.get(e.name.lower())
            if running is not None:
                found["queries"].append(summary(service, running))
        else:
            found[e.kind + "s"].append(described(service, e))
    return plain(found)


@router.post("/execute")
async def execute(request: Request, body: JobBody) -> Response:
    """Run the statements of a job one after another. The first mistake ends it; what came before it stays, and is named
    in the answer (``done``)."""
    context = context_of(request)
    context.check_memory()
    statements = await context.look(lambda: parse_job(body.text))
    done: list[dict[str, Any]] = []
    for statement in statements:
        try:
            done.append(await _executed(context, body.text, statement))
        except EddylineError as error:
            return refusal(error, done)
    return plain({"done": done})


async def _executed(context: Context, text: str, statement: Statement) -> dict[str, Any]:
    """Run one statement of a text; what it did, as data."""
    service = context.service
    if isinstance(statement, CreateStream | CreateRelation | CreateView | QueryStatement):
        with _places_within(text, statement.span.start):
            entry = await context.change(lambda: service.create(from_statement(statement)))
        return {"created": entry.kind, "name": entry.name}
    await context.change(lambda: service.session.declare(statement))
    service.changed.notify()
    return {"changed": type(statement).__name__}


@contextmanager
def _places_within(text: str, start: int) -> Iterator[None]:
    """The place of a mistake in a statement, as one in the whole text, where the statement begins at ``start``."""
    try:
        yield
    except CqlError as error:
        at = -1 if error.span is None or not error.text else text.find(error.text, start)
        if error.span is None or at < 0:
            raise
        raise CqlError(error.message, text, Span(at + error.span.start, at + error.span.end)) from None


@router.post("/bind")
async def bind(request: Request, body: TextBody) -> Response:
    """Check the text of a query without registering it: its columns, or the mistake with its place."""
    context = context_of(request)

    def check() -> dict[str, Any]:
        query_of(body.text)
        bound = context.service.session.bind(body.text)
        return {"columns": columns_of(bound.plan.schema), "name": bound.name, "time": bound.time_kind.value}

    return plain(await context.look(check))


@router.get("/queries")
def list_queries(request: Request) -> Response:
    service = context_of(request).service
    return plain([summary(service, r) for r in list(service.queries.values())])


@router.post("/queries", status_code=201)
async def create_query(request: Request, body: QueryBody) -> JSONResponse:
    context = context_of(request)
    context.check_memory()
    name = body.name or (await context.look(lambda: query_of(body.text))).name or ""
    declaration = Declaration("query", name, {"text": body.text, "options": dict(checked_options(body.options))})
    entry = await context.change(lambda: context.service.create(declaration))
    return JSONResponse(finite(summary(context.service, context.service.query(entry.name))), 201)


@router.get("/queries/{name}")
def get_query(request: Request, name: str) -> Response:
    service = context_of(request).service
    return plain(summary(service, service.query(name)))


@router.patch("/queries/{name}")
async def alter_query(request: Request, name: str, body: OptionsBody) -> Response:
    """Change options while the query runs."""
    context = context_of(request)
    options = checked_options(body.options)
    made = await context.change(lambda: context.service.alter(name, options))
    context.service.changed.notify()
    return _made(made)


@router.delete("/queries/{name}", status_code=204)
async def drop_query(request: Request, name: str) -> None:
    context = context_of(request)
    await context.change(lambda: context.service.drop("query", name))


@router.post("/queries/{name}/pin")
async def pin(request: Request, name: str) -> Response:
    context = context_of(request)
    return _made(await context.change(lambda: context.service.pin(name, True)))


@router.post("/queries/{name}/unpin")
async def unpin(request: Request, name: str) -> Response:
    context = context_of(request)
    return _made(await context.change(lambda: context.service.pin(name, False)))


@router.post("/queries/{name}/undo/{number}")
async def undo(request: Request, name: str, number: int, shard: int | None = None) -> Response:
    """Set back what a decision changed; on Spark ``shard`` names the one that took it."""
    context = context_of(request)
    return _made(await context.change(lambda: context.service.undo(name, number, shard)))


@router.get("/queries/{name}/explain")
async def explain(request: Request, name: str) -> PlainTextResponse:
    context = context_of(request)
    return PlainTextResponse(await context.look(lambda: context.service.live(name).explain()))


@router.get("/queries/{name}/plan")
async def plan(request: Request, name: str) -> Response:
    context = context_of(request)
    return plain(await context.look(lambda: context.service.plan_of(name).to_dict()))


@router.get("/queries/{name}/decisions")
async def decisions(request: Request, name: str, after: int = 0) -> Response:
    """The records of the log with numbers after ``after``."""
    context = context_of(request)
    found = await context.look(lambda: context.service.decisions_of(name))
    return plain([d for d in found if (d["sequence"] or 0) > after])


@router.get("/queries/{name}/report")
async def report(request: Request, name: str) -> Response:
    context = context_of(request)
    return plain(await context.look(lambda: context.service.live(name).report()))


@router.get("/queries/{name}/aside/{which}")
async def aside(request: Request, name: str, which: str) -> Response:
    """The last rows that were put aside: late, invalid or shed."""
    if which not in ASIDE:
        raise JobError(f"rows are put aside as {', '.join(ASIDE)}, not {which[:40]!r}.")
    context = context_of(request)
    rows = await context.look(lambda: context.service.aside(name, which))
    return plain(rows[-1000:])


def plan_data(context: Context, name: str) -> dict[str, Any]:
    """The plan for those who watch it: without the decisions, and with the counts of the inputs."""
    service: Service = context.service
    found = service.plan_of(name, decisions=False).to_dict()
    del found["decisions"]
    query = service.live(name)
    found |= service.steering_of(query)
    return found | {"inputs": service.inputs_of(query), "rows": service.query(name).journal.last}
