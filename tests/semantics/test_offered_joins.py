"""Joins that hand their rows over under a limit of memory while rows of their windows are on the disk: they answer as
the plain join without a limit.

Streams keep to an order and break it, so that constraints are found, used and refuted. Chunks of stores are small here,
and joins change soon. Some runs are saved and restored in a new session several times; in some the limit is set, raised
and dropped while the query runs; a second query shares stores. With ``-s`` a line says what happened how often.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.adapting.candidates import constrained_join
from eddyline.adaptive.constraints.handover import HandOver
from eddyline.operators.offered_join import OfferedJoin
from eddyline.synopses import store
from eddyline.synopses.row_files import RowFiles
from tests.scale import scaled
from tests.semantics.test_long_constrained_joins import SHAPES, TOPS

GRAPHS = scaled(12, least=6)
LIMITS = ("8 kB", "90 kB", "250 kB")
ROWS = 4_000
WINDOWS = ("[RANGE 1500]", "[ROWS 1200]", "[RANGE 2500]", "[ROWS UNBOUNDED]", "[RANGE 1800 SLIDE 60]")
AUTO = "auto(W=20, collect=50, patience=400)"


def keys(rng: np.random.Generator, many: int) -> np.ndarray[Any, Any]:
    """Increasing but for a little disorder, mostly each once; in the last third there may be much more of it, and keys
    that come at any time."""
    base, late = np.arange(many) // rng.choice([1, 1, 2]), np.arange(many) > 2 * many // 3
    spread = np.where(late, rng.choice([5, 40, 800]), rng.choice([0, 5, 20]))
    moved = base[np.argsort(np.arange(many) + rng.random(many) * spread, kind="stable")]
    wrong = late & (rng.random(many) < rng.choice([0, 0.002, 0.1]))
    return np.where(wrong, rng.integers(0, many, many), moved)


def stream(rng: np.random.Generator) -> pa.Table:
    many = int(rng.integers(3 * ROWS // 4, ROWS))
    ts = np.sort(rng.integers(0, 2 * ROWS, many))
    found = {"ts": ts, "a": keys(rng, many), "b": keys(rng, many)}
    return pa.table({**found, "c": rng.integers(0, 3, many), "v": np.arange(many)})


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Small chunks go to the disk, joins change soon; counts what happens."""
    seen: Counter[str] = Counter()
    put, give_up = RowFiles.put, OfferedJoin._give_up

    def counting(self: RowFiles, columns: Any) -> Any:
        seen["files"] += 1
        return put(self, columns)

    def handing(self: OfferedJoin) -> None:
        seen["hand-overs with rows on the disk"] += self.on_disk() > 0
        give_up(self)

    monkeypatch.setattr(store, "LEAST_SPILLED_BYTES", 1)
    monkeypatch.setattr(store, "MERGED_ROWS", 16)
    monkeypatch.setattr(RowFiles, "put", counting)
    monkeypatch.setattr(OfferedJoin, "_give_up", handing)
    monkeypatch.setattr(constrained_join, "HandOver", lambda: HandOver(least_patience=300, patience=0.2))
    yield seen
    print(f"\n{dict(seen)}")


class Run:
    """Some queries over streams that are pushed in portions, in sessions one after the other."""

    def __init__(self, streams: dict[str, Any], queries: list[tuple[str, dict[str, Any]]]) -> None:
        self.streams, self.given = streams, queries
        self.found: list[Counter[str]] = [Counter() for _ in queries]
        self.open()

    def open(self) -> None:
        self.session = ed.Session()
        for name, table in self.streams.items():
            self.session.stream(name, schema=table.schema, timestamp="ts")
        self.queries = [
            self.session.query(text, name=f"q{n}", **options) for n, (text, options) in enumerate(self.given)
        ]

    def fetch(self) -> None:
        for rows, query in zip(self.found, self.queries, strict=True):
            for batch in query.fetch():
                rows.update(map(str, batch.to_pylist()))

    def push(self, low: int, high: int) -> None:
        for name, table in self.streams.items():
            ts = table["ts"].to_numpy()
            a, b = np.searchsorted(ts, (low, high))
            self.session.push(name, table.slice(a, b - a))
        self.fetch()

    def restart(self, folder: Path) -> None:
        self.session.snapshot(folder)
        self.open()
        self.session.restore(folder)

    def changes(self) -> Counter[str]:
        kernels = [d for q in self.queries for d in q.decisions if d.kind == "join kernel"]
        return Counter(f"to the {d.after}" for d in kernels)


def alter(run: Run, coin: random.Random) -> None:
    limit = coin.choice([None, *LIMITS])
    run.queries[0].alter(memory=limit)
    run.given[0] = (run.given[0][0], {"constraints": AUTO} | ({} if limit is None else {"memory": limit}))


@pytest.mark.parametrize("part", range(3))
def test_answers_do_not_change(part: int, seen: Counter[str], tmp_path: Path) -> None:
    for number in range(part, GRAPHS, 3):
        rng, coin = np.random.default_rng(1_000 + number), random.Random(f"offered/{number}")
        names, where = coin.choice(SHAPES)
        tables = ", ".join(f"{n} {coin.choice(WINDOWS)}" for n in names)
        text = TOPS[number // 3 % 3].replace("{last}", names[-1]).format(f"{tables} WHERE {where}")
        streams = {n: stream(rng) for n in names}
        end, cut = 1 + max(t["ts"][-1].as_py() for t in streams.values()), coin.choice([100, 300])
        expected = Run(streams, [(text, {"constraints": "off"})])
        for low in range(0, end, cut):
            expected.push(low, low + cut)
        expected.session.finish()
        expected.fetch()
        given = [(text, {"constraints": AUTO, "memory": coin.choice(LIMITS)})]
        if coin.random() < 0.4:
            given.append((text, {"constraints": AUTO}))  # reads the same stores, and has no limit
        alters, restarts = coin.random() < 0.4, coin.random() < 0.6
        run = Run(streams, given)
        for n, low in enumerate(range(0, end, cut)):
            run.push(low, low + cut)
            if alters and coin.random() < 0.1:
                alter(run, coin)
                seen["limits set"] += 1
            if restarts and coin.random() < 0.1:
                seen.update(run.changes())
                taken = [t.operator for t in run.queries[0].running.tasks if isinstance(t.operator, OfferedJoin)]
                seen["restarts after a hand-over"] += any(o.taken is not None for o in taken)
                seen["restarts while watched"] += any(o.ready is not None and o.taken is None for o in taken)
                run.restart(tmp_path / f"{number}/{n}")
        seen.update(run.changes())
        run.session.finish()
        run.fetch()
        for found in run.found:
            assert found == expected.found[0], (number, run.given)
    assert seen["to the constrained join"] and seen["files"], seen
