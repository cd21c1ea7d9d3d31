"""One shard: an inline session that gets packed rows, and the progress of the streams in all shards.

Three rules make a shard's answer its exact share of the whole answer:

- *Progress is global.* Every flush of a map task gives every shard the smallest and largest timestamp behind it, so all
  shards close the same instants, start time at the same instant and end it at the same one, whatever rows they got.
- *A micro-batch is one arrival.* Late means ts < (largest timestamp of earlier micro-batches) − slack; within the
  micro-batch rows are put in order of time first. As long as the first instant of all is open nothing is late: of what
  other shards got only the smallest time is known, so the row that has it must count. Equal timestamps are ordered by
  the position in the source where it has one, else by value with NULL first; only where the plan depends on that
  order.
- *Copies are silent.* Where a lane is copied along a dimension only the copy at coordinate 0 reports late and invalid
  rows, and of several lanes of one source only the first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.delta import Delta, combine
from eddyline.core.errors import EddylineError
from eddyline.core.time import BEGINNING, Clock, SystemClock
from eddyline.engine.arrivals import ticks
from eddyline.engine.input_manager import InputStream
from eddyline.engine.learned import Learned, fingerprint
from eddyline.engine.query import Query
from eddyline.engine.relation_changes import TimedRelation
from eddyline.engine.row_places import place_of
from eddyline.engine.row_warnings import LeftOut
from eddyline.engine.session import Session
from eddyline.engine.side_output import Diverted, SideOutput
from eddyline.operators.panes import Panes
from eddyline.plan.logical import StreamScan
from eddyline.plan.partitioning import Lane
from eddyline.spark import steering
from eddyline.spark.batch_rows import BatchRows
from eddyline.spark.letters import STEERING, Letter
from eddyline.spark.packing import (
    ARRIVAL,
    ARRIVED,
    DISORDER,
    MALFORMED,
    MALFORMED_SCHEMA,
    NOTHING,
    PANES,
    ROWS,
    TIMES,
    Route,
    unpack,
)
from eddyline.spark.panes import pane_schema
from eddyline.spark.program import Group
from eddyline.spark.time_counts import TimeCounts

DECISIONS_SENT = 32  # of a query with each micro-batch: the last ones
ROWS_SENT = 100  # late or invalid rows that a shard sends with each micro-batch, at most; counts are exact

Packed = tuple[int, int, int | None, int | None, int, bool, bytes | None]  # lane, kind, low, high, rows, ended, blob


class BatchClock(SystemClock):
    """Stands at the time of the micro-batch. All shards must agree on which streams are idle by now, and a micro-batch
    that is run again must find the same."""

    at: int | None = None  # µs; None: the wall clock

    def now(self) -> int:
        return super().now() if self.at is None else self.at


class Reporting(SideOutput):
    """What is turned away, with the columns of the user alone: without the hidden position."""

    def add(self, part: Diverted) -> None:
        if ARRIVAL in part.rows.schema.names:
            part = replace(part, rows=part.rows.drop_columns([ARRIVAL]))
        super().add(part)


class Muted(SideOutput):
    """Of a copy that does not report."""

    def add(self, part: Diverted) -> None:
        pass


@dataclass(slots=True)
class _Delivery:
    """What one micro-batch brings on one lane."""

    blobs: dict[int, list[bytes]] = field(default_factory=lambda: {ROWS: [], MALFORMED: []})  # by kind
    panes: list[tuple[bytes, int]] = field(default_factory=list)
    times: list[TimeCounts] = field(default_factory=list)
    low: int | None = None
    high: int | None = None
    ended: bool = False
    heard: bool = False  # rows came, here or in another shard

    def add(self, kind: int, low: int | None, high: int | None, ended: bool, blob: bytes | None) -> None:
        if kind == PANES:
            assert blob is not None
            assert low is not None
            self.panes.append((blob, low))
            return
        if kind == TIMES:
            assert blob is not None
            self.times += TimeCounts.unpack(np.frombuffer(blob, np.int64))
            return
        self.heard = self.heard or kind == ROWS
        self.ended = self.ended or ended
        if blob is not None:
            self.blobs[kind].append(blob)
        if low is not None and high is not None:
            self.low = low if self.low is None else min(self.low, low)
            self.high = high if self.high is None else max(self.high, high)


class ShardEngine:
    """The queries of one group over the rows of one shard."""

    def __init__(self, group: Group, shard: int, clock: Clock | None = None) -> None:
        self.group, self.shard = group, shard
        self.clock = clock or BatchClock()
        self.arrived = dict.fromkeys((lane.source for lane in group.lanes), 0)
        self.disorder: dict[str, tuple[int, int]] = {}  # by source: rows out of order, and how far back
        self.handed_in = 0  # panes that came in place of rows
        self.turned_away: list[tuple[str, Diverted]] = []  # in this micro-batch: 'late' or 'invalid'
        self.refused: list[str] = []  # in this micro-batch: what could not be steered here
        self.session = Session(clock=self.clock, strict=group.strict)
        self.session.learned = Learned(known=group.learned)
        self.session.adopt(group.catalog, {lane.name: self._constant(lane) for lane in group.constants})
        self.schemas = [group.schema(lane) for lane in group.lanes]
        self.streams = [self.session.inputs[lane.name.lower()] for lane in group.lanes]
        sources = [lane.source for lane in group.lanes]
        for number, (lane, stream) in enumerate(zip(group.lanes, self.streams, strict=True)):
            reports = self._reports(lane) and sources.index(lane.source) == number
            self._tap(stream, reports)
            if (policy := getattr(stream.definition, "auto", None)) is not None:
                auto = BatchRows(policy, stream.definition.time_kind, stream.watermark, lane.source)
                stream.auto, auto.reports = auto, reports
        self.queries = [self.session.register_planned(p) for p in group.planned]
        for number, (lane, stream) in enumerate(zip(group.lanes, self.streams, strict=True)):
            if stream.auto is not None and (shard or sources.index(lane.source) != number):
                stream.logs = []  # all shards decide alike, and the first one says so
        declared = {lane.name: lane.source for lane in (*group.lanes, *group.constants)}
        for q in self.queries:
            q.running.declared_as(declared)
            q.running.context.log.belongs_to(q.name, shard)
            q.running.context.locate = self._locate
            q.running.invalid.keep = 0
            q.running.invalid.subscribers.append(self._collector("invalid"))
        self.panes = [n for n, lane in enumerate(group.lanes) if lane.name in group.panes]  # lanes that bring panes

    def _locate(self, source: str, values: Mapping[str, Any], time: int) -> str | None:
        """A file that this machine does not have is not found, and then the message has no place."""
        file = self.group.files.get(source.lower())
        stamps = [self.group.timestamp(lane) for lane in self.group.lanes if lane.source == source]
        return None if file is None else place_of(file, stamps[0], values, time)

    def panes_of(self, lane: Lane) -> Panes:
        """The operator that makes panes of a lane's elements, and takes those that were made before: the one that runs
        now, for operators are built anew when state is loaded."""
        nodes, name = self.queries[0].running.physical.nodes, lane.name.lower()
        mine = {i for i, n in enumerate(nodes) if isinstance(n.scan, StreamScan) and n.scan.stream.lower() == name}
        above = [n.operator for n in nodes if mine.intersection(n.inputs)]
        assert len(above) == 1, f"{lane.name} is read by {len(above)} operators"
        assert isinstance(above[0], Panes)
        return above[0]

    def _coordinates(self) -> list[int]:
        left, out = self.shard, []
        for share in reversed(self.group.shares):
            out.append(left % share)
            left //= share
        return out[::-1]

    def _reports(self, lane: Lane) -> bool:
        return all(c == 0 for c, column in zip(self._coordinates(), lane.split, strict=True) if column is None)

    def _tap(self, stream: InputStream, reports: bool) -> None:
        for which in ("late", "invalid"):
            output = Reporting(keep=0) if reports else Muted(keep=0)
            if reports:
                output.subscribers.append(self._collector(which))
            setattr(stream, which, output)
        if isinstance(stream, TimedRelation):
            stream.changes.invalid = stream.invalid
            stream.changes.ignore(ARRIVAL)  # a deletion has another position than the row that it deletes

    def _collector(self, which: str) -> Any:
        return lambda part: self.turned_away.append((which, part))

    def _constant(self, lane: Lane) -> pa.Table:
        """The part of a constant relation that falls to this shard."""
        with pa.ipc.open_stream(self.group.tables[lane.source]) as reader:
            table = reader.read_all().combine_chunks()
        shares = self.group.shares
        route = Route(0, 0, table.schema, lane.split, shares)
        if not any(column is not None for column in lane.split):
            return table
        kept = []
        for batch in table.to_batches():
            mine = np.zeros(batch.num_rows, np.bool_)
            own = route.own(batch).astype(np.int64)
            for step in route.copies():
                mine |= own + step == self.shard
            kept.append(batch.filter(pa.array(mine)))
        return pa.Table.from_batches(kept, table.schema)

    # ── running ───────────────────────────────────────────────────────────────────────────────────────────────────

    def process(self, rows: Iterable[Packed], ended: bool = False) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Take in one micro-batch and give the results that it completes, each with the number of its query.

        ``ended``: the inputs are finite and this is all of them."""
        self.turned_away, self.refused = [], []
        deliveries = [_Delivery() for _ in self.streams]
        letters: list[Letter] = []
        for lane, kind, low, high, count, end, blob in rows:
            if lane == STEERING and blob is not None:
                letters += json.loads(blob)
            if lane in (NOTHING, STEERING):
                continue
            source = self.group.lanes[lane].source
            if kind == DISORDER:
                rows_before, back = self.disorder.get(source, (0, 0))
                self.disorder[source] = (rows_before + (low or 0), max(back, high or 0))
                continue
            deliveries[lane].add(kind, low, high, end, blob)
            self.arrived[source] += count
        steering.apply(letters, self.shard, self.queries, self.refused)
        started = self._started
        for number, (stream, delivery) in enumerate(zip(self.streams, deliveries, strict=True)):
            before = stream.shown_bound if started else BEGINNING
            self._deliver(number, delivery, started)
            if ended or delivery.ended:
                if isinstance(stream.auto, BatchRows):
                    stream.auto.ending = True
                stream.finish()
            else:
                stream.tick()
            if isinstance(stream.auto, BatchRows) and (taken := stream.auto.slack.taken()) is not None:
                _came(stream, *taken, before)
        self.session.advance()
        if letters:
            lanes: dict[str, list[str]] = {}
            for lane_of in self.group.lanes:
                lanes.setdefault(lane_of.source.lower(), []).append(lane_of.name)
            steering.apply_to_streams(letters, self.session, lanes)
        for number, q in enumerate(self.queries):
            for batch in q.fetch():
                yield number, batch

    @property
    def _started(self) -> bool:
        return self.queries[0].running.line.start is not None

    def bound(self, lane: int) -> int:
        """Elements of a lane that are before this are late, in the next micro-batch."""
        return self.streams[lane].late_before if self._started else BEGINNING

    def _deliver(self, lane: int, delivery: _Delivery, started: bool) -> None:
        stream = self.streams[lane]
        before = stream.shown_bound if started else BEGINNING
        stream.takes_late = not started
        if isinstance(stream.auto, BatchRows):
            stream.takes_late, stream.auto.takes_late = False, not started
            if delivery.times:
                stream.auto.begin(delivery.times)
        if delivery.panes:
            self._hand_in(lane, delivery.panes)
        if delivery.blobs[ROWS]:
            batches = [unpack(b, self.schemas[lane]) for b in delivery.blobs[ROWS]]
            stream.accept(in_order(batches, str(stream.definition.timestamp), self.group.ordered))
        for blob in delivery.blobs[MALFORMED]:
            bad = unpack(blob, MALFORMED_SCHEMA)
            stream.reject(bad.column(0).to_pylist(), bad.column(1).to_pylist())
        if delivery.heard:
            stream.active_at, stream.idle = self.clock.now(), False
        low, high = delivery.low, delivery.high
        if low is None or high is None:
            return
        stream.heartbeat(high)
        if not isinstance(stream.auto, BatchRows):  # where it is known what is believed when all was judged
            _came(stream, low, high, before)

    def _hand_in(self, lane: int, panes: Sequence[tuple[bytes, int]]) -> None:
        """Panes that were made where rows were read, each blob with the smallest time of an element in it."""
        if any(low < self.bound(lane) for _, low in panes):
            raise EddylineError(
                f"{self.group.lanes[lane].source!r} did not return the same rows when a micro-batch was run again, and"
                " what is late depends on them: start the query again, from a source that can be replayed."
            )
        operator = self.panes_of(self.group.lanes[lane])
        schema = pane_schema(self.group.panes[self.group.lanes[lane].name])
        made = []
        for blob, _ in panes:
            time, *columns = unpack(blob, schema).columns
            at = time.to_numpy(zero_copy_only=False).copy()
            made.append(Delta(at, dict(zip(operator.schema.names, columns, strict=True))))
            self.handed_in += len(at)
        operator.hand_in(Delta.merge(made))

    def next_idle(self) -> int | None:
        """The wall-clock time (µs) at which the next stream falls idle if it stays silent; None: no stream can."""
        waiting = [s.idle_at for s in self.streams if not (s.idle or s.finished)]
        return min((t for t in waiting if t is not None), default=None)

    # ── state ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def state(self) -> dict[str, Any]:
        return {
            "session": self.session.state(),
            "arrived": dict(self.arrived),
            "disorder": {name: list(found) for name, found in self.disorder.items()},
            "handed_in": self.handed_in,
            "spoke": [s.active_at for s in self.streams],
        }

    def load(self, state: Mapping[str, Any]) -> None:
        self.session.load(state["session"])
        self.arrived = dict(state["arrived"])
        self.disorder = {name: (rows, back) for name, (rows, back) in state.get("disorder", {}).items()}
        self.handed_in = state.get("handed_in", 0)
        # Unlike a session that was stopped, a shard that moved to another worker has been listening all the time.
        for stream, spoke in zip(self.streams, state["spoke"], strict=True):
            stream.active_at = spoke

    # ── statistics ────────────────────────────────────────────────────────────────────────────────────────────────

    def statistics(self) -> dict[str, Any]:
        """Totals of this shard since the start, as plain data."""
        return {
            "shard": self.shard,
            "arrived": self.arrived,
            "panes": self.handed_in,
            "left_out": self._left_out(),
            **({"refused": list(self.refused)} if self.refused else {}),
            "queries": [
                {
                    **query_report(q),
                    "reached": q.running.reached,
                    "late": sum(s.late.count for s in q.running.inputs.values()),
                    "failed": q.running.invalid.count,
                }
                for q in self.queries
            ],
            "turned_away": [
                {"which": which, "stream": part.stream, **row}
                for which, part in self.turned_away
                for row in _shown(part)
            ][:ROWS_SENT],
        }

    def _left_out(self) -> dict[str, dict[str, Any]]:
        """What was turned away of each source so far; copies count nothing."""
        found: dict[str, dict[str, Any]] = {}
        for lane, stream in zip(self.group.lanes, self.streams, strict=True):
            left_out = LeftOut.of(stream)
            one = {**asdict(left_out), "kind": left_out.kind.value, "slack": stream.widths["slack"]}
            one["implausible"] = 0 if stream.auto is None else stream.auto.slack.implausible
            if lane.source in found:
                first = found[lane.source]
                counts = {n: first[n] + one[n] for n in ("late", "invalid")}
                one = {**first, **counts, "reason": first["reason"] or one["reason"]}
            rows, back = self.disorder.get(lane.source, (0, 0))
            one = {**one, "disordered": rows, "back": back}
            hidden = {"column": None} if one["column"] == ARRIVED else {}
            found[lane.source] = {**one, "name": lane.source, **hidden}
        return found


def _came(stream: InputStream, low: int, high: int, before: int) -> None:
    """Elements with these times have come, here or in another shard; what is smaller than ``before`` is late."""
    if high >= before:
        stream.last_time = high if stream.last_time is None else max(stream.last_time, high)
    if low >= before:  # otherwise time has begun, and what is on time comes after its start
        stream.saw(low)


def query_report(query: Query) -> dict[str, Any]:
    """The report of a query: the part that is sent with every micro-batch."""
    report = query.report()
    planned = [d for d in report["decisions"] if d["time"] is None]
    made = [d for d in report["decisions"] if d["time"] is not None]
    return {**report, "decisions": [*planned, *made[-DECISIONS_SENT:]], "fingerprint": fingerprint(query.running)}


def _shown(part: Diverted) -> list[dict[str, Any]]:
    first = Diverted(part.stream, part.rows.slice(0, ROWS_SENT), part.at[:ROWS_SENT], part.reason.slice(0, ROWS_SENT))
    return [
        {"row": row, "_reason": reason, "_at": int(at)}
        for row, reason, at in zip(first.rows.to_pylist(), first.reason.to_pylist(), first.at, strict=True)
    ]


def in_order(batches: list[pa.RecordBatch], timestamp: str, ties: bool) -> pa.RecordBatch:
    """The rows of one micro-batch by time; ``ties`` by position where rows have one, else by value, NULL first.

    >>> rows = pa.RecordBatch.from_pydict({"ts": [2, 1, 1], "a": ["p", "r", None]})
    >>> in_order([rows], "ts", ties=True).column("a").to_pylist()
    [None, 'r', 'p']
    """
    names = batches[0].schema.names
    batch = batches[0]
    if len(batches) > 1:
        columns = [combine([b.column(i) for b in batches]) for i in range(len(names))]
        batch = pa.RecordBatch.from_arrays(columns, schema=batch.schema)
    time = batch.column(timestamp)
    if time.null_count == 0:
        at = ticks(time)
        steps = np.diff(at)
        if (steps > 0).all() or (not ties and (steps >= 0).all()):
            return batch
        if not ties:
            return batch.take(pa.array(np.argsort(at, kind="stable")))
    rest = [ARRIVAL] if ARRIVAL in names else [n for n in names if n != timestamp]
    keys: dict[str, pa.Array] = {}
    for n in (timestamp, *rest):
        column = batch.column(n)
        if column.null_count:  # NULL first, also in versions of Arrow that only know NULL last
            keys[f"{n} is there"] = column.is_valid().cast(pa.int8())
        keys[n] = _sortable(column)
    order = pc.sort_indices(pa.table(keys), sort_keys=[(n, "ascending") for n in keys])
    return batch.take(order)


def _sortable(column: pa.Array) -> pa.Array:
    return column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
