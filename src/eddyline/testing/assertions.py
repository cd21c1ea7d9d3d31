"""Assertions on the results of a query and on the state that it keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import pyarrow as pa

from eddyline.testing.tables import comparable, difference, rows_of, show, table


class _Reports(Protocol):
    def report(self) -> Mapping[str, Any]: ...


def as_table(results: Any) -> pa.Table:
    """An Arrow table from a table, a batch, a reader, a query, or a list of batches."""
    if isinstance(results, pa.Table):
        return results
    if isinstance(results, pa.RecordBatch):
        return pa.Table.from_batches([results])
    if isinstance(results, pa.RecordBatchReader):
        return results.read_all()
    if hasattr(results, "to_arrow"):
        return results.to_arrow()
    return pa.Table.from_batches(list(results))


def assert_results(results: Any, expected: str | pa.Table, *, ordered: bool = False, digits: int | None = None) -> None:
    """Results (a query, a table, batches) equal the table written as text, as bags unless ``ordered``.

    ``_time`` and ``_sign`` are compared if the expected table names them; every other column of the result must be
    named. ``digits`` compares doubles to that many significant digits.

    >>> assert_results(pa.table({"a": [2, 1], "_time": [5, 5]}), '''
    ...     a
    ...     1
    ...     2
    ... ''')
    >>> assert_results(pa.table({"a": [2]}), "a\\n1")
    Traceback (most recent call last):
    AssertionError: the results differ.
      missing:    1
      unexpected: 2
    """
    actual = as_table(results)
    wanted = table(expected) if isinstance(expected, str) else expected
    names = wanted.schema.names
    unknown = [n for n in names if n not in actual.schema.names]
    unnamed = [n for n in actual.schema.names if n not in names and n not in ("_time", "_sign")]
    if unknown or unnamed:
        raise AssertionError(f"the results have the columns {actual.schema.names}, expected were {names}.")
    actual = actual.select(names)
    wanted = pa.table([adapt(wanted[n], actual[n].type) for n in names], names=names)
    have, want = rows_of(actual), rows_of(wanted)
    missing, unexpected = difference(have, want, digits)
    if missing or unexpected:
        lines = ["the results differ."]
        lines += [f"  missing:    {' | '.join(map(show, row))}" for row in missing]
        lines += [f"  unexpected: {' | '.join(map(show, row))}" for row in unexpected]
        raise AssertionError("\n".join(lines))
    if ordered:
        for i, (a, b) in enumerate(zip(have, want, strict=True)):
            if comparable(a, digits) != comparable(b, digits):
                raise AssertionError(f"row {i} is {' | '.join(map(show, a))}, expected {' | '.join(map(show, b))}.")


def adapt(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """Expected cells in the type of the result, where that loses nothing (an ``1`` may stand for a double)."""
    try:
        return column.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return column


def assert_state_rows(query: _Reports, *, at_most: int) -> None:
    """The largest number of rows that the query kept at any time is at most the bound."""
    state = query.report()["state"]
    rows = state.get("peak_rows", state.get("rows"))
    if rows > at_most:
        raise AssertionError(f"the query kept {rows} rows in its state, more than {at_most}: {dict(state)}")
