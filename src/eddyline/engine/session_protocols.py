"""Protocols: the parts of a session and of a query that other modules use to describe, steer and save them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from eddyline.core.time import Clock
from eddyline.engine.input_manager import InputStream
from eddyline.engine.running_query import RunningQuery
from eddyline.plan.logical import BoundQuery
from eddyline.streamon.decision import Decision


class DescribedQuery(Protocol):
    """``Query`` is one."""

    name: str
    running: RunningQuery

    def _statistics(self) -> dict[str, dict[str, Any]]: ...


class DescribedSession(Protocol):
    """``Session`` is one."""

    clock: Clock

    @property
    def inputs(self) -> Mapping[str, InputStream]: ...
    @property
    def queries(self) -> Sequence[DescribedQuery]: ...


class SteeringSession(Protocol):
    """What steering asks of the session of its query."""

    clock: Clock

    def _schedule(self, policy: str) -> None: ...
    def _prioritise(self, query: RunningQuery, priority: int) -> None: ...
    def _limit_memory(self, query: RunningQuery, bytes: int | None) -> None: ...
    def _check_options(self, bound: BoundQuery) -> None: ...
    def _set_width(self, name: str, what: str, ticks: int | None, because: str = ...) -> list[Decision]: ...


class SteeredQuery(Protocol):
    """``Query`` is one."""

    name: str
    running: RunningQuery

    @property
    def session(self) -> SteeringSession: ...
