"""Texts as arrays of bytes and of characters: what Arrow has no kernel for, without a loop over rows.

``Characters`` numbers the characters of a whole column: a character begins at each byte that does not continue another
(UTF-8: ``10xxxxxx``). With that, positions in characters become positions in bytes and back by indexing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.expr.arrays import Bools, Int64s, valid_mask
from eddyline.expr.types import STRING

Bytes = npt.NDArray[np.uint8]


class Characters:
    """The bytes of a column of texts; text i is ``data[ends[i]:ends[i + 1]]``."""

    def __init__(self, texts: pa.Array) -> None:
        _, offsets, data = texts.buffers()
        n = len(texts)
        bounds = np.zeros(1, np.int32) if offsets is None else np.frombuffer(offsets, np.int32)
        ends = bounds[texts.offset : texts.offset + n + 1].astype(np.int64) if n else np.zeros(1, np.int64)
        self.data: Bytes = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
        self.data = self.data[ends[0] : ends[-1]]
        self.ends: Int64s = ends - ends[0]
        self.valid: Bools | None = valid_mask(texts)
        self.plain = not len(self.data) or int(self.data.max()) < 0x80
        # Bytes at which characters begin, and for each text the number of its first character.
        self.starts: Int64s | None = None
        self.first: Int64s = self.ends
        if not self.plain:
            self.starts = np.append(np.flatnonzero((self.data & 0xC0) != 0x80), len(self.data))
            self.first = np.searchsorted(self.starts, self.ends)

    @property
    def lengths(self) -> Int64s:
        """In characters."""
        lengths: Int64s = np.diff(self.first)
        return lengths

    def slices(self, begin: Int64s, end: Int64s, valid: Bools | None) -> pa.Array:
        """Of each text the characters ``begin`` … ``end`` − 1, which are within it.

        >>> texts = Characters(pa.array(["stream", "größe"]))
        >>> texts.slices(np.array([1, 2]), np.array([3, 5]), None).to_pylist()
        ['tr', 'öße']
        """
        low, high = self.first[:-1] + begin, self.first[:-1] + end
        if self.starts is not None:
            low, high = self.starts[low], self.starts[high]
        return spans(self.data, low, high, valid)

    def position(self, offset: Int64s) -> Int64s:
        """Offsets in bytes, from the beginning of each text, as offsets in characters."""
        if self.starts is None:
            return offset
        return np.searchsorted(self.starts, self.ends[:-1] + offset) - self.first[:-1]


def spans(data: Bytes, begin: Int64s, end: Int64s, valid: Bools | None) -> pa.Array:
    """The texts that lie at these places of ``data``."""
    lengths = end - begin
    if valid is not None:
        lengths = np.where(valid, lengths, 0)
    ends = np.zeros(len(begin) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    taken = data[np.repeat(begin - ends[:-1], lengths) + np.arange(ends[-1])]
    return texts_of(taken, ends, valid)


def texts_of(data: Bytes, ends: Int64s, valid: Bools | None) -> pa.Array:
    """The column of texts over these bytes; text i ends at ``ends[i + 1]``."""
    if ends[-1] > np.iinfo(np.int32).max:
        raise pa.ArrowCapacityError(f"texts of {ends[-1]} bytes in one batch")
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers: list[Any] = [bits, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(STRING, len(ends) - 1, buffers)


def code_points(texts: Characters) -> Int64s:
    """The number of each text's first character in Unicode; 0 for an empty text."""
    data = np.append(texts.data, np.zeros(4, np.uint8)).astype(np.int64)
    at = texts.ends[:-1]
    a, b, c, d = (data[at + i] for i in range(4))
    b, c, d = b & 0x3F, c & 0x3F, d & 0x3F
    found = np.select(
        [a < 0x80, a < 0xE0, a < 0xF0],
        [a, (a & 0x1F) << 6 | b, (a & 0x0F) << 12 | b << 6 | c],
        (a & 0x07) << 18 | b << 12 | c << 6 | d,
    )
    return np.where(np.diff(texts.ends) > 0, found, 0)


def title_case(texts: Characters) -> pa.Array:
    """ASCII texts with the first letter of each word large and the others small; words end at a space."""
    data = texts.data.copy()
    large = (data >= ord("A")) & (data <= ord("Z"))
    data[large] += 32
    begins = np.zeros(len(data) + 1, np.bool_)
    begins[1:] = data == ord(" ")
    begins[texts.ends[:-1]] = True
    initial = begins[:-1] & (data >= ord("a")) & (data <= ord("z"))
    data[initial] -= 32
    return texts_of(data, texts.ends, texts.valid)


def plain_rows(texts: pa.Array) -> Bools:
    """Which texts are ASCII."""
    characters = Characters(texts)
    if characters.plain:
        return np.ones(len(texts), np.bool_)
    beyond = np.zeros(len(characters.data) + 1, np.int64)
    np.cumsum(characters.data >= 0x80, out=beyond[1:])
    plain: Bools = beyond[characters.ends[1:]] == beyond[characters.ends[:-1]]
    return plain
