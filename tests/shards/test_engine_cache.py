"""Engines that stay in a worker are used only where the store is: shards that move, tasks that fail or run twice."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from eddyline.core.catalog import Catalog, StreamDef
from eddyline.core.schema import Schema
from eddyline.core.time import TimeKind
from eddyline.cql import bind
from eddyline.spark import engine_cache as hot
from eddyline.spark.packing import Packer
from eddyline.spark.program import Program, plan_group
from eddyline.spark.shard import Packed, ShardEngine
from eddyline.spark.shard_state import SegmentLog
from tests.shards.shards import Memory, unpacked

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
TEXT = "SELECT Istream(R.ts, S.ts AS other, R.k) FROM R [RANGE 30], S [RANGE 30] WHERE R.k = S.k"


class Store(Memory):
    """A state store that forgets what was written unless the task comes to its end."""

    @contextmanager
    def task(self) -> Iterator[None]:
        before = self.top, dict(self.parts)
        try:
            yield
        except BaseException:
            self.top, self.parts = before
            raise


class Killed(Exception):
    pass


class Workers:
    """Worker processes, each with a cache of its own, over one store."""

    def __init__(self, program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
        self.program, self.monkeypatch = program, monkeypatch
        self.store = Store()
        self.caches: list[dict[Any, Any]] = [{}, {}]
        self.found: Counter[str] = Counter()

    def run(self, worker: int, rows: list[Packed], killed: bool = False) -> Counter[Any]:
        """What ``processor.ShardProcessor`` does for one shard; ``killed`` after it has saved, before the task ends."""
        self.monkeypatch.setattr(hot, "_engines", self.caches[worker])
        log = SegmentLog(self.store)
        with self.store.task():
            head = log.head()
            kept = None if head is None else hot.take("run", 0, head.nonce)
            engine = ShardEngine(self.program.groups[0], 0) if kept is None else kept.engine
            if kept is None and head is not None:
                engine.load(log.load(head))
            self.found["hot" if kept is not None else "rebuilt"] += 1
            out = [row for _, batch in engine.process(rows) for row in batch.to_pylist()]
            head = log.save(engine.state(), head if kept is None else kept.head, "program")
            hot.put("run", 0, hot.Hot(head, engine))
            if killed:
                raise Killed
        return Counter(tuple(r.values()) for r in out)


def batches(program: Program) -> list[list[Packed]]:
    rng = random.Random(7)
    out = []
    for i in range(12):
        rows: list[Packed] = []
        for name in "RS":
            ts = sorted(rng.randrange(i * 10, i * 10 + 10) for _ in range(8))
            batch = pa.RecordBatch.from_pydict({"ts": ts, "k": [rng.randrange(3) for _ in ts]}, SCHEMA)
            packer = Packer(program.routes(name), program.timestamp(name))
            rows += [row for packed in packer(iter([batch])) for _, row in unpacked(packed)]
        out.append(rows)
    return out


@pytest.fixture
def program() -> Program:
    catalog = Catalog()
    for name in "RS":
        catalog.add("streams", StreamDef(name, Schema.from_arrow(SCHEMA), TimeKind.INTEGER, "ts"))
    return Program((plan_group([bind(TEXT, catalog)], catalog, lambda _: pa.table({}), shards=1),))


def undisturbed(program: Program, monkeypatch: pytest.MonkeyPatch) -> list[Counter[Any]]:
    workers = Workers(program, monkeypatch)
    answers = [workers.run(0, rows) for rows in batches(program)]
    assert workers.found == {"rebuilt": 1, "hot": 11}
    assert sum(a.total() for a in answers) > 100
    return answers


def test_a_shard_that_moves_to_and_fro(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = Workers(program, monkeypatch)
    answers = [workers.run(i % 2, rows) for i, rows in enumerate(batches(program))]
    assert workers.found == {"rebuilt": 12}  # what a worker kept is two micro-batches old, or of another nonce
    assert answers == undisturbed(program, monkeypatch)


def test_a_task_that_fails_after_saving(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine of the failed attempt is ahead of the store: it must be taken for what it is, in either worker."""
    workers = Workers(program, monkeypatch)
    answers = []
    for i, rows in enumerate(batches(program)):
        if i % 3 == 1:
            with pytest.raises(Killed):
                workers.run(0, rows, killed=True)
        answers.append(workers.run(i % 5 % 2, rows))
    assert answers == undisturbed(program, monkeypatch)


def test_a_micro_batch_that_is_run_twice(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second action begins where the first did; of the two states the last one stays."""
    workers = Workers(program, monkeypatch)
    answers = []
    for i, rows in enumerate(batches(program)):
        before = workers.store.top, dict(workers.store.parts)
        first = workers.run(0, rows)
        workers.store.top, workers.store.parts = before
        answers.append(workers.run(i % 2, rows))
        assert answers[-1] == first
    assert answers == undisturbed(program, monkeypatch)
