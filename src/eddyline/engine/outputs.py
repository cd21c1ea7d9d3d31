"""The destinations of results: a file, a folder, standard output; and spools so that a resumed run writes each once."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa

from eddyline.core.errors import JobError
from eddyline.cql.query_names import file_names
from eddyline.engine.destinations import result_folder
from eddyline.engine.spools import Spools
from eddyline.io.sinks import EXTENSIONS, Sink, open_sink

RESULTS = "results"  # the folder in a checkpoint in which they are spooled
TABLE_ROWS_HELD = 1000  # that wait to be laid out together as a table, where no user waits for them


@dataclass(frozen=True, slots=True)
class Result:
    """The facts of a query that a sink needs."""

    name: str | None
    target: str | None
    schema: pa.Schema


class Outputs:
    """Where the results of each query go: its own target, ``--out``, or a table on the screen.

    With a checkpoint results are first spooled beside the state, in segments that a snapshot closes; the sinks are
    written from the segments at the end. So a run that was stopped and resumed writes each result exactly once.
    """

    def __init__(
        self,
        results: Sequence[Result],
        out: Path | None,
        base: Path,
        stdout: TextIO,
        checkpoint: Path | None,
        *,
        finite: bool,
    ) -> None:
        self.results, self.finite = list(results), finite
        self.out, self.base, self.stdout = out, base, stdout
        self.labels = file_names([r.name for r in results])
        self.spools = None if checkpoint is None else Spools(checkpoint / RESULTS, len(results))
        self.folder = result_folder(out, len(results))
        self._check()
        self._made: set[Path] = set()  # folders that were missing
        self.texts: list[tuple[str, io.StringIO]] = []
        self.sinks = self._open()
        if self.spools is not None:  # it was only a trial: written to in the end
            self.abort()

    def _check(self) -> None:
        """``--out`` must name a folder where the job has several queries (``destinations`` checks all the rest)."""
        if self.out is None or all(r.target is not None for r in self.results):
            return
        if self.folder and not self.out.is_dir() and (self.out.exists() or self.out.name.endswith(EXTENSIONS)):
            raise JobError(f"the job has several queries, so --out must be a folder; {str(self.out)!r} names a file.")

    def _open(self) -> list[Sink]:
        sinks: list[Sink] = []
        self.texts = []
        try:
            for result, label in zip(self.results, self.labels, strict=True):
                sinks.append(self._sink(result, label))
        except BaseException:
            for sink in sinks:
                sink.abort()
            raise
        self._made |= {sink.path.parent for sink in sinks if sink.path is not None and sink.made_folder}
        return sinks

    def _sink(self, result: Result, label: str) -> Sink:
        if result.target is not None:
            return open_sink(result.target, result.schema, base=self.base, stdout=self.stdout)
        if self.out is None and len(self.results) > 1:
            text = io.StringIO()  # several tables on one screen: one after another
            self.texts.append((label, text))
            return open_sink(None, result.schema, stdout=text, hold=TABLE_ROWS_HELD)
        if self.out is not None and self.folder:
            return open_sink(self.out / f"{label}.parquet", result.schema, stdout=self.stdout)
        return open_sink(self.out, result.schema, stdout=self.stdout, hold=TABLE_ROWS_HELD if self.finite else 0)

    def write(self, number: int, batch: pa.RecordBatch) -> None:
        """Results of one query."""
        if self.spools is not None:
            self.spools.add(number, batch)
        else:
            self.sinks[number].write(batch)

    def put(self, segment: int, found: Mapping[int, Sequence[pa.RecordBatch]]) -> None:
        """Results of one micro-batch by query; given again, they take their own place."""
        if self.spools is not None:
            self.spools.put(segment, found)
        else:
            for number, batches in found.items():
                for batch in batches:
                    self.sinks[number].write(batch)

    def cut(self) -> dict[str, Any]:
        """Close the segment of all spools; returns the mark by which ``keep`` finds this state again."""
        assert self.spools is not None
        return self.spools.cut()

    def close(self) -> None:
        if self.spools is not None:
            self.spools.cut()
            self.sinks = self._open()
            for number, sink in enumerate(self.sinks):
                for batch in self.spools.batches(number):
                    sink.write(batch)
        for sink in self.sinks:
            sink.close()
        for label, text in self.texts:
            print(f"{label}:\n{text.getvalue()}", file=self.stdout)

    def written(self) -> Iterator[str]:
        """A sentence for each file, when all are closed."""
        for sink in self.sinks:
            if sink.path is not None:
                folder = sink.path.parent
                made = f" (the folder {folder} was made for it)" if folder in self._made else ""
                self._made.discard(folder)
                yield f"{sink.rows:,} row{'' if sink.rows == 1 else 's'} written to {sink.path}{made}"

    def abort(self) -> None:
        for sink in self.sinks:
            sink.abort()
