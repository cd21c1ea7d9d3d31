"""``ed.connect(url)``: a session that runs in a server, with the methods of one that runs here.

Everything that has rows is Arrow, as in a session. Nothing but the standard library and Arrow is needed.
"""

from __future__ import annotations

import http.client
import io
import json
import urllib.parse
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from eddyline.core.arguments import shown
from eddyline.core.errors import CqlError, EddylineError, JobError, OverloadError, Span
from eddyline.core.time import SystemClock

if TYPE_CHECKING:
    import pyarrow as pa

    from eddyline.plan.plan_data import PlanGraph
    from eddyline.streamon.decision import Decision

ARROW = "application/vnd.apache.arrow.stream"
WAIT = 10  # seconds that one request for results is held open
ATTEMPTS = 3  # to send a push: numbers make it safe to send one again


def connect(url: str = "http://127.0.0.1:8123", token: str | None = None, *, timeout: float = 60) -> RemoteSession:
    """A session in the server at ``url``. ``token`` is needed for changes; it may also stand behind ``#token=`` in the
    address, as the server prints it.

    >>> connect("http://127.0.0.1:9#token=abc")
    <RemoteSession http://127.0.0.1:9>
    >>> connect("ftp://x")
    Traceback (most recent call last):
    ...
    eddyline.core.errors.JobError: connect takes the address of a server such as http://127.0.0.1:8123, not 'ftp://x'.
    """
    parts = urllib.parse.urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise JobError(f"connect takes the address of a server such as http://127.0.0.1:8123, not {url!r}.")
    given = urllib.parse.parse_qs(parts.fragment).get("token", [None])[0]
    return RemoteSession(parts.scheme, parts.hostname, port, token or given, timeout)


class Transport:
    """Requests to one server, and its errors as ours."""

    def __init__(self, scheme: str, host: str, port: int | None, token: str | None, timeout: float) -> None:
        self.scheme, self.host, self.port, self._token, self._timeout = scheme, host, port, token, timeout

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + (f":{self.port}" if self.port is not None else "")

    def open(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> http.client.HTTPResponse:
        make = http.client.HTTPSConnection if self.scheme == "https" else http.client.HTTPConnection
        connection = make(self.host, self.port, timeout=self._timeout)
        headers = {"Accept": f"{ARROW}, application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if body is not None:
            headers["Content-Type"] = kind
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            connection.request(method, path, body, headers)
            return connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or error
            raise Unreachable(
                f"the server at {self.address} does not answer: {reason}. Is it running there (eddyline serve)?"
            ) from error

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """The answer as data."""
        data = self.bytes(method, path, body, kind)[0]
        return json.loads(data) if data else None

    def bytes(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> tuple[bytes, Mapping[str, str]]:
        answer = self.open(method, path, body, kind)
        try:
            data = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"the server at {self.address} broke off its answer: {error}.") from error
        if answer.status >= 400:
            text = body.get("text", "") if isinstance(body, dict) else ""
            if answer.status == 401:
                raise EddylineError(self._unauthorized())
            raise _error(answer.status, data, text)
        return data, {k.lower(): v for k, v in answer.getheaders()}

    def _unauthorized(self) -> str:
        """The server says which header it wants; here the reader needs to know where a token is given."""
        if self._token:
            return (
                f"the server at {self.address} does not know this token: it showed the right one at its first start"
                " (--new-token makes another one)."
            )
        return (
            "this needs the server's token, which it showed at its first start: ed.connect(url, token), or --token or "
            "EDDYLINE_TOKEN for eddyline shell."
        )


class Unreachable(EddylineError):
    """The server cannot be reached, or broke off."""


def _error(status: int, data: bytes, text: str) -> EddylineError:
    try:
        said = json.loads(data)
        message, place = str(said["error"]), said.get("place")
    except (ValueError, KeyError, TypeError):
        message, place = data.decode(errors="replace")[:500] or f"status {status}", None
    if place is not None and text:
        return CqlError(message, text, Span(place["start"], place["end"]))
    if status == 503:
        return OverloadError(message)
    return JobError(message) if status in (404, 422) else EddylineError(message)


class RemoteSession:
    """Streams, relations, views and queries of a server."""

    def __init__(self, scheme: str, host: str, port: int | None, token: str | None, timeout: float) -> None:
        self._server = Transport(scheme, host, port, token, timeout)
        self._producer = uuid.uuid4().hex
        self._pushes = 0

    def __repr__(self) -> str:
        return f"<RemoteSession {self._server.address}>"

    @property
    def catalog(self) -> dict[str, Any]:
        """All declarations and queries, as plain data."""
        found: dict[str, Any] = self._server.call("GET", "/v1/catalog")
        return found

    @property
    def queries(self) -> list[RemoteQuery]:
        return [RemoteQuery(self, self._server, q["name"]) for q in self._server.call("GET", "/v1/queries")]

    def stream(
        self,
        name: str,
        source: str | None = None,
        timestamp: str | None = None,
        slack: int | float | str | timedelta = 0,
        idle: int | float | str | timedelta | None = None,
        schema: pa.Schema | None = None,
        overload: str | None = None,
        **options: Any,
    ) -> None:
        """Declare a stream: a file of the server (below a folder that it was started with), a generator, or with a
        ``schema`` one whose rows are pushed."""
        body = {"name": name, "source": source, "timestamp": timestamp, "slack": _width(slack), "idle": _width(idle)}
        self._server.call(
            "POST", "/v1/streams", {**body, "columns": _columns(schema), "overload": overload, "options": options}
        )

    def relation(
        self,
        name: str,
        source: str | None = None,
        timestamp: str | None = None,
        key: Sequence[str] = (),
        sign: str | None = None,
        schema: pa.Schema | None = None,
        **options: Any,
    ) -> None:
        """Declare a relation of the server."""
        body = {"name": name, "source": source, "timestamp": timestamp, "key": list(key), "sign": sign}
        self._server.call("POST", "/v1/relations", {**body, "columns": _columns(schema), "options": options})

    def view(self, name: str, text: str) -> None:
        """Give a query a name that others can read."""
        self._server.call("POST", "/v1/views", {"name": name, "text": text})

    def query(self, text: str, name: str | None = None, **options: Any) -> RemoteQuery:
        """Register a continuous query."""
        made = self._server.call("POST", "/v1/queries", {"text": text, "name": name, "options": options})
        return RemoteQuery(self, self._server, made["name"])

    def get(self, name: str) -> RemoteQuery:
        """A query that runs already."""
        found = self._server.call("GET", f"/v1/queries/{_quoted(name)}")
        return RemoteQuery(self, self._server, found["name"])

    def execute(self, job: str) -> list[RemoteQuery]:
        """Run statements; returns the queries that were registered."""
        done = self._server.call("POST", "/v1/execute", {"text": job})["done"]
        return [RemoteQuery(self, self._server, d["name"]) for d in done if d.get("created") == "query"]

    def bind(self, text: str) -> dict[str, Any]:
        """Check a query without registering it: its columns."""
        found: dict[str, Any] = self._server.call("POST", "/v1/bind", {"text": text})
        return found

    def words(self) -> dict[str, Any]:
        """What an editor can offer: the names of functions."""
        found: dict[str, Any] = self._server.call("GET", "/v1/words")
        return found

    def push(self, name: str, rows: Any) -> None:
        """Bring rows to a stream: an Arrow table or batch, a data frame, or a list of dictionaries. They are on the
        server's disk when this returns. Where the connection breaks they are sent again, and none is taken twice."""
        body, kind = _encoded(rows)
        self._pushes += 1
        path = f"/v1/streams/{_quoted(name)}/rows?push_id={self._producer}/{self._pushes}"
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._server.call("POST", path, body, kind)
                return
            except Unreachable:
                if attempt == ATTEMPTS:
                    raise

    def heartbeat(self, name: str, time: int | datetime) -> None:
        """Promise that nothing before ``time`` will come any more."""
        moment = time.isoformat() if isinstance(time, datetime) else time
        self._server.call("POST", f"/v1/streams/{_quoted(name)}/heartbeat", {"time": moment})

    def finish(self, name: str | None = None) -> None:
        """End one stream, or all that are pushed to."""
        pushed = [s["name"] for s in self._server.call("GET", "/v1/streams") if s.get("pushed") and not s.get("ended")]
        for n in pushed if name is None else [name]:
            self._server.call("POST", f"/v1/streams/{_quoted(n)}/finish")

    def alter_stream(self, name: str, *, slack: Any = None, idle: Any = None) -> list[Decision]:
        """Change the slack or the idle interval of a stream."""
        body = {"slack": _width(slack), "idle": _width(idle)}
        return _decisions(self._server.call("PATCH", f"/v1/streams/{_quoted(name)}", body))

    def function(self, name: str, *_: Any, **__: Any) -> None:
        """Refused: a server runs no code that comes over the network."""
        raise JobError(
            f"the function {name!r} cannot be sent to a server: start it with --functions MODULE, whose"
            " register(session) adds functions."
        )

    def drop(self, query: RemoteQuery | str) -> None:
        """Deregister a query, or take back a stream, a relation or a view by its name; what others read stays."""
        name = query if isinstance(query, str) else query.name
        kind = "queries"
        if isinstance(query, str):
            known = {d["name"].lower(): kind for kind, declared in self.catalog.items() for d in declared}
            kind = known.get(name.lower(), kind)
        self._server.call("DELETE", f"/v1/{kind}/{_quoted(name)}")


class RemoteQuery:
    """One query of a server: results, explanations, steering."""

    def __init__(self, session: RemoteSession, server: Transport, name: str) -> None:
        self.session, self.name = session, name
        self._server, self._path = server, f"/v1/queries/{_quoted(name)}"
        self._last = ""  # the id of the last row that was given
        self._table: list[pa.RecordBatch] = []

    def __repr__(self) -> str:
        found = self.state()
        return (
            f"<RemoteQuery {self.name}: {' '.join(found['text'].split())}; {found['status']}, {found['rows']} results>"
        )

    def _repr_html_(self) -> str:
        """In a notebook: the plan with its decisions."""
        from eddyline.plan.print_html import notebook

        return notebook(self.plan(), SystemClock().now() / 1e6)

    def state(self) -> dict[str, Any]:
        """Text, status, options, columns and the number of results, as plain data."""
        found: dict[str, Any] = self._server.call("GET", self._path)
        return found

    @property
    def schema(self) -> pa.Schema:
        return self._fetched(0)[0]

    def _fetched(
        self, wait: float, limit: int = 10_000, keep: bool = False
    ) -> tuple[pa.Schema, list[pa.RecordBatch], str]:
        import pyarrow as pa

        after = f"&after={self._last}" if self._last else ""
        data, headers = self._server.bytes("GET", f"{self._path}/results?format=arrow&limit={limit}&wait={wait}{after}")
        reader = pa.ipc.open_stream(data)
        batches = [b for b in reader if len(b)]
        if keep:
            self._last = headers["eddyline-last"]
        return reader.schema, batches, headers["eddyline-status"]

    def fetch(self) -> list[pa.RecordBatch]:
        """The results that are there now, in order; each is given once."""
        found: list[pa.RecordBatch] = []
        while batches := self._fetched(0, keep=True)[1]:
            found += batches
        return found

    def poll(self, wait: float) -> tuple[list[pa.RecordBatch], bool]:
        """The next results, waited for at most so many seconds, and whether the query is over. Behind the last result
        of a query that was stopped by an error, this error is raised."""
        _, batches, status = self._fetched(wait, keep=True)
        if not batches and status == "failed":
            raise EddylineError(f"the query {self.name!r} was stopped by an error: {self.state()['message']}")
        return batches, status != "running"

    def pass_over(self, rows: int) -> int:
        """Leave out all results that are there now but the last ``rows``; how many there are before those that come
        next."""
        found = self.state()
        passed: int = max(found["rows"] - rows, found["first"] - 1)
        self._last = f"{found['id']}.{passed}"
        return passed

    def results(self, *, follow: bool = True) -> Iterator[pa.RecordBatch]:
        """Record batches as they come, until the query is over; without ``follow`` those that are there."""
        while True:
            batches, over = self.poll(WAIT if follow else 0)
            yield from batches
            if not batches and (over or not follow):
                return

    def to_arrow(self) -> pa.Table:
        """All results so far as one table."""
        import pyarrow as pa

        while found := self.poll(0)[0]:
            self._table += found
        return pa.Table.from_batches(self._table, self.schema)

    def explain(self) -> str:
        """The plan that is running, what it keeps and why, and what was decided so far."""
        return self._server.bytes("GET", f"{self._path}/explain")[0].decode()

    def plan(self) -> PlanGraph:
        """The plan as data."""
        from eddyline.plan.plan_data import PlanGraph

        return PlanGraph.load(self._server.call("GET", f"{self._path}/plan"))

    @property
    def decisions(self) -> list[Decision]:
        return _decisions(self._server.call("GET", f"{self._path}/decisions"))

    def report(self) -> dict[str, Any]:
        """Counts, times and state."""
        found: dict[str, Any] = self._server.call("GET", f"{self._path}/report")
        return found

    def statistics(self) -> dict[str, dict[str, Any]]:
        """By operator what those that adapt know and did, as in a session (but for their history); on Spark every
        shard learns by itself: see ``report()``."""
        found = self.report()
        if "shards" in found:
            raise JobError("on Spark each shard learns by itself: see report()['adapting'], or explain().")
        return {a["operator"]: {k: v for k, v in a.items() if k != "operator"} for a in found["adapting"]}

    @property
    def approximate(self) -> bool:
        """Whether rows were shed, or an operator drops some: results since the first of them are not exact."""
        return bool(self.report().get("approximate", False))

    def late(self) -> list[dict[str, Any]]:
        return self._aside("late")

    def invalid(self) -> list[dict[str, Any]]:
        return self._aside("invalid")

    def shed(self) -> list[dict[str, Any]]:
        return self._aside("shed")

    def _aside(self, which: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._server.call("GET", f"{self._path}/aside/{which}")
        return found

    def alter(self, **options: Any) -> list[Decision]:
        """Change options while the query runs."""
        return _decisions(self._server.call("PATCH", self._path, {"options": options}))

    def pin(self) -> list[Decision]:
        return _decisions(self._server.call("POST", f"{self._path}/pin"))

    def unpin(self) -> list[Decision]:
        return _decisions(self._server.call("POST", f"{self._path}/unpin"))

    def undo(self, number: int) -> list[Decision]:
        """Set back what a decision changed."""
        return _decisions(self._server.call("POST", f"{self._path}/undo/{number}"))

    def drop(self) -> None:
        """Deregister the query."""
        self.session.drop(self)


def _decisions(found: Sequence[Mapping[str, Any]]) -> list[Decision]:
    from eddyline.streamon.decision import Decision

    return [Decision.load(d) for d in found]


def _quoted(name: str) -> str:
    return urllib.parse.quote(name, safe="")


def _width(width: Any) -> Any:
    return f"{width.total_seconds()} seconds" if isinstance(width, timedelta) else width


def _columns(schema: pa.Schema | None) -> list[tuple[str, str]] | None:
    from eddyline.expr.types import type_name

    return None if schema is None else [(f.name, type_name(f.type)) for f in schema]


def _encoded(rows: Any) -> tuple[bytes, str]:
    import pyarrow as pa

    if isinstance(rows, Sequence) and not isinstance(rows, str | bytes):
        lines = "".join(json.dumps(r, default=_plain) + "\n" for r in rows)
        return lines.encode(), "application/x-ndjson"
    try:
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else pa.table(rows)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise JobError(
            f"rows to push are an Arrow table or batch, a data frame, or a list of dictionaries, not {shown(rows)}."
        ) from error
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue(), ARROW


def _plain(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
