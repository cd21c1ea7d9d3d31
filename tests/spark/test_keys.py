"""Shards are dealt to Spark's partitions one by one, whatever their number."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from eddyline.spark.shard_keys import group_of, key_of, murmur3, shard_of


@pytest.mark.parametrize("group", [0, 1, 7, (1 << 15) - 1])
def test_the_lower_half_names_the_shard_and_the_upper_half_sets_the_hash(group: int) -> None:
    shards = (0, 1, 2, 63, 4095)
    keys = [key_of(group, s) for s in shards]
    assert [(group_of(k), shard_of(k)) for k in keys] == [(group, s) for s in shards]
    assert [murmur3(k) for k in keys] == [group + s for s in shards]
    assert all(-(1 << 63) <= k < 1 << 63 for k in keys)


def test_spark_has_the_same_hash_and_deals_evenly(spark: Any) -> None:
    import pyspark.sql.functions as F

    keys = [key_of(g, s) for g in range(3) for s in range(12)]
    frame = spark.createDataFrame([(k,) for k in [*keys, 0, 1, -1, 1 << 40]], "key long")
    found = {r.key: r.hash % (1 << 32) for r in frame.select("key", F.hash("key").alias("hash")).collect()}
    assert found == {k: murmur3(k) for k in found}
    for partitions in (2, 3, 5):
        own = spark.createDataFrame([(k,) for k in keys[:12]], "key long").repartition(partitions, "key")
        counts = Counter(r.p for r in own.select(F.spark_partition_id().alias("p")).collect())
        assert len(counts) == partitions
        assert max(counts.values()) - min(counts.values()) <= 1
