"""Our readers and generators as Spark data sources: ordinary rows, and packed rows for shards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eddyline.core.catalog import Catalog, RelationDef, StreamDef
from eddyline.core.schema import Schema
from eddyline.core.time import TimeKind
from eddyline.cql import bind
from eddyline.io.resolve import open_source
from eddyline.io.source import Source, whole
from eddyline.spark.failures import sentence
from eddyline.spark.packing import ARRIVAL, ARRIVED, MALFORMED, MALFORMED_SCHEMA, unpack
from eddyline.spark.program import Program, plan_group

pytest.importorskip("pyspark")


def write(folder: Path, table: pa.Table, name: str, group: int | None = None) -> Path:
    path = folder / f"{name}.parquet"
    pq.write_table(table, path, row_group_size=group)
    return path


def events(count: int, keys: int = 7) -> pa.Table:
    return pa.table(
        {
            "ts": pa.array(range(count), pa.int64()),
            "key": pa.array([i * 31 % keys for i in range(count)], pa.int64()),
            "val": pa.array([i / 3 for i in range(count)]),
        }
    )


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def registered(spark: Any) -> Any:
    from eddyline.spark.sources import register

    register(spark)
    register(spark)
    return spark


def streamed(frame: Any, checkpoint: Path) -> list[pa.Table]:
    batches: list[pa.Table] = []
    query = (
        frame.writeStream.foreachBatch(lambda b, _: batches.append(b.toArrow()))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return batches


def in_order(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    return sorted(rows, key=lambda r: json.dumps(r, default=str))


def test_rows_in_batch_and_streaming(registered: Any, tmp_path: Path) -> None:
    source = "generate:trades?events=3000&symbols=5"
    expected = in_order(whole(open_source(source).open(), open_source(source).schema))
    reader = registered.read.format("eddyline").option("source", source)
    found = reader.load()
    assert found.schema.simpleString() == "struct<ts:timestamp,symbol:string,price:double,size:bigint>"
    naive = [{**r, "ts": r["ts"].replace(tzinfo=None)} for r in found.toArrow().to_pylist()]
    assert sorted(naive, key=lambda r: json.dumps(r, default=str)) == expected
    stream = registered.readStream.format("eddyline").option("source", source).option("rows_per_batch", "1000").load()
    batches = streamed(stream, tmp_path / "checkpoint")
    assert [b.num_rows for b in batches] == [1000, 1000, 1000]
    assert sum(pa.concat_tables(batches)["size"].to_pylist()) == sum(r["size"] for r in expected)


def test_declared_rows_and_malformed_ones(registered: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ts,name,x\n1,ann,1\nzwei,bob,2\n3,cyd,3\n")
    reader = registered.read.format("eddyline").option("source", str(tmp_path / "*.csv"))
    declared = reader.option("malformed", "bad").schema("ts int, name string, bad string")
    assert [tuple(r) for r in declared.load().orderBy("ts").collect()] == [
        (None, None, "a.csv, line 3: column 'ts': 'zwei' is not a value of type int: 'zwei,bob,2'"),
        (1, "ann", None),
        (3, "cyd", None),
    ]
    strict = registered.read.format("eddyline").option("source", str(tmp_path / "a.csv")).schema("ts int")
    with pytest.raises(Exception, match=r"malformed row in strict mode\. a\.csv, line 3"):
        strict.load().collect()
    assert strict.option("strict", "false").load().count() == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "nowhere.csv"}, "there is no file 'nowhere.csv'"),
        ({"sauce": "x"}, "has no option 'sauce'. Did you mean 'source'?"),
        ({"source": "-"}, "standard input is read by the process that it belongs to only"),
    ],
)
def test_mistakes_in_rows(registered: Any, options: dict[str, str], message: str) -> None:
    with pytest.raises(Exception) as caught:
        registered.read.format("eddyline").options(**options).load()
    assert message in str(sentence(caught.value))


# ── packed ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Packed:
    """A program over sources, and what its packed rows hold."""

    def __init__(self, text: str, sources: dict[str, Source], shards: int = 4, timestamp: str | None = "ts") -> None:
        self.sources, self.catalog = sources, Catalog()
        for name, source in sources.items():
            schema = Schema.from_arrow(source.schema)
            kind = TimeKind.TIMESTAMP if timestamp is None else TimeKind.INTEGER
            self.catalog.add("streams", StreamDef(name, schema, kind, timestamp))
        bound = bind(text, self.catalog)
        positions = frozenset(n.lower() for n in sources)
        group = plan_group([bound], self.catalog, lambda _: pa.table({}), shards=shards, positions=positions)
        self.program = Program((group,))
        self.keys = self.program.keys()

    def frame(self, spark: Any, **options: Any) -> Any:
        from eddyline.spark.sources.packed import packed_frame

        definitions: dict[str, StreamDef | RelationDef] = {n: self.catalog.streams[n.lower()] for n in self.sources}
        return packed_frame(spark, self.program, self.sources, definitions, **{"rows_per_batch": 1000, **options})

    def rows(self, packed: pa.Table, source: str) -> list[pa.Table]:
        """The rows of each shard, in lanes of this source."""
        shards: dict[int, list[pa.RecordBatch]] = {k: [] for k in self.keys}
        (route,) = self.program.routes(source)
        for row in packed.to_pylist():
            if row["lane"] == route.lane and row["kind"] != MALFORMED and row["blob"] is not None:
                shards[row["key"]].append(unpack(row["blob"], route.schema))
        return [pa.Table.from_batches(b, route.schema) for b in shards.values()]

    def ended(self, packed: pa.Table) -> set[tuple[int, int]]:
        return {(r["key"], r["lane"]) for r in packed.to_pylist() if r["ended"]}

    def everywhere(self) -> set[tuple[int, int]]:
        return {(k, n) for k in self.keys for n in range(len(self.sources))}


JOIN = "SELECT Istream(R.key, R.val, S.val) FROM R [RANGE 10], S [RANGE 10] WHERE R.key = S.key"


def joined(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).sort_by("ts")


def test_every_row_goes_to_one_shard_with_its_key(spark: Any, tmp_path: Path) -> None:
    r, s = events(2500), events(500)
    write(tmp_path, r, "R", 300)
    packed = Packed(JOIN, {"R": open_source(tmp_path / "R.parquet"), "S": open_source(s)})
    batches = streamed(packed.frame(spark), tmp_path / "checkpoint")
    assert len(batches) == 3
    found = pa.concat_tables(batches)
    for name, expected in (("R", r), ("S", s)):
        shards = packed.rows(found, name)
        assert joined(shards).equals(expected)
        keys = [set(t["key"].to_pylist()) for t in shards]
        assert sum(map(len, keys)) == 7 and sum(bool(k) for k in keys) > 1
    assert sum(found["rows"].to_pylist()) == 3000
    assert packed.ended(found) == packed.everywhere()
    assert packed.ended(batches[0]) == {(k, 1) for k in packed.keys}, "both have come to 499, where S ends"
    # Every flush tells every shard how far the stream has come.
    heard = {(x["key"], x["lane"], x["high"]) for x in found.to_pylist()}
    assert {(k, 0, "2499") for k in packed.keys} <= heard
    batch = packed.frame(spark, streaming=False).toArrow()
    assert joined(packed.rows(batch, "R")).equals(r) and joined(packed.rows(batch, "S")).equals(s)
    assert packed.ended(batch) == packed.everywhere()


def test_positions_and_stamps(spark: Any, tmp_path: Path) -> None:
    for i in range(2):
        lines = [f"{j % 3},{i * 100 + j}" for j in range(60)]
        (tmp_path / f"{i}.csv").write_text("ts,n\n" + "\n".join(lines) + "\nbad,row\n")
    ordered = Packed("SELECT count(*) AS c, max(n) AS m FROM R [ROWS 5]", {"R": open_source(tmp_path)})
    found = pa.concat_tables(streamed(ordered.frame(spark, rows_per_batch=25), tmp_path / "one"))
    (rows,) = ordered.rows(found, "R")
    assert rows.sort_by(ARRIVAL)["n"].to_pylist() == [*range(60), *range(100, 160)]
    assert len(set(rows[ARRIVAL].to_pylist())) == 120
    bad = [unpack(x["blob"], MALFORMED_SCHEMA) for x in found.to_pylist() if x["kind"] == MALFORMED]
    assert sorted(r for b in bad for r in b["reason"].to_pylist())[0].startswith("0.csv, line 62: column 'ts': 'bad'")
    assert sum(found["rows"].to_pylist()) == 122
    with pytest.raises(Exception, match="malformed row in strict mode"):
        ordered.frame(spark, streaming=False, strict=True).toArrow()

    plain = open_source(events(50).rename_columns(["n", "a", "b"]))
    stamped = Packed("SELECT Istream(n) FROM R [RANGE 1 SECOND]", {"R": plain}, timestamp=None)
    batches = streamed(stamped.frame(spark, rows_per_batch=30), tmp_path / "two")
    times = [{t for x in stamped.rows(b, "R") for t in x[ARRIVED].to_pylist()} for b in batches]
    assert [len(t) for t in times] == [1, 1] and max(times[0]) < min(times[1])


def test_a_restart_goes_on_where_it_stopped(spark: Any, tmp_path: Path) -> None:
    r, s = events(900), events(300)
    write(tmp_path, r, "R", 100)
    packed = Packed(JOIN, {"R": open_source(tmp_path / "R.parquet"), "S": open_source(s)})
    seen: list[pa.Table] = []

    def stop_at(number: int) -> Any:
        def sink(batch: Any, i: int) -> None:
            table = batch.toArrow()
            if i == number:
                raise RuntimeError("crash after the batch was read")
            seen.append(table)

        return sink

    def run(sink: Any) -> None:
        frame = packed.frame(spark, rows_per_batch=300)
        writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(Exception, match="crash"):
        run(stop_at(2))
    assert len(seen) == 2
    run(stop_at(-1))
    assert len(seen) == 4
    found = pa.concat_tables(seen)
    assert joined(packed.rows(found, "R")).equals(r) and joined(packed.rows(found, "S")).equals(s)
    assert packed.ended(found) == packed.everywhere()
    before = len(seen)
    run(stop_at(-1))
    assert len(seen) == before


def test_a_watched_directory_under_a_processing_time_trigger(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "b.csv").write_text("ts,key,val\n1,1,1.0\n")
    options = {"watch": True, "poll": 0.05}
    schema = events(1).schema
    sources = {"R": open_source(folder, schema=schema, options=options), "S": open_source(events(3))}
    packed = Packed(JOIN, sources)
    seen: list[pa.Table] = []
    query = (
        packed.frame(spark, rows_per_batch=2)
        .writeStream.foreachBatch(lambda b, _: seen.append(b.toArrow()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        (folder / "a.csv").write_text("ts,key,val\n2,2,2.0\n")
        while sum(x["rows"].to_numpy().sum() for x in seen) < 5:
            query.processAllAvailable()
    finally:
        query.stop()
    found = pa.concat_tables(seen)
    assert joined(packed.rows(found, "R"))["ts"].to_pylist() == [1, 2]
    assert packed.ended(found) == {(k, 1) for k in packed.keys}
