"""The data of a session: rows that are pushed, rows that sources bring, and the answers that they close."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import pyarrow as pa

from eddyline.core import arguments as check
from eddyline.core.errors import JobError, OverloadError
from eddyline.core.overload import WEIGHT
from eddyline.core.time import TimeKind, from_datetime
from eddyline.engine.ownership import in_turn
from eddyline.engine.row_warnings import LeftOut
from eddyline.engine.session_queries import Registering
from eddyline.io.resolve import open_source


class Stepping(Registering):
    """Brings rows to the streams and lets the graph work."""

    @in_turn
    def push(self, name: str, rows: Any) -> None:
        """Bring rows to a stream: an Arrow batch or table, a pandas frame, or a list of dictionaries.

        Where a queue that the stream fills is full, operators work first, and the caller waits for them. Rows that wait
        for another stream wait in their queue, whatever its bound: only the other stream's rows can help them."""
        stream = self._pushed(name)
        if stream.guard is not None and stream.full:
            raise OverloadError(
                f"the buffer of {stream.name!r} is full (ON OVERLOAD {stream.guard.spec}), and no row was accepted:"
                " push rows or heartbeats to the streams that it waits for, then push these again."
            )
        if self._graph.is_full(stream):
            self._advance(drain=True)
        if isinstance(rows, pa.RecordBatch):
            stream.accept(rows)
        else:
            schema = pa.schema([f for f in stream.definition.schema.to_arrow() if f.name != WEIGHT])
            for batch in open_source(rows, schema=schema).open():
                if batch.invalid:
                    stream.reject([i.row for i in batch.invalid], [i.reason for i in batch.invalid])
                if batch.rows.num_rows:
                    stream.accept(batch.rows)
        self._advance()

    @in_turn
    def heartbeat(self, name: str, time: int | datetime) -> None:
        """Promise that nothing before ``time`` (less the slack) will come any more: an integer in the ticks of the
        stream, or a datetime where its times are timestamps (one without a zone is UTC).

        >>> import eddyline as ed
        >>> session = ed.Session()
        >>> session.stream("S", schema=pa.schema({"ts": pa.timestamp("us"), "a": pa.int64()}), timestamp="ts")
        >>> q = session.query("SELECT Istream(a) FROM S")
        >>> session.push("S", [{"ts": datetime(2026, 1, 1, 12), "a": 1}])
        >>> session.heartbeat("S", datetime(2026, 1, 1, 13))
        >>> q.to_arrow()["a"].to_pylist()
        [1]
        """
        stream = self._pushed(name)
        what = "the time of a heartbeat, in ticks (microseconds of a timestamp),"
        if isinstance(time, datetime):
            if stream.definition.time_kind is not TimeKind.TIMESTAMP:
                raise JobError(f"{what} is an integer, because the time of {stream.name!r} is; {time} is a timestamp.")
            time = from_datetime(time)
        stream.heartbeat(check.integer(time, what))
        self._advance()

    @in_turn
    def tick(self) -> None:
        """Let idle intervals pass: look at the clock."""
        for stream in self.inputs.values():
            stream.tick()
        self._advance()

    @in_turn
    def finish(self, name: str | None = None) -> None:
        """End one stream, or all."""
        for stream in self.inputs.values() if name is None else (self._pushed(name),):
            stream.finish()
        self._advance()
        if all(s.finished for s in self.inputs.values()):
            self._end_system_streams()

    @in_turn
    def advance(self) -> None:
        """Answer what has closed. An error stops its query and is raised when the others have gone on."""
        self._advance()

    def _end_system_streams(self) -> None:
        """After all other answers, whose decisions are the last to be published."""
        if self.system.read:
            self.system.publish(last=True)
            self._advance()

    def _advance(self, drain: bool = False) -> None:
        drain = drain or self._graph.budget is None or all(s.finished for s in self.inputs.values())
        errors: list[Exception] = []
        if self.system.read:
            self.system.publish()
        while True:
            for _, error in self._graph.advance(drain):
                errors.append(error)
            # What a query turns away may close instants of those that read it.
            for side in self.sides.values():
                side.progress()
            if not self.sides or not self._graph.can_advance:
                break
        for estimator in self._estimators:
            estimator.drain()
        if self.learned.reviewing:
            self.learned.review()
        if errors:
            raise errors[0]
        if self.warns and self._loses:
            self._notices.warn(self.left_out())

    @property
    def _loses(self) -> bool:
        # Plain loops, not any(): this is asked after every push.
        for s in self.inputs.values():
            if s.late.count or s.invalid.count or s.shed.count:
                return True
        for r in self._diverting:
            if r.invalid.count:
                return True
        return bool(self.invalid_of_relations)

    def left_out(self) -> list[LeftOut]:
        """What streams, relations and queries have turned away so far, those that turned nothing away included."""
        queries = [LeftOut.by(q.name, q.running.invalid) for q in self.queries]
        return [*map(LeftOut.of, self.inputs.values()), *self.invalid_of_relations.values(), *queries]

    @in_turn
    def step(self) -> bool:
        """Pull one batch from the source that is furthest behind; False when all sources are at their end."""
        return self._step()

    def _step(self) -> bool:
        waiting = [f for f in self.feeds.values() if not f.done and f.stream.is_read]
        if not waiting:
            for f in self.feeds.values():
                f.stream.finish()
            self._advance()
            self._end_system_streams()
            return False
        fresh = [f for f in waiting if f.can_begin]
        if len(fresh) > 1:
            with ThreadPoolExecutor(len(fresh)) as pool:
                for f in fresh:
                    f.begin(pool)
        able = [f for f in waiting if not (f.stream.full or self._graph.is_full(f.stream))]
        if not able:  # the operators have work enough
            self._advance()
            if self._graph.ran:
                return True
            able = waiting  # they wait for rows that have not been read: those of the one furthest behind can help
        behind = min(able, key=lambda f: f.stream.shown_bound)
        behind.pull()
        self._advance()
        return True

    def run(self, each: Callable[[], None] | None = None) -> None:
        """Read all sources to their end. ``each`` is called after every batch."""
        if each is not None and not callable(each):
            raise JobError(f"run calls a function after every batch, and {check.shown(each)} is none.")
        while self.step():
            if each is not None:
                each()
        if each is not None:
            each()
