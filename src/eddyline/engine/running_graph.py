"""The graph of a session and the planning of its queries: queries are started, stopped, rebuilt, saved and loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from eddyline.core.catalog import Catalog
from eddyline.core.time import Clock
from eddyline.engine.graph_state import copied, cuts_of, graph_state, load_graph
from eddyline.engine.input_manager import InputStream
from eddyline.engine.intake import Intake
from eddyline.engine.operator_graph import Budget, OperatorGraph
from eddyline.engine.planning import Planning
from eddyline.engine.running_query import RunningQuery
from eddyline.engine.scheduler import make_scheduler
from eddyline.plan.choice import PlannedQuery, exchanged
from eddyline.plan.logical import BoundQuery
from eddyline.synopses.registry import Registry

# The default schedulers. Without a budget every step ends with empty queues under any scheduler. With one, chain keeps
# less than half of FIFO's elements in queues on a bursty stream, and results come 2 % later
# (``experiments.scheduling.bursts``).
DEFAULT_SCHEDULER, DEFAULT_SCHEDULER_WITH_BUDGET = "fifo", "chain"

Find = Callable[[str, Mapping[str, Any]], InputStream]  # an input by its name and the options of the query
Rebuilt = Callable[[RunningQuery, bool], None]  # operators are new; with True the query has seen nothing yet
Want = Callable[[InputStream, Sequence[str]], None]


class RunningGraph(OperatorGraph):
    """``load`` brings the rows of a constant relation; ``want`` receives the columns of an input that are read."""

    def __init__(
        self,
        catalog: Catalog,
        clock: Clock,
        load: Callable[[str], pa.Table],
        want: Want,
        *,
        sharing: bool,
        scheduler: str | None,
        spill: str | None = None,
    ) -> None:
        super().__init__(clock, Registry(sharing, spill))
        self.scheduler = scheduler or DEFAULT_SCHEDULER
        self._chosen = scheduler is not None  # by a user, and not by default
        self._planning = Planning(catalog, self.registry, load, clock)
        self._want = want
        self.rebuilt: Rebuilt = lambda query, fresh: None
        self._started = 0  # queries, those dropped included
        self._numbered: dict[str, int] = {}  # by input the last number of an intake
        self._schedule(self.scheduler)

    def schedule(self, policy: str) -> None:
        """Choose the policy that says which of the ready operators runs next."""
        self._schedule(policy)
        self._chosen = True

    def _schedule(self, policy: str) -> None:
        self.executor.replan(self.executor.tasks, make_scheduler(policy, self))
        self.scheduler = policy

    def limit(self, budget: Budget) -> None:
        """Give each step a budget. Unless the user has chosen a scheduler, the default for bounded steps is used."""
        self.budget = budget
        default = DEFAULT_SCHEDULER if budget is None else DEFAULT_SCHEDULER_WITH_BUDGET
        if not self._chosen and self.scheduler != default:
            self._schedule(default)

    def prioritise(self, query: RunningQuery, priority: int) -> None:
        """Let the operators of a query go before or behind those of others."""
        query.priority = priority
        for o in query.uses:
            o.serve()
        self._replan()

    # ── queries come and go ───────────────────────────────────────────────────────────────────────────────────────

    def start(
        self, bound: BoundQuery, name: str, inputs: Mapping[str, InputStream], planned: PlannedQuery | None = None
    ) -> RunningQuery:
        """Run a query from the elements that come now. ``planned`` is its plan, if it was planned elsewhere."""
        intakes = {n.lower(): self._intake(s) for n, s in inputs.items()}
        line = self.line(intakes.values(), bound.plan if planned is None else planned.plan)
        query = RunningQuery(bound, name, inputs, intakes, line, self._started)
        query.shares = self.sharing
        try:
            others = self._planning.plan(query, self.queries, planned)
            self._build(query)
        except BaseException:
            self.close_unused()
            raise
        for other, plans in others.items():
            other.shared, other.planned = plans
            self.remove(other)
            other.context.log.restart()
            self._build(other)
            self.rebuilt(other, True)
            self.add(other)
        self._hold(query)
        self.add(query)
        self._started += 1
        return query

    def stop(self, query: RunningQuery) -> None:
        """A query is dropped."""
        if query.error is None:
            self.remove(query)
            self._release(query)

    def advance(self, drain: bool = False) -> list[tuple[RunningQuery, Exception]]:
        failed = super().advance(drain)
        for query, _ in failed:
            self._release(query)
        return failed

    def _build(self, query: RunningQuery) -> None:
        self._planning.build(query)
        for node in query.physical.nodes:
            if node.scan is not None:
                self._read(query.intake_of(node.scan), node.scan.columns)
        self._read_stored(query)

    def _read(self, intake: Intake, columns: Sequence[str]) -> None:
        intake.want(columns)
        self._want(intake.stream, intake.reader.columns)

    def _read_stored(self, query: RunningQuery) -> None:
        """The window that brings a row to a store of several windows brings all of its columns."""
        for stub in query.physical.stubs:
            if stub.what is not None:
                self._read(query.intakes[stub.what.stream], stub.store.schema.names)

    def _intake(self, stream: InputStream, number: int | None = None) -> Intake:
        """The elements of an input from now on; with a number, those of a query that was saved."""
        for intake in self.intakes:
            if intake.stream is stream and (intake.fresh if number is None else intake.number == number):
                return intake
        if number is None:
            number = self._numbered[stream.name.lower()] = self._numbered.get(stream.name.lower(), -1) + 1
        made = Intake(stream, number)
        if made.after is not None:
            self.registry.began[stream.name.lower(), number] = made.after
        self.intakes.append(made)
        return made

    def _hold(self, query: RunningQuery) -> None:
        query.line.queries += 1
        query.line.set_start_of(query.context)
        for intake in query.intakes.values():
            intake.users += 1

    def _release(self, query: RunningQuery) -> None:
        """What a query read from is closed when no other reads from it."""
        self.limit_memory(query, None)
        query.line.queries -= 1
        for intake in query.intakes.values():
            intake.users -= 1
        self.close_unused()

    # ── built anew ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def sharing(self) -> bool:
        return self.registry.sharing

    def share(self, on: bool) -> None:
        """Switch sharing while queries run: each operator takes the state of the one that stood in its place."""
        queries = list(self.queries)
        state = copied(graph_state(self, queries))
        self.registry.sharing = on
        self._again(queries, state)

    def _again(self, queries: Sequence[RunningQuery], state: Mapping[str, Any]) -> None:
        self.clear()
        for q in queries:
            q.shares = self.sharing
            q.context.log.silent = True  # what was decided stands in the log already
            try:
                self._build(q)
                self.rebuilt(q, False)
            finally:
                q.context.log.silent = False
        load_graph(self, queries, state)
        for q in queries:
            self._read_stored(q)
        self._left_over = True
        self.registry.switch(self.sharing)

    # ── saved and loaded ──────────────────────────────────────────────────────────────────────────────────────────

    def state(self, queries: Sequence[RunningQuery]) -> dict[str, Any]:
        return {**graph_state(self, queries), "numbered": dict(self._numbered)}

    def exchanged(
        self, query: RunningQuery, place: Mapping[str, Any], chosen: Sequence[Mapping[str, Any]]
    ) -> list[str]:
        """The operators of a query that was saved that cannot take over the state, in words."""
        self._planning.plan_again(query, cuts_of(place))
        return list(exchanged(chosen, query.chosen()))

    def load(self, queries: Sequence[RunningQuery], state: Mapping[str, Any], find: Find) -> None:
        """Go on where a graph of the same queries stood. ``find`` brings inputs by name; their own state is loaded
        afterwards."""
        self.clear()
        for q in queries:
            self._release(q)
        for q, saved in zip(queries, state["queries"], strict=True):
            q.intakes = {n: self._intake(find(n, q.query.options), number) for n, number in saved["intakes"].items()}
            q.line = self.line(q.intakes.values(), q.plan)
            self._planning.plan_again(q, cuts_of(saved))
            self._hold(q)
        self._again(queries, state)
        self._numbered = dict(state["numbered"])
