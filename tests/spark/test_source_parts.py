"""Sources in micro-batches, without Spark: nothing lost, nothing twice, the same after a restart."""

from __future__ import annotations

import gzip
import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eddyline.core.errors import EddylineError, JobError
from eddyline.io.directory import DirectorySource
from eddyline.io.resolve import open_source
from eddyline.io.source import InvalidRow, Source, whole
from eddyline.spark.sources.divide import divide
from eddyline.spark.sources.parts import Parts
from eddyline.spark.sources.places import PART_BITS
from eddyline.spark.sources.planner import Offset, Planner
from eddyline.testing import ListSource
from eddyline.testing.clock import ManualClock

pyspark = pytest.importorskip("pyspark")
from pyspark import cloudpickle  # noqa: E402


class Run:
    """Micro-batches until nothing is left. ``forgetful``: a new process for each of them."""

    def __init__(self, parts: dict[str, Parts], rows: int, cores: int = 2, forgetful: bool = False) -> None:
        self.pickled = cloudpickle.dumps(parts)
        self.size, self.cores, self.forgetful = rows, cores, forgetful
        self.planner = self.fresh()
        self.at: Offset = self.planner.first()
        self.rows: dict[str, list[pa.RecordBatch]] = {n: [] for n in parts}
        self.positions: dict[str, list[int]] = {n: [] for n in parts}
        self.invalid: dict[str, list[InvalidRow]] = {n: [] for n in parts}
        self.ended: list[str] = []
        self.batches: list[dict[str, int]] = []

    def fresh(self) -> Planner:
        return Planner(cloudpickle.loads(self.pickled), self.size, self.cores)

    def step(self, rows: int | None) -> bool:
        end = self.planner.latest(self.at, rows)
        if end == self.at:
            return False
        start, end = json.loads(json.dumps([self.at, end]))
        if self.forgetful:
            self.planner = self.fresh()
        counts: dict[str, int] = {}
        for task in cloudpickle.loads(cloudpickle.dumps(self.planner.tasks(start, end))):
            for load in task.loads:
                if load.ended:
                    self.ended.append(load.source)
                for part in load.slices:
                    position = part.first
                    for batch in part.read(None):
                        n = batch.rows.num_rows
                        self.rows[load.source].append(batch.rows)
                        self.positions[load.source] += range(position, position + n)
                        self.invalid[load.source] += batch.invalid
                        position += n
                        counts[load.source] = counts.get(load.source, 0) + n
        self.batches.append(counts)
        self.at = end
        return True

    def finish(self, rows: int | None = -1) -> Run:
        while self.step(self.size if rows == -1 else rows):
            assert len(self.batches) < 2000
        return self

    def table(self, name: str, schema: pa.Schema) -> pa.Table:
        return pa.Table.from_batches(self.rows[name], schema)


def same(source: Source, rows: int, again: Callable[[], Source] | None = None, **more: Any) -> Run:
    parts = divide(source, "S", None)
    run = Run({"S": parts}, rows, **more).finish()
    batches = list((again or (lambda: source))().open())
    assert run.table("S", source.schema).equals(whole(batches, source.schema))
    assert run.invalid["S"] == [r for b in batches for r in b.invalid]
    assert run.positions["S"] == sorted(set(run.positions["S"]))
    assert run.ended == ["S"]
    return run


@pytest.mark.parametrize("forgetful", [False, True])
@pytest.mark.parametrize("rows", [1, 7, 100, 10_000])
def test_parquet(tmp_path: Path, rows: int, forgetful: bool) -> None:
    for i, (count, group) in enumerate([(40, 9), (0, 9), (25, 100), (1, 1)]):
        table = pa.table({"ts": pa.array(range(100 * i, 100 * i + count), pa.int64()), "s": ["x"] * count})
        pq.write_table(table, tmp_path / f"{i}.parquet", row_group_size=group)
    run = same(open_source(tmp_path), rows, forgetful=forgetful)
    assert len(run.batches) == math.ceil(66 / rows)
    assert all(sum(b.values()) <= rows for b in run.batches)
    assert {p >> PART_BITS for p in run.positions["S"]} == {0, 2, 3}
    assert [p & 0xFFFF for p in run.positions["S"]][:40] == list(range(40))


TRICKY = 'ts,name\n1,"a\nb"\n2,plain\n3,"say ""hi"", you"\n\n4,5" pipe\nx,bad\n5\n6,"end"\n'


@pytest.mark.parametrize("forgetful", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 3, 1000])
def test_csv_with_quoted_newlines(tmp_path: Path, rows: int, forgetful: bool) -> None:
    (tmp_path / "a.csv").write_text(TRICKY)
    (tmp_path / "b.csv").write_text("\ufeffname,ts\nlater,7\n" + "".join(f"n{i},{i}\n" for i in range(8, 30)))
    (tmp_path / "c.csv").write_text("ts,name\n")
    (tmp_path / "d.csv").write_bytes(b"ts,name\r\n31,no newline")
    run = same(open_source(tmp_path), rows, forgetful=forgetful)
    assert [r.reason.split(":")[0] for r in run.invalid["S"]] == ["a.csv, line 8", "a.csv, line 9"]
    if rows < 1000:
        assert len(run.batches) > 30 / rows


def test_a_quote_that_never_closes(tmp_path: Path) -> None:
    rows = "".join(f'{i},"ok"\n' for i in range(20))
    (tmp_path / "a.csv").write_text("ts,name\n" + rows + '20,"open\n' + "21,x\n22,y\n")
    same(open_source(tmp_path / "a.csv"), 5)


@pytest.mark.parametrize("rows", [1, 10, 1000])
def test_json_lines(tmp_path: Path, rows: int) -> None:
    lines = [json.dumps({"ts": i, "name": f"n{i}\n"}) for i in range(30)]
    lines[11] = '{"ts": "no"}'
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    run = same(open_source(tmp_path / "a.jsonl"), rows)
    assert run.invalid["S"][0].reason.startswith("a.jsonl, line 12:")


def test_compressed_files_are_read_whole(tmp_path: Path) -> None:
    for i in range(3):
        with gzip.open(tmp_path / f"{i}.csv.gz", "wt") as file:
            file.write("ts\n" + "".join(f"{i * 100 + j}\n" for j in range(50)))
    assert len(same(open_source(tmp_path), 10).batches) == 3


def test_large_text_is_cut_for_several_tasks(tmp_path: Path) -> None:
    rng = random.Random(1)
    with (tmp_path / "a.csv").open("w") as file:
        file.write("ts,name\n")
        for i in range(100_000):
            file.write(f'{i},"{"x" * rng.randrange(9)}{chr(10) * rng.randrange(2)}"\n')
    source = open_source(tmp_path / "a.csv")
    for forgetful in (False, True):
        parts = {"S": divide(source, "S", None)}
        run = Run(parts, 90_000, forgetful=forgetful)
        end = run.planner.latest(run.at, 90_000)
        if forgetful:
            run.planner = run.fresh()
        tasks = run.planner.tasks(run.at, end)
        counts = [sum(b.rows.num_rows for x in t.loads for p in x.slices for b in p.read(["ts"])) for t in tasks]
        assert len(counts) == 2 and sum(counts) == 90_000 and max(counts) < 60_000
        assert all(len(x.slices) == 1 for t in tasks for x in t.loads)
    same(source, 30_000)
    batch = Run({"S": divide(source, "S", None)}, 10, cores=4)
    assert len(batch.planner.tasks(batch.at, batch.planner.latest(batch.at, None))) == 4


@pytest.mark.parametrize("forgetful", [False, True])
@pytest.mark.parametrize("rows", [1000, 70_000, 1_000_000])
def test_generators(rows: int, forgetful: bool) -> None:
    events = 150_000 if rows > 1000 else 3000
    run = same(open_source(f"generate:trades?events={events}"), rows, forgetful=forgetful)
    assert len(run.batches) == math.ceil(events / rows)


def test_everything_of_a_generator_is_read_by_the_worker() -> None:
    source = open_source("generate:trades?events=5000")
    run = Run({"S": divide(source, "S", None)}, 10)
    assert run.step(1000)
    run.finish(None)
    assert run.table("S", source.schema).equals(whole(source.open(), source.schema))
    assert len(run.batches) == 2 and run.ended == ["S"]


def test_memory() -> None:
    rows: list[Any] = [{"ts": i, "s": str(i)} for i in range(100)]
    rows[40:40] = [{"ts": "no"}]
    rows.append({"ts": "neither"})
    same(open_source(rows), 7)
    same(open_source([{"ts": "no"}, {"ts": "neither"}], schema=pa.schema([("ts", pa.int64())])), 7)
    same(open_source(pa.table({"ts": pa.array([], pa.int64())})), 7)
    same(open_source(iter(rows)), 7, again=lambda: open_source(rows))
    same(ListSource([{"ts": 1}, {"ts": 2}]), 1)
    large = pa.table({"ts": pa.array(range(200_000))})
    parts = divide(open_source(large), "S", "ts")
    assert len(cloudpickle.dumps(parts)) < 10_000, "a large table travels by file"
    assert sum(map(len, Run({"S": parts}, 60_000).finish().rows["S"])) == 200_000


def test_what_is_read_once_can_be_asked_for_twice() -> None:
    source = open_source(iter([{"ts": 1}]))
    assert divide(source, "S", "ts").remaining(divide(source, "S", "ts").first()) == 1


def test_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    from eddyline.io.stdin import stdin_source
    from eddyline.testing import PAUSE

    with pytest.raises(JobError, match="read by this process only; use --runtime inline"):
        divide(stdin_source(stream=io.BytesIO(b"ts\n1\n")), "S", "ts")
    with pytest.raises(JobError, match="'S' is read by a ListSource that may wait"):
        divide(ListSource([{"ts": 1}, PAUSE()]), "S", "ts")
    monkeypatch.setattr("eddyline.spark.sources.memory.MAX_BYTES", 1 << 20)
    with pytest.raises(JobError, match=r"'S' has more than .* or no end"):
        divide(open_source({"ts": i} for i in iter(int, 1)), "S", "ts")


def test_a_file_that_goes_away(tmp_path: Path) -> None:
    for n in "ab":
        (tmp_path / f"{n}.csv").write_text("ts\n1\n2\n")
    run = Run({"S": divide(open_source(tmp_path), "S", None)}, 2)
    assert run.step(2)
    (tmp_path / "b.csv").unlink()
    with pytest.raises(EddylineError, match=r"b\.csv cannot be read from .* gone"):
        run.step(2)


# ── watched directories ───────────────────────────────────────────────────────────────────────────────────────────


def watched(folder: Path, **options: Any) -> DirectorySource:
    source = open_source(folder, schema=pa.schema([("ts", pa.int64())]), options={"watch": True, "poll": 0, **options})
    assert isinstance(source, DirectorySource)
    return source


@pytest.mark.parametrize("forgetful", [False, True])
def test_files_of_a_watched_directory_keep_their_order(tmp_path: Path, forgetful: bool) -> None:
    run = Run({"S": divide(watched(tmp_path), "S", "ts")}, 2, forgetful=forgetful)
    assert not run.step(2)
    (tmp_path / "m.csv").write_text("ts\n1\n2\n3\n")
    assert run.step(2)
    (tmp_path / "a.csv").write_text("ts\n4\n5\n")
    (tmp_path / "z.csv").write_text("ts\n6\n")
    run.finish()
    (tmp_path / "b.csv").write_text("ts\n7\n")
    run.finish()
    assert [t for b in run.rows["S"] for t in b["ts"].to_pylist()] == [1, 2, 3, 4, 5, 6, 7]
    assert run.at["sources"]["S"]["order"] == "m.csv/a.csv/z.csv/b.csv"
    assert run.positions["S"] == sorted(run.positions["S"])
    assert run.ended == []


def test_what_is_there_now(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ts\n1\n")
    run = Run({"S": divide(watched(tmp_path), "S", "ts")}, 10)
    run.planner.freeze()
    run.finish()
    (tmp_path / "b.csv").write_text("ts\n2\n")
    assert not run.step(10)
    run.planner = run.fresh()
    run.planner.freeze()
    run.finish()
    assert [t for b in run.rows["S"] for t in b["ts"].to_pylist()] == [1, 2]
    assert run.ended == []


def test_a_watched_directory_that_ends_when_idle(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ts\n1\n")
    run = Run({"S": divide(watched(tmp_path, until_idle=0.05), "S", "ts")}, 10)
    assert run.step(10) and run.ended == []
    while not run.step(10):
        pass
    assert run.ended == ["S"] and run.batches[-1] == {}


def test_a_generator_without_an_end_gives_one_micro_batch_at_a_time() -> None:
    source = open_source("generate:trades?rate=100")
    run = Run({"S": divide(source, "S", "ts")}, 50)
    assert run.step(50) and run.step(50)
    assert run.step(None), "all that is available of what has no end"
    run.planner.freeze()
    run.finish()
    assert [b["S"] for b in run.batches] == [50, 50, 50, 50]


# ── several sources ───────────────────────────────────────────────────────────────────────────────────────────────


def test_sources_go_on_to_the_same_time(tmp_path: Path) -> None:
    """R has all its rows in the second half of S's time, and T has ten times as many rows as S."""
    pq.write_table(pa.table({"ts": pa.array(range(500, 1000))}), tmp_path / "R.parquet", row_group_size=100)
    pq.write_table(pa.table({"ts": pa.array(range(1000))}), tmp_path / "S.parquet", row_group_size=100)
    t = pa.table({"ts": pa.array([i // 10 for i in range(10_000)])})
    parts = {n: divide(open_source(tmp_path / f"{n}.parquet"), n, "ts") for n in "RS"}
    run = Run(parts | {"T": divide(open_source(t), "T", "ts")}, 1100).finish()
    assert run.batches[0].get("R", 0) == 0
    shown = {"S": 0, "T": 0, "R": 499}
    for batch in run.batches:
        for n, count in batch.items():
            shown[n] += count // 10 if n == "T" else count
        assert max(shown["S"], shown["T"]) - min(shown["S"], shown["T"]) <= 110
    assert sorted(run.ended) == ["R", "S", "T"]


def test_without_times_sources_go_on_by_the_same_part(tmp_path: Path) -> None:
    (tmp_path / "R.csv").write_text("ts\n" + "".join(f"{i:04}\n" for i in range(1000)))
    (tmp_path / "S.csv").write_text("ts\n" + "".join(f"{i:04}\n" for i in range(100)))
    run = Run({n: divide(open_source(tmp_path / f"{n}.csv"), n, "ts") for n in "RS"}, 110).finish()
    assert 9 <= len(run.batches) <= 12
    assert all(80 <= b["R"] <= 110 and 7 <= b["S"] <= 12 for b in run.batches[:9])


def test_generators_of_different_rates_keep_together() -> None:
    fast, slow = open_source("generate:trades?rate=1000"), open_source("generate:packets?rate=10")
    run = Run({"F": divide(fast, "F", "ts"), "S": divide(slow, "S", "ts")}, 1010)
    for _ in range(5):
        assert run.step(1010)
    assert all(900 < b["F"] <= 1010 and b["S"] < 30 for b in run.batches[1:])


def test_an_empty_source_ends_too(tmp_path: Path) -> None:
    pq.write_table(pa.table({"ts": pa.array([], pa.int64())}), tmp_path / "R.parquet")
    pq.write_table(pa.table({"ts": pa.array([1, 2])}), tmp_path / "S.parquet")
    both = {n: divide(open_source(tmp_path / f"{n}.parquet"), n, "ts") for n in "RS"}
    run = Run(both, 1).finish()
    assert sorted(run.ended) == ["R", "S"] and run.ended[0] == "R"
    alone = Run({"R": both["R"]}, 1).finish()
    assert alone.ended == ["R"] and alone.batches == [{}]


def test_tasks_are_even_and_cut_little(tmp_path: Path) -> None:
    for n in "RST":
        pq.write_table(pa.table({"ts": pa.array(range(60_000))}), tmp_path / f"{n}.parquet")
    parts = {n: divide(open_source(tmp_path / f"{n}.parquet"), n, "ts") for n in "RST"}
    run = Run(parts, 180_000)
    tasks = run.planner.tasks(run.at, run.planner.latest(run.at, 180_000))
    counts = [sum(b.rows.num_rows for x in t.loads for p in x.slices for b in p.read(["ts"])) for t in tasks]
    assert len(counts) == 2 and sum(counts) == 180_000 and max(counts) <= 105_000
    assert sum(len(x.slices) for t in tasks for x in t.loads) == 4
    assert sorted(x.source for t in tasks for x in t.loads if x.ended) == ["R", "S", "T"]


def test_the_stamp_is_in_the_offset() -> None:
    clock = ManualClock()
    planner = Planner({"S": divide(open_source([{"a": i} for i in range(4)]), "S", None)}, 2, 1, clock)
    first = planner.first()
    clock.advance(5_000_000)
    end = planner.latest(first, 2)
    clock.advance(5_000_000)
    (task,) = planner.tasks(first, end)
    assert task.stamp == end["stamp"] == clock.now() - 5_000_000
    last = planner.latest(end, 2)
    assert last["stamp"] == clock.now()
    clock.advance(1)
    assert planner.latest(last, 2) is last


def test_a_checkpoint_of_other_sources() -> None:
    def planner(name: str) -> Planner:
        return Planner({name: divide(open_source([{"a": 1}]), name, None)}, 2, 1)

    with pytest.raises(EddylineError, match="made by a job that reads R, and this one reads S"):
        planner("S").latest(planner("R").first(), 2)


def test_files_that_are_not_the_same_after_a_restart(tmp_path: Path) -> None:
    for n in "bcd":
        (tmp_path / f"{n}.csv").write_text("ts\n1\n2\n")
    run = Run({"S": divide(open_source(tmp_path), "S", None)}, 3)
    assert run.step(3)
    (tmp_path / "e.csv").write_text("ts\n1\n2\n")
    later = Run({"S": divide(open_source(tmp_path), "S", None)}, 3)
    later.at = run.at
    later.finish()
    assert sum(b.num_rows for b in later.rows["S"]) == 5, "what comes behind the place does no harm"
    (tmp_path / "a.csv").write_text("ts\n1\n2\n")
    with pytest.raises(EddylineError, match=r"the files up to b\.csv are not those .* \(watch = true\)"):
        Planner({"S": divide(open_source(tmp_path), "S", None)}, 3, 1).latest(run.at, 3)


def test_a_streaming_reader_must_say_how_it_plans() -> None:
    from pyspark.sql.datasource import DataSourceStreamReader

    from eddyline.spark.sources.reading import Planned

    class Forgetful(Planned, DataSourceStreamReader):
        def read(self, partition: Any) -> Any:
            return iter(())

    with pytest.raises(TypeError, match=r"abstract method '?make"):
        Forgetful()
