"""Which operators are chosen: each choice is one decision of the planner, with costs and the reasons of refusals."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.streamon.decision import PLANNER

JOIN3 = "FROM S [RANGE 5], T [RANGE 5], U [RANGE 5] WHERE S.a = T.a AND T.b = U.b"
STAR = "FROM S, K m, K n WHERE S.a = m.k AND S.b = n.k"
IN = "a IN (SELECT a FROM T [RANGE 5])"

CHOSEN: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "two inputs": ("SELECT S.a FROM S [RANGE 5], T [RANGE 5] WHERE S.a = T.a", {}, ["fixed-join"]),
    "three inputs": (f"SELECT S.a {JOIN3}", {}, ["adaptive-join"]),
    "caches alone": (f"SELECT S.a {JOIN3}", {"joins": "static", "caches": "global"}, ["adaptive-join"]),
    "nothing to adapt": (f"SELECT S.a {JOIN3}", {"joins": "static", "caches": "none"}, ["fixed-join"]),
    "a tree": (f"SELECT S.a {JOIN3}", {"tree": "((S, T), U)"}, ["tree-join"]),
    "a star": (f"SELECT S.a {STAR}", {"routing": "sbr"}, ["star-look-up"]),
    "a star that is not routed": (f"SELECT S.a {STAR}", {}, ["adaptive-join"]),
    "a window": (f"SELECT a FROM S [RANGE 5] WHERE {IN}", {}, ["semijoin"]),
    "no partner": (f"SELECT a FROM S [RANGE 5] WHERE NOT {IN}", {}, ["mark-join", "select-marks"]),
    "either": (f"SELECT a FROM S [RANGE 5] WHERE {IN} OR b > 1", {}, ["mark-join", "select-marks"]),
    "a constant": ("SELECT a FROM S [RANGE 5] WHERE a IN (SELECT k FROM K)", {}, ["match-select"]),
    "an instant": (f"SELECT a FROM S [NOW] WHERE {IN}", {}, ["match-select"]),
    "it may fail": (f"SELECT a FROM S [RANGE 5] WHERE {IN} AND 1 / b > 0", {}, ["fallible-memberships"]),
    "padded": ("SELECT S.a FROM S [RANGE 5] LEFT JOIN T [RANGE 5] ON S.a = T.a", {}, ["padded-join"]),
}


def planned(text: str, options: dict[str, Any]) -> ed.Query:
    session = ed.Session()
    for name in "STU":
        session.stream(name, schema=pa.schema([(n, pa.int64()) for n in ("ts", "a", "b")]), timestamp="ts")
    session.relation("K", pa.table({"k": [1], "v": [2]}))
    return session.query(text, **options)


@pytest.mark.parametrize("case", CHOSEN)
def test_the_operator_that_is_chosen(case: str) -> None:
    text, options, operators = CHOSEN[case]
    query = planned(text, options)
    made = [d for d in query.decisions if d.kind.endswith(" operator")]
    assert [d.after for d in made] == operators and {d.by for d in made} == {PLANNER}
    nodes = {n.id: n.chosen for n in query.plan().nodes if n.chosen}
    assert {d.operator: d.after for d in made} == {i: c["operator"] for i, c in nodes.items()}
    for d in made:
        costs, refused = d.evidence["costs"], d.evidence["refused"]
        assert costs[d.after] == min(costs.values()) == nodes[d.operator]["cost"]
        assert not costs.keys() & refused.keys() and all(refused.values())
        assert f"{d.operator}: {d.kind} {d.after} ({d.reason})" in query.explain()
    shown = json.loads(query.plan().to_json())
    assert [n["chosen"]["operator"] for n in shown["nodes"] if n["chosen"]] == operators


def test_what_is_refused_says_why() -> None:
    (decision,) = (d for d in planned(*CHOSEN["a tree"][:2]).decisions if d.kind == "join operator")
    refused = decision.evidence["refused"]
    assert refused["adaptive-join"] == "the option 'tree' fixes the plans of the query's joins"
    assert refused["fixed-join"] == "the option 'tree' draws another plan"
    assert refused["star-look-up"] == "the option 'routing' is not given"
