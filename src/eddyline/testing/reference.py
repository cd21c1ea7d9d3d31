"""The abstract semantics of CQL, evaluated literally: slow, obvious, and the reference for all other evaluators.

What is true at τ depends on the elements with timestamps ≤ τ and on nothing else (thesis 2.1.1). So the interpreter
walks through time one tick after another and computes, at each τ and for each node of the *logical* plan, the bag
R(τ) from scratch. It keeps no state between instants but what the definitions ask for: R(τ−1) for Istream and Dstream,
and the elements that a derived stream has already emitted.

Relations are lists of rows (tuples). They are bags: the order means nothing, except from a window upward through
selections and projections, where it is the order of (timestamp, arrival) that FIRST and LAST look at.

The pinned readings, and where they are in the code:

====================================  ==========================================================
late: ts < largest ts before − slack  ``Reference.__init__`` → ``split_late``, ``auto_slack.AutoByRow``
start and end of time                 smallest and largest on-time ts of the query's own inputs
windows                               ``reference_windows.window_rows``
everything is empty before the start  ``_before``
Istream, Dstream net per instant      ``_emit``
Rstream's and Wstream's instants      ``Reference.ticks``; rows of a session are emitted when it closes
end of time with Wstream              ``reference_windows.last_close``
elements of a derived stream          ordered by time, then by row value, NULL first
====================================  ==========================================================
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from eddyline.core.time import BEGINNING, TimeKind
from eddyline.core.window import Hop, Range, Session, Slide, Until
from eddyline.plan.logical import (
    AsOfJoin,
    BoundQuery,
    Over,
    Plan,
    Project,
    RelationScan,
    Select,
    StreamScan,
    ToStream,
    Window,
    WithArrivals,
    children,
    is_stream,
)
from eddyline.plan.traverse import walk
from eddyline.testing.auto_slack import AutoByRow
from eddyline.testing.reference_windows import Timed, closing_sessions, last_close, window_rows
from eddyline.testing.relational import apply, as_of_join, holds, named, over, project
from eddyline.testing.values import Row, bag_difference, canonical, instant, row_key, ticks

Element = tuple[int | None, Mapping[str, Any]]  # (timestamp in ticks, row by source column)


class ResultRow(NamedTuple):
    """A row of the answer; ``sign`` is None where the answer is a stream."""

    time: int
    values: Row
    sign: int | None


@dataclass(frozen=True, slots=True)
class StreamData:
    """The elements of a stream in order of arrival."""

    elements: Sequence[Element]
    slack: int = 0
    auto: str | None = None  # the policy of SLACK AUTO: 'auto(target=99)'; None: the slack is fixed
    unique: tuple[str, ...] = ()  # columns in which no two elements agree: who does is invalid
    within: int | None = None  # … that are at most so many ticks apart


@dataclass(frozen=True, slots=True)
class RelationData:
    """The rows of a relation in order of arrival; ``timestamp``, ``key`` and ``sign`` as in its declaration."""

    rows: Sequence[Mapping[str, Any]]
    timestamp: str | None = None
    key: tuple[str, ...] = ()
    sign: str | None = None

    def elements(self) -> list[Element]:
        """The rows with their times; those of a constant relation were there before time began."""
        if self.timestamp is None:
            return [(BEGINNING, row) for row in self.rows]
        stamps = [row[self.timestamp] for row in self.rows]
        return [(None if t is None else ticks(t), row) for t, row in zip(stamps, self.rows, strict=True)]

    def change(self, held: list[Mapping[str, Any]], row: Mapping[str, Any]) -> bool:
        """What one element does to the rows that are there; False if it is invalid and does nothing.

        With a key it replaces; with a sign − deletes the oldest row that is equal but for time and sign.
        """
        sign = 1 if self.sign is None else {1: 1, -1: -1, "+": 1, "-": -1}.get(row[self.sign], 0)
        identity = self.key or tuple(c for c in row if c not in (self.timestamp, self.sign))
        same = [h for h in held if all((canonical(h[c]),) == (canonical(row[c]),) for c in identity)]
        if sign == 0 or (sign < 0 and not same):
            return False
        if same and (sign < 0 or self.key):
            held.remove(same[0])
        if sign > 0:
            held.append(row)
        return True


class Reference:
    """``Reference(query, streams, relations).run()`` is the answer; ``late`` and ``invalid`` what was not processed.

    >>> import pyarrow as pa
    >>> from eddyline.core.schema import Field, Schema
    >>> from eddyline.core.time import TimeKind
    >>> scan = StreamScan("S", "S", Schema((Field("S.a", pa.int64()),)), ("a",))
    >>> query = BoundQuery(None, ToStream("dstream", Window(scan, Range(2))), TimeKind.INTEGER, "")
    >>> Reference(query, {"S": [(0, {"a": 7}), (5, {"a": 8})]}).run()
    [ResultRow(time=3, values=(7,), sign=None)]
    """

    def __init__(
        self,
        query: BoundQuery,
        streams: Mapping[str, StreamData | Sequence[Element]],
        relations: Mapping[str, RelationData | Sequence[Mapping[str, Any]]] | None = None,
        *,
        every_tick: bool | None = None,
    ) -> None:
        self.query = query
        self.late: dict[str, list[Element]] = {}
        self.invalid: dict[str, list[Element]] = {}
        self._elements: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
        self._relations: dict[str, tuple[RelationData, list[tuple[int, Mapping[str, Any]]]]] = {}
        read = {n.stream.lower() for n in walk(query.plan) if isinstance(n, StreamScan)}
        shown_by_streams: set[int] = set()
        for name, data in streams.items():
            if name.lower() in read:
                given = data if isinstance(data, StreamData) else StreamData(data)
                if given.auto is None:
                    split = split_late(given.elements, given.slack)
                else:
                    split = AutoByRow(given.auto).split(given.elements)
                on_time, self.late[name], self.invalid[name] = split
                self._elements[name.lower()], repeated = split_repeated(on_time, given.unique, given.within)
                self.invalid[name] += repeated
                shown_by_streams |= {ts for ts, _ in on_time}  # a duplicate shows its time, but is no element
        shown: dict[str, set[int]] = {}
        for name, rows in (relations or {}).items():
            relation = rows if isinstance(rows, RelationData) else RelationData(rows)
            on_time, self.late[name], self.invalid[name] = split_late(relation.elements(), 0)
            held: list[Mapping[str, Any]] = []
            effective: list[tuple[int, Mapping[str, Any]]] = []
            for e in on_time:  # a deletion of what is not there shows its time, but is no element
                (effective if relation.change(held, e[1]) else self.invalid[name]).append(e)
            self._relations[name.lower()] = relation, effective
            shown[name.lower()] = {ts for ts, _ in on_time}

        ticks = {ts for elements in self._elements.values() for ts, _ in elements}
        timed = {n.relation.lower() for n in walk(query.plan) if isinstance(n, RelationScan) and not n.constant}
        ticks = ticks.union(*({ts for ts, _ in self._relations[n][1]} for n in timed))
        times = ticks.union(shown_by_streams, *(shown[n] for n in timed))
        if not read and not timed:
            times = {0}  # over constant relations only there is one instant, and no element
        self.start, self.end = (min(times), max(times)) if times else (0, -1)
        if times:
            shown_windows = [n for n in walk(query.plan) if isinstance(n, ToStream) and n.kind == "wstream"]
            self.end = max([self.end, *(last_close(n.input, self.end) for n in shown_windows)])
        self.ticks = ticks | self._slide_instants()  # where Rstream emits rows
        if every_tick is None:
            every_tick = self.end - self.start <= 2_000
        # Skipping is a convenience for time in microseconds: between two instants of ``changes`` no relation changes.
        changes = self._changes(query.plan) | self.ticks | {self.start}
        self.instants: Sequence[int] = (
            range(self.start, self.end + 1) if every_tick else sorted(t for t in changes if self.start <= t <= self.end)
        )
        self._memo: dict[tuple[int, int], list[Row]] = {}
        self._emitted: dict[int, list[Timed]] = {}
        self._last: dict[int, tuple[list[list[Row]], list[Row]]] = {}

    def run(self) -> list[ResultRow]:
        plan = self.query.plan
        answer: list[ResultRow] = []
        for position, now in enumerate(self.instants):
            if is_stream(plan):
                rows = [row for ts, row in self._stream(plan, position) if ts == now]
                answer += (ResultRow(now, row, None) for row in sorted(rows, key=row_key))
            else:
                before, after = self._before(plan, position), self.relation(plan, position)
                answer += (ResultRow(now, row, -1) for row in bag_difference(before, after))
                answer += (ResultRow(now, row, 1) for row in bag_difference(after, before))
        return answer

    def at(self, instant: int) -> list[Row]:
        """R(τ) of the query (below its relation-to-stream operator, if it has one), in row order."""
        plan = self.query.plan
        while is_stream(plan) and not isinstance(plan, StreamScan):
            plan = children(plan)[0]
        position = max((i for i, t in enumerate(self.instants) if t <= instant), default=-1)
        for earlier in range(position):  # derived streams remember what they emitted
            self.relation(plan, earlier)
        return sorted(self.relation(plan, position), key=row_key) if position >= 0 else []

    # Stream-typed nodes: all elements up to an instant.

    def _stream(self, node: Plan, position: int) -> list[Timed]:
        now = self.instants[position]
        match node:
            case StreamScan():
                elements = self._elements.get(node.stream.lower(), [])
                return [(ts, tuple(canonical(row[c]) for c in node.columns)) for ts, row in elements if ts <= now]
            case ToStream():
                emitted = self._emitted.setdefault(id(node), [])
                done = emitted[-1][0] if emitted else None
                if done is None or done < now:
                    emitted += [(now, row) for row in self._emit(node, position)]
                return emitted
            case AsOfJoin():
                left, right = (self._stream(p, position) for p in (node.left, node.right))
                return [e for e in as_of_join(node, left, right) if e[0] <= now]
            case Over():
                return over(node, self._stream(node.input, position))
            case WithArrivals():
                below = self._stream(node.input, position)
                return [(ts, (*row, ts, number)) for number, (ts, row) in enumerate(below)]
            case Project():
                names = node.input.schema.names
                return [(ts, project(node, names, row)) for ts, row in self._stream(node.input, position)]
            case Select():
                names = node.schema.names
                return [e for e in self._stream(node.input, position) if holds(node.conjuncts, named(names, e[1]))]
            case _:
                raise TypeError(f"{type(node).__name__} is not a stream")

    def _emit(self, node: ToStream, position: int) -> list[Row]:
        after = self.relation(node.input, position)
        match node.kind:
            case "istream":
                return bag_difference(after, self._before(node.input, position))
            case "dstream":
                return bag_difference(self._before(node.input, position), after)
            case "rstream":
                speaks = self.instants[position] in self.ticks or self._session_closes(walk(node.input), position)
                return sorted(after, key=row_key) if speaks else []
            case "wstream":
                return sorted(after, key=row_key) if self._window_closes(node.input, position) else []

    def _session_closes(self, nodes: Iterable[Plan], position: int) -> bool:
        """Whether a session ends at this instant: it is in the relation of its window then, and at no other time."""
        sessions = [n for n in nodes if isinstance(n, Window) and isinstance(n.spec, Session)]
        return any(self.relation(n, position) for n in sessions)

    def _window_closes(self, node: Plan, position: int) -> bool:
        """Whether one of the relation's own windows closes: not one of a stream that it puts a window on."""
        windows = list(_own_windows(node))
        now = self.instants[position]
        for w in windows:
            match w.spec:
                case Slide(_, slide):
                    if now % slide == 0:
                        return True
                case Hop(_, slide, offset):
                    if (now - offset) % slide == 0:
                        return True
        return self._session_closes(windows, position)

    # Relation-typed nodes: the bag at an instant.

    def _before(self, node: Plan, position: int) -> list[Row]:
        """R(τ−1); before the start of time every relation is empty."""
        return self.relation(node, position - 1) if position > 0 else []

    def relation(self, node: Plan, position: int) -> list[Row]:
        """R(τ) of a relation-typed node, τ being the instant at that position."""
        key = (id(node), position)
        if key not in self._memo:
            self._memo[key] = self._relation(node, position)
        return self._memo[key]

    def _relation(self, node: Plan, position: int) -> list[Row]:
        now = self.instants[position]
        match node:
            case Window():
                elements = self._stream(node.input, position)
                rows = window_rows(node.spec, node.input.schema.names, elements, now)
                return self._with_columns(node, rows, elements, now) if node.columns else rows
            case RelationScan():
                return self._scan(node, now)
            case _:
                # A relation-to-relation operator is a function of R(τ) alone: equal inputs, equal output.
                inputs = [self.relation(child, position) for child in children(node)]
                last = self._last.get(id(node))
                if last is None or last[0] != inputs:
                    self._last[id(node)] = last = (inputs, apply(node, inputs))
                return last[1]

    def _with_columns(self, node: Window, rows: list[Row], elements: list[Timed], now: int) -> list[Row]:
        """Each row with the start and the end of the window that it is in."""
        match node.spec:
            case Session(gap, columns):
                closing = closing_sessions(gap, columns, node.input.schema.names, elements, now)
                edges = [(start, now) for _, start in closing]
            case Slide(width, slide):
                edges = [(now // slide * slide - width, now // slide * slide)] * len(rows)
            case Hop(width, slide, offset):
                end = (now - offset) // slide * slide + offset
                edges = [(end - width, end)] * len(rows)
            case _:
                raise TypeError(f"{node.spec} has no start and no end")
        stamp = self.query.time_kind is TimeKind.TIMESTAMP
        wanted = [0 if c.edge == "start" else 1 for c in node.columns]
        return [
            (*row, *(instant(edge[i]) if stamp else edge[i] for i in wanted))
            for row, edge in zip(rows, edges, strict=True)
        ]

    def _scan(self, node: RelationScan, now: int) -> list[Row]:
        """The rows that are there at τ: insertions, less deletions, one row for each value of the key."""
        relation, elements = self._relations[node.relation.lower()]
        held: list[Mapping[str, Any]] = []
        for ts, row in elements:
            if ts <= now:
                relation.change(held, row)
        return [tuple(canonical(row[c]) for c in node.columns) for row in held]

    # Instants.

    def _slide_instants(self) -> set[int]:
        specs = [n.spec for n in walk(self.query.plan) if isinstance(n, Window)]
        steps = {(s.slide, 0) for s in specs if isinstance(s, Slide)}
        steps |= {(s.slide, s.offset) for s in specs if isinstance(s, Hop)}
        return {
            t
            for slide, offset in steps
            for t in range(-(-(self.start - offset) // slide) * slide + offset, self.end + 1, slide)
        }

    def _changes(self, node: Plan) -> set[int]:
        """A superset of the instants at which a node changes or emits, for skipping over those where nothing does."""
        match node:
            case StreamScan():
                return {ts for ts, _ in self._elements.get(node.stream.lower(), [])}
            case ToStream(kind="rstream"):
                return self._changes(node.input) | self.ticks
            case AsOfJoin():
                both = self._changes(node.left) | self._changes(node.right)
                return both if node.within is None else both | {t + node.within + 1 for t in both}
            case Window(spec=Range(width)):
                arrivals = self._changes(node.input)
                return arrivals | {t + width + 1 for t in arrivals}
            case Window(spec=Slide() | Hop()):
                return self.ticks | self._changes(node.input)  # a stream below is asked for at its own instants
            case Window(spec=Session(gap)):
                arrivals = self._changes(node.input)
                return arrivals | {t + gap + d for t in arrivals for d in (0, 1)}
            case Window(spec=Until(column)):
                return self._changes(node.input) | self._expiries(node.input, column)
            case _:
                return self.ticks.union(*(self._changes(c) for c in children(node)))

    def _expiries(self, node: Plan, column: str) -> set[int]:
        """Superset: all times in columns of the inputs (a derived stream may have renamed them)."""
        values = [v for elements in self._elements.values() for _, row in elements for v in row.values()]
        values += [v for _, elements in self._relations.values() for _, row in elements for v in row.values()]
        times = [ticks(v) for v in values if isinstance(v, int | dt.datetime) and not isinstance(v, bool)]
        return {t + 1 for t in times}


def _own_windows(node: Plan) -> Iterator[Window]:
    if isinstance(node, Window):
        yield node
    else:
        for child in children(node):
            yield from _own_windows(child)


def split_late(elements: Iterable[Element], slack: int) -> tuple[list[tuple[int, Any]], list[Element], list[Element]]:
    """(on time in order of (ts, arrival), late, invalid).

    >>> split_late([(5, "a"), (3, "b"), (2, "c"), (None, "d"), (5, "e")], slack=2)
    ([(3, 'b'), (5, 'a'), (5, 'e')], [(2, 'c')], [(None, 'd')])
    """
    on_time: list[tuple[int, Any]] = []
    late: list[Element] = []
    invalid: list[Element] = []
    largest: int | None = None
    for ts, row in elements:
        if ts is None:
            invalid.append((ts, row))
        elif largest is not None and ts < largest - slack:
            late.append((ts, row))
        else:
            on_time.append((ts, row))
            largest = ts if largest is None else max(largest, ts)
    return sorted(on_time, key=lambda e: e[0]), late, invalid


def split_repeated(
    elements: Sequence[tuple[int, Any]], unique: Sequence[str], within: int | None = None
) -> tuple[list[tuple[int, Any]], list[Element]]:
    """(elements, those that repeat the key of one before), of elements in order of (ts, arrival).

    >>> split_repeated([(1, {"k": 7}), (2, {"k": 7}), (9, {"k": 7}), (9, {"k": None}), (9, {"k": None})], ["k"], 5)
    ([(1, {'k': 7}), (9, {'k': 7}), (9, {'k': None}), (9, {'k': None})], [(2, {'k': 7})])
    """
    kept: list[tuple[int, Any]] = []
    repeated: list[Element] = []
    for ts, row in elements:
        key = [row[c] for c in unique]
        near = [other for at, other in kept if within is None or ts - at <= within]
        same = any([canonical(other[c]) for c in unique] == [canonical(v) for v in key] for other in near)
        (repeated if unique and None not in key and same else kept).append((ts, row))
    return kept, repeated
