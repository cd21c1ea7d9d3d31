"""Index migration: which stored partitions get the new configuration (section 8), and whether new bits pay at all.

``all`` re-indexes every partition, ``nothing`` none: stored tuples keep the index they have, and arriving tuples get
the new one. ``partial`` re-indexes the partitions whose in-process searches gain more than the migration costs:

    B_m(IC, BIC) = C_s(IC) − (C_s(BIC) + C_m(IC, BIC)) > 0                                            (Equation 3)

C_s is the cost of the searches in process whose windows contain the partition, C_m the cost of moving its tuples: for
each a new bucket and an insertion, the old bucket and a deletion.

``expected`` is ours. Equation 3 knows the searches in process, but those to come look into stored partitions too, until
these have left; and a search goes through every different index of the window, so that an old index also costs the
visits of its empty buckets. ``least_expected`` adds up what the searches of one window to come will cost, while rows
leave and others arrive, for every number of newest runs of partitions that are re-indexed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.adaptive.indexes.cost import EQUAL_COSTS, Configuration, UnitCosts, Workload, dependent_cost
from eddyline.adaptive.indexes.index_sets import IndexSet, costs_of_searches, insertion, upkeep
from eddyline.core.delta import Float64s

EXPECTED = "expected"
MIGRATIONS = (EXPECTED, "nothing", "all", "partial")
MOMENTS = 8  # of the window to come at which the cost of a search is estimated


@dataclass(frozen=True, slots=True)
class StoredPartition:
    """A time partition of a state: its index configuration, its tuples, and the in-process searches that will still
    look into it."""

    configuration: Configuration
    rows: int
    searches: int


def to_migrate(
    method: str,
    partitions: Sequence[StoredPartition],
    best: Configuration,
    frequencies: Mapping[int, float],
    unit: UnitCosts = EQUAL_COSTS,
) -> list[int]:
    """The places of the partitions that are re-indexed.

    >>> old = [StoredPartition((4, 0), 2500, 0), StoredPartition((4, 0), 2500, 9000), StoredPartition((0, 4), 2500, 9)]
    >>> [to_migrate(method, old, (0, 4), {0b01: 1.0}) for method in ("nothing", "all", "partial")]
    [[], [0, 1], [1]]
    """
    other = [i for i, p in enumerate(partitions) if p.configuration != best]
    if method == "nothing":
        return []
    if method == "all":
        return other
    return [i for i in other if migration_benefit(partitions[i], best, frequencies, unit) > 0]


def migration_benefit(
    partition: StoredPartition, best: Configuration, frequencies: Mapping[int, float], unit: UnitCosts = EQUAL_COSTS
) -> float:
    """B_m of one partition."""
    load = Workload(float(partition.rows), float(partition.searches), 1.0, frequencies)
    before, after = (_search_cost(c, load, unit) for c in (partition.configuration, best))
    return before - (after + migration_cost(partition, best, unit))


def migration_cost(partition: StoredPartition, best: Configuration, unit: UnitCosts = EQUAL_COSTS) -> float:
    """C_m: (C_hash,I + C_insert) + (C_hash,SR + C_delete) for each tuple."""
    new = sum(bits > 0 for bits in best) * unit.hash + unit.insert
    old = sum(bits > 0 for bits in partition.configuration) * unit.hash + unit.delete
    return partition.rows * (new + old)


def _search_cost(configuration: Configuration, load: Workload, unit: UnitCosts) -> float:
    """C_s: no tuple arrives in a stored partition, so C_D without its term for insertions."""
    indexed = sum(bits > 0 for bits in configuration)
    return dependent_cost(configuration, load, unit) - load.arrivals * indexed * unit.hash


@dataclass(frozen=True, slots=True)
class IndexedRun:
    """Consecutive partitions with the same indexes, their rows and how many partitions they are."""

    indexes: IndexSet
    rows: int
    partitions: int


def runs_of(partitions: Sequence[tuple[IndexSet, int]]) -> list[IndexedRun]:
    """Partitions, each with its indexes and rows, with equal neighbours together, the oldest first.

    >>> old, new = (("bits", 4, 0),), (("hashed", 1),)
    >>> [(r.indexes, r.rows, r.partitions) for r in runs_of([(old, 10), (old, 10), (new, 5)])]
    [((('bits', 4, 0),), 20, 2), ((('hashed', 1),), 5, 1)]
    """
    runs: list[IndexedRun] = []
    for indexes, rows in partitions:
        if runs and runs[-1].indexes == indexes:
            last = runs.pop()
            runs.append(IndexedRun(indexes, last.rows + rows, last.partitions + 1))
        else:
            runs.append(IndexedRun(indexes, rows, 1))
    return runs


def least_expected(
    runs: Sequence[IndexedRun], indexes: IndexSet, n: int, load: Workload, unit: UnitCosts = EQUAL_COSTS
) -> tuple[float, int]:
    """The least expected cost of a window to come in which new rows get ``indexes`` of the ``n`` attributes, and how
    many partitions, the newest, are re-indexed for it.

    >>> stored = [IndexedRun((("bits", 4, 0),), 1000, 4)]
    >>> few, many = (Workload(1000, searches, 1.0, {0b01: 1.0}) for searches in (2, 5_000))
    >>> [least_expected(stored, (("bits", 0, 4),), 2, load)[1] for load in (few, many)]
    [0, 4]
    """
    return ExpectedCosts(runs, n, load, unit).least(indexes)


class ExpectedCosts:
    """The cost of one window to come: the upkeep of arriving rows, the migration of the newest runs, which puts their
    rows into new indexes and leaves the old ones, and searches: each batch of them goes through the indexes of all runs
    that still have rows.

    What the searches of a run cost until its rows have left does not depend on the indexes of the others, so it is
    computed once for all that are compared."""

    def __init__(self, runs: Sequence[IndexedRun], n: int, load: Workload, unit: UnitCosts = EQUAL_COSTS) -> None:
        self.runs, self.n, self.load, self.unit = runs, n, load, unit
        rows = np.array([r.rows for r in runs], np.float64)
        self._older = np.concatenate([[0.0], np.cumsum(rows)])  # rows of the runs before each
        stored = float(self._older[-1])
        total = max(stored, load.rows)
        self._arrived = total * (np.arange(MOMENTS) + 0.5) / MOMENTS
        self._gone = np.maximum(0.0, self._arrived - (total - stored))  # none leaves before the window is full
        self._each = load.searches / MOMENTS
        alive = np.maximum(0.0, rows[:, None] - np.maximum(0.0, self._gone - self._older[:-1, None]))
        calls = self._each / load.batch * unit.call * (alive > 0).sum(axis=1)
        searches = [
            float(costs_of_searches(run.indexes, n, left, load, unit).sum())
            for run, left in zip(runs, alive, strict=True)
        ]
        self._kept = np.concatenate([[0.0], np.cumsum(self._each * np.array(searches, np.float64) + calls)])

    def by_moved(self, indexes: IndexSet) -> Float64s:
        """The cost if new rows get these indexes and none, the newest, the two newest … runs are re-indexed for it."""
        before = [0]  # by number of runs that are not moved: how many keep indexes of their own
        for number, run in enumerate(self.runs, 1):
            before.append(before[-1] if run.indexes == indexes else number)  # equal neighbours share their indexes
        kept = np.array(before[::-1], np.int64)
        joined = self._older[-1] - self._older[kept]
        newest = self._arrived + np.maximum(
            0.0, joined[:, None] - np.maximum(0.0, self._gone - self._older[kept, None])
        )
        searches = costs_of_searches(indexes, self.n, newest.reshape(-1), self.load, self.unit).reshape(newest.shape)
        moving = joined * upkeep(indexes, self.unit) + self.unit.build
        moving[0] = 0.0
        inserting = insertion(indexes, self.load, self.unit)
        costs: Float64s = inserting + self._kept[kept] + moving + self._each * searches.sum(axis=1)
        return costs

    def least(self, indexes: IndexSet) -> tuple[float, int]:
        """The least of these costs, and how many partitions are re-indexed for it."""
        costs = self.by_moved(indexes)
        moved = int(np.argmin(costs))
        return float(costs[moved]), sum(r.partitions for r in self.runs[len(self.runs) - moved :])
