"""The edges of a constrained join's tree, and which way each is many-one: by port, as monitors are.

A port is one comparison of one input. Its number is ``q`` = input · width + its place among the ports of the input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from eddyline.adaptive.constraints.directions import DirectedGraph, Edge, direct
from eddyline.core.delta import Int64s
from eddyline.kernels import constrained_layout as k


class DirectedEdges:
    """``joins`` are input, port, input, port; ``labels`` by port (``S.A``). The directions are not known until
    ``direct`` was called.

    R.A = S.A, and keys of S.A are different: the edge leads from R, the parent, to S, its child.

    >>> edges = DirectedEdges([(0, 0, 1, 0)], {0: "R.A", 1: "S.A"}, width=1)
    >>> edges.direct(unique=lambda q: q == 1), edges.spelled(edges.graph)
    (True, ['R.A → S.A'])
    >>> edges.is_parent(0), edges.is_parent(1), edges.label(0)
    (True, False, 'R.A → S.A')
    >>> edges.direct(unique=lambda q: q == 1)  # nothing has changed
    False
    """

    def __init__(self, joins: Sequence[tuple[int, int, int, int]], labels: Mapping[int, str], width: int) -> None:
        self.labels, self.width = dict(labels), width
        self.size = max(self.labels) // width + 1  # inputs
        self.ends = [(a * width + p, b * width + q) for a, p, b, q in joins]
        self.other = dict(self.ends) | {far: near for near, far in self.ends}
        self._edge_at = {q: n for n, ends in enumerate(self.ends) for q in ends}
        self.forget()

    def forget(self) -> None:
        """The directions are not known (any more)."""
        self.graph: DirectedGraph | None = None
        self.facts: Int64s = np.zeros((3, self.size), np.int64)  # ``DirectedGraph.facts`` by input
        self.to_parents: set[int] = set()  # ports that lead to a parent

    def direct(self, unique: Callable[[int], bool]) -> bool:
        """Find the directions; ``unique`` says whether keys of a port are different. False: they are as they were."""
        edges = [Edge(self.input_of(a), self.input_of(b), unique(a), unique(b)) for a, b in self.ends]
        if self.graph is not None and tuple(edges) == self.graph.edges:
            return False
        self.graph = direct(self.size, edges)
        self.facts = np.array(self.graph.facts(), np.int64).T
        self.to_parents = {q for q in self.labels if self.is_parent(self.other[q])}
        return True

    def input_of(self, q: int) -> int:
        return q // self.width

    def is_parent(self, q: int) -> bool:
        """Whether the edge at a port leads from its input to a child; as long as nothing is known, it may."""
        return self.graph is None or self.graph.down[self._edge_at[q]] == self.input_of(self.other[q])

    def edge(self, q: int) -> Edge:
        assert self.graph is not None
        return self.graph.edges[self._edge_at[q]]

    def on_ports(self, ports: Int64s) -> Int64s:
        """The join's table of ports with the directions in it."""
        assert self.graph is not None
        made = ports.copy()
        made[:, :, [k.DOWN, k.MANY_ONE, k.TWO_WAY]] = 0
        for (near, far), e, down in zip(self.ends, self.graph.edges, self.graph.down, strict=True):
            (a, p), (b, q) = divmod(near, self.width), divmod(far, self.width)
            made[a, p, [k.DOWN, k.MANY_ONE, k.TWO_WAY]] = down == b, e.b_unique, e.one_one
            made[b, q, [k.DOWN, k.MANY_ONE, k.TWO_WAY]] = down == a, e.a_unique, e.one_one
        return made

    def child_ports(self) -> list[int]:
        """Of each edge the port at the child, or the second one where it has no direction."""
        if self.graph is None:
            return []
        return [
            a if down == e.a else b
            for (a, b), e, down in zip(self.ends, self.graph.edges, self.graph.down, strict=True)
        ]

    def spelled(self, graph: DirectedGraph) -> list[str]:
        """Directions for people."""
        made = []
        for (a, b), e, down in zip(self.ends, graph.edges, graph.down, strict=True):
            arrow = "↔" if e.one_one else "→" if down == e.b else "←" if down == e.a else "—"
            made.append(f"{self.labels[a]} {arrow} {self.labels[b]}")
        return made

    def label(self, q: int) -> str:
        """An edge as it is seen from one of its ports."""
        return f"{self.labels[q]} → {self.labels[self.other[q]]}"
