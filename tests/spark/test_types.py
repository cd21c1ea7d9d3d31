"""Types across the border to Spark; none of these tests needs a session."""

from __future__ import annotations

import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.core.errors import JobError
from eddyline.cql import bind

pytest.importorskip("pyspark")

from pyspark.sql import types as s

from eddyline.spark.types import arrow_schema, from_engine, from_spark, ntz_of, result_type, to_engine, to_spark

EVERYTHING = s.StructType(
    [
        s.StructField(type.simpleString().replace(" ", "_"), type)
        for type in (
            s.BooleanType(), s.ByteType(), s.ShortType(), s.IntegerType(), s.LongType(), s.FloatType(), s.DoubleType(),
            s.DecimalType(38, 6), s.StringType(), s.BinaryType(), s.DateType(), s.TimestampType(), s.TimestampNTZType(),
            s.DayTimeIntervalType(), s.NullType(),
        )
    ]
)  # fmt: skip


def test_there_and_back() -> None:
    assert to_spark(from_spark(EVERYTHING)) == EVERYTHING
    assert ntz_of(from_spark(EVERYTHING)) == {"timestamp_ntz"}
    assert from_spark(s.StructType().add("c", s.VarcharType(3))).types == [pa.string()]


@pytest.mark.parametrize(
    "type",
    [
        s.ArrayType(s.LongType()),
        s.MapType(s.StringType(), s.LongType()),
        s.StructType().add("a", s.LongType()),
        s.YearMonthIntervalType(),
        s.VariantType(),
        s.StringType("UNICODE_CI"),
    ],
)
def test_what_the_engine_does_not_hold(type: s.DataType) -> None:
    with pytest.raises(JobError, match=r"column 'odd' has the type .* does not hold; cast it first"):
        from_spark(s.StructType().add("odd", type))


def test_two_columns_of_one_name() -> None:
    with pytest.raises(JobError, match="more than one column named 'a'; rename one"):
        from_spark(s.StructType().add("a", s.LongType()).add("a", s.LongType()))


def test_batches_keep_their_instants() -> None:
    instants = pa.array([0, None, 1_700_000_000_000_001], pa.timestamp("us", "America/New_York"))
    batch = pa.record_batch({"at": instants, "name": pa.array(["a", None, "b"], pa.large_string()), "more": [1, 2, 3]})
    schema = pa.schema([("name", pa.string()), ("at", pa.timestamp("us"))])
    inside = to_engine(batch, schema)
    assert inside.schema.types == [pa.string(), pa.timestamp("us")]
    back = from_engine(pa.Table.from_batches([inside]), arrow_schema(to_spark(schema)))
    assert back.schema.field("at").type == pa.timestamp("us", "UTC")
    assert back.column("at").cast(pa.int64()).to_pylist() == [0, None, 1_700_000_000_000_001]


def test_what_a_query_makes_of_timestamps() -> None:
    session = ed.Session()
    schema = pa.schema([(n, pa.timestamp("us")) for n in ("at", "clock", "other")])
    session.stream("S", schema=schema, timestamp="clock")
    session.stream("T", schema=schema, timestamp="at")
    ntz = {"S": ["clock", "other"], "t": ["clock"]}

    def kinds(text: str) -> dict[str, str]:
        query = bind(text, session.catalog)
        return {f.name: f.dataType.typeName() for f in result_type(query, query.plan, session.catalog, ntz).fields}

    assert kinds(
        "SELECT at, clock, greatest(clock, other) AS both, coalesce(at, clock) AS either,"
        " CASE WHEN at IS NULL THEN clock END AS some, TIMESTAMP '2024-01-01' AS fixed FROM S"
    ) == {
        "at": "timestamp",
        "clock": "timestamp_ntz",
        "both": "timestamp_ntz",
        "either": "timestamp",
        "some": "timestamp_ntz",
        "fixed": "timestamp",
        "_time": "timestamp_ntz",
    }
    assert kinds("SELECT max(clock) AS last, count(*) AS n FROM S [RANGE 1 MINUTE] GROUP BY at") == {
        "last": "timestamp_ntz",
        "n": "long",
        "_time": "timestamp_ntz",
        "_sign": "byte",
    }
    joined = "SELECT S.clock AS a, T.clock AS b, T.other AS c FROM S [RANGE 1 MINUTE], T [NOW] WHERE S.at = T.at"
    assert list(kinds(joined).values()) == ["timestamp_ntz", "timestamp_ntz", "timestamp", "timestamp", "byte"]
    assert kinds("SELECT clock FROM S UNION ALL SELECT other FROM T")["clock"] == "timestamp"
