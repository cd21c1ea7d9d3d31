"""A real standalone cluster: partitions follow its cores, answers are exact, also when executors are killed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline as ed
from eddyline.datasets.joins import three_way
from eddyline.spark import cores
from tests.spark.cluster import StandaloneCluster, standalone_cluster
from tests.terminal import Terminal, eddyline, run_in_terminal

JOIN = (
    "SELECT Istream(R.key AS key, R.val AS r, S.val AS s, T.val AS t)"
    " FROM R [RANGE 10 SECONDS], S [RANGE 10 SECONDS], T [RANGE 10 SECONDS] WHERE R.key = S.key AND S.key = T.key"
)
EVENTS = 600_000  # two micro-batches


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


def rows(table: pa.Table) -> Counter[Any]:
    return Counter(zip(*(table[n].to_pylist() for n in ("key", "r", "s", "t")), strict=True))


def inline(streams: dict[str, pa.Table]) -> Counter[Any]:
    session = ed.Session()
    for name, table in streams.items():
        session.stream(name, table, timestamp="ts")
    return rows(session.query(JOIN).to_arrow())


def test_a_job_on_the_command_line(cluster: StandaloneCluster, tmp_path: Path) -> None:
    """The three-way join, with an executor killed in the middle; progress is shown all the time."""
    streams = three_way(events=EVENTS, keys=20_000)
    for name, table in streams.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    declared = "".join(f"CREATE STREAM {n} FROM '{n}.parquet' TIMESTAMP BY ts;\n" for n in streams)
    (tmp_path / "job.cql").write_text(f"{declared}{JOIN};\n")
    killed: list[bool] = []

    def kill(terminal: Terminal) -> None:
        if not killed and re.search(r"[1-9][\d,]* events", terminal.written):
            killed.append(cluster.kill_executor())

    command = eddyline("run", "job.cql", "--runtime", "spark", "--master", cluster.url)
    command += ["--out", "out.parquet", "--report", "report.json"]
    terminal = run_in_terminal(command, folder=tmp_path, environment=cluster.environment, act=kill)
    assert terminal.process.returncode == 0, terminal.written[-3000:]
    (line,) = terminal.screen
    assert line.endswith(" rows written to out.parquet")
    assert killed == [True]
    assert f"\rstarting Spark on {cluster.url} …" in terminal.written
    assert "\rSpark has started (2 tasks at a time)" in terminal.written
    found = rows(pq.read_table(tmp_path / "out.parquet"))
    assert found == inline(streams) and len(found) > 1000
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["events"] == EVENTS
    assert len(report["queries"]["query 1"]["shards"]) == 4  # two for each core


PROGRAM = """
import json, sys, warnings
from pyspark.sql import SparkSession
import eddyline as ed
import eddyline.spark as eds

master, folder, provider = sys.argv[1:]
spark = SparkSession.builder.master(master).config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
frames = {}
for name in "RST":
    schema = spark.read.parquet(f"{folder}/{name}").schema
    frames[name] = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(f"{folder}/{name}")

def ask():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        df = eds.window_join(frames, on="key", within="10 seconds", timestamp="ts")
    return df, [str(w.message) for w in caught]

_, advice = ask()
spark.conf.set("spark.sql.shuffle.partitions", "2")
joined, silence = ask()
print("ready", flush=True)
writer = joined.writeStream.format("parquet").option("path", f"{folder}/joined")
query = writer.option("checkpointLocation", f"{folder}/state").trigger(availableNow=True).start()
query.awaitTermination()

kept = eds.adaptive_filter(
    spark.read.parquet(f"{folder}/R"), "val > 0.5", ed.predicate(lambda key: key % 3 == 0, "key"),
    ed.predicate(lambda key: key % 5 == 0, "key"),
)
count = kept.count()
report = eds.report(kept)
print(json.dumps({"advice": advice, "silence": silence, "count": count, "asked": report["rows"],
                  "results": eds.report(query)["results"]}))
spark.stop()
"""


def test_dataframes(cluster: StandaloneCluster, tmp_path: Path) -> None:
    """A user's session: advice in one sentence, a streaming join with an executor killed, and an adaptive filter."""
    from tests.spark.conftest import PROVIDER

    streams = three_way(events=20_000, keys=500)
    for name, table in streams.items():
        (tmp_path / name).mkdir()
        for n in range(2):
            half = len(table) // 2
            part = table.slice(n * half, half if n == 0 else None)
            pq.write_table(part, tmp_path / name / f"{n}.parquet")
            # Spark reads files in the order of their times, of which it knows milliseconds.
            os.utime(tmp_path / name / f"{n}.parquet", (1_700_000_000 + n, 1_700_000_000 + n))
    command = [sys.executable, "-c", PROGRAM, cluster.url, str(tmp_path), PROVIDER]
    with subprocess.Popen(command, env=cluster.environment, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        bounded = threading.Timer(540, process.kill)
        bounded.start()
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            while not list((tmp_path / "state" / "commits").glob("0")) and process.poll() is None:
                time.sleep(0.05)
            assert cluster.kill_executor()
            told = json.loads(process.stdout.read())
        finally:
            bounded.cancel()
    assert told["advice"] == [cores.advice(200, 16)] and told["silence"] == []
    key, val = (streams["R"][n].to_pylist() for n in ("key", "val"))
    assert told["count"] == sum(v > 0.5 and k % 15 == 0 for k, v in zip(key, val, strict=True))
    assert told["asked"] == sum(v > 0.5 for v in val)
    joined = pq.read_table(tmp_path / "joined").to_pylist()
    session = ed.Session()
    for name, table in streams.items():
        session.stream(name, table, timestamp="ts")
    text = JOIN.replace("Istream(R.key AS key", "Istream(R.key AS key, R.ts AS ts")
    expected = session.query(text).to_arrow()
    closed = min(t["ts"].to_pylist()[-1] for t in streams.values())  # streaming DataFrames have no end
    complete = [r for r in expected.to_pylist() if r["_time"] < closed]
    assert Counter((r["key"], r["R_val"], r["S_val"], r["T_val"]) for r in joined) == Counter(
        (r["key"], r["r"], r["s"], r["t"]) for r in complete
    )
    assert told["results"] == len(joined) > 1000
