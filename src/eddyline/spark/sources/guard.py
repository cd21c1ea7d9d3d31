"""A source without rows that keeps in Spark's offset log what program a checkpoint belongs to.

Every shard checks the state that it takes over, but only when a micro-batch brings rows: a changed query would start on
an old checkpoint and fail hours later, with the first data. Spark asks each source for its latest offset before that,
and hands it the last one of the checkpoint. So the facts of the program (``compatibility``) are the offset of a source
of their own, and a program with other facts is refused there, when the query starts.

The offset moves once in the life of a checkpoint, from nothing to the facts, with the first micro-batch. If that one
fails, nothing was saved, and the user may change the query: Spark then runs the same micro-batch again and asks this
source for the rows between its offsets, which shows that the facts were never committed.

Letters that steer the shards (``steering``) travel through the same source, because it stands beside every query that
others start: once some are sent, the offset counts them and holds those of its own micro-batch, each shard gets one row
with them, and a micro-batch that is run again delivers the same.

Spark runs this in a process of its own beside the driver; what is heavy is imported only to say what has changed.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from eddyline.core.errors import EddylineError
from eddyline.spark.failures import carried
from eddyline.spark.letters import STEERING, read_letters
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
        keys = tuple(json.loads(self.options["keys"]))
        return Guard(self.options["program"], self.options["facts"], self.options["letters"], keys)


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

    def __init__(self, program: str, facts: str, letters: str = "", keys: tuple[int, ...] = ()) -> None:
        self.offset = {"program": program, "facts": facts}
        self.letters, self.keys = letters, keys
        self._before: int | None = None  # letters that were delivered before this run
        self.uncommitted: str | None = None  # the program whose first micro-batch is run again here

    def initialOffset(self) -> dict[str, Any]:
        return dict(NOTHING)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        then = start["program"]
        if then not in (None, self.uncommitted, self.offset["program"]):
            with carried():
                raise EddylineError(_changed(start["facts"], self.offset["facts"]))
        sent = int(start.get("sent", 0))
        if self._before is None:
            self._before = sent
        fresh = read_letters(self.letters, sent - self._before)
        if fresh:
            return {**self.offset, "sent": sent + len(fresh), "letters": fresh}
        return {**self.offset, **{k: start[k] for k in ("sent", "letters") if k in start}}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """There are no rows."""

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if start["program"] is None:
            self.uncommitted = end["program"]
        fresh = end.get("sent", 0) > start.get("sent", 0)
        return [InputPartition(json.dumps(end["letters"]) if fresh else None)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if partition.value is not None:
            for key in self.keys:
                yield (key, STEERING, 0, None, None, 0, False, partition.value.encode())


def _changed(then: str, now: str) -> str:
    from eddyline.spark import compatibility

    before, after = (compatibility.unpack(base64.b64decode(facts)) for facts in (then, now))
    if before.get("format") != compatibility.FORMAT:
        return compatibility.wrong_format(before.get("format"))
    return compatibility.explain(before, after)


def guard_frame(spark: Any, program: Program, letters: str = "") -> Any:
    """A streaming DataFrame of packed rows that has none but ``letters``, from the file of a mailbox."""
    from eddyline.spark import compatibility

    facts = compatibility.facts(program)
    stored = base64.b64encode(compatibility.pack(facts)).decode()
    registered(spark, GuardSource)
    reader = spark.readStream.format(FORMAT).schema(packed_schema())
    keys = json.dumps(program.keys())
    return reader.options(program=compatibility.fingerprint(facts), facts=stored, letters=letters, keys=keys).load()
