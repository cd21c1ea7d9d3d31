"""Columns as int64 codes, the only form in which kernels see values.

Numbers, Booleans, dates and times *are* int64 (doubles by their bits, with one NaN and one zero). Strings and all
other types go through a dictionary: exact, and bounded because its owner counts references and gives codes back.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.delta import Bools, Int64s

MAX_ROWS_FOR_LOOPS = 32  # up to which Python's own loop is quicker than setting up an array function


def is_direct(type: pa.DataType) -> bool:
    """Whether values of the type are their own codes."""
    t = pa.types
    return bool(
        t.is_integer(type)
        or t.is_floating(type)
        or t.is_boolean(type)
        or t.is_timestamp(type)
        or t.is_date(type)
        or t.is_time(type)
        or t.is_duration(type)
        or t.is_null(type)
    )


def direct_codes(array: pa.Array) -> tuple[Int64s, Bools | None]:
    """Codes of a column for which ``is_direct`` holds, and where it is NULL (None: nowhere)."""
    type = array.type
    nulls = None if array.null_count == 0 else np.asarray(array.is_null())
    if pa.types.is_null(type):
        return np.zeros(len(array), np.int64), np.ones(len(array), np.bool_)
    if pa.types.is_date32(type) or pa.types.is_time32(type):
        array = array.view(pa.int32())
    elif not (pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_boolean(type)):
        array = array.view(pa.int64())
    if nulls is not None:
        array = array.fill_null(False if pa.types.is_boolean(type) else pa.scalar(0).cast(array.type))
    if pa.types.is_floating(type):
        x = array.to_numpy(zero_copy_only=False).astype(np.float64) + 0.0  # −0.0 + 0.0 is 0.0
        x[np.isnan(x)] = np.nan
        return x.view(np.int64), nulls
    return array.to_numpy(zero_copy_only=False).astype(np.int64, copy=False), nulls


def hash_codes(array: pa.Array) -> tuple[Int64s, Bools | None]:
    """Codes for join keys: exact for direct types, a 64-bit hash for strings and others (the join verifies)."""
    if is_direct(array.type):
        return direct_codes(array)
    if pa.types.is_dictionary(array.type):
        codes, _ = hash_codes(array.dictionary)
        index = array.indices
        nulls = None if index.null_count == 0 else np.asarray(index.is_null())
        where = (index if nulls is None else index.fill_null(0)).to_numpy(zero_copy_only=False)
        return (codes[where] if len(codes) else np.zeros(len(array), np.int64)), nulls
    nulls = None if array.null_count == 0 else np.asarray(array.is_null())
    if not pa.types.is_string(array.type) and not pa.types.is_binary(array.type):
        array = pc.cast(array, pa.string())
    if array.offset:
        array = pa.concat_arrays([array])
    buffers = array.buffers()
    out = np.empty(len(array), np.int64)
    data = np.frombuffer(buffers[2], np.uint8) if buffers[2] is not None else np.empty(0, np.uint8)
    offsets = np.frombuffer(buffers[1], np.int32)[array.offset : array.offset + len(array) + 1]
    if len(array):
        from eddyline.kernels.hashing import hash_strings  # plans ask for ``is_direct`` without any kernel

        hash_strings(np.ascontiguousarray(offsets), np.ascontiguousarray(data), out)
    return out, nulls


class Dictionary:
    """Values of a type without codes of their own ↔ small integers, with reference counts."""

    def __init__(self) -> None:
        self.code: dict[Any, int] = {}
        self.value: list[Any] = []
        self.references = np.zeros(0, np.int64)
        self.free: list[int] = []
        self.nbytes = 0  # about

    def encode(self, array: pa.Array, known: bool = False) -> tuple[Int64s, Bools | None]:
        """Codes of a column; new values get codes with no references yet, or −1 where only ``known`` ones count."""
        local, where, nulls = self.positions(array, known)
        return local[where], nulls

    def positions(self, array: pa.Array, known: bool = False) -> tuple[Int64s, Int64s, Bools | None]:
        """Codes of the distinct values of a column, for each row the position of its own among them, and the NULLs
        (whose positions mean nothing). A code of −1: not known, or a value of the column's dictionary that no row has.
        """
        if len(array) <= MAX_ROWS_FOR_LOOPS:
            return self._few(array.to_pylist(), known)
        if pa.types.is_dictionary(array.type) and (array.dictionary.null_count or len(array.dictionary) > len(array)):
            array = array.dictionary_decode()  # a slice: do not look at more values than there are rows
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        index = array.indices
        nulls = None if index.null_count == 0 else np.asarray(index.is_null())
        where = (index if nulls is None else index.fill_null(0)).to_numpy(zero_copy_only=False)
        local = np.full(max(len(array.dictionary), 1), -1, np.int64)
        seen = np.zeros(len(local), np.bool_)
        seen[where if nulls is None else where[~nulls]] = True
        uniques = array.dictionary.to_pylist()
        for i in np.flatnonzero(seen).tolist():
            code = self.code.get(uniques[i])
            if code is None and not known:
                code = self._add(uniques[i])
            if code is not None:
                local[i] = code
        return local, where, nulls

    def _few(self, values: list[Any], known: bool) -> tuple[Int64s, Int64s, Bools | None]:
        codes = []
        for v in values:
            code = -1 if v is None else self.code.get(v)
            if code is None:
                code = -1 if known else self._add(v)
            codes.append(code)
        nulls = np.array([v is None for v in values], np.bool_) if None in values else None
        return np.array(codes, np.int64), np.arange(len(codes), dtype=np.int64), nulls

    def _add(self, value: Any) -> int:
        if self.free:
            code = self.free.pop()
            self.value[code] = value
        else:
            code = len(self.value)
            self.value.append(value)
        self.code[value] = code
        self.nbytes += _weight(value)
        if code >= len(self.references):
            self.references = np.concatenate([self.references, np.zeros(max(64, code), np.int64)])
        return code

    def retain(self, codes: Int64s) -> None:
        np.add.at(self.references, codes, 1)

    def give_back(self, codes: Int64s) -> None:
        np.subtract.at(self.references, codes, 1)
        for c in np.unique(codes).tolist():
            if self.references[c] == 0:
                del self.code[self.value[c]]
                self.nbytes -= _weight(self.value[c])
                self.value[c] = None
                self.free.append(c)

    def decode(self, codes: Int64s, type: pa.DataType) -> pa.Array:
        if len(codes) <= MAX_ROWS_FOR_LOOPS:
            return pa.array([self.value[c] for c in codes.tolist()], type)
        unique, inverse = np.unique(codes, return_inverse=True)
        values = pa.array([self.value[c] for c in unique.tolist()], type)
        return values.take(pa.array(inverse))


def _weight(value: Any) -> int:
    return 120 + (len(value) if isinstance(value, str | bytes) else 16)


def direct_values(codes: Int64s, type: pa.DataType, nulls: Bools | None = None) -> pa.Array:
    """The inverse of ``direct_codes``."""
    mask = nulls if nulls is not None and np.count_nonzero(nulls) else None
    if pa.types.is_null(type):
        return pa.nulls(len(codes))
    if pa.types.is_floating(type):
        doubles = pa.array(codes.view(np.float64), pa.float64(), mask=mask)
        return doubles if pa.types.is_float64(type) else doubles.cast(type)
    if pa.types.is_boolean(type):
        return pa.array(codes.astype(np.bool_), mask=mask)
    if pa.types.is_date32(type) or pa.types.is_time32(type):
        return pa.array(codes.astype(np.int32), pa.int32(), mask=mask).view(type)
    if pa.types.is_integer(type):
        integers = pa.array(codes, pa.int64(), mask=mask)
        return integers if pa.types.is_int64(type) else integers.cast(type)
    return pa.array(codes, pa.int64(), mask=mask).view(type)
