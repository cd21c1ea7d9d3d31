"""Key maps of a state module's indexes: bit-address (AMRI) or hashed; and the choice of one of several for a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.core.delta import Int64s
from eddyline.kernels import bit_address as k


@dataclass(frozen=True, slots=True)
class BitAddress:
    """Bits of each join attribute: any search can use the index, and leaves open what it does not ask for."""

    bits: tuple[int, ...]

    @property
    def buckets(self) -> int:
        return 1 << sum(self.bits)


@dataclass(frozen=True, slots=True)
class Hashed:
    """A hash index on some join attributes: it serves the searches that ask for all of them by equality."""

    attributes: tuple[int, ...]


KeyMap = BitAddress | Hashed
IndexSpec = tuple[KeyMap, ...]  # the indexes that each row of a partition is put into


Preference = tuple[int, frozenset[int]]  # the number of an index, and the attributes that a search must give values for


def by_preference(spec: IndexSpec) -> list[Preference]:
    """Indexes in the order in which searches prefer them: a bit-address index, which serves all; hash indices with more
    attributes before those with fewer."""
    bits = [(i, frozenset[int]()) for i, m in enumerate(spec) if isinstance(m, BitAddress)]
    hashed = [(i, frozenset(m.attributes)) for i, m in enumerate(spec) if isinstance(m, Hashed) and m.attributes]
    return bits or sorted(hashed, key=lambda x: -len(x[1]))


def most_suitable(preferred: Sequence[Preference], equal: frozenset[int]) -> int | None:
    """The index that serves a search by values of these attributes: a bit-address index, or the hash index with the
    most of the attributes and no other. None: all rows must be compared.

    >>> most_suitable(by_preference((Hashed((0,)), Hashed((0, 1)), Hashed((1, 2)))), frozenset({0, 2}))
    0
    >>> most_suitable(by_preference((Hashed((0, 1)),)), frozenset({2}))
    """
    for i, attributes in preferred:
        if attributes <= equal:
            return i
    return None


def buckets_of_search(m: BitAddress, parts: Sequence[int | None]) -> list[int]:
    """The buckets that a search visits, given the bits that each attribute's value has; None for a wild card.

    >>> buckets_of_search(BitAddress((5, 2, 3)), [0b00111, None, 0b010])
    [226, 234, 242, 250]
    """
    bits = np.array(m.bits, np.int64)
    lowest = np.array([0 if p is None else p for p in parts], np.int64)
    highest = np.array([(1 << b) - 1 if p is None else p for p, b in zip(parts, m.bits, strict=True)], np.int64)
    out = np.empty(int(np.prod(highest - lowest + 1)), np.int64)
    k.buckets_between(bits, lowest, highest, out)
    found: list[int] = out.tolist()
    return found


def equi_depth(codes: Int64s, bits: int) -> Int64s:
    """Boundaries that divide the values into 2^bits parts of as equal size as repeated values allow.

    >>> equi_depth(np.arange(100), 2).tolist()
    [25, 50, 75]
    """
    parts = 1 << bits
    if len(codes) == 0:
        return np.zeros(parts - 1, np.int64)
    ranked = np.sort(codes)
    return ranked[np.minimum(np.arange(1, parts) * len(ranked) // parts, len(ranked) - 1)]
