"""Defaults of a query: implicit windows and implicit stream operators.

The rules, one function each:

1. A stream without a window is append-only, ``[ROWS UNBOUNDED]`` (marked implicit).
2. If another input of the same SELECT changes over time, the windowless stream is read as ``Rstream`` over ``[NOW]``:
   each element is judged at its own instant (``at_its_instant``). Two windowless streams in one FROM are refused.
3. A query that names no stream operator yields ``Istream`` if its relation can only grow (``grows_only``); otherwise
   its result is the relation itself, shown as signed changes (``result``).

Rule 2 is applied to each SELECT by itself. A SELECT that judges its elements yields a stream; where a set operator or
a subquery wants a relation, that stream is read back with an unbounded window (``as_relation``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from eddyline.core.window import Range, Unbounded
from eddyline.cql.scope import Context
from eddyline.expr.nodes import Call, Column, Expr, columns_of, substitute
from eddyline.plan.closing_windows import own_windows
from eddyline.plan.logical import (
    Aggregate,
    AsOfJoin,
    Distinct,
    Explode,
    Join,
    MarkJoin,
    ModelQuery,
    OuterJoin,
    Over,
    Plan,
    Project,
    Rank,
    RelationScan,
    Select,
    SetOperation,
    StreamScan,
    ToStream,
    Window,
    WithArrivals,
)
from eddyline.plan.traverse import each

StreamKind = Literal["istream", "dstream", "rstream", "wstream"]


@dataclass(frozen=True, slots=True)
class Bound:
    """A query before its defaults: a relation, the stream operator it names, and whether it judges its elements."""

    plan: Plan
    kind: StreamKind | None = None
    judged: bool = False

    @property
    def names_stream(self) -> bool:
        return self.kind is not None or self.judged


def implicit_window(stream: Plan) -> Window:
    """Rule 1."""
    return Window(stream, Unbounded(implicit=True))


def changes(p: Plan) -> bool:
    """Whether a relation can change over time: it reads a stream or a relation that carries time."""
    return any(isinstance(n, StreamScan) or (isinstance(n, RelationScan) and not n.constant) for n in each(p))


def at_its_instant(relation: Plan, stream: Plan) -> Plan:
    """Rule 2: what stands in a plan for the append-only ``relation`` of a windowless ``stream`` if it is judged.

    That is ``[NOW]`` over the stream; if the stream is a filtered one, ``[NOW]`` may as well stand below the filter.
    """
    below = relation
    while isinstance(below, Project | Select):
        below = below.input
    if isinstance(below, Window) and isinstance(below.spec, Unbounded):
        return substitute_node(relation, below, replace(below, spec=Range(0)))
    return Window(stream, Range(0))


def grows_only(p: Plan, known: dict[int, bool] | None = None) -> bool:
    """Whether a plan has only select, project, inner join, UNION, INTERSECT, DISTINCT, IN and EXISTS (not negated)
    over unbounded windows and constant relations, so that what is once in its relation stays there.

    ``known`` is what was found of the nodes below, by identity: some are read in several places.
    """
    known = {} if known is None else known
    if id(p) not in known:
        known[id(p)] = _grows_only(p, known)
    return known[id(p)]


def _grows_only(p: Plan, known: dict[int, bool]) -> bool:
    match p:
        case Window(spec=spec):
            return isinstance(spec, Unbounded)
        case RelationScan(constant=constant):
            return constant
        case Select(input=below, conjuncts=conjuncts):
            marks = frozenset(n.mark for n in each(below) if isinstance(n, MarkJoin))
            return grows_only(below, known) and all(_positive(c, marks) for c in conjuncts)
        case Project(input=below) | Distinct(input=below) | Explode(input=below):
            return grows_only(below, known)
        case Join(inputs=inputs):
            return all(grows_only(i, known) or not changes(i) for i in inputs)
        case MarkJoin(left=left, right=right):
            return grows_only(left, known) and grows_only(right, known)
        case SetOperation(kind=kind, left=left, right=right):
            return kind != "except" and grows_only(left, known) and grows_only(right, known)
        case _:
            return False


def _positive(e: Expr, marks: frozenset[str]) -> bool:
    """Whether a condition can only go from not TRUE to TRUE when its marks do: they stand under AND and OR alone."""
    if not columns_of(e) & marks or isinstance(e, Column):
        return True
    return isinstance(e, Call) and e.function in ("and", "or") and all(_positive(a, marks) for a in e.args)


def result(bound: Bound) -> Plan:
    """Rule 3, and the operator that the query names."""
    if bound.judged and bound.kind in (None, "istream"):
        return ToStream("rstream", bound.plan)
    if bound.kind is not None:
        return ToStream(bound.kind, bound.plan)
    return ToStream("istream", bound.plan) if grows_only(bound.plan) else bound.plan


def check_closing(context: Context, kind: StreamKind | None, plan: Plan, node: Any) -> None:
    """Refuse ``Wstream`` of a relation none of whose windows closes."""
    if kind == "wstream" and next(own_windows(plan), None) is None:
        message = (
            "Wstream shows each window when it closes, and no window here does: use [TUMBLE …], [HOP … EVERY …], "
            "[SESSION … GAP] or [RANGE … SLIDE …]."
        )
        raise context.error(message, node)


def as_stream(bound: Bound) -> Plan:
    """The stream on which a window over a subquery is put: the one it names or is, else its Istream."""
    if bound.kind in (None, "istream") and not bound.judged and (elements := elements_of(bound.plan)) is not None:
        return elements
    if bound.names_stream:
        return result(bound)
    return ToStream("istream", bound.plan)


def elements_of(p: Plan) -> Plan | None:
    """The stream whose elements, kept for ever, make up a relation: a stream without a window, filtered and projected.
    Its Istream is that stream again, and its elements keep their order of arrival. None for any other relation."""
    match p:
        case Window(input=stream, spec=Unbounded()):
            return stream
        case Project() | Select():
            below = elements_of(p.input)
            return None if below is None else replace(p, input=below)
        case _:
            return None


def in_order_of_arrival(stream: Plan) -> Plan:
    """A stream that is a filtered or projected one, as that: it has an order of arrival, which Istream has not."""
    match stream:
        case ToStream(kind="istream"):
            return elements_of(stream.input) or stream
        case Project() | Select():
            return replace(stream, input=in_order_of_arrival(stream.input))
        case _:
            return stream


def as_relation(bound: Bound) -> Plan:
    """The relation of a subquery in a condition or of one side of a set operator."""
    return read_back(result(bound)) if bound.names_stream else bound.plan


def read_back(stream: Plan) -> Plan:
    """A stream as an append-only relation. ``[ROWS UNBOUNDED]`` over the Istream of what only grows is that itself."""
    if isinstance(stream, ToStream) and stream.kind == "istream" and grows_only(stream.input):
        return stream.input
    if isinstance(stream, Project):
        inner = read_back(stream.input)
        if isinstance(inner, Project):
            values = dict(inner.items)
            return Project(inner.input, tuple((n, substitute(e, values)) for n, e in stream.items))
        if not isinstance(inner, Window):
            return replace(stream, input=inner)
    return implicit_window(stream)


def has_implicit_window(p: Plan) -> bool:
    """Whether a windowless stream stands somewhere in a plan."""
    return any(isinstance(n, Window) and isinstance(n.spec, Unbounded) and n.spec.implicit for n in each(p))


def substitute_node(p: Plan, old: Plan, new: Plan) -> Plan:
    """A plan in which one node (the very object) is replaced."""
    if p is old:
        return new
    match p:
        case StreamScan() | RelationScan() | ModelQuery():
            return p
        case Window() | Select() | Project() | Aggregate() | Distinct() | Explode() | Rank():
            return replace(p, input=substitute_node(p.input, old, new))
        case Over() | WithArrivals() | ToStream():
            return replace(p, input=substitute_node(p.input, old, new))
        case Join():
            return replace(p, inputs=tuple(substitute_node(i, old, new) for i in p.inputs))
        case OuterJoin() | MarkJoin() | SetOperation() | AsOfJoin():
            left, right = substitute_node(p.left, old, new), substitute_node(p.right, old, new)
            return replace(p, left=left, right=right)
