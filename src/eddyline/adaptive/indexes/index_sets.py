"""What a set of indexes of a state costs and takes: one bit-address index, or any number of hash indices.

An index is a tuple of *bits* (``("bits", 3, 1)``) or of *hashed* attributes (``("hashed", 0, 2)``). A search by a
pattern uses the bit-address index, or the hash index with the most attributes of those that it gives a value for each
attribute of; without one it compares all rows. With S = the probability that two rows agree in the attributes of a hash
index of b buckets, a search of it costs

    N_A·C_h + C_b + rows·(S + (1 − S) / b)·C_c

``best_hashes`` adds hash indices one after another, each time the one that saves most. All patterns that are asked for
and all single attributes are candidates, so that the ``hash(n)`` of the most frequent patterns and the ``single`` index
on each attribute are among the sets that it could find.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from eddyline.adaptive.indexes.access_patterns import attributes_of, pattern_of
from eddyline.adaptive.indexes.cost import EQUAL_COSTS, UnitCosts, Workload, costs_of_all_rows, search_costs
from eddyline.core.delta import Bools, Float64s

IndexKey = tuple[Any, ...]  # ("bits", …) or ("hashed", …)
IndexSet = tuple[IndexKey, ...]

BITS, HASHED = "bits", "hashed"
HEAD_BYTES, SLOT_BYTES = 2, 2.25  # of a bucket; of a row in an index, with the free slots of its ring
LEAST_BUCKETS = 64
MOST_HASHES = 16  # of one state
WORTH_A_HASH = 1.01  # ratio of costs from which one more hash index is taken


def bits_of(indexes: Sequence[IndexKey], n: int) -> tuple[int, ...]:
    """The bits of each attribute, none where there is no bit-address index."""
    return next((tuple(int(b) for b in rest) for kind, *rest in indexes if kind == BITS), (0,) * n)


def upkeep(indexes: Sequence[IndexKey], unit: UnitCosts = EQUAL_COSTS) -> float:
    """The cost of a row that is put into the indexes.

    >>> upkeep((("hashed", 0), ("hashed", 0, 2))), upkeep((("bits", 3, 0, 1),))
    (5.0, 3.0)
    """
    return sum(map(_hashes, indexes)) * unit.hash + len(indexes) * unit.insert


@lru_cache(maxsize=1 << 12)
def _hashes(index: IndexKey) -> int:
    """Those that the insertion of a row takes."""
    return sum(b > 0 for b in index[1:]) if index[0] == BITS else len(index) - 1


def insertion(indexes: Sequence[IndexKey], load: Workload, unit: UnitCosts = EQUAL_COSTS) -> float:
    """The cost of the rows that arrive in a window: of each row, and what a batch of them costs beside its rows.

    >>> load = Workload(1000, 0, 1.0, {}, brought=50)
    >>> insertion((("hashed", 0), ("hashed", 1)), load, UnitCosts(put=40.0, put_more=10.0))
    5000.0
    >>> insertion((), load, UnitCosts(put=40.0, put_more=10.0))
    0.0
    """
    batches = load.arrivals / load.brought
    calls = unit.put + (len(indexes) - 1) * unit.put_more if indexes else 0.0
    return load.arrivals * upkeep(indexes, unit) + batches * calls


@lru_cache(maxsize=1 << 12)  # a decision asks for those of few numbers of rows, hundreds of times
def hash_buckets(rows: float) -> int:
    """Buckets of a hash index: one for each row or for two rows.

    >>> hash_buckets(10), hash_buckets(1000), hash_buckets(1024)
    (64, 512, 1024)
    """
    return max(LEAST_BUCKETS, 1 << (max(1, round(rows)).bit_length() - 1))


def bytes_of(indexes: Sequence[IndexKey], rows: float) -> float:
    """The memory of the indexes of a state with that many rows; a bit-address index without bits is one bucket.

    >>> bytes_of((("bits", 4, 2),), 1000), bytes_of((("hashed", 0), ("hashed", 1)), 1000)
    (2378.0, 6548.0)
    """
    if indexes and indexes[0][0] == HASHED:
        buckets = len(indexes) * hash_buckets(rows)
    else:
        buckets = sum(1 << sum(index[1:]) for index in indexes)
    return HEAD_BYTES * buckets + SLOT_BYTES * rows * len(indexes)


def costs_of_searches(
    indexes: Sequence[IndexKey], n: int, rows: Float64s, load: Workload, unit: UnitCosts = EQUAL_COSTS
) -> Float64s:
    """What one search of the load costs on average in partitions with these indexes of ``n`` attributes, for each of
    several numbers of their rows.

    >>> load = Workload(1000, 1000, 1.0, {0b10: 0.5, 0b11: 0.5}, agreeing={0: 0.01, 1: 0.01})
    >>> costs_of_searches((("hashed", 0),), 2, np.array([1024.0]), load).round(2).tolist()
    [13.23]
    >>> costs_of_searches((("hashed", 1),), 2, np.array([1024.0]), load).round(2).tolist()
    [518.62]
    """
    if any(kind == BITS for kind, *_ in indexes):
        return search_costs(bits_of(indexes, n), rows, load, unit)
    keys = [*_by_attributes(indexes), ()]  # comparing all rows serves every search
    first = np.argmax(_serves(keys, n, load), axis=0)
    each = _costs_by_hash(keys, n, rows, load, unit)[:, first]
    each = np.where(first == len(keys) - 1, costs_of_all_rows(n, rows, load, unit), each)
    average: Float64s = each @ load.patterns(n).frequencies
    return average


def costs_of_hash_sets(sets: Sequence[IndexSet], n: int, load: Workload, unit: UnitCosts = EQUAL_COSTS) -> Float64s:
    """As ``costs_of_searches`` for each of several sets of hash indices, in a state with the rows of the load.

    >>> load = Workload(1024, 1000, 1.0, {0b10: 0.5, 0b11: 0.5}, agreeing={0: 0.01, 1: 0.01})
    >>> costs_of_hash_sets([(), (("hashed", 0),), (("hashed", 1),)], 2, load).round(2).tolist()
    [1024.0, 13.23, 518.62]
    """
    ordered = [_by_attributes(s) for s in sets]
    keys = [(), *dict.fromkeys(attributes for some in ordered for attributes in some)]
    place = {attributes: i for i, attributes in enumerate(keys)}
    width = max(map(len, ordered), default=0) + 1  # the last place of each set is that of comparing all rows
    chosen = np.array([[*(place[a] for a in some), *[0] * (width - len(some))] for some in ordered], np.int64)
    rows = np.array([load.rows])
    each = _costs_by_hash(keys, n, rows, load, unit)[0]
    first = np.argmax(_serves(keys, n, load)[chosen], axis=1)
    index = np.take_along_axis(chosen, first, axis=1)
    by_search = np.where(index == 0, costs_of_all_rows(n, rows, load, unit), each[index])
    costs: Float64s = by_search @ load.patterns(n).frequencies
    return costs


def best_hashes(n: int, load: Workload, unit: UnitCosts = EQUAL_COSTS, most: int = MOST_HASHES) -> list[IndexSet]:
    """Sets of one, two, … hash indices, each the one before and the index that then saves most, as long as one does.
    The most selective one comes first: a search takes the first of those that serve it by as many attributes.

    >>> load = Workload(1000, 9000, 1.0, {0b110: 0.5, 0b100: 0.3, 0b001: 0.2}, agreeing={0: 0.01, 1: 0.3, 2: 0.01})
    >>> best_hashes(3, load)
    [(('hashed', 0),), (('hashed', 0), ('hashed', 2)), (('hashed', 0, 1), ('hashed', 0), ('hashed', 2))]
    """
    asked = load.patterns(n).frequencies * load.searches
    ranges = pattern_of(load.admitted, n)  # a hash index serves searches by values
    wanted = {*(p & ~ranges for p in load.frequencies), *(pattern_of([a], n) & ~ranges for a in range(n))} - {0}
    masks = np.array(sorted(wanted), np.int64)
    candidates = [attributes_of(int(m), n) for m in masks]
    served = _serves(candidates, n, load)
    given = masks[:, None] >> np.arange(n - 1, -1, -1) & 1 == 1
    same = np.where(given, load.patterns(n).agreeing, 1.0).prod(axis=1)
    compared = load.rows * (same + (1 - same) / hash_buckets(load.rows))
    each = given.sum(axis=1) * unit.hash + unit.visit + compared * unit.compare
    costs = np.where(served, each[:, None], np.inf)
    inserting = load.arrivals * (given.sum(axis=1) * unit.hash + unit.insert)
    first, more = (inserting + load.arrivals / load.brought * put for put in (unit.put, unit.put_more))
    now = costs_of_all_rows(n, np.array([load.rows]), load, unit)[0]
    total = float((asked * now).sum())
    sets: list[IndexSet] = []
    chosen: list[tuple[float, IndexKey]] = []
    while len(chosen) < min(most, len(candidates)):
        after = np.minimum(now, costs) @ asked + (more if chosen else first)
        at = int(np.argmin(after))
        if after[at] * WORTH_A_HASH >= total:
            break
        chosen = sorted([*chosen, (float(same[at]), (HASHED, *candidates[at]))])
        sets.append(tuple(index for _, index in chosen))
        now = np.minimum(now, costs[at])
        total = float((now * asked).sum())
    return sets


def _by_attributes(indexes: IndexSet | Sequence[IndexKey]) -> list[tuple[int, ...]]:
    """The attributes of hash indices. A search takes the index with the most attributes, of several the first: these
    come first."""
    return sorted([index[1:] for index in indexes], key=len, reverse=True)


def _costs_by_hash(
    keys: Sequence[tuple[int, ...]], n: int, rows: Float64s, load: Workload, unit: UnitCosts
) -> Float64s:
    """What a search costs in a state with these numbers of rows (down) by a hash index on these attributes (across). An
    index without attributes stands for comparing all rows; what that costs depends on the search."""
    # The probability that two rows agree in all attributes of an index, as if these were independent.
    agreeing = load.patterns(n).agreeing.tolist()
    same = np.array([prod(agreeing[a] for a in key) for key in keys])
    buckets = np.array([hash_buckets(r) for r in rows.tolist()])[:, None]
    hashes = np.array([len(key) for key in keys])
    compared = rows[:, None] * (same + (1 - same) / buckets)
    costs: Float64s = hashes * unit.hash + unit.visit + compared * unit.compare
    return costs


def _serves(keys: Sequence[tuple[int, ...]], n: int, load: Workload) -> Bools:
    """Which index (down) serves which pattern of the load (across): each of its attributes is asked for."""
    masks = np.array([_pattern(key, n) for key in keys], np.int64)
    found: Bools = (masks[:, None] & load.patterns(n).masks[None, :]) == masks[:, None]
    return found


_pattern = lru_cache(maxsize=1 << 12)(pattern_of)  # a decision asks for those of hundreds of indexes
