"""Lists: their elements, their length, and whether they hold a value. A list comes from a column, never from a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.errors import DataError
from eddyline.expr.builtins.base import Argument, Builder, Built
from eddyline.expr.types import INT32


def element_at(lists: pa.Array, position: Any, missing_is_null: bool = False) -> pa.Array:
    """The element at a position from 1, or from the end if it is negative. 0 is an error, and so is a position that
    the list does not have, unless that is NULL (``missing_is_null``).

    >>> element_at(pa.array([[5, 6], [7], None]), pa.scalar(-1)).to_pylist()
    [6, 7, None]
    >>> element_at(pa.array([[5, 6], [7]]), pa.array([2, 2]), missing_is_null=True).to_pylist()
    [6, None]
    """
    n = len(lists)
    at = position if isinstance(position, pa.Array) else pa.array([position.as_py()] * n, pa.int64())
    known = np.asarray(lists.is_valid()) & np.asarray(at.is_valid())
    index = at.fill_null(1).to_numpy(zero_copy_only=False).astype(np.int64)
    offsets = lists.offsets.to_numpy().astype(np.int64)
    start, length = offsets[:-1], np.diff(offsets)
    where = np.where(index > 0, index - 1, length + index)
    there = known & (where >= 0) & (where < length) & (index != 0)
    if (known & (index == 0)).any():
        raise DataError("element_at counts from 1: there is no element 0")
    if not missing_is_null and (known & ~there).any():
        row = int(np.flatnonzero(known & ~there)[0])
        raise DataError(
            f"the list has {length[row]} elements, and none at {index[row]}: try_element_at gives NULL for it"
        )
    taken = pa.array(np.where(there, start + where, 0), pa.int64(), mask=~there)
    return lists.values.take(taken)


def contains(lists: pa.Array, value: Any) -> pa.Array:
    """Whether a list holds a value; NULL where it does not and holds a NULL instead.

    >>> contains(pa.array([[1, 2], [None], []]), pa.scalar(2)).to_pylist()
    [True, None, False]
    """
    n, length = len(lists), np.diff(lists.offsets.to_numpy().astype(np.int64))
    parent = np.repeat(np.arange(n), length)
    values = lists.flatten()
    wanted = value.take(pa.array(parent)) if isinstance(value, pa.Array) else value
    same = pc.equal(values, wanted)
    if pa.types.is_floating(values.type):
        both = pc.and_(pc.is_nan(values), pc.is_nan(wanted))
        same = pc.or_(same, both)
    found, doubt = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    found[parent[np.asarray(same.fill_null(False), np.bool_)]] = True
    doubt[parent[np.asarray(values.is_null(), np.bool_)]] = True
    unknown = (doubt & ~found) | np.asarray(lists.is_null())
    if isinstance(value, pa.Array):
        unknown |= np.asarray(value.is_null())
    elif not value.is_valid:
        unknown[:] = True
    return pa.array(found, mask=unknown)


def _element_at(missing_is_null: bool) -> Builder:
    def build(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
        return Built(lambda lists, at: element_at(lists, at, missing_is_null), can_fail=True)

    return build


def _size(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
    return Built(lambda lists: pc.list_value_length(lists).cast(INT32))


def _contains(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
    return Built(contains)


BUILDERS: dict[str, Builder] = {
    "element_at": _element_at(False),
    "try_element_at": _element_at(True),
    "size": _size,
    "array_contains": _contains,
}
