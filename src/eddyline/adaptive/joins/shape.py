"""The join graph as policies see it: which inputs meet in an equality class, and which pairs in another condition.

Section 5.2 of the thesis. Inputs are numbers from 0 in written order. A Cartesian product is *inevitable* only between
parts of the graph that no condition connects; everything here avoids all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

Orders = Sequence[Sequence[int]]  # by pipeline: the inputs that it joins with, first to last


@dataclass(frozen=True, slots=True)
class Shape:
    """A join graph of ``size`` inputs.

    ``classes[c]`` are the inputs with a member in equality class c: R.a = S.a and S.a = T.b is one class of three.
    ``thetas`` are the pairs of inputs under a condition that is no equality.

    The chain R.a = S.a, S.b = T.b:

    >>> chain = Shape(3, (frozenset({0, 1}), frozenset({1, 2})))
    >>> chain.neighbours
    ((1,), (0, 2), (1,))
    >>> chain.connected(2, {0}), chain.connected(2, {0, 1})
    (False, True)
    >>> chain.tree(0)
    (-1, 0, 1)
    >>> chain.avoids_products(0, (1, 2)), chain.avoids_products(0, (2, 1))
    (True, False)
    """

    size: int
    classes: tuple[frozenset[int], ...]
    thetas: frozenset[frozenset[int]] = frozenset()
    edges: frozenset[frozenset[int]] = field(init=False, repr=False, compare=False)
    neighbours: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_class = {frozenset((a, b)) for inputs in self.classes for a in inputs for b in inputs if a < b}
        edges = frozenset(by_class | {pair for pair in self.thetas if len(pair) == 2})
        near = tuple(tuple(b for b in range(self.size) if frozenset((a, b)) in edges) for a in range(self.size))
        object.__setattr__(self, "edges", edges)
        object.__setattr__(self, "neighbours", near)

    def connected(self, target: int, bound: Iterable[int]) -> bool:
        """Whether a condition links the target with one of these inputs: if not, joining it is a product."""
        return not set(self.neighbours[target]).isdisjoint(bound)

    def tree(self, source: int) -> tuple[int, ...]:
        """The parent of each input in a spanning tree, breadth first from the source; −1 for roots.

        Breadth first, because a short path is a logical filter that asks few windows; ties fall in written order. In
        an acyclic graph it is the graph. An input that no path reaches starts a tree of its own.
        """
        parents = [-1] * self.size
        seen: set[int] = set()
        for root in (source, *range(self.size)):
            if root in seen:
                continue
            queue = [root]
            seen.add(root)
            for at in queue:
                for near in self.neighbours[at]:
                    if near not in seen:
                        seen.add(near)
                        parents[near] = at
                        queue.append(near)
        return tuple(parents)

    def parts(self, inputs: Iterable[int] | None = None) -> tuple[frozenset[int], ...]:
        """The connected parts of the graph restricted to these inputs (all by default), by their first input.

        >>> Shape(4, (frozenset({0, 2}), frozenset({1, 3}))).parts()
        (frozenset({0, 2}), frozenset({1, 3}))
        """
        left = set(range(self.size) if inputs is None else inputs)
        found = []
        while left:
            queue = [min(left)]
            left.discard(queue[0])
            for at in queue:
                reached = left.intersection(self.neighbours[at])
                left -= reached
                queue.extend(sorted(reached))
            found.append(frozenset(queue))
        return tuple(found)

    def whole(self, inputs: Iterable[int]) -> bool:
        """Whether these inputs can be joined among themselves without a product."""
        return len(self.parts(inputs)) == 1

    def shared(self, some: Iterable[int], others: Iterable[int]) -> tuple[int, ...]:
        """The equality classes with members on both sides."""
        one, two = set(some), set(others)
        return tuple(c for c, inputs in enumerate(self.classes) if inputs & one and inputs & two)

    def avoids_products(self, source: int, order: Sequence[int]) -> bool:
        """Whether the order is a permutation of the other inputs in which every product is inevitable."""
        if sorted((source, *order)) != list(range(self.size)):
            return False
        parts = {i: part for part in self.parts() for i in part}
        bound = {source}
        for target in order:
            if not self.connected(target, bound) and any(parts[i] - bound for i in bound):
                return False
            bound.add(target)
        return True


@dataclass(frozen=True, slots=True)
class LogicalFilters:
    """The joins of a pipeline as filters, so that filter policies can order them (section 5.2.3).

    Filter f stands for the join along the path from the source to its target ``targets[f]``: ``paths[f]`` lists the
    inputs on it, target last. A policy orders the filters; ``order_of`` maps that to an order of joins in which every
    join comes after those on the path to it. The acyclic join of Figure 5.3(a), R1 to R6 being 0 to 5:

    >>> edges = [(0, 1), (0, 2), (2, 3), (2, 4), (4, 5)]
    >>> filters = LogicalFilters(Shape(6, tuple(frozenset(e) for e in edges)), 0)
    >>> filters.paths
    ((1,), (2,), (2, 3), (2, 4), (2, 4, 5))
    >>> filters.order_of((2, 1, 0, 3, 4))
    (2, 3, 1, 4, 5)

    Parts of the graph that no condition connects with the source come last, one after the other; the path into such a
    part begins at its first input.
    """

    shape: Shape
    source: int
    targets: tuple[int, ...] = field(init=False)
    paths: tuple[tuple[int, ...], ...] = field(init=False)

    def __post_init__(self) -> None:
        targets = tuple(i for i in range(self.shape.size) if i != self.source)
        parents = self.shape.tree(self.source)
        paths = []
        for target in targets:
            path = [target]
            while parents[path[-1]] not in (-1, self.source):
                path.append(parents[path[-1]])
            paths.append(tuple(reversed(path)))
        object.__setattr__(self, "targets", targets)
        object.__setattr__(self, "paths", tuple(paths))

    def precedes(self, first: int, then: int) -> bool:
        """Whether the join with input ``first`` must come before the join with input ``then``."""
        return first != then and first in self.paths[self.targets.index(then)]

    def order_of(self, filter_order: Sequence[int]) -> tuple[int, ...]:
        """The order of the joins for an order of the filters, given by their numbers."""
        parts = self.shape.parts()
        home = {i: p for p, part in enumerate(parts) for i in part}
        own = home[self.source]
        entered = list(dict.fromkeys((own, *(home[self.targets[f]] for f in filter_order))))
        # A stable sort: within a part the filters stay as the policy has put them.
        by_part = sorted(filter_order, key=lambda f: entered.index(home[self.targets[f]]))
        return tuple(dict.fromkeys(i for f in by_part for i in self.paths[f]))
