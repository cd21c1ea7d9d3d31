"""Jobs from files: what ``eddyline run`` and ``eddyline explain`` do."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial, wraps
from pathlib import Path
from typing import Any, TextIO

from eddyline.core.errors import CqlError, EddylineError, JobError, MissingColumnWarning, Span
from eddyline.core.time import SystemClock, TimeKind
from eddyline.cql.job import QueryStatement, parse_job
from eddyline.engine.base_session import Declaring, Q
from eddyline.engine.bundles import Recorder, bundle_paths, seen_inline
from eddyline.engine.destinations import check_destinations
from eddyline.engine.job_text import JobText, read_job
from eddyline.engine.outputs import RESULTS, Outputs, Result
from eddyline.engine.progress import Progress
from eddyline.engine.query import Query
from eddyline.engine.row_warnings import Notices, notes
from eddyline.engine.session import Session
from eddyline.engine.snapshot import Snapshots
from eddyline.engine.stopping import StopRequest
from eddyline.io import durable
from eddyline.io.locking import DirectoryLock
from eddyline.kernels import waiting
from eddyline.plan.print_mermaid import mermaid

SPARK_STATE = "spark"  # the folder in a checkpoint in which Spark keeps what it needs
SECONDS_PER_SNAPSHOT = 10.0  # seconds of work between two snapshots of a checkpointed run


def declare_job(
    session: Declaring[Q],
    job: JobText,
    out: Path | None = None,
    report: Path | None = None,
    checkpoint: Path | None = None,
    bundle: Path | None = None,
) -> list[Q]:
    """Declare everything in a job in this session, and return its queries; nothing is read yet but schemas. ``out``,
    ``report``, ``checkpoint`` and ``bundle`` are what else will be written: nothing may meet in one place."""
    queries = []
    statements = parse_job(job.text)
    names = [s.name for s in statements if isinstance(s, QueryStatement)]
    bundles = [] if bundle is None else bundle_paths(bundle, names)
    further = [("--report", report), *(("--bundle", path) for path in bundles)]
    check_destinations(job, statements, out, further, _state_folders(checkpoint))
    with _warnings_as_notes():
        for statement in statements:
            query = session.declare(statement)
            if isinstance(statement, QueryStatement) and query is not None:
                queries.append(query)
    if not queries:
        raise CqlError("the job has no query: add a SELECT.", job.text, Span(0, max(1, len(job.text.rstrip()))))
    _check_standard_input(session, job)
    return queries


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Warnings about inputs are notes on the command line, whose user has no line of Python that they could name."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", MissingColumnWarning)
            yield
    finally:
        for one in caught:
            if issubclass(one.category, MissingColumnWarning):
                write_notes([str(one.message)])
            else:
                warnings.showwarning(one.message, one.category, one.filename, one.lineno)


def _check_standard_input(session: Declaring[Any], job: JobText) -> None:
    for name in _readers_of_standard_input(session) if job.takes_input else ():
        raise JobError(f"{name!r} reads standard input, where the job itself came from: put the job into a file.")


def _readers_of_standard_input(session: Declaring[Any]) -> list[str]:
    named: dict[str, Any] = {**session.catalog.streams, **session.catalog.relations}
    return [name for name, definition in named.items() if definition.source == "-"]


def explain_job(
    path: Path,
    *,
    stdout: TextIO,
    form: str = "text",
    travel: Callable[[Query, Session], Iterable[str]] | None = None,
) -> int:
    """``form`` is text, json (one object by query) or mermaid. ``travel`` says how the work of a query would be split
    over shards; that needs no Spark."""
    job = read_job(path)
    session = Session(base=job.base)
    queries = declare_job(session, job)
    if form == "json":
        print(json.dumps([json.loads(q.plan().to_json()) for q in queries], indent=2, ensure_ascii=False), file=stdout)
        return 0
    if form == "mermaid":
        print("\n\n".join(mermaid(q.plan()) for q in queries), file=stdout)
        return 0
    for i, q in enumerate(queries):
        if i:
            print("\n" + "─" * 60 + "\n", file=stdout)
        print((f"{q.name}:\n" if q.running.query.name else "") + q.explain(), file=stdout)
        if travel is not None:
            print("\non Spark\n" + "\n".join(f"  {line}" for line in travel(q, session)), file=stdout)
    return 0


def owning_checkpoint(run: Callable[..., int]) -> Callable[..., int]:
    """Makes a run the owner of the directory of its checkpoint, which is made where it is missing. Another run on it is
    refused, and the directory is free when this one ends, however it does."""

    @wraps(run)
    def owned(path: Path, *, checkpoint: Path | None, **options: Any) -> int:
        _refuse_inside(checkpoint, options.get("out"), "--out")
        _refuse_inside(checkpoint, options.get("report"), "--report")
        _refuse_inside(checkpoint, options.get("bundle"), "--bundle")
        check_writable(checkpoint, "--checkpoint", folder=True)
        with nullcontext() if checkpoint is None else DirectoryLock(checkpoint, "the checkpoint"):
            return run(path, checkpoint=checkpoint, **options)

    return owned


def _refuse_inside(checkpoint: Path | None, path: Path | None, option: str) -> None:
    if path is None or str(path) == "-":
        return
    for folder in _state_folders(checkpoint):
        if path.resolve().is_relative_to(folder.resolve()):
            raise JobError(
                f"{option} {path} is in the folder {folder.name!r} of the checkpoint, which holds state: name"
                " another path."
            )


def _state_folders(checkpoint: Path | None) -> list[Path]:
    """A checkpoint may lie where other files are; the folders in it that are its own hold state only."""
    return [] if checkpoint is None else [checkpoint / own for own in (RESULTS, "pieces", SPARK_STATE)]


def checked_job(path: Path, report: Path | None, learned: Path | None, begun: JobError | None) -> JobText:
    """The text of a job whose files can be written; ``begun``: why its checkpoint is not of this runtime."""
    check_writable(report, "--report", folder=False)
    if begun is not None:
        raise begun
    job = read_job(path)
    check_writable(learned, "--learned", folder=False)
    return job


@contextmanager
def completed(outputs: Outputs, progress: Progress | None) -> Iterator[None]:
    """Close the outputs behind the run, after the last line of progress; an error removes what was written."""
    try:
        yield
        if progress is not None:
            progress.finish()
        outputs.close()
    except BaseException:
        outputs.abort()
        raise


@owning_checkpoint
def run_job(
    path: Path,
    *,
    out: Path | None,
    report: Path | None,
    checkpoint: Path | None,
    strict: bool,
    progress: Progress | None,
    stdout: TextIO,
    quiet: bool = False,
    learned: Path | None = None,
    spill: Path | None = None,
    bundle: Path | None = None,
) -> int:
    """Run a job to the end of its inputs; results go to their sinks as they come. Unless it is ``quiet`` a line on
    standard error says what was written where."""
    clock = SystemClock()
    begin = clock.nanoseconds()
    other = checkpoint if checkpoint is not None and (checkpoint / SPARK_STATE).exists() else None
    job = checked_job(path, report, learned, None if other is None else begun_elsewhere(other, "spark"))
    session = Session(strict=strict, base=job.base, learned=learned, spill=spill)
    session.warns = False  # notes are written instead
    queries = declare_job(session, job, out, report, checkpoint, bundle)
    recorder = None if bundle is None else _recorder(bundle, queries)
    if checkpoint is not None:
        check_rereadable(session)
    finite = all(f.source.finite for f in session.feeds.values())
    results = [Result(q.running.query.name, q.running.query.target, q.schema) for q in queries]
    outputs = Outputs(results, out, job.base, stdout, checkpoint, finite=finite)
    with completed(outputs, progress), _compiling_shown(progress):
        _run(session, queries, outputs, checkpoint, progress, recorder, clock)
    if learned is not None:
        session.save_learned()
    write_done(outputs, quiet)
    write_bundles(recorder, quiet)
    write_notes(notes(session.left_out(), named=bool(session.catalog.views)))
    if report is not None:
        write_report(report, job_report(session, queries, (clock.nanoseconds() - begin) / 1e9), stdout)
    return 0


def _run(
    session: Session,
    queries: Sequence[Query],
    outputs: Outputs,
    checkpoint: Path | None,
    progress: Progress | None,
    recorder: Recorder | None,
    clock: SystemClock,
) -> None:
    """Read the sources to their end; with a checkpoint go on from its newest snapshot, and save others."""
    snapshots = None if checkpoint is None else Snapshots(checkpoint)
    if snapshots is not None and outputs.spools is not None:
        outputs.spools.keep(_restored(session, snapshots) if snapshots.newest() else None)
    saved, notices = clock.nanoseconds(), Notices()
    with StopRequest(clock) if snapshots is not None else nullcontext() as stop:
        more = True
        while more:
            if recorder is not None:
                recorder.look()
            more = session.step()
            _write(outputs, queries)
            write_notes(notices.wrong_times(session.left_out()), progress)
            if progress is not None:
                _show(progress, session, queries)
            stopped = stop is not None and stop.asked
            if snapshots is not None and (stopped or (clock.nanoseconds() - saved) / 1e9 > SECONDS_PER_SNAPSHOT):
                session.save_to(snapshots, {"results": outputs.cut()})
                saved = clock.nanoseconds()
            if stopped:  # stopping is not the end of the input
                raise KeyboardInterrupt(f"the state is in {checkpoint}; the same command continues from there.")
    if any(not q.running.inputs for q in queries):
        session.advance()
    _write(outputs, queries)
    if snapshots is not None:
        session.save_to(snapshots, {"results": outputs.cut()})


@contextmanager
def _compiling_shown(progress: Progress | None) -> Iterator[None]:
    """While a call waits for the compiler the progress line says so, and counts the seconds."""
    before = waiting.announce
    if progress is not None:
        waiting.announce = progress.temporary_note
    try:
        yield
    finally:
        waiting.announce = before


def _restored(session: Session, snapshots: Snapshots) -> Mapping[str, Any]:
    """Go on from the newest snapshot; returns the mark of the results that belong to it."""
    mark = session.restore_from(snapshots).get("results")
    if not isinstance(mark, dict):
        raise EddylineError(
            f"the snapshot in {str(snapshots.directory)!r} was saved by a program and not by eddyline run, so the"
            " results before it are not there; give --checkpoint an empty directory."
        )
    return mark


def _write(outputs: Outputs, queries: Sequence[Query]) -> None:
    for number, q in enumerate(queries):
        for batch in q.fetch():
            outputs.write(number, batch)


def begun_elsewhere(checkpoint: Path, runtime: str) -> JobError:
    """Each runtime keeps its state in its own way; results of two would get mixed up."""
    return JobError(
        f"--checkpoint {checkpoint} was begun with --runtime {runtime}, and the other runtime cannot continue it:"
        f" use --runtime {runtime}, or give an empty directory."
    )


def check_rereadable(session: Declaring[Any]) -> None:
    """Going on means reading the sources again, past what was read before."""
    for name in _readers_of_standard_input(session):
        raise JobError(f"{name!r} reads standard input, which cannot be read again: leave --checkpoint out.")


def write_notes(texts: Iterable[str], progress: Progress | None = None) -> None:
    """On standard error, where no progress line stands in the way."""
    for text in texts:
        if progress is not None:
            progress.finish()
        print(f"note: {text}", file=sys.stderr)


def write_done(outputs: Outputs, quiet: bool) -> None:
    """Say on standard error which files were written."""
    for text in () if quiet else outputs.written():
        print(text, file=sys.stderr)


def _recorder(path: Path, queries: Sequence[Query]) -> Recorder:
    recorder = Recorder()
    for own, q in zip(bundle_paths(path, [q.running.query.name for q in queries]), queries, strict=True):
        check_writable(own, "--bundle", folder=False)
        recorder.add(own, partial(seen_inline, q))
    return recorder


def write_bundles(recorder: Recorder | None, quiet: bool) -> None:
    for path in () if recorder is None else recorder.write():
        if not quiet:
            print(f"bundle written to {path}: eddyline view makes a page of it", file=sys.stderr)


def write_report(path: Path, report: Mapping[str, Any], stdout: TextIO) -> None:
    text = json.dumps(report, indent=2, default=str)
    if str(path) == "-":
        print(text, file=stdout)
        return
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as e:
        raise EddylineError(f"--report {path} cannot be written: {e.strerror}.") from e


def check_writable(path: Path | None, option: str, folder: bool) -> None:
    """Make the folder that a path needs, before hours of work are lost because it cannot be made."""
    if path is None or str(path) == "-":
        return
    for above in (path, *path.parents) if folder else path.parents:
        if above.is_file():
            raise JobError(f"{option} {path}: {str(above)!r} is a file; a directory is wanted.")
    try:
        if folder:
            durable.make_folder(path)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
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
        + sum(r.invalid for r in session.invalid_of_relations.values()),
        "shed": sum(s.shed.count for s in inputs),
        "operators": [{"query": n, **o} for n, r in reports.items() for o in r["operators"]],
        "state": state,
        "decisions": [{"query": n, **d} for n, r in reports.items() for d in r["decisions"]],
        "adapting": [{"query": n, **a} for n, r in reports.items() for a in r["adapting"]],
        "queries": reports,
    }


def _show(progress: Progress, session: Session, queries: Sequence[Query]) -> None:
    rows = bytes = 0
    lag = None
    for q in queries:
        n, b = zip(*q.running.sizes().values(), strict=True) if q.running.operators else ((0,), (0,))
        rows, bytes = rows + sum(n), bytes + sum(b)
        shown = [s.shown for s in q.running.inputs.values() if s.shown is not None]
        if shown and q.running.reached is not None:
            ticks = 1 if q.running.query.time_kind is TimeKind.INTEGER else 1_000_000
            lag = max(lag or 0.0, (max(shown) - q.running.reached) / ticks)
    events = sum(s.arrived for s in session.inputs.values())
    progress.update(events, sum(q.running.produced for q in queries), lag, rows, bytes)
