"""The session that users open: in this process, or on a SparkSession."""

from __future__ import annotations

from typing import Any

from eddyline.engine import session as engine


class Session(engine.Session):
    """Runs continuous queries in this process; ``Session(spark)`` runs them on a SparkSession.

    >>> session = Session()
    >>> session.stream("packets", [{"ts": 1, "size": 40}, {"ts": 2, "size": 1500}], timestamp="ts")
    >>> session.query("SELECT Istream(size) FROM packets WHERE size > 500").to_arrow().to_pylist()
    [{'size': 1500, '_time': 2}]
    """

    __doc__ = f"{__doc__}\n{engine.Session.__doc__}"

    def __new__(cls, spark: Any = None, **options: Any) -> Any:
        if spark is None:
            return super().__new__(cls)
        from eddyline.spark.session import SparkRuntime

        return SparkRuntime(spark, **options)

    def __init__(self, spark: None = None, **options: Any) -> None:
        super().__init__(**options)
