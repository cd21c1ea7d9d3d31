"""Which operators are chosen: each choice is one decision of the planner, with costs and the reasons of refusals."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.adapting.planning import plan_query
from eddyline.cql import bind
from eddyline.plan import physical
from eddyline.plan.choice import exchanged
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


MATCHED = {
    "by keys": (f"SELECT a FROM S [RANGE 5] WHERE {IN}", ["match-keys"]),
    "by bounds": ("SELECT a FROM S [RANGE 5] WHERE EXISTS (SELECT * FROM T [RANGE 5] WHERE T.a = S.a AND T.b < S.b)",
                  ["match-bounds"]),
    "by look-up": ("SELECT S.a FROM S [RANGE UNBOUNDED] LEFT JOIN K ON S.a = K.k", ["match-look-up"]),
    "three marks": (f"SELECT a FROM S [RANGE 5] WHERE {IN} OR b > 1", ["match-keys"] * 3),
    "both sides": ("SELECT S.a FROM S [RANGE 5] FULL JOIN T [RANGE 5] ON S.a = T.a AND S.b <> T.b + S.a",
                   ["match-keys"] * 2),
}  # fmt: skip


@pytest.mark.parametrize("case", MATCHED)
def test_how_partners_are_found_is_chosen_with_the_query(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in the log, in the plan and among what saved state depends on; who builds the query chooses nothing."""
    text, forms = MATCHED[case]
    query = planned(text, {})
    (found,) = (d.evidence["matching"] for d in query.decisions if "matching" in d.evidence)
    assert [m["operator"] for m in found] == forms
    assert all(m["reason"] and m["costs"][m["operator"]] == min(m["costs"].values()) for m in found)
    assert all({*m["costs"], *m["refused"]} == {"match-keys", "match-bounds", "match-look-up"} for m in found)
    (shown,) = (n.chosen["matching"] for n in query.plan().nodes if "matching" in n.chosen)
    (fact,) = (f["matching"] for f in query.running.chosen() if "matching" in f)
    assert shown == fact == [{"operator": f, "version": 1} for f in forms]
    session = ed.Session()
    for name in "STU":
        session.stream(name, schema=pa.schema([(n, pa.int64()) for n in ("ts", "a", "b")]), timestamp="ts")
    session.relation("K", pa.table({"k": [1], "v": [2]}))
    shipped = pickle.loads(pickle.dumps(plan_query(bind(text, session.catalog), session.catalog)))
    monkeypatch.setattr(physical, "choose_for", lambda *_: pytest.fail("a shard chooses"))
    built = session.register_planned(shipped)
    assert built.explain() == query.explain()


def test_another_way_to_find_partners_does_not_take_over_the_state() -> None:
    fact = {"of": "the membership of S", "operator": "semijoin", "version": 1}
    old, new = ({**fact, "matching": [{"operator": o, "version": 1}]} for o in ("match-keys", "match-bounds"))
    told = "the membership of S found partners by match-keys and would now find them by match-bounds"
    assert list(exchanged([old], [new])) == [told] and list(exchanged([old], [old])) == []
    later = {**fact, "matching": [{"operator": "match-keys", "version": 2}]}
    assert list(exchanged([old], [later])) == [
        "the membership of S found partners by match-keys with state of version 1, and this match-keys has version 2"
    ]


def test_what_is_refused_says_why() -> None:
    (decision,) = (d for d in planned(*CHOSEN["a tree"][:2]).decisions if d.kind == "join operator")
    refused = decision.evidence["refused"]
    assert refused["adaptive-join"] == "the option 'tree' fixes the plans of the query's joins"
    assert refused["fixed-join"] == "the option 'tree' draws another plan"
    assert refused["star-look-up"] == "the option 'routing' is not given"
