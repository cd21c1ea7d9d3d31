"""The stateful processor as Spark sees it: its parts, its state, and what it calls.

Spark unpickles this in one more process, before the first micro-batch of a query and only to ask for the names of the
state: a Python of its own, in no daemon, while everything waits. So this module imports nothing heavy. The work is in
``shard_worker``, which is imported with the first row; in workers the daemon has loaded it long before.

Two forms of output:

- *typed*, for a program of one query: its columns, and ``TAG``, which is NULL for results and JSON for statistics;
- *tagged*, for any program: number of the query, and an Arrow stream of results or JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from eddyline.spark.output_columns import TAG

if TYPE_CHECKING:
    import pandas as pd

    from eddyline.spark.shard_worker import ShardTask

_NUMBER: Final = StructType([StructField("number", LongType())])
_DATA: Final = StructType([StructField("data", BinaryType())])


def typed_output(result: StructType) -> StructType:
    return StructType([*result.fields, StructField(TAG, StringType())])


class ShardProcessor(StatefulProcessor):
    """``program`` is pickled, so that a worker unpickles it once and not for every task; ``fingerprint`` is that of
    ``facts``, what its state depends on (``compatibility``). Without ``streaming`` there is one micro-batch, the input
    ends with it, and nothing need be stored. With ``idle`` a shard is woken when a stream has been silent too long."""

    def __init__(
        self,
        run: str,
        facts: bytes,
        fingerprint: str,
        program: bytes,
        result: StructType | None,
        streaming: bool,
        idle: bool,
    ) -> None:
        self.run, self.facts, self.fingerprint, self.program = run, facts, fingerprint, program
        self.result, self.streaming, self.idle = result, streaming, idle

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        # One variable for all, since each costs every task some 20 ms to open. Types, not texts: those would be sent to
        # the JVM to be parsed, twice each.
        self.segments = handle.getMapState("segments", _NUMBER, _DATA) if self.streaming else None
        self._task: ShardTask | None = None

    def close(self) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        return self.task.visit(int(key[0]), rows, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        return self.task.visit(int(key[0]), iter(()), timerValues)

    @property
    def task(self) -> ShardTask:
        if self._task is None:
            from eddyline.spark.shard_worker import ShardTask

            self._task = ShardTask(self)
        return self._task
