"""The number of tasks that a Spark runs at a time, from which the numbers of state partitions and shards follow.

Each micro-batch starts a task for every partition of state, whether or not there is something to do in it. Spark's
default is 200 partitions: on two cores a micro-batch of a join then takes three times as long. The number is fixed for
the life of a checkpoint, so it has to be right when a query starts; but executors of a cluster come one by one, after
the session is there. So the command line waits for them, for a moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

PARTITIONS: Final = "spark.sql.shuffle.partitions"
SECONDS_TO_FIRST_EXECUTOR: Final = 30.0  # to wait for it, at most: a cluster may have to start a machine
SECONDS_TO_SETTLE: Final = 2.0  # without another executor, after which all are assumed to have come
SECONDS_BETWEEN_LOOKS: Final = 0.1
ASSUMED_CORES: Final = 8  # of a cluster that does not say how many it will have


def size_partitions(context: Any, session: Any, local: bool) -> None:
    """Set the partitions of state by the cores, unless the user has set them."""
    if context.getConf().contains(PARTITIONS):
        return
    cores = int(context.defaultParallelism) if local else cluster_cores(Cluster(context))
    session.conf.set(PARTITIONS, str(cores))


class Cluster:
    """The executors of a SparkContext: their number, their cores, and settings."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def executors(self) -> int:
        return int(self._context._jsc.sc().getExecutorMemoryStatus().size()) - 1  # one of them is the driver

    def cores(self) -> int:
        """Of the executors that are there."""
        try:
            return int(self._context._jsc.sc().schedulerBackend().totalCoreCount().get())
        except Exception:  # not a public name of Spark's; this one is at least 2
            return int(self._context.defaultParallelism)

    def setting(self, key: str) -> str | None:
        found = self._context.getConf().get(key)
        return None if found is None else str(found)


def cluster_cores(
    cluster: Cluster,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """The cores that a cluster gives: as many as were asked for, or those of the executors that come in a moment."""
    if cluster.setting("spark.dynamicAllocation.enabled") == "true":  # executors come when there is work for them
        return asked_for(cluster, "spark.dynamicAllocation.maxExecutors") or ASSUMED_CORES
    asked = asked_for(cluster, "spark.executor.instances")
    begin = last = clock()
    there = 0
    while True:
        now, found = clock(), cluster.executors()
        if found != there:
            there, last = found, now
        if there and asked is not None and cluster.cores() >= asked:
            return cluster.cores()
        if (there and now - last >= SECONDS_TO_SETTLE) or now - begin >= SECONDS_TO_FIRST_EXECUTOR:
            return cluster.cores() if there else asked or ASSUMED_CORES
        sleep(SECONDS_BETWEEN_LOOKS)


def asked_for(cluster: Cluster, executors: str) -> int | None:
    """The cores that the settings ask for; None: as many as there are."""
    most, count, each = (cluster.setting(k) for k in ("spark.cores.max", executors, "spark.executor.cores"))
    if most is not None:
        return int(most)
    return None if count is None else int(count) * int(each or 1)


def advice(partitions: int, shards: int) -> str | None:
    """The advice where a session has far more partitions of state than a query can use; None: nothing.

    >>> advice(16, 16)
    >>> print(advice(200, 16))
    spark.sql.shuffle.partitions is 200 and the query has 16 shards, so each micro-batch starts 184 tasks that have
    nothing to do: set it to the number of cores before the query starts (its checkpoint keeps the number).
    """
    if partitions <= 2 * max(shards, ASSUMED_CORES):
        return None
    return (
        f"{PARTITIONS} is {partitions} and the query has {shards} {'shard' if shards == 1 else 'shards'}, so each"
        f" micro-batch starts {partitions - shards} tasks that have nothing to do: set it to the number of cores before"
        " the query starts (its checkpoint keeps the number)."
    )
