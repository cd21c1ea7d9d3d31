"""The plan as data: what it says, that it is plain, and that explain prints nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import eddyline as ed
from eddyline.plan.print_mermaid import mermaid
from eddyline.plan.print_text import explain

TEXT = """
    SELECT R.k, count(*) AS n FROM R [RANGE 10] WHERE_, S [ROWS 5], T [PARTITION BY k ROWS 2]
    WHERE R.k = S.k AND S.k = T.k AND R.v > 0 GROUP BY R.k
""".replace(" WHERE_", "")


def query(text: str = TEXT) -> Any:
    session = ed.Session()
    for name in "RST":
        session.stream(name, [{"ts": t, "k": t % 3, "v": t} for t in range(1, 40)], timestamp="ts")
    return session.query(text)


def test_nodes_say_what_they_are_keep_and_did() -> None:
    running = query()
    running.to_arrow()
    plan = running.plan()
    join = plan.node("mjoin 1")
    assert join.kind == "mjoin" and join.text == "R.k = S.k AND S.k = T.k" and join.strategy == "default"
    assert join.kept is not None and join.kept.rows > 0 and join.kept.bytes > 0
    bounds = join.kept.bounds
    assert bounds["R [RANGE 10]"].ticks == 10 and bounds["S [ROWS 5]"].rows == 5
    assert join.statistics["elements_in"] > 0
    assert {n.kind for n in plan.nodes} >= {"stream", "select", "seq-window", "mjoin", "aggregate"}
    assert all({e.source, e.target} <= {n.id for n in plan.nodes} for e in plan.edges)
    assert len(plan.edges) == sum(len(n.inputs) for n in plan.nodes)
    assert plan.root == plan.nodes[-1].id and plan.decisions[0]["kind"] == "join order"


def test_a_bound_in_time_is_in_seconds_where_time_is_a_timestamp() -> None:
    times = {int: "ticks", datetime: "seconds"}
    for kind, unit in times.items():
        session = ed.Session()
        at = 1 if kind is int else datetime(2024, 5, 1)
        for name in "RS":
            session.stream(name, [{"ts": at, "k": 1}], timestamp="ts")
        plan = session.query("SELECT R.k FROM R [RANGE 90], S [ROWS 5] WHERE R.k = S.k").plan()
        bounds = {p.name: (p.value, p.unit) for n in plan.nodes for p in n.properties}
        assert sorted(bounds.values()) == [(5, "rows"), (90, unit)]


def test_ids_are_stable() -> None:
    assert [n.id for n in query().plan().nodes] == [n.id for n in query().plan().nodes]
    assert len({n.id for n in query().plan().nodes}) == len(query().plan().nodes)


def test_it_is_plain_data() -> None:
    running = query()
    running.to_arrow()
    found = json.loads(running.plan().to_json())
    assert found["result"] == "signed" and found["nodes"][0]["kind"] in {"stream", "relation"}
    assert set(found) == set(running.plan().to_dict())


def test_explain_prints_the_plan_and_nothing_else() -> None:
    running = query()
    running.to_arrow()
    plan = running.plan()
    assert running.explain() == explain(plan)
    renamed = replace(plan, nodes=tuple(replace(n, text=n.text.replace("S.k", "Z.k")) for n in plan.nodes))
    assert "mjoin 1  R.k = Z.k AND Z.k = T.k" in explain(renamed)


def test_mermaid_draws_every_node_and_edge() -> None:
    plan = query().plan()
    drawn = mermaid(plan)
    assert drawn.startswith("flowchart TD")
    assert drawn.count("-->") == len(plan.edges) + 1
    assert all(node.id.split(" (")[0] in drawn for node in plan.nodes)
