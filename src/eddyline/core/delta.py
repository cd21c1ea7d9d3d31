"""Deltas: sequences of elements ⟨tuple, time, ±⟩ held as columns.

Invariants, which every operator may rely on and must keep:

1. ``time`` is non-decreasing.
2. Adding up the weights of a tuple over all elements with time ≤ τ gives its multiplicity in the relation at τ.
   Within one instant changes need not be netted (a tuple may appear with + and −); only what is shown to the user is.
3. In the given order no prefix makes a multiplicity negative *at the end of any instant*; operators that locate the
   row to delete may also rely on it within an instant (a deletion never precedes the insertion that it undoes).

A stream is a delta whose weights are all +1 (``weight is None``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.schema import Schema

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Float64s = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Delta:
    """``columns`` maps plan names to Arrow arrays as long as ``time``.

    ``ids`` are identities of rows (set by windows over streams): the deletion of a row carries the id of its
    insertion, ids grow in order of (time, arrival) among insertions.
    """

    time: Int64s
    columns: Mapping[str, pa.Array]
    weight: Int64s | None = None
    ids: Int64s | None = None

    def __len__(self) -> int:
        return len(self.time)

    @property
    def weights(self) -> Int64s:
        return np.ones(len(self.time), np.int64) if self.weight is None else self.weight

    def filter(self, keep: Bools) -> Delta:
        count = np.count_nonzero(keep)
        if count == len(keep):
            return self
        if not count:  # of a row that comes alone this is half of the cases, and a slice costs a fraction of a filter
            return self.slice(0, 0)
        mask = pa.array(keep)
        return Delta(
            self.time[keep],
            {n: c.filter(mask) for n, c in self.columns.items()},
            None if self.weight is None else self.weight[keep],
            None if self.ids is None else self.ids[keep],
        )

    def take(self, index: Int64s) -> Delta:
        where = pa.array(index)
        return Delta(
            self.time[index],
            {n: c.take(where) for n, c in self.columns.items()},
            None if self.weight is None else self.weight[index],
            None if self.ids is None else self.ids[index],
        )

    def slice(self, start: int, stop: int) -> Delta:
        return Delta(
            self.time[start:stop],
            {n: c.slice(start, stop - start) for n, c in self.columns.items()},
            None if self.weight is None else self.weight[start:stop],
            None if self.ids is None else self.ids[start:stop],
        )

    def with_columns(self, columns: Mapping[str, pa.Array]) -> Delta:
        return Delta(self.time, columns, self.weight, self.ids)

    @staticmethod
    def empty(schema: Schema) -> Delta:
        return Delta(np.empty(0, np.int64), {f.name: pa.array([], f.type) for f in schema})

    @staticmethod
    def concat(parts: Sequence[Delta]) -> Delta:
        """Put parts one after another; the caller has made sure that their times do not decrease."""
        if len(parts) == 1:
            return parts[0]
        signed = any(p.weight is not None for p in parts)
        with_ids = all(p.ids is not None for p in parts)
        return Delta(
            np.concatenate([p.time for p in parts]),
            {n: combine([p.columns[n] for p in parts]) for n in parts[0].columns},
            np.concatenate([p.weights for p in parts]) if signed else None,
            np.concatenate([p.ids for p in parts if p.ids is not None]) if with_ids else None,
        )

    @staticmethod
    def merge(parts: Sequence[Delta]) -> Delta:
        """Merge parts by time, stably: at one instant the earlier part comes first, each in its own order."""
        full = [p for p in parts if len(p)]
        if len(full) <= 1:
            return full[0] if full else parts[0]
        whole = Delta.concat(full)
        order = np.argsort(whole.time, kind="stable")
        return whole.take(order)


def combine(arrays: Sequence[pa.Array]) -> pa.Array:
    """One contiguous array from several of one type (dictionary arrays are decoded unless their dictionaries agree).

    >>> combine([pa.array(["a"]).dictionary_encode(), pa.array(["b"])]).to_pylist()
    ['a', 'b']
    """
    if len(arrays) == 1:
        return arrays[0]
    if pa.DictionaryArray in map(type, arrays) and not _one_dictionary(arrays):
        arrays = [pc.cast(a, a.type.value_type) if pa.types.is_dictionary(a.type) else a for a in arrays]
    return pa.concat_arrays(arrays)


def _one_dictionary(arrays: Sequence[pa.Array]) -> bool:
    first = arrays[0]
    if any(a.type != first.type for a in arrays):
        return False
    return all(a.dictionary is first.dictionary or a.dictionary.equals(first.dictionary) for a in arrays[1:])
