"""The rows of SysStream that a query can use: only these are collected.

Conjuncts right above the scan that compare a column with texts say which values can matter. Everything else, such as a
filter above a window that counts rows, is left to the query, and all values are collected for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from eddyline.core.system_streams import SYS_STREAM
from eddyline.expr.nodes import Call, Column, Expr, Literal
from eddyline.plan.logical import Plan, Select, StreamScan, children
from eddyline.plan.traverse import each

COLUMNS: Final = ("query", "entity", "kind", "property")


@dataclass(frozen=True, slots=True)
class WantedRows:
    """By column the values that can matter; None: all of them."""

    query: frozenset[str] | None = None
    entity: frozenset[str] | None = None
    kind: frozenset[str] | None = None
    property: frozenset[str] | None = None

    def admits(self, **values: str) -> bool:
        """
        >>> WantedRows(property=frozenset({"rate"})).admits(kind="query", property="rate")
        True
        >>> WantedRows(property=frozenset({"rate"}), query=frozenset({"q"})).admits(query="r", property="rate")
        False
        """
        for column, value in values.items():
            allowed = getattr(self, column)
            if allowed is not None and value not in allowed:
                return False
        return True


def wanted_by(plan: Plan, above: Sequence[Expr] = ()) -> Iterator[WantedRows]:
    """For each scan of SysStream in an optimized plan what it asks for."""
    if any(_is_system(p) for p in each(plan)):
        yield from _wanted_below(plan, above)


def _is_system(plan: Plan) -> bool:
    return isinstance(plan, StreamScan) and plan.stream.lower() == SYS_STREAM.lower()


def _wanted_below(plan: Plan, above: Sequence[Expr]) -> Iterator[WantedRows]:
    if isinstance(plan, StreamScan):
        if _is_system(plan):
            yield _wanted(plan, above)
        return
    mine = (*plan.conjuncts, *above) if isinstance(plan, Select) else ()
    for child in children(plan):
        yield from _wanted_below(child, mine)


def _wanted(scan: StreamScan, conjuncts: Sequence[Expr]) -> WantedRows:
    found: dict[str, frozenset[str]] = {}
    for conjunct in conjuncts:
        texts = _texts(conjunct)
        column = None if texts is None else texts[0].removeprefix(f"{scan.alias}.")
        if texts is not None and column in COLUMNS:
            found[column] = found.get(column, texts[1]) & texts[1]
    return WantedRows(**found)


def _texts(conjunct: Expr) -> tuple[str, frozenset[str]] | None:
    """The column and the texts of ``column = 'text'`` or ``column IN ('text', …)``."""
    if not isinstance(conjunct, Call) or conjunct.function not in ("eq", "in"):
        return None
    columns = [a for a in conjunct.args if isinstance(a, Column)]
    literals = [a for a in conjunct.args if isinstance(a, Literal)]
    if len(columns) != 1 or len(columns) + len(literals) != len(conjunct.args):
        return None
    if conjunct.function == "in" and not isinstance(conjunct.args[0], Column):
        return None
    return columns[0].name, frozenset(a.value for a in literals if isinstance(a.value, str))
