"""The common parts of the two data sources: planning by offsets, and objects that are passed in options."""

from __future__ import annotations

import base64
import hashlib
import pickle
import weakref
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from eddyline.spark.failures import carried

if TYPE_CHECKING:
    from eddyline.spark.sources.planner import Offset, Planner

BATCH_TASK_ROWS: Final = 2_000_000  # rows of a task of a batch query: its blobs must fit into memory
MAX_UNPICKLED: Final = 8  # objects that a worker keeps unpickled

_unpickled: OrderedDict[str, Any] = OrderedDict()
_registered: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()


class Described:
    """An object that travels as bytes and is unpickled when it is asked for, once in a process.

    >>> Described.from_text(Described.of({"a": 1}).text()).get()
    {'a': 1}
    """

    def __init__(self, pickled: bytes) -> None:
        self.pickled, self.name = pickled, hashlib.sha256(pickled).hexdigest()

    @staticmethod
    def of(value: Any) -> Described:
        return Described(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]

    @staticmethod
    def from_text(text: str) -> Described:
        return Described(base64.b64decode(text))

    def text(self) -> str:
        return base64.b64encode(self.pickled).decode()

    def get(self) -> Any:
        found = _unpickled.get(self.name)
        if found is None:
            found = _unpickled[self.name] = pickle.loads(self.pickled)
            while len(_unpickled) > MAX_UNPICKLED:
                _unpickled.popitem(last=False)
        return found

    def fresh(self) -> Any:
        """One that no other reader has."""
        return pickle.loads(self.pickled)


class Planned(SupportsTriggerAvailableNow):
    """What a streaming reader says about offsets: its planner says it, which is made when first asked."""

    _planner: Planner | None = None

    @abstractmethod
    def make(self) -> Planner:
        """A planner of its own, in the process that plans."""

    @property
    def planner(self) -> Planner:
        if self._planner is None:
            with carried():
                self._planner = self.make()
        return self._planner

    def initialOffset(self) -> Offset:
        return self.planner.first()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        with carried():
            if isinstance(limit, ReadAllAvailable):
                return self.planner.latest(start, None)
            return self.planner.latest(start, limit.max_rows if isinstance(limit, ReadMaxRows) else self.planner.rows)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.planner.rows)

    def prepareForTriggerAvailableNow(self) -> None:
        self.planner.freeze()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        with carried():
            return [InputPartition(t) for t in self.planner.tasks(start, end)]


def everything(planner: Planner) -> list[InputPartition]:
    """All that there is, as one batch."""
    planner.freeze()
    start = planner.first()
    end = planner.latest(start, None)
    return [InputPartition(t) for t in planner.tasks(start, end, BATCH_TASK_ROWS)]


def registered(spark: Any, source: type[DataSource]) -> None:
    """Make a data source known to a session, once: Spark warns when a name is registered again."""
    names = _registered.setdefault(spark, set())
    if source.name() not in names:
        spark.dataSource.register(source)
        names.add(source.name())
