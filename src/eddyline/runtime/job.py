"""Jobs from files: what ``eddyline run`` and ``eddyline explain`` do."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa

from eddyline.core.errors import CqlError, EddylineError, JobError
from eddyline.core.time import SystemClock, TimeKind
from eddyline.cql.job import QueryStatement, parse_job
from eddyline.io.sinks import EXTENSIONS, Sink, open_sink
from eddyline.runtime.progress import Progress
from eddyline.runtime.query import Query
from eddyline.runtime.session import Session
from eddyline.runtime.snapshot import Snapshots
from eddyline.runtime.stopping import StopRequest

HOLD = 1000  # rows of a table that wait to be laid out together, where nobody waits for them
SNAPSHOT_EVERY = 10.0  # seconds of work between two snapshots of a checkpointed run


def load_job(path: Path, strict: bool = False) -> tuple[Session, list[Query]]:
    """Declare everything in a job file; nothing is read yet but schemas."""
    text = _text(path)
    session = Session(strict=strict, base=path.parent)
    queries = []
    for statement in parse_job(text):
        query = session.declare(statement)
        if isinstance(statement, QueryStatement) and query is not None:
            queries.append(query)
    if not queries:
        raise CqlError("the job has no query: add a SELECT.", text)
    return session, queries


def _text(path: Path) -> str:
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")  # some editors put a mark before the text
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        raise JobError(f"{path.name} is not UTF-8 text: line {line} holds the byte 0x{data[e.start]:02x}.") from None


def explain_job(path: Path, *, stdout: TextIO) -> int:
    _, queries = load_job(path)
    for i, q in enumerate(queries):
        if i:
            print("\n" + "─" * 60 + "\n", file=stdout)
        print((f"{q.name}:\n" if q.running.query.name else "") + q.explain(), file=stdout)
    return 0


def run_job(
    path: Path,
    *,
    out: Path | None,
    report: Path | None,
    checkpoint: Path | None,
    strict: bool,
    progress: Progress | None,
    stdout: TextIO,
) -> int:
    """Run a job to the end of its inputs; results go to their sinks as they come."""
    clock = SystemClock()
    begin = clock.nanoseconds()
    _check_writable(report, "--report", folder=False)
    _check_writable(checkpoint, "--checkpoint", folder=True)
    session, queries = load_job(path, strict)
    if checkpoint is not None:
        _check_rereadable(session)
    outputs = Outputs(queries, out, path.parent, stdout, checkpoint)
    if checkpoint is not None and Snapshots(checkpoint).numbers():
        outputs.resume(session.restore(checkpoint))
    saved = clock.nanoseconds()
    try:
        with StopRequest(clock) if checkpoint is not None else nullcontext() as stop:
            more = True
            while more:
                more = session.step()
                outputs.write()
                if progress is not None:
                    _show(progress, session, queries)
                stopped = stop is not None and stop.asked
                if checkpoint is not None and (stopped or (clock.nanoseconds() - saved) / 1e9 > SNAPSHOT_EVERY):
                    session.snapshot(checkpoint, outputs.flush())
                    saved = clock.nanoseconds()
                if stopped:  # stopping is not the end of the input
                    raise KeyboardInterrupt(f"the state is in {checkpoint}; the same command goes on from there.")
        for q in queries:
            if not q.running.inputs:
                q.running.advance()
        outputs.write()
        if checkpoint is not None:
            session.snapshot(checkpoint, outputs.flush())
        if progress is not None:
            progress.finish()
        outputs.close()
    except BaseException:
        outputs.abort()
        raise
    _tell_diverted(session, queries)
    if report is not None:
        text = json.dumps(job_report(session, queries, (clock.nanoseconds() - begin) / 1e9), indent=2, default=str)
        if str(report) == "-":
            print(text, file=stdout)
        else:
            try:
                report.write_text(text + "\n", encoding="utf-8")
            except OSError as e:
                raise EddylineError(f"--report {report} cannot be written: {e.strerror}.") from e
    return 0


def _check_rereadable(session: Session) -> None:
    """Going on means reading the sources again, past what was read before."""
    named: dict[str, Any] = {**session.catalog.streams, **session.catalog.relations}
    for name, definition in named.items():
        if definition.source == "-":
            raise JobError(f"{name!r} reads standard input, which cannot be read again: leave --checkpoint out.")


def _tell_diverted(session: Session, queries: Sequence[Query]) -> None:
    """Rows that the answer lacks are never passed over in silence."""
    found = [(s.late.count, "late", s.name) for s in session.inputs.values()]
    found += [(s.invalid.count, "invalid", s.name) for s in session.inputs.values()]
    found += [(q.running.invalid.count, "invalid", q.name) for q in queries]
    for count, what, whose in found:
        if count:
            rows = "row" if count == 1 else "rows"
            print(f"note: {count:,} {what} {rows} of {whose} left out; {what}(q) shows such rows.", file=sys.stderr)


def _check_writable(path: Path | None, option: str, folder: bool) -> None:
    """Make the folder that a path needs, before hours of work are lost because it cannot be made."""
    if path is None or str(path) == "-":
        return
    try:
        (path if folder else path.parent).mkdir(parents=True, exist_ok=True)
        if not folder and path.is_dir():
            raise JobError(f"{option} {path}: this is a directory; a file is wanted.")
    except OSError as e:
        raise EddylineError(f"{option} {path}: the directory cannot be made: {e.strerror}.") from e
    if not os.access(path if folder or path.exists() else path.parent, os.W_OK):
        raise EddylineError(f"{option} {path}: writing is not allowed there.")


def job_report(session: Session, queries: Sequence[Query], seconds: float) -> dict[str, Any]:
    """One report for the job: the events of each stream once, everything else added up over the queries."""
    reports = {q.name: q.report() for q in queries}
    inputs = session.inputs.values()
    state = {k: sum(r["state"][k] for r in reports.values()) for k in ("rows", "bytes", "peak_rows", "peak_bytes")}
    return {
        "events": sum(s.arrived for s in inputs),
        "results": sum(r["results"] for r in reports.values()),
        "seconds": seconds,
        "late": sum(s.late.count for s in inputs),
        "invalid": sum(s.invalid.count for s in inputs)
        + sum(q.running.invalid.count for q in queries)
        + session.invalid_relation_rows,
        "operators": [{"query": n, **o} for n, r in reports.items() for o in r["operators"]],
        "state": state,
        "decisions": [{"query": n, **d} for n, r in reports.items() for d in r["decisions"]],
        "queries": reports,
    }


def _show(progress: Progress, session: Session, queries: Sequence[Query]) -> None:
    rows = bytes = 0
    lag = None
    for q in queries:
        n, b = zip(*q.running.sizes().values(), strict=True) if q.running.tasks else ((0,), (0,))
        rows, bytes = rows + sum(n), bytes + sum(b)
        shown = [s.shown for s in q.running.inputs.values() if s.shown is not None]
        if shown and q.running.reached is not None:
            ticks = 1 if q.running.query.time_kind is TimeKind.INTEGER else 1_000_000
            lag = max(lag or 0.0, (max(shown) - q.running.reached) / ticks)
    events = sum(s.arrived for s in session.inputs.values())
    progress.update(events, sum(q.running.produced for q in queries), lag, rows, bytes)


class Outputs:
    """Where the results of each query go: its own target, ``--out``, or a table on the screen.

    With a checkpoint results are first spooled beside the state, in segments that a snapshot closes; the sinks are
    written from the segments at the end. So a run that was stopped and resumed writes each result exactly once.
    """

    def __init__(
        self, queries: Sequence[Query], out: Path | None, base: Path, stdout: TextIO, checkpoint: Path | None
    ) -> None:
        self.queries, self.out, self.base, self.stdout = list(queries), out, base, stdout
        self.labels = [q.running.query.name or f"query_{i + 1}" for i, q in enumerate(queries)]
        self.spools = None if checkpoint is None else [Spool(checkpoint / "results" / n) for n in self.labels]
        self.folder = out is not None and str(out) != "-" and (len(queries) > 1 or out.suffix == "")
        self._check()
        self.texts: list[tuple[str, io.StringIO]] = []
        self.sinks = self._open()
        if self.spools is not None:  # it was only a trial: written to in the end
            self.abort()

    def _check(self) -> None:
        """Two results must not meet in one file."""
        own = [q.running.query.target for q in self.queries]
        for target in own:
            if target not in (None, "-") and own.count(target) > 1:
                raise JobError(f"two queries write to {target!r}; give each a file of its own.")
        self._check_sources([t for t in own if t is not None])
        rest = own.count(None)
        if self.out is None or rest == 0:
            return
        if str(self.out) == "-" and rest > 1:
            raise JobError("the job has several queries, and standard output takes one; give --out a folder.")
        if self.folder and not self.out.is_dir() and (self.out.exists() or self.out.name.endswith(EXTENSIONS)):
            raise JobError(f"the job has several queries, so --out must be a folder; {str(self.out)!r} names a file.")

    def _check_sources(self, targets: Sequence[str]) -> None:
        """A result must not take the place of a file that the job reads."""
        catalog = self.queries[0].session.catalog
        read = {**catalog.streams, **catalog.relations}
        sources = [getattr(d, "source", None) for d in read.values()]
        paths = {(self.base / s).resolve(): s for s in sources if isinstance(s, str | Path) and str(s) != "-"}
        wanted = [(self.base / t).resolve() for t in targets]
        if self.out is not None and not self.folder and str(self.out) != "-":
            wanted.append(self.out.resolve())
        for path in wanted:
            if path in paths:
                raise JobError(f"{str(paths[path])!r} is read by the job, so its results cannot be written there.")

    def _open(self) -> list[Sink]:
        sinks: list[Sink] = []
        self.texts = []
        try:
            for q, label in zip(self.queries, self.labels, strict=True):
                sinks.append(self._sink(q, label))
        except BaseException:
            for sink in sinks:
                sink.abort()
            raise
        return sinks

    def _sink(self, q: Query, label: str) -> Sink:
        target = q.running.query.target
        if target is not None:
            return open_sink(target, q.schema, base=self.base, stdout=self.stdout)
        if self.out is None and len(self.queries) > 1:
            text = io.StringIO()  # several tables on one screen: one after another
            self.texts.append((label, text))
            return open_sink(None, q.schema, stdout=text, hold=HOLD)
        if self.out is not None and self.folder:
            return open_sink(self.out / f"{label}.parquet", q.schema, stdout=self.stdout)
        ends = all(f.source.finite for f in q.session.feeds.values())
        return open_sink(self.out, q.schema, stdout=self.stdout, hold=HOLD if ends else 0)

    def write(self) -> None:
        for i, q in enumerate(self.queries):
            for batch in q.fetch():
                if self.spools is not None:
                    self.spools[i].add(batch)
                else:
                    self.sinks[i].write(batch)

    def flush(self) -> dict[str, Any]:
        assert self.spools is not None
        return {"segments": [s.cut() for s in self.spools]}

    def resume(self, extra: dict[str, Any]) -> None:
        assert self.spools is not None
        for spool, count in zip(self.spools, extra["segments"], strict=True):
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
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / f"{self.count}.arrow"
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, self.waiting[0].schema) as writer:
                for batch in self.waiting:
                    writer.write_batch(batch)
            self.waiting, self.count = [], self.count + 1
        return self.count

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
        for i in range(self.count):
            with pa.memory_map(str(self.folder / f"{i}.arrow")) as file:
                reader = pa.ipc.open_file(file)
                out += [reader.get_batch(j) for j in range(reader.num_record_batches)]
        return out
