"""``eddyline run`` on Spark: one streaming query reads every source once and answers all queries of the job.

With a checkpoint the results of each micro-batch are put into a file named by the micro-batch, so that one which is
run again replaces its own results; the sinks are written from those files at the end. So results are neither lost nor
repeated across restarts, whatever was killed.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa

from eddyline.core.errors import EddylineError, JobError
from eddyline.core.time import SystemClock
from eddyline.engine.job import (
    SPARK_STATE,
    begun_elsewhere,
    check_rereadable,
    check_writable,
    declare_job,
    owning_checkpoint,
    write_done,
    write_notes,
    write_report,
)
from eddyline.engine.job_text import read_job
from eddyline.engine.left_out import LeftOut, Notices, notes
from eddyline.engine.outputs import Outputs, Result
from eddyline.engine.progress import Progress
from eddyline.engine.snapshot import Snapshots
from eddyline.engine.stopping import StopRequest
from eddyline.spark import job_checkpoint as beginnings
from eddyline.spark import jvm, requirements
from eddyline.spark.failures import original, stopped
from eddyline.spark.program import Program, state_partitions
from eddyline.spark.session import SparkRuntime
from eddyline.spark.shard import ShardEngine
from eddyline.spark.spark_query import SparkQuery
from eddyline.spark.statistics import Account

WAIT = 0.2  # seconds between two looks at a running query


def run_job(path: Path, *, master: str | None, checkpoint: Path | None, **options: Any) -> int:
    """Run a job to the end of its inputs. What cannot be is refused before the directory of a checkpoint is made."""
    if master is not None and master.startswith("sc://") and checkpoint is not None:
        raise JobError(
            "--checkpoint does not work with a Spark Connect server (sc://…): leave it out, or give a master."
        )
    return _run_job(path, master=master, checkpoint=checkpoint, **options)


@owning_checkpoint
def _run_job(
    path: Path,
    *,
    master: str | None,
    shards: int | None,
    out: Path | None,
    report: Path | None,
    checkpoint: Path | None,
    strict: bool,
    progress: Progress | None,
    stdout: TextIO,
    quiet: bool = False,
    learned: Path | None = None,
) -> int:
    clock = SystemClock()
    begin = clock.nanoseconds()
    connect = master is not None and master.startswith("sc://")
    check_writable(report, "--report", folder=False)
    if checkpoint is not None and Snapshots(checkpoint).numbers():
        raise begun_elsewhere(checkpoint, "inline")
    # Mistakes in the job are reported before a JVM is started for it.
    job = read_job(path)
    check_writable(learned, "--learned", folder=False)
    session = SparkRuntime(None, strict=strict, base=job.base, learned=learned)

    def start() -> None:
        from eddyline.spark.local import DEFAULT_MASTER, local_session

        if session.spark is None:
            if progress is not None:
                progress.note(f"starting Spark on {master or DEFAULT_MASTER}")
                jvm.before_words = progress.erase
            begun = None if checkpoint is None else beginnings.shards_of(checkpoint)
            with jvm.ended_if_interrupted():
                spark = local_session(master, warm=True)
                session.attach(spark, begun if shards is None else shards, sized=not connect)
            if progress is not None:
                progress.note(f"Spark is there ({_tasks(spark)}); the first micro-batch is on its way")

    session.start = start
    queries = declare_job(session, job, out, report, checkpoint)
    if any(not isinstance(q, SparkQuery) for q in queries):
        raise JobError(
            "a job on Spark cannot read SysStream or Decisions: read them in Python with ed.Session(spark), or run the"
            " job with --runtime inline."
        )
    if checkpoint is not None:
        check_rereadable(session)
    finite = all(s.finite for s in session.opened.values()) and not session.frames
    if connect and not finite:
        raise JobError(
            "this job reads sources without an end, and from a Spark Connect server (sc://…) results come at the end"
            " only: give a master, or write the answer with eddyline.spark.query(…).writeStream."
        )
    results = [Result(q.bound.name, q.bound.target, q.schema) for q in queries]
    outputs = Outputs(results, out, job.base, stdout, checkpoint, finite=finite)
    if checkpoint is not None and outputs.spools is not None:
        outputs.spools.keep_first(beginnings.done(checkpoint))
    try:
        run = JobRun(session, queries, outputs, progress)
        start()
        run.start(checkpoint, finite)
        if progress is not None:
            progress.finish()
        outputs.close()
    except BaseException:
        outputs.abort()
        raise
    if learned is not None:
        session.save_learned(accounts=[run.account])
    reports = {q.name: r for q, r in zip(queries, run.reports(), strict=True)}
    write_done(outputs, quiet)
    found = run.left_out()
    write_notes([*run.notices.wrong_times(found), *notes(found, named=bool(session.catalog.views))])
    if report is not None:
        seconds = (clock.nanoseconds() - begin) / 1e9
        write_report(report, job_report(reports, run.account, found, seconds), stdout)
    return 0


def _tasks(spark: Any) -> str:
    count = state_partitions(spark)
    return f"{count} task{'' if count == 1 else 's'} at a time"


class JobRun:
    """One run of a job: the program, the Spark query, and what the shards say."""

    def __init__(
        self, session: SparkRuntime, queries: Sequence[SparkQuery], outputs: Outputs, progress: Progress | None
    ) -> None:
        self.session, self.queries, self.outputs, self.progress = session, list(queries), outputs, progress
        self.account = Account()
        self.notices = Notices()
        self.lock = threading.Lock()  # around the account: micro-batches come in another thread
        self.stop = StopRequest()
        self.taking = False  # a micro-batch is being worked on
        self.failed: BaseException | None = None  # what happened to one
        self.program: Program | None = None
        self.places: list[tuple[int, int]] = []  # group and number in it, of each query

    def start(self, checkpoint: Path | None, finite: bool) -> None:
        # A call to a Spark Connect server ends with its answer: there is no moment at which a wish could be looked at.
        connect = requirements.is_connect(self.session.spark)
        with nullcontext() if connect else StopRequest(SystemClock(), waits=checkpoint is not None) as stop:
            self.stop = stop or self.stop
            self._start(checkpoint, finite)

    def _start(self, checkpoint: Path | None, finite: bool) -> None:
        self._plan()
        assert self.program is not None
        if not self.program.sources():
            self._without_streams()
            if self.stop.asked:
                raise KeyboardInterrupt
            return
        if checkpoint is not None:
            beginnings.check(checkpoint, self.program, self.session.shards, list(self.program.places))
        folder = tempfile.TemporaryDirectory(prefix="eddyline-") if checkpoint is None else nullcontext(str(checkpoint))
        with folder as place:
            self._run(Path(place), finite, checkpoint is not None)

    def _plan(self) -> None:
        self.program = self.session.program([q.bound for q in self.queries])
        numbers = ((g, n) for g, group in enumerate(self.program.groups) for n in range(len(group.queries)))
        by_place = dict(zip(self.program.places, numbers, strict=True))
        self.places = [by_place[place] for place in range(len(self.queries))]

    def _without_streams(self) -> None:
        """Over constant relations only there is one instant and nothing to ship."""
        assert self.program is not None
        number = 0
        for g, group in enumerate(self.program.groups):
            engine = ShardEngine(group, 0)
            for n, batch in engine.process([], ended=True):
                self.outputs.write(self.program.places[number + n], batch)
            self.account.add([json.dumps({"group": g, **engine.statistics()}, default=str)])
            number += len(group.queries)

    def _run(self, folder: Path, finite: bool, lasting: bool) -> None:
        from eddyline.spark.packed_sources import packed
        from eddyline.spark.pipeline import process

        assert self.program is not None
        if requirements.is_connect(self.session.spark):  # its server keeps micro-batches to itself
            with _told():
                self._take(process(self.program, packed(self.session, self.program, False), None, streaming=False), 0)
            return
        frame = process(self.program, packed(self.session, self.program, True), None, streaming=True)
        writer = frame.writeStream.foreachBatch(self._taken).option("checkpointLocation", str(folder / SPARK_STATE))
        writer = writer.trigger(availableNow=True) if finite else writer.trigger(processingTime="0 seconds")
        with _told():
            problem = None if self.stop.asked else self._watch(writer.start())
            if self.stop.asked and self.failed is None:
                raise KeyboardInterrupt(f"the state is in {folder}; the same command goes on from there." * lasting)
            if problem is not None:
                raise problem

    def _watch(self, running: Any) -> BaseException | None:
        """Show progress until the query ends or is to be stopped; returns what ended it."""
        try:
            while not running.awaitTermination(WAIT):
                if self.stop.asked and not (self.stop.waits and self.taking):
                    break
                write_notes(self.notices.wrong_times(self.left_out()), self.progress)
                self._show()
        except Exception as error:
            jvm.mute()  # tasks that are cut off complain
            # What went wrong in this process is known here; Spark's exception has only its text.
            return self.failed or error
        finally:
            if self.stop.asked:
                jvm.mute()
            running.stop()
        return self.failed

    def _taken(self, df: Any, batch: int) -> None:
        """Called by Spark for each micro-batch, in a thread of its own."""
        if self.stop.asked:
            raise RuntimeError("the job is being stopped")
        self.taking = True
        try:
            self._take(df, batch)
        except BaseException as error:
            if not self.stop.asked:
                self.failed = self.failed or error
            # Spark searches the text of an exception for signs of an interruption, with a regular expression that
            # overflows the JVM's stack on the long text of an exception that came from the JVM itself.
            raise RuntimeError("the micro-batch was not taken in") from None
        finally:
            self.taking = False

    def _take(self, df: Any, batch: int) -> None:
        """The results and statistics of one micro-batch; may be called again for the same one."""
        assert self.program is not None
        table = df.toArrow()
        with self.lock:
            self.account.add(table.column("_eddyline").drop_null().to_pylist())
        found: dict[int, list[pa.RecordBatch]] = {}
        for number, payload in zip(table.column("query").to_pylist(), table.column("payload"), strict=True):
            if number >= 0:
                with pa.ipc.open_stream(payload.as_buffer()) as reader:
                    found.setdefault(self.program.places[number], []).extend(reader)
        try:
            self.outputs.put(batch, {n: in_order(found.get(n, []), q.schema) for n, q in enumerate(self.queries)})
        except BrokenPipeError:  # the reader of standard output has seen enough
            raise
        except OSError as error:
            where = f" to {error.filename}" if error.filename else ""
            raise EddylineError(f"results cannot be written{where}: {error.strerror}.") from error

    def _show(self) -> None:
        if self.progress is None or not self.account.shards:
            return
        with self.lock:
            reports, events = self.reports(), self.events()
        rows = sum(r["state"]["rows"] for r in reports)
        bytes = sum(r["state"]["bytes"] for r in reports)
        self.progress.update(events, sum(r["results"] for r in reports), None, rows, bytes)

    def events(self) -> int:
        """Rows that arrived, those of a stream that several groups read once."""
        return sum(self.account.arrived().values())

    def left_out(self) -> list[LeftOut]:
        """What was turned away so far, of streams, constant relations and by expressions."""
        called = {place: q.name for q, place in zip(self.queries, self.places, strict=True)}
        return [*self.account.left_out(called), *self.session.invalid_of_relations.values()]

    def reports(self) -> list[dict[str, Any]]:
        named = zip(self.queries, self.places, strict=True)
        return [self.account.report(g, n) | {"query": q.name} for q, (g, n) in named]


@contextmanager
def _told() -> Iterator[None]:
    """Our own sentence instead of Spark's exception around it."""
    try:
        yield
    except Exception as error:
        found = original(error) or stopped(error, "; --spark-log FILE keeps what Spark says of it")
        if found is None or found is error:
            raise
        raise found from error


def job_report(
    reports: Mapping[str, Mapping[str, Any]], account: Account, found: Sequence[LeftOut], seconds: float
) -> dict[str, Any]:
    """One report for the job: the events of each stream once, everything else added up over the queries."""
    state = {k: sum(r["state"][k] for r in reports.values()) for k in next(iter(reports.values()))["state"]}
    return {
        "events": sum(account.arrived().values()),
        "results": sum(r["results"] for r in reports.values()),
        "seconds": seconds,
        "late": sum(one.late for one in found),
        "invalid": sum(one.invalid for one in found),
        "operators": [{"query": n, **o} for n, r in reports.items() for o in r["operators"]],
        "state": state,
        "decisions": [{"query": n, **d} for n, r in reports.items() for d in r["decisions"]],
        "adapting": [{"query": n, **a} for n, r in reports.items() for a in r.get("adapting", ())],
        "queries": reports,
    }


def in_order(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> list[pa.RecordBatch]:
    """The results of a micro-batch in order of time, and so that two runs agree: the order of shards is Spark's."""
    if not batches:
        return []
    table = pa.Table.from_batches(batches, schema)
    last = [n for n in ("_time", "_sign") if n in schema.names]
    keys = [*last, *(n for n in schema.names if n not in last)]
    return table.sort_by([(n, "ascending") for n in keys]).to_batches()  # type: ignore[no-any-return]
