"""A running query: its plan, the operators of the graph that it reads, and the results that wait to be fetched."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.errors import DataError
from eddyline.core.schema import Schema
from eddyline.engine.delivery import Delivery, result_schema
from eddyline.engine.held_state import HeldState
from eddyline.engine.input_manager import InputStream
from eddyline.engine.intake import Intake
from eddyline.engine.shared_operator import SharedOperator
from eddyline.engine.side_output import Diverted, SideOutput
from eddyline.engine.task import Task
from eddyline.engine.time_line import TimeLine
from eddyline.operators.base import Context
from eddyline.plan.choice import PlannedQuery
from eddyline.plan.graph import PhysicalPlan
from eddyline.plan.logical import BoundQuery, Plan, RelationScan, StreamScan
from eddyline.plan.rules.share_subplans import Cuts, Shared
from eddyline.streamon.decision import Decision
from eddyline.streamon.forwarding import Forwarding


class RunningQuery:
    """Reads operators of a graph and keeps their results in order. ``intakes`` are where its inputs begin, by name."""

    planned: PlannedQuery
    physical: PhysicalPlan
    keys: list[Hashable]  # by node of the physical plan what it answers; None: it is not for others
    schemas: list[Schema]  # by node of the physical plan its columns in the names of this query
    delivery: Delivery  # where its results come from

    def __init__(
        self,
        query: BoundQuery,
        name: str,
        inputs: Mapping[str, InputStream],
        intakes: Mapping[str, Intake],
        line: TimeLine,
        number: int = 0,
    ) -> None:
        self.query, self.name, self.inputs, self.intakes, self.line = query, name, inputs, intakes, line
        self.number = number  # among the queries of its graph, as they were registered
        self.context = Context()
        self.priority = int(query.options.get("priority", 0))
        self.shared: Shared | None = None  # the plan as it was optimized, alone or with others
        self.planned_elsewhere = False  # then its plan stays as it came
        self.shares = True
        self.operators: dict[str, SharedOperator] = {}  # by the names of this query's own plan
        self.uses: list[SharedOperator] = []  # those and all that they read
        self.results: deque[pa.RecordBatch] = deque()
        self.produced = 0
        self.error: Exception | None = None  # what stopped the query
        self.invalid = SideOutput()  # rows for which an expression failed, with on_error = 'invalid'
        self.held: HeldState | None = None
        self._forwardings: list[Forwarding] = []
        self._declared: dict[str, str] = {}
        self._peak = (0, 0)
        if query.options.get("on_error", "stop") == "invalid":
            self.context.divert = self.divert

    @property
    def plan(self) -> Plan:
        assert self.shared is not None
        return self.shared.plan

    @property
    def cuts(self) -> Cuts:
        assert self.shared is not None
        return self.shared.cuts

    def install(self, physical: PhysicalPlan, keys: list[Hashable]) -> None:
        """Take operators; the graph makes them run."""
        self.physical, self.keys = physical, keys
        self.context.time_kind = self.query.time_kind
        self.declared_as(self._declared)
        self.schemas = [n.scan.schema if n.operator is None else n.operator.schema for n in physical.nodes]  # type: ignore[union-attr]
        self.schema = result_schema(physical.schema, self.query.time_kind, physical.kind == "signed")

    def declared_as(self, names: Mapping[str, str]) -> None:
        """Messages call inputs by these names, where the plan has others."""
        self._declared = dict(names)
        scans = [n.scan for n in self.physical.nodes if n.scan is not None]
        read = {s.alias: s.stream if isinstance(s, StreamScan) else s.relation for s in scans}
        self.context.sources = {alias: self._declared.get(name, name) for alias, name in read.items()}

    def intake_of(self, scan: StreamScan | RelationScan) -> Intake:
        return self.intakes[(scan.stream if isinstance(scan, StreamScan) else scan.relation).lower()]

    def attach(self, operators: Mapping[str, SharedOperator]) -> None:
        """Read these operators, which have other names here than where they were built."""
        self.operators = dict(operators)
        found: dict[int, SharedOperator] = {}
        waiting: list[SharedOperator | Intake] = list(operators.values())
        while waiting:
            o = waiting.pop()
            if isinstance(o, SharedOperator) and id(o) not in found:
                found[id(o)] = o
                waiting.extend(o.inputs)
        self.uses = list(found.values())
        own = self.context.log
        for name, o in operators.items():
            if o.context is not self.context:
                self._forwardings.append(Forwarding(o.context.log, o.task.name, own, name))

    def detach(self) -> None:
        """It reads no more; what it read stays known for reports."""
        self._peak = self.peak
        for forwarding in self._forwardings:
            forwarding.end()
        self._forwardings = []

    @property
    def root(self) -> SharedOperator | Intake:
        """Where its results come from."""
        node = self.physical.nodes[self.physical.root]
        return self.intake_of(node.scan) if node.scan is not None else self.operators[node.name]

    @property
    def fresh(self) -> bool:
        """Whether it has seen nothing yet, so that it can be planned again together with others."""
        if self.planned_elsewhere or self.error is not None or self.line.start is not None:
            return False
        return all(i.fresh for i in self.intakes.values())

    @property
    def reached(self) -> int | None:
        """The last instant that it has answered."""
        limit = self.line.reached
        return None if limit is None else min(limit, self.root.frontier)

    @property
    def settled(self) -> bool:
        """Whether it has answered all that its inputs allow, so that no expression of it can fail before they bring
        more. What an error stopped does nothing any more."""
        if self.error is not None:
            return True
        return not self.line.can_advance and self.root.frontier >= self.line.limit

    @property
    def peak(self) -> tuple[int, int]:
        """The most rows and bytes of state that there were."""
        held = (0, 0) if self.held is None else self.held.peak
        return max(self._peak[0], held[0]), max(self._peak[1], held[1])

    def divert(self, error: DataError, row: Mapping[str, Any], time: int) -> None:
        """Put a row for which an expression failed aside, at its own instant."""
        name = self.query.name or "the query"
        rows = pa.RecordBatch.from_pydict({"_row": [json.dumps(row, default=str)]})
        self.invalid.add(Diverted(name, rows, np.array([time]), pa.array([str(error)])))

    def stop(self, error: Exception) -> None:
        """After an error nothing that the operators hold can be trusted: the query reads no more."""
        self.error = error

    @property
    def finished(self) -> bool:
        return all(s.finished for s in self.inputs.values())

    def state(self) -> dict[str, Any]:
        """Beside its operators, which the graph saves."""
        return {
            "text": self.query.text,
            "produced": self.produced,
            "peak": list(self.peak),
            "chosen": self.chosen(),
            "results": list(self.results),
            "invalid": self.invalid.state(),
            "log": self.context.log.state(),
        }

    def chosen(self) -> list[dict[str, Any]]:
        """The operators that were chosen, with the versions of their state."""
        return self.planned.choices.facts()

    def load(self, state: Mapping[str, Any]) -> None:
        self.produced = state["produced"]
        self._peak = tuple(state["peak"])
        self.results = deque(state["results"])
        self.invalid.load(state["invalid"])
        self.context.log.load(state["log"])

    @property
    def decisions(self) -> list[Decision]:
        return list(self.context.log)

    @property
    def tasks(self) -> list[Task]:
        """The tasks of its operators."""
        return [o.task for o in self.operators.values()]

    def sizes(self) -> dict[str, tuple[int, int]]:
        return {name: o.operator.size() for name, o in self.operators.items()}
