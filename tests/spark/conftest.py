"""One Spark session for all tests: starting one costs seconds."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from eddyline.spark.local import MACHINE


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2]")
        .appName("eddyline tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.streaming.stateStore.providerClass", PROVIDER)
        .config(map=CHEAPER)
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


# What a session of our own has, too (``eddyline.spark.local``): workers are forked with our modules loaded, and a file
# of a checkpoint is written without starting processes. And Java compiles little, because nothing gets hot here.
# Sessions with Spark's own settings are tested where a test starts one (test_cluster, test_terminal).
CHEAPER = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    **{
        key: MACHINE[key]
        for key in (
            "spark.python.daemon.module",
            "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled",
            "spark.sql.streaming.checkpointFileManagerClass",
        )
    },
}
PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
