"""A running query: its operators as tasks, its readers, and the results that wait to be fetched."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Delta
from eddyline.core.errors import DataError
from eddyline.core.schema import Schema
from eddyline.core.time import Clock, TimeKind
from eddyline.engine.closing import frontier as closed
from eddyline.engine.closing import start as start_of_time
from eddyline.engine.executor import Executor
from eddyline.engine.input_manager import InputStream, StreamReader
from eddyline.engine.queues import Queue
from eddyline.engine.scheduler import make_scheduler
from eddyline.engine.side_output import Diverted, SideOutput
from eddyline.engine.task import Task
from eddyline.plan.closing_windows import end_of_time
from eddyline.plan.graph import PhysicalPlan
from eddyline.plan.logical import BoundQuery, Plan, StreamScan
from eddyline.streamon.decision import Decision

CHUNK = 1 << 16  # elements an operator gets at once: large enough for speed, small enough to stay in cache
SMALL = 1 << 12  # batches up to this size are put together: copying is cheaper than two passes


class RunningQuery:
    """Feeds the plan with what its streams have closed, and keeps the results in order."""

    def __init__(
        self,
        query: BoundQuery,
        plan: Plan,
        physical: PhysicalPlan,
        inputs: Mapping[str, InputStream],
        readers: Mapping[int, StreamReader],
        clock: Clock,
        scheduler: str = "fifo",
    ) -> None:
        self.query, self.plan, self.physical = query, plan, physical
        self.inputs, self.readers = inputs, readers
        self.reached: int | None = None
        self.results: deque[pa.RecordBatch] = deque()
        self.produced = 0
        # The most rows and bytes of state that there were. A micro-batch may bring a stream from its first element to
        # its last, behind which windows are empty again: so it is looked at after each run of an operator, and
        # operators with windows look within a run.
        self.peak = (0, 0)
        self._rows = self._bytes = 0
        self._sizes: dict[Task, tuple[int, int]] = {}
        self.error: Exception | None = None  # what stopped the query
        self.invalid = SideOutput()  # rows for which an expression failed, with on_error = 'invalid'
        self.schema = result_schema(physical.schema, query.time_kind, physical.kind == "signed")
        physical.context.time_kind = query.time_kind
        physical.context.sources = {
            n.scan.alias: n.scan.stream if isinstance(n.scan, StreamScan) else n.scan.relation
            for n in physical.nodes
            if n.scan is not None
        }
        self._wire(clock, scheduler)

    def _wire(self, clock: Clock, scheduler: str) -> None:
        nodes = self.physical.nodes
        outputs: list[list[Queue]] = [[] for _ in nodes]
        self.tasks: list[Task] = []
        self.progress: list[Queue] = []  # for operators without inputs, which act on time alone
        self.result = Queue(self.physical.schema)
        queues: list[list[Queue]] = []
        for node in nodes:
            mine = [Queue(self._schema(i)) for i in node.inputs]
            for i, q in zip(node.inputs, mine, strict=True):
                outputs[i].append(q)
            if node.operator is not None and not mine:
                mine = [Queue(Schema(()))]
                self.progress += mine
            queues.append(mine)
        outputs[self.physical.root].append(self.result)
        self.scans = {i: outputs[i] for i, n in enumerate(nodes) if n.scan is not None}
        for node, mine, out in zip(nodes, queues, outputs, strict=True):
            if node.operator is not None:
                self.tasks.append(Task(node.operator, mine, out))
        chosen = make_scheduler(scheduler, self.physical.context.log)
        self.executor = Executor(self.tasks, clock, chosen, most=CHUNK, after=self._measure)

    def _schema(self, node: int) -> Schema:
        n = self.physical.nodes[node]
        return n.operator.schema if n.operator is not None else n.scan.schema  # type: ignore[union-attr]

    def advance(self) -> None:
        """Answer every instant that has closed since the last call."""
        streams = list(self.inputs.values())
        context = self.physical.context
        # Over constant relations only there is one instant.
        frontier = closed(streams, self.reached) if streams else 0
        if streams and self.finished:
            frontier = self._last_instant(frontier)
        if context.start is None:
            context.start = start_of_time(self.readers.values(), frontier) if streams else 0
            if context.start is None:
                return
        if frontier is None or (self.reached is not None and frontier <= self.reached):
            return
        empty = Delta(np.empty(0, np.int64), {})
        for q in self.progress:
            q.push(empty, frontier)
        for i, queues in self.scans.items():
            for delta, end in self._read(i, frontier):
                for q in queues:
                    q.push(delta, end)
        self.executor.run()
        self.reached = frontier
        self._collect()

    def _last_instant(self, frontier: int | None) -> int | None:
        """At the end of input windows that ``Wstream`` shows are still to close."""
        last = max((s.last_time for s in self.inputs.values() if s.last_time is not None), default=None)
        return frontier if last is None or frontier is None else max(frontier, end_of_time(self.plan, last))

    def _read(self, node: int, frontier: int) -> list[tuple[Delta, int]]:
        scan = self.physical.nodes[node].scan
        assert scan is not None
        prefix = f"{scan.alias}."
        pieces = []
        for delta, end in self.readers[node].take_apart(frontier, SMALL):
            # Kernels are compiled for arrays they may write to; a column of an Arrow batch is read-only.
            time = delta.time if delta.time.flags.writeable else delta.time.copy()
            pieces.append((Delta(time, {prefix + n: c for n, c in delta.columns.items()}, delta.weight), end))
        return pieces

    def _measure(self, task: Task) -> None:
        rows, bytes = task.operator.size()  # type: ignore[attr-defined]
        rows_then, bytes_then = self._sizes.get(task, (0, 0))
        self._sizes[task] = rows, bytes
        self._rows += rows - rows_then
        self._bytes += bytes - bytes_then
        within = task.operator.most_rows() - rows  # type: ignore[attr-defined]
        self.peak = max(self.peak[0], self._rows + within), max(self.peak[1], self._bytes)

    def _collect(self) -> None:
        for delta in self.result.drain():
            self.produced += len(delta)
            self.results.append(self._batch(delta))

    def _batch(self, delta: Delta) -> pa.RecordBatch:
        columns = [_decoded(delta.columns[f.name]) for f in self.physical.schema]
        time = pa.array(delta.time)
        columns.append(time.view(pa.timestamp("us")) if self.query.time_kind is TimeKind.TIMESTAMP else time)
        if self.physical.kind == "signed":
            columns.append(pa.array(delta.weights.astype(np.int8)))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def divert(self, error: DataError, row: Mapping[str, Any], time: int) -> None:
        """Put a row for which an expression failed aside, at its own instant."""
        name = self.query.name or "the query"
        rows = pa.RecordBatch.from_pydict({"_row": [json.dumps(row, default=str)]})
        self.invalid.add(Diverted(name, rows, np.array([time]), pa.array([str(error)])))

    def stop(self, error: Exception) -> None:
        """After an error nothing that the operators hold can be trusted: the query reads no more."""
        self.error = error
        for reader in self.readers.values():
            reader.close()

    @property
    def finished(self) -> bool:
        return all(s.finished for s in self.inputs.values())

    def state(self) -> dict[str, Any]:
        return {
            "text": self.query.text,
            "reached": self.reached,
            "start": self.physical.context.start,
            "produced": self.produced,
            "peak": list(self.peak),
            "statistics": {t.name: t.statistics.totals() for t in self.tasks},
            "chosen": self.chosen(),
            "operators": {t.name: t.operator.state() for t in self.tasks},  # type: ignore[attr-defined]
            "results": list(self.results),
            "invalid": self.invalid.state(),
            "log": self.physical.context.log.state(),
        }

    def chosen(self) -> list[dict[str, Any]]:
        """The operators that were chosen, with the versions of their state."""
        return [c.fact() for _, c in self.physical.chosen]

    def load(self, state: Mapping[str, Any]) -> None:
        self.reached, self.produced = state["reached"], state["produced"]
        self.physical.context.start = state["start"]
        for t in self.tasks:
            t.operator.load(state["operators"][t.name])  # type: ignore[attr-defined]
            self._measure(t)
            if t.name in state.get("statistics", {}):
                t.statistics.load(state["statistics"][t.name])
        rows, bytes = state.get("peak", (0, 0))
        self.peak = max(self.peak[0], rows), max(self.peak[1], bytes)
        self.results = deque(state["results"])
        self.invalid.load(state["invalid"])
        self.physical.context.log.load(state["log"])
        if self.reached is not None:
            for t in self.tasks:
                t.frontier = self.reached
                for q in t.inputs:
                    q.frontier = self.reached
            self.result.frontier = self.reached

    @property
    def decisions(self) -> list[Decision]:
        return list(self.physical.context.log)

    def sizes(self) -> dict[str, tuple[int, int]]:
        return {t.name: t.operator.size() for t in self.tasks}  # type: ignore[attr-defined]


def result_schema(schema: Schema, kind: TimeKind, signed: bool) -> pa.Schema:
    """The query's columns, then ``_time``, then ``_sign`` for the changes of a relation."""
    fields = []
    for f in schema:
        name = f.name
        while name in ("_time", "_sign") or (name != f.name and name in schema):
            name += "_2"  # a result that is read again as a stream has such columns
        fields.append(pa.field(name, f.type))
    fields.append(pa.field("_time", pa.timestamp("us") if kind is TimeKind.TIMESTAMP else pa.int64()))
    if signed:
        fields.append(pa.field("_sign", pa.int8()))
    return pa.schema(fields)


def _decoded(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
