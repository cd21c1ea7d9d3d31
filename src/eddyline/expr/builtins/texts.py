"""Text functions. Positions count characters from 1; Arrow's kernels do the work where their meaning is Spark's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.errors import DataError
from eddyline.expr.arrays import Kernel, Value, is_ascii, row_wise
from eddyline.expr.builtins.base import Argument, Builder, Built, plain
from eddyline.expr.types import INT32, LONGEST_TEXT, STRING


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
        return Built(row_wise(substring, STRING), expensive=True)
    start, length = constant[0], constant[1] if len(constant) > 1 else None
    if length is not None and length <= 0:
        return Built(lambda a, *_: pc.utf8_slice_codeunits(a, 0, 0))
    begin = max(start - 1, 0) if start >= 0 else start
    stop = None if length is None else begin + length
    if begin < 0 and stop is not None and stop >= 0:
        stop = None
    return Built(lambda a, *_: pc.utf8_slice_codeunits(a, begin, stop))


def _left(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
    count = arguments[1].value
    if count is None or arguments[0].literal is not None:
        return Built(row_wise(lambda text, n: text[:n] if n > 0 else "", STRING), expensive=True)
    return Built(lambda a, _: pc.utf8_slice_codeunits(a, 0, max(count, 0)))


def _right(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
    count = arguments[1].value
    if count is None or arguments[0].literal is not None:
        return Built(row_wise(lambda text, n: text[-n:] if n > 0 else "", STRING), expensive=True)
    if count <= 0:
        return Built(lambda a, _: pc.utf8_slice_codeunits(a, 0, 0))
    return Built(lambda a, _: pc.utf8_slice_codeunits(a, -count))


def _case(fast: Kernel, slow: Callable[[str], str]) -> Builder:
    """Arrow maps characters one to one; outside ASCII some become two (ß), which Python and Java do."""
    by_row = row_wise(slow, STRING)
    return plain(lambda a: fast(a) if is_ascii(a) else by_row(a))


def _trim(fast: Kernel, slow: Callable[[str, str], str]) -> Builder:
    def build(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
        if len(arguments) == 1:
            return Built(lambda a: fast(a, characters=" "))
        characters = arguments[1].value
        if not characters or arguments[0].literal is not None:
            return Built(row_wise(slow, STRING), expensive=True)
        return Built(lambda a, _: fast(a, characters=characters))

    return build


def _concat(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
    empty = pa.scalar("")
    return Built(lambda *args: pc.binary_join_element_wise(*args, empty, null_handling="emit_null"))


def _replace(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
    constant = [a.value for a in arguments[1:]]
    if None in constant or not constant[0] or arguments[0].literal is not None:

        def slow(text: str, old: str, new: str = "") -> str:
            return text.replace(old, new) if old else text

        return Built(row_wise(slow, STRING), expensive=True)
    old, new = constant[0], constant[1] if len(constant) > 1 else ""
    return Built(lambda a, *_: pc.replace_substring(a, pattern=old, replacement=new))


def _instr(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
    part = arguments[1].value
    slow = row_wise(lambda text, part: text.find(part) + 1, INT32)
    if part is None or arguments[0].literal is not None:
        return Built(slow, expensive=True)
    one = pa.scalar(1, INT32)

    def kernel(a: pa.Array, literal: Value) -> pa.Array:
        # Arrow counts bytes
        return pc.add(pc.find_substring(a, pattern=part), one) if is_ascii(a) else slow(a, literal)

    return Built(kernel)


def locate(part: str, text: str, start: int = 1) -> int:
    return 0 if start < 1 else text.find(part, start - 1) + 1


def pad(text: str, length: int, padding: str, left: bool) -> str:
    if length <= len(text):
        return text[: max(length, 0)]
    if not padding:
        return text
    _check_length(length)
    missing = length - len(text)
    filling = (padding * (missing // len(padding) + 1))[:missing]
    return filling + text if left else text + filling


def _check_length(length: int) -> None:
    if length > LONGEST_TEXT:
        raise DataError(f"a text of {length} characters is too long")


def repeat(text: str, count: int) -> str:
    _check_length(len(text) * count)
    return text * max(count, 0)


def split_part(text: str, delimiter: str, part: int) -> str:
    if part == 0:
        raise DataError("the part number of split_part must not be 0")
    parts = text.split(delimiter) if delimiter else [text]
    index = part - 1 if part > 0 else len(parts) + part
    return parts[index] if 0 <= index < len(parts) else ""


def _repeat(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
    count = arguments[1].value
    if count is None or arguments[0].literal is not None:
        return Built(row_wise(repeat, STRING), can_fail=True, expensive=True)
    if count > 1000:
        return Built(row_wise(lambda text, _: repeat(text, count), STRING), can_fail=True, expensive=True)
    return Built(lambda a, _: pc.binary_repeat(a, max(count, 0)))


def initcap(text: str) -> str:
    return " ".join(word[:1].upper() + word[1:].lower() for word in text.split(" "))


def _by_row(function: Callable[..., Any], returns: pa.DataType, can_fail: bool = False) -> Builder:
    built = Built(row_wise(function, returns), can_fail=can_fail, expensive=True)
    return lambda arguments, returns: built


BUILDERS: dict[str, Builder] = {
    "upper": _case(pc.ascii_upper, str.upper),
    "lower": _case(pc.ascii_lower, str.lower),
    "initcap": _by_row(initcap, STRING),
    "trim": _trim(pc.utf8_trim, str.strip),
    "ltrim": _trim(pc.utf8_ltrim, str.lstrip),
    "rtrim": _trim(pc.utf8_rtrim, str.rstrip),
    "length": plain(pc.utf8_length),
    "reverse": plain(pc.utf8_reverse),
    "substring": _substring,
    "left": _left,
    "right": _right,
    "concat": _concat,
    "replace": _replace,
    "instr": _instr,
    "locate": _by_row(locate, INT32),
    "lpad": _by_row(lambda text, n, padding=" ": pad(text, n, padding, left=True), STRING, can_fail=True),
    "rpad": _by_row(lambda text, n, padding=" ": pad(text, n, padding, left=False), STRING, can_fail=True),
    "repeat": _repeat,
    "split_part": _by_row(split_part, STRING, can_fail=True),
    "ascii": _by_row(lambda text: ord(text[0]) if text else 0, INT32),
}
