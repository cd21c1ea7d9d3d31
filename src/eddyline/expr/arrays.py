"""Bridges between Arrow arrays and numpy that copy as little as possible.

Arrow packs Booleans into bits; its own conversion to and from numpy is twenty times slower than numpy's bit packing,
and masks are what predicates are made of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.expr.types import BOOLEAN

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]
Value: TypeAlias = pa.Array | pa.Scalar
Kernel = Callable[..., pa.Array]

_NUMPY: dict[pa.DataType, Any] = {
    pa.int8(): np.int8,
    pa.int16(): np.int16,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.float32(): np.float32,
    pa.float64(): np.float64,
    pa.date32(): np.int32,
    pa.timestamp("us"): np.int64,
    pa.duration("us"): np.int64,
}


def bits_to_numpy(bits: pa.Buffer, offset: int, length: int) -> Bools:
    """Unpack ``length`` bits that start at bit ``offset``."""
    first = offset >> 3
    packed = np.frombuffer(bits, np.uint8)[first : (offset + length + 7) >> 3]
    shift = offset - (first << 3)
    return np.unpackbits(packed, count=shift + length, bitorder="little")[shift:].view(np.bool_)


def mask_of(values: pa.Array) -> Bools:
    """TRUE where a Boolean array is TRUE; NULL counts as FALSE.

    >>> mask_of(pa.array([True, None, False, True])).tolist()
    [True, False, False, True]
    """
    validity, data = values.buffers()
    mask = bits_to_numpy(data, values.offset, len(values)) if len(values) else np.empty(0, np.bool_)
    if values.null_count:
        mask &= bits_to_numpy(validity, values.offset, len(values))
    return mask


def array_of(mask: Bools) -> pa.Array:
    """The Boolean array of a mask.

    >>> array_of(np.array([True, False])).to_pylist()
    [True, False]
    """
    return pa.Array.from_buffers(BOOLEAN, len(mask), [None, pa.py_buffer(np.packbits(mask, bitorder="little"))])


def valid_mask(values: pa.Array) -> Bools | None:
    """TRUE where a value is not NULL; None if none is."""
    if values.null_count == 0:
        return None
    validity = values.buffers()[0]
    if validity is None:
        return np.zeros(len(values), np.bool_)  # an array of type NULL
    return bits_to_numpy(validity, values.offset, len(values))


def both_valid(a: Value, b: Value) -> Bools | None:
    """Where neither of two values is NULL; None means everywhere. Scalars are assumed not to be NULL."""
    x = valid_mask(a) if isinstance(a, pa.Array) else None
    y = valid_mask(b) if isinstance(b, pa.Array) else None
    return y if x is None else (x if y is None else x & y)


def to_numpy(values: Value) -> Any:
    """A view of the numbers, times as integers; what stands under a NULL is arbitrary. A scalar gives a scalar."""
    dtype = _NUMPY[values.type]
    if isinstance(values, pa.Scalar):
        if values.type in (pa.date32(), pa.timestamp("us"), pa.duration("us")):
            return dtype(values.value)
        return dtype(values.as_py())
    data = values.buffers()[1]
    if data is None:
        return np.empty(0, dtype)
    return np.frombuffer(data, dtype)[values.offset : values.offset + len(values)]


def from_numpy(data: npt.NDArray[Any], valid: Bools | None, type: pa.DataType) -> pa.Array:
    """An array over numpy numbers without copying them; ``valid`` None means no NULL."""
    data = np.ascontiguousarray(data, _NUMPY[type])
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(type, len(data), [bits, pa.py_buffer(data)])


def broadcast(value: Value, length: int) -> pa.Array:
    """An array of the given length, whatever came in."""
    if isinstance(value, pa.Array):
        return value
    if not value.is_valid:
        return pa.nulls(length, value.type)
    return pa.repeat(value, length)


def null_where(values: pa.Array, mask: Bools) -> pa.Array:
    return pc.if_else(array_of(mask), pa.scalar(None, values.type), values)


def scatter(part: pa.Array, rows: Int64s, length: int) -> pa.Array:
    """Put ``part[i]`` at ``rows[i]`` of an array that is NULL elsewhere.

    >>> scatter(pa.array(["x", "y"]), np.array([3, 1]), 4).to_pylist()
    [None, 'y', None, 'x']
    """
    source = np.full(length, -1, np.int64)
    source[rows] = np.arange(len(rows))
    return part.take(from_numpy(source, source >= 0, pa.int64()))


def is_ascii(values: pa.Array) -> bool:
    """Whether all texts are ASCII, so that a byte is a character (may say no for bytes outside a slice)."""
    _, offsets, data = values.buffers()
    if data is None or not len(values):
        return True
    ends = np.frombuffer(offsets, np.int32)
    text = np.frombuffer(data, np.uint8)[ends[values.offset] : ends[values.offset + len(values)]]
    return not len(text) or int(text.max()) < 128


def row_wise(function: Callable[..., Any], returns: pa.DataType) -> Kernel:
    """A kernel that calls a Python function row by row; NULL in any argument gives NULL."""

    def kernel(*args: Value) -> pa.Array:
        length = next(len(a) for a in args if isinstance(a, pa.Array))
        lists = [a.to_pylist() if isinstance(a, pa.Array) else [a.as_py()] * length for a in args]
        return pa.array(
            [None if None in row else function(*row) for row in zip(*lists, strict=True)],
            type=returns,
        )

    return kernel
