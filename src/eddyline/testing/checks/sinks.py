"""Checks of sinks: exactly the rows, all or none of them, and another try after a failure."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from eddyline.io.sinks import Sink
from eddyline.testing.checks.check import Check, named, require, run_all

SCHEMA = pa.schema([("ts", pa.int64()), ("name", pa.string()), ("value", pa.float64())])
ROWS = [{"ts": i, "name": None if i % 7 == 3 else f"row, {i}", "value": i / 4} for i in range(50)]


@dataclass(frozen=True, slots=True)
class SinkExample:
    """``make`` opens a sink for the target in an empty folder, ``read`` gives the rows that can be seen there, or None
    if there is no result."""

    name: str
    make: Callable[[Path, pa.Schema], Sink]
    read: Callable[[Path], pa.Table | None]


def sink_checks(example: SinkExample) -> Iterator[Check]:
    """The checks of a sink."""
    checks = [
        ("has exactly the rows, however they are cut", partial(_exactly, example)),
        ("nothing partial is visible", partial(_partial, example)),
        ("an error leaves an earlier result alone", partial(_aborted, example)),
        ("another try after a failure has all rows", partial(_again, example)),
        ("a result without rows", partial(_none, example)),
    ]
    yield from named("sink", example.name, checks)


def check_sink(name: str, make: Callable[[Path, pa.Schema], Sink], read: Callable[[Path], pa.Table | None]) -> int:
    """Check a sink of one's own; how many checks there were. The first that fails raises ``CheckFailed``."""
    return run_all(sink_checks(SinkExample(name, make, read)))


def _write(example: SinkExample, folder: Path, size: int, rows: int = len(ROWS)) -> None:
    with example.make(folder, SCHEMA) as sink:
        for start in range(0, rows, size):
            sink.write(pa.RecordBatch.from_pylist(ROWS[start : min(start + size, rows)], SCHEMA))
            sink.write(pa.RecordBatch.from_pylist([], SCHEMA))
    require(sink.rows == rows, f"it counts {sink.rows} rows instead of {rows}")


def _holds(example: SinkExample, folder: Path, rows: int, when: str) -> None:
    found = example.read(folder)
    require(found is not None, f"{when} there is no result")
    assert found is not None
    want = [list(map(str, row.values())) for row in ROWS[:rows]]
    got = [list(map(str, row.values())) for row in found.to_pylist()]
    require(len(got) == rows, f"{when} the result has {len(got)} rows instead of {rows}")
    require(got == want, f"{when} the result has other rows or another order")
    require(found.schema.names == SCHEMA.names, f"{when} the result has the columns {found.schema.names}")


def _exactly(example: SinkExample) -> None:
    for size in (1, 7, len(ROWS)):
        with tempfile.TemporaryDirectory() as folder:
            _write(example, Path(folder), size)
            _holds(example, Path(folder), len(ROWS), f"written in batches of {size} rows")


def _partial(example: SinkExample) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sink = example.make(folder, SCHEMA)
        for row in ROWS:
            sink.write(pa.RecordBatch.from_pylist([row], SCHEMA))
            require(example.read(folder) is None, "a part of the result is visible before it is closed")
        sink.close()
        _holds(example, folder, len(ROWS), "once closed")


def _failing(example: SinkExample, folder: Path) -> None:
    try:
        with example.make(folder, SCHEMA) as sink:
            sink.write(pa.RecordBatch.from_pylist(ROWS[:5], SCHEMA))
            raise KeyError("the check fails here")
    except KeyError:
        pass


def _aborted(example: SinkExample) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _failing(example, folder)
        require(example.read(folder) is None, "a failed run leaves a result")
        require(not list(folder.iterdir()), f"a failed run leaves files: {[p.name for p in folder.iterdir()]}")
        _write(example, folder, 7, rows=20)
        _failing(example, folder)
        _holds(example, folder, 20, "after a failed run over an earlier result")


def _again(example: SinkExample) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _failing(example, folder)
        _write(example, folder, 9)
        _holds(example, folder, len(ROWS), "in the second try")
        _write(example, folder, 4, rows=12)
        _holds(example, folder, 12, "written over a longer result")


def _none(example: SinkExample) -> None:
    with tempfile.TemporaryDirectory() as name:
        _write(example, Path(name), 1, rows=0)
        found = example.read(Path(name))
        require(found is not None, "without rows there is no result")
        require(found is None or found.num_rows == 0, "without rows the result has some")
