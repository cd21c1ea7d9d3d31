"""Routes of streams, relations and views, and of the rows that are pushed to them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from eddyline.core.errors import JobError
from eddyline.core.schema import Schema
from eddyline.expr.types import type_name
from eddyline.server.bodies import HeartbeatBody, RelationBody, StreamBody, ViewBody, WidthsBody
from eddyline.server.context import context_of
from eddyline.server.declarations import Declaration
from eddyline.server.formats import TYPES, parsed
from eddyline.server.service import Missing, Service
from eddyline.server.store import Entry

router = APIRouter(prefix="/v1")
ROWS_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in TYPES},
    }
}

_WITHOUT_PUSHES = {"relation": "constant relation", "stream": "stream that reads a source"}


def columns_of(schema: Schema) -> list[list[str]]:
    return [[f.name, type_name(f.type)] for f in schema]


def described(service: Service, entry: Entry) -> dict[str, Any]:
    """A declaration as it is now, as plain data."""
    session, key = service.session, entry.name.lower()
    out: dict[str, Any] = {"name": entry.name, "kind": entry.kind, "declared": dict(entry.body)}
    catalog = session.catalog
    if entry.kind == "view":
        bound = catalog.views.get(key)
        return out | {"columns": [] if bound is None else columns_of(bound.plan.schema)}
    definition: Any = catalog.streams.get(key) or catalog.relations.get(key)
    if definition is None:
        return out
    out |= {"columns": columns_of(definition.schema), "timestamp": definition.timestamp}
    return out | service.input_state(entry)


def _listed(service: Service, kind: str) -> list[dict[str, Any]]:
    return [described(service, e) for e in list(service.entries.values()) if e.kind == kind]


async def _create(request: Request, kind: str, body: Mapping[str, Any]) -> JSONResponse:
    context = context_of(request)
    context.check_memory()
    name = str(body["name"])
    rest = {k: v for k, v in body.items() if k != "name"}
    entry = await context.change(lambda: context.service.create(Declaration(kind, name, rest)))
    return JSONResponse(described(context.service, entry), 201)


async def _drop(request: Request, kind: str, name: str) -> None:
    context = context_of(request)
    await context.change(lambda: context.service.drop(kind, name))


@router.get("/streams")
def list_streams(request: Request) -> list[dict[str, Any]]:
    return _listed(context_of(request).service, "stream")


@router.post("/streams", status_code=201)
async def create_stream(request: Request, body: StreamBody) -> JSONResponse:
    return await _create(request, "stream", body.model_dump())


@router.get("/streams/{name}")
def get_stream(request: Request, name: str) -> dict[str, Any]:
    service = context_of(request).service
    return described(service, service.entry("stream", name))


@router.patch("/streams/{name}")
async def alter_stream(request: Request, name: str, body: WidthsBody) -> list[dict[str, Any]]:
    context = context_of(request)
    entry = context.service.entry("stream", name)
    widths = {k: v for k, v in body.model_dump().items() if v is not None}
    made = await context.change(lambda: context.service.alter_stream(entry.name, widths))
    return [d.to_dict() for d in made]


@router.delete("/streams/{name}", status_code=204)
async def drop_stream(request: Request, name: str) -> None:
    await _drop(request, "stream", name)


@router.get("/relations")
def list_relations(request: Request) -> list[dict[str, Any]]:
    return _listed(context_of(request).service, "relation")


@router.post("/relations", status_code=201)
async def create_relation(request: Request, body: RelationBody) -> JSONResponse:
    return await _create(request, "relation", body.model_dump())


@router.get("/relations/{name}")
def get_relation(request: Request, name: str) -> dict[str, Any]:
    service = context_of(request).service
    return described(service, service.entry("relation", name))


@router.delete("/relations/{name}", status_code=204)
async def drop_relation(request: Request, name: str) -> None:
    await _drop(request, "relation", name)


@router.get("/views")
def list_views(request: Request) -> list[dict[str, Any]]:
    return _listed(context_of(request).service, "view")


@router.post("/views", status_code=201)
async def create_view(request: Request, body: ViewBody) -> JSONResponse:
    return await _create(request, "view", body.model_dump())


@router.delete("/views/{name}", status_code=204)
async def drop_view(request: Request, name: str) -> None:
    await _drop(request, "view", name)


def _input(service: Service, name: str) -> tuple[Entry, pa.Schema]:
    """A stream, or a relation that changes, and its columns."""
    entry, columns = service.entries.get(name.lower()), service.pushable(name)
    if entry is None:
        raise Missing(f"there is no stream {name!r} to push to.{service.session.catalog.suggest(name)}")
    if columns is None:
        raise Missing(
            f"no rows can be pushed to {entry.name!r}: it is a {_WITHOUT_PUSHES.get(entry.kind, entry.kind)}."
        )
    return entry, columns


def _same(service: Service, entry: Entry) -> str:
    """The name of an input, if it is still the one that was found: it may have been dropped meanwhile."""
    if service.entries.get(entry.name.lower()) is not entry:
        raise Missing(f"the {entry.kind} {entry.name!r} was dropped before this was done.")
    return entry.name


@router.post("/streams/{name}/rows", openapi_extra=ROWS_BODY)
async def push_rows(request: Request, name: str, wait: bool = True, push_id: str | None = None) -> dict[str, Any]:
    """Bring rows to a stream, or to a relation with a timestamp. The answer comes when they are on the disk
    (``wait=false``: when they are taken), with the number of malformed ones and the reason of the first. ``push_id``,
    ``producer/number`` with growing numbers, makes it safe to send them again."""
    context = context_of(request)
    service = context.service
    entry, columns = _input(service, name)
    context.check_memory()
    producer = _producer(push_id)
    kind = request.headers.get("content-type", "")
    body = await request.body()
    rows = await asyncio.to_thread(parsed, body, kind, columns)
    taken = await context.change(lambda: service.push(_same(service, entry), rows, producer), durable=wait)
    if not taken:
        return {"rows": 0, "invalid": 0, "repeated": True}
    timestamp = _timestamp(service, name)
    timeless = rows.without(timestamp)
    found = {"rows": rows.count - timeless, "invalid": rows.invalid + timeless, "repeated": False}
    reason = rows.reason() or (f"the timestamp {timestamp!r} is NULL" if timeless else None)
    return found if reason is None else {**found, "reason": reason}


def _timestamp(service: Service, name: str) -> str | None:
    catalog, key = service.session.catalog, name.lower()
    definition: Any = catalog.streams.get(key) or catalog.relations.get(key)
    found: str | None = None if definition is None else definition.timestamp
    return found


def _producer(push_id: str | None) -> tuple[str, int] | None:
    if push_id is None:
        return None
    name, _, number = push_id.rpartition("/")
    if not name or len(name) > 200 or not number.isdecimal() or len(number) > 18:
        raise JobError("a push_id is the name of a producer and a number that grows, such as sensor-7/42.")
    return name, int(number)


@router.post("/streams/{name}/heartbeat", status_code=204)
async def heartbeat(request: Request, name: str, body: HeartbeatBody) -> None:
    """Promise that nothing earlier will come any more."""
    context = context_of(request)
    entry, _ = _input(context.service, name)
    moment: Any = body.time
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            raise JobError("the time of a heartbeat is a number of ticks or a time as ISO 8601.") from None
    elif not -(1 << 63) <= moment < 1 << 63:
        raise JobError("the time of a heartbeat has 64 bits.")
    await context.change(lambda: context.service.heartbeat(_same(context.service, entry), moment))


@router.post("/streams/{name}/finish", status_code=204)
async def finish(request: Request, name: str) -> None:
    """End a stream: what waits is answered, and nothing more can come."""
    context = context_of(request)
    entry, _ = _input(context.service, name)
    await context.change(lambda: context.service.finish(_same(context.service, entry)))
