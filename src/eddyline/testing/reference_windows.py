"""Windows of the reference: their elements at an instant, and when they close, by the definitions alone."""

from __future__ import annotations

from collections.abc import Sequence

from eddyline.core.window import Hop, PartitionRows, Range, Rows, Session, Slide, Unbounded, Until, WindowSpec
from eddyline.plan.logical import Plan, Window, children
from eddyline.testing.values import Row, ticks

Timed = tuple[int, Row]


def window_rows(spec: WindowSpec, names: Sequence[str], elements: Sequence[Timed], now: int) -> list[Row]:
    """What a window holds at an instant, of the elements up to then in order of (ts, arrival).

    >>> elements = [(1, ("a",)), (3, ("b",)), (4, ("a",)), (6, ("c",))]
    >>> window_rows(Range(2), ("x",), elements, 6)
    [('a',), ('c',)]
    >>> window_rows(Slide(4, 2), ("x",), elements[:3], 5)  # as at 4: 0 < ts ≤ 4
    [('a',), ('b',), ('a',)]
    >>> window_rows(PartitionRows(("x",), 1), ("x",), elements, 6)
    [('b',), ('a',), ('c',)]
    >>> window_rows(Hop(3, 3), ("x",), elements, 7)  # as at 6: 3 ≤ ts < 6
    [('b',), ('a',)]
    """
    match spec:
        case Unbounded():
            return [row for _, row in elements]
        case Range(width):
            return [row for ts, row in elements if now - width <= ts <= now]
        case Slide(width, slide):
            edge = now // slide * slide
            return [row for ts, row in elements if edge - width < ts <= edge]
        case Hop(width, slide, offset):
            end = (now - offset) // slide * slide + offset
            return [row for ts, row in elements if end - width <= ts < end]
        case Session(gap, columns):
            return [row for row, _ in closing_sessions(gap, columns, names, elements, now)]
        case Until(column):
            place = names.index(column)
            return [row for _, row in elements if row[place] is None or now <= ticks(row[place])]
        case Rows(count):
            return [row for _, row in elements[max(0, len(elements) - count) :]]
        case PartitionRows(columns, count):
            places = [names.index(c) for c in columns]
            rows = [row for _, row in elements]
            parts = [tuple(row[p] for p in places) for row in rows]
            return [row for i, row in enumerate(rows) if parts[i + 1 :].count(parts[i]) < count]


def closing_sessions(
    gap: int, columns: Sequence[str], names: Sequence[str], elements: Sequence[Timed], now: int
) -> list[tuple[Row, int]]:
    """The elements of the sessions that end at an instant, each with its session's start, in order of (ts, arrival).

    >>> elements = [(1, ("a",)), (2, ("b",)), (3, ("a",)), (9, ("a",))]
    >>> closing_sessions(4, ("x",), ("x",), elements, 7)
    [(('a',), 1), (('a',), 1)]
    """
    places = [names.index(c) for c in columns]
    sessions: dict[Row, list[list[int]]] = {}  # by partition: numbers of elements
    for i, (ts, row) in enumerate(elements):
        mine = sessions.setdefault(tuple(row[p] for p in places), [])
        if mine and ts - elements[mine[-1][-1]][0] < gap:
            mine[-1].append(i)
        else:
            mine.append([i])
    found = [(i, elements[s[0]][0]) for part in sessions.values() for s in part if elements[s[-1]][0] + gap == now
             for i in s]  # fmt: skip
    return [(elements[i][1], start) for i, start in sorted(found)]


def last_close(node: Plan, end: int) -> int:
    """The last instant at which a window closes that may hold an element of the last instant, found by trying."""
    end = max((last_close(c, end) for c in children(node)), default=end)
    match node:
        case Window(spec=Slide(width, slide)):
            return max([end, *(t for t in range(end - end % slide, end + width + 1, slide) if t - width < end <= t)])
        case Window(spec=Hop(width, slide, offset)):
            first = end - (end - offset) % slide
            return max([end, *(t for t in range(first, end + width + 1, slide) if t - width <= end < t)])
        case Window(spec=Session(gap)):
            return end + gap
        case _:
            return end
