"""LIKE, regular expressions and the plain searches.

A LIKE pattern is compiled once: to equality, a prefix, a suffix or a substring search where it is one, to a regular
expression otherwise. Regular expressions run in RE2; patterns that RE2 does not know (look-around, back-references) run
in Python's ``re``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.errors import DataError
from eddyline.expr.arrays import Kernel, row_wise
from eddyline.expr.builtins.base import Argument, Builder, Built
from eddyline.expr.builtins.by_value import by_value
from eddyline.expr.types import BOOLEAN

_ANY, _ONE = object(), object()


def _tokens(pattern: str, escape: str) -> list[object]:
    """The pattern as texts, ``_ANY`` and ``_ONE``; an escape before anything else is an error as in Spark."""
    if len(escape) != 1:
        raise DataError(f"the escape of LIKE must be one character, not {escape!r}")
    tokens: list[object] = []
    at = 0
    while at < len(pattern):
        c = pattern[at]
        if c == escape:
            at += 1
            if at == len(pattern) or pattern[at] not in ("%", "_", escape):
                raise DataError(f"the LIKE pattern {pattern!r} has {escape!r} before a character that needs none")
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


def _regex(tokens: Sequence[object]) -> str:
    return "".join(".*" if t is _ANY else "." if t is _ONE else re.escape(str(t)) for t in tokens)


@functools.lru_cache(maxsize=1024)
def _python_like(pattern: str, escape: str, ignore_case: bool) -> re.Pattern[str]:
    return re.compile(_regex(_tokens(pattern, escape)), re.DOTALL | (re.IGNORECASE if ignore_case else 0))


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
    return lambda a: pc.match_substring_regex(a, f"{flags}^{body}$")


def _like(ignore_case: bool) -> Builder:
    def build(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
        slow = row_wise(
            lambda text, pattern, escape="\\": _python_like(pattern, escape, ignore_case).fullmatch(text) is not None,
            BOOLEAN,
        )
        constant = [a.value for a in arguments[1:]]
        if None in constant or arguments[0].literal is not None:
            return Built(slow, can_fail=True, expensive=True)
        try:
            fast = like_kernel(constant[0], constant[1] if len(constant) > 1 else "\\", ignore_case)
            fast(pa.array([""]))
        except (DataError, pa.ArrowInvalid):
            return Built(slow, can_fail=True, expensive=True)
        return Built(lambda a, *_: fast(a))

    return build


@functools.lru_cache(maxsize=1024)
def _python_regex(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern, re.ASCII)
    except re.error as e:
        raise DataError(f"the regular expression {pattern!r} is malformed ({e})") from e


def _rlike(arguments: Sequence[Argument], returns: pa.DataType) -> Built:
    slow = row_wise(lambda text, pattern: _python_regex(pattern).search(text) is not None, BOOLEAN)
    pattern = arguments[1].value
    if pattern is None or arguments[0].literal is not None:
        return Built(slow, can_fail=True, expensive=True)
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid:
        try:
            _python_regex(pattern)
        except DataError:
            return Built(slow, can_fail=True, expensive=True)
        return Built(slow, expensive=True)
    return Built(lambda a, _: pc.match_substring_regex(a, pattern), expensive=True)


BUILDERS: dict[str, Builder] = {
    "like": _like(ignore_case=False),
    "ilike": _like(ignore_case=True),
    "rlike": _rlike,
    "startswith": by_value(pc.starts_with, lambda text, part: text.startswith(part), BOOLEAN),
    "endswith": by_value(pc.ends_with, lambda text, part: text.endswith(part), BOOLEAN),
    "contains": by_value(pc.match_substring, lambda text, part: part in text, BOOLEAN),
}
