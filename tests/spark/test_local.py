"""The command line's own Spark, in a process of its own: quiet, set as promised, hot workers, a clean end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from eddyline.core.errors import EddylineError, JobError
from eddyline.spark import jvm, local
from eddyline.spark.requirements import PROVIDER_KEY, ROCKSDB

SOURCES = """
package = spark.sparkContext._jvm.org.apache.spark.sql.execution.datasources
sources = getattr(getattr(package, "DataSourceManager$"), "MODULE$").dataSourceBuilders().toString()
"""
PROGRAM = """
import json, sys
import pandas as pd
from pyspark.sql.streaming import StatefulProcessor
from eddyline.spark.local import local_session

folder = sys.argv[1]
spark = local_session("local[2]", settings={"spark.driver.memory": "1g"})

class Count(StatefulProcessor):
    def init(self, handle):
        self.kept = handle.getValueState("kept", "n long")
    def handleInputRows(self, key, rows, timers):
        n = sum(map(len, rows))
        self.kept.update((n,))
        yield pd.DataFrame({"n": [n]})
    def close(self):
        pass

def look(batches):
    import gc, sys
    hot = "eddyline.spark.shard_worker" in sys.modules and gc.get_freeze_count() > 10_000
    print("from a worker", file=sys.stderr, flush=True)
    import pyarrow as pa
    yield pa.RecordBatch.from_pydict({"hot": [hot], "python": [sys.executable]})

def fail(batches):
    raise ValueError("a mistake of the user")

looked = spark.range(1, numPartitions=1).mapInArrow(look, "hot boolean, python string").collect()[0]
spark.range(10).selectExpr("id % 2 as k", "id").write.parquet(folder + "/in")
counted = (
    spark.readStream.schema("k long, id long").parquet(folder + "/in").groupBy("k")
    .transformWithStateInPandas(Count(), "n long", "append", "none")
    .writeStream.format("parquet").option("path", folder + "/out").option("checkpointLocation", folder + "/checkpoint")
    .trigger(availableNow=True).start()
)
counted.awaitTermination()
rows = [r.n for r in spark.read.parquet(folder + "/out").collect()]
try:
    spark.range(1).mapInArrow(fail, "id long").collect()
    failure = None
except Exception as error:
    failure = str(error)
keys = ["spark.master", "spark.sql.shuffle.partitions", "spark.driver.host", "%PROVIDER%"]
%SOURCES%
print(json.dumps({
    "sources": sources,
    "hot": looked.hot, "python": looked.python, "rows": rows, "mistake": "a mistake of the user" in failure,
    "settings": [spark.conf.get(k) for k in keys],
}))
spark.stop()
"""


def test_a_session_of_the_command_line(tmp_path: Path) -> None:
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "SPARK"))}
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            PROGRAM.replace("%PROVIDER%", PROVIDER_KEY).replace("%SOURCES%", SOURCES),
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        env=plain,
        check=False,
    )
    assert done.stderr == "from a worker\n"  # what users' functions say comes through, and nothing else
    assert done.returncode == 0
    assert json.loads(done.stdout) == {
        "hot": True,
        "python": sys.executable,
        "rows": [5, 5],
        "mistake": True,
        "sources": "Some(Map())",  # nobody searches for data sources where there are none
        "settings": ["local[2]", "2", "127.0.0.1", ROCKSDB],
    }
    assert sorted(p.name for p in tmp_path.iterdir()) == ["checkpoint", "in", "out"]
    assert list(tmp_path.rglob("*.crc")) == []


def test_the_environment_has_the_last_word(tmp_path: Path) -> None:
    key, folder = "spark.sql.execution.arrow.maxRecordsPerBatch", tmp_path / "out"
    program = f"""
from eddyline.spark.local import local_session
settings = {{"spark.driver.memory": "1g", "spark.sql.ansi.enabled": "false"}}
spark = local_session("local[1]", name="mine", settings=settings)
spark.range(1).write.parquet({str(folder)!r})
{SOURCES}
print(spark.conf.get({key!r}), spark.conf.get("spark.sql.ansi.enabled"), spark.sparkContext.appName, sources)
"""
    (tmp_path / "pyspark_other.py").write_text("")  # might bring a data source
    given = f"--conf {key}=77 --conf {local.CHECKSUMS}=true pyspark-shell"
    environment = {**os.environ, "PYSPARK_SUBMIT_ARGS": given, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, env=environment, check=False
    )
    assert done.stdout == "77 false mine None\n", done.stderr
    assert list(folder.glob("*.crc")) != []


def test_forking_happens_with_one_thread() -> None:
    program = "from eddyline.spark import daemon; daemon.preload(); print(daemon.threads())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


@pytest.mark.parametrize("master", ["lokal", "local[x]", "local[2", "mesos", "spark://host", "spark://:7077"])
def test_no_master(master: str) -> None:
    with pytest.raises(JobError, match="is no Spark master; write"):
        local.local_session(master)


@pytest.mark.parametrize(
    "master", ["spark://127.0.0.1:1", "spark://nowhere.invalid:7077", "spark://127.0.0.1:1,[::1]:1"]
)
def test_a_master_that_is_not_there_is_told_at_once(master: str) -> None:
    started = time.monotonic()
    with pytest.raises(
        EddylineError, match=r"no Spark master answers at spark://.* run without Spark: --runtime inline"
    ):
        local.local_session(master)
    assert time.monotonic() - started < 3 * local.SECONDS_TO_REACH_MASTER


def test_a_jvm_that_does_not_start_is_one_sentence(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(EddylineError) as error:
        local.local_session("local[1]", settings={"spark.driver.memory": "1k"})
    assert "Spark did not start on 'local[1]': Too small maximum heap; check --master" in str(error.value)
    assert capfd.readouterr() == ("", "")


def test_words_are_held_back_until_the_start_is_over(capfd: pytest.CaptureFixture[str]) -> None:
    words = jvm.Words(2)
    said = os.fdopen(os.dup(words.write), "w")
    words.listen()
    said.write("WARNING: Using incubator modules: jdk.incubator.vector\nan error at the start\n")
    said.flush()
    time.sleep(0.1)
    assert capfd.readouterr().err == ""
    words.started()
    said.write("Starting Streaming TransformWithStateInPandas Python worker.\n\nWARNING: of the user\n\nlast\n")
    said.close()
    for thread in threading.enumerate():
        if thread.name == "spark-words-2":
            thread.join(5)
    assert capfd.readouterr().err == "an error at the start\nWARNING: of the user\n\nlast\n"
