"""SysStream and Decisions as inputs of a session: made when a query reads them, fed while it works.

A query says with ``WITH (every = '5 seconds')`` how often it wants SysStream; queries with the same interval share a
stream. Nothing happens in a thread of its own: the session looks at the clock when it is at work anyway (rows come, or
``tick`` is called), so that a session without work publishes nothing. The rows of one moment have one timestamp, and it
is closed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from eddyline.core.errors import JobError
from eddyline.core.system_streams import DECISIONS, SYS_STREAM, SYSTEM
from eddyline.core.time import Clock, TimeKind
from eddyline.engine.collector import Collector, Row
from eddyline.engine.declaration_checks import duration
from eddyline.engine.input_manager import InputStream
from eddyline.engine.session_protocols import DescribedQuery, DescribedSession
from eddyline.engine.system_rows_read import WantedRows, wanted_by
from eddyline.plan.logical import Plan
from eddyline.plan.traverse import streams_of
from eddyline.streamon.decision import Decision
from eddyline.streamon.log import Follower
from eddyline.streamon.wording import brief

Collect = Callable[[DescribedSession, Sequence[WantedRows], int], Iterable[Row]]
DEFAULT_INTERVAL: Final = 1_000_000  # microseconds between two rows of one property, unless the query sets it


def interval_of(options: Mapping[str, Any], plan: Plan | None = None) -> int:
    """Microseconds between two collections, or a sentence."""
    given = options.get("every")
    if given is None:
        return DEFAULT_INTERVAL
    if plan is not None and SYS_STREAM.lower() not in {s.lower() for s in streams_of(plan)}:
        raise JobError("the option 'every' says how often SysStream is read, and this query does not read it.")
    every = duration(given, TimeKind.TIMESTAMP, "the option 'every'")
    if not every:
        raise JobError("the option 'every' must be longer than nothing, such as '1 second'.")
    return every


class _Stream:
    """One of the streams, with the time that it has reached."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.input = InputStream(SYSTEM[name.lower()], clock)
        self.schema = self.input.definition.schema.to_arrow()
        self.reached: int | None = None

    def publish(self, rows: list[tuple[Any, ...]], now: int) -> None:
        """Rows without their timestamps, all of one moment, which is complete then."""
        at = now if self.reached is None else max(now, self.reached + 1)
        self.reached = at
        if rows:
            stamps = pa.array([at] * len(rows), pa.int64()).cast(pa.timestamp("us"))
            columns = [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), list(self.schema)[1:], strict=True)]
            self.input.accept(pa.RecordBatch.from_arrays([stamps, *columns], schema=self.schema))
        self.input.heartbeat(at + 1)


class SystemStreams:
    """The system streams of one session."""

    def __init__(self, session: DescribedSession) -> None:
        self._session, self._clock = session, session.clock
        self._sampled: dict[int, tuple[_Stream, Collect]] = {}  # SysStream, by its interval
        self._collect: Collect | None = None
        self._decide: Callable[[], Iterable[tuple[Any, ...]]] | None = None
        self._wanted: dict[int, dict[int, tuple[WantedRows, ...]]] = {}  # by interval and reading query
        self._decisions: _Stream | None = None
        self._followed: dict[int, tuple[DescribedQuery, Follower]] = {}

    def collect_from(self, collect: Collect, decisions: Callable[[], Iterable[tuple[Any, ...]]]) -> None:
        """What is published comes from elsewhere: on Spark, from the shards."""
        self._collect, self._decide = collect, decisions

    @property
    def read(self) -> bool:
        """Whether any query reads one of them."""
        return bool(self._sampled) or self._decisions is not None

    def input_of(self, name: str, options: Mapping[str, Any]) -> InputStream | None:
        """The stream of this name for a query with these options; None if the system has no such stream."""
        if name.lower() == DECISIONS.lower():
            if self._decisions is None:
                self._decisions = _Stream(name, self._clock)
                for q in self._session.queries:
                    self._follow(q)
            return self._decisions.input
        if name.lower() != SYS_STREAM.lower():
            return None
        every = interval_of(options)
        if every not in self._sampled:
            self._sampled[every] = _Stream(name, self._clock), self._collect or Collector().rows
        return self._sampled[every][0].input

    def registered(self, query: DescribedQuery) -> None:
        """A query has come: it may read these streams, and its decisions are to be published."""
        running = query.running
        if found := tuple(wanted_by(running.plan)):
            self._wanted.setdefault(interval_of(running.query.options), {})[id(query)] = found
        if self._decisions is not None:
            self._follow(query)

    def dropped(self, query: DescribedQuery) -> None:
        """End the collection of properties that no query reads any more."""
        for readers in self._wanted.values():
            readers.pop(id(query), None)
        self._wanted = {every: readers for every, readers in self._wanted.items() if readers}
        self._sampled = {every: s for every, s in self._sampled.items() if every in self._wanted}
        if (followed := self._followed.pop(id(query), None)) is not None:
            query.running.physical.context.log.unfollow(followed[1])
        if self._decisions is not None and not self._decisions.input.is_read:
            self._decisions = None
            for q, follower in self._followed.values():
                q.running.physical.context.log.unfollow(follower)
            self._followed = {}

    def _follow(self, query: DescribedQuery) -> None:
        if id(query) not in self._followed:
            self._followed[id(query)] = query, query.running.physical.context.log.follow()

    def publish(self, *, last: bool = False) -> None:
        """Bring what is due by the clock; ``last``: the session's inputs have ended, and these end with them."""
        now = self._clock.now()
        for every, (stream, collector) in self._sampled.items():
            if stream.input.finished or not (last or stream.reached is None or now - stream.reached >= every):
                continue
            wanted = [w for found in self._wanted.get(every, {}).values() for w in found]
            stream.publish([*collector(self._session, wanted, now)] if wanted else [], now)
        if self._decisions is not None and not self._decisions.input.finished:
            self._publish_decisions(self._decisions, now)
        if last:
            for stream, _ in self._sampled.values():
                stream.input.finish()
            if self._decisions is not None:
                self._decisions.input.finish()

    def _publish_decisions(self, stream: _Stream, now: int) -> None:
        rows = [row for q, follower in self._followed.values() for row in decision_rows(q.name, follower)]
        rows += [] if self._decide is None else self._decide()
        if rows or stream.reached is None or now > stream.reached:
            stream.publish(rows, now)

    def state(self) -> dict[str, Any]:
        streams = {str(every): s for every, (s, _) in self._sampled.items()}
        if self._decisions is not None:
            streams[DECISIONS] = self._decisions
        return {n: {"stream": s.input.state(), "reached": s.reached} for n, s in streams.items()}

    def load(self, state: Mapping[str, Any]) -> None:
        for name, saved in state.items():
            stream = self._decisions if name == DECISIONS else self._sampled[int(name)][0]
            if stream is not None:
                stream.input.load(saved["stream"])
                stream.reached = saved["reached"]


def decision_rows(query: str, records: Iterable[Decision]) -> Iterable[tuple[Any, ...]]:
    """Records as rows of Decisions, without their timestamps."""
    for d in records:
        texts = [None if value is None else brief(value) for value in (d.before, d.after)]
        yield (
            query,
            d.sequence,
            d.operator,
            d.kind,
            d.by,
            *texts,
            d.reason,
            d.expected_gain,
            d.applied,
            d.time,
            d.shard,
        )
