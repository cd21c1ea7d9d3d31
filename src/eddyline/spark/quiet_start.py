"""A JVM for a session of the user's own whose log stays off the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, Final

from eddyline.spark import jvm
from eddyline.spark.local import LOG

JAVA_OPTIONS: Final = "spark.driver.defaultJavaOptions"


def quiet(settings: Mapping[str, str] | None = None) -> None:
    """Start Spark's JVM so that its greetings, log and progress bars stay off the terminal.

    Call it before ``SparkSession.builder…getOrCreate()``, which then makes the session in this JVM, with whatever it
    configures. What must be known when a JVM starts (its memory, its Java options, jars) goes into ``settings``. The
    environment's ``EDDYLINE_SPARK_LOG=info`` (or ``warn``, ``error``, ``debug``) shows the log. Where a JVM runs
    already (another session, ``spark-submit``, a notebook of a cluster) or the session is of Spark Connect, this does
    nothing: that JVM has its own log.
    """
    from pyspark import SparkContext

    context: Any = SparkContext
    if context._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ or "SPARK_REMOTE" in os.environ:
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    chosen = {"spark.ui.showConsoleProgress": str(jvm.log_is_shown()).lower(), **(settings or {})}
    chosen[JAVA_OPTIONS] = f"-Dlog4j2.configurationFile={LOG.as_uri()} {chosen.get(JAVA_OPTIONS, '')}".strip()
    jvm.launch(chosen, "this machine").succeeded()
