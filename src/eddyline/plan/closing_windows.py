"""Windows that close: at which instants ``Wstream`` emits rows, and how far the time of its query reaches.

``Wstream`` gives its relation at each instant at which one of the relation's *own* windows closes: those that are
reached without passing another window. The windows below a window belong to the stream that it is put on.

After the last element time goes on in a query with ``Wstream`` until every window that may hold it has closed.
"""

from __future__ import annotations

from collections.abc import Iterator

from eddyline.core.window import Session, Stepping, Unbounded, closes, last_close
from eddyline.plan.logical import AsOfJoin, ModelQuery, Over, Plan, ToStream, Window, WithArrivals, children
from eddyline.plan.traverse import each

Step = tuple[int, int]  # the multiples of the first, shifted by the second


def own_windows(p: Plan) -> Iterator[Window]:
    """The windows of a relation that close."""
    stack, seen = [p], set[int]()
    while stack:
        n = stack.pop()
        if id(n) in seen:
            continue
        seen.add(id(n))
        if not isinstance(n, Window):
            stack.extend(children(n))
        elif closes(n.spec):
            yield n


def own_steps(p: Plan) -> list[Step]:
    """When the windows of a relation close that do so at regular intervals."""
    return sorted({(w.spec.slide, w.spec.offset) for w in own_windows(p) if isinstance(w.spec, Stepping)})


def own_sessions(p: Plan) -> list[Window]:
    return [w for w in own_windows(p) if isinstance(w.spec, Session)]


def goes_on(p: Plan) -> bool:
    """Whether the time of a query goes on after its last element: windows that ``Wstream`` shows are still to close, or
    segments of models reach further."""
    return any(
        (isinstance(n, ToStream) and n.kind == "wstream") or (isinstance(n, ModelQuery) and n.outlasts_its_elements)
        for n in each(p)
    )


def end_of_time(p: Plan, last: int) -> int:
    """The last instant of a query whose last element has the timestamp ``last``. Segments reach beyond it, and how far
    only they know; above them time goes on as far where no window expires with it and no stream speaks at its steps."""
    parts = list(each(p))
    if any(isinstance(n, ModelQuery) and n.outlasts_its_elements for n in parts) and not any(map(_steps, parts)):
        from eddyline.models.program import END_OF_MODELS

        return END_OF_MODELS
    known: dict[int, int] = {}  # by identity: some nodes are read in several places
    shown = [n.input for n in each(p) if isinstance(n, ToStream) and n.kind == "wstream"]
    return max((_end(n, last, known) for n in shown), default=last)


def _steps(p: Plan) -> bool:
    """Whether a node makes something of time that passes without elements."""
    match p:
        case Window(spec=spec):
            return not isinstance(spec, Unbounded)
        case ToStream(kind=kind):
            return kind in ("rstream", "wstream")
        case _:
            return isinstance(p, AsOfJoin | Over | WithArrivals)


def _end(p: Plan, last: int, known: dict[int, int]) -> int:
    if id(p) not in known:
        below = max((_end(c, last, known) for c in children(p)), default=last)
        known[id(p)] = last_close(p.spec, below) if isinstance(p, Window) else below
    return known[id(p)]
