"""The graph of a session: the operators of all its queries, those of equal sub-plans once (thesis 2.3, Figure 2.3).

A query brings a plan of its own, with its own names. Where an operator of the graph answers the same sub-plan (the key
says so: the same operators over the same elements under the same options), the query reads that one and its own is
dropped, with all that only it would have read. An operator without readers is removed.

Why sharing is correct: an operator's changes up to an instant depend on its inputs' changes up to
that instant and on nothing else, so every reader gets what an operator of its own would emit. Sub-plans over
different elements have different keys, because an intake has a number. And an operator that has emitted something that
a new query should have seen belongs to an intake that is not fresh, so a new query never gets its number.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import cast

import numpy as np

from eddyline.core.delta import Delta
from eddyline.core.schema import Schema
from eddyline.core.time import Clock
from eddyline.engine.delivery import Delivery
from eddyline.engine.executor import Executor
from eddyline.engine.held_state import HeldState
from eddyline.engine.input_manager import InputStream
from eddyline.engine.intake import Intake
from eddyline.engine.memory_limit import MemoryLimit
from eddyline.engine.queues import Queue
from eddyline.engine.renaming import Renaming, RenamingQueue
from eddyline.engine.running_query import RunningQuery
from eddyline.engine.scheduler import Scheduler
from eddyline.engine.shared_operator import SharedOperator
from eddyline.engine.task import Task
from eddyline.engine.time_line import TimeLine
from eddyline.plan.closing_windows import goes_on
from eddyline.plan.graph import Node
from eddyline.plan.logical import Plan
from eddyline.streamon.decision import Decision
from eddyline.synopses.registry import Registry

ELEMENTS_AT_ONCE = 1 << 16  # in one run of an operator: enough for speed, and few enough to stay in the cache
_NOTHING = Delta(np.empty(0, np.int64), {})

Source = SharedOperator | Intake
Budget = int | timedelta | None  # runs of operators in one step, or time; None: until nothing is ready
Alike = Callable[[RunningQuery, int, SharedOperator], bool]


class OperatorGraph:
    """``registry`` has the window stores of the operators."""

    def __init__(self, clock: Clock, registry: Registry, scheduler: Scheduler | None = None) -> None:
        self.registry = registry
        self.operators: list[SharedOperator] = []  # producers before consumers
        self.queries: list[RunningQuery] = []  # as they were registered
        self.lines: list[TimeLine] = []
        self.intakes: list[Intake] = []
        self.budget: Budget = None
        self.ran = 0  # runs in the last step
        self._left_over = False  # whether work may wait that no new instant is needed for
        self._borrowed = 0  # nanoseconds of the next step that were spent already
        self.executor = Executor((), clock, scheduler, most=ELEMENTS_AT_ONCE)
        self._by_key: dict[Hashable, SharedOperator] = {}
        self._by_time: list[Task] = []  # those that act on time alone
        self._by_task: dict[Task, SharedOperator] = {}
        self._deliveries: dict[Delivery, Source] = {}
        self._held: dict[frozenset[SharedOperator], HeldState] = {}
        self._limits: dict[RunningQuery, MemoryLimit] = {}  # of queries whose memory is limited

    # ── queries come and go ───────────────────────────────────────────────────────────────────────────────────────

    def add(self, query: RunningQuery, alike: Alike | None = None) -> None:
        """Run a query. ``alike`` has the last word on whether an operator may stand in for one of its nodes."""
        places = self._places(query, alike)
        nodes = query.physical.nodes
        for i, node in enumerate(nodes):
            if i not in places and node.scan is None and node.operator is not None:
                places[i] = self._make(query, i, places)
            elif node.scan is not None:
                places[i] = query.intake_of(node.scan)
        self._drop_unused(query, places)
        query.delivery = self._deliver(places[query.physical.root], query)
        query.attach({nodes[i].name: p for i, p in sorted(places.items()) if isinstance(p, SharedOperator)})
        self.queries = sorted([*self.queries, query], key=lambda q: q.number)
        for o in query.uses:
            o.readers = sorted([*o.readers, query], key=lambda q: q.number)
            o.serve()
        self._observe(query)
        self._replan()

    def _places(self, query: RunningQuery, alike: Alike | None) -> dict[int, Source]:
        """The operators of the graph that stand in for those of the query, found from the root down."""
        nodes, found = query.physical.nodes, dict[int, Source]()
        if not query.shares:
            return found
        waiting, seen = [query.physical.root], set[int]()
        while waiting:
            i = waiting.pop()
            if i in seen:
                continue
            seen.add(i)
            key = query.keys[i]
            other = None if key is None else self._by_key.get(key)
            pairs = None if other is None else _pairs(nodes, i, other)
            if pairs is None or (alike is not None and not all(alike(query, j, o) for j, o in pairs.items())):
                waiting.extend(nodes[i].inputs)
            else:
                found.update(pairs)
        return found

    def _make(self, query: RunningQuery, i: int, places: Mapping[int, Source]) -> SharedOperator:
        node = query.physical.nodes[i]
        assert node.operator is not None
        queues = [self._connect(places[j], query.physical.nodes[j], j, query) for j in node.inputs]
        task = Task(node.operator, queues or [Queue(Schema(()))])
        inputs = tuple(places[j] for j in node.inputs)
        made = SharedOperator(
            task, inputs, query.context, query.name, node.stubs, query.keys[i] if query.shares else None
        )
        for stub in node.stubs:
            stub.readers = made.read_by
        self.operators.append(made)
        self._by_task[task] = made
        if made.key is not None:
            self._by_key.setdefault(made.key, made)
        return made

    def _connect(self, source: Source, node: Node, number: int, query: RunningQuery) -> Queue:
        """A queue from an operator or an intake to a reader, in whose query it is a node."""
        if isinstance(source, Intake):
            assert node.scan is not None
            queue = Queue(node.scan.schema)
            source.connect(f"{node.scan.alias}.", queue)
        else:
            schema = query.schemas[number]
            rename = Renaming.by_alias if source.passes_all_columns else Renaming
            renaming = rename(source.operator.schema.names, schema.names)
            queue = RenamingQueue(schema, renaming) if renaming.changes else Queue(schema)
            source.task.outputs = (*source.task.outputs, queue)
        queue.frontier = source.frontier if isinstance(source, Intake) else source.complete_to
        return queue

    def _deliver(self, root: Source, query: RunningQuery) -> Delivery:
        """The results of a query: together with those of another that asks the same, or by themselves."""
        physical, number = query.physical, query.physical.root
        asked = query.line, physical.schema, query.query.time_kind, physical.kind == "signed"
        for delivery, source in self._deliveries.items():
            if source is root and delivery.serves(*asked) and delivery.queue.schema == query.schemas[number]:
                break
        else:
            delivery = Delivery(self._connect(root, physical.nodes[number], number, query), *asked)
            self._deliveries[delivery] = root
        delivery.receivers.append(query)
        return delivery

    def _end_delivery(self, query: RunningQuery) -> None:
        delivery = query.delivery
        delivery.receivers = [q for q in delivery.receivers if q is not query]
        if not delivery.receivers:
            _disconnect(self._deliveries.pop(delivery), delivery.queue)

    def _drop_unused(self, query: RunningQuery, places: Mapping[int, Source]) -> None:
        """Windows of operators that are not needed keep no rows; nodes show the operators that run."""
        for i, node in enumerate(query.physical.nodes):
            place = places.get(i)
            if isinstance(place, SharedOperator) and place.task.operator is not node.operator:
                for stub in node.stubs:
                    self.registry.forget(stub)
                node.operator = place.task.operator  # type: ignore[assignment]
                node.stubs = place.stubs
        query.physical.stubs[:] = [s for n in query.physical.nodes for s in n.stubs]

    def remove(self, query: RunningQuery) -> None:
        """Remove a query, and the operators that no other query reads."""
        self.queries = [q for q in self.queries if q is not query]
        for o in query.uses:
            o.readers = [q for q in o.readers if q is not query]
            o.serve()
        self._end_delivery(query)
        for o in reversed([o for o in self.operators if not o.readers]):
            self._retire(o)
        self.operators = [o for o in self.operators if o.readers]
        query.detach()
        self._forget_held(query)
        self._replan()

    def _retire(self, o: SharedOperator) -> None:
        for source, queue in zip(o.inputs, o.task.inputs, strict=False):
            _disconnect(source, queue)
        for stub in o.stubs:
            self.registry.forget(stub)
        del self._by_task[o.task]
        if o.key is not None and self._by_key.get(o.key) is o:
            del self._by_key[o.key]

    def _replan(self) -> None:
        self._by_time = [o.task for o in self.operators if not o.inputs]
        self.executor.replan([o.task for o in self.operators])

    @property
    def bound(self) -> int | None:
        """Elements that a queue holds before its writer waits; None: any number."""
        return self.executor.bound

    @bound.setter
    def bound(self, elements: int | None) -> None:
        self.executor.bound = elements
        self._replan()

    @property
    def queued(self) -> int:
        """Elements that wait before operators."""
        return self.executor.queued

    def is_full(self, stream: InputStream) -> bool:
        """Whether a queue that a stream fills is full."""
        bound = self.executor.bound
        return bound is not None and any(i.longest >= bound for i in self.intakes if i.stream is stream)

    def clear(self) -> None:
        """Nothing runs; queries, lines and intakes stay as they are until they are added again."""
        for query in list(self.queries):
            self.remove(query)

    # ── lines and intakes ─────────────────────────────────────────────────────────────────────────────────────────

    def line(self, intakes: Iterable[Intake], plan: Plan) -> TimeLine:
        """The time line over these inputs from these elements. The time of some queries goes on after the last element,
        so each of them has one for itself. Over constant relations time has one instant, and a query that comes after
        it has one of its own."""
        wanted = sorted(intakes, key=lambda i: (i.stream.name.lower(), i.number))
        own = plan if goes_on(plan) else None
        for line in self.lines:
            if own is None and line.plan is None and list(line.intakes) == wanted and (wanted or line.reached is None):
                return line
        self.lines.append(TimeLine(wanted, own))
        return self.lines[-1]

    def close_unused(self) -> None:
        """Remove the intakes and time lines that no query uses."""
        self.lines = [x for x in self.lines if x.queries]
        for intake in [i for i in self.intakes if not i.users]:
            intake.close()
            self.registry.began.pop((intake.stream.name.lower(), intake.number), None)
        self.intakes = [i for i in self.intakes if i.users]

    @property
    def can_advance(self) -> bool:
        """Whether an instant could be closed by now."""
        return any(x.can_advance for x in self.lines)

    # ── running ───────────────────────────────────────────────────────────────────────────────────────────────────

    def advance(self, drain: bool = False) -> list[tuple[RunningQuery, Exception]]:
        """Answer the instants that have closed since the last call: all of them (``drain``), or as many as the budget
        allows. An error stops the queries that read the operator; they are returned with it."""
        advanced = [x for x in self.lines if x.advance()]
        if not advanced and not self._left_over:
            return []
        for intake, limit in self._wanted(advanced):
            intake.advance(limit)
        for task in self._by_time:
            limit = max([x.limit for x in task.limits])
            if limit > task.inputs[0].frontier:
                task.inputs[0].push(_NOTHING, limit)
        failed = self._run(None if drain else self.budget)
        self._left_over = self.budget is not None or self.bound is not None
        for delivery in self._deliveries:
            delivery.collect()
        for memory in self._limits.values():
            memory.step()
        return failed

    def _wanted(self, lines: Sequence[TimeLine]) -> Iterable[tuple[Intake, int]]:
        """The intakes that time lines read from, each with the furthest of their limits."""
        if len(lines) == 1:
            return [(i, lines[0].limit) for i in lines[0].intakes]
        limits: dict[Intake, int] = {}
        for line in lines:
            for intake in line.intakes:
                limits[intake] = max(line.limit, limits.get(intake, line.limit))
        return [(i, limits[i]) for i in self.intakes if i in limits]

    def _run(self, budget: Budget) -> list[tuple[RunningQuery, Exception]]:
        failed: list[tuple[RunningQuery, Exception]] = []
        runs, self.ran = (None if isinstance(budget, timedelta) else budget), 0
        while True:
            begin, time = 0, None
            if isinstance(budget, timedelta):  # what the last run took over it was borrowed from this step
                begin = self.executor.clock.nanoseconds()
                time = 1000 * (budget // timedelta(microseconds=1)) - self._borrowed
                self._borrowed = max(0, -time)
            try:
                if time is None or time > 0:
                    self.ran += self.executor.run(steps=runs, nanoseconds=time)
                if time is not None and time > 0:
                    self._borrowed = max(0, self.executor.clock.nanoseconds() - begin - time)
                return failed
            except Exception as error:
                task = self.executor.current
                if task is None or task not in self._by_task:
                    raise
                # After an error nothing that an operator holds can be trusted.
                for query in cast("list[RunningQuery]", list(self._by_task[task].readers)):
                    query.stop(error)
                    self.remove(query)
                    failed.append((query, error))

    # ── what is held ──────────────────────────────────────────────────────────────────────────────────────────────

    def _observe(self, query: RunningQuery) -> None:
        """Queries that read the same operators hold the same."""
        mine = frozenset(query.uses)
        if mine not in self._held:
            self._held[mine] = HeldState(sum(o.held[0] for o in mine), sum(o.held[1] for o in mine))
            for o in mine:
                o.observers.append(self._held[mine])
        query.held = self._held[mine]
        query.held.users += 1

    def _forget_held(self, query: RunningQuery) -> None:
        assert query.held is not None
        query.held.users -= 1
        if not query.held.users:
            for mine in [m for m, held in self._held.items() if held is query.held]:
                for o in mine:
                    o.observers = [x for x in o.observers if x is not query.held]
                del self._held[mine]

    def limit_memory(self, query: RunningQuery, bytes: int | None) -> None:
        """Keep the state of a query to so many bytes; None: there is no limit."""
        former = self._limits.pop(query, None)
        if former is not None:
            former.end()
        if bytes is not None:
            self._limits[query] = MemoryLimit(query, bytes, self.registry.files)

    def record(self, decision: Decision) -> None:
        """A decision about the graph as a whole is in the log of every query."""
        for query in self.queries:
            query.context.log.record(decision)


def _pairs(nodes: list[Node], i: int, other: SharedOperator) -> dict[int, SharedOperator] | None:
    """The operators that stand in for a node and those below it; None: the plans are not built alike."""
    found: dict[int, SharedOperator] = {}
    waiting: list[tuple[int, Source]] = [(i, other)]
    while waiting:
        j, o = waiting.pop()
        node = nodes[j]
        if isinstance(o, Intake):
            if node.scan is None:
                return None
            continue
        built = node.operator
        if built is None or type(built) is not type(o.task.operator) or len(node.inputs) != len(o.inputs):
            return None
        if len(built.schema.names) != len(o.operator.schema.names) and not o.passes_all_columns:
            return None
        if found.setdefault(j, o) is not o:
            return None
        waiting += zip(node.inputs, o.inputs, strict=True)
    return found


def _disconnect(source: Source, queue: Queue) -> None:
    if isinstance(source, Intake):
        source.disconnect(queue)
    else:
        source.task.outputs = tuple(q for q in source.task.outputs if q is not queue)
