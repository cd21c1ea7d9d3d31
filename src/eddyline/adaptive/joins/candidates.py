"""Candidate caches for given pipelines: which segments may be cached, how they are maintained, which exclude others.

Sections 5.4, 5.5.1 and 5.7 of the thesis. Pipelines, operators and inputs are numbered from 0. A *maintenance point*
(l, q) is the place in ΔR_l's pipeline after its first q operators: the tuples that pass there are the changes of the
cached join that an element of R_l causes.

The rules here are the assumptions of the proof in ``operators.cache_consistency``, where plans are checked once more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from eddyline.adaptive.joins.shape import Orders, Shape

Store = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int]  # segment, key, support, anchor (-1: none)


@dataclass(frozen=True, slots=True, order=True)
class Candidate:
    """A cache of the operators ``first`` to ``last`` of a pipeline.

    ``segment`` are the inputs that these operators join with, ``key`` the equality classes that link the segment with
    what is bound before it. ``support`` is the Y of a globally-consistent cache X ⋉ Y (section 5.7): the cache holds
    what joins with something in Y, and the updates of X ⋈ Y maintain it. Without support the cache is exact and
    satisfies the prefix invariant.

    A condition other than an equality between the segment and what comes before is no part of the key: a join that
    takes a value out of the cache still has to check it.

    >>> cache = Candidate(2, 0, 1, (0, 1), (1,))
    >>> cache.label("RST"), cache.operators
    ('R⋈S in ΔT', range(0, 2))
    >>> Candidate(0, 0, 1, (1, 2), (0,), (0,)).label("RST")
    '(S⋈T)⋉R in ΔR'
    """

    pipeline: int
    first: int
    last: int
    segment: tuple[int, ...]
    key: tuple[int, ...]
    support: tuple[int, ...] = ()

    @property
    def store(self) -> Store:
        """The identity of the cache's contents: candidates with equal stores are shared caches (Definition 5.5.1).

        An entry of an anchored cache stays valid as long as rows of its own pipeline do, so it is never shared.

        >>> exact = [Candidate(i, 0, 1, (0, 1), (0,)).store for i in (2, 3)]
        >>> anchored = [Candidate(i, 0, 1, (0, 1), (0,), (2, 3)).store for i in (2, 3)]
        >>> exact[0] == exact[1], anchored[0] == anchored[1]
        (True, False)
        """
        return self.segment, self.key, self.support, self.pipeline if self.anchored else -1

    @property
    def operators(self) -> range:
        return range(self.first, self.last + 1)

    @property
    def anchored(self) -> bool:
        """Whether the support holds the pipeline's own input. The probing element is not yet (or no longer) a row of
        that input, so an entry is valid only while a live row of it with the same key, an *anchor*, exists."""
        return self.pipeline in self.support

    @property
    def inputs(self) -> tuple[int, ...]:
        """Segment and support together: the join whose updates maintain the cache."""
        return tuple(sorted(self.segment + self.support))

    def label(self, names: Sequence[str]) -> str:
        def joined(inputs: tuple[int, ...], brackets: bool) -> str:
            text = "⋈".join(names[i] for i in inputs)
            return f"({text})" if brackets and len(inputs) > 1 else text

        support = f"⋉{joined(self.support, True)}" if self.support else ""
        return f"{joined(self.segment, bool(support))}{support} in Δ{names[self.pipeline]}"

    def state(self) -> list[Any]:
        """As plain lists; ``Candidate.load`` is the inverse."""
        return [self.pipeline, self.first, self.last, list(self.segment), list(self.key), list(self.support)]

    @staticmethod
    def load(state: Sequence[Any]) -> Candidate:
        pipeline, first, last, segment, key, support = state
        return Candidate(int(pipeline), int(first), int(last), tuple(segment), tuple(key), tuple(support))


def prefix_invariant(inputs: Iterable[int], orders: Orders) -> bool:
    """Definition 5.4.2: the pipeline of each of these inputs joins with the others of them before anything else.

    Example 5.4.3, where ΔR1, ΔR2 and ΔR3 have the orders R2 R3, R3 R1 and R2 R1:

    >>> orders = [(1, 2), (2, 0), (1, 0)]
    >>> prefix_invariant({1, 2}, orders), prefix_invariant({0, 1}, orders)
    (True, False)
    """
    group = set(inputs)
    return all(group.issuperset(orders[i][: len(group) - 1]) for i in group)


def maintenance(candidate: Candidate, orders: Orders) -> tuple[tuple[int, int], ...]:
    """The maintenance points (l, q) of a cache: one in the pipeline of each input of its segment and support.

    >>> maintenance(Candidate(2, 0, 1, (0, 1), (1,)), [(1, 2), (0, 2), (1, 0)])
    ((0, 1), (1, 1))
    """
    if not prefix_invariant(candidate.inputs, orders):
        raise ValueError(f"the prefix invariant does not hold for {candidate.inputs} in the orders {orders}")
    return _points(candidate)


def _points(candidate: Candidate) -> tuple[tuple[int, int], ...]:
    inputs = candidate.inputs
    return tuple((i, len(inputs) - 1) for i in inputs)


def _segments(shape: Shape, orders: Orders) -> Iterator[Candidate]:
    """All segments with at least one join and no product, with their keys, whether or not they can be maintained."""
    for pipeline, order in enumerate(orders):
        for first in range(len(order)):
            for last in range(first + 1, len(order)):
                if (found := _segment(shape, orders, pipeline, first, last)) is not None:
                    yield found


def _segment(shape: Shape, orders: Orders, pipeline: int, first: int, last: int) -> Candidate | None:
    order = orders[pipeline]
    segment = tuple(sorted(order[first : last + 1]))
    key = shape.shared((pipeline, *order[:first]), segment)
    return Candidate(pipeline, first, last, segment, key) if key and shape.whole(segment) else None


def prefix_caches(shape: Shape, orders: Orders) -> list[Candidate]:
    """All caches that satisfy the prefix invariant, by pipeline and place.

    >>> chain = Shape(3, (frozenset({0, 1}), frozenset({1, 2})))
    >>> [c.label("RST") for c in prefix_caches(chain, [(1, 2), (0, 2), (1, 0)])]
    ['R⋈S in ΔT']
    """
    groups = _prefix_groups(orders)
    found = []
    for pipeline, order in enumerate(orders):
        for first in range(len(order)):
            group = 0
            for last, joined in enumerate(order[first:], first):
                group |= 1 << joined
                if last > first and group in groups:
                    found.append((pipeline, first, last))
    return [c for place in found if (c := _segment(shape, orders, *place)) is not None]


def _prefix_groups(orders: Orders) -> frozenset[int]:
    """The sets of inputs, as bits, that satisfy the prefix invariant: each of a set's inputs joins the others first.

    So a set of k inputs is the k-th prefix of each of them. Counting equal prefixes finds all such sets without trying
    every segment of every pipeline against every order.
    """
    counts: Counter[tuple[int, int]] = Counter()
    for pipeline, order in enumerate(orders):
        group = 1 << pipeline
        for size, joined in enumerate(order, 2):
            group |= 1 << joined
            counts[size, group] += 1
    return frozenset(group for (size, group), count in counts.items() if count == size)


def globally_consistent(shape: Shape, orders: Orders, m: int, p: int) -> list[Candidate]:
    """The m − p candidates X ⋉ Y of section 5.7: X all but one window, then all but two, and so on.

    Y is the smallest set that makes X ∪ Y satisfy the prefix invariant (all windows always do). Where the thesis
    selects arbitrarily, small supports come first, then pipelines and places in order.

    >>> chain = Shape(3, (frozenset({0, 1}), frozenset({1, 2})))
    >>> [c.label("RST") for c in globally_consistent(chain, [(1, 2), (0, 2), (1, 0)], 6, 1)]
    ['(S⋈T)⋉R in ΔR']
    """
    if m <= p:
        return []
    inexact = [c for c in _segments(shape, orders) if not prefix_invariant(c.segment, orders)]
    found = [s for c in inexact if (s := _supported(c, shape, orders)) is not None]
    found.sort(key=lambda c: (-len(c.segment), len(c.support), c.pipeline, c.first))
    return found[: m - p]


def _supported(candidate: Candidate, shape: Shape, orders: Orders) -> Candidate | None:
    """The segment with the smallest support that makes it a candidate; without the pipeline's own input on ties."""
    own, segment = candidate.pipeline, candidate.segment
    others = [i for i in range(shape.size) if i not in segment]
    for size in range(1, len(others) + 1):
        for support in sorted(combinations(others, size), key=lambda s: (own in s, s)):
            group = {*segment, *support}
            if not prefix_invariant(group, orders):
                continue
            key = candidate.key
            if own in support:
                rest = group - {own}
                # An anchor stands for the element only if nothing but the key decides what the two join with.
                if any(own in pair and pair & rest for pair in shape.thetas):
                    continue
                key = tuple(sorted({*key, *shape.shared((own,), rest)}))
            return Candidate(own, candidate.first, candidate.last, segment, key, support)
    return None


def candidates(shape: Shape, orders: Orders, m: int = 6) -> list[Candidate]:
    """The candidate caches: all that satisfy the prefix invariant and, up to ``m`` in all, globally-consistent ones.

    With p ≥ m prefix-invariant caches there are no others (section 5.7), and m = 0 never has others.

    >>> chain = Shape(3, (frozenset({0, 1}), frozenset({1, 2})))
    >>> [c.label("RST") for c in candidates(chain, [(1, 2), (0, 2), (1, 0)])]
    ['R⋈S in ΔT', '(S⋈T)⋉R in ΔR']
    """
    exact = prefix_caches(shape, orders)
    return exact + globally_consistent(shape, orders, m, len(exact))


def conflicts(a: Candidate, b: Candidate, orders: Orders) -> bool:
    """Whether two caches cannot be used together.

    1. They overlap in a pipeline.
    2. A hit in one skips a maintenance point of the other, which then misses an update.
    3. One maintains itself behind a globally-consistent cache that withholds tuples it needs: what a cache X ⋉ Y leaves
       out, because it joins with nothing in Y, may only be missing where X ∪ Y has to join anyway.

    Caches that satisfy the prefix invariant conflict by overlap alone.

    >>> orders = [(1, 2), (0, 2), (1, 0)]
    >>> exact, wide = Candidate(2, 0, 1, (0, 1), (1,)), Candidate(0, 0, 1, (1, 2), (0,), (0,))
    >>> conflicts(exact, wide, orders)  # a hit in ΔR skips the point (0, 1) that maintains R⋈S
    True
    """
    if a == b:
        return False
    if a.pipeline == b.pipeline and a.first <= b.last and b.first <= a.last:
        return True
    return _disturbs(a, b) or _disturbs(b, a)


def _disturbs(used: Candidate, maintained: Candidate) -> bool:
    for place, after in _points(maintained):
        if place != used.pipeline:
            continue
        if used.first < after <= used.last:
            return True
        if used.support and used.last < after and not set(used.inputs).issubset(maintained.inputs):
            return True
    return False


def still_valid(used: Iterable[Candidate], old: Orders, new: Orders) -> tuple[Candidate, ...]:
    """The caches that survive a re-ordering: their own pipeline is as it was, and those that maintain them still do.

    Step 5 of section 5.5.5 removes the caches *in* the re-ordered pipelines. The prefix invariant of a cache elsewhere
    can break too, and would leave it without updates.

    >>> cache = Candidate(2, 0, 1, (0, 1), (1,))
    >>> still_valid([cache], [(1, 2), (0, 2), (1, 0)], [(1, 2), (2, 0), (1, 0)])
    ()
    """
    return tuple(
        c for c in used if tuple(old[c.pipeline]) == tuple(new[c.pipeline]) and prefix_invariant(c.inputs, new)
    )
