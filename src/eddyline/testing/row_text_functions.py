"""The built-in functions of texts, as the reference's row evaluator computes them (``row_functions``)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from eddyline.core.errors import DataError


def like_pattern(pattern: str, escape: str) -> str:
    """A LIKE pattern as a regular expression.

    >>> like_pattern("a%b_", chr(92))
    'a.*b.'
    """
    if len(escape) != 1:
        raise DataError(f"the escape of LIKE is one character, not {escape!r}.")
    out: list[str] = []
    characters = iter(pattern)
    for c in characters:
        if c == escape:
            following = next(characters, None)
            if following is None or following not in ("_", "%", escape):
                raise DataError(f"the pattern {pattern!r} has an escape character in front of nothing to escape.")
            out.append(re.escape(following))
        else:
            out.append(".*" if c == "%" else "." if c == "_" else re.escape(c))
    return "".join(out)


def _like(_: pa.DataType, text: str, pattern: str, escape: str = "\\") -> bool:
    return re.fullmatch(like_pattern(pattern, escape), text, re.DOTALL) is not None


def _ilike(_: pa.DataType, text: str, pattern: str, escape: str = "\\") -> bool:
    return re.fullmatch(like_pattern(pattern.lower(), escape.lower()), text.lower(), re.DOTALL) is not None


def _rlike(_: pa.DataType, text: str, pattern: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error as e:
        raise DataError(f"the regular expression {pattern!r} is not valid: {e}.") from None


def _regexp_extract(_: pa.DataType, text: str, pattern: str, group: int = 1) -> str:
    try:
        compiled = re.compile(pattern)
    except re.error as e:
        raise DataError(f"regexp_extract: {e}.") from None
    if not 0 <= group <= compiled.groups:
        raise DataError(f"regexp_extract: {pattern!r} has no group {group}.")
    found = compiled.search(text)
    return "" if found is None else found.group(group) or ""


def _regexp_replace(_: pa.DataType, text: str, pattern: str, replacement: str) -> str:
    python = re.sub(r"\\(.)|\$([0-9])", lambda m: m[1] if m[2] is None else f"\\g<{m[2]}>", replacement)
    try:
        return re.sub(pattern, python, text)
    except (re.error, IndexError) as e:
        raise DataError(f"regexp_replace: {e}.") from None


def _substring(_: pa.DataType, text: str, position: int, length: int | None = None) -> str:
    """Counted from 1, or from the end if negative; 0 means 1."""
    start = position - 1 if position > 0 else len(text) + position if position < 0 else 0
    end = len(text) if length is None else start + length
    return text[max(start, 0) : max(end, 0)]


def _locate(_: pa.DataType, part: str, text: str, start: int = 1) -> int:
    if start < 1:
        return 0
    return 1 if part == "" else text.find(part, start - 1) + 1


def _lpad(_: pa.DataType, text: str, length: int, pad: str = " ") -> str:
    missing = max(length, 0) - len(text)
    return text[: max(length, 0)] if missing <= 0 or not pad else (pad * missing)[:missing] + text


def _rpad(_: pa.DataType, text: str, length: int, pad: str = " ") -> str:
    missing = max(length, 0) - len(text)
    return text[: max(length, 0)] if missing <= 0 or not pad else text + (pad * missing)[:missing]


def _split_part(_: pa.DataType, text: str, delimiter: str, number: int) -> str:
    if number == 0:
        raise DataError("split_part counts from 1 (or from -1 backwards), not from 0.")
    parts = text.split(delimiter) if delimiter else [text]
    return parts[number - 1 if number > 0 else number] if abs(number) <= len(parts) else ""


TEXT_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "like": _like,
    "ilike": _ilike,
    "rlike": _rlike,
    "regexp_extract": _regexp_extract,
    "regexp_replace": _regexp_replace,
    "substring": _substring,
    "locate": _locate,
    "lpad": _lpad,
    "rpad": _rpad,
    "split_part": _split_part,
    "startswith": lambda _, text, part: text.startswith(part),
    "endswith": lambda _, text, part: text.endswith(part),
    "contains": lambda _, text, part: part in text,
    "upper": lambda _, text: text.upper(),
    "lower": lambda _, text: text.lower(),
    "reverse": lambda _, text: text[::-1],
    "initcap": lambda _, text: " ".join(w[:1].upper() + w[1:].lower() for w in text.split(" ")),
    "trim": lambda _, text, characters=" ": text.strip(characters) if characters else text,
    "ltrim": lambda _, text, characters=" ": text.lstrip(characters) if characters else text,
    "rtrim": lambda _, text, characters=" ": text.rstrip(characters) if characters else text,
    "length": lambda _, text: len(text),
    "ascii": lambda _, text: ord(text[0]) if text else 0,
    "left": lambda _, text, n: text[: max(n, 0)],
    "right": lambda _, text, n: text[max(len(text) - n, 0) :] if n > 0 else "",
    "repeat": lambda _, text, n: text * max(n, 0),
    "concat": lambda _, *texts: "".join(texts),
    "replace": lambda _, text, old, new="": text.replace(old, new) if old else text,
    "instr": lambda _, text, part: text.find(part) + 1,
}
