"""Our own readers and generators on Spark, through its Python data source interface: no jar."""

from __future__ import annotations

from typing import Any

from eddyline.spark.sources.packed import packed_frame
from eddyline.spark.sources.reading import registered

__all__ = ["packed_frame", "register"]


def register(spark: Any) -> None:
    """Make the format ``eddyline`` known to a session: ``spark.read.format("eddyline").option("source", …).load()``."""
    from eddyline.spark.sources.rows import EddylineSource  # it needs more than workers that pack rows

    registered(spark, EddylineSource)
