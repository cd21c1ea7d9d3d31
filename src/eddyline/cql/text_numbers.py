"""Texts that meet numbers.

Spark's ANSI mode reads a text as a number where the two are compared or share a column, and fails at the first row that
holds none. A column of texts beside a number is a mistake more often than not, and it should not take hours to show: it
is refused when the query is bound. A text that is written in the query is read there and then, so it is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from eddyline.expr.describe import as_written
from eddyline.expr.nodes import Expr, Literal
from eddyline.expr.types import STRING, is_numeric, type_name

# Functions whose arguments are brought to one type.
ALIKE: Final = frozenset(
    ("eq", "ne", "lt", "le", "gt", "ge", "null_safe_eq", "in", "nullif", "coalesce", "greatest", "least")
)


def text_beside_number(values: Iterable[Expr], target: pa.DataType) -> str | None:
    """Why these values cannot be brought to one type, or None.

    >>> from eddyline.expr.nodes import Column
    >>> text_beside_number([Column("S.carrier", STRING)], pa.int64())
    'S.carrier is a text and stands beside a number: write CAST(S.carrier AS bigint), or the number in quotes.'
    >>> text_beside_number([Literal("5", STRING)], pa.int64()) is None
    True
    """
    if is_numeric(target):
        for value in values:
            if value.type == STRING and not isinstance(value, Literal):
                shown = as_written(value)
                shown = shown if len(shown) <= 60 else "x"
                named = shown if shown != "x" else "a value"
                return (
                    f"{named} is a text and stands beside a number: write CAST({shown} AS {type_name(target)}), "
                    "or the number in quotes."
                )
    return None
