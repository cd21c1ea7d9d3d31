"""Random cases on shards, as Spark runs them but in this process: packed rows, micro-batches, state in segments.

``arrive`` cuts the inputs of a case into micro-batches, ``Arrived.kept`` says which rows those keep (a micro-batch is
one arrival) and in which order, so that the reference can be asked about exactly these, and ``run`` puts them through
the shards.
"""

from __future__ import annotations

import itertools
import json
import pickle
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from eddyline.core import time as core
from eddyline.plan.traverse import streams_of
from eddyline.spark.letters import STEERING, Letter
from eddyline.spark.packing import ARRIVAL, Packer, Route
from eddyline.spark.program import Group, Program, plan_group
from eddyline.spark.shard import Packed, ShardEngine
from eddyline.spark.shard_keys import shard_of
from eddyline.spark.shard_state import Head, SegmentLog
from eddyline.spark.statistics import Account
from eddyline.testing.cases import Case
from eddyline.testing.reference import ResultRow
from eddyline.testing.values import canonical, order_key, ticks
from tests.semantics.engine import mismatch

BEGINNING, NEVER_LATE = -(1 << 60), 1 << 60


@dataclass(frozen=True, slots=True)
class Way:
    """How a case reaches its shards; none of it may matter."""

    shards: int = 1
    batches: int = 1
    seed: int = 0
    positions: bool = True  # rows bring their position in the source; otherwise ties are ordered by value
    tasks: int = 1  # map tasks that share the rows of a micro-batch
    hot: float = 1.0  # the share of engines that stay in the worker; the others are rebuilt from what was stored
    told: float = 0.5  # the share of map tasks that know what is late in their micro-batch
    options: Mapping[str, Any] = field(default_factory=dict)  # of the query


@dataclass(frozen=True, slots=True)
class Arrival:
    position: int
    time: int | None
    row: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Arrived:
    """The inputs of a case in micro-batches, by name; constant relations do not arrive."""

    case: Case
    batches: Mapping[str, Sequence[Sequence[Arrival]]]
    positions: bool
    ended: bool = True  # whether the last micro-batch brings the end of the inputs

    @property
    def count(self) -> int:
        return max((len(b) for b in self.batches.values()), default=1)

    def slack(self, name: str) -> int:
        return self.case.streams[name].slack if name in self.case.streams else 0

    def frontiers(self) -> list[int | None]:
        """After each micro-batch the largest instant that is closed, be it the end; None before time has begun: as long
        as the first instant is open, an earlier one may come."""
        found: list[int | None] = []
        shown: dict[str, int] = {}
        first = NEVER_LATE
        for i in range(self.count):
            for name, batches in self.batches.items():
                times = [a.time for a in batches[i] if a.time is not None]
                if times:
                    first = min(first, *times) if not found or found[-1] is None else first
                    shown[name] = max([*times, shown.get(name, min(times))])
            closed = min((shown[n] - self.slack(n) - 1 if n in shown else BEGINNING for n in self.batches), default=0)
            if self.ended and i == self.count - 1:
                closed = max(shown.values(), default=0)
            found.append(closed if first <= closed or not self.batches else None)
        return found

    def kept(self) -> tuple[Case, int]:
        """The case without the rows that come too late, all in the order in which the shards take them; and how many
        do. Before time has begun none does."""
        frontiers = [None, *self.frontiers()]
        keeps: dict[str, list[tuple[tuple[Any, ...], Arrival]]] = {n: [] for n in self.batches}
        largest: dict[str, int] = {}
        late = 0
        for i in range(self.count):
            for name, batches in self.batches.items():
                bound = largest.get(name, BEGINNING) - self.slack(name) if frontiers[i] is not None else BEGINNING
                for a in batches[i]:
                    if a.time is not None and a.time < bound:
                        late += 1
                        continue
                    keeps[name].append((self._order(name, i, a), a))
                    if a.time is not None:
                        largest[name] = max(largest.get(name, a.time), a.time)
        rows = {n: [a for _, a in sorted(pairs, key=lambda p: p[0])] for n, pairs in keeps.items()}
        streams = {
            n: replace(data, elements=[(a.time, a.row) for a in rows[n]], slack=NEVER_LATE) if n in rows else data
            for n, data in self.case.streams.items()
        }
        relations = {
            n: replace(data, rows=[a.row for a in rows[n]]) if n in rows else data
            for n, data in self.case.relations.items()
        }
        return replace(self.case, streams=streams, relations=relations), late

    def _order(self, name: str, batch: int, a: Arrival) -> tuple[Any, ...]:
        stamp = (0, 0) if a.time is None else (1, a.time)
        if self.positions:
            return (*stamp, a.position)
        time = "ts" if name in self.case.streams else self.case.relations[name].timestamp
        return (*stamp, batch, tuple(order_key(canonical(v)) for c, v in a.row.items() if c != time))


def arrive(case: Case, way: Way) -> Arrived:
    """The inputs of the case's query, cut at random; now and then a micro-batch brings nothing of an input."""
    return cut(case, {s.lower() for s in streams_of(case.bound().plan)}, way)


def cut(case: Case, read: Collection[str], way: Way) -> Arrived:
    rng = random.Random(f"cut/{way.seed}")
    found: dict[str, list[list[Arrival]]] = {}
    inputs: dict[str, Sequence[Any]] = {n: d.elements for n, d in case.streams.items() if n.lower() in read}
    inputs |= {n: d.elements() for n, d in case.relations.items() if d.timestamp is not None and n.lower() in read}
    for name, elements in inputs.items():
        rows = [Arrival(i, ts, row) for i, (ts, row) in enumerate(elements)]
        cuts = [0, *sorted(rng.randint(0, len(rows)) for _ in range(way.batches - 1)), len(rows)]
        found[name] = [rows[a:b] for a, b in itertools.pairwise(cuts)]
    return Arrived(case, found, way.positions)


def schema_of(case: Case, name: str) -> pa.Schema:
    return case.scale.schema() if name in case.streams else case.scale.relation_schema(name)


def to_batch(case: Case, name: str, rows: Sequence[Arrival], positioned: bool) -> pa.RecordBatch:
    schema = schema_of(case, name)
    dicts = [{**a.row, ARRIVAL: a.position} for a in rows]
    return pa.RecordBatch.from_pylist(dicts, schema.append(pa.field(ARRIVAL, pa.int64())) if positioned else schema)


def plan(case: Case, way: Way) -> Group:
    """A case as it is shipped to its shards."""

    def load(name: str) -> pa.Table:
        found = next(n for n in case.relations if n.lower() == name.lower())
        return pa.Table.from_pylist([dict(r) for r in case.relations[found].rows], case.scale.relation_schema(found))

    names = frozenset(n.lower() for n in (*case.streams, *case.relations)) if way.positions else frozenset[str]()
    bound = replace(case.bound(), options=dict(way.options))
    return plan_group([bound], case.catalog(), load, shards=way.shards, positions=names)


def pack(
    program: Program,
    arrived: Arrived,
    number: int,
    tasks: int,
    rng: random.Random,
    bounds: Mapping[int, int] | None = None,
    told: float = 0.0,
) -> Iterator[pa.RecordBatch]:
    """The packed rows of one micro-batch as map tasks make them; the last one brings the end of the input. ``bounds``
    are those of lanes that may travel as panes."""

    def bound(route: Route) -> int | None:
        return (bounds or {}).get(route.lane, core.BEGINNING) if rng.random() < told else None

    for name in program.sources():
        rows = arrived.batches[name][number]
        ended = number == arrived.count - 1
        share = [rng.randrange(tasks) for _ in rows]
        for task in range(tasks):
            part = [a for a, t in zip(rows, share, strict=True) if t == task]
            packer = Packer(program.routes(name), program.timestamp(name), bound)
            positioned = program.positioned(name)
            batches = [to_batch(arrived.case, name, piece, positioned) for piece in _pieces(part, rng)]
            yield from packer(iter(batches), ended=ended and task == 0)


def _pieces(rows: Sequence[Arrival], rng: random.Random) -> Iterator[Sequence[Arrival]]:
    cut = rng.randint(0, len(rows))
    yield rows[:cut]
    yield rows[cut:]


def unpacked(rows: pa.RecordBatch) -> Iterator[tuple[int, Packed]]:
    """Each packed row with its key, as the stateful processor reads it."""
    for r in rows.to_pylist():
        low, high = (None if r[n] is None else int(r[n]) for n in ("low", "high"))
        yield r["key"], (r["lane"], r["kind"], low, high, r["rows"], r["ended"], r["blob"])


class Memory:
    """A state store."""

    def __init__(self) -> None:
        self.top: bytes | None = None
        self.parts: dict[int, bytes] = {}

    def head(self) -> bytes | None:
        return self.top

    def set_head(self, data: bytes) -> None:
        self.top = data

    def segment(self, number: int) -> bytes:
        return self.parts[number]

    def set_segment(self, number: int, data: bytes) -> None:
        self.parts[number] = data

    def drop_segment(self, number: int) -> None:
        del self.parts[number]


@dataclass(slots=True)
class Shard:
    """An engine with what is stored of it."""

    group: Group
    number: int
    log: SegmentLog = field(default_factory=lambda: SegmentLog(Memory()))
    engine: ShardEngine | None = None
    head: Head | None = None
    bounds: Mapping[int, int] = field(default_factory=dict)  # of lanes that may travel as panes

    def step(self, rows: Sequence[Packed], stay: bool) -> tuple[list[pa.RecordBatch], str]:
        engine = self.engine
        if engine is None:
            engine = ShardEngine(self.group, self.number)
            stored = self.log.head()
            assert (stored is None) is (self.head is None)
            if stored is not None:
                engine.load(self.log.load(stored))
                self.head = stored
        found = [batch for _, batch in engine.process(rows)]
        self.head = self.log.save(engine.state(), self.head, "program")
        self.engine = engine if stay else None
        self.bounds = {lane: engine.bound(lane) for lane in engine.panes}
        return found, tagged(engine, 0, self.head.batch)


@dataclass(frozen=True, slots=True)
class Answer:
    """``batches`` are the results of each micro-batch, of all shards in order of time."""

    batches: Sequence[pa.Table]
    report: Mapping[str, Any]
    shares: tuple[int, ...]

    @property
    def table(self) -> pa.Table:
        return in_time(pa.concat_tables(self.batches))


def in_time(table: pa.Table) -> pa.Table:
    return table.sort_by([(n, "ascending") for n in ("_time", "_sign") if n in table.schema.names])


def run(arrived: Arrived, way: Way, letters: Callable[[int], Sequence[Letter]] | None = None) -> Answer:
    """The case's answer on shards; ``letters`` are what steers them, by micro-batch."""
    rng = random.Random(f"run/{way.seed}")
    case = arrived.case
    program = pickle.loads(pickle.dumps(Program((plan(case, way),))))
    (group,) = program.groups
    shards = [Shard(group, i) for i in range(group.shards)]
    account = Account()
    tables = []
    for number in range(arrived.count):
        inboxes: dict[int, list[Packed]] = {s.number: [] for s in shards}
        (known,) = {tuple(s.bounds.items()) for s in shards}  # all shards agree
        for rows in pack(program, arrived, number, way.tasks, rng, dict(known), way.told):
            for key, row in unpacked(rows):
                inboxes[shard_of(key)].append(row)
        if letters is not None and (sent := letters(number)):
            for inbox in inboxes.values():
                inbox.append((STEERING, 0, None, None, 0, False, json.dumps(list(sent)).encode()))
        found: list[pa.RecordBatch] = []
        for shard in rng.sample(shards, len(shards)):
            inbox = inboxes[shard.number]
            rng.shuffle(inbox)
            mine, statistics = shard.step(inbox, stay=rng.random() < way.hot)
            found += mine
            account.add([statistics])
        tables.append(in_time(pa.Table.from_batches(found, ShardEngine(group, 0).queries[0].schema)))
    return Answer(tables, account.report(0, 0), group.shares)


def tagged(engine: ShardEngine, group: int, batch: int = 1) -> str:
    """The statistics that a shard sends along."""
    return json.dumps({"group": group, "batch": batch, **engine.statistics()}, default=str)


def check(case: Case, way: Way) -> str | None:
    """What differs from the reference, or None: results, the micro-batch in which they come, late and invalid rows."""
    arrived = arrive(case, way)
    return compare(arrived, run(arrived, way))


@dataclass(frozen=True, slots=True)
class Expected:
    """What the reference says of the rows that are kept."""

    case: Case
    rows: Sequence[ResultRow]
    late: int
    invalid: int
    end: int  # the last instant: that of the last element, or when the last window of a Wstream closes


def expect(arrived: Arrived) -> Expected:
    kept, late = arrived.kept()
    reference = kept.reference()
    rows = reference.run()
    if not arrived.ended:
        closed = arrived.frontiers()[-1]
        rows = [] if closed is None else [r for r in rows if r.time <= closed]
    return Expected(kept, rows, late, sum(len(reference.invalid[n]) for n in arrived.batches), reference.end)


def compare(arrived: Arrived, answer: Answer, expected: Expected | None = None) -> str | None:
    """``expected`` may be known already."""
    expected = expected or expect(arrived)
    found = mismatch(expected.case, expected.rows, answer.table)
    return found or untimely(arrived, answer.batches, expected.end) or miscounted(arrived, expected, answer.report)


def untimely(arrived: Arrived, batches: Sequence[pa.Table], end: int) -> str | None:
    """A result must come with the micro-batch that closes its instant, whatever its shard got."""
    before: int | None = None
    frontiers = arrived.frontiers()
    if arrived.ended and frontiers and frontiers[-1] is not None:
        frontiers[-1] = max(frontiers[-1], end)
    for i, (closed, table) in enumerate(zip(frontiers, batches, strict=True)):
        for time in map(ticks, table.column("_time").to_pylist()):
            if closed is None or time > closed:
                return f"micro-batch {i + 1} closes {closed} and shows a result of {time}"
            if before is not None and time <= before:
                return f"micro-batch {i + 1} shows a result of {time}, which was closed before, up to {before}"
        before = closed
    return None


def miscounted(arrived: Arrived, expected: Expected, report: Mapping[str, Any]) -> str | None:
    events = sum(len(b) for batches in arrived.batches.values() for b in batches)
    want = {"events": events, "late": expected.late, "invalid": expected.invalid}
    have = {n: report[n] for n in want}
    return None if have == want else f"counted {have} instead of {want}"
