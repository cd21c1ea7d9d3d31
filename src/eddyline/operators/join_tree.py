"""The tree of a join: an edge for each pair of inputs that are compared directly, and the order in which a row of any
input visits the others.

An equality class over n inputs is reduced to n − 1 edges: the written equalities, as long as they connect something
new. Two inputs that share several classes are connected by one edge with a key of several parts. A join whose
equalities are not all implied by such a tree is cyclic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.core.delta import Int64s
from eddyline.kernels.constrained_layout import NB, NBP, PORT_FIELDS
from eddyline.operators.join_plan import JoinGraph

CYCLIC = "its equalities form a cycle"
APART = "an input is connected with no other by an equality"
TWICE = "an equality class has two attributes of one input"


@dataclass(frozen=True, slots=True)
class TreeEdge:
    """Inputs a and b agree on their keys ``left`` and ``right``, in the same order; port ``a_port`` of a leads to port
    ``b_port`` of b."""

    a: int
    b: int
    left: tuple[int, ...]
    right: tuple[int, ...]
    a_port: int
    b_port: int

    def ends(self) -> tuple[tuple[int, int, tuple[int, ...]], tuple[int, int, tuple[int, ...]]]:
        """Input, port and keys of both ends."""
        return (self.a, self.a_port, self.left), (self.b, self.b_port, self.right)


@dataclass(frozen=True, slots=True)
class JoinTree:
    """``size`` inputs and the edges between them."""

    size: int
    edges: tuple[TreeEdge, ...]

    @property
    def width(self) -> int:
        """The largest number of ports of an input."""
        return max(self.ports_of(i) for i in range(self.size))

    def ports_of(self, i: int) -> int:
        return sum(i in (e.a, e.b) for e in self.edges)

    def ports(self) -> np.ndarray[tuple[int, int, int], np.dtype[np.int64]]:
        """The neighbours by input and port; −1: there is no such port."""
        made = np.full((self.size, self.width, PORT_FIELDS), 0, np.int64)
        made[:, :, NB] = -1
        for e in self.edges:
            made[e.a, e.a_port, [NB, NBP]] = e.b, e.b_port
            made[e.b, e.b_port, [NB, NBP]] = e.a, e.a_port
        return made

    def order(self) -> np.ndarray[tuple[int, int, int], np.dtype[np.int64]]:
        """For a row of each input the steps (target, its port, source, its port), nearest inputs first."""
        made = np.zeros((self.size, self.size - 1, 4), np.int64)
        for start in range(self.size):
            bound, at = [start], 0
            while at < self.size - 1:
                for source in bound:
                    step = next((s for s in self._steps(source) if s[0] not in bound), None)
                    if step is not None:
                        made[start, at] = step
                        bound.append(step[0])
                        at += 1
                        break
        return made

    def _steps(self, source: int) -> list[tuple[int, int, int, int]]:
        steps = []
        for e in self.edges:
            for (i, p, _), (j, q, _) in (e.ends(), e.ends()[::-1]):
                if i == source:
                    steps.append((j, q, i, p))
        return sorted(steps, key=lambda step: step[3])

    def equal_ports(self) -> Int64s:
        """By port the first port of its input that has the same keys; −1: there is no such port."""
        made = np.full((self.size, self.width), -1, np.int64)
        for i in range(self.size):
            keys = self.keys_of(i)
            made[i, : len(keys)] = [i * self.width + keys.index(k) for k in keys]
        return made.reshape(-1)

    def keys_of(self, i: int) -> list[tuple[int, ...]]:
        """The keys of an input by port."""
        found = {p: keys for e in self.edges for j, p, keys in e.ends() if j == i}
        return [found[p] for p in range(len(found))]


def tree_of(graph: JoinGraph) -> JoinTree | str:
    """The tree of a join, or why there is none.

    >>> from eddyline.operators.join_plan import Member
    >>> graph = JoinGraph(((), (), ()), ((Member(0, 0), Member(1, 0)), (Member(1, 0), Member(2, 0))))
    >>> [(e.a, e.b) for e in tree_of(graph).edges]
    [(0, 1), (1, 2)]
    """
    if not graph.simple:
        return TWICE
    home = list(range(graph.size))
    ports = [0] * graph.size
    edges: list[TreeEdge] = []
    for a, b in graph.equalities:
        if home[a.input] == home[b.input]:
            continue
        shared = [c for c in graph.classes if {a.input, b.input} <= {m.input for m in c}]
        left, right = (tuple(next(m.key for m in c if m.input == i) for c in shared) for i in (a.input, b.input))
        edges.append(TreeEdge(a.input, b.input, left, right, ports[a.input], ports[b.input]))
        ports[a.input] += 1
        ports[b.input] += 1
        home = [home[a.input] if h == home[b.input] else h for h in home]
    if len(set(home)) > 1:
        return APART
    for c in graph.classes:
        members = {m.input for m in c}
        mine = [e for e in edges if {e.a, e.b} <= members]
        if len(mine) != len(members) - 1:
            return CYCLIC
    return JoinTree(graph.size, tuple(edges))


def port_keys(codes: Int64s, keys: Sequence[tuple[int, ...]], width: int) -> Int64s:
    """The keys of rows by port: the code itself, or a hash of the codes of several parts."""
    if width == codes.shape[1] and list(keys) == [(c,) for c in range(width)]:
        return codes
    made = np.zeros((len(codes), width), np.int64)
    for p, columns in enumerate(keys):
        made[:, p] = codes[:, columns[0]] if len(columns) == 1 else hashed(codes[:, list(columns)])
    return made


def hashed(codes: Int64s) -> Int64s:
    """A hash of each line, by the finaliser of splitmix64 (``kernels.hashing.mix``)."""
    h = np.zeros(len(codes), np.uint64)
    with np.errstate(over="ignore"):
        for column in codes.T:
            x = h * np.uint64(31) + column.astype(np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
            x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            h = x ^ (x >> np.uint64(31))
    return h.view(np.int64)
