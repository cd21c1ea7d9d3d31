"""The stateful processor of a streaming fit, as Spark sees it; like ``processor`` it imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from eddyline.spark.output_columns import BLOB

if TYPE_CHECKING:
    import pandas as pd

    from eddyline.engine.fit import FitPlan

_NUMBER: Final = StructType([StructField("number", LongType())])
_DATA: Final = StructType([StructField("data", BinaryType())])


class FitProcessor(StatefulProcessor):
    """``fingerprint`` is that of ``facts``, what the state depends on: another fit cannot go on with it."""

    def __init__(self, plan: FitPlan, facts: bytes, fingerprint: str) -> None:
        self.plan, self.facts, self.fingerprint = plan, facts, fingerprint

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.segments = handle.getMapState("segments", _NUMBER, _DATA)

    def close(self) -> None:
        pass

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        import pandas as pd

        from eddyline.core.errors import EddylineError
        from eddyline.spark.failures import carried
        from eddyline.spark.fit_worker import fit_samples
        from eddyline.spark.shard_state import SegmentLog
        from eddyline.spark.shard_worker import SparkValues

        with carried():
            log = SegmentLog(SparkValues(self.segments))
            head = log.head()
            fitter = self.plan.fitter()
            if head is not None:
                if head.program != self.fingerprint:
                    raise EddylineError(
                        "the checkpoint is of a fit of other columns, bounds or shards: use another checkpoint, or the "
                        "arguments of then."
                    )
                fitter.load(log.load(head))
            made = fit_samples(self.plan, fitter, (b for frame in rows for b in frame[BLOB]))
            log.save(fitter.state(), head, self.fingerprint, self.facts)
            yield pd.DataFrame({BLOB: [made]})
