"""The input manager (thesis 2.2.5): streams as they come → elements in timestamp order, each stream on its own.

For each declared stream, *in this order*:

1. **Invalid** rows (NULL timestamp, a value that is not of its declared type) are diverted; they are not elements and
   show no time.
2. **Late** means ts < (largest time shown before in this stream) − slack, row by row in order of arrival, before any
   filter. Times are shown by elements and by heartbeats. Late rows are diverted, and counted exactly.
3. The others are held until no smaller one can come on time, and handed to every reader by (timestamp, arrival).
4. Of a stream with a declared key, those that repeat one are diverted then as invalid; their times were shown.

The one invariant behind it: *every element with a time below* ``bound`` *has been accepted*, so instants below
``bound`` are closed for this stream. ``closing.frontier`` puts the streams of a query together.

Ways that look right and are wrong:

- To compare with the largest timestamp of the *batch*: then what is late depends on how rows were cut into batches.
- To let a late row raise nothing but forget the heartbeat: an instant that a heartbeat closed must stay closed, so a
  row behind it is late even if no later element was seen.
- To close an instant when its own timestamp is shown: another element of the same instant may follow. Closed means
  that a time − slack *greater* than τ was shown.
- To give several queries one position: they close instants at different times. Each reader has its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.catalog import StreamDef
from eddyline.core.delta import Bools, Float64s, Int64s
from eddyline.core.errors import DataError, EddylineError, JobError, did_you_mean
from eddyline.core.overload import WEIGHT, Overload
from eddyline.core.time import BEGINNING, NEVER, Clock
from eddyline.engine import input_state
from eddyline.engine.arrivals import MAX_TICKS, Definition, Failures, Judge, extent, ticks, times_reached
from eddyline.engine.auto_rows import AutoRows, JudgedRows, Placed
from eddyline.engine.overload_guard import OverloadGuard, with_weights
from eddyline.engine.reorder import Chunk, ReorderBuffer
from eddyline.engine.side_output import ROWS_KEPT, Diverted, SideOutput
from eddyline.engine.stream_reader import StreamReader
from eddyline.engine.stream_time import StreamTime
from eddyline.engine.unique_keys import Locate, UniqueKeys
from eddyline.engine.watermark import BEFORE, BEHIND, SHUT
from eddyline.streamon.decision import Decision
from eddyline.streamon.log import DecisionLog

__all__ = ["InputStream", "StreamReader"]


class InputStream(StreamTime):
    """One declared stream or timed relation.

    ``columns`` are those that any reader may ask for (None: all declared); the batches must have them. ``strict``
    stops at the first invalid row instead of diverting it. ``keep`` bounds the side outputs' memory.

    >>> from eddyline.core.catalog import StreamDef
    >>> from eddyline.core.schema import Schema
    >>> from eddyline.core.time import TimeKind
    >>> from eddyline.testing.clock import ManualClock
    >>> schema = Schema.from_arrow(pa.schema([("ts", pa.int64()), ("a", pa.string())]))
    >>> s = InputStream(StreamDef("S", schema, TimeKind.INTEGER, "ts", slack=2), ManualClock())
    >>> reader = s.reader(["a"])
    >>> s.accept(pa.RecordBatch.from_pydict({"ts": [1, 4, 2, 1, 7], "a": ["p", "q", "r", "s", "t"]}))
    >>> s.bound, s.late.count  # everything below 7 − 2 is complete; 1 < 4 − 2 was late
    (5, 1)
    >>> d = reader.take(s.bound - 1)
    >>> d.time.tolist(), d.columns["a"].to_pylist()
    ([1, 2, 4], ['p', 'r', 'q'])
    """

    remembers = False  # whether elements are kept while no query reads the stream

    def __init__(
        self,
        definition: Definition,
        clock: Clock,
        columns: Sequence[str] | None = None,
        *,
        strict: bool = False,
        keep: int = ROWS_KEPT,
    ) -> None:
        super().__init__(definition, clock)
        self.strict = strict
        self.late = SideOutput(keep)
        self.invalid = SideOutput(keep)
        self.shed = SideOutput(keep)
        self.arrived = 0  # rows, whatever became of them
        self.behind = 0  # how far late rows lay behind the largest time before them, at most
        self.accepted = 0  # elements on time: the next arrival number
        self.first_time: int | None = None
        self.last_time: int | None = None
        self.takes_late = False  # as if it came on time: only right while no instant was closed
        self._judge = Judge(definition)
        policy: str | None = None if definition.timestamp is None else getattr(definition, "auto", None)
        self.auto: JudgedRows | None = None
        if policy is not None:
            self.auto = AutoRows(policy, definition.time_kind, self.watermark, definition.name)
        overload: Overload | None = getattr(definition, "overload", None)
        self.guard = None if overload is None else OverloadGuard(overload, definition.name, self.shed)
        unique = getattr(definition, "unique", ())
        self.keys = UniqueKeys(definition) if unique and isinstance(definition, StreamDef) else None
        self.locate: Locate | None = None  # where an element stands in its file
        self.logs: list[DecisionLog] = []  # of the queries that read it, which its decisions are entered in
        self._buffer = ReorderBuffer()
        self._readers: list[StreamReader] = []
        self._allowed = self._known(definition.schema.names if columns is None else columns)
        self._needed: tuple[str, ...] = ()  # columns that some reader asks for
        self._brought: tuple[str, ...] = ()  # those of them that batches bring
        self.plan_columns()

    # What is closed.

    def heartbeat(self, time: int) -> None:
        """Promise that no element before ``time`` − slack will come: those that do are late."""
        if not -MAX_TICKS <= time <= MAX_TICKS:
            raise EddylineError(f"a heartbeat of {self.name!r} is out of range: {time}.")
        self._note_activity(self._clock.now())
        if self.auto is None:
            self.watermark.show(time)
        else:
            self._place(self.auto.heartbeat(time, self._closed))

    def tick(self) -> None:
        """Look at the clock: a silent stream falls idle; one that is stamped on arrival shows that time passes."""
        if self.finished:
            return
        now = self._clock.now()
        if self.definition.timestamp is None:
            self.watermark.show(self._stamp(now))
        elif self._idle_after is not None and now - self.active_at >= self._idle_after:
            self._settle()
            self.idle = True

    def finish(self) -> None:
        """The end of the input: nothing holds anything back any more."""
        self._settle()
        self.finished = True

    def saw(self, low: int) -> None:
        """An element on time has come with this time, here or in another shard."""
        if self.first_time is None or low < self.first_time:
            self.first_time = low
        for r in self._readers:
            r.saw(low)

    # What comes in.

    def accept(self, batch: pa.RecordBatch, arrival_time: int | None = None) -> None:
        """Take the next rows in order of arrival. ``arrival_time`` (µs) stands in for the clock."""
        if self.finished:
            raise EddylineError(f"{self.name!r} has ended; no more rows can be pushed to it.")
        raw = self._judge.flat(batch)
        batch, failures = self._judge(raw, self._brought)
        count = batch.num_rows
        if not count:
            return  # no rows show no time: an empty poll does not end an idle interval
        now = self._clock.now() if arrival_time is None else arrival_time
        self._note_activity(now)
        if failures:
            batch = self._divert(raw, batch, failures)
        time = self._times(batch, now)
        if len(time):
            in_order, low, high = extent(time)
            if low < -MAX_TICKS or high > MAX_TICKS:
                far = np.flatnonzero((time < -MAX_TICKS) | (time > MAX_TICKS)).tolist()
                reason = f"the timestamp {self.definition.timestamp!r} is out of range"
                batch = self._divert(batch, batch, dict.fromkeys(far, reason))
                time = self._times(batch, now)
                in_order, low, high = extent(time) if len(time) else (True, 0, 0)
        self.arrived += count
        if len(time) and self.auto is not None and not self.takes_late:
            chosen = self._judge.select(batch, self._brought)
            first, self.accepted = self.accepted, self.accepted + len(time)
            self._place(self.auto.take(batch, chosen, time, first, self._closed))
        elif len(time):
            self._take_in(batch, time, in_order, low, high)

    def _times(self, batch: pa.RecordBatch, now: int) -> Int64s:
        column = self.definition.timestamp
        if column is None:
            return np.full(batch.num_rows, self._stamp(now), np.int64)
        return ticks(batch.column(self._judge.position[column]))

    def _take_in(self, batch: pa.RecordBatch, time: Int64s, in_order: bool, low: int, high: int) -> None:
        mark = self.watermark
        # Among rows in order, none can be late because of another; where none lies behind what was there before and
        # the disorder is within the slack, none can be late at all.
        suspect = low < mark.bound or low <= self._closed or not (in_order or high - low <= mark.slack)
        if suspect and not self.takes_late:
            on_time = self._divert_late(batch, time)
            if on_time is not None:
                batch, time = batch.filter(pa.array(on_time)), time[on_time]
                if not len(time):
                    return
                in_order, low, high = extent(time)
        mark.show(high)
        keep, weights = (None, None) if self.guard is None else self._sift(self.guard, batch, time)
        if keep is not None:
            batch, time = batch.filter(pa.array(keep)), time[keep]
            if not len(time):
                return
            in_order, low, high = extent(time)
        if self.last_time is None or high > self.last_time:
            self.last_time = high
        self.saw(low)
        if self._kept:
            rows = self._judge.select(batch, self._brought)
            chunk = Chunk(time, rows if weights is None else self._weighted(rows, weights), self.accepted)
            self._buffer.add(chunk if in_order else chunk.sorted())
        self.accepted += len(time)
        if self.keys is not None and not self._readers:
            self.release(BEGINNING)  # no reader will ask for what is final

    def _sift(self, guard: OverloadGuard, raw: pa.RecordBatch, time: Int64s) -> tuple[Bools | None, Float64s | None]:
        """Which of the rows that are on time are kept under overload (None: all), and the weights of those."""
        found = guard.sift(raw, time, self._waiting(), self.accepted, self._clock.now(), self.shown)
        self._record(guard.policy.taken_decisions())
        return found

    def _weighted(self, rows: pa.RecordBatch, weights: Float64s) -> pa.RecordBatch:
        return with_weights(rows, weights) if WEIGHT in self._needed else rows

    def _record(self, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            for log in self.logs:
                log.record(decision, operator=f"stream {self.name}")

    @property
    def full(self) -> bool:
        """Whether ON OVERLOAD BLOCK keeps rows from coming now."""
        guard = self.guard
        return guard is not None and not guard.sheds and guard.full(self._waiting(), self._clock.now())

    def _waiting(self) -> list[Chunk]:
        """What is held, and not yet taken by the slowest reader."""
        slowest = max(self._readers, key=len, default=None)
        return [*self._buffer.chunks, *(slowest.chunks if slowest is not None else ())]

    def _settle(self) -> None:
        """Judge the rows that wait to be judged: for now no further row will come to compare them with."""
        if self.auto is not None:
            self._place(self.auto.settle(self._closed))

    def _place(self, placed: Placed) -> None:
        """Rows that SLACK AUTO has judged go where they belong, and what it decided into the logs."""
        for part in placed.late:
            self.late.add(part)
        for part in placed.implausible:
            if self.strict:
                raise DataError(f"a row of {self.name!r} is {part.reason[0]}: {part.rows.slice(0, 1).to_pylist()[0]}.")
            self.invalid.add(part)
        for chunk, raw in placed.on_time:
            keep, weights = (None, None) if self.guard is None else self._sift(self.guard, raw, chunk.time)
            if keep is not None:
                chunk = chunk.filter(keep)
                if not len(chunk):
                    continue
            high = int(chunk.time[-1])
            self.last_time = high if self.last_time is None else max(self.last_time, high)
            self.saw(int(chunk.time[0]))
            if self._kept:
                if weights is not None:
                    chunk.rows = self._weighted(chunk.rows, weights)
                self._buffer.add(chunk)
        if self.auto is not None:
            decisions, self.auto.slack.decisions = self.auto.slack.decisions, []
            self._record(decisions)

    def _divert_late(self, batch: pa.RecordBatch, time: Int64s) -> Bools | None:
        """Which rows are on time (None: all). ``time`` is as it arrived."""
        late = self.watermark.late(time, self._closed)
        if late is None:
            return None
        rows = late.rows
        if (late.why[rows] == 0).any():
            behind = rows & (late.why == 0)
            self.behind = max(self.behind, int((late.before[behind] - time[behind]).max()))
        reasons = pa.array([BEHIND, BEFORE, SHUT]).take(pa.array(late.why[rows]))
        self.late.add(Diverted(self.name, batch.filter(pa.array(rows)), late.before[rows], reasons))
        return ~rows

    def _divert(self, raw: pa.RecordBatch, batch: pa.RecordBatch, failures: Failures) -> pa.RecordBatch:
        """Put the invalid rows aside as they came (``raw``) and return the others as they are now (``batch``)."""
        rows = sorted(failures)
        if self.strict:
            raise DataError(
                f"row {self.arrived + rows[0] + 1} of {self.name!r} is invalid: {failures[rows[0]]}."
                " Without strict it would be put into the invalid stream."
            )
        reasons = pa.array([failures[r] for r in rows], pa.string())
        keep = np.ones(len(batch), np.bool_)
        keep[rows] = False
        kept = batch.filter(pa.array(keep))
        at = self.reached(kept, np.cumsum(keep, dtype=np.int64)[rows])
        self.invalid.add(Diverted(self.name, raw.take(pa.array(rows)), at, reasons))
        return kept

    def reject(self, rows: Sequence[str], reasons: Sequence[str], at: Int64s | None = None) -> None:
        """Divert rows that a source could not even take apart; ``rows`` is their text, ``at`` what ``reached`` says."""
        if not rows:
            return
        if self.strict:
            raise DataError(f"a row of {self.name!r} is invalid: {reasons[0]}.")
        self.arrived += len(rows)
        batch = pa.RecordBatch.from_pydict({"_row": pa.array(rows, pa.string())})
        times = self.reached(None, np.zeros(len(rows), np.int64)) if at is None else at
        self.invalid.add(Diverted(self.name, batch, times, pa.array(reasons, pa.string())))

    def reached(self, batch: pa.RecordBatch | None, before: Int64s) -> Int64s:
        """The time that the stream has reached when ``before`` rows of the batch have come.

        How rows are cut into batches must not show: the times of the rows before in the same batch count. Before the
        first element of all it is the time of that element, and 0 where that is not in sight.
        """
        column = self.definition.timestamp
        values = None if column is None or batch is None or column not in batch.schema.names else batch.column(column)
        if self.auto is None:
            return times_reached(values, before, self.shown)
        believed = self.auto.slack.believed
        return times_reached(values, before, self.shown, BEGINNING if believed is None else believed)

    # What goes out.

    def reader(self, columns: Sequence[str] | None = None, name: str | None = None) -> StreamReader:
        """Register a query. ``name`` finds its position again in a snapshot (default: the order of registration)."""
        asked = self._allowed if columns is None else self._known(columns)
        taken = {r.name for r in self._readers}
        label = name if name is not None else next(str(i) for i in range(len(taken) + 1) if str(i) not in taken)
        if label in taken:
            raise JobError(f"{self.name!r} already has a reader named {label!r}.")
        self.release(BEGINNING)  # what is final goes to those that were here
        made = StreamReader(self, asked, label, since=self.accepted)
        self._readers.append(made)
        self.plan_columns()
        self._start_reader(made)
        return made

    def _start_reader(self, reader: StreamReader) -> None:
        """A reader of a stream starts with nothing."""

    def forget(self, reader: StreamReader) -> None:
        self._readers = [r for r in self._readers if r is not reader]
        self.plan_columns()
        if not self._kept:
            self._buffer = ReorderBuffer()

    def plan_columns(self) -> None:
        asked = {c for r in self._readers for c in r.columns}
        if self.keys is not None:
            asked.update(self.keys.columns)
        self._needed = tuple(n for n in self.definition.schema.names if n in asked)
        self._brought = tuple(n for n in self._needed if n != WEIGHT)

    def _known(self, columns: Sequence[str]) -> tuple[str, ...]:
        schema = self.definition.schema
        for c in columns:
            if c not in schema:
                raise JobError(f"{self.name!r} has no column {c!r}.{did_you_mean(c, schema.names)}")
        return tuple(columns)

    def release(self, frontier: int) -> None:
        """Close the instants up to ``frontier`` and move all final elements from the buffer to the readers."""
        if frontier > self._closed:
            self._closed = frontier
        # shown_bound is exclusive and BEGINNING while nothing was shown; then nothing is held either.
        final = NEVER if self.finished else max(self.shown_bound - 1, self._closed)
        for chunk in self._buffer.release(final):
            self._deliver(chunk)

    def _deliver(self, chunk: Chunk) -> None:
        if self.keys is not None:
            chunk, repeated = self.keys.sift(chunk, self.locate if self.strict or not self.invalid.count else None)
            if repeated is not None:
                self._put_aside(repeated)
            if not len(chunk):
                return
        for r in self._readers:
            r.chunks.append(chunk)

    def _put_aside(self, repeated: Diverted) -> None:
        if self.strict:
            raise DataError(
                f"an element of {self.name!r} is invalid: {repeated.reason[0]}."
                " Without strict it would be put into the invalid stream."
            )
        self.invalid.add(repeated)

    @property
    def _kept(self) -> bool:
        """Whether elements on time are held: for readers, or because later ones are judged by their keys."""
        return bool(self._readers) or self.remembers or self.keys is not None

    @property
    def largest_time(self) -> int | None:
        """The largest time of an element that has come: one on time, or one that waits to be judged."""
        held = [] if self.auto is None else self.auto.slack.held_times
        return max([*held, *(() if self.last_time is None else (self.last_time,))], default=None)

    @property
    def is_read(self) -> bool:
        """Whether any query reads it."""
        return bool(self._readers)

    @property
    def buffered(self) -> int:
        """Elements held: not final yet, or not yet taken by the slowest reader."""
        return len(self._buffer) + max((len(r) for r in self._readers), default=0)

    def report(self) -> dict[str, Any]:
        """Counts and the slack as it is now (ticks), as plain data."""
        out: dict[str, Any] = {
            "arrived": self.arrived,
            "late": self.late.count,
            "invalid": self.invalid.count,
            "shed": self.shed.count,
            "held": self.buffered,
            "slack": self.watermark.slack,
        }
        if self.keys is not None:
            out |= {"keys": len(self.keys), "key_bytes": self.keys.nbytes}
        if self.auto is not None:
            out |= {"policy": self.auto.text, "implausible": self.auto.slack.implausible}
        return out

    # Snapshots.

    def state(self) -> dict[str, Any]:
        """All that ``load`` needs: plain numbers, numpy arrays and Arrow batches, in nested dictionaries and lists."""
        return input_state.save(self)

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on where the other instance stopped. The same readers must have been registered, by name."""
        input_state.restore(self, state)
