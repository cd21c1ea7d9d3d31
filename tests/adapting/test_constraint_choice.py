"""Which constraints are exploited is chosen by predicted rows (thesis 6.10), and what is told of a join's synopses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from experiments.constraints.harness import Input, Run, filtered

import eddyline as ed
from tests.operators.constrained import Example, Fixed

ROWS = 4_000


def averaged(k: int, constraints: str) -> tuple[float, Run]:
    """Rows in memory in the last third of a run over the streams of Figure 6.18, at a hundredth of their length."""
    tables = filtered(k, 3 * ROWS, 2, ROWS // 10)
    inputs = {"S1": Input(tables["S1"], ROWS), "S2": Input(tables["S2"], ROWS, ("f", 10))}
    join, seen = Run(inputs, [("S1.a", "S2.a")], constraints), []
    for _ in join.steps(ROWS // 10):
        seen.append(join.rows)
    return float(np.mean(seen[-len(seen) // 3 :])), join


@pytest.mark.parametrize(("k", "drops"), [(0, True), (100, True), (1_000, False)])
def test_the_choice_is_as_good_as_the_best(k: int, drops: bool) -> None:
    """Dropping No rows pays while parents wait for a short time; then they are kept, and the decision is in the log."""
    ways = ("uses=ca", "uses=rids", "uses=rids+ca, choice=all")
    best = min(averaged(k, f"lossy({way}, collect=100)")[0] for way in ways)
    chosen, join = averaged(k, "lossy(uses=rids+ca, collect=100)")
    assert chosen <= 1.05 * best
    assert join.watch.drops_no[1] is drops
    found = join.watch.predicted[1]
    assert (found.dropped <= found.kept) is drops


def test_clusters_of_one_parent_and_order_of_another_end_a_child() -> None:
    """A mixed cover (6.8.1): CA(1) on S1.A and OAP(0) on S2.A, both parents of S3."""
    example = Example(
        ["AX", "AY", "AZ"],
        [("S1.A", "S3.A"), ("S2.A", "S3.A")],
        Fixed(((0, 2), (1, 2)), ca={(0, 2): 1}, oap={(1, 2): 0}),
    )
    example.feed(3, (5, 0), (6, 0))
    example.feed(1, (5, 1), (6, 1), (7, 1))  # two values since the first 5: no 5 will come on S1
    assert example.synopsis(3, "yes") == [(5, 0), (6, 0)]
    assert example.feed(2, (5, 2)) == [(1, 5, 1, 5, 2, 5, 0)]
    assert (5, 0) in example.synopsis(3, "yes")
    example.feed(2, (6, 2), (8, 2))  # in order: neither 5 nor 6 will come on S2
    assert example.synopsis(3, "yes") == [(6, 0)]  # another 6 may come on S1
    example.feed(1, (9, 1))
    assert example.synopsis(3, "yes") == []


def orders(**options: Any) -> ed.Query:
    ids, late = np.repeat(np.arange(6_000), 3), np.random.default_rng(1).integers(0, 40, 18_000)
    first = pa.table({"ts": np.arange(6_000), "id": np.arange(6_000)})
    items = pa.table({"ts": np.arange(18_000) // 3, "id": ids[np.argsort(ids + late, kind="stable")]})
    session = ed.Session()
    session.stream("orders", first.to_batches(500), schema=first.schema, timestamp="ts", unique=["id"])
    session.stream("items", items.to_batches(1500), schema=items.schema, timestamp="ts")
    text = "SELECT Istream(I.ts, O.ts AS u) FROM items [RANGE 3000] I, orders [RANGE 3000] O WHERE I.id = O.id"
    return session.query(text, **options)


def test_rows_and_bytes_in_memory_and_spilled_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eddyline.synopses.spill.BUFFER_BYTES", 50_000)
    query = orders(constraints="exact(collect=500)")
    assert query.to_arrow().num_rows == 18_000
    state = query.report()["state"]
    assert state["rows"] < 500 and state["spilled_rows"] > 8_000 and state["spilled_bytes"] > 100_000
    items, first = state["synopses"]
    assert (items["input"], first["input"]) == ("I [RANGE 3000]", "O [RANGE 3000]")
    assert items["spilled"] + first["spilled"] == state["spilled_rows"]
    assert items["spilled_bytes"] + first["spilled_bytes"] == state["spilled_bytes"]
    assert items["rows"] + first["rows"] == state["rows"]
    assert 8_000 < items["window_rows"] <= 9_100 and items["constraint_rows"] < 200 and first["constraint_rows"] < 200
    assert sum(items["removed"].values()) > 15_000
    told = query.explain()
    assert "window 9,0" in told and "by constraints about" in told and "made useless by" in told
    known = {c["constraint"]: c for c in query.statistics()["constrained-join 1"]["constraints"]}
    assert known["RIDS on I.id → O.id"]["k_e"] >= known["RIDS on I.id → O.id"]["k_u"] > 0
    # Of each synopsis the constraints by which its rows go: those of items wait for their order.
    of_items, of_orders = ({c["constraint"]: c for c in s["constraints"]} for s in (items, first))
    assert {"RIDS on I.id → O.id", "OAC on O.id"} <= set(of_items) and {"CA on I.id", "OAP on I.id"} <= set(of_orders)
    del known["RIDS on I.id → O.id"]["increases"]
    assert of_items["RIDS on I.id → O.id"] == known["RIDS on I.id → O.id"]
    assert set(of_items) | set(of_orders) == set(known)


def test_a_plain_join_spills_nothing() -> None:
    query = orders()
    query.to_arrow()
    state = query.report()["state"]
    assert (state["spilled_rows"], state["spilled_bytes"], state["synopses"]) == (0, 0, [])
