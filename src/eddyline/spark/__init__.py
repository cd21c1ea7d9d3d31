"""Eddyline for people who have DataFrames: plain PySpark in, plain PySpark out.

The public functions stand here; ``eddyline.spark.frames`` defines them, and is loaded when one is first used, because
workers of Spark import this package at their start and must not wait. The other modules of this package run the engine
on Spark: rows become per-shard Arrow blobs, and every shard runs the engine on its own. Importing this package does not
import PySpark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eddyline.spark.frames import (
        adaptive_filter,
        explain,
        fit,
        invalid,
        late,
        query,
        report,
        segment_table,
        sentence,
        stream,
        sweep,
        window_join,
    )
    from eddyline.spark.quiet_start import quiet

__all__ = [
    "adaptive_filter",
    "explain",
    "fit",
    "invalid",
    "late",
    "query",
    "quiet",
    "report",
    "segment_table",
    "sentence",
    "stream",
    "sweep",
    "window_join",
]


def __getattr__(name: str) -> Any:
    if name == "quiet":
        from eddyline.spark.quiet_start import quiet

        return quiet
    if name in __all__:
        from eddyline.spark import frames

        return getattr(frames, name)
    raise AttributeError(f"module 'eddyline.spark' has no attribute {name!r}")
