"""Our side: DataFrame in, DataFrame out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyspark.sql.functions as F

from benchmarks.spark.configuration import Configuration


def join(c: Configuration, streams: Mapping[str, Any]) -> Any:
    import eddyline.spark as eds

    return eds.window_join(dict(streams), on="key", within=f"{c.window} seconds", timestamp="ts")


def column(stream: str, name: str) -> str:
    return f"{stream}_{name}"


def times(names: Sequence[str]) -> list[Any]:
    return [F.unix_micros(column(n, "ts")) for n in names]


def macd(c: Configuration, streams: Mapping[str, Any]) -> Any:
    raise NotImplementedError
