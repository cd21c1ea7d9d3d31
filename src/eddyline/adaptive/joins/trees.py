"""XJoins and trees of MJoins as pipelines with caches that are kept complete (section 5.3).

A tree is an input, or a tuple of at least two trees: ``((0, 1), 2)`` joins R and S, keeps the result, and joins that
with T. As pipelines: each input's order goes up the tree, sibling after sibling, and a sibling that is a join itself is
a segment whose complete result is at hand. Every such segment satisfies the prefix invariant, for going up the tree an
element meets all of an inner node before anything outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from eddyline.adaptive.joins.candidates import Candidate
from eddyline.adaptive.joins.shape import Shape

Tree: TypeAlias = "int | tuple[Tree, ...]"
Expected: TypeAlias = Callable[[int, frozenset[int]], float]  # (arriving input, inputs joined) -> tuples per unit time


def leaves(tree: Tree) -> tuple[int, ...]:
    """The inputs of a tree, left to right.

    >>> leaves(((0, 2), 1))
    (0, 2, 1)
    """
    return (tree,) if isinstance(tree, int) else tuple(i for child in tree for i in leaves(child))


def render(tree: Tree, names: Sequence[str]) -> str:
    """
    >>> render((((0, 1), 2), 3), "RSTU")
    '((R⋈S)⋈T)⋈U'
    """
    if isinstance(tree, int):
        return names[tree]
    return "⋈".join(render(c, names) if isinstance(c, int) else f"({render(c, names)})" for c in tree)


def binary_trees(shape: Shape) -> list[Tree]:
    """All XJoins: trees of two-way joins, of any shape, with products only between parts that nothing connects.

    >>> chain = Shape(3, (frozenset({0, 1}), frozenset({1, 2})))
    >>> [render(t, "RST") for t in binary_trees(chain)]
    ['R⋈(S⋈T)', '(R⋈S)⋈T']
    """
    return _trees(shape, frozenset(range(shape.size)), 2, {})


def mjoin_trees(shape: Shape) -> list[Tree]:
    """All trees of MJoins, from the one MJoin of everything to the XJoins.

    >>> chain = Shape(3, (frozenset({0, 1}), frozenset({1, 2})))
    >>> [render(t, "RST") for t in mjoin_trees(chain)]
    ['R⋈(S⋈T)', '(R⋈S)⋈T', 'R⋈S⋈T']
    """
    return _trees(shape, frozenset(range(shape.size)), shape.size, {})


def _trees(shape: Shape, inputs: frozenset[int], arity: int, known: dict[frozenset[int], list[Tree]]) -> list[Tree]:
    if inputs not in known:
        if len(inputs) == 1:
            known[inputs] = [next(iter(inputs))]
        else:
            known[inputs] = [
                tuple(children)
                for blocks in _partitions(shape, inputs, arity)
                for children in product(*(_trees(shape, block, arity, known) for block in blocks))
            ]
    return known[inputs]


def _partitions(shape: Shape, inputs: frozenset[int], arity: int) -> Iterator[list[frozenset[int]]]:
    """Ways to cut the inputs into 2 to ``arity`` blocks, first inputs in order, each block free of products if the
    whole is, and otherwise made of whole parts."""
    parts = shape.parts(inputs)
    units = [frozenset((i,)) for i in sorted(inputs)] if len(parts) == 1 else list(parts)
    found = [
        [frozenset[int]().union(*block) for block in blocks]
        for blocks in _set_partitions(units)
        if 2 <= len(blocks) <= arity
    ]
    if len(parts) == 1:
        found = [blocks for blocks in found if all(shape.whole(b) for b in blocks)]
    yield from sorted(found, key=lambda blocks: (len(blocks), [sorted(b) for b in blocks]))


def _set_partitions(units: Sequence[frozenset[int]]) -> Iterator[list[list[frozenset[int]]]]:
    if not units:
        yield []
        return
    for rest in _set_partitions(units[:-1]):
        for at in range(len(rest)):
            yield [*rest[:at], [*rest[at], units[-1]], *rest[at + 1 :]]
        yield [*rest, [units[-1]]]


@dataclass(frozen=True, slots=True)
class TreePlan:
    """A tree as pipelines: the order of each, and the caches that are to be kept complete."""

    orders: tuple[tuple[int, ...], ...]
    kept: tuple[Candidate, ...]


def plan(tree: Tree, shape: Shape, expected: Expected | None = None) -> TreePlan:
    """The pipelines that do what the tree does.

    Siblings of an n-ary node are joined without products where that is possible, those that leave the fewest tuples
    first if ``expected`` is given, else in written order. An inner node that is linked with what comes before by no
    equality has no key: it is joined input by input and not among ``kept``.

    >>> chain = Shape(4, (frozenset({0, 1}), frozenset({1, 2}), frozenset({2, 3})))
    >>> bushy = plan(((0, 1), (2, 3)), chain)
    >>> bushy.orders
    ((1, 2, 3), (0, 2, 3), (3, 1, 0), (2, 1, 0))
    >>> [c.label("RSTU") for c in bushy.kept]
    ['T⋈U in ΔR', 'T⋈U in ΔS', 'R⋈S in ΔT', 'R⋈S in ΔU']
    """
    orders: list[tuple[int, ...]] = []
    kept = []
    for source in range(shape.size):
        order: list[int] = []
        for siblings in _upwards(tree, source):
            for sibling in _ordered(siblings, source, order, shape, expected):
                inputs = leaves(sibling)
                bound = (source, *order)
                key = shape.shared(bound, inputs)
                if len(inputs) > 1 and key:
                    segment = tuple(sorted(inputs))
                    kept.append(Candidate(source, len(order), len(order) + len(inputs) - 1, segment, key))
                order += _connected_order(inputs, bound, shape)
        orders.append(tuple(order))
    return TreePlan(tuple(orders), tuple(kept))


def _upwards(tree: Tree, source: int) -> list[list[Tree]]:
    """The siblings met on the way from an input to the root, level by level."""
    if isinstance(tree, int):
        return []
    home = next(c for c in tree if source in leaves(c))
    return [*_upwards(home, source), [c for c in tree if c is not home]]


def _ordered(
    siblings: Sequence[Tree], source: int, order: Sequence[int], shape: Shape, expected: Expected | None
) -> Iterator[Tree]:
    bound, left = [source, *order], list(siblings)
    while left:
        near = [s for s in left if any(shape.connected(i, bound) for i in leaves(s))] or left
        if expected is None:
            chosen = min(near, key=leaves)
        else:
            chosen = min(near, key=lambda s: (expected(source, frozenset((*bound, *leaves(s)))), leaves(s)))
        left.remove(chosen)
        bound += leaves(chosen)
        yield chosen


def _connected_order(inputs: Iterable[int], bound: Sequence[int], shape: Shape) -> list[int]:
    left, order = sorted(inputs), list[int]()
    while left:
        near = [i for i in left if shape.connected(i, (*bound, *order))] or left
        order.append(near[0])
        left.remove(near[0])
    return order


def tree_cost(tree: Tree, shape: Shape, expected: Expected, probe: float = 1.0, update: float = 1.0) -> float:
    """The work of a tree per unit time: a probe for every tuple that reaches a sibling, and what each found tuple costs
    to build and, below the root, to keep.

    Two fast inputs, T and U, and two slow ones: keeping R⋈S alone beats both extremes, as in Figure 5.6.

    >>> star = Shape(4, (frozenset({0, 1}), frozenset({1, 2}), frozenset({1, 3})))
    >>> expected = independent([1, 1, 9, 9], [10] * 4, {(0, 1): 0.1, (1, 2): 0.1, (1, 3): 0.1})
    >>> for tree in ((0, 1, 2, 3), ((0, 1), 2, 3), (((0, 1), 2), 3)):
    ...     print(render(tree, "RSTU"), round(tree_cost(tree, star, expected, update=2)))
    R⋈S⋈T⋈U 120
    (R⋈S)⋈T⋈U 88
    ((R⋈S)⋈T)⋈U 92
    """
    total = 0.0
    for source in range(shape.size):
        levels = _upwards(tree, source)
        joined = {source}
        for depth, siblings in enumerate(levels):
            for sibling in _ordered(siblings, source, sorted(joined - {source}), shape, expected):
                total += probe * expected(source, frozenset(joined))
                joined.update(leaves(sibling))
                total += expected(source, frozenset(joined))
            if depth < len(levels) - 1:
                total += update * expected(source, frozenset(joined))
    return total


def independent(
    rates: Sequence[float], sizes: Sequence[float], selectivity: Mapping[tuple[int, int], float]
) -> Expected:
    """Tuples per unit time by rates, window sizes and pairwise selectivities, taken as independent of each other.

    >>> independent([2, 1], [10, 10], {(0, 1): 0.1})(0, frozenset({0, 1}))
    2.0
    """

    def expected(source: int, inputs: frozenset[int]) -> float:
        tuples = float(rates[source])
        for i in inputs - {source}:
            tuples *= sizes[i]
        for (a, b), share in selectivity.items():
            if a in inputs and b in inputs:
                tuples *= share
        return tuples

    return expected


def best_tree(shape: Shape, cost: Callable[[Tree], float], trees: Iterable[Tree] | None = None) -> tuple[Tree, float]:
    """The cheapest tree by exhaustive search, over all XJoins unless other trees are given; the first of equals.

    >>> chain = Shape(3, (frozenset({0, 1}), frozenset({1, 2})))
    >>> expected = independent([1, 1, 5], [10, 10, 10], {(0, 1): 0.1, (1, 2): 0.1})
    >>> tree, work = best_tree(chain, lambda t: tree_cost(t, chain, expected))
    >>> render(tree, "RST"), work
    ('(R⋈S)⋈T', 20.0)
    """
    found = [(cost(t), n, t) for n, t in enumerate(binary_trees(shape) if trees is None else trees)]
    work, _, tree = min(found, key=lambda f: f[:2])
    return tree, work
