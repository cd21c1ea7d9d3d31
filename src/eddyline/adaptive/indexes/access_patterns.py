"""Access patterns and their lattice (sections 3, 5.3 and 5.4 of the paper).

A state is searched by a combination of its N join attributes. The combination is a number of N bits, B(ap): the first
attribute is the highest bit, 1 means that the search gives a value for it. ``⟨A1, *, *⟩`` is 100, number 4.

An index on pattern a *benefits* a search by pattern b when every attribute of a is in b (Definition 4). The patterns
form a lattice: the parents of a pattern lack exactly one of its attributes, the top is the full scan, number 0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

FULL_SCAN = 0


def pattern_of(attributes: Iterable[int], n: int) -> int:
    """The number of the pattern that searches by these attributes of ``n``, counted from 0.

    >>> pattern_of([0], 3), pattern_of([1, 2], 3)
    (4, 3)
    """
    return sum(1 << (n - 1 - a) for a in set(attributes))


def attributes_of(pattern: int, n: int) -> tuple[int, ...]:
    """The attributes that a pattern gives values for, in their order.

    >>> attributes_of(0b101, 3)
    (0, 2)
    """
    return tuple(a for a in range(n) if pattern >> (n - 1 - a) & 1)


def spelled(pattern: int, names: Sequence[str]) -> str:
    """A pattern as the paper writes it.

    >>> spelled(0b101, ["A1", "A2", "A3"])
    '⟨A1, *, A3⟩'
    """
    used = attributes_of(pattern, len(names))
    return f"⟨{', '.join(name if a in used else '*' for a, name in enumerate(names))}⟩"


def benefits(one: int, other: int) -> bool:
    """Whether an index on pattern ``one`` provides a search benefit to ``other`` (Definition 4: one ≺ other).

    >>> benefits(0b100, 0b110), benefits(0b001, 0b110)
    (True, False)
    """
    return one & other == one


def parents(pattern: int) -> Iterator[int]:
    """The patterns one level up in the lattice: each lacks one attribute.

    >>> sorted(parents(0b101))
    [1, 4]
    """
    rest = pattern
    while rest:
        lowest = rest & -rest
        yield pattern ^ lowest
        rest ^= lowest


def leaves_first(patterns: Collection[int]) -> list[int]:
    """Patterns with those of more attributes before those that benefit them; of one level by number.

    >>> [f"{p:03b}" for p in leaves_first([0b100, 0b111, 0b001, 0b101])]
    ['111', '101', '001', '100']
    """
    return sorted(patterns, key=lambda p: (-p.bit_count(), p))


def is_leaf(pattern: int, patterns: Iterable[int]) -> bool:
    """Whether the pattern benefits no other one of ``patterns``.

    >>> is_leaf(0b101, [0b101, 0b110]), is_leaf(0b100, [0b100, 0b110])
    (True, False)
    """
    return not any(other != pattern and benefits(pattern, other) for other in patterns)
