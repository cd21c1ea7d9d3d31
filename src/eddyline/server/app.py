"""The application: routes, what errors become, and the page."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from importlib import resources
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from eddyline import __version__
from eddyline.core.errors import EddylineError
from eddyline.cql.steering import PinQuery  # noqa: F401  - the parser's statements are loaded before the first request
from eddyline.engine.strategies import strategies_data, strategy_lines
from eddyline.expr.functions import function_names
from eddyline.server import inputs, queries, results
from eddyline.server.context import Context, context_of
from eddyline.server.guard import TOKEN_KEY, Guard
from eddyline.server.metrics import metrics
from eddyline.server.refusals import refusal
from eddyline.server.service import Service

PAGE = resources.files("eddyline.server") / "static"


def make_app(service: Service) -> tuple[Guard, Context]:
    """The application behind its guard."""
    app = FastAPI(title="Eddyline", version=__version__, docs_url=None, redoc_url=None, openapi_url="/openapi.json")
    context = Context(service)
    app.state.context = context
    for part in (inputs, queries, results):
        app.include_router(part.router)
    _errors(app)
    guard = Guard(app, service.settings, service.store.get(TOKEN_KEY) or "")

    @app.get("/healthz")
    def healthz() -> Response:
        """Whether changes can be saved."""
        if service.broken:
            return JSONResponse({"status": "broken", "error": service.broken}, 503)
        return JSONResponse({"status": "ok", "version": __version__, "queries": len(service.queries)})

    @app.get("/metrics")
    def prometheus() -> PlainTextResponse:
        return PlainTextResponse(metrics(context, guard.refused), media_type="text/plain; version=0.0.4")

    @app.get("/v1/words")
    def words(request: Request) -> dict[str, Any]:
        """What an editor can offer: functions, and the strategies of each option with their parameters."""
        functions = {*function_names(), *context_of(request).service.session.catalog.functions}
        return {"functions": sorted(functions), "strategies": strategies_data()}

    @app.get("/v1/strategies")
    def strategies() -> PlainTextResponse:
        return PlainTextResponse("\n".join(strategy_lines()))

    if (PAGE / "index.html").is_file():
        app.mount("/assets", StaticFiles(directory=str(PAGE / "assets")), name="assets")

        @app.get("/", include_in_schema=False)
        def page() -> FileResponse:
            return FileResponse(str(PAGE / "index.html"))

    return guard, context


def _errors(app: FastAPI) -> None:
    @app.exception_handler(EddylineError)
    def eddyline(_: Request, error: EddylineError) -> JSONResponse:
        return refusal(error)

    @app.exception_handler(RequestValidationError)
    def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse({"error": mistake_in_request(error.errors()[0])}, 422)

    @app.exception_handler(HTTPException)
    def http(request: Request, error: HTTPException) -> JSONResponse:
        text = str(error.detail)
        if error.status_code == 404 and text == "Not Found":
            text = f"there is nothing at {request.url.path[:200]}; /openapi.json says what there is."
        elif error.status_code == 400 and text == "There was an error parsing the body":
            text = "the body is no JSON that can be read: it is no UTF-8, nested too deeply, or has too long a number."
        elif error.status_code == 405 and text == "Method Not Allowed":
            text = f"{request.method} is no method of {request.url.path[:200]}; /openapi.json says what there is."
        return JSONResponse({"error": text}, error.status_code, error.headers)

    @app.exception_handler(sqlite3.Error)
    def unreadable(_: Request, error: sqlite3.Error) -> JSONResponse:
        return JSONResponse({"error": f"the catalog cannot be read: {error}."}, 503)

    @app.exception_handler(RecursionError)
    def deep(_: Request, error: RecursionError) -> JSONResponse:
        return JSONResponse({"error": "this is nested too deeply."}, 422)


def mistake_in_request(found: Mapping[str, Any]) -> str:
    """A sentence for what validation found.

    >>> mistake_in_request({"type": "extra_forbidden", "loc": ("body", "nme"), "msg": "Extra inputs are not permitted"})
    "the body has a field 'nme', which is not known here."
    >>> mistake_in_request({"type": "missing", "loc": ("body", "columns", 0, 1), "msg": "Field required"})
    'columns.0.1 is missing in the body.'
    >>> mistake_in_request({"type": "int_parsing", "loc": ("path", "number"), "msg": "Input should be a valid integer"})
    'number in the path: input should be a valid integer.'
    """
    where, *fields = (str(p) for p in found["loc"])
    field, message = ".".join(fields), str(found["msg"])
    match found["type"]:
        case "json_invalid":
            text = f"the body is no JSON: {found.get('ctx', {}).get('error', message)}"
        case "model_attributes_type":  # a body whose type is not said to be JSON is not read as such
            text = f"the {where} is no JSON object, or was not sent as Content-Type: application/json"
        case "extra_forbidden":
            text = f"the {where} has a field {field!r}, which is not known here"
        case "missing":
            text = f"{field} is missing in the {where}" if field else f"the {where} is missing"
        case _:
            text = f"{field} in the {where}" if field else f"the {where}"
            text = f"{text}: {message[:1].lower()}{message[1:]}"
    return f"{text[:2000]}."
