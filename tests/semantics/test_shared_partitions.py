"""``[PARTITION BY … ROWS n]`` windows of queries that come and go at any moment share a store, and answer as alone."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

import eddyline as ed
from eddyline.synopses import sparse_store

CASES = max(1, round(12 * float(os.environ.get("EDDYLINE_CASES", "1"))))
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])
TEXTS = (
    "SELECT k, count(*) AS n, sum(v) AS t FROM S [PARTITION BY k ROWS {n}] GROUP BY k",
    "SELECT count(*) AS n, max(ts) AS t FROM S [PARTITION BY v ROWS {n}]",
    "SELECT Istream(k, v) FROM S [PARTITION BY k, v ROWS {n}]",
    "SELECT v, count(*) AS n FROM S [PARTITION BY k ROWS {n}] WHERE v > 1 GROUP BY v",
    "SELECT count(*) AS n FROM S [PARTITION BY k ROWS {n}] a, S [PARTITION BY v ROWS 2] b WHERE a.k = b.k",
)


def rows(rng: random.Random, count: int, most: int) -> list[dict[str, int]]:
    """Rows up to ``most`` ticks late; a few values are rare, so that old rows stay."""
    made = [{"ts": t // 2, "k": min(int(rng.expovariate(0.6)), 6), "v": rng.randint(0, 4)} for t in range(count)]
    return sorted(made, key=lambda r: r["ts"] + rng.randint(0, most))


class Story:
    """What happens in a session, drawn once and told twice: with sharing, and without."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(f"partitions/{seed}")
        self.slack = rng.choice((0, 6))
        self.rows = rows(rng, 260, self.slack)
        self.steps: list[tuple[str, Any]] = []
        at, named = 0, 0
        while at < len(self.rows):
            kind = rng.choices(("push", "query", "drop", "switch", "restore"), (6, 3, 1, 0.7, 0.5))[0]
            match kind:
                case "push":
                    size = rng.randint(1, 40)
                    self.steps.append(("push", self.rows[at : at + size]))
                    at += size
                case "query":
                    self.steps.append(("query", (f"q{named}", rng.choice(TEXTS).format(n=rng.randint(1, 7)))))
                    named += 1
                case _:
                    self.steps.append((kind, rng.random()))

    def told(self, shared: bool, folder: Path) -> tuple[dict[str, list[Any]], int]:
        session = self.declared(shared)
        texts: dict[str, str] = {}
        queries: dict[str, Any] = {}
        answers: dict[str, list[Any]] = {}
        joined = 0
        for number, (kind, what) in enumerate(self.steps):
            if kind == "push":
                session.push("S", what)
            elif kind == "query":
                texts[what[0]] = what[1]
                queries[what[0]], answers[what[0]] = session.query(what[1], name=what[0]), []
            elif kind == "drop" and queries:
                name = sorted(queries)[int(what * len(queries))]
                queries.pop(name).drop()
                del texts[name]
            elif kind == "switch" and shared:
                session.sharing = what < 0.6
            elif kind == "restore":
                joined += session._graph.registry.joined
                session.snapshot(folder / f"{shared}-{number}")
                session = self.declared(shared)
                queries = {n: session.query(t, name=n) for n, t in texts.items()}
                session.restore(folder / f"{shared}-{number}")
            for name, query in queries.items():
                answers[name] += [r for b in query.fetch() for r in b.to_pylist()]
        session.finish()
        for name, query in queries.items():
            answers[name] += [r for b in query.fetch() for r in b.to_pylist()]
        return answers, joined + session._graph.registry.joined

    def declared(self, shared: bool) -> ed.Session:
        session = ed.Session(sharing=shared)
        session.stream("S", schema=SCHEMA, timestamp="ts", slack=self.slack)
        return session


def test_shared_and_alone_they_answer_the_same(tmp_path: Path) -> None:
    moved = 0
    for seed in range(CASES):
        story = Story(seed)
        with patch.object(sparse_store, "SPARE", seed % 3 * 8):
            shared, joined = story.told(True, tmp_path / str(seed))
            alone, none = story.told(False, tmp_path / str(seed))
        assert shared == alone, seed
        assert none == 0
        moved += joined
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
