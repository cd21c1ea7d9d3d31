"""From correct dimensions to a grid: which dimensions it has, and how many coordinates each of them.

The grid minimizes the number of rows that a shard receives: all rows shipped, copies included, divided by the number of
shards. So rows are copied only where there is no common key, a common key takes all shards, and where a grid
of two dimensions cannot have exactly the number of shards asked for, fewer shards with fewer copies win. Among equals
fewer dimensions are better, then more shards, then the more even grid. Constant relations cost nothing: they are not
shipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Final

ANY: Final = "*"  # in a split: rows may be spread in any way along this dimension

Choice = tuple[str | None, ...]  # one dimension: for every scan a source column, ANY, or None where it is copied
Split = tuple[str | None, ...]  # one scan or lane: the same for every dimension

MAX_DIMENSIONS = 3  # each more copies every input that does not have it
MAX_CANDIDATES = 8  # dimensions that are compared: all combinations of up to MAX_DIMENSIONS of them


@dataclass(frozen=True, slots=True)
class Source:
    """What a scan reads. Constant relations and side streams are not shipped."""

    name: str
    alias: str
    rate: float = 1.0
    constant: bool = False
    shipped: bool = True


@dataclass(frozen=True, slots=True)
class Grid:
    shares: tuple[int, ...]
    dimensions: tuple[Choice, ...]


def choose(choices: Sequence[Choice], sources: Sequence[Source], shards: int) -> Grid:
    """The grid of at most ``shards`` shards in which a shard receives the fewest rows.

    >>> r, s = Source("R", "R"), Source("S", "S")
    >>> choose([("a", "a"), (ANY, None)], [r, s], 7)
    Grid(shares=(7,), dimensions=(('a', 'a'),))
    >>> choose([(ANY, None), (None, ANY)], [r, s], 7)  # a product: 3 copies of R and 2 of S, for 6 shards
    Grid(shares=(2, 3), dimensions=(('*', None), (None, '*')))
    >>> choose([(ANY, None), (None, ANY)], [Source("R", "R", 99.0), s], 7)
    Grid(shares=(7,), dimensions=(('*', None),))
    """
    candidates = _worth_it(choices, sources)
    best, least = Grid((), ()), (float("inf"), 0, 0, 0)
    for count in range(1, min(MAX_DIMENSIONS, len(candidates)) + 1):
        for dimensions in combinations(candidates, count):
            found, _ = joint_lanes([(s, tuple(d[i] for d in dimensions)) for i, s in enumerate(sources)])
            for shares in _shares(shards, count):
                cost = (_received(found, shares), count, -prod(shares), max(shares))
                if cost < least:
                    best, least = Grid(shares, dimensions), cost
    return best


def _received(lanes: Sequence[tuple[Source, Split]], shares: Sequence[int]) -> float:
    """The rows that one shard receives: of each lane one part in as many as it is split into."""
    return sum(
        source.rate / prod(n for column, n in zip(split, shares, strict=True) if column is not None)
        for source, split in lanes
        if source.shipped
    )


def copies(split: Split, shares: Sequence[int]) -> int:
    """How often a row of a lane is shipped."""
    return prod(n for column, n in zip(split, shares, strict=True) if column is None)


def joint_lanes(ways: Sequence[tuple[Source, Split]]) -> tuple[list[tuple[Source, Split]], list[int]]:
    """Scans of one input that travel alike share a lane; ``ANY`` goes with every column. The lanes, and each scan's."""
    lanes: list[tuple[Source, Split]] = []
    places = []
    for source, split in ways:
        for place, (other, taken) in enumerate(lanes):
            together = travel_together(taken, split) if other.name == source.name else None
            if together is not None:
                lanes[place] = (other, together)
                break
        else:
            place = len(lanes)
            lanes.append((source, split))
        places.append(place)
    return lanes, places


def travel_together(one: Split, other: Split) -> Split | None:
    """How rows travel that two ways of splitting agree with; None: there is no such way."""
    joint: list[str | None] = []
    for a, b in zip(one, other, strict=True):
        if a is None or b is None:
            if a is not b:
                return None
            joint.append(None)
        elif a == b or ANY in (a, b):
            joint.append(b if a == ANY else a)
        else:
            return None
    return tuple(joint)


def _worth_it(choices: Sequence[Choice], sources: Sequence[Source]) -> list[Choice]:
    """Of several dimensions the one that copies less; of those that copy the same, the one with the fewest lanes, then
    with the fewest constant relations in full, then the first."""

    def copied(choice: Choice, constant: bool) -> frozenset[int]:
        pairs = enumerate(zip(choice, sources, strict=True))
        return frozenset(i for i, (c, s) in pairs if c is None and s.constant is constant)

    def order(choice: Choice) -> tuple[float, int, int]:
        shipped = sum(sources[i].rate for i in copied(choice, False))
        lanes, _ = joint_lanes([(s, (c,)) for s, c in zip(sources, choice, strict=True)])
        return shipped, len(lanes), len(copied(choice, True))

    kept: list[Choice] = []
    for choice in sorted(choices, key=order):
        if not any(copied(k, False) <= copied(choice, False) for k in kept):
            kept.append(choice)
    return sorted(kept[:MAX_CANDIDATES], key=choices.index)


def _shares(shards: int, dimensions: int) -> Iterator[tuple[int, ...]]:
    """Ways to give every dimension two coordinates or more. A larger share never brings a shard more rows, so the last
    one is as large as it can be.

    >>> list(_shares(9, 2))
    [(2, 4), (3, 3), (4, 2)]
    """
    if dimensions == 1:
        if shards >= 2:
            yield (shards,)
        return
    for first in range(2, shards // 2 ** (dimensions - 1) + 1):
        if first <= 32 or first % (1 << (first.bit_length() - 3)) == 0:  # finer steps there change next to nothing
            for rest in _shares(shards // first, dimensions - 1):
                yield (first, *rest)
