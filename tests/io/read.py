"""Reading whole sources in tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eddyline.io.source import BATCH_ROWS, InvalidRow, Source


def rows(source: Source, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS) -> list[dict[str, Any]]:
    return [r for b in source.open(columns, batch_rows) for r in b.rows.to_pylist()]


def invalid(source: Source) -> list[InvalidRow]:
    return [i for b in source.open() for i in b.invalid]


def reasons(source: Source) -> list[str]:
    return [i.reason for i in invalid(source)]
