# %% [markdown]
# # Eddyline for a PySpark user
#
# DataFrames in, DataFrames out. Run it with `python examples/dataframes.py`, or cell by cell.

# %%
import os
import sys
import tempfile

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import eddyline.spark as eds

# %% [markdown]
# The session is yours. A query with state needs Spark's RocksDB state store; nothing else is asked for. As many shuffle
# partitions as cores are enough: 200, Spark's default, would be 200 nearly empty tasks in each micro-batch. And Spark
# takes `python3` from the path for its workers unless it is told which Python has Eddyline in it. `eds.quiet` keeps
# Spark's log off the terminal (`EDDYLINE_SPARK_LOG=info` shows it); leave it out, and Spark says what it always says.

# %%
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
eds.quiet()
spark = (
    SparkSession.builder.appName("eddyline with DataFrames")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    .getOrCreate()
)

# %% [markdown]
# Orders, payments and parcels of a shop: a payment follows its order after a while, a parcel its payment. Some never
# come.


# %%
def events(step: int, delay: int, *columns: str) -> DataFrame:
    number = F.col("id")
    made = {
        "amount": (F.hash(number) % 9000 / 100 + 100).cast("decimal(8,2)"),
        "method": F.element_at(
            F.array(F.lit("card"), F.lit("cash")), (F.pmod(F.hash(number), F.lit(2)) + 1).cast("int")
        ),
        "weight": (number % 40 / 10).cast("double"),
    }
    seconds = 1_700_000_000 + number * 3 + delay + F.pmod(F.hash(number), F.lit(20))
    picked = [made[c].alias(c) for c in columns]
    return spark.range(0, 3000, step).select(F.timestamp_seconds(seconds).alias("ts"), number.alias("order"), *picked)


orders, payments, parcels = events(1, 0, "amount"), events(2, 30, "method"), events(3, 70, "weight")

# %% [markdown]
# ## A join of three streams, in one go
#
# Rows with the same order number that lie within two minutes of each other. Spark's own joins would chain two binary
# joins and keep the intermediate result; this is one multiway join.

# %%
joined = eds.window_join(
    {"orders": orders, "payments": payments, "parcels": parcels}, on="order", within="2 minutes", timestamp="ts"
)
joined.printSchema()
print(joined.count(), "orders were paid and sent within two minutes")

# %% [markdown]
# ## The same as a stream
#
# From files to files. A batch answer is a replay of the streaming one: what differs is that a stream has no end, so its
# last instants stay open until something later comes.

# %%
folder = tempfile.mkdtemp(prefix="shop-")
for name, df in {"orders": orders, "payments": payments, "parcels": parcels}.items():
    df.repartitionByRange(4, "ts").sortWithinPartitions("ts").write.parquet(f"{folder}/{name}")


def stream(name: str, like: DataFrame) -> DataFrame:
    return spark.readStream.schema(like.schema).parquet(f"{folder}/{name}")


live = {
    "orders": stream("orders", orders),
    "payments": stream("payments", payments),
    "parcels": stream("parcels", parcels),
}
streaming = eds.window_join(live, on="order", within="2 minutes", timestamp="ts")
query = (
    streaming.writeStream.format("parquet")
    .option("path", f"{folder}/joined")
    .option("checkpointLocation", f"{folder}/checkpoint")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
print(spark.read.parquet(f"{folder}/joined").count(), "of them are final")

report = eds.report(query)
print(f"{report['events']:,} rows, {len(report['shards'])} shards, {report['state']['rows']:,} rows of state")

# %% [markdown]
# ## Anything else in CQL
#
# Average amount by method of payment over the last ten minutes, every minute, with a Python function in the condition;
# as changes: each row says when it came true (`_sign` 1) or ceased to be (-1).

# %%
text = """
SELECT   p.method, avg(o.amount) AS mean, count(*) AS n
FROM     orders [RANGE 10 MINUTES SLIDE 1 MINUTE] o, payments [RANGE 10 MINUTES SLIDE 1 MINUTE] p
WHERE    o.order = p.order AND is_round(o.order)
GROUP BY p.method
"""
arguments = {
    "streams": {"orders": orders, "payments": payments},
    "functions": {"is_round": {"function": lambda number: number % 10 == 0, "arguments": ["bigint"]}},
    "timestamp": "ts",
}
changes = eds.query(text, **arguments)
changes.orderBy("_time", "_sign", "method").show(6, truncate=False)

# %% [markdown]
# How it runs, and how rows travel to the shards:

# %%
print(eds.explain(text, **arguments))
