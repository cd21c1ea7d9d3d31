"""Where results go: a file, a folder, standard output; and spools that make a resumed run write each result once."""

from __future__ import annotations

import io
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import pyarrow as pa

from eddyline.core.errors import JobError
from eddyline.cql.query_names import file_names
from eddyline.io.sinks import EXTENSIONS, Sink, open_sink
from eddyline.runtime.destinations import result_folder

HOLD = 1000  # rows of a table that wait to be laid out together, where nobody waits for them


@dataclass(frozen=True, slots=True)
class Result:
    """What a sink needs to know of a query."""

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
        self.spools = None if checkpoint is None else [Spool(checkpoint / "results" / n) for n in self.labels]
        self.folder = result_folder(out, len(results))
        self._check()
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
        return sinks

    def _sink(self, result: Result, label: str) -> Sink:
        if result.target is not None:
            return open_sink(result.target, result.schema, base=self.base, stdout=self.stdout)
        if self.out is None and len(self.results) > 1:
            text = io.StringIO()  # several tables on one screen: one after another
            self.texts.append((label, text))
            return open_sink(None, result.schema, stdout=text, hold=HOLD)
        if self.out is not None and self.folder:
            return open_sink(self.out / f"{label}.parquet", result.schema, stdout=self.stdout)
        return open_sink(self.out, result.schema, stdout=self.stdout, hold=HOLD if self.finite else 0)

    def write(self, number: int, batch: pa.RecordBatch) -> None:
        """Results of one query."""
        if self.spools is not None:
            self.spools[number].add(batch)
        else:
            self.sinks[number].write(batch)

    def put(self, number: int, segment: int, batches: Sequence[pa.RecordBatch]) -> None:
        """Results of one query and one micro-batch; given again, they take their own place."""
        if self.spools is not None:
            self.spools[number].put(segment, batches)
        else:
            for batch in batches:
                self.sinks[number].write(batch)

    def cut(self) -> list[int]:
        """Close the segments of all spools; returns how many each has."""
        assert self.spools is not None
        return [s.cut() for s in self.spools]

    def keep(self, counts: Sequence[int]) -> None:
        """Forget the segments that came after a snapshot."""
        assert self.spools is not None
        for spool, count in zip(self.spools, counts, strict=True):
            spool.keep(count)

    def close(self) -> None:
        if self.spools is not None:
            self.sinks = self._open()
            for sink, spool in zip(self.sinks, self.spools, strict=True):
                for batch in spool.batches():
                    sink.write(batch)
        for sink in self.sinks:
            sink.close()
        for label, text in self.texts:
            print(f"{label}:\n{text.getvalue()}", file=self.stdout)

    def abort(self) -> None:
        for sink in self.sinks:
            sink.abort()


class Spool:
    """The results of one query so far, as Arrow files 0, 1, 2 … in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        self.waiting: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        self.waiting.append(batch)

    def cut(self) -> int:
        """Put what waits into a segment of its own; returns the number of segments."""
        if self.waiting:
            self.put(self.count, self.waiting)
            self.waiting, self.count = [], self.count + 1
        return self.count

    def put(self, number: int, batches: Sequence[pa.RecordBatch]) -> None:
        """Write a segment, whole or not at all; an empty one leaves no file."""
        path = self.folder / f"{number}.arrow"
        if not batches:
            path.unlink(missing_ok=True)
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".tmp")
        with pa.OSFile(str(temporary), "wb") as file, pa.ipc.new_file(file, batches[0].schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        temporary.replace(path)

    def keep(self, count: int) -> None:
        """Forget the segments that the restored snapshot does not know."""
        self.count = count
        for path in self.folder.glob("*.arrow"):
            if int(path.stem) >= count:
                path.unlink()
        if count == 0:
            shutil.rmtree(self.folder, ignore_errors=True)

    def batches(self) -> list[pa.RecordBatch]:
        self.cut()
        out: list[pa.RecordBatch] = []
        for path in sorted(self.folder.glob("*.arrow"), key=lambda p: int(p.stem)):
            with pa.memory_map(str(path)) as file:
                reader = pa.ipc.open_file(file)
                out += [reader.get_batch(j) for j in range(reader.num_record_batches)]
        return out
