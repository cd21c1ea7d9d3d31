"""The plan as data: one frozen graph of what runs, what it keeps and its statistics.

``query.plan()`` returns it, inline and on Spark; ``explain`` (``print_text``), ``print_mermaid`` and JSON are printers
of it and read nothing else. A node's id is the name of its operator, which is stable: the same query on the same
version has the same ids after a restart and in every shard.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from eddyline.core.bound import Bound
from eddyline.core.plain import plain_copy


@dataclass(frozen=True, slots=True)
class KeptState:
    """What an operator keeps: in words with the reason, its bounds by input, how much it is now, and how much of it is
    outside of memory."""

    what: str
    rows: int = 0
    bytes: int = 0
    bounds: Mapping[str, Bound] = field(default_factory=dict)
    spilled_rows: int = 0
    spilled_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Property:
    """A property of a node with its unit, and whether it can be changed while the query runs."""

    name: str
    value: Any
    unit: str = ""
    changeable: bool = False


@dataclass(frozen=True, slots=True)
class PlanNode:
    """One operator, or a source of elements. ``text`` is the piece of the query that it evaluates.

    ``statistics`` are totals so far. ``strategy`` is the policy that adapts the operator, with its parameters;
    ``adapts`` are lines of text on its present plan, ``knows`` the policy's statistics as plain data. ``chosen`` is set
    where there was a choice of operators: the subject, the operator, the version of its state, the estimated cost.
    ``readers`` are the queries of the session that read the operator, where it is more than this one.
    """

    id: str
    kind: str
    inputs: tuple[str, ...] = ()
    text: str = ""
    kept: KeptState | None = None
    properties: tuple[Property, ...] = ()
    statistics: Mapping[str, float] = field(default_factory=dict)
    strategy: str | None = None
    adapts: tuple[str, ...] = ()
    knows: Mapping[str, Any] = field(default_factory=dict)
    chosen: Mapping[str, Any] = field(default_factory=dict)
    readers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanEdge:
    """Elements so far from one node to another, and how many wait between them."""

    source: str
    target: str
    elements: int | None = None
    waiting: int | None = None


@dataclass(frozen=True, slots=True)
class PlanGraph:
    """A query's plan. ``nodes`` stand in the order in which they were built, inputs before what reads them; ``root`` is
    the id of the last. ``shared`` lists stores that several windows read. On Spark ``nodes`` are those of every shard
    with the totals of all, ``partitioning`` says how rows travel to the shards, ``shards`` has the statistics of each.

    >>> plan = PlanGraph("q", "SELECT …", "istream", (PlanNode("stream S", "stream"),), (), "stream S")
    >>> plan.node("stream S").kind, json.loads(plan.to_json())["root"]
    ('stream', 'stream S')
    """

    query: str
    text: str
    result: str
    nodes: tuple[PlanNode, ...]
    edges: tuple[PlanEdge, ...]
    root: str
    decisions: tuple[Mapping[str, Any], ...] = ()
    shared: tuple[Mapping[str, Any], ...] = ()
    partitioning: tuple[str, ...] = ()
    shards: tuple[Mapping[str, Any], ...] = ()
    totals: Mapping[str, float] = field(default_factory=dict)

    def node(self, id: str) -> PlanNode:
        return next(n for n in self.nodes if n.id == id)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        found: dict[str, Any] = plain_copy(self)
        return found

    @staticmethod
    def load(data: Mapping[str, Any]) -> PlanGraph:
        """The inverse of ``to_dict``, also for data that went through JSON.

        >>> kept = KeptState("rows", 2, 64, {"S": Bound(rows=2)})
        >>> nodes = (PlanNode("stream S", "stream"), PlanNode("rows 1", "window", ("stream S",), kept=kept))
        >>> plan = PlanGraph("q", "SELECT …", "istream", nodes, (PlanEdge("stream S", "rows 1", 5),), "rows 1")
        >>> PlanGraph.load(json.loads(plan.to_json())) == plan
        True
        """
        given = {f.name: data[f.name] for f in fields(PlanGraph) if f.name in data}
        for name in ("decisions", "shared", "partitioning", "shards"):
            given[name] = tuple(given.get(name, ()))
        edges = tuple(PlanEdge(**e) for e in data["edges"])
        return PlanGraph(**given | {"nodes": tuple(map(_node, data["nodes"])), "edges": edges})

    def to_json(self, indent: int | None = 2) -> str:
        return json.dumps(self.to_dict(), indent=indent, default=_plain, ensure_ascii=False)


def _node(data: Mapping[str, Any]) -> PlanNode:
    kept = data["kept"]
    if kept is not None:
        bounds = {name: Bound(**bound) for name, bound in kept["bounds"].items()}
        kept = KeptState(**{**kept, "bounds": bounds})
    lists = {name: tuple(data[name]) for name in ("inputs", "adapts", "readers")}
    properties = tuple(Property(**p) for p in data["properties"])
    return PlanNode(**{**data, **lists, "kept": kept, "properties": properties})


def _plain(value: Any) -> Any:
    """Numbers and arrays of numpy."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
