"""What a server is started with."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Limits:
    """What one server takes at most; each limit is answered with a sentence that names it."""

    body: int = 16 << 20  # bytes of one request
    rate: float = 200.0  # requests a second from one address, with a burst of as many
    queries: int = 100  # that run at once
    declarations: int = 1000  # streams, relations, views and queries together
    memory: int = 8 << 30  # bytes of the process above which no rows and no queries are taken
    retained_rows: int = 200_000  # results that one query keeps for followers: larger allows a longer absence
    retained_bytes: int = 64 << 20  # the same in bytes as saved
    followers: int = 2000  # connections that follow results, plans or decisions
    header_seconds: float = 10.0  # until the head of a request is there
    body_seconds: float = 20.0  # without a byte of the body
    slow_seconds: float = 10.0  # that one event of a follower waits for its reader before the reader is dropped


@dataclass(frozen=True, slots=True)
class Settings:
    """``folders`` are those below which sources may lie, ``modules`` those whose functions queries may call."""

    state: Path
    host: str = "127.0.0.1"
    port: int = 8123
    folders: tuple[Path, ...] = ()
    modules: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()  # further names under which the server may be addressed
    runtime: str = "inline"  # or "spark"
    master: str | None = None  # of Spark; None: all cores of this machine
    shards: int | None = None  # on Spark, that a query is split over; fixed with the first start
    commit_seconds: float = 0.25  # between two commits that no client waits for: longer costs less, shows results later
    proxies: tuple[str, ...] = ()  # whose word on the address of a client (X-Forwarded-For) is taken
    limits: Limits = field(default_factory=Limits)

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the server.

        >>> Settings(Path("s")).loopback, Settings(Path("s"), host="0.0.0.0").loopback
        (True, False)
        """
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False
