"""Routes of results: pulled, or followed; and of plans and decisions as they change."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse

from eddyline.core.errors import EddylineError, JobError
from eddyline.server.context import Context, Shared, context_of
from eddyline.server.follow import event, position_of
from eddyline.server.formats import ANSWERS, accepted, rendered
from eddyline.server.journal import Journal
from eddyline.server.queries import finite, plan_data
from eddyline.server.relay import DEAD

router = APIRouter(prefix="/v1")
FASTEST = 0.1  # seconds between two plans for those who watch
SENT_AGAIN = 5  # decisions
LONGEST_WAIT = 30.0  # seconds that an answer without rows may be held back
_plans = Shared(0.8 * FASTEST)  # those who watch at this pace come a little sooner or later


class Events(StreamingResponse):
    """Server-sent events. A connection that takes nothing for long is ended."""

    def __init__(self, context: Context, events: AsyncIterator[bytes]) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._seconds = context.service.settings.limits.slow_seconds * DEAD

    async def stream_response(self, send: Any) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with aclosing(self.body_iterator) as events:  # type: ignore[type-var]
            async for chunk in events:
                try:
                    await asyncio.wait_for(
                        send({"type": "http.response.body", "body": chunk, "more_body": True}), self._seconds
                    )
                except TimeoutError:
                    return
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _after(journal: Journal, after: str | None, default: int) -> int:
    try:
        return position_of(journal, after, default)
    except ValueError as error:
        raise JobError(str(error)) from None


@router.get("/queries/{name}/results", responses={200: {"content": {kind: {} for kind in ANSWERS.values()}}})
async def results(
    request: Request,
    name: str,
    after: str | None = None,
    limit: int = 10_000,
    format: str | None = None,
    wait: float = 0,
) -> Response:
    """Rows after the row ``after`` (an event's id, or a number; the oldest retained by default). ``wait`` is how long
    to wait for the first, in seconds. Headers say where they end (``eddyline-last``) and whether more can come."""
    context = context_of(request)
    journal = context.service.query(name).journal
    form = accepted(request.headers.get("accept", ""), format)
    position = _after(journal, after, journal.first - 1)
    until = time.monotonic() + min(max(wait, 0.0), LONGEST_WAIT)
    most = min(max(limit, 1), 100_000)
    while position >= journal.last and not journal.over and not context.stopping and time.monotonic() < until:
        await journal.changed.wait(max(0.01, min(1.0, until - time.monotonic())))
    over = journal.over
    chunks = await asyncio.to_thread(journal.read, position, most)
    last = chunks[-1].last if chunks else position
    data = await asyncio.to_thread(rendered, [c.rows for c in chunks], journal.schema, form)
    headers = {
        "eddyline-last": f"{journal.entry}.{last}",
        "eddyline-status": journal.status if over and last >= journal.last else "running",
        "eddyline-rows": str(sum(len(c.rows) for c in chunks)),
    }
    return Response(data, media_type=ANSWERS[form], headers=headers)


class HandedOver(Response):
    """No answer from here: another process gives it."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":  # our end of the connection is closed
            pass


@router.get("/queries/{name}/follow", response_class=StreamingResponse)
async def follow(request: Request, name: str, after: str | None = None) -> Response:
    """Results as server-sent events from the row after ``Last-Event-ID`` (or ``after``; the oldest retained by default)
    on. Events: ``rows``, ``dropped`` (the reader was too slow, or asked for rows that are not retained), ``end``."""
    context = context_of(request)
    context.check_followers()
    journal = context.service.query(name).journal
    position = _after(journal, request.headers.get("last-event-id") or after, journal.first - 1)
    if position > journal.last:
        raise JobError(f"row {position} does not exist yet: the last one is {journal.last}.")
    await context.followers.hand_over(request.state.connection.transport, journal, position)
    return HandedOver()


@router.get("/queries/{name}/watch", response_class=StreamingResponse)
async def watch(request: Request, name: str, every: float = 0.5) -> Events:
    """The plan and new decisions as server-sent events, at most ten times a second."""
    context = context_of(request)
    context.check_followers()
    context.service.live(name)
    return Events(context, _watched(context, name, max(FASTEST, min(every, 60.0)) if every == every else 1.0))


async def _watched(context: Context, name: str, every: float) -> AsyncIterator[bytes]:
    context.watchers += 1
    known: dict[Any, int] = {}  # the last decision of each shard
    due = time.monotonic()
    try:
        while not context.stopping:
            try:
                plan = await _plans.get((context.service.started, name.lower()), lambda: plan_data(context, name))
                # Gains are measured after a decision was sent: the last ones are sent again.
                sent = {shard: number - SENT_AGAIN for shard, number in known.items()}
                news = await context.look(lambda sent=sent: context.service.decisions_of(name, sent))  # type: ignore[misc]
            except EddylineError as error:
                yield event("end", {"reason": str(error)})
                return
            for d in news:
                known[d.get("shard")] = max(known.get(d.get("shard"), 0), d["sequence"] or 0)
            data = await asyncio.to_thread(_text, {"plan": plan, "decisions": news, "at": time.time()})
            yield event("plan", data)
            due = max(due + every, time.monotonic() + every / 2)  # what a plan takes is part of the pause
            await asyncio.sleep(due - time.monotonic())
    finally:
        context.watchers -= 1


def _text(data: Any) -> str:
    return json.dumps(finite(data), default=str)
