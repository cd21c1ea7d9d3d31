"""Tools to test queries: tables written as text, list sources, a clock to advance, assertions, the reference.

>>> from eddyline.testing import assert_results, table
>>> assert_results(table("a\\n1\\n2"), "a\\n2\\n1")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from eddyline.testing.assertions import assert_results, assert_state_rows
    from eddyline.testing.clock import ManualClock
    from eddyline.testing.reference import Reference, RelationData, ResultRow, StreamData
    from eddyline.testing.sources import ABORT, EOF, PAUSE, Aborted, ListSource
    from eddyline.testing.tables import format_table, same_rows, table

__all__ = [
    "ABORT",
    "EOF",
    "PAUSE",
    "Aborted",
    "ListSource",
    "ManualClock",
    "Reference",
    "RelationData",
    "ResultRow",
    "StreamData",
    "assert_results",
    "assert_state_rows",
    "format_table",
    "same_rows",
    "table",
]

_ROOMS: Final = {
    "assertions": ("assert_results", "assert_state_rows"),
    "clock": ("ManualClock",),
    "reference": ("Reference", "RelationData", "ResultRow", "StreamData"),
    "sources": ("ABORT", "EOF", "PAUSE", "Aborted", "ListSource"),
    "tables": ("format_table", "same_rows", "table"),
}
_HOME: Final = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    # Loaded when asked for: a test that writes a table need not load the parser.
    if name not in _HOME:
        raise AttributeError(f"module 'eddyline.testing' has no attribute {name!r}")
    return getattr(import_module(f"eddyline.testing.{_HOME[name]}"), name)
