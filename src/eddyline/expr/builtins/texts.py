"""Text functions. Positions count characters from 1; Arrow's kernels do the work where their meaning is Spark's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.errors import DataError
from eddyline.expr.arrays import (
    Int64s,
    Kernel,
    Value,
    broadcast,
    from_numpy,
    is_ascii,
    null_where,
    row_wise,
    scatter,
    to_numpy,
    valid_mask,
)
from eddyline.expr.builtins.base import Argument, Builder, Built, plain
from eddyline.expr.builtins.by_value import Fast, by_value
from eddyline.expr.builtins.characters import Characters, code_points, plain_rows, title_case
from eddyline.expr.types import INT32, LONGEST_TEXT, STRING

LONGEST_COLUMN = 1 << 31  # bytes; so no text of a column can have more parts
COLUMN_SAFE_CHARACTERS = 1000  # of each text: a batch of such texts fits into a column


def substring(text: str, start: int, length: int | None = None) -> str:
    """Spark's: from 1, 0 is 1, negative counts from the end (and may stand before the beginning).

    >>> substring("stream", 2, 3), substring("stream", 0, 2), substring("stream", -3, 2), substring("ab", -4, 3)
    ('tre', 'st', 'ea', 'a')
    """
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    end = len(text) if length is None else begin + length
    return text[max(begin, 0) : max(end, 0)] if end > begin else ""


def _substring(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
    constant = [a.value for a in arguments[1:]]
    if None in constant or arguments[0].literal is not None:
        return Built(_sliced(_substring_bounds))
    start, length = constant[0], constant[1] if len(constant) > 1 else None
    if length is not None and length <= 0:
        return Built(lambda a, *_: pc.utf8_slice_codeunits(a, 0, 0))
    begin = max(start - 1, 0) if start >= 0 else start
    stop = None if length is None or begin < 0 <= begin + length else begin + length
    # Arrow adds to them: behind the end of a text, and before its beginning, one place is like another.
    begin, stop = (p and max(-LONGEST_COLUMN, min(p, LONGEST_COLUMN)) for p in (begin, stop))
    return Built(lambda a, *_: pc.utf8_slice_codeunits(a, begin, stop))


Bounds = Callable[..., tuple[Any, Any]]  # lengths of texts and the parameters, to the characters that are taken


def _substring_bounds(lengths: Int64s, start: Any, count: Any = None) -> tuple[Any, Any]:
    begin = np.where(start > 0, start - 1, np.where(start < 0, lengths + start, 0))
    if count is None:
        return begin, lengths
    count = np.maximum(count, 0)
    # No sum may overflow: behind the end of a text one place is like another.
    return begin, np.where(begin < 0, begin + count, np.minimum(begin, lengths) + np.minimum(count, 1 << 62))


def _sliced(bounds: Bounds) -> Kernel:
    """A part of each text, with bounds that differ from row to row."""

    def kernel(*args: Value) -> pa.Array:
        length = next(len(a) for a in args if isinstance(a, pa.Array))
        if any(isinstance(a, pa.Scalar) and not a.is_valid for a in args):
            return pa.nulls(length, STRING)
        texts = Characters(broadcast(args[0], length))
        masks = [texts.valid, *(valid_mask(a) for a in args[1:] if isinstance(a, pa.Array))]
        given = [m for m in masks if m is not None]
        lengths = texts.lengths
        begin, end = bounds(lengths, *(np.int64(to_numpy(a)) for a in args[1:]))
        low = np.minimum(np.maximum(begin, 0), lengths)
        return texts.slices(
            low, np.maximum(np.minimum(end, lengths), low), np.logical_and.reduce(given) if given else None
        )

    return kernel


def _left(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
    count = arguments[1].value
    if count is None or arguments[0].literal is not None:
        return Built(_sliced(lambda lengths, n: (np.zeros_like(lengths), n)))
    return Built(lambda a, _: pc.utf8_slice_codeunits(a, 0, max(count, 0)))


def _right(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
    count = arguments[1].value
    if count is None or arguments[0].literal is not None:
        return Built(_sliced(lambda lengths, n: (lengths - np.maximum(n, 0), lengths)))
    if count <= 0:
        return Built(lambda a, _: pc.utf8_slice_codeunits(a, 0, 0))
    return Built(lambda a, _: pc.utf8_slice_codeunits(a, -min(count, LONGEST_COLUMN)))


def _case(fast: Fast, slow: Callable[[str], str]) -> Builder:
    """Arrow maps characters one to one; outside ASCII some become two (ß), which Python and Java do."""
    by_row = row_wise(slow, STRING)

    def kernel(a: pa.Array) -> pa.Array:
        if is_ascii(a):
            return fast(a)
        ascii_only = plain_rows(a)
        if not ascii_only.any():
            return by_row(a)
        (other_rows,), (ascii_rows,) = np.nonzero(~ascii_only), np.nonzero(ascii_only)
        parts = [fast(a.take(pa.array(ascii_rows))), by_row(a.take(pa.array(other_rows)))]
        return scatter(pa.concat_arrays(parts), np.concatenate([ascii_rows, other_rows]), len(a))

    return plain(kernel)


def _trim(fast: Fast, slow: Callable[[str, str], str]) -> Builder:
    several = by_value(lambda a, characters: fast(a, characters=characters), slow, STRING)

    def build(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
        if len(arguments) == 1:
            return Built(lambda a: fast(a, characters=" "))
        return several(arguments, returns)

    return build


def _concat(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
    empty = pa.scalar("")
    return Built(lambda *args: pc.binary_join_element_wise(*args, empty, null_handling="emit_null"))


def replace(text: str, old: str, new: str = "") -> str:
    return text.replace(old, new) if old else text


def _replaced(texts: pa.Array, old: str, new: str = "") -> pa.Array:
    return pc.replace_substring(texts, pattern=old, replacement=new) if old else texts


def locate(part: str, text: str, start: int = 1) -> int:
    """Spark's: an empty part stands at 1, wherever the search starts.

    >>> locate("a", "banana", 3), locate("", "banana", 3), locate("a", "banana", 0)
    (4, 1, 0)
    """
    if start < 1:
        return 0
    return text.find(part, start - 1) + 1 if part else 1


def _located(texts: pa.Array, part: str, start: int = 1) -> pa.Array:
    """Arrow finds bytes; the positions are those of characters."""
    if start < 1 or not part:
        return from_numpy(np.full(len(texts), int(start >= 1)), valid_mask(texts), INT32)
    rest = texts if start == 1 else pc.utf8_slice_codeunits(texts, start - 1)
    at = to_numpy(pc.find_substring(rest, pattern=part).fill_null(-1)).astype(np.int64)
    there = at >= 0
    characters = Characters(rest)
    position = np.where(there, characters.position(np.maximum(at, 0)) + start, 0)
    return from_numpy(position, characters.valid, INT32)


def pad(text: str, length: int, padding: str, left: bool) -> str:
    if length <= len(text):
        return text[: max(length, 0)]
    if not padding:
        return text
    _check_length(length)
    missing = length - len(text)
    filling = (padding * (missing // len(padding) + 1))[:missing]
    return filling + text if left else text + filling


def _pad(left: bool) -> Builder:
    def fast(texts: pa.Array, length: int, padding: str = " ") -> pa.Array:
        cut = pc.utf8_slice_codeunits(texts, 0, max(length, 0))
        lacks, valid = max(length, 0) - to_numpy(pc.utf8_length(cut)).astype(np.int64), valid_mask(texts)
        missing, which = np.unique(lacks if valid is None else np.where(valid, lacks, 0), return_inverse=True)
        if not padding or not missing.any():
            return cut
        _check_length(length)
        fillings = [(padding * (int(m) // len(padding) + 1))[: int(m)] for m in missing]
        filling = pa.array(fillings, STRING).take(pa.array(which))
        return pc.binary_join_element_wise(*((filling, cut) if left else (cut, filling)), "")

    def slow(text: str, length: int, padding: str = " ") -> str:
        return pad(text, length, padding, left)

    return by_value(fast, slow, STRING, can_fail=_too_long)


def _check_length(length: int) -> None:
    if length > LONGEST_TEXT:
        raise DataError(f"a text of {length} characters is too long")


def repeat(text: str, count: int) -> str:
    if count > COLUMN_SAFE_CHARACTERS:
        _check_length(len(text) * count)
    return text * max(count, 0)


def _repeat(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
    by_row = row_wise(repeat, STRING)

    def kernel(texts: Value, count: Value) -> pa.Array:
        most = (pc.max(count) if isinstance(count, pa.Array) else count).as_py()
        if most is not None and most > COLUMN_SAFE_CHARACTERS:
            return by_row(texts, count)
        return pc.binary_repeat(texts, pc.max_element_wise(count, 0, skip_nulls=False))

    return Built(kernel, can_fail=_too_long(arguments[1].value))


def split_part(text: str, delimiter: str, part: int) -> str:
    if part == 0:
        raise DataError("the part number of split_part must not be 0")
    parts = text.split(delimiter) if delimiter else [text]
    index = part - 1 if part > 0 else len(parts) + part
    return parts[index] if 0 <= index < len(parts) else ""


def _split(texts: pa.Array, delimiter: str, part: int) -> pa.Array:
    if part == 0:
        if texts.null_count == len(texts):
            return texts
        raise DataError("the part number of split_part must not be 0")
    if not delimiter:
        return texts if part in (1, -1) else pc.utf8_slice_codeunits(texts, 0, 0)
    part = max(-LONGEST_COLUMN, min(part, LONGEST_COLUMN))
    # Those behind the one that is asked for need not be separated. Arrow makes room for as many as it may find.
    parts = pc.split_pattern(texts, pattern=delimiter, max_splits=part if 0 < part < COLUMN_SAFE_CHARACTERS else None)
    ends = parts.offsets.to_numpy().astype(np.int64)
    at = ends[:-1] + part - 1 if part > 0 else ends[1:] + part
    there = (at >= ends[:-1]) & (at < ends[1:])
    found = parts.values.take(from_numpy(np.where(there, at, 0), there, pa.int64())).fill_null("")
    valid = valid_mask(texts)
    return found if valid is None else null_where(found, ~valid)


def initcap(text: str) -> str:
    return " ".join(word[:1].upper() + word[1:].lower() for word in text.split(" "))


def _code(texts: pa.Array) -> pa.Array:
    characters = Characters(texts)
    return from_numpy(code_points(characters), characters.valid, INT32)


def _too_long(count: int | None, *_: Any) -> bool:
    return count is None or count > COLUMN_SAFE_CHARACTERS


BUILDERS: dict[str, Builder] = {
    "upper": _case(pc.ascii_upper, str.upper),
    "lower": _case(pc.ascii_lower, str.lower),
    "initcap": _case(lambda a: title_case(Characters(a)), initcap),
    "trim": _trim(pc.utf8_trim, str.strip),
    "ltrim": _trim(pc.utf8_ltrim, str.lstrip),
    "rtrim": _trim(pc.utf8_rtrim, str.rstrip),
    "length": plain(pc.utf8_length),
    "reverse": plain(pc.utf8_reverse),
    "substring": _substring,
    "left": _left,
    "right": _right,
    "concat": _concat,
    "replace": by_value(_replaced, replace, STRING),
    "instr": by_value(_located, lambda text, part: text.find(part) + 1, INT32),
    "locate": by_value(_located, locate, INT32, subject=1),
    "lpad": _pad(left=True),
    "rpad": _pad(left=False),
    "repeat": _repeat,
    "split_part": by_value(_split, split_part, STRING, can_fail=lambda _, part: not part),
    "ascii": plain(_code),
}
