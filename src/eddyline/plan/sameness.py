"""Sameness of sub-plans of different queries: a key of what they compute, independent of aliases and output names.

Columns are identified by their place in the input's schema, never by their name: ``SELECT p.size FROM packets p`` and
``SELECT q.size AS s FROM packets q`` have one key. Two queries that were written by different people share what they
have in common, and a query that reads the operators of the other reads their columns by place.

Nodes and fields that are not handled here are compared literally, so two plans may be judged different although they
are equal, but never the reverse.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from eddyline.core.schema import Schema
from eddyline.expr import nodes
from eddyline.expr.nodes import AggregateCall, Column, Expr, substitute
from eddyline.plan.logical import (
    Aggregate,
    MarkJoin,
    ModelQuery,
    Plan,
    Project,
    RelationScan,
    Select,
    StreamScan,
    ToStream,
    children,
)

_CHILDREN = ("input", "inputs", "left", "right")
Elements = Callable[[str], Hashable]  # which elements of an input are read, by its name


class Sameness:
    """Keys of the sub-plans of one plan; ``elements`` says which elements of an input the plan reads."""

    def __init__(self, elements: Elements) -> None:
        self.elements = elements
        self._known: dict[int, tuple[Plan, Hashable]] = {}  # the plan itself, so that its id is not used again

    def key(self, p: Plan) -> Hashable:
        found = self._known.get(id(p))
        if found is None:
            found = self._known[id(p)] = p, _Key(self._key(p))
        return found[1]

    def shared_key(self, p: Plan) -> Hashable:
        """The key by which others find an operator. Filters over a stream pass on all columns that are read of it, so
        which of them a plan asks for does not matter there."""
        conjuncts: list[Any] = []
        scan = p
        while isinstance(scan, Select):
            conjuncts.append(scan.conjuncts)
            scan = scan.input
        if not conjuncts or not isinstance(scan, StreamScan) or not len(scan.schema):
            return self.key(p)
        by: dict[str, Expr] = {f.name: Column(c, f.type) for f, c in zip(scan.schema, scan.columns, strict=True)}
        return "filtered", self.elements(scan.stream), _written(tuple(conjuncts), by)

    def _key(self, p: Plan) -> Hashable:
        match p:
            case StreamScan():
                return "stream", self.elements(p.stream), p.columns
            case RelationScan():
                return "relation", p.relation.lower() if p.constant else self.elements(p.relation), p.columns
            case ModelQuery():  # its program names columns: two are the same if they are written the same
                aliases = tuple(i.schema.names for i in p.inputs)
                below = tuple(map(self.key, p.inputs))
                return "models", below, aliases, p.models, p.program, p.schema.names, p.kind, p.horizon, p.predict
        below = children(p)
        places = _places([c.schema for c in below])
        own = []
        for f in fields(p):
            if f.name not in _CHILDREN and not (isinstance(p, MarkJoin) and f.name == "mark"):
                value = getattr(p, f.name)
                if isinstance(p, Project | Aggregate) and isinstance(value, tuple):
                    value = tuple(e for _, e in value)  # what they are called does not matter
                own.append(_written(value, places))
        return type(p).__name__, tuple(map(self.key, below)), tuple(own)


class _Key:
    """A key whose hash is computed once: those of large plans are asked for again and again."""

    __slots__ = ("_hash", "value")

    def __init__(self, value: Hashable) -> None:
        self.value, self._hash = value, hash(value)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, _Key) and self._hash == other._hash and self.value == other.value


def depends_on_its_start(nodes: Iterable[Plan]) -> bool:
    """Whether the answer of a sub-plan with these nodes depends on when the time of the whole query starts: a constant
    relation is there from that instant on, an aggregate without groups has a row from it on, an ``Rstream`` shows every
    tick, and models have a time of their own."""
    return any(
        isinstance(n, ModelQuery)
        or (isinstance(n, RelationScan) and n.constant)
        or (isinstance(n, Aggregate) and not n.grouped)
        or shows_ticks(n)
        for n in nodes
    )


def shows_ticks(node: Plan) -> bool:
    """Whether a node shows rows at the ticks of the whole query."""
    return isinstance(node, ToStream) and node.kind in ("rstream", "wstream")


def _places(schemas: list[Schema]) -> dict[str, Expr]:
    names = [f for s in schemas for f in s]
    return {f.name: Column(f"#{i}", f.type) for i, f in enumerate(names)}


def _written(value: Any, places: Mapping[str, Expr]) -> Hashable:
    """A value of a node with places for the names of columns. Literals that are equal and yet differ stay different."""
    if isinstance(value, AggregateCall):
        rest = value.function, str(value.type), value.distinct, value.user, value.parameters
        return "aggregate", *rest, tuple(_written(a, places) for a in value.args)
    if isinstance(value, Expr):
        literals = tuple(repr(e.value) for e in nodes.walk(value) if isinstance(e, nodes.Literal))
        return substitute(value, dict(places)), literals
    if isinstance(value, tuple | list):
        return tuple(_written(v, places) for v in value)
    if isinstance(value, str):
        found = places.get(value)
        return found.name if isinstance(found, Column) else value
    if is_dataclass(value) and not isinstance(value, type):  # a window names columns, too
        compared = [f.name for f in fields(value) if f.compare]
        return type(value).__name__, *(_written(getattr(value, name), places) for name in compared)
    if isinstance(value, Mapping):
        return "mapping", *((_written(k, places), _written(v, places)) for k, v in value.items())
    return value if isinstance(value, Hashable) else _Itself(value)


class _Itself:
    """A value that cannot be compared by a key: it is equal to itself alone."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and other.value is self.value
