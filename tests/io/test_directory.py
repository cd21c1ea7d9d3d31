"""A watched directory, with a clock and a sleep of our own."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from eddyline.core.errors import JobError
from eddyline.io.csv import CsvSource
from eddyline.io.directory import DirectorySource
from eddyline.io.resolve import open_source


class World:
    """Time passes only in ``sleep``; at certain looks something happens in the directory."""

    def __init__(self, folder: Path, happens: dict[int, tuple[str, str]]) -> None:
        self.folder, self.happens, self.sleeps = folder, happens, 0

    def now(self) -> int:
        return self.nanoseconds() // 1000

    def nanoseconds(self) -> int:
        return self.sleeps * 1_000_000_000

    def sleep(self, seconds: float) -> None:
        assert seconds == 1.0
        self.sleeps += 1
        if self.sleeps in self.happens:
            name, text = self.happens[self.sleeps]
            (self.folder / name).write_text(text)


def watch(folder: Path, world: World, **options: float) -> DirectorySource:
    schema = pa.schema([("a", pa.int64())])
    return DirectorySource(
        folder, lambda p, s: CsvSource([p], s), schema, poll=1.0, clock=world, sleep=world.sleep, **options
    )


def test_each_file_is_read_once_in_order_of_name(tmp_path: Path) -> None:
    (tmp_path / "2.csv").write_text("a\n2\n")
    (tmp_path / "1.csv").write_text("a\n1\n")
    world = World(tmp_path, {1: ("4.csv.tmp", "a\n9\n"), 2: ("3.csv", "a\n3\n"), 4: ("0.csv", "a\n0\n")})
    batches = list(watch(tmp_path, world, until_idle=3).open())
    assert [r["a"] for b in batches for r in b.rows.to_pylist()] == [1, 2, 3, 0]
    assert any(len(b.rows) == 0 for b in batches), "waiting is a sign of life"
    assert world.sleeps == 7


def test_stop_ends_it(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a\n1\n")
    source = watch(tmp_path, World(tmp_path, {}))
    got = []
    for batch in source.open():
        got += batch.rows.to_pylist()
        if not len(batch.rows):
            source.stop()
    assert got == [{"a": 1}] and not source.finite


def test_columns_come_from_a_file_or_a_declaration(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="holds no file yet: declare its columns"):
        open_source(tmp_path, options={"watch": True})
    (tmp_path / "0.csv").write_text("a,b\n")
    (tmp_path / "1.csv").write_text("a,b\n1,x\n")
    source = open_source(tmp_path, options={"until_idle": 0, "poll": 0})
    assert source.schema.types == [pa.int64(), pa.string()]
    assert [r for b in source.open(["b"]) for r in b.rows.to_pylist()] == [{"b": "x"}]
    with pytest.raises(JobError, match="a number of seconds is wanted"):
        open_source(tmp_path, options={"until_idle": "soon"})
    pattern = open_source("1.*", tmp_path, options={"until_idle": 0})
    assert [len(b.rows) for b in pattern.open()] == [1]
