"""Scheduling in a session: budgets, priorities, turns and full queues, and answers that do not depend on them."""

from __future__ import annotations

from typing import Any

import pytest

import eddyline
from eddyline.core.errors import JobError
from tests.engine.sessions import fetched, rows, session

FILTER = "SELECT Istream(a) FROM S WHERE a % {} = 0"


def pushed(made: eddyline.Session, low: int, high: int, stream: str = "S") -> None:
    made.push(stream, rows(*((i, i) for i in range(low, high))))


def test_a_budget_leaves_work_for_the_next_step() -> None:
    made = session("S")
    made.budget, made.quantum = 1, 10
    query = made.query(FILTER.format(1))
    pushed(made, 0, 101)
    assert made.queued > 0
    assert fetched(query) == []
    assert query.running.reached is None or query.running.reached < 99
    made.drain()
    assert made.queued == 0
    assert fetched(query) == [(i, i) for i in range(100)]
    pushed(made, 101, 201)
    made.finish()  # the end of the inputs leaves nothing
    assert fetched(query) == [(i, i) for i in range(100, 201)]


@pytest.mark.parametrize("scheduler", ["fifo", "greedy", "chain", "round-robin"])
def test_a_query_of_higher_priority_is_answered_first(scheduler: str) -> None:
    made = session("S", scheduler=scheduler)
    made.quantum = 10
    low = made.query("SELECT sum(a) AS t FROM S [ROWS 7]")
    high = made.query("SELECT max(a) AS m FROM S [ROWS 5]", priority=3)
    made.budget = 25
    pushed(made, 0, 101)
    assert high.running.reached is not None
    assert all(o.task.statistics.runs == 0 for o in low.running.uses if high.running not in o.readers)
    made.drain()
    assert low.running.reached == high.running.reached == 99


def test_what_a_query_of_higher_priority_reads_has_its_priority() -> None:
    made = session("S")
    low = made.query("SELECT sum(a) AS t FROM S [RANGE 7]")
    high = made.query("SELECT x.b AS m FROM (SELECT sum(a) AS b FROM S [RANGE 7]) x WHERE x.b > 3", priority=2)
    shared = [o for o in low.running.uses if len(o.readers) > 1]
    assert shared
    assert all(o.task.priority == 2 for o in shared)
    high.drop()
    assert all(o.task.priority == 0 for o in shared)


def test_round_robin_gives_each_query_its_turn() -> None:
    """FIFO finishes the arrival that came first; round robin lets both go on."""
    runs: dict[str, list[int]] = {}
    for policy in ("fifo", "round-robin"):
        made = session("S", "T", scheduler=policy)
        made.quantum = 1
        one = made.query("SELECT Istream(a) FROM S WHERE a >= 0")
        other = made.query("SELECT Istream(a) FROM T WHERE a >= 0")
        made.budget = 1
        pushed(made, 0, 101)
        pushed(made, 0, 101, "T")
        made.budget = 40
        made.advance()
        runs[policy] = [sum(o.task.statistics.runs for o in q.running.uses) for q in (one, other)]
    assert runs["fifo"][0] > 35
    assert abs(runs["round-robin"][0] - runs["round-robin"][1]) <= 2


def test_a_full_queue_stops_who_fills_it() -> None:
    """A select that lets everything pass into a window that the budget never reaches, but for the bound."""
    longest: dict[int | None, int] = {}
    for bound in (None, 50):
        made = session("S", scheduler="greedy")
        made.quantum, made.queue_bound = 10, bound
        query = made.query("SELECT a, count(*) AS n FROM S [RANGE 5] WHERE a >= 0 GROUP BY a")
        made.budget = 2
        longest[bound] = 0
        for i in range(60):
            pushed(made, 10 * i, 10 * i + 10)
            queues = [q.size for o in query.running.uses for q in o.task.inputs]
            longest[bound] = max(longest[bound], *queues)
        made.finish()
        assert len(fetched(query)) > 1000
    assert longest[50] <= 50 + 10 + 10  # and what one run makes, and what one push brings
    assert (longest[None] or 0) > 150


def test_sources_are_not_read_while_queues_are_full() -> None:
    made = eddyline.Session()
    made.stream("S", [{"ts": i, "a": i} for i in range(70_000)], timestamp="ts")
    query = made.query("SELECT a, count(*) AS n FROM S [RANGE 5] WHERE a >= 0 GROUP BY a")
    made.quantum, made.queue_bound, made.budget = 1000, 2000, 1
    steps = 0
    while made.step():
        steps += 1
    assert steps > 20  # most of them read nothing
    assert query.report()["events"] == 70_000
    assert len(fetched(query)) == 2 * 70_000 - 6


def test_a_full_queue_before_a_join_does_not_stop_the_other_side() -> None:
    """Both inputs of the join come from one select, one of them through a window of rows: who fills the first queue is
    needed to fill the second."""
    made = session("S")
    made.view("v", "SELECT Istream(a) FROM S WHERE a >= 0")
    query = made.query("SELECT x.a FROM v x [ROWS 3], (SELECT a FROM v [ROWS 2] WHERE a % 2 = 0) y WHERE x.a = y.a")
    made.quantum, made.queue_bound = 1, 1
    pushed(made, 0, 300)
    made.finish()
    plain = session("S")
    plain.view("v", "SELECT Istream(a) FROM S WHERE a >= 0")
    other = plain.query("SELECT x.a FROM v x [ROWS 3], (SELECT a FROM v [ROWS 2] WHERE a % 2 = 0) y WHERE x.a = y.a")
    pushed(plain, 0, 300)
    plain.finish()
    found = fetched(query)
    assert len(found) > 200
    assert found == fetched(other)


def test_a_query_that_waits_for_another_stream_does_not_stop_the_session() -> None:
    made = session("S", "T")
    made.queue_bound = 5
    join = made.query("SELECT S.a FROM S [RANGE 100], T [RANGE 100] WHERE S.a = T.a")
    for i in range(50):
        made.push("S", rows((i, i)))
    made.push("T", rows((7, 7), (60, 8)))
    made.finish()
    assert fetched(join) == [(7, 7, 1), (8, 60, 1)]


@pytest.mark.parametrize(
    ("set_to", "message"),
    [({"budget": 0}, "the budget is an integer of at least 1, not 0"), ({"quantum": "x"}, "the quantum is an integer"),
     ({"queue_bound": -1}, "the bound of queues is an integer of at least 1"),
     ({"scheduler": "best"}, "There are: fifo")],
)  # fmt: skip
def test_mistakes_are_told(set_to: dict[str, Any], message: str) -> None:
    made = session("S")
    for name, value in set_to.items():
        with pytest.raises(JobError, match=message):
            setattr(made, name, value)
    with pytest.raises(JobError, match="the option 'priority' is an integer"):
        made.query(FILTER.format(1), priority="high")


def test_a_property_that_a_session_does_not_have_is_refused() -> None:
    made = session("S")
    with pytest.raises(AttributeError, match=r"no property .budgets.\. Did you mean .budget.\? The properties that"):
        made.budgets = 3
    with pytest.raises(AttributeError, match=r"no property 'bound'.*queue_bound"):
        made.bound = "abc"


def test_the_scheduler_of_a_session_is_changed_while_queries_run_and_its_decisions_are_in_each_log() -> None:
    made = session("S", "T")
    text = "SELECT a FROM S [RANGE 4] WHERE a IN (SELECT a FROM T [RANGE 4]) UNION SELECT a FROM T [ROWS 2]"
    queries = [made.query(text) for _ in range(2)]
    made.scheduler = "chain(period=1)"
    assert made.scheduler == "chain(period=1)"
    for i in range(50):
        made.push("S", rows((i, i % 5)))
        made.push("T", rows((i, i % 3)))
    for q in queries:
        assert [d for d in q.decisions if d.by == "scheduler" and d.kind == "chain"]


def test_the_default_scheduler_is_chain_under_a_budget_and_a_chosen_one_stays() -> None:
    made = session("S")
    assert made.scheduler == "fifo"
    made.budget = 3
    assert made.scheduler == "chain"
    made.budget = None
    assert made.scheduler == "fifo"
    made.scheduler = "greedy"
    made.budget = 3
    assert made.scheduler == "greedy"
    chosen = session("S", scheduler="fifo")
    chosen.budget = 3
    assert chosen.scheduler == "fifo"
    asked = session("S")
    asked.query("SELECT Istream(a) FROM S", scheduler="round-robin")
    asked.budget = 3
    assert asked.scheduler == "round-robin"
