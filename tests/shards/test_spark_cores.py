"""How many cores a cluster gives, when its executors come one after another; without Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from eddyline.spark.cores import ASSUMED_CORES, SECONDS_TO_FIRST_EXECUTOR, SECONDS_TO_SETTLE, Cluster, cluster_cores


@dataclass
class Fake(Cluster):
    """Executors with two cores that register at these times, in seconds."""

    registered: Sequence[float]
    settings: Mapping[str, str] = field(default_factory=dict)
    now: float = 0.0

    def executors(self) -> int:
        return sum(t <= self.now for t in self.registered)

    def cores(self) -> int:
        return 2 * self.executors()

    def setting(self, key: str) -> str | None:
        return self.settings.get(key)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(
    ("registered", "settings", "cores", "at_most"),
    [
        ([1.0], {}, 2, 1.0 + SECONDS_TO_SETTLE),
        ([1.0, 2.5, 4.0], {}, 6, 4.0 + SECONDS_TO_SETTLE),
        ([1.0, 9.0], {}, 2, 1.0 + SECONDS_TO_SETTLE),  # one that comes much later is not waited for
        ([], {}, ASSUMED_CORES, SECONDS_TO_FIRST_EXECUTOR),
        ([], {"spark.cores.max": "6"}, 6, SECONDS_TO_FIRST_EXECUTOR),
        ([1.0, 1.2, 1.4], {"spark.cores.max": "6"}, 6, 1.4),  # nothing more can come
        ([1.0, 1.2], {"spark.executor.instances": "2", "spark.executor.cores": "2"}, 4, 1.2),
        ([1.0], {"spark.executor.instances": "3", "spark.executor.cores": "2"}, 2, 1.0 + SECONDS_TO_SETTLE),
        ([], {"spark.dynamicAllocation.enabled": "true"}, ASSUMED_CORES, 0.0),
        (
            [],
            {
                "spark.dynamicAllocation.enabled": "true",
                "spark.dynamicAllocation.maxExecutors": "5",
                "spark.executor.cores": "4",
            },
            20,
            0.0,
        ),
    ],
)
def test_waiting_for_executors(
    registered: Sequence[float], settings: Mapping[str, str], cores: int, at_most: float
) -> None:
    cluster = Fake(registered, settings)
    assert cluster_cores(cluster, lambda: cluster.now, cluster.sleep) == cores
    assert cluster.now <= at_most + 0.2
