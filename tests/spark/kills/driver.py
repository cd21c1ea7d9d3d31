"""The program that is killed: a Spark driver in a process of its own, which goes on from its checkpoints.

``python -m tests.spark.kills.driver STORY.json``. It ends with status 0 when all queries have read all their input, and
says in ``done.json`` how often it had to start a query again.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import eddyline.spark as eds
from eddyline.spark.local import local_session
from tests.spark.kills import hooks
from tests.spark.kills.workload import AGGREGATE, DIFFERENT, DONE, STREAMS, WITHIN, bag

SHARDS = 4
MOST_RESTARTS = 40


def session(folder: Path, master: str, settings: dict[str, str]) -> Any:
    # A JVM that lives for seconds: compiling little is quicker than compiling well.
    java = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.io.tmpdir={folder / 'tmp'}"
    fixed = {
        "spark.driver.extraJavaOptions": java,
        "spark.local.dir": str(folder / "local"),
        "spark.driver.memory": "768m",
        "spark.sql.shuffle.partitions": "2",
        "spark.python.daemon.module": "tests.spark.kills.daemon",
        "spark.sql.streaming.fileSink.log.compactInterval": "4",  # the log is rewritten while it is read and killed
        "spark.sql.streaming.minBatchesToRetain": "5",
    }
    return local_session(master, name="kills", settings=fixed | settings)


def answer(spark: Any, name: str, folder: Path) -> Any:
    """The DataFrame of a query over the generated files, one file of each stream in a micro-batch."""
    ddl = {n: ", ".join(f"{c} long" for c in s.names) for n, s in STREAMS.items()}
    frames = {
        n: spark.readStream.schema(ddl[n]).option("maxFilesPerTrigger", 1).parquet(str(folder / "input" / n))
        for n in STREAMS
    }
    if name == "join":
        return eds.window_join(frames, on="k", within=WITHIN, timestamp="ts", shards=SHARDS)
    return eds.query(AGGREGATE, streams={"R": frames["R"]}, timestamp="ts", shards=SHARDS)


def write_batches(out: Path) -> Callable[[Any, int], None]:
    """A sink that writes each batch once, by its number: into its place only when it is whole."""

    def write(df: Any, batch: int) -> None:
        report = hooks.reporter()
        table = df.toArrow()
        report.reach(hooks.BATCH)
        path = out / f"{batch:05d}.parquet"
        temporary = path.with_suffix(".tmp")
        pq.write_table(table, temporary)
        report.reach(hooks.WRITTEN)
        if path.exists() and bag(pq.ParquetFile(path).read()) != bag(table):
            (out / f"{DIFFERENT}-{batch}").touch()
        temporary.replace(path)
        report.reach(hooks.PLACED)
        report.say(hooks.ELSEWHERE)

    return write


def start(spark: Any, name: str, sink: str, folder: Path) -> Any:
    df = answer(spark, name, folder)
    out = folder / "out" / name
    out.mkdir(parents=True, exist_ok=True)
    if sink == "files":
        df = df.mapInArrow(hooks.tail, df.schema)
        writer = df.writeStream.format("parquet").option("path", str(out))
    else:
        writer = df.writeStream.foreachBatch(write_batches(out))
    return (
        writer.queryName(name)
        .option("checkpointLocation", str(folder / "checkpoint" / name))
        .trigger(availableNow=True)
        .start()
    )


def main(path: str) -> None:
    story = json.loads(Path(path).read_text())
    folder = Path(story["folder"])
    began = time.monotonic()
    spark = session(folder, story["master"], story["settings"])
    failures: list[str] = []
    running = {name: start(spark, name, sink, folder) for name, sink in story["queries"].items()}
    while running:
        for name, query in list(running.items()):
            try:
                if query.awaitTermination(0.05):
                    del running[name]
            except Exception as error:  # a killed worker ends the query where tasks are not tried again
                failures.append(str(error).splitlines()[0][:300])
                if len(failures) > MOST_RESTARTS:
                    raise
                running[name] = start(spark, name, story["queries"][name], folder)
    done = {"failures": failures, "seconds": time.monotonic() - began}
    (folder / "done.tmp").write_text(json.dumps(done))
    (folder / "done.tmp").rename(folder / DONE)
    sys.stdout.flush()
    spark.stop()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
