"""Run one configuration in a Spark session of this process."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.spark.configuration import OURS, Configuration, Outcome
from benchmarks.spark.data import streams
from eddyline.spark import local

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_STATE = "org.apache.spark.sql.execution.streaming.state"
PROVIDERS = {"hdfs": f"{_STATE}.HDFSBackedStateStoreProvider", "rocksdb": f"{_STATE}.RocksDBStateStoreProvider"}

# Those of the command line's own sessions, and for both sides. What makes a difference to Spark's own operators helps
# them: with RocksDB they too commit changes, not files of the whole store.
SETTINGS = {
    **{k: v for k, v in {**local.QUERIES, **local.MACHINE, **local.DRIVER}.items() if k != PROVIDER},
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.numRecentProgressUpdates": "100000",
}


PLAIN = {
    "spark.driver.defaultJavaOptions": "-Dlog4j2.configurationFile=" + local.LOG.as_uri(),
    "spark.sql.streaming.checkpointFileManagerClass": f"{local.CHECKPOINTING}.FileContextBasedCheckpointFileManager",
    local.CHECKSUMS: "true",
}
PAGES = {"spark.buffer.pageSize": "64m"}  # what Spark chooses for such heaps


def session(c: Configuration, folder: str) -> Any:
    """A session of the command line's kind, or (``plain``) one with nothing said about Java and checkpoint files."""
    settings = {
        **SETTINGS,
        **_java(c),
        "spark.driver.memory": c.memory,
        "spark.local.dir": folder,
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
    }
    # Python workers are started early only for the side that needs them.
    return local.local_session("local[2]", name="eddyline benchmarks", settings=settings, warm=c.side in OURS)


def _java(c: Configuration) -> dict[str, str]:
    """What differs from the command line's sessions. Those keep Java's heap small, which costs Spark's own operators
    time, since their state is in it: they get the share of the heap that Java would choose, unless ``lean``.

    >>> _java(Configuration("three-way", "ours", 1000, 100))
    {}
    >>> _java(Configuration("three-way", "native", 1000, 100))["spark.driver.extraJavaOptions"]
    '-XX:MaxNewSize=2048m'
    """
    if c.plain:
        return {**PLAIN, **PAGES}
    if c.lean or not c.side.startswith("native"):
        return {}
    young = int(c.memory.removesuffix("g")) * 1024 // 3
    return {"spark.driver.extraJavaOptions": f"-XX:MaxNewSize={young}m", **PAGES}


def run(spark: Any, c: Configuration, folder: str, started: float) -> Outcome:
    """Start the query, wait for all data to be processed, and read off what Spark says about each micro-batch."""
    import pyspark.sql.functions as F

    from benchmarks.spark.plans import plan

    ready = time.time()
    provider = PROVIDERS[c.store if c.side.startswith("native") else "rocksdb"]
    for name, value in {PROVIDER: provider, **c.extra}.items():
        spark.conf.set(name, value)
    data = streams(c)
    p = plan(spark, c, data)
    facts = [F.count(F.lit(1)).alias("results")]
    if p.weight is not None:
        weight = F.when(p.instant < F.lit(data.closed), p.weight)
        facts += [F.count(weight).alias("checked"), F.sum(weight).alias("checksum")]
    # Counted on the way into a sink that does nothing: no second job, no second stage, on any side.
    watched = p.frame.observe("found", *facts)
    with tempfile.TemporaryDirectory(dir=folder) as checkpoint:
        writer = watched.writeStream.format("noop").outputMode("append").trigger(availableNow=True)
        query = writer.option("checkpointLocation", checkpoint).start()
        query.awaitTermination()
        ended = time.time()
        told = query.recentProgress
        state = Path(checkpoint) / "state"
        kept = sum(f.stat().st_size for f in state.rglob("*") if f.is_file()) if state.exists() else 0
    counted = [t["observedMetrics"]["found"].asDict() for t in told if "found" in t["observedMetrics"]]
    filled = [t for t in told if t["numInputRows"]]
    parts = [t["durationMs"] for t in filled]
    late = parts[len(parts) // 2 :]
    operators = [t["stateOperators"] for t in told]
    return Outcome(
        configuration=c,
        milliseconds=[d["triggerExecution"] for d in parts],
        begun=[datetime.fromisoformat(t["timestamp"]).timestamp() for t in filled],
        phases={n: median(d.get(n, 0) for d in late) for n in sorted({n for d in late for n in d})},
        input_rows=sum(t["numInputRows"] for t in filled),
        results=sum(int(f.get("results") or 0) for f in counted),
        checked_results=sum(int(f.get("checked") or 0) for f in counted),
        checksum=sum(f.get("checksum") or 0 for f in counted),
        started=started,
        seconds=ended - started,
        session_seconds=ready - started,
        state_rows=max((sum(o["numRowsTotal"] for o in s) for s in operators), default=0),
        state_bytes=max((sum(o["memoryUsedBytes"] for o in s) for s in operators), default=0),
        checkpoint_bytes=kept,
        store=_store([t["stateOperators"] for t in filled[len(filled) // 2 :]]),
        settings={
            **SETTINGS,
            **_java(c),
            "spark.driver.memory": c.memory,
            PROVIDER: provider.rpartition(".")[2],
            **c.extra,
        },
    )


def _store(operators: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, float]:
    """The metrics of the state stores in a steady micro-batch, added up over operators, the median over micro-batches.

    >>> _store([[{"commitTimeMs": 2, "customMetrics": {"x": 1}}, {"commitTimeMs": 3}], [{"commitTimeMs": 7}]])
    {'commitTimeMs': 6.0, 'x': 0.5}
    """
    batches: list[dict[str, float]] = []
    for batch in operators:
        total: dict[str, float] = {}
        for o in batch:
            for n, v in {**o, **(o.get("customMetrics") or {})}.items():
                if isinstance(v, int | float) and not n.startswith("SnapshotLastUploaded"):
                    total[n] = total.get(n, 0) + v
        batches.append(total)
    names = sorted({n for b in batches for n in b})
    return {n: median(b.get(n, 0) for b in batches) for n in names}
