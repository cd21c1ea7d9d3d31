"""Checkpoints without kills: actions that run twice, queries side by side, queries that were changed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import eddyline.spark as eds
from tests.spark.kills.workload import (
    AGGREGATE,
    STREAMS,
    WITHIN,
    Bag,
    bag,
    committed,
    differences,
    expected,
    generate,
)

PATIENCE = 240
BUSY = "failed to connect back"  # Spark waits ten seconds for a Python to start, which on a busy machine is not enough
SHARDS = 4


def read(spark: Any, folder: Path) -> dict[str, Any]:
    return {
        n: spark.readStream.schema(", ".join(f"{c} long" for c in s.names))
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / n))
        for n, s in STREAMS.items()
    }


def aggregate(spark: Any, folder: Path, text: str = AGGREGATE, **options: Any) -> Any:
    frames = {"R": read(spark, folder)["R"]}
    return eds.query(text, streams=frames, timestamp="ts", **{"shards": SHARDS, **options})


def run(*writers: Any) -> None:
    """All of them side by side, each to the end of its input."""
    running = [(w, w.trigger(availableNow=True).start()) for w in writers]
    try:
        for writer, query in running:
            end(query, writer)
    finally:
        for _, query in running:
            query.stop()


def end(query: Any, writer: Any, attempts: int = 3) -> None:
    try:
        assert query.awaitTermination(PATIENCE), "it takes too long"
    except Exception as error:
        if BUSY not in str(error) or attempts == 1:
            raise
        again = writer.start()
        try:
            end(again, writer, attempts - 1)
        finally:
            again.stop()


def into(df: Any, checkpoint: Path, sink: Callable[[Any, int], None]) -> Any:
    return df.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))


class Collected:
    """A sink in this process: batches by number, so that one that is run again replaces itself."""

    def __init__(self, actions: int = 1) -> None:
        self.actions = actions
        self.batches: dict[int, Bag] = {}

    def __call__(self, df: Any, batch: int) -> None:
        counts = [df.count() for _ in range(self.actions - 1)]
        self.batches[batch] = bag(df.toArrow())
        assert all(n == self.batches[batch].total() for n in counts)

    def rows(self) -> Bag:
        return sum(self.batches.values(), Bag())


def test_two_actions_on_a_batch(spark: Any, tmp_path: Path) -> None:
    """Each action runs the micro-batch anew, from the state that it began with."""
    generate(tmp_path / "input", 3, seed=3)
    joined = eds.window_join(read(spark, tmp_path / "input"), on="k", within=WITHIN, timestamp="ts", shards=SHARDS)
    sink = Collected(actions=2)
    run(into(joined, tmp_path / "checkpoint", sink))
    assert not differences(sink.rows(), expected(tmp_path / "input")["join"])


def test_queries_of_the_same_text_side_by_side(spark: Any, tmp_path: Path) -> None:
    """Two that are written from one DataFrame, and one over other rows: same text, same shards, same workers."""
    for name, seed in (("one", 4), ("other", 5)):
        generate(tmp_path / name, 3, seed)
    one, other = aggregate(spark, tmp_path / "one"), aggregate(spark, tmp_path / "other")
    sinks = [Collected(), Collected(), Collected()]
    run(*(into(df, tmp_path / str(i), sinks[i]) for i, df in enumerate((one, one, other))))
    wanted, different = (expected(tmp_path / folder)["aggregate"] for folder in ("one", "other"))
    assert wanted != different
    for sink, rows in zip(sinks, (wanted, wanted, different), strict=True):
        assert not differences(sink.rows(), rows)


def test_a_changed_query(spark: Any, tmp_path: Path) -> None:
    """What changed is said, the checkpoint stays as it was, and the old query goes on from it, into another sink."""
    generate(tmp_path / "all", 4, seed=6)
    seen, checkpoint = tmp_path / "seen", tmp_path / "checkpoint"
    seen.mkdir()
    for i in (0, 1):
        bring(tmp_path / "all", seen, i)
    sink = Collected()
    run(into(aggregate(spark, seen), checkpoint, sink))
    bring(tmp_path / "all", seen, 2)
    for df, words in (
        (aggregate(spark, seen, AGGREGATE.replace("RANGE 60", "RANGE 80")), r"‹.*RANGE 60.*› became ‹.*RANGE 80.*›"),
        (aggregate(spark, seen, shards=3), f"it had {SHARDS} shards and now has 3; pass shards={SHARDS}"),
    ):
        with pytest.raises(Exception, match="cannot be taken over") as refused:
            run(into(df, checkpoint, sink))
        assert re.search(words, str(refused.value))
        assert "start with an empty checkpoint directory" in str(refused.value)
    bring(tmp_path / "all", seen, 3)
    spelled = AGGREGATE.replace("SELECT", "select").replace(" FROM", "\nFROM")
    df = aggregate(spark, seen, spelled, observe="renamed", rates={"R": 9.0})
    files = tmp_path / "files"
    run(df.writeStream.format("parquet").option("path", str(files)).option("checkpointLocation", str(checkpoint)))
    assert not differences(sink.rows() + committed(files, "files"), expected(tmp_path / "all")["aggregate"])


def bring(source: Path, target: Path, number: int) -> None:
    """One more file of each stream, with its time of change."""
    for name in STREAMS:
        (target / name).mkdir(exist_ok=True)
        shutil.copy2(source / name / f"{number:03d}.parquet", target / name)
