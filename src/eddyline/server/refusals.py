"""What an error becomes in an answer: a status, and one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi.responses import JSONResponse

from eddyline.core.errors import CqlError, EddylineError, JobError, OverloadError
from eddyline.server.commands import ComeBack, Refused
from eddyline.server.journal import Gone
from eddyline.server.service import Missing


def refusal(error: EddylineError, done: Sequence[dict[str, Any]] = ()) -> JSONResponse:
    """The answer to a request that ended with this error; ``done`` is what it had done before."""
    status = _status(error)
    body = error_body(error) | ({"done": list(done)} if done else {})
    return JSONResponse(body, status, {"retry-after": "1"} if status == 503 else None)


def error_body(error: EddylineError) -> dict[str, Any]:
    """An error as data: the sentence and, where it is about a text, the place."""
    if isinstance(error, CqlError) and error.span is not None:
        place = {"start": error.span.start, "end": error.span.end, "line": error.line, "column": error.column}
        return {"error": error.message, "place": place, "shown": str(error)}
    return {"error": str(error)}


def _status(error: EddylineError) -> int:
    match error:
        case Missing():
            return 404
        case Gone():
            return 410
        case OverloadError() | ComeBack():
            return 503
        case Refused():
            return 409
        case JobError():
            return 422
    return 400
