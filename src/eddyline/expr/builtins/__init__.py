"""The built-in functions, over Arrow arrays.

Each module maps canonical names to *builders*: a builder sees the argument types and those arguments that are literal,
once, and returns the kernel that runs on every batch. At least one argument of a kernel is an array; literals come as
scalars.

Nothing here makes Arrow values while it is imported: the first one would import pandas, where that is installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eddyline.expr.builtins import date_formats, regexps
from eddyline.expr.builtins.arithmetic import BUILDERS as _ARITHMETIC
from eddyline.expr.builtins.base import Argument, Builder, Built
from eddyline.expr.builtins.comparison import BUILDERS as _COMPARISON
from eddyline.expr.builtins.date_formats import BUILDERS as _DATE_FORMATS
from eddyline.expr.builtins.datetimes import BUILDERS as _DATETIMES
from eddyline.expr.builtins.lists import BUILDERS as _LISTS
from eddyline.expr.builtins.mathematics import BUILDERS as _MATHEMATICS
from eddyline.expr.builtins.patterns import BUILDERS as _PATTERNS
from eddyline.expr.builtins.regexps import BUILDERS as _REGEXPS
from eddyline.expr.builtins.texts import BUILDERS as _TEXTS

__all__ = ["BUILDERS", "Argument", "Builder", "Built", "argument_mistake"]

BUILDERS: dict[str, Builder] = {
    **_ARITHMETIC,
    **_COMPARISON,
    **_DATE_FORMATS,
    **_DATETIMES,
    **_LISTS,
    **_MATHEMATICS,
    **_PATTERNS,
    **_REGEXPS,
    **_TEXTS,
}


def argument_mistake(function: str, arguments: Sequence[Any]) -> str | None:
    """Why a function can never be computed with these constant arguments behind the first; None where it can, or where
    one is no constant."""
    if None in arguments:
        return None
    if function == "date_format":
        return date_formats.mistake(*arguments)
    return regexps.mistake(function, list(arguments)) if function in regexps.BUILDERS else None
