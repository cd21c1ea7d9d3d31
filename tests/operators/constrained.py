"""Constrained joins by hand: fixed constraints, and synopses that can be read (for the examples of chapter 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.adaptive.constraints.directions import Edge, direct
from eddyline.core.delta import Delta, Int64s
from eddyline.core.schema import Field, Schema
from eddyline.core.window import Rows, WindowSpec
from eddyline.expr.nodes import Call, Column, Expr, Literal
from eddyline.kernels import constrained_layout as k
from eddyline.kernels.join_layout import ALL_DELETIONS, NO_DELETIONS
from eddyline.operators.base import Context
from eddyline.operators.constrained_control import Collection
from eddyline.operators.constrained_join import ConstrainedJoin
from eddyline.operators.join_plan import JoinGraph, Member
from eddyline.operators.join_side import JoinInput
from eddyline.operators.join_tree import JoinTree, tree_of
from eddyline.synopses.spill import Spill

NONE: Int64s = np.empty(0, np.int64)
STATUS = {k.YES: "yes", k.NO: "no", k.UNKNOWN: "unknown"}


@dataclass
class Fixed:
    """Constraints that hold, by what they say: ``rids`` by edge (parent, child), ``ca`` by edge (of the parent's key),
    ``oap`` and ``oac`` by edge (of the parent's and the child's key). ``many_one`` are the edges, parents first."""

    many_one: Sequence[tuple[int, int]]
    rids: Mapping[tuple[int, int], int] = field(default_factory=dict)
    ca: Mapping[tuple[int, int], int] = field(default_factory=dict)
    oap: Mapping[tuple[int, int], int] = field(default_factory=dict)
    oac: Mapping[tuple[int, int], int] = field(default_factory=dict)
    came: dict[int, list[int]] = field(default_factory=dict)  # keys by port
    removed: Int64s = field(default_factory=lambda: np.zeros(8, np.int64))  # rows by input
    distances: list[tuple[int, int]] = field(default_factory=list)

    nbytes = 0

    def port(self, join: ConstrainedJoin, here: int, there: int) -> int:
        ports = join.slots.ports
        j = next(j for j in range(join.slots.width) if ports[here, j, k.NB] == there)
        return here * join.slots.width + j

    def listens(self, stream: int) -> bool:
        return True

    def arrived(self, join: ConstrainedJoin, stream: int, keys: Int64s, times: Int64s) -> None:
        for j in range(join.slots.width):
            self.came.setdefault(stream * join.slots.width + j, []).extend(keys[:, j].tolist())

    def measured(self, join: ConstrainedJoin, distances: Int64s) -> None:
        ports = join.tree.size * join.slots.width
        self.distances += [(int(q), int(d)) for q, _, d in distances if q < ports]

    def collection(self, join: ConstrainedJoin, now: int) -> Collection:
        edges = [Edge(e.a, e.b, (e.b, e.a) in self.many_one, (e.a, e.b) in self.many_one) for e in join.tree.edges]
        graph = direct(join.tree.size, edges)
        ports = join.slots.ports.copy()
        for e, down in zip(join.tree.edges, graph.down, strict=True):
            ports[e.a, e.a_port, k.DOWN], ports[e.b, e.b_port, k.DOWN] = down == e.b, down == e.a
        if not np.array_equal(ports, join.slots.ports):
            join.slots.direct(ports)
        many = join.tree.size * join.slots.width
        wait, low = np.full(many, k.NEVER_USED, np.int64), np.full(many, k.LOWEST, np.int64)
        for (parent, child), most in self.rids.items():
            wait[self.port(join, parent, child)] = most
        for given, flip in ((self.oap, True), (self.oac, False)):
            for (parent, child), most in given.items():
                ordered, waits = (parent, child) if flip else (child, parent)
                values = self.came.get(self.port(join, ordered, waits), [])
                if len(values) > most:
                    low[self.port(join, waits, ordered)] = max(values[: len(values) - most])
        facts = np.zeros((4, join.tree.size), np.int64)
        facts[:3] = np.array(graph.facts(), np.int64).T
        for i in range(join.tree.size):
            parents = graph.parents(i)
            facts[3, i] = bool(parents) and all((p, i) in self.rids or (p, i) in self.oac for p in parents)
        for (parent, child), most in self.ca.items():
            here, there = self.port(join, parent, child), self.port(join, child, parent)
            values = self.came.get(here, [])
            over = {v for n, v in enumerate(values) if sum(w != v for w in values[values.index(v) :]) > most}
            join.slots.close(np.array(sorted(over), np.int64), there, k.BY_CA + k.KINDS * here)
        return Collection(wait, low, 0, facts)

    def collected(self, join: ConstrainedJoin, removed: Int64s) -> None:
        self.removed[: len(removed)] += removed.sum(axis=1)

    def hit(self, join: ConstrainedJoin, why: Int64s, now: int) -> None:
        pass

    def sampled(self, join: ConstrainedJoin, keys: Int64s) -> None:
        pass

    def describe(self, join: ConstrainedJoin) -> list[str]:
        return []

    def statistics(self, join: ConstrainedJoin) -> dict[str, Any]:
        return {}

    def state(self) -> dict[str, Any]:
        return {}

    def load(self, state: dict[str, Any]) -> None:
        pass


class Example:
    """A join of streams of integers, fed row by row; each row is an instant."""

    def __init__(
        self,
        columns: Sequence[str],
        equalities: Sequence[tuple[str, str]],
        control: Fixed,
        filters: Mapping[int, Expr] | None = None,
        windows: Mapping[int, WindowSpec] | None = None,
        deletes: bool = False,
        spill: bool = False,
        collect_every: int = 1,
    ) -> None:
        self.schemas = [
            Schema(tuple(Field(f"S{i + 1}.{c}", pa.int64()) for c in names)) for i, names in enumerate(columns)
        ]
        keys: list[list[Expr]] = [[] for _ in columns]
        pairs = []
        for pair in equalities:
            members = []
            for name in pair:
                i, column = int(name[1]) - 1, Column(name, pa.int64())
                if column not in keys[i]:
                    keys[i].append(column)
                members.append(Member(i, keys[i].index(column)))
            pairs.append((members[0], members[1]))
        graph = JoinGraph(tuple(map(tuple, keys)), tuple(pairs))
        tree = tree_of(graph)
        assert isinstance(tree, JoinTree)
        inputs = [
            JoinInput(
                schema,
                (windows or {}).get(i, Rows(1_000_000)),
                deletes=ALL_DELETIONS if deletes else NO_DELETIONS,
                filters=(filters[i],) if filters and i in filters else (),
            )
            for i, schema in enumerate(self.schemas)
        ]
        names = [f.name for s in self.schemas for f in s]
        made = Spill(self.schemas, tree.width) if spill else None
        self.control = control
        self.join = ConstrainedJoin(
            "join", inputs, graph, tree, (), names, Context(start=0), control, made, collect_every
        )
        self.now = 0
        self.rows: list[list[tuple[int, ...]]] = [[] for _ in columns]

    def feed(self, stream: int, *rows: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Rows of stream S1, S2, …; returns the results with a sign in front."""
        out = []
        for row in rows:
            self.now += 1
            deltas = [Delta.empty(s) for s in self.schemas]
            values = {f.name: pa.array([v], pa.int64()) for f, v in zip(self.schemas[stream - 1], row, strict=True)}
            deltas[stream - 1] = Delta(np.array([self.now]), values)
            self.rows[stream - 1].append(row)
            found = self.join.process(deltas, self.now)
            lists = [found.columns[n].to_pylist() for n in found.columns]
            out += [(int(w), *line) for w, line in zip(found.weights, zip(*lists, strict=True), strict=True)]
        return out

    def synopsis(self, stream: int, status: str) -> list[tuple[int, ...]]:
        """The rows of a component of a synopsis, in order of arrival."""
        slots = self.join.slots
        mine = slots.of(stream - 1)
        numbers = slots.number(mine[[STATUS[int(slots.status[s])] == status for s in mine]])
        return [self.rows[stream - 1][n] for n in sorted(numbers.tolist())]

    def all(self, stream: int) -> dict[str, list[tuple[int, ...]]]:
        return {s: rows for s in ("yes", "no", "unknown") if (rows := self.synopsis(stream, s))}


def less(name: str, value: int) -> Expr:
    return Call("lt", (Column(name, pa.int64()), Literal(value, pa.int64())), pa.bool_())


def greater(name: str, value: int) -> Expr:
    return Call("gt", (Column(name, pa.int64()), Literal(value, pa.int64())), pa.bool_())
