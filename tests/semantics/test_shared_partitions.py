"""``[PARTITION BY … ROWS n]`` windows of queries that come and go at any moment share a store, and answer as alone."""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa

import eddyline as ed
from eddyline.synopses import sparse_store
from tests.semantics.session_scripts import Row, SessionScript

CASES = max(6, round(12 * float(os.environ.get("EDDYLINE_CASES", "1"))))
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])
TEXTS = (
    "SELECT k, count(*) AS n, sum(v) AS t FROM S [PARTITION BY k ROWS {n}] GROUP BY k",
    "SELECT count(*) AS n, max(ts) AS t FROM S [PARTITION BY v ROWS {n}]",
    "SELECT Istream(k, v) FROM S [PARTITION BY k, v ROWS {n}]",
    "SELECT v, count(*) AS n FROM S [PARTITION BY k ROWS {n}] WHERE v > 1 GROUP BY v",
    "SELECT count(*) AS n FROM S [PARTITION BY k ROWS {n}] a, S [PARTITION BY v ROWS 2] b WHERE a.k = b.k",
)


def rows(rng: random.Random, count: int, most: int) -> list[Row]:
    """Rows up to ``most`` ticks late; a few values are rare, so that old rows stay."""
    made: list[Row] = [
        {"ts": t // 2, "k": min(int(rng.expovariate(0.6)), 6), "v": rng.randint(0, 4)} for t in range(count)
    ]
    return sorted(made, key=lambda r: (r["ts"] or 0) + rng.randint(0, most))


def draw_script(seed: int) -> SessionScript:
    rng = random.Random(f"partitions/{seed}")
    slack = rng.choice((0, 6))
    return SessionScript(
        rng, SCHEMA, {"S": rows(rng, 260, slack)}, slack, lambda r: (r.choice(TEXTS).format(n=r.randint(1, 7)), {})
    )


def test_shared_and_alone_they_answer_the_same(tmp_path: Path) -> None:
    moved = 0
    for seed in range(CASES):
        script, seen, alone = draw_script(seed), Counter[str](), Counter[str]()
        with patch.object(sparse_store, "MIN_DEAD_ROWS", seed % 3 * 8):
            shared = script.play(True, tmp_path / str(seed), seen, lambda *_: None)
            assert shared == script.play(False, tmp_path / str(seed), alone, lambda *_: None), seed
        assert alone["moved"] == 0
        moved += seen["moved"]
    assert moved > 2 * CASES, moved


def test_later_readers_hold_no_rows_of_their_own() -> None:
    def held(readers: int) -> tuple[int, int, str]:
        rng = random.Random(5)
        given = rows(rng, 3000, 0)
        session = ed.Session()
        session.stream("S", schema=SCHEMA, timestamp="ts")
        for n in range(10):
            if n < readers:
                query = session.query(TEXTS[0].format(n=100), name=f"q{n}")
            session.push("S", given[100 * n : 100 * n + 100])
        session.push("S", given[1000:])
        registry = session._graph.registry
        assert len({id(s.store) for s in registry.stubs}) == 1
        registry.stubs[0].give_back(1)  # without it up to as many dead rows may wait
        return *registry.size(), query.explain()

    one, ten = held(1), held(10)
    assert ten[:2] == one[:2] and one[0] > 500, (one, ten)
    assert "10 windows over the same elements keep them once" in ten[2] and "read by q0, q1" in ten[2]
