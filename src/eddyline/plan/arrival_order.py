"""The order of arrival of the rows of a relation, as columns.

A row of a join is made of elements. It arrives with the last of them. Of rows that arrive at one instant, the row with
the earlier element is first; elements are compared input by input, in the order of FROM. Both are functions of the
elements alone: no plan, batch, shard or restart changes them. What looks right and is not: the order in which a join
emits its rows, which is different for every plan.

Rows of groups, ``DISTINCT``, set operators and declared relations are not made of elements, so they have no arrival. A
row of a join of such a relation with a window arrives with the element of the window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pyarrow as pa

from eddyline.expr.nodes import Column
from eddyline.plan.logical import (
    Explode,
    Join,
    MarkJoin,
    OuterJoin,
    Plan,
    Project,
    Rank,
    Select,
    Window,
    WithArrivals,
    children,
)
from eddyline.plan.rewrite import with_children
from eddyline.plan.traverse import each


@dataclass(frozen=True, slots=True)
class Arrival:
    """Where the time and the number of one of a row's elements stand."""

    time: str
    number: str

    def columns(self) -> tuple[Column, Column]:
        return Column(self.time, pa.int64()), Column(self.number, pa.int64())


@dataclass(frozen=True, slots=True)
class Arrived:
    """A plan with the arrivals of its rows' elements as further columns, in the order of FROM. ``whole``: no two rows
    agree in all of them."""

    plan: Plan
    arrivals: tuple[Arrival, ...] = ()
    whole: bool = False


@dataclass(slots=True)
class ArrivalOrder:
    """Adds the columns of arrival to plans; ``fresh`` makes names. A part that is read in several places, which is the
    very same object, stays one."""

    fresh: Callable[[str], str]
    known: dict[int, tuple[Plan, Arrived]] = field(default_factory=dict)  # with the plan, so that no id is used again

    def of(self, p: Plan) -> Arrived:
        if id(p) not in self.known:
            self.known[id(p)] = p, self._of(p)
        return self.known[id(p)][1]

    def together(self, plan: Plan) -> Plan:
        """A plan in which other readers of a join that has its columns of arrival reads that one, without them: what
        is named once and read several times is computed once."""
        joins = {id(p): a for p, a in self.known.values() if a.arrivals and isinstance(p, Join | OuterJoin | MarkJoin)}
        done: dict[int, Plan] = {}

        def of(n: Plan) -> Plan:
            if id(n) not in done:
                found = joins.get(id(n))
                if found is None:
                    done[id(n)] = with_children(n, [of(c) for c in children(n)])
                else:
                    own = tuple((f.name, Column(f.name, f.type)) for f in n.schema)
                    done[id(n)] = Project(of(found.plan), own)
            return done[id(n)]

        return of(plan) if any(id(n) in joins for n in each(plan)) else plan

    def _of(self, p: Plan) -> Arrived:
        match p:
            case Window(input=WithArrivals(time=time, number=number)):
                return Arrived(p, (Arrival(time, number),), True)
            case Window():
                own = self._arrival()
                return Arrived(replace(p, input=WithArrivals(p.input, own.time, own.number)), (own,), True)
            case Select() | Rank():
                below = self.of(p.input)
                return replace(below, plan=replace(p, input=below.plan))
            case Explode():
                below = self.of(p.input)
                return Arrived(replace(p, input=below.plan), below.arrivals)
            case Project():
                return self._project(p)
            case Join():
                sides = [self.of(i) for i in p.inputs]
                return _both(replace(p, inputs=tuple(s.plan for s in sides)), *sides)
            case OuterJoin():
                left, right = self.of(p.left), self.of(p.right)
                return _both(replace(p, left=left.plan, right=right.plan), left, right)
            case MarkJoin():
                left = self.of(p.left)
                return replace(left, plan=replace(p, left=left.plan))
            case _:
                return Arrived(p)

    def _arrival(self) -> Arrival:
        return Arrival(self.fresh("_time"), self.fresh("_number"))

    def _project(self, p: Project) -> Arrived:
        """With names of its own: what it reads may stand on both sides of a join."""
        below = self.of(p.input)
        own = tuple(self._arrival() for _ in below.arrivals)
        pairs = zip(own, below.arrivals, strict=True)
        items = [item for new, old in pairs for item in zip((new.time, new.number), old.columns(), strict=True)]
        return replace(below, plan=Project(below.plan, (*p.items, *items)), arrivals=own)


def _both(plan: Plan, *sides: Arrived) -> Arrived:
    arrivals = tuple(a for s in sides for a in s.arrivals)
    return Arrived(plan, arrivals, all(s.whole for s in sides))


def has_arrivals(p: Plan) -> bool:
    """Whether the rows of a relation have an order of arrival: they are elements of one window."""
    match p:
        case Window():
            return True
        case Select() | Project():
            return has_arrivals(p.input)
        case _:
            return False
