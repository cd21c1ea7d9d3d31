"""Eddyline for people who have DataFrames: plain PySpark in, plain PySpark out.

The public functions stand here; ``eddyline.spark.frames`` defines them. The other modules of this package run the
engine on Spark: rows become per-shard Arrow blobs, and every shard runs the engine on its own. Importing this package
does not import PySpark.
"""

from __future__ import annotations

from eddyline.spark.frames import adaptive_filter, explain, invalid, late, query, report, sentence, stream, window_join

__all__ = ["adaptive_filter", "explain", "invalid", "late", "query", "report", "sentence", "stream", "window_join"]
