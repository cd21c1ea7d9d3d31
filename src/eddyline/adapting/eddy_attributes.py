"""The attributes by which an eddy may classify rows: which columns, partitioned how, and what their classes are.

Columns that are cheap to partition may classify: numbers, Booleans, times and strings, as far as the query reads them.
Strings and Booleans are partitioned by hash, doubles and times by range; whole numbers by hash if the first rows show
few values (identifiers of sensors, ports), else by range.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as t

from eddyline.adaptive.routing.partition import HashPartition, RangePartition
from eddyline.core.delta import Bools, Int64s

ROWS_TO_CHOOSE_CLASSES: Final = 2048  # in which the different values of a column of whole numbers are counted
VALUES_PER_CLASS: Final = 2  # up to which whole numbers are hashed into classes; beyond, classes are ranges


def may_classify(type: pa.DataType) -> bool:
    """
    >>> [may_classify(type) for type in (pa.int64(), pa.string(), pa.list_(pa.int64()), pa.binary())]
    [True, True, False, False]
    """
    if t.is_dictionary(type):
        return may_classify(type.value_type)
    return bool(
        t.is_integer(type)
        or t.is_floating(type)
        or t.is_boolean(type)
        or t.is_string(type)
        or t.is_timestamp(type)
        or t.is_date32(type)
    )


class Attributes:
    """Columns with their partitions, chosen when the first rows are seen.

    >>> found = Attributes.of({"room": pa.array(["a", "b"] * 200), "light": pa.array([0.5, 4.0] * 200)}, d=24)
    >>> found.names, sorted(found.ranges)
    (('room', 'light'), [1])
    >>> found.classes({"room": pa.array(["b"]), "light": pa.array([None], pa.float64())}).tolist()
    [[0, 23]]
    """

    def __init__(self, names: tuple[str, ...], ranges: frozenset[int], d: int) -> None:
        self.names, self.ranges, self.d = names, ranges, d
        self.partitions: list[HashPartition | RangePartition] = [
            RangePartition(d) if a in ranges else HashPartition(d) for a in range(len(names))
        ]

    @staticmethod
    def of(columns: Mapping[str, pa.Array], d: int) -> Attributes:
        names = tuple(n for n, c in columns.items() if may_classify(c.type))
        ranges = frozenset(a for a, n in enumerate(names) if _by_range(columns[n].slice(0, ROWS_TO_CHOOSE_CLASSES), d))
        return Attributes(names, ranges, d)

    def classes(self, columns: Mapping[str, pa.Array]) -> Int64s:
        """Rows × attributes."""
        found = [_classes(p, columns[n]) for n, p in zip(self.names, self.partitions, strict=True)]
        return np.column_stack(found) if found else np.empty((0, 0), np.int64)

    def labels(self, attribute: int) -> list[str]:
        """What people call the classes of an attribute."""
        partition = self.partitions[attribute]
        if isinstance(partition, RangePartition):
            if partition.low > partition.high:
                return [""] * self.d
            borders = np.linspace(partition.low, partition.high, self.d + 1)
            return [f"{low:.4g} to {high:.4g}" for low, high in pairwise(borders)]
        labels = [""] * self.d
        for value, number in partition.known.items():
            labels[number] = str(value)
        return labels

    def pruned(self) -> dict[str, str]:
        """The columns that turned out to classify nothing, and why."""
        return {n: p.pruned for n, p in zip(self.names, self.partitions, strict=True) if p.pruned is not None}

    def state(self) -> dict[str, Any]:
        return {
            "names": list(self.names),
            "ranges": sorted(self.ranges),
            "d": self.d,
            "partitions": [p.state() for p in self.partitions],
        }

    @staticmethod
    def load(state: Mapping[str, Any]) -> Attributes:
        found = Attributes(tuple(state["names"]), frozenset(map(int, state["ranges"])), int(state["d"]))
        for partition, saved in zip(found.partitions, state["partitions"], strict=True):
            partition.load(saved)
        return found


def _by_range(column: pa.Array, d: int) -> bool:
    if t.is_floating(column.type) or t.is_timestamp(column.type) or t.is_date(column.type):
        return True
    return bool(t.is_integer(column.type)) and len(column.unique()) > VALUES_PER_CLASS * d


def _classes(partition: HashPartition | RangePartition, column: pa.Array) -> Int64s:
    if partition.pruned is not None:
        return np.full(len(column), -1, np.int64)
    if t.is_string(column.type) or t.is_dictionary(column.type):
        # Only the distinct values are looked at.
        if t.is_dictionary(column.type) and len(column.dictionary) > len(column):
            column = column.dictionary_decode()
        encoded = column if t.is_dictionary(column.type) else column.dictionary_encode()
        values: npt.NDArray[Any] = np.array([*encoded.dictionary.to_pylist(), None], object)
        where = encoded.indices.fill_null(len(values) - 1).to_numpy(zero_copy_only=False)
        found: Int64s = partition.classes(values)[where]
        return found
    valid: Bools | None = None
    if t.is_timestamp(column.type):
        column = column.view(pa.int64())
    elif t.is_date(column.type):
        column = column.cast(pa.int32())
    if column.null_count:
        valid = np.asarray(column.is_valid())
        column = column.fill_null(False if t.is_boolean(column.type) else 0)
    return partition.classes(column.to_numpy(zero_copy_only=False), valid)
