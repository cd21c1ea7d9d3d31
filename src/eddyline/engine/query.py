"""The public object of a running query: its results, plan, report, statistics and side streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from eddyline.core.amounts import amount
from eddyline.core.errors import EddylineError, clipped
from eddyline.core.time import Clock
from eddyline.engine.estimates import Estimator
from eddyline.engine.ownership import Turn, in_turn
from eddyline.engine.query_plan import plan_of
from eddyline.engine.steering import Steering
from eddyline.plan.logical import BoundQuery
from eddyline.plan.plan_data import PlanGraph
from eddyline.plan.print_html import notebook
from eddyline.plan.print_text import explain
from eddyline.streamon.decision import Decision

if TYPE_CHECKING:
    from eddyline.engine.running_query import RunningQuery


class QuerySession(Protocol):
    """The part of the session that its queries use."""

    clock: Clock
    turn: Turn
    queries: list[Query]

    @property
    def pulls(self) -> bool: ...

    def _step(self) -> bool: ...
    def _check_options(self, bound: BoundQuery) -> None: ...
    def _set_width(self, name: str, what: str, ticks: int | None, because: str = ...) -> list[Decision]: ...

    def _advance(self, drain: bool = False) -> None: ...
    def _schedule(self, policy: str) -> None: ...
    def _prioritise(self, query: RunningQuery, priority: int) -> None: ...
    def _limit_memory(self, query: RunningQuery, bytes: int | None) -> None: ...

    def drop(self, query: Query) -> None: ...


class Query:
    """Results, explanations and counts of one continuous query."""

    def __init__(self, session: QuerySession, name: str, running: RunningQuery) -> None:
        self.session, self.name, self.running = session, name, running
        self.turn = session.turn  # a query is used in the turn of its session
        self.companion: Query | None = None  # which the estimator follows
        self.estimator: Estimator | None = None  # of its counts, sums and averages, where a stream of it samples
        running.physical.context.log.belongs_to(name)
        self.steering = Steering(self)
        self._table: list[pa.RecordBatch] = []
        self._begin = session.clock.nanoseconds()

    def __repr__(self) -> str:
        """
        >>> from eddyline import Session
        >>> session = Session()
        >>> session.stream("S", [{"ts": 1, "a": 7}, {"ts": 2, "a": 8}], timestamp="ts")
        >>> q = session.query("SELECT Istream(a) FROM S WHERE a > 7", name="large")
        >>> q
        <Query large: SELECT Istream(a) FROM S WHERE a > 7; running, 0 events, 0 results>
        >>> _ = q.to_arrow(); q
        <Query large: SELECT Istream(a) FROM S WHERE a > 7; ended, 2 events, 1 result>
        """
        running = self.running
        dropped = not any(self is q for q in self.session.queries)
        states = (("failed", running.error is not None), ("dropped", dropped), ("ended", running.finished))
        state = next((name for name, there in states if there), "running")
        text = clipped(" ".join(running.query.text.split()))
        events = amount(sum(s.arrived for s in running.inputs.values()), "event")
        return f"<Query {self.name}: {text}; {state}, {events}, {amount(running.produced, 'result')}>"

    @property
    def schema(self) -> pa.Schema:
        return self.running.schema

    @in_turn
    def fetch(self) -> list[pa.RecordBatch]:
        """The results that are there now, in order; each is given once."""
        out = list(self.running.results)
        self.running.results.clear()
        return out

    def results(self) -> Iterator[pa.RecordBatch]:
        """Record batches in time order. Reads the session's sources as it goes; with pushed streams it yields what is
        there and stops."""
        return Results(self)

    def to_arrow(self) -> pa.Table:
        """All results so far as one table; reads finite sources to their end."""
        while self._collected():
            pass
        return pa.Table.from_batches(list(self._table), self.schema)

    def segments(self) -> pa.Table:
        """The result of a query on models that is not sampled: intervals with the polynomials that hold on them.

        >>> import eddyline as ed
        >>> session = ed.Session()
        >>> session.stream("S", [{"ts": 0, "x": 1.0, "v": 0.5}, {"ts": 8, "x": 5.0, "v": 0.0}], timestamp="ts")
        >>> query = session.query("SELECT x FROM S MODEL S.x = S.x + S.vt WHERE x > 3")
        >>> query.segments().to_pylist()[0]
        {'_from': 4.0, '_to': 8.0, '_closed': '()', 'x': [3.0, 0.5]}
        """
        from eddyline.engine.result_segments import result_segments  # queries on tuples do without the models

        return result_segments(self.running.plan, self.to_arrow())

    @in_turn
    def _collected(self) -> bool:
        """Remember the next result; False: there are no more. In one turn, so that the order is that of the results,
        and so that what was taken is not lost should the next one be an error."""
        batch = self._next()
        if batch is not None:
            self._table.append(batch)
        return batch is not None

    def _next(self) -> pa.RecordBatch | None:
        """The next result; reads the session's sources until there is one. None: there are no more."""
        running, results = self.running, self.running.results
        while not results and self.session.pulls and not running.finished:
            if not self.session._step():
                break
        if not results and running.error is not None:
            raise running.error
        if not results and not running.inputs:
            self.session._advance()
        return results.popleft() if results else None

    @in_turn
    def explain(self) -> str:
        """The plan that is running, what it keeps and why, and what was decided so far."""
        said = explain(plan_of(self.running, self.name))
        counts = {s.name: s.shed.count for s in self.running.inputs.values() if s.shed.count}
        shed = [f"  stream {name}: {amount(count, 'row')} left out" for name, count in counts.items()]
        return "\n".join([said, "", "approximate, for rows were shed under overload", *shed]) if shed else said

    @in_turn
    def plan(self, *, decisions: bool = True) -> PlanGraph:
        """The running plan as data, with state, statistics and, if ``decisions``, the decisions so far."""
        return plan_of(self.running, self.name, decisions=decisions)

    @in_turn
    def decisions_after(self, sequence: int) -> list[Decision]:
        """The decisions with larger numbers."""
        return self.running.context.log.after(sequence)

    def _repr_html_(self) -> str:
        """In a notebook: the plan with its decisions."""
        return notebook(self.plan(), self.session.clock.now() / 1e6)

    @property
    @in_turn
    def decisions(self) -> list[Decision]:
        """What was decided so far: by the planner, then by the operators as time went on. Of each operator the last
        ones are kept."""
        return self.running.decisions

    @in_turn
    def statistics(self) -> dict[str, dict[str, Any]]:
        """By operator what those that adapt know and did: of a selection its order or its classifiers, and for each
        conjunct as written what it was asked, let pass and took; of an eddy also selectivities by class. A join that is
        routed has the same of its relations, with matches per row as selectivities."""
        return self._statistics()

    def _statistics(self) -> dict[str, dict[str, Any]]:
        return {name: found for name, o in self.running.operators.items() if (found := o.operator.statistics())}

    # ── steering ──────────────────────────────────────────────────────────────────────────────────────────────────

    @in_turn
    def alter(self, **options: Any) -> list[Decision]:
        """Change options while the query runs: ``ALTER QUERY q SET (…)``. None sets one back to its default. Returns
        the records of what changed; a mistake is refused, and then nothing changes.

        >>> import eddyline as ed
        >>> session = ed.Session()
        >>> session.stream("S", [{"ts": 1, "a": 2}], timestamp="ts")
        >>> query = session.query("SELECT Istream(a) FROM S WHERE a > 1 AND a < 9")
        >>> [(d.kind, d.before, d.after, d.by) for d in query.alter(filters="sweep")]
        [('option filters', None, 'sweep', 'user')]
        """
        return self.steering.alter(options)

    @in_turn
    def pin(self) -> list[Decision]:
        """Keep all plans as they are: ``PIN QUERY q``. What policies would have done stands in the log, not applied."""
        return self.steering.pin(True)

    @in_turn
    def unpin(self) -> list[Decision]:
        """Let policies change plans again: ``UNPIN QUERY q``."""
        return self.steering.pin(False)

    @in_turn
    def undo(self, number: int) -> list[Decision]:
        """Set back what a decision changed: ``UNDO DECISION n OF QUERY q``. ``number`` is the decision's ``sequence``.
        Its policy does not take it again before the statistics have drifted."""
        return self.steering.undo(number)

    @in_turn
    def late(self) -> list[dict[str, Any]]:
        """The last late rows of the query's streams with ``_reason``; the report has their exact number."""
        return [row for s in self.running.inputs.values() for row in s.late.to_pylist()]

    @in_turn
    def invalid(self) -> list[dict[str, Any]]:
        """The last invalid rows with ``_reason``: those of the query's streams, and with ``on_error = 'invalid'`` those
        for which one of its expressions failed."""
        rows = [row for s in self.running.inputs.values() for row in s.invalid.to_pylist()]
        return rows + self.running.invalid.to_pylist()

    @in_turn
    def shed(self) -> list[dict[str, Any]]:
        """The last rows that the query's streams shed under overload, with ``_reason``; the report has their number."""
        return [row for s in self.running.inputs.values() for row in s.shed.to_pylist()]

    @property
    @in_turn
    def approximate(self) -> bool:
        """Whether a stream that it reads has shed rows, or an operator drops some: then results since the first of
        them are not exact."""
        return self._approximate()

    def _approximate(self) -> bool:
        dropping = any(o.operator.approximate() for o in self.running.operators.values())
        return dropping or any(s.shed.count for s in self.running.inputs.values())

    @in_turn
    def report(self) -> dict[str, Any]:
        """Counts, times and state as plain data: what ``--report`` writes."""
        r = self.running
        seconds = sum(o.task.statistics.nanoseconds for o in r.operators.values()) / 1e9
        sizes = r.sizes()
        return {
            "query": self.name,
            "events": sum(s.arrived for s in r.inputs.values()),
            "results": r.produced,
            "seconds": seconds,
            "late": sum(s.late.count for s in r.inputs.values()),
            "invalid": sum(s.invalid.count for s in r.inputs.values()) + r.invalid.count,
            "shed": sum(s.shed.count for s in r.inputs.values()),
            "approximate": self._approximate(),
            "estimates": [] if self.estimator is None or not self._approximate() else self.estimator.report(),
            "streams": {s.name: s.report() for s in r.inputs.values()},
            "operators": [
                {
                    "name": name,
                    "elements_in": o.task.statistics.elements_in,
                    "elements_out": o.task.statistics.elements_out,
                    "seconds": o.task.statistics.nanoseconds / 1e9,
                    "rows": sizes[name][0],
                    "bytes": sizes[name][1],
                    "spilled_rows": o.spilled()[0],
                    "spilled_bytes": o.spilled()[1],
                }
                for name, o in r.operators.items()
            ],
            "state": {
                "rows": sum(n for n, _ in sizes.values()),
                "bytes": sum(b for _, b in sizes.values()),
                "peak_rows": r.peak[0],
                "peak_bytes": r.peak[1],
                "spilled_rows": sum(o.spilled()[0] for o in r.operators.values()),
                "spilled_bytes": sum(o.spilled()[1] for o in r.operators.values()),
                "synopses": [
                    {"operator": name, **s}
                    for name, known in self._statistics().items()
                    for s in known.get("synopses", ())
                    if "input" in s
                ],
            },
            "decisions": [d.to_dict() for d in r.decisions],
            "adapting": [
                {"operator": name, **{k: v for k, v in known.items() if k != "history"}}
                for name, known in self._statistics().items()
            ],
        }

    def drop(self) -> None:
        """Deregister the query from its session."""
        if self not in self.session.queries:
            raise EddylineError(f"{self.name} is not running any more.")
        self.session.drop(self)


class Results:
    """The results of a query one batch after another. Threads may share it: each batch goes to one of them."""

    def __init__(self, query: Query) -> None:
        self._query = query

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        with self._query.turn:
            batch = self._query._next()
        if batch is None:
            raise StopIteration
        return batch
