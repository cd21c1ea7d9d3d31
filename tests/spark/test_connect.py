"""Spark Connect: a server of its own, in a process of its own, that listens to this machine only and ends with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline as ed
from eddyline.spark import class_archive, home

pytest.importorskip("pyspark")
pytest.importorskip("grpc")

PROGRAM = """
import json, os, sys
from pathlib import Path
import eddyline as ed
import eddyline.spark as eds
from eddyline.cli import main
from eddyline.core.errors import EddylineError
from eddyline.spark.local import start_settings
from eddyline.spark.requirements import PROVIDER_KEY, ROCKSDB
from pyspark.sql import Observation, SparkSession

def without_state_store(settings):
    return {k: v for k, v in settings.items() if k != PROVIDER_KEY}

folder = Path(sys.argv[1])
mine = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
mine["spark.connect.grpc.binding.address"] = "127.0.0.1"
builder = SparkSession.builder.remote("local[2]")
for key, value in {**without_state_store(start_settings("local[2]")), **mine}.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
found = {"session": type(spark).__module__}

def refused(call):
    try:
        call()
    except EddylineError as error:
        return str(error)

def rows(df):
    return sorted(map(list, df.collect()))

def streamed(df, name):
    query = df.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    query.awaitTermination()
    return rows(spark.table(name)), query

batch = spark.read.parquet(str(folder / "in"))
stream = spark.readStream.schema(batch.schema).parquet(str(folder / "in"))
LOUD = "SELECT Istream(k, x) FROM R WHERE x > 40 AND odd(k)"
COUNT = "SELECT k, count(*) AS n FROM R [RANGE 10] GROUP BY k"
odd = {"odd": lambda k: k % 2 == 1}

found["loud, batch"] = rows(eds.query(LOUD, {"R": batch}, timestamp="ts", functions=odd))
found["loud, stream"], query = streamed(
    eds.query(LOUD, {"R": stream}, timestamp="ts", functions=odd, observe="counted"), "loud"
)
found["loud, report"] = eds.report(query, "counted")
even = ed.predicate(lambda k: k % 2 == 0, "k", name="even")
late = ed.predicate(lambda x: x > 30, "x", name="late")
filtered = eds.adaptive_filter(batch, "x < 40", even, late)
found["filter, too early"] = refused(lambda: eds.report(filtered))
found["filter, batch"] = rows(filtered.select("k", "x"))
found["filter, batch report"] = eds.report(filtered)
found["filter, explained"] = eds.explain(filtered)
found["filter, stream"], query = streamed(
    eds.adaptive_filter(stream, "x < 40", even, late).select("k", "x"), "filtered"
)
found["filter, stream report"] = eds.report(query)

def broken(k):
    return 1 / k > 0

try:
    eds.adaptive_filter(batch, ed.predicate(broken, "k")).collect()
except Exception as error:
    found["sentence"] = eds.sentence(error)
found["no state store"] = refused(lambda: eds.query(COUNT, {"R": batch}, timestamp="ts"))
session = ed.Session(spark, shards=4, base=folder)
session.stream("R", "in", timestamp="ts")
session.stream("D", stream, timestamp="ts")
fetched = session.query(COUNT)
found["fetched"] = sorted(list(r.values()) for r in fetched.to_arrow().to_pylist())
found["fetched, report"] = fetched.report()
found["not fetched"] = refused(session.query(COUNT.replace("FROM R", "FROM D")).to_arrow)
found["unchanged"] = spark.conf.get(PROVIDER_KEY)

spark.conf.set(PROVIDER_KEY, ROCKSDB)
seen = Observation("seen")
found["count, batch"] = rows(eds.query(COUNT, {"R": batch}, timestamp="ts", shards=4, observe=seen))
found["count, batch report"] = eds.report(seen, "seen")
found["count, stream"], query = streamed(eds.query(COUNT, {"R": stream}, timestamp="ts", shards=4), "counts")
found["count, stream report"] = eds.report(query)

server = "sc://" + spark.client._builder.endpoint
common = ["--runtime", "spark", "--master", server, "--quiet"]
job = str(folder / "job.cql")
found["status"] = [
    main(["run", job, *common, "--out", str(folder / "out.csv")]),
    main(["run", job, *common, "--checkpoint", str(folder / "checkpoint")]),
    main(["run", str(folder / "endless.cql"), *common]),
]
(folder / "found.json").write_text(json.dumps(found, default=str))
spark.stop()
"""


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return pa.table({"ts": list(range(100)), "k": [i % 3 for i in range(100)], "x": [i / 2 for i in range(100)]})


@pytest.fixture(scope="module")
def folder(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the program saw, beside its files."""
    folder = tmp_path_factory.mktemp("connect")
    (folder / "in").mkdir()
    pq.write_table(table, folder / "in" / "rows.parquet")
    declared = "CREATE STREAM R FROM 'in' TIMESTAMP BY ts;\n"
    (folder / "job.cql").write_text(declared + "SELECT k, count(*) AS n FROM R [RANGE 10] GROUP BY k;\n")
    rate = "CREATE STREAM T FROM 'spark:rate' TIMESTAMP BY timestamp;\n"
    (folder / "endless.cql").write_text(rate + "SELECT Istream(value) FROM T;\n")
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "SPARK"))}
    # With SPARK_TESTING Spark takes any free port for the server instead of the well-known one.
    mine = {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(home.spark_home(class_archive.folder())),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_TESTING": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=folder,
        env=plain | mine,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (folder / "stderr").write_text(done.stderr)
    return folder


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Any]:
    seen: dict[str, Any] = json.loads((folder / "found.json").read_text())
    assert seen["session"] == "pyspark.sql.connect.session"
    return seen


def inline(table: pa.Table, text: str) -> list[list[Any]]:
    session = ed.Session()
    session.stream("R", table, timestamp="ts")
    session.function("odd", lambda k: k % 2 == 1)
    return sorted(list(r.values()) for r in session.query(text).to_arrow().to_pylist())


COUNT = "SELECT k, count(*) AS n FROM R [RANGE 10] GROUP BY k"


def test_a_query_without_state(found: dict[str, Any], table: pa.Table) -> None:
    expected = inline(table, "SELECT Istream(k, x) FROM R WHERE x > 40 AND odd(k)")
    assert found["loud, batch"] == found["loud, stream"] == expected != []
    report = found["loud, report"]
    assert (report["events"], report["results"], report["invalid"]) == (100, len(expected), 0)


def test_a_filter_tells_what_it_did(found: dict[str, Any]) -> None:
    expected = [[k, x] for k, x in ((i % 3, i / 2) for i in range(100)) if x < 40 and k % 2 == 0 and x > 30]
    assert "take an action on it" in found["filter, too early"]
    assert found["filter, batch"] == found["filter, stream"] == sorted(expected) != []
    for report in (found["filter, batch report"], found["filter, stream report"]):
        assert (report["rows"], report["kept"]) == (80, len(expected))
        ((select,),) = (w["selects"] for w in report["workers"])
        assert {f["filter"].partition("_")[0] for f in select["filters"]} == {"even", "late"}
        assert all(f["asked"] > 0 for f in select["filters"])
    assert "by now" in found["filter, explained"]
    assert "division by zero" in found["sentence"]


def test_a_query_with_state(found: dict[str, Any], table: pa.Table) -> None:
    expected = inline(table, COUNT)
    assert found["count, batch"] == found["fetched"] == expected
    assert found["count, stream"] == [r for r in expected if r[2] < 99]  # a stream goes on: its last instant is open
    for report in (found["count, batch report"], found["fetched, report"]):
        assert (report["events"], report["results"], len(report["shards"])) == (100, len(expected), 4)
    report = found["count, stream report"]
    assert (report["events"], report["results"]) == (100, len(found["count, stream"]))


def test_what_cannot_work_is_said_in_one_sentence(found: dict[str, Any], folder: Path) -> None:
    assert "needs the RocksDB state store; before it, run spark.conf.set(" in found["no state store"]
    assert found["unchanged"].endswith("HDFSBackedStateStoreProvider")
    assert found["not fetched"] == (
        "on Spark Connect the results of streaming DataFrames stay on the server: write them with"
        " query.dataframe().writeStream, or pass batch DataFrames or paths to fetch them here."
    )
    said = (folder / "stderr").read_text()
    assert "error: --checkpoint does not work with a Spark Connect server (sc://…): leave it out" in said
    assert "error: this job reads sources without an end, and from a Spark Connect server (sc://…) results come" in said
    assert "Traceback" not in said


def test_jobs(found: dict[str, Any], folder: Path, table: pa.Table) -> None:
    assert found["status"] == [0, 2, 2]
    lines = (folder / "out.csv").read_text().splitlines()
    assert lines[0] == '"k","n","_time","_sign"'
    assert sorted([int(v) for v in line.split(",")] for line in lines[1:]) == inline(table, COUNT)
    assert not (folder / "checkpoint").exists()
