"""Workers are forked from a process that has everything loaded: what a micro-batch imports must be there before."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import eddyline as ed

pytest.importorskip("pyspark")

import eddyline.spark as eds
from eddyline.spark import daemon


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    """The modules of a process from which workers would be forked."""
    program = "from eddyline.spark import daemon; daemon.preload()"
    program += "; import json, sys; print(json.dumps([*sys.modules]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_what_is_listed_exists(loaded: set[str]) -> None:
    assert set(daemon.MODULES) <= loaded


def test_a_micro_batch_imports_nothing_else_of_ours(spark: Any, loaded: set[str], tmp_path: Path) -> None:
    """Workers are forked with what the daemon has loaded; what they have besides, a micro-batch imported. A user's
    function sees the worker that it runs in, and the last call what all micro-batches before have imported."""
    folder = str(tmp_path)

    def probe(a: int) -> bool:
        with open(f"{folder}/modules.{os.getpid()}", "w") as file:  # noqa: PTH123
            json.dump(sorted(sys.modules), file)
        return True

    rows = pa.table({"ts": list(range(60)), "a": [i % 7 for i in range(60)], "x": [i / 3 for i in range(60)]})
    pq.write_table(rows, tmp_path / "rows.parquet")
    pa.csv.write_csv(rows, tmp_path / "rows.csv")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows.to_pylist()))
    session = ed.Session(spark, rows_per_batch=120, base=tmp_path, shards=2)
    for name, source in {"P": "rows.parquet", "C": "rows.csv", "J": "rows.jsonl", "M": rows}.items():
        session.stream(name, source, timestamp="ts")
    session.function("probe", probe)
    stateful = session.query(
        "SELECT P.a, count(*) AS n, avg(C.x) AS m FROM P [RANGE 5], C [RANGE 5], M [PARTITION BY a ROWS 2]"
        " WHERE P.a = C.a AND P.a = M.a AND probe(P.a) AND P.a NOT IN (SELECT a FROM J [ROWS 1]) GROUP BY P.a"
    )
    assert stateful.to_arrow().num_rows > 60
    frame = spark.read.parquet(str(tmp_path / "rows.parquet"))
    text = "SELECT Istream(a) FROM S WHERE probe(a)"
    assert eds.query(text, {"S": frame}, timestamp="ts", functions={"probe": probe}).count() == 60

    workers = [set(json.loads(p.read_text())) for p in tmp_path.glob("modules.*")]
    imported = {m for m in set[str]().union(*workers) if m.partition(".")[0] in ("eddyline", "numba")}
    assert {"eddyline.operators.mjoin", "eddyline.spark.stateless_worker", "numba"} <= imported
    assert imported - loaded == set(), "list them in daemon.MODULES"


def test_all_that_plans_are_made_of_is_loaded(loaded: set[str]) -> None:
    """Plans import operators where they need them, and no one query needs all."""
    for room in ("adapting", "operators", "kernels", "models", "synopses"):
        package = importlib.import_module(f"eddyline.{room}")
        names = {f"eddyline.{room}.{m.name}" for m in pkgutil.iter_modules(package.__path__)}
        # What ``eddyline warm``, the process that compiles, ``eddyline fit`` and ``ed.sweep`` run.
        command = {f"eddyline.kernels.{m}" for m in ("warm", "compile_process", "fit", "fit_checked", "sweep")}
        assert names - loaded - command == set(), "list them in daemon.MODULES"


def test_all_sources_that_tasks_read_are_loaded(loaded: set[str]) -> None:
    """Which of them one worker has met depends on the queries that it served before."""
    package = importlib.import_module("eddyline.spark.sources")
    names = {f"eddyline.spark.sources.{m.name}" for m in pkgutil.iter_modules(package.__path__)}
    driver = {"eddyline.spark.sources.divide"}  # The driver divides a source into parts.
    assert names - loaded - driver == set(), "list them in daemon.MODULES"


def test_what_spark_unpickles_before_the_first_micro_batch_is_light() -> None:
    """It does so in a process that no daemon has prepared, and everything waits for it."""
    program = "import eddyline.spark.processor, json, sys; print(json.dumps([*sys.modules]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {"numba", "numpy", "pandas", "pyarrow", "sqlglot"} & set(json.loads(done.stdout)) == set()


@pytest.mark.parametrize("module", ["guard", "packed"])
def test_the_process_that_makes_a_data_source_loads_neither_numpy_nor_arrow(module: str) -> None:
    """Spark starts it for each query, before the first micro-batch."""
    program = "import sys, pyspark.daemon, pyspark.sql.worker.create_data_source; before = set(sys.modules)"
    program += f"; import eddyline.spark.sources.{module}; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    found = set(done.stdout.split())
    assert f"eddyline.spark.sources.{module}" in found
    assert found.isdisjoint({"numpy", "pyarrow", "pandas", "numba"})
