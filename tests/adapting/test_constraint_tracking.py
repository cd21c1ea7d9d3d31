"""Lossy joins whose k changes: what is missed while monitors follow it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from experiments.constraints.harness import MULTIPLICITY, Input, Run, interleaved

ROWS, ROUNDS = 20_000, 30_000
SMALL, LARGE = 600, 3_000


def jumping(constraint: str, seed: int) -> dict[str, pa.Table]:
    """S1 → S2 at rates 5:1 with a k that grows at once and falls at once, several times."""
    random = np.random.default_rng(seed)
    times = interleaved({"S2": 1, "S1": MULTIPLICITY}, ROUNDS)
    now = np.repeat(np.arange(ROUNDS), MULTIPLICITY)
    k = np.where(now // 5_000 % 2 == 0, SMALL, LARGE)
    if constraint == "rids":
        keys = now + (random.random(len(now)) * (k + 1)).astype(np.int64)
    else:
        keys = now[np.argsort(np.arange(len(now)) + random.random(len(now)) * k, kind="stable")]
    s2 = pa.table({"ts": times["S2"], "a": np.arange(ROUNDS)})
    return {"S1": pa.table({"ts": times["S1"], "a": keys}), "S2": s2}


@pytest.mark.parametrize("constraint", ["rids", "ca", "oap"])
def test_a_k_that_jumps_is_noticed_before_results_are_missed(constraint: str) -> None:
    """Distances grow by one with each arrival when k has jumped. The control is asked before rows are given up that
    such distances speak against."""
    for seed in range(3):
        tables = jumping(constraint, seed)
        inputs = {name: Input(table, ROWS) for name, table in tables.items()}
        plain = Run(inputs, [("S1.a", "S2.a")], None).all()
        lossy = Run(inputs, [("S1.a", "S2.a")], f"lossy(uses={constraint}, distances=arrivals)")
        kept = [lossy.rows for _ in lossy.steps(4_000)]
        assert lossy.results >= 0.9999 * plain.results > 100_000
        assert np.mean(kept[10:]) < 0.92 * plain.rows  # the constraint is used
