"""LIKE, regular expressions and the plain searches.

A LIKE pattern is compiled once: to equality, a prefix, a suffix or a substring search where it is one, to a regular
expression otherwise. Regular expressions are RE2's, wherever the pattern comes from: matching takes time in proportion
to the text. Patterns that RE2 lacks (look-around, back-references) are refused, because engines that have them
backtrack, and one short row can then take longer than the rest of the job.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.errors import DataError, quoted
from eddyline.expr.arrays import Kernel, Value, array_of, broadcast, mask_of, valid_mask
from eddyline.expr.builtins.base import Argument, Builder, Built
from eddyline.expr.builtins.by_value import by_value
from eddyline.expr.failures import Failure
from eddyline.expr.types import BOOLEAN

_ANY, _ONE = object(), object()


def _tokens(pattern: str, escape: str) -> list[object]:
    """The pattern as texts, ``_ANY`` and ``_ONE``; an escape before anything else is an error as in Spark."""
    if len(escape) != 1:
        raise DataError(f"the escape of LIKE must be one character, not {quoted(escape)}")
    tokens: list[object] = []
    at = 0
    while at < len(pattern):
        c = pattern[at]
        if c == escape:
            at += 1
            if at == len(pattern) or pattern[at] not in ("%", "_", escape):
                found = f"the LIKE pattern {quoted(pattern)} has {escape!r} before a character that needs none"
                raise DataError(found)
            c = pattern[at]
        elif c in "%_":
            tokens.append(_ANY if c == "%" else _ONE)
            at += 1
            continue
        if tokens and isinstance(tokens[-1], str):
            tokens[-1] += c
        else:
            tokens.append(c)
        at += 1
    return tokens


def _re2_quote(text: str) -> str:
    return re.sub(r"([^\w\s])", r"\\\1", text, flags=re.ASCII) if text.isascii() else "".join(map(_quote_one, text))


def _quote_one(c: str) -> str:
    return f"\\{c}" if c.isascii() and not c.isalnum() and c not in "_ \t\n\r\f\v" else c


def like_kernel(pattern: str, escape: str = "\\", ignore_case: bool = False) -> Kernel:
    """The cheapest kernel that means the pattern.

    >>> like_kernel("a%")(pa.array(["abc", "ba", None])).to_pylist()
    [True, False, None]
    """
    tokens = _tokens(pattern, escape)
    shape = "".join("s" if isinstance(t, str) else "%" if t is _ANY else "_" for t in tokens)
    texts = [t for t in tokens if isinstance(t, str)]
    # Arrow folds case by ASCII rules in the plain searches; only ASCII texts may take them
    if not ignore_case:
        if shape == "":
            return lambda a: pc.equal(a, "")
        if shape.strip("%") == "" and "_" not in shape:
            return lambda a: pc.if_else(pc.is_valid(a), True, pa.scalar(None, BOOLEAN))
        if shape == "s":
            wanted = pa.scalar(texts[0])
            return lambda a: pc.equal(a, wanted)
        if re.fullmatch("s%+", shape):
            return lambda a: pc.starts_with(a, texts[0])
        if re.fullmatch("%+s", shape):
            return lambda a: pc.ends_with(a, texts[0])
        if re.fullmatch("%+s%+", shape):
            return lambda a: pc.match_substring(a, texts[0])
    body = "".join(".*" if t is _ANY else "." if t is _ONE else _re2_quote(str(t)) for t in tokens)
    flags = "(?is)" if ignore_case else "(?s)"
    return _re2(f"{flags}^{body}$", f"the LIKE pattern {quoted(pattern)} is too long")


def _re2(pattern: str, otherwise: str) -> Kernel:
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid:
        raise DataError(otherwise) from None
    return lambda a: pc.match_substring_regex(a, pattern)


def regex_kernel(pattern: str) -> Kernel:
    """Whether a text has a part that matches; ``DataError`` if RE2 does not support the pattern.

    >>> regex_kernel("a+b")(pa.array(["xaab", "b", None])).to_pylist()
    [True, False, None]
    """
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid as e:
        reason = str(e).removeprefix("Invalid regular expression: ")
        found = f"the regular expression {quoted(pattern)} is malformed: RE2 says {quoted(reason)}"
        if re.search(r"\(\?<?[=!]|\\[1-9k]", reason) or "(?P=" in pattern:
            found += "; look-around and back-references are refused, because one row can take for ever with them"
        raise DataError(found) from None
    return lambda a: pc.match_substring_regex(a, pattern)


# The kernel of a pattern and, for LIKE, an escape.
_MATCHERS: dict[str, Callable[..., Kernel]] = {
    "like": like_kernel,
    "ilike": functools.partial(like_kernel, ignore_case=True),
    "rlike": regex_kernel,
}


def pattern_mistake(function: str, arguments: Sequence[object]) -> str | None:
    """Why a function can never match with these constant arguments behind its text; None if it can, or is no pattern.

    >>> pattern_mistake("like", ["a%"]) is None, pattern_mistake("like", ["a%", "xy"])
    (True, "the escape of LIKE must be one character, not 'xy'")
    """
    if function not in _MATCHERS or not all(isinstance(a, str) for a in arguments):
        return None
    try:
        _MATCHERS[function](*arguments)
    except DataError as e:
        return str(e)
    return None


def _by_pattern(matcher: Callable[..., Kernel]) -> Kernel:
    """Patterns that differ by row: the rows of one pattern are matched together."""
    remembered = functools.lru_cache(maxsize=1024)(matcher)

    def kernel(text: Value, *patterns: Value) -> pa.Array:
        length = next(len(a) for a in (text, *patterns) if isinstance(a, pa.Array))
        texts = broadcast(text, length)
        valid = valid_mask(texts)
        rows: dict[tuple[str, ...], list[int]] = {}
        for row, key in enumerate(zip(*(broadcast(p, length).to_pylist() for p in patterns), strict=True)):
            if None not in key and (valid is None or valid[row]):
                rows.setdefault(key, []).append(row)
        found, known = np.zeros(length, np.bool_), np.zeros(length, np.bool_)
        reasons: dict[int, str] = {}
        for key, at in rows.items():
            try:
                found[at] = mask_of(remembered(*key)(texts.take(pa.array(at, pa.int64()))))
                known[at] = True
            except DataError as e:
                reasons |= dict.fromkeys(at, str(e))
        values = pc.if_else(array_of(known), array_of(found), pa.scalar(None, BOOLEAN))
        if not reasons:
            return values
        failing = np.zeros(length, np.bool_)
        failing[list(reasons)] = True
        raise Failure(failing, lambda row: reasons[row], values)

    return kernel


def _matching(function: str) -> Builder:
    matcher = _MATCHERS[function]
    expensive = function == "rlike"

    def build(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
        constant = [a.value for a in arguments[1:]]
        if None in constant or arguments[0].literal is not None or pattern_mistake(function, constant):
            return Built(_by_pattern(matcher), can_fail=True, expensive=True)
        fast = matcher(*constant)
        return Built(lambda a, *_: fast(a), expensive=expensive)

    return build


BUILDERS: dict[str, Builder] = {
    **{name: _matching(name) for name in _MATCHERS},
    "startswith": by_value(pc.starts_with, lambda text, part: text.startswith(part), BOOLEAN),
    "endswith": by_value(pc.ends_with, lambda text, part: text.endswith(part), BOOLEAN),
    "contains": by_value(pc.match_substring, lambda text, part: part in text, BOOLEAN),
}
