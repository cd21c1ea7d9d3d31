"""The command line's own Spark: a session that starts fast, prints nothing, and is set for this engine's queries.

Only the command line makes a session; a library never does. Everything set here can be overruled: by ``settings``, and
by ``PYSPARK_SUBMIT_ARGS="--conf key=value pyspark-shell"`` in the environment, which Spark reads last.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from eddyline.core.errors import EddylineError, JobError
from eddyline.spark import class_archive, cores, home, jvm, requirements
from eddyline.spark.requirements import PROVIDER_KEY, ROCKSDB

DEFAULT_MASTER: Final = "local[*]"
LOCAL: Final = re.compile(r"local(\[(\*|\d+)(,\s*\d+)?\])?$")
ANY_MASTER: Final = re.compile(LOCAL.pattern + r"|local-cluster\[.+\]$|yarn$|[\w+-]+://.+")
SECONDS_TO_REACH_MASTER: Final = 5  # a master that does not answer by then is absent; Spark waits a minute
LOG: Final = Path(__file__).with_name("log4j2.properties")

CHECKPOINTING: Final = "org.apache.spark.sql.execution.streaming.checkpointing"

# For every master: what queries with state need, and what keeps them fast.
QUERIES: Final = {
    PROVIDER_KEY: ROCKSDB,
    # State is committed as the change, not as files of the whole store.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Otherwise the store looks for each key before it writes or removes it, only to count them: state is a few large
    # values, and the one that is removed would be read first.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    # With a limit in bytes Spark adds up the size of the batch after each row: half of what shipping rows costs.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
}
# For a driver that is ours, wherever its executors are.
DRIVER: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.structuredLogging.enabled": "false",
}
CHECKSUMS: Final = "spark.eddyline.local.checksums"
# For a Spark inside this machine: nothing listens to the network, and workers are forked hot.
MACHINE: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.python.daemon.module": "eddyline.spark.daemon",
    # Readers of sources run without this flag, and workers with other flags have a daemon of their own: one is enough.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    # Spark's other way to write a file of the checkpoint starts ten processes (chmod, readlink) for it, 66 for each
    # micro-batch of a join of three streams. On a local disk renaming is as safe either way.
    "spark.sql.streaming.checkpointFileManagerClass": f"{CHECKPOINTING}.FileSystemBasedCheckpointFileManager",
    # Beside each file on a local disk Hadoop writes another with its checksum, and starts a process for it too: 4 to
    # 7 ms for each of the six files of a micro-batch. A process that is killed between the two leaves them out of step.
    CHECKSUMS: "false",
    # Spark sorts the packed rows of a shard, a few large ones, in pages that it sizes by the heap: 64 MB of zeros for
    # each task, which fill the old generation. A row that needs a larger page gets one.
    "spark.buffer.pageSize": "4m",
    # What is shuffled stays on this disk, packed: to compress it and add it up is a third of what a shuffle takes.
    "spark.shuffle.compress": "false",
    "spark.shuffle.checksum.enabled": "false",
}
# Few threads and short-lived rows: the collector that works alongside them (G1, Java's default) costs a micro-batch
# about a tenth of its processor time for pauses too short to notice.
COLLECTOR: Final = "-XX:+UseParallelGC"
# Rows pass through Java and leave nothing behind, so a large young generation gains no time, and Java would let it grow
# to a third of the heap. Where queries keep state in Java itself (Spark's own joins in its default store) a larger one
# is faster: "-XX:MaxNewSize=2g" in spark.driver.extraJavaOptions, which come later, gives it back.
YOUNG_MB: Final = 128  # for each task at a time
# Java would collect everything each time that classes have filled a little more, from 21 MB on.
CLASSES: Final = "-XX:MetaspaceSize=128m"
# The optimizing compiler waits until code has run twenty times as often as by default: at the start it would take more
# than half of all processors for code that never gets hot, since events are processed in Python.
PATIENT_COMPILER: Final = (
    "-XX:Tier4InvocationThreshold=100000 -XX:Tier4MinInvocationThreshold=12000 "
    "-XX:Tier4CompileThreshold=300000 -XX:Tier4BackEdgeThreshold=800000"
)
# Netty, which holds Arrow's memory, would start Java's flight recorder for events that are not recorded.
NO_RECORDER: Final = "-Dio.netty.jfr.enabled=false"
# Hadoop starts a process to set the permissions of each file. This way of starting one spares it a helper in between.
FORKING: Final = {"linux": "-Djdk.lang.Process.launchMechanism=VFORK"}
# Spark's Python imports pandas when it first calls the JVM; the others are needed to plan queries.
IMPORTS: Final = ("pyspark.sql", "pandas")
PLANNING: Final = ("eddyline.spark.session", "eddyline.spark.spark_query", "pyspark.sql.streaming")


def local_session(
    master: str | None = None,
    *,
    name: str = "eddyline",
    settings: Mapping[str, str] | None = None,
    warm: bool = False,
) -> Any:
    """A new SparkSession: in this machine, on a cluster (``spark://``, ``yarn``, ``k8s://``) or a server (``sc://``).

    ``warm``: Python workers are started at once, while the caller still makes its plan.

    Raises ``EddylineError`` in one sentence when there is no Spark to be had, ``JobError`` when ``master`` is none.
    """
    master = master or DEFAULT_MASTER
    check_master(master)
    if master.startswith("sc://"):
        return _connect(master, name, settings or {})
    requirements.check()
    _environment(master)
    chosen = {"spark.master": master, "spark.app.name": name, **start_settings(master, settings), **(settings or {})}
    _aside(_import, (*IMPORTS, *(PLANNING if warm else ())))
    start = jvm.launch(chosen, master)
    with jvm.ended_if_interrupted():
        return _session(start, master, warm)


def _session(start: jvm.Start, master: str, warm: bool) -> Any:
    """The session of a JVM that is up."""
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession

        # The JVM has all that was chosen, and what the environment overruled; to set it again would overrule that.
        with _interrupts_kept():
            context: Any = SparkContext.getOrCreate(SparkConf())
        if warm and LOCAL.match(master):
            _aside(_start_workers, context)
        builder: Any = SparkSession.builder
        session = builder.getOrCreate()
    except Exception as error:
        said = str(getattr(error, "java_exception", None) or error).splitlines() + start.failed()
        jvm.shut_down()
        raise jvm.failure(master, said) from None
    start.succeeded()
    # Java counts the cores of this machine, within the limits of its container.
    cores.size_partitions(context, session, local=LOCAL.match(master) is not None)
    if context.getConf().get(CHECKSUMS) == "false":
        local = context._jvm.org.apache.hadoop.fs.FileSystem.getLocal(context._jsc.hadoopConfiguration())
        local.setWriteChecksum(False)
    if LOCAL.match(master):
        _forget_origins(context)
        _skip_empty_search(context)
    return session


@contextlib.contextmanager
def _interrupts_kept() -> Iterator[None]:
    """Keep the handler of Ctrl-C. Spark's own handler calls the JVM, perhaps in the middle of a call that
    is on its way to it already, and neither of the two gets its answer."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and handler is not None:
            signal.signal(signal.SIGINT, handler)


def _forget_origins(context: Any) -> None:
    """Hadoop notes of each of its thousand settings which file it is from. Spark sends all settings to the tasks, for
    each source and each state store of each micro-batch, and Hadoop compresses these notes one by one: most of the 10
    ms that it takes. The notes are never read."""
    with contextlib.suppress(Exception):  # not a public name of Hadoop's
        settings = context._jsc.hadoopConfiguration()
        noted = settings.getClass().getDeclaredField("updatingResource")
        noted.setAccessible(True)
        # Not clear(): of a Java map that Python holds that is a call for each entry, a second in all.
        noted.set(settings, context._jvm.java.util.concurrent.ConcurrentHashMap())


def _skip_empty_search(context: Any) -> None:
    """Before it uses any data source written in Python, Spark starts two processes of Python to look for modules that
    bring others: half a second, and memory that they keep. It looks for names that begin with ``pyspark_``; where there
    are none, this sets what it would find."""
    if any(m.name.startswith("pyspark_") for m in pkgutil.iter_modules()):
        return
    with contextlib.suppress(Exception):  # not a public name of Spark's
        package = context._jvm.org.apache.spark.sql.execution.datasources
        manager = getattr(getattr(package, "DataSourceManager$"), "MODULE$")
        nothing = context._jvm.scala.Predef.Map().empty()
        getattr(manager, "dataSourceBuilders_$eq")(context._jvm.scala.Some(nothing))


def _aside(work: Callable[[Any], None], with_what: Any) -> None:
    threading.Thread(target=work, args=(with_what,), name=work.__name__, daemon=True).start()


def _import(names: Iterable[str]) -> None:
    """What is imported sooner or later, while the JVM starts and this process would wait."""
    for name in names:
        with contextlib.suppress(Exception):  # the one that needs it reports it
            importlib.import_module(name)


def _start_workers(context: Any) -> None:
    """A job that does nothing, in Python: the parent of all workers takes two seconds to import what they need."""
    with contextlib.suppress(Exception):  # the session was stopped meanwhile; a worker reports faults of Python
        tasks = context.defaultParallelism
        context.parallelize(range(tasks), tasks).map(abs).collect()


def check_master(master: str) -> None:
    """Refuse what is no master, and a standalone master that cannot be reached, before a JVM is started for it.

    >>> check_master("local[2]")
    >>> check_master("lokal")
    Traceback (most recent call last):
    eddyline.core.errors.JobError: 'lokal' is no Spark master; write local[4], spark://host:7077, yarn, k8s://… or sc://….
    """
    if not ANY_MASTER.match(master):
        raise JobError(f"{master!r} is no Spark master; write local[4], spark://host:7077, yarn, k8s://… or sc://….")
    if master.startswith("spark://"):
        _reach(master)


def _reach(master: str) -> None:
    """At least one of the masters listens."""
    problem = "it names no host"
    for place in master.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        if not host or not port.isdigit():
            raise JobError(f"{master!r} is no Spark master; write spark://host:7077.")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS_TO_REACH_MASTER).close()
            return
        except OSError as error:
            problem = error.strerror or str(error)
    raise EddylineError(
        f"no Spark master answers at {master} ({problem}); check --master, or run without Spark: --runtime inline."
    )


def start_settings(master: str, settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """What is set before Spark starts, for a master, and what the caller sets beside it.

    >>> start_settings("yarn").get("spark.driver.host")  # it has an address of its own
    """
    # The default options, not the extra ones: those are the user's, and Spark puts them behind.
    options = [f"-Dlog4j2.configurationFile={LOG.as_uri()}"]
    machine = {}
    if LOCAL.match(master):
        machine = MACHINE
        collector = "" if _chosen_collector(settings or {}) else COLLECTOR
        options += [
            collector,
            f"-XX:MaxNewSize={_young(master, settings or {})}m",
            CLASSES,
            PATIENT_COMPILER,
            NO_RECORDER,
            FORKING.get(sys.platform, ""),
            class_archive.options(requirements.find_java(), home.installed_home()),
        ]
    return {**QUERIES, **DRIVER, **machine, "spark.driver.defaultJavaOptions": " ".join(o for o in options if o)}


def _young(master: str, settings: Mapping[str, str]) -> int:
    """MB of the young generation at most: by the tasks that run at a time, and a third of the heap, as Java has it.

    >>> _young("local[2]", {"spark.driver.memory": "6g"}), _young("local[16]", {"spark.driver.memory": "6g"})
    (256, 2048)
    >>> _young("local[16]", {}), _young("local", {"spark.driver.memory": "600"})
    (341, 200)
    """
    said = LOCAL.match(master)
    count = said[2] if said else None
    tasks = (os.cpu_count() or 1) if count == "*" else int(count or 1)
    heap = re.match(r"\s*(\d+)\s*([kmgt]?)", settings.get("spark.driver.memory", "1g").lower())
    megabytes = int(heap[1]) * {"k": 1 / 1024, "": 1, "m": 1, "g": 1024, "t": 1 << 20}[heap[2]] if heap else 1024
    return min(YOUNG_MB * max(tasks, 2), int(megabytes / 3))


def _chosen_collector(settings: Mapping[str, str]) -> bool:
    """Whether the user has chosen a garbage collector: Java refuses to start with two."""
    names = ("PYSPARK_SUBMIT_ARGS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
    said = [*settings.values(), *(os.environ.get(n, "") for n in names)]
    conf = os.environ.get("SPARK_CONF_DIR") or str(Path(os.environ.get("SPARK_HOME", "")) / "conf")
    with contextlib.suppress(OSError, UnicodeDecodeError):
        said.append((Path(conf) / "spark-defaults.conf").read_text())
    return any(re.search(r"-XX:\+Use\w+GC\b", s) for s in said)


def _environment(master: str) -> None:
    """Spark takes ``python3`` from the PATH unless it is configured, and Java asks the network for its own name."""
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        os.environ.setdefault(name, sys.executable)
    if LOCAL.match(master):
        os.environ.setdefault("SPARK_HOME", str(home.spark_home(class_archive.folder())))
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _connect(master: str, name: str, settings: Mapping[str, str]) -> Any:
    requirements.check(connect=True)
    try:
        from pyspark.sql import SparkSession

        builder: Any = SparkSession.builder
        session = builder.remote(master).appName(name).getOrCreate()
        for key, value in {**QUERIES, **settings}.items():
            session.conf.set(key, value)
    except Exception as error:
        raise jvm.failure(master, str(error).splitlines()) from None
    return session
