"""What the routes share: the service, the followers, and how work reaches the engine's thread."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from starlette.requests import Request

from eddyline.server.commands import Refused
from eddyline.server.followers import Followers
from eddyline.server.service import Service

T = TypeVar("T")


@dataclass(slots=True)
class Context:
    service: Service
    stopping: bool = False
    followers: Followers = field(init=False)
    watchers: int = 0
    _checked: float = 0.0

    def __post_init__(self) -> None:
        settings = self.service.settings
        self.followers = Followers(settings.state / "catalog.sqlite", settings.limits.slow_seconds)

    async def change(self, work: Callable[[], T], *, durable: bool = True) -> T:
        """Run a command in the engine's thread."""
        return await asyncio.wrap_future(self.service.submit(work, durable=durable))

    async def look(self, work: Callable[[], T]) -> T:
        """Read something that waits for the session's turn."""
        return await asyncio.to_thread(work)

    def check_followers(self) -> None:
        most = self.service.settings.limits.followers
        if self.watchers + self.followers.count >= most:
            raise Refused(f"the server has {most} followers already (--max-followers).")

    def check_memory(self) -> None:
        most, held = self.service.settings.limits.memory, memory()
        if held > most:
            raise Refused(
                f"the server holds {held >> 20:,} MB, more than the {most >> 20:,} MB that it may (--max-memory):"
                " drop queries, or make their windows smaller."
            )


def context_of(request: Request) -> Context:
    found: Context = request.app.state.context
    return found


def memory() -> int:
    """Bytes that the process holds in memory now; its peak where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


class Shared:
    """A value that many ask for and that is computed at most once in an interval."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._known: dict[Any, tuple[float, Any]] = {}
        self._locks: dict[Any, asyncio.Lock] = {}

    async def get(self, key: Any, compute: Callable[[], T]) -> T:
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            when, value = self._known.get(key, (0.0, None))
            if time.monotonic() - when < self._seconds:
                return value  # type: ignore[no-any-return]
            found = await asyncio.to_thread(compute)
            self._known = {k: v for k, v in self._known.items() if time.monotonic() - v[0] < 60}
            self._known[key] = time.monotonic(), found
            self._locks = {k: v for k, v in self._locks.items() if k in self._known or v.locked()}
            return found
