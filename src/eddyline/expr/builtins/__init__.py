"""What the built-in functions compute, over Arrow arrays.

Each module maps canonical names to *builders*: a builder sees the argument types and those arguments that are literal,
once, and returns the kernel that runs on every batch. At least one argument of a kernel is an array; literals come as
scalars.

Nothing here makes Arrow values while it is imported: the first one would import pandas, where that is installed.
"""

from __future__ import annotations

from eddyline.expr.builtins.arithmetic import BUILDERS as _ARITHMETIC
from eddyline.expr.builtins.base import Argument, Builder, Built
from eddyline.expr.builtins.comparison import BUILDERS as _COMPARISON
from eddyline.expr.builtins.datetimes import BUILDERS as _DATETIMES
from eddyline.expr.builtins.mathematics import BUILDERS as _MATHEMATICS
from eddyline.expr.builtins.patterns import BUILDERS as _PATTERNS
from eddyline.expr.builtins.texts import BUILDERS as _TEXTS

__all__ = ["BUILDERS", "Argument", "Builder", "Built"]

BUILDERS: dict[str, Builder] = {**_ARITHMETIC, **_COMPARISON, **_DATETIMES, **_MATHEMATICS, **_PATTERNS, **_TEXTS}
