"""From an opened source to its parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eddyline.core.errors import JobError
from eddyline.core.time import SystemClock
from eddyline.io.csv import CsvSource, CsvStream
from eddyline.io.directory import DirectorySource
from eddyline.io.generator import GeneratorSource
from eddyline.io.jsonl import JsonLinesSource, JsonLinesStream
from eddyline.io.memory import ArrowSource, RowSource
from eddyline.io.parquet import ParquetSource
from eddyline.io.source import Source, StrictSource
from eddyline.spark.sources.directory import WatchedDirectory, WatchedParts
from eddyline.spark.sources.memory import ReplayPart, TablePart, drain
from eddyline.spark.sources.parquet import ParquetPart
from eddyline.spark.sources.parts import Part, Parts
from eddyline.spark.sources.text import TextPart


def divide(
    source: Source, name: str, timestamp: str | None, columns: Sequence[str] | None = None, in_file: bool = True
) -> Parts:
    """``timestamp`` is the column of time, if there is one; ``columns`` are those that will be read (None: all).

    ``in_file``: a large table of this process may wait in a file, because the driver's machine is this one.
    """
    if isinstance(source, StrictSource):
        source = source.source
    wanted = None if columns is None else tuple(columns)
    match source:
        case ParquetSource() | CsvSource() | JsonLinesSource():
            return Parts(_files(source, timestamp), names=tuple(p.name for p in source.paths))
        case DirectorySource():
            return WatchedParts(WatchedDirectory(source, SystemClock()), FileDivision(timestamp))
        case GeneratorSource():
            return Parts([ReplayPart(source, timestamp, wanted)], endless=not source.finite)
        case CsvStream() | JsonLinesStream():
            raise JobError(
                f"{name!r} comes from standard input, which is read by this process only; use --runtime inline."
            )
        case ArrowSource() | RowSource():
            return Parts([TablePart(drain(source, name, in_file), timestamp, wanted)])
    if not source.finite:
        raise JobError(
            f"{name!r} is read by a {type(source).__name__} that may wait for rows, in this process only; use the"
            " inline runtime, or give a path, a table or a DataFrame."
        )
    return Parts([TablePart(drain(source, name, in_file), timestamp, wanted)])


def _files(source: ParquetSource | CsvSource | JsonLinesSource, timestamp: str | None) -> list[Part]:
    paths = [p.absolute() for p in source.paths]
    if isinstance(source, ParquetSource):
        return [ParquetPart(p, source.schema, timestamp) for p in paths]
    return [TextPart(p, source.parser) for p in paths]


class FileDivision:
    """The part of one file of a watched directory."""

    def __init__(self, timestamp: str | None) -> None:
        self.timestamp = timestamp

    def __call__(self, source: Any) -> Part:
        (part,) = _files(source, self.timestamp)
        return part
