"""The input manager (thesis 2.2.5): streams as they come → elements in timestamp order, each stream on its own.

For each declared stream, *in this order*:

1. **Invalid** rows (NULL timestamp, a value that is not of its declared type) are diverted; they are not elements and
   show no time.
2. **Late** means ts < (largest time shown before in this stream) − slack, row by row in order of arrival, before any
   filter. Times are shown by elements and by heartbeats. Late rows are diverted, and counted exactly.
3. The others are held until no smaller one can come on time, and handed to every reader by (timestamp, arrival).

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

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Bools, Delta, Int64s
from eddyline.core.errors import DataError, EddylineError, JobError, did_you_mean
from eddyline.core.schema import Schema
from eddyline.core.time import BEGINNING, NEVER, Clock, TimeKind
from eddyline.engine.arrivals import FARTHEST, Definition, Failures, Judge, ticks
from eddyline.engine.reorder import Chunk, ReorderBuffer, joined
from eddyline.engine.side_output import KEEP, Diverted, SideOutput


class StreamReader:
    """One query's position in a stream: sees the elements accepted after it registered, each once, in order."""

    def __init__(self, stream: InputStream, columns: tuple[str, ...], name: str, since: int) -> None:
        self.stream, self.columns, self.name = stream, columns, name
        self.since = since  # smaller arrival numbers came before this reader
        self.first_time: int | None = None  # the smallest time of an element that it sees
        self.chunks: deque[Chunk] = deque()
        self._empty = Delta.empty(Schema(tuple(stream.definition.schema[c] for c in columns)))
        self._schema: pa.Schema | None = None
        self._places: dict[str, int] | None = None  # of its columns in batches of that schema

    def take(self, frontier: int) -> Delta:
        """The elements with times ≤ ``frontier`` that were not taken before.

        The caller promises that the instants up to ``frontier`` are closed; from now on they are, for this stream.
        """
        parts = self._taken(frontier)
        return self._delta(joined(parts)) if parts else self._empty

    def take_apart(self, frontier: int, most: int) -> list[tuple[Delta, int]]:
        """The same in pieces, each with the instant up to which it is complete; the last one is ``frontier``.

        What is left over of one large batch and the next large batch are not copied together: pieces are of at most
        ``most`` elements, or came as they are. There is always one piece, be it empty.
        """
        groups: list[list[Chunk]] = []
        held = 0
        for c in self._taken(frontier):
            # An instant is never divided between two pieces.
            if groups and (held + len(c) <= most or c.time[0] == groups[-1][-1].time[-1]):
                groups[-1].append(c)
                held += len(c)
            else:
                groups.append([c])
                held = len(c)
        if not groups:
            return [(self._empty, frontier)]
        ends = [*(int(g[-1].time[-1]) for g in groups[:-1]), frontier]
        return [(self._delta(joined(g)), end) for g, end in zip(groups, ends, strict=True)]

    def _taken(self, frontier: int) -> list[Chunk]:
        self.stream.release(frontier)
        chunks = self.chunks
        parts: list[Chunk] = []
        while chunks:
            head = chunks[0]
            if head.time[-1] <= frontier:
                parts.append(chunks.popleft())
                continue
            cut = int(head.time.searchsorted(frontier, "right"))
            if cut:
                parts.append(head.slice(0, cut))
                chunks[0] = head.slice(cut, len(head))
            break
        return parts

    def _delta(self, whole: Chunk) -> Delta:
        if whole.first < self.since:
            whole = whole.filter(whole.arrivals >= self.since)
        rows = whole.rows
        if self._places is None or not rows.schema.equals(self._schema):
            self._schema, names = rows.schema, rows.schema.names
            self._places = {n: names.index(n) for n in self.columns if n in names}
        return Delta(whole.time, {n: rows.column(i) for n, i in self._places.items()}, whole.weight)

    def saw(self, low: int) -> None:
        """An element on time has come, though it may be held yet."""
        self.first_time = low if self.first_time is None else min(self.first_time, low)

    def widen(self, columns: Sequence[str]) -> None:
        """Ask for more columns; those elements that are here already must have them."""
        self.columns = tuple(columns)
        self._places = None
        self._empty = Delta.empty(Schema(tuple(self.stream.definition.schema[c] for c in columns)))
        self.stream._plan_columns()

    def __len__(self) -> int:
        """Elements released and not yet taken."""
        return sum(len(c) for c in self.chunks)

    def close(self) -> None:
        self.stream.forget(self)


class InputStream:
    """One declared stream or timed relation.

    ``columns`` are those that any reader may ask for (None: all declared); the batches must have them. ``strict``
    stops at the first invalid row instead of diverting it. ``keep`` bounds the side outputs' memory.

    >>> from eddyline.core.catalog import StreamDef
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
        keep: int = KEEP,
    ) -> None:
        self.definition = definition
        self.strict = strict
        self.late = SideOutput(keep)
        self.invalid = SideOutput(keep)
        self.arrived = 0  # rows, whatever became of them
        self.behind = 0  # how far late rows lay behind the largest time before them, at most
        self.accepted = 0  # elements on time: the next arrival number
        self.shown: int | None = None  # the largest time shown by element or heartbeat
        self.first_time: int | None = None
        self.last_time: int | None = None
        self.finished = False
        self.idle = False
        self.patient = False  # whether what is late is taken all the same; only right while no instant was closed
        self._clock = clock
        self._judge = Judge(definition)
        self._slack = 0 if definition.timestamp is None else min(getattr(definition, "slack", 0), FARTHEST)
        self._idle_after: int | None = getattr(definition, "idle", None)
        self.spoke_at = clock.now()
        self._closed = BEGINNING  # the largest instant that a reader has taken as closed
        self._buffer = ReorderBuffer()
        self._readers: list[StreamReader] = []
        self._allowed = self._known(definition.schema.names if columns is None else columns)
        self._needed: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.definition.name

    # What is closed.

    @property
    def shown_bound(self) -> int:
        """What this stream closed by its own elements and heartbeats, be it idle or finished by now."""
        return BEGINNING if self.shown is None else self.shown - self._slack

    @property
    def late_before(self) -> int:
        """What comes now with a smaller time is late. Others may have closed more than this stream has shown: while it
        was idle, or with another slack before the last start."""
        return max(self.shown_bound, self._closed + 1) if self._closed > BEGINNING else self.shown_bound

    @property
    def bound(self) -> int:
        """All instants < ``bound`` are complete; BEGINNING while nothing was shown, NEVER when finished or idle."""
        return NEVER if self.finished or self.idle else self.late_before

    def heartbeat(self, time: int) -> None:
        """Promise that no element before ``time`` − slack will come: those that do are late."""
        if not -FARTHEST <= time <= FARTHEST:
            raise EddylineError(f"a heartbeat of {self.name!r} is out of range: {time}.")
        self._speak(self._clock.now())
        self.shown = time if self.shown is None else max(self.shown, time)

    def tick(self) -> None:
        """Look at the clock: a silent stream falls idle; one that is stamped on arrival shows that time passes."""
        if self.finished:
            return
        now = self._clock.now()
        if self.definition.timestamp is None:
            self.shown = self._stamp(now)
        elif self._idle_after is not None and now - self.spoke_at >= self._idle_after:
            self.idle = True

    @property
    def idle_at(self) -> int | None:
        """The wall-clock time (µs) from which on silence makes it idle; None: never."""
        return None if self._idle_after is None else self.spoke_at + self._idle_after

    def finish(self) -> None:
        """The end of the input: nothing holds anything back any more."""
        self.finished = True

    def saw(self, low: int) -> None:
        """An element on time has come with this time, here or in another shard."""
        self.first_time = low if self.first_time is None else min(self.first_time, low)
        for r in self._readers:
            r.saw(low)

    def _speak(self, now: int) -> None:
        self.spoke_at = now
        self.idle = False

    def _stamp(self, now: int) -> int:
        stamp = now if self.definition.time_kind is not TimeKind.INTEGER else now // 1_000_000
        return stamp if self.shown is None else max(stamp, self.shown)  # a clock set back must not disorder a stream

    # What comes in.

    def accept(self, batch: pa.RecordBatch, arrival_time: int | None = None) -> None:
        """Take the next rows in order of arrival. ``arrival_time`` (µs) stands in for the clock."""
        if self.finished:
            raise EddylineError(f"{self.name!r} has ended; no more rows can be pushed to it.")
        raw = batch
        batch, failures = self._judge(batch, self._needed)
        count = batch.num_rows
        if not count:
            return  # no rows show no time: an empty poll does not end an idle interval
        now = self._clock.now() if arrival_time is None else arrival_time
        self._speak(now)
        if failures:
            batch = self._divert(raw, batch, failures)
        time = self._times(batch, now)
        if len(time):
            in_order, low, high = _extent(time)
            if low < -FARTHEST or high > FARTHEST:
                far = np.flatnonzero((time < -FARTHEST) | (time > FARTHEST)).tolist()
                reason = f"the timestamp {self.definition.timestamp!r} is out of range"
                batch = self._divert(batch, batch, dict.fromkeys(far, reason))
                time = self._times(batch, now)
                in_order, low, high = _extent(time) if len(time) else (True, 0, 0)
        self.arrived += count
        if len(time):
            self._take_in(batch, time, in_order, low, high)

    def _times(self, batch: pa.RecordBatch, now: int) -> Int64s:
        column = self.definition.timestamp
        if column is None:
            return np.full(batch.num_rows, self._stamp(now), np.int64)
        return ticks(batch.column(self._judge.position[column]))

    def _take_in(self, batch: pa.RecordBatch, time: Int64s, in_order: bool, low: int, high: int) -> None:
        threshold = BEGINNING if self.shown is None else self.shown - self._slack
        # Among rows in order, none can be late because of another; where none lies behind what was there before and
        # the disorder is within the slack, none can be late at all.
        suspect = low < threshold or low <= self._closed or not (in_order or high - low <= self._slack)
        if suspect and not self.patient:
            on_time = self._divert_late(batch, time)
            if on_time is not None:
                batch, time = batch.filter(pa.array(on_time)), time[on_time]
                if not len(time):
                    return
                in_order, low, high = _extent(time)
        self.shown = high if self.shown is None else max(self.shown, high)
        self.last_time = high if self.last_time is None else max(self.last_time, high)
        self.saw(low)
        if self._readers or self.remembers:
            chunk = Chunk(time, self._judge.select(batch, self._needed), self.accepted)
            self._buffer.add(chunk if in_order else chunk.sorted())
        self.accepted += len(time)

    def _divert_late(self, batch: pa.RecordBatch, time: Int64s) -> Bools | None:
        """Which rows are on time (None: all). ``time`` is as it arrived."""
        largest = np.empty_like(time)  # the largest time shown before each row; the first row of all is on time
        largest[0] = time[0] if self.shown is None else self.shown
        np.maximum(np.maximum.accumulate(time[:-1]), largest[0], out=largest[1:])
        behind: Bools = time < largest - self._slack
        shut: Bools = (time <= self._closed) & ~behind
        late = behind | shut
        if not late.any():
            return None
        if behind.any():
            self.behind = max(self.behind, int((largest[behind] - time[behind]).max()))
        reasons = pa.array([REASON_BEHIND, REASON_SHUT]).take(pa.array(shut[late].astype(np.int8)))
        self.late.add(Diverted(self.name, batch.filter(pa.array(late)), largest[late], reasons))
        return ~late

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
        at = np.full(len(before), BEGINNING if self.shown is None else self.shown, np.int64)
        column = self.definition.timestamp
        if column is not None and batch is not None and batch.num_rows and column in batch.schema.names:
            values = batch.column(column)
            if pa.types.is_integer(values.type) or pa.types.is_timestamp(values.type):
                time = np.full(len(values), BEGINNING, np.int64)
                time[np.asarray(values.is_valid())] = ticks(values.drop_null())
                time[np.abs(time) > FARTHEST] = BEGINNING
                shown = np.maximum.accumulate(time)
                some = before > 0
                at[some] = np.maximum(at[some], shown[before[some] - 1])
                ahead = time[time > BEGINNING]
                if len(ahead):
                    at[at == BEGINNING] = ahead[0]
        at[at == BEGINNING] = 0
        return at

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
        self._plan_columns()
        self._welcome(made)
        return made

    def _welcome(self, reader: StreamReader) -> None:
        """A reader of a stream starts with nothing."""

    def forget(self, reader: StreamReader) -> None:
        self._readers = [r for r in self._readers if r is not reader]
        self._plan_columns()
        if not (self._readers or self.remembers):
            self._buffer = ReorderBuffer()

    def _plan_columns(self) -> None:
        asked = {c for r in self._readers for c in r.columns}
        self._needed = tuple(n for n in self.definition.schema.names if n in asked)

    def _known(self, columns: Sequence[str]) -> tuple[str, ...]:
        schema = self.definition.schema
        for c in columns:
            if c not in schema:
                raise JobError(f"{self.name!r} has no column {c!r}.{did_you_mean(c, schema.names)}")
        return tuple(columns)

    def release(self, frontier: int) -> None:
        """Close the instants up to ``frontier`` and move all final elements from the buffer to the readers."""
        self._closed = max(self._closed, frontier)
        # shown_bound is exclusive and BEGINNING while nothing was shown; then nothing is held either.
        final = NEVER if self.finished else max(self.shown_bound - 1, self._closed)
        for chunk in self._buffer.release(final):
            self._deliver(chunk)

    def _deliver(self, chunk: Chunk) -> None:
        for r in self._readers:
            r.chunks.append(chunk)

    @property
    def is_read(self) -> bool:
        """Whether any query reads it."""
        return bool(self._readers)

    @property
    def buffered(self) -> int:
        """Elements held: not final yet, or not yet taken by the slowest reader."""
        return len(self._buffer) + max((len(r) for r in self._readers), default=0)

    # Snapshots.

    def state(self) -> dict[str, Any]:
        """All that ``load`` needs: plain numbers, numpy arrays and Arrow batches, in nested dictionaries and lists."""
        return {
            "version": 1,
            "numbers": {n: getattr(self, n) for n in (*_NUMBERS, "behind")},
            "held": _pack(self._buffer.chunks),
            "readers": {
                r.name: {"since": r.since, "first_time": r.first_time, "waiting": _pack(r.chunks)}
                for r in self._readers
            },
            "late": self.late.state(),
            "invalid": self.invalid.state(),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on where the other instance stopped. The same readers must have been registered, by name."""
        missing = set(state["readers"]) ^ {r.name for r in self._readers}
        if missing:
            raise EddylineError(
                f"the snapshot of {self.name!r} has other readers than now: {', '.join(sorted(missing))}."
            )
        for n in _NUMBERS:
            setattr(self, n, state["numbers"][n])
        self.behind = state["numbers"].get("behind", 0)  # earlier versions did not know it
        # Wall-clock silence is not counted while no query reads the stream.
        self.spoke_at = self._clock.now()
        self._buffer = ReorderBuffer()
        for chunk in _unpack(state["held"]):
            self._buffer.add(chunk.sorted())
        for r in self._readers:
            mine = state["readers"][r.name]
            r.since, r.first_time = mine["since"], mine["first_time"]
            r.chunks = deque(_unpack(mine["waiting"]))
        self.late.load(state["late"])
        self.invalid.load(state["invalid"])


REASON_BEHIND = "late: more than the slack behind the largest time shown before it"
REASON_SHUT = "late: its instant was closed while the stream was idle"
_NUMBERS = ("arrived", "accepted", "shown", "first_time", "last_time", "finished", "idle", "_closed")


def _extent(time: Int64s) -> tuple[bool, int, int]:
    """Whether times are in order, the smallest and the largest of them."""
    if len(time) == 1 or (time[1:] >= time[:-1]).all():
        return True, int(time[0]), int(time[-1])
    return False, int(time.min()), int(time.max())


def _pack(chunks: Iterable[Chunk]) -> dict[str, Any] | None:
    parts = list(chunks)
    if not parts:
        return None
    whole = joined(parts)
    return {"time": whole.time, "arrival": whole.arrivals, "weight": whole.weight, "rows": whole.rows}


def _unpack(packed: Mapping[str, Any] | None) -> list[Chunk]:
    if packed is None:
        return []
    arrival: Int64s = packed["arrival"]
    return [Chunk(packed["time"], packed["rows"], int(arrival.min()), arrival, packed["weight"])]
