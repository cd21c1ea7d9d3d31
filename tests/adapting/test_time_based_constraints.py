"""Constraints whose distances are counted in ticks: RIDS_t, CA_t, OA_t."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from experiments.constraints.harness import Input, Run

import eddyline as ed

DELAY, PHASE = 60, 1_000  # ticks
SCHEMA = pa.schema([("ts", pa.int64()), ("a", pa.int64())])
TEXT = "SELECT Istream(P.ts, C.ts AS t) FROM P [RANGE 2000] P, C [RANGE 2000] C WHERE P.a = C.a"


def bursts(late: str) -> dict[str, Input]:
    """Children at 1 or 20 in a tick, by turns. The parents of each come up to DELAY ticks before their child (``rids``;
    a quarter of them has none), or, three of them, after it (``clusters``)."""
    rng = np.random.default_rng(1)
    time = DELAY + np.repeat(np.arange(6 * PHASE), np.tile(np.repeat([1, 20], PHASE), 3))
    keys = np.arange(len(time))
    if late == "rids":
        when, mine = time - rng.integers(0, DELAY + 1, len(time)), np.where(keys % 4 == 0, -1 - keys, keys)
    else:
        when, mine = (np.repeat(x, 3) for x in (time, keys))
        when = when + rng.integers(0, DELAY + 1, len(when))
    order = np.argsort(when, kind="stable")
    tables = {"P": pa.table({"ts": when[order], "a": mine[order]}), "C": pa.table({"ts": time, "a": keys})}
    return {name: Input(table, 20_000) for name, table in tables.items()}


def run(inputs: dict[str, Input], constraints: str | None) -> tuple[Run, float]:
    """Rows in memory on average over the later part of quiet times."""
    join, kept = Run(inputs, [("P.a", "C.a")], constraints), []
    for done in join.steps(50):
        if done > 2 * PHASE and PHASE // 2 < done % (2 * PHASE) < PHASE:
            kept.append(join.rows)
    return join, float(np.mean(kept))


# Under CA the control finds what is useless when it is asked, in either form, and the rows between two questions are
# most of what is kept: the forms differ by less there.
@pytest.mark.parametrize(("late", "uses", "name", "most"), [
    ("rids", "rids", "RIDS_t on P.a → C.a", 0.7), ("clusters", "ca", "CA_t on P.a", 0.97),
    ("clusters", "oap", "OAP_t on P.a", 0.7),
])  # fmt: skip
def test_where_rates_vary_the_form_in_ticks_keeps_fewer_rows(late: str, uses: str, name: str, most: float) -> None:
    """Delays are the same at all times: in arrivals they are 20 times as long in busy times, and quiet times wait."""
    inputs = bursts(late)
    plain, _ = run(inputs, None)
    found = {d: run(inputs, f"exact(uses={uses}, distances={d}, collect=100)") for d in ("arrivals", "ticks", "chosen")}
    assert all(join.results == plain.results > 10_000 for join, _ in found.values())
    rows = {d: kept for d, (_, kept) in found.items()}
    print(uses, rows)
    assert rows["ticks"] < most * rows["arrivals"]
    assert rows["chosen"] <= 1.1 * rows["ticks"]
    told = {c["constraint"]: c for c in found["chosen"][0].join.statistics()["constraints"]}
    assert told[name]["used"] and told[name]["k_u"] <= DELAY and not told[name.replace("_t", "")]["used"]
    assert any(name in line and " ticks, used" in line for line in found["chosen"][0].join.adapts())


def test_heartbeats_are_progress() -> None:
    """Rows whose time is over go, though no element comes."""
    rows = {}
    for distances in ("ticks", "arrivals"):
        session = ed.Session()
        for name in "PC":
            session.stream(name, schema=SCHEMA, timestamp="ts", unique=["a"] if name == "C" else [])
        query = session.query(TEXT, constraints=f"exact(uses=rids, distances={distances}, collect=50, W=20)")
        for t in range(0, 600, 20):
            # The last parents have no child.
            session.push("P", [{"ts": u, "a": u + u % 7 if u < 590 else -u} for u in range(t, t + 20)])
            session.push("C", [{"ts": u, "a": u} for u in range(t, t + 20)])
        held = query.report()["state"]["rows"]
        for t in range(610, 1_200, 10):
            for name in "PC":
                session.heartbeat(name, t)
        rows[distances] = held, query.report()["state"]["rows"]
    assert rows["ticks"][1] == 0 < rows["ticks"][0]
    assert rows["arrivals"][1] >= 5  # they wait for arrivals
