"""Directed join graphs (thesis 6.2): which edge of a join's tree leads from many to one, and what follows from that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Edge:
    """Two inputs that a join compares. ``a_unique``: at most one row of a has a key, so that a row of b matches at most
    one of them (the join from b to a is many-one)."""

    a: int
    b: int
    a_unique: bool
    b_unique: bool

    @property
    def many_one(self) -> bool:
        return self.a_unique or self.b_unique

    @property
    def one_one(self) -> bool:
        return self.a_unique and self.b_unique


@dataclass(frozen=True, slots=True)
class DirectedGraph:
    """``down[e]`` is the child of edge e, −1 where the edge is many-many. A one-one edge has one direction for
    statuses, and is many-one in the other as well."""

    size: int
    edges: tuple[Edge, ...]
    down: tuple[int, ...]

    @property
    def directed(self) -> bool:
        """Whether every edge is many-one."""
        return all(d >= 0 for d in self.down)

    def parents(self, i: int) -> list[int]:
        return [e.a + e.b - i for e, d in zip(self.edges, self.down, strict=True) if d == i]

    def children(self, i: int) -> list[int]:
        return [d for e, d in zip(self.edges, self.down, strict=True) if d >= 0 and d != i and i in (e.a, e.b)]

    @property
    def roots(self) -> list[int]:
        """Inputs without parents: in a tree they are the only minimal cover (Theorem 6.3.4)."""
        return [i for i in range(self.size) if not self.parents(i)]

    def facts(self) -> list[tuple[bool, bool, bool]]:
        """By input: it is a root; it is the one root of a graph without many-many edges; all roots of such a graph are
        its parents (Condition C1 of Theorem 6.7.1)."""
        roots, whole = self.roots, self.directed
        return [
            (i in roots, whole and roots == [i], whole and i not in roots and set(roots) <= set(self.parents(i)))
            for i in range(self.size)
        ]


def direct(size: int, edges: Sequence[Edge]) -> DirectedGraph:
    """Directions with as few roots as possible: one-one edges lead away from one input.

    >>> chain = [Edge(0, 1, True, True), Edge(1, 2, True, True)]
    >>> direct(3, chain).roots, direct(3, chain).down
    ([0], (1, 2))
    >>> direct(3, [Edge(0, 2, False, True), Edge(1, 2, False, True)]).roots
    [0, 1]
    """
    best: DirectedGraph | None = None
    for start in range(size):
        distance = _distances(size, edges, start)
        down = []
        for e in edges:
            if e.one_one:
                down.append(e.b if distance[e.a] < distance[e.b] else e.a)
            else:
                down.append(e.a if e.a_unique else e.b if e.b_unique else -1)
        made = DirectedGraph(size, tuple(edges), tuple(down))
        if best is None or len(made.roots) < len(best.roots):
            best = made
    assert best is not None
    return best


def _distances(size: int, edges: Sequence[Edge], start: int) -> list[int]:
    found = {start: 0}
    while len(found) < size:
        for e in edges:
            for i, j in ((e.a, e.b), (e.b, e.a)):
                if i in found and j not in found:
                    found[j] = found[i] + 1
    return [found[i] for i in range(size)]
