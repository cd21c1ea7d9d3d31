"""Parts of texts by regular expressions (RE2's, as for RLIKE): ``regexp_extract`` and ``regexp_replace``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.errors import DataError, quoted
from eddyline.expr.builtins.base import Builder
from eddyline.expr.builtins.by_value import by_value
from eddyline.expr.builtins.patterns import regex_kernel
from eddyline.expr.types import STRING


def extract(texts: pa.Array, pattern: str, group: int = 1) -> pa.Array:
    """A group of the first match, the empty text where there is none; group 0 is the whole match.

    >>> extract(pa.array(["a=1", "b", None]), "([a-z])=([0-9])", 2).to_pylist()
    ['1', '', None]
    """
    kernel = regex_kernel(pattern)
    named = named_groups(pattern)
    if named is not None:
        found = pc.extract_regex(texts, named)
        if not 0 <= group < found.type.num_fields:
            raise DataError(f"the regular expression {quoted(pattern)} has no group {group}")
        return pc.if_else(texts.is_valid(), pc.struct_field(found, group).fill_null(""), pa.scalar(None, pa.string()))
    matches = kernel(texts)
    # A replacement of the whole text by the group: what stands before the match is as short as can be.
    kept = f"({pattern})" if group == 0 else f"(?:{pattern})"
    whole, group = f"^(?s:.*?){kept}(?s:.*)\\z", group or 1
    try:
        pc.replace_substring_regex(pa.array([""]), whole, f"\\{group}")
    except pa.ArrowInvalid:
        raise DataError(f"the regular expression {quoted(pattern)} has no group {group}") from None
    return pc.if_else(matches, pc.replace_substring_regex(texts, whole, f"\\{group}"), "")


def named_groups(pattern: str) -> str | None:
    r"""The pattern with a name for the whole and for each of its groups, as Arrow asks for them; None where that takes
    more than a look at its parentheses.

    >>> named_groups(r"(&|^)id=([^&)]*)\(x(?:y)")
    '(?P<g0>(?P<g1>&|^)id=(?P<g2>[^&)]*)\\(x(?:y))'
    >>> named_groups(r"(?P<a>x)") is None
    True
    """
    if "\\Q" in pattern or "(?P<" in pattern or "(?<" in pattern:
        return None
    out, groups, at, within = list[str](), 0, 0, False  # within brackets
    while at < len(pattern):
        c = pattern[at]
        step = 2 if c == "\\" else 1
        if within:
            if pattern.startswith("[:", at):
                step = pattern.find(":]", at) + 2 - at
                if step <= 0:
                    return None
            within = c != "]"
        elif c == "[":
            within = True
            step += pattern.startswith("^", at + 1)
            step += pattern.startswith("]", at + step)
        elif c == "(" and not pattern.startswith("(?", at):
            groups += 1
            out.append(f"(?P<g{groups}>")
            at += 1
            continue
        out.append(pattern[at : at + step])
        at += step
    return f"(?P<g0>{''.join(out)})"


def replace(texts: pa.Array, pattern: str, replacement: str) -> pa.Array:
    r"""Every match replaced; ``$1`` in the replacement is a group, ``\$`` a dollar sign.

    >>> replace(pa.array(["tel. 12 34", None]), "([0-9])([0-9])", "$2$1").to_pylist()
    ['tel. 21 43', None]
    """
    regex_kernel(pattern)
    try:
        pc.replace_substring_regex(pa.array([""]), pattern, _rewritten(replacement))
    except pa.ArrowInvalid:
        found = f"the replacement {quoted(replacement)} names a group that {quoted(pattern)} does not have"
        raise DataError(found) from None
    return pc.replace_substring_regex(texts, pattern, _rewritten(replacement))


def _rewritten(replacement: str) -> str:
    r"""Java's notation, which is Spark's, as RE2's.

    >>> _rewritten(r"$1 \$ a")
    '\\1 $ a'
    """
    if re.search(r"(?<!\\)(?:\\\\)*\$(?![0-9])", replacement) or re.search(r"(?<!\\)(?:\\\\)*\\$", replacement):
        raise DataError(
            f"the replacement {quoted(replacement)} has a '$' or a '\\' that stands for nothing: write '\\$'"
        )

    def one(found: re.Match[str]) -> str:
        if found[1] is not None:
            return f"\\{found[1]}"
        kept = found[2] if found[2] is not None else found[0]
        return "\\\\" if kept == "\\" else kept

    return re.sub(r"\$([0-9])|\\(.)|[^$\\]", one, replacement, flags=re.DOTALL)


_FUNCTIONS: dict[str, Callable[..., pa.Array]] = {"regexp_extract": extract, "regexp_replace": replace}


def mistake(function: str, arguments: list[Any]) -> str | None:
    """Why constant arguments behind the text can never do."""
    try:
        _FUNCTIONS[function](pa.array([""]), *arguments)
    except DataError as e:
        return str(e)
    return None


def _fails(function: str) -> Any:
    return lambda *values: None in values or mistake(function, list(values)) is not None


BUILDERS: dict[str, Builder] = {
    "regexp_extract": by_value(
        extract,
        lambda text, *a: extract(pa.array([text]), *a)[0].as_py(),
        STRING,
        _fails("regexp_extract"),
        expensive=True,
    ),
    "regexp_replace": by_value(
        replace,
        lambda text, *a: replace(pa.array([text]), *a)[0].as_py(),
        STRING,
        _fails("regexp_replace"),
        expensive=True,
    ),
}
