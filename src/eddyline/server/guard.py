"""Who may do what: every request passes here before any other code sees it.

In this order: the name under which the server was addressed (against names that lead to it from outside), the origin of
a page that sends the request (other pages get nothing), the rate, the token, the size of the body. Each refusal is one
sentence. Reading is free on loopback; everything else needs the token. The page as it is built is free everywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from eddyline.server.settings import Settings
from eddyline.server.store import Store

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

READING: Final = ("GET", "HEAD", "OPTIONS")
CHECKING: Final = ("/v1/bind",)  # sent with a body, and changes nothing
OPEN: Final = ("/healthz", "/")  # what has nothing of anybody's data; the page asks for the token itself
PAGE_FILES: Final = "/assets/"
TOKEN_KEY: Final = "token sha256"
WHOLE_BODY: Final = 6  # times the bound on silence that a whole body may take
ADDRESSES: Final = 4096  # whose rate is remembered
SECURITY_HEADERS: Final = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
]


def make_token(store: Store, *, anew: bool = False) -> str | None:
    """A new token, if there is none yet or one is wanted ``anew``: shown once, and only its digest is kept."""
    if store.get(TOKEN_KEY) is not None and not anew:
        return None
    token = secrets.token_urlsafe(32)
    store.put(TOKEN_KEY, digest(token))
    store.commit()
    return token


def digest(token: str) -> str:
    """Of 256 random bits, so that neither salt nor stretching is needed."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class Rate:
    """A bucket of requests for each address, filled at a steady rate.

    >>> rate = Rate(2.0)
    >>> [rate.take("a", now) for now in (0.0, 0.0, 0.0, 1.0)]
    [True, True, False, True]
    """

    def __init__(self, rate: float) -> None:
        self._rate, self._most = rate, max(1.0, rate)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, address: str, now: float) -> bool:
        level, then = self._buckets.pop(address, (self._most, now))
        level = min(self._most, level + (now - then) * self._rate)
        taken = level >= 1
        self._buckets[address] = (level - 1 if taken else level, now)
        if len(self._buckets) > ADDRESSES:
            self._buckets.popitem(last=False)
        return taken


class Refusal(Exception):
    def __init__(self, status: int, message: str, headers: list[tuple[bytes, bytes]] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers or []


class Guard:
    """ASGI middleware."""

    def __init__(self, app: App, settings: Settings, token_digest: str) -> None:
        self._app, self._settings, self._digest = app, settings, token_digest
        self._rate = Rate(settings.limits.rate)
        self.port = settings.port  # the one that is bound; known when the server listens
        self.refused = 0

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        headers = {k.lower(): v.decode("latin-1") for k, v in scope["headers"]}
        try:
            self._check(scope, headers)
        except Refusal as refusal:
            self.refused += 1
            await _refuse(send, refusal)
            return
        body = _Body(receive, self._settings.limits.body, self._settings.limits.body_seconds)

        async def sending(message: Message) -> None:
            if body.refusal is not None and not body.started:
                # Whatever the routes made of it: the body was refused, and the answer says why.
                body.started = body.replaced = True
                self.refused += 1
                await _refuse(send, body.refusal)
            if body.replaced:
                return
            if message["type"] == "http.response.start":
                known = {k for k, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(h for h in SECURITY_HEADERS if h[0] not in known)]
                body.started = True
            await send(message)

        with contextlib.suppress(Refusal):
            await self._app(scope, body.receive, sending)

    def _check(self, scope: MutableMapping[str, Any], headers: dict[bytes, str]) -> None:
        host = headers.get(b"host", "")
        if host not in self._hosts():
            raise Refusal(421, f"this server is not called {host!r}; start it with --allow-host if it should be.")
        origin = headers.get(b"origin")
        # The scheme is that of the client where a proxy that was named says it (X-Forwarded-Proto), otherwise http.
        if origin is not None and origin not in {f"{scope.get('scheme', 'http')}://{h}" for h in self._hosts()}:
            raise Refusal(403, "requests from pages of other origins are refused.")
        address = scope["client"][0] if scope.get("client") else ""
        if not self._rate.take(address, time.monotonic()):
            raise Refusal(429, "too many requests: wait a second (--max-rate).", [(b"retry-after", b"1")])
        if self._needs_token(scope["method"], scope["path"]):
            kind, _, token = headers.get(b"authorization", "").partition(" ")
            known = hmac.compare_digest(digest(token.strip()), self._digest)
            if kind.lower() != "bearer" or not known:
                raise Refusal(
                    401, "this needs the server's token: Authorization: Bearer ….", [(b"www-authenticate", b"Bearer")]
                )
        length = headers.get(b"content-length", "0")
        if not length.isdecimal() or int(length) > self._settings.limits.body:
            raise Refusal(413, too_large(self._settings.limits.body))
        if headers.get(b"content-encoding", "identity") != "identity":
            raise Refusal(415, "bodies are sent as they are, without Content-Encoding.")

    def _needs_token(self, method: str, path: str) -> bool:
        reading = method in READING or path in CHECKING
        if reading and (path in OPEN or path.startswith(PAGE_FILES)):
            return False
        return not (reading and self._settings.loopback)

    def _hosts(self) -> set[str]:
        names = {"localhost", "127.0.0.1", "[::1]", self._settings.host, *self._settings.hosts}
        found = {f"{n}:{self.port}" for n in names} | (names if self.port == 80 else set())
        # Behind a proxy the server is addressed by the proxy's name, whose port is the usual one or part of the name.
        return found | set(self._settings.hosts) if self._settings.proxies else found


class _Body:
    """The body of one request, with a bound on its size and on the silence within it."""

    def __init__(self, receive: Receive, most: int, seconds: float) -> None:
        self._receive, self._most, self._seconds = receive, most, seconds
        self._size = 0
        self._until = time.monotonic() + WHOLE_BODY * seconds
        self._more = True
        self.refusal: Refusal | None = None
        self.started = self.replaced = False  # the answer

    async def receive(self) -> Message:
        if not self._more:  # a reader that waits for the end of the connection may wait
            return await self._receive()
        left = self._until - time.monotonic()
        try:
            message = await asyncio.wait_for(self._receive(), min(self._seconds, max(left, 0.0)))
        except TimeoutError:
            raise self._refused(408, "the body of the request did not come in time.") from None
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            self._more = bool(message.get("more_body"))
            if self._size > self._most:
                raise self._refused(413, too_large(self._most))
        return message

    def _refused(self, status: int, message: str) -> Refusal:
        self.refusal = Refusal(status, message, [(b"connection", b"close")])
        return self.refusal


def too_large(most: int) -> str:
    return f"a request has at most {most:,} bytes (--max-body): send fewer rows at once."


async def _refuse(send: Send, refusal: Refusal) -> None:
    body = json.dumps({"error": str(refusal)}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send(
        {
            "type": "http.response.start",
            "status": refusal.status,
            "headers": headers + refusal.headers + SECURITY_HEADERS,
        }
    )
    await send({"type": "http.response.body", "body": body})
