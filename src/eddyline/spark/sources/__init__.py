"""Our own readers and generators on Spark, through its Python data source interface: no jar.

Spark starts a Python process to make a data source and another one to plan its micro-batches, for each query: what they
import at the top of these modules is paid twice at each start, so numpy and Arrow are imported where they are used.
"""

from __future__ import annotations

from typing import Any

from eddyline.spark.sources.reading import registered

__all__ = ["register"]


def register(spark: Any) -> None:
    """Make the format ``eddyline`` known to a session: ``spark.read.format("eddyline").option("source", …).load()``."""
    from eddyline.spark.sources.rows import EddylineSource  # it needs more than workers that pack rows

    registered(spark, EddylineSource)
