"""Files for Spark to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def write_parts(place: Path, rows: int, parts: int, columns: Callable[[range], Mapping[str, Sequence[Any]]]) -> Path:
    """Parquet files of equal length; ``columns`` makes those of a range of row numbers."""
    for i in range(parts):
        table = pa.table(dict(columns(range(i * rows // parts, (i + 1) * rows // parts))))
        pq.write_table(table, place / f"{i}.parquet")
    return place
