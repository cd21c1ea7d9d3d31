"""A source without rows that keeps in Spark's offset log what program a checkpoint belongs to.

Every shard checks the state that it takes over, but only when a micro-batch brings rows: a changed query would start on
an old checkpoint and fail hours later, with the first data. Spark asks each source for its latest offset before that,
and hands it the last one of the checkpoint. So the facts of the program (``compatibility``) are the offset of a source
of their own, and a program with other facts is refused there, when the query starts.

The offset moves once in the life of a checkpoint, from nothing to the facts, with the first micro-batch. If that one
fails nothing was saved, and the user mends the query: Spark then runs the same micro-batch again, asks this source for
what lies between its offsets, and so it is known here that the facts were never committed.

Spark runs this in a process of its own beside the driver; what is heavy is imported only to say what has changed.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from eddyline.core.errors import EddylineError
from eddyline.spark.failures import carried
from eddyline.spark.sources.packed import packed_schema
from eddyline.spark.sources.reading import registered

if TYPE_CHECKING:
    from eddyline.spark.program import Program

FORMAT: Final = "eddyline_guard"
NOTHING: Final[dict[str, Any]] = {"program": None, "facts": None}


class GuardSource(DataSource):
    """Its options and its schema are given by ``guard_frame``."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return packed_schema()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return Guard(self.options["program"], self.options["facts"])


class Guard(SupportsTriggerAvailableNow, DataSourceStreamReader):
    """
    >>> guard = Guard("new", "")
    >>> guard.latestOffset(guard.initialOffset(), ReadAllAvailable())  # a new checkpoint
    {'program': 'new', 'facts': ''}
    >>> before = {"program": "old", "facts": ""}
    >>> _ = guard.partitions(NOTHING, before)  # the first micro-batch of another program is run again
    >>> guard.latestOffset(before, ReadAllAvailable())["program"]
    'new'
    """

    def __init__(self, program: str, facts: str) -> None:
        self.offset = {"program": program, "facts": facts}
        self.uncommitted: str | None = None  # the program whose first micro-batch is run again here

    def initialOffset(self) -> dict[str, Any]:
        return dict(NOTHING)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        then = start["program"]
        if then not in (None, self.uncommitted, self.offset["program"]):
            with carried():
                raise EddylineError(_changed(start["facts"], self.offset["facts"]))
        return dict(self.offset)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """There are no rows."""

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if start["program"] is None:
            self.uncommitted = end["program"]
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return iter(())


def _changed(then: str, now: str) -> str:
    from eddyline.spark import compatibility

    before, after = (compatibility.unpack(base64.b64decode(facts)) for facts in (then, now))
    if before.get("format") != compatibility.FORMAT:
        return compatibility.wrong_format(before.get("format"))
    return compatibility.explain(before, after)


def guard_frame(spark: Any, program: Program) -> Any:
    """A streaming DataFrame of packed rows that never has any."""
    from eddyline.spark import compatibility

    facts = compatibility.facts(program)
    stored = base64.b64encode(compatibility.pack(facts)).decode()
    registered(spark, GuardSource)
    reader = spark.readStream.format(FORMAT).schema(packed_schema())
    return reader.options(program=compatibility.fingerprint(facts), facts=stored).load()
