"""``eddyline serve``: start, listen, and stop cleanly."""

from __future__ import annotations

import errno
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn

from eddyline.core.errors import EddylineError, JobError
from eddyline.server.app import make_app
from eddyline.server.connections import bounded_protocol
from eddyline.server.context import Context
from eddyline.server.demo import Demo
from eddyline.server.guard import make_token
from eddyline.server.service import Service
from eddyline.server.settings import Settings

SEND_BUFFER = 128 << 10  # bytes that the system holds for one connection
GRACE = 3  # seconds that answers in the making get when the server stops


class _Server(uvicorn.Server):
    """Ends followers when it is asked to stop, and does not raise the signal again: the state is saved afterwards."""

    context: Context

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {s: signal.signal(s, self._stop) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for s, handler in before.items():
                signal.signal(s, handler)

    def _stop(self, number: int, _: FrameType | None) -> None:
        self.force_exit = self.should_exit and number == signal.SIGINT
        self.should_exit = self.context.stopping = True
        for running in list(self.context.service.queries.values()):
            running.journal.changed.notify()


def serve(settings: Settings, *, demo: bool = False, new_token: bool = False) -> int:
    """Run until interrupted. ``demo`` brings a stream that drifts and queries over it; ``new_token`` replaces a token
    that was lost or that others know."""
    listening = _listen(settings.host, settings.port)
    port = listening.getsockname()[1]
    service = make_service(settings)
    token = make_token(service.store, anew=new_token)
    guard, context = make_app(service)
    guard.port = port
    service.start()
    feeder = None
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"http://{host}:{port}/"
    config = uvicorn.Config(
        guard,
        http=bounded_protocol(settings.limits.header_seconds),
        ws="none",
        loop="asyncio",  # whose transports close a descriptor and leave the connection to others that have it
        lifespan="off",
        log_level="error",  # warnings are of what strangers send, and advise to install what is left out on purpose
        access_log=False,
        server_header=False,
        # Without a proxy that was named, an address that a client claims for itself would evade the bound on the rate.
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        timeout_graceful_shutdown=GRACE,
        h11_max_incomplete_event_size=64 << 10,
    )
    server = _Server(config)
    server.context = context
    try:
        if demo:
            feeder = Demo(service)
            feeder.start()
        print(f"eddyline listens on {address} (state in {settings.state})")
        if token is not None:
            print(f"the token for changes, shown this once: {token}")
            print(f"the page with it: {address}#token={token}")
        else:
            print("changes need the token that was shown at the first start; --new-token shows another one")
        sys.stdout.flush()
        server.run(sockets=[listening])
    except KeyboardInterrupt:
        pass  # before the server has taken the signal over
    finally:
        if feeder is not None:
            feeder.stop()
        context.followers.close()
        service.stop()
        listening.close()
    if service.broken:
        raise EddylineError(service.broken)
    beneath = "\n" if sys.stdout.isatty() else ""  # the terminal has written ^C at the left
    print(f"{beneath}stopped; all is saved in {settings.state}", flush=True)
    return 0


def make_service(settings: Settings) -> Service:
    """The one of the runtime. A directory stays with the runtime that began it."""
    if settings.runtime == "spark":
        from eddyline.server.spark_service import SparkService

        return SparkService(settings)
    return Service(settings)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        found = socket.socket(family, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # The system would let a connection that is not read grow to megabytes, a thousand of them to gigabytes.
        found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        found.bind((host, port))
        found.listen(1024)
        return found
    except OSError as error:
        reason = error.strerror or str(error)
        # A name that leads nowhere, and an address of another machine, are no matter of the port.
        wrong = "--host" if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL else "--port"
        raise JobError(f"the server cannot listen on {host}:{port}: {reason}; name another {wrong}.") from error
    except OverflowError as error:
        raise JobError(f"--port {port}: ports are numbers from 0 to 65535.") from error
