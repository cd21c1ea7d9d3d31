"""Index migration: which stored partitions get the new configuration (section 8).

``all`` re-indexes every partition, ``nothing`` none: stored tuples keep the index they have, and arriving tuples get
the new one. ``partial`` re-indexes the partitions whose in-process searches gain more than the migration costs:

    B_m(IC, BIC) = C_s(IC) − (C_s(BIC) + C_m(IC, BIC)) > 0                                            (Equation 3)

C_s is the cost of the searches in process whose windows contain the partition, C_m the cost of moving its tuples: for
each a new bucket and an insertion, the old bucket and a deletion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eddyline.adaptive.indexes.cost import EQUAL_COSTS, Configuration, UnitCosts, Workload, dependent_cost

MIGRATIONS = ("nothing", "all", "partial")


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
    >>> [to_migrate(method, old, (0, 4), {0b01: 1.0}) for method in MIGRATIONS]
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
