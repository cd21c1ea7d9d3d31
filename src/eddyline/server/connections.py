"""Connections that are slow on purpose: the head of a request must be there within a bound, or the connection ends.

uvicorn bounds the silence between two requests and not the time that the head of one takes; a client that sends a byte
now and then would keep its connection for ever. (Bodies are bounded by ``guard``.)

A request knows its connection (``request.state.connection``), so that one can be handed over to another process.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


def bounded_protocol(seconds: float) -> type[H11Protocol]:
    """uvicorn's protocol with a bound on the time until the head of a request is there."""

    class BoundedHead(H11Protocol):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.app_state = {**self.app_state, "connection": self}
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._answering():
                self._unwatch()
            elif self._timer is None:
                self._watch()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if not self._answering():
                self._unwatch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._unwatch()
            super().connection_lost(exc)

        def _answering(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def _watch(self) -> None:
            self._timer = self.loop.call_later(seconds, self._end)

        def _unwatch(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _end(self) -> None:
            self._timer = None
            if not self._answering() and not self.transport.is_closing():
                self.transport.abort()

    return BoundedHead
