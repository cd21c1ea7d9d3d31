"""Predicates in Python: a function, the columns that it reads, how it is called and what it costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from eddyline.core.arguments import flag, one_of, optional_text, shown
from eddyline.core.catalog import FunctionDef
from eddyline.core.errors import JobError

Kind = Literal["row", "pandas", "arrow"]


@dataclass(frozen=True, slots=True)
class Predicate:
    """Made by ``predicate``. It can be called like its function."""

    function: Callable[..., Any]
    columns: tuple[str, ...]
    kind: Kind = "row"
    cost: float | None = None
    deterministic: bool = True
    name: str = ""

    def __call__(self, *values: Any) -> Any:
        return self.function(*values)

    def definition(self, name: str | None = None) -> FunctionDef:
        """As a function that queries can call by a name."""
        called = name or self.name
        return FunctionDef(called, self.function, pa.bool_(), None, self.kind, self.cost, self.deterministic)


def predicate(
    function: Callable[..., Any],
    *columns: str,
    kind: str = "row",
    cost: float | None = None,
    deterministic: bool = True,
    name: str | None = None,
) -> Predicate:
    """A Python function as a filter: of a query through ``session.function``, or of a DataFrame.

    ``columns`` are its arguments. ``kind`` is how it is called: ``row`` once a row with Python values, ``pandas`` with
    Series, ``arrow`` with Arrow arrays. ``cost`` in seconds a row is believed until it was measured. A function that is
    not ``deterministic``, or has side effects, keeps its place among the filters.

    >>> long = predicate(lambda text: len(text) > 3, "text", cost=1e-6, name="long")
    >>> long("four"), long.columns, long.kind
    (True, ('text',), 'row')
    >>> predicate(len, "text", kind="rows")
    Traceback (most recent call last):
    ...
    eddyline.core.errors.JobError: the kind of the predicate 'len' is 'row', 'pandas' or 'arrow', not 'rows'.
    """
    called = optional_text(name, "the name of a predicate") or str(
        getattr(function, "__name__", type(function).__name__)
    )
    if not callable(function):
        raise JobError(f"a predicate is a function, and a {type(function).__name__} is not; write a condition as text.")
    one_of(kind, ("row", "pandas", "arrow"), f"the kind of the predicate {called!r}")
    flag(deterministic, "deterministic")
    for c in columns:
        if not isinstance(c, str):
            raise JobError(f"the columns of the predicate {called!r} are names, not {shown(c)}.")
    check_cost(called, cost)
    return Predicate(function, columns, kind, cost, deterministic, called)  # type: ignore[arg-type]


def check_cost(name: str, cost: Any) -> None:
    """Refuse a declared cost that is no time."""
    number = isinstance(cost, int | float) and not isinstance(cost, bool)
    if cost is not None and not (number and 0 < cost < math.inf):
        raise JobError(f"the cost of {name!r} is a positive number of seconds for one row, not {shown(cost)}.")
