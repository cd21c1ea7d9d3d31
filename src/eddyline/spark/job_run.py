"""One Spark query for many of ours: it reads every source once and answers all of them.

``spark.job`` runs the jobs of the command line with it, ``SparkRuntime.run`` the queries of a session.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa

from eddyline.core.errors import EddylineError, JobError
from eddyline.core.time import SystemClock
from eddyline.engine.bundles import Recorder
from eddyline.engine.job import SPARK_STATE, write_notes
from eddyline.engine.progress import Progress
from eddyline.engine.row_warnings import LeftOut, Notices
from eddyline.engine.stopping import StopRequest
from eddyline.plan.logical import BoundQuery
from eddyline.plan.plan_data import PlanGraph
from eddyline.spark import job_checkpoint, jvm, requirements
from eddyline.spark.collect import settings_for
from eddyline.spark.failures import original, stopped
from eddyline.spark.packed_sources import PackedSession
from eddyline.spark.program import Program
from eddyline.spark.shard import ShardEngine
from eddyline.spark.spark_query import SparkQuery
from eddyline.spark.statistics import Account

SECONDS_BETWEEN_LOOKS: Final = 0.2  # at a running query


class JobSession(PackedSession, Protocol):
    """The part of the session on Spark that a run uses."""

    shards: int
    invalid_of_relations: dict[str, Any]
    accounts: Callable[[], Mapping[str, Account]]

    def program(self, queries: list[BoundQuery]) -> Program: ...
    def shards_reported(self) -> None: ...
    def end_monitor(self) -> None: ...


class Destination(Protocol):
    """Where results go, by the number of their query."""

    def write(self, number: int, batch: pa.RecordBatch) -> None: ...
    def put(self, segment: int, found: Mapping[int, Sequence[pa.RecordBatch]]) -> None: ...


class JobRun:
    """One run of a job: the program, the Spark query, and what the shards say. Some of ``queries`` run in shards, and
    those over the system's streams run here."""

    def __init__(
        self, session: JobSession, queries: Sequence[Any], outputs: Destination, progress: Progress | None
    ) -> None:
        self.session, self.outputs, self.progress = session, outputs, progress
        self.queries: list[SparkQuery] = [q for q in queries if isinstance(q, SparkQuery)]
        self.numbers = [n for n, q in enumerate(queries) if isinstance(q, SparkQuery)]  # where their results go
        self.watching = [(n, q) for n, q in enumerate(queries) if not isinstance(q, SparkQuery)]
        session.accounts = self.accounts
        self.account = Account()
        self.notices = Notices()
        self.recorder: Recorder | None = None
        self._recorded = 0  # the last micro-batch that the recorder has a sample of
        self.lock = threading.Lock()  # around the account: micro-batches come in another thread
        self.stop = StopRequest()
        self.taking = False  # a micro-batch is being worked on
        self.failed: BaseException | None = None  # what happened to one
        self.at_once = False  # in one batch, not in micro-batches
        self.program: Program | None = None
        self.places: list[tuple[int, int]] = []  # group and number in it, of each query

    def start(self, checkpoint: Path | None, finite: bool) -> None:
        # A call to a Spark Connect server ends with its answer: there is no moment at which a wish could be looked at.
        connect = requirements.is_connect(self.session.spark)
        with nullcontext() if connect else StopRequest(SystemClock(), waits=checkpoint is not None) as stop:
            self.stop = stop or self.stop
            self.go(checkpoint, finite)

    def go(self, checkpoint: Path | None, finite: bool) -> None:
        self.plan()
        assert self.program is not None
        if not self.program.sources():
            self._without_streams()
            if self.stop.asked:
                raise KeyboardInterrupt
            return
        if checkpoint is not None:
            job_checkpoint.check(checkpoint, self.program, self.session.shards, list(self.program.places))
        folder = tempfile.TemporaryDirectory(prefix="eddyline-") if checkpoint is None else nullcontext(str(checkpoint))
        with folder as place:
            self._run(Path(place), finite, checkpoint is not None)

    def plan(self) -> None:
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
                self.outputs.write(self.numbers[self.program.places[number + n]], batch)
            self.account.add([json.dumps({"group": g, **engine.statistics()}, default=str)])
            number += len(group.queries)

    def _run(self, folder: Path, finite: bool, lasting: bool) -> None:
        from eddyline.spark.packed_sources import packed
        from eddyline.spark.pipeline import process

        assert self.program is not None
        # A Connect server keeps micro-batches to itself.
        if self.at_once or requirements.is_connect(self.session.spark):
            with _own_sentences():
                self._take(process(self.program, packed(self.session, self.program, False), None, streaming=False), 0)
            return
        frame = process(self.program, packed(self.session, self.program, True), None, streaming=True)
        writer = frame.writeStream.foreachBatch(self._taken).option("checkpointLocation", str(folder / SPARK_STATE))
        writer = writer.trigger(availableNow=True) if finite else writer.trigger(processingTime="0 seconds")
        with _own_sentences():
            problem = None if self.stop.asked else self._watch(writer.start())
            if self.stop.asked and self.failed is None:
                raise KeyboardInterrupt(f"the state is in {folder}; the same command continues from there." * lasting)
            if problem is not None:
                raise problem

    def _watch(self, running: Any) -> BaseException | None:
        """Show progress until the query ends or is to be stopped; returns what ended it."""
        try:
            while not running.awaitTermination(SECONDS_BETWEEN_LOOKS):
                if self.stop.asked and not (self.stop.waits and self.taking):
                    break
                write_notes(self.notices.wrong_times(self.left_out()), self.progress)
                self._show()
                self._look()
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
        results = {self.numbers[p]: in_order_of_time(found.get(p, []), q.schema) for p, q in enumerate(self.queries)}
        self.session.shards_reported()
        try:
            self.outputs.put(batch, {**results, **{n: q.fetch() for n, q in self.watching}})
        except BrokenPipeError:  # the reader of standard output has seen enough
            raise
        except OSError as error:
            where = f" to {error.filename}" if error.filename else ""
            raise EddylineError(f"results cannot be written{where}: {error.strerror}.") from error

    def accounts(self) -> dict[str, Account]:
        """What the shards have said of each query."""
        with self.lock:
            return {q.name: self.account.of(g, n) for q, (g, n) in zip(self.queries, self.places, strict=True)}

    def end_watching(self) -> None:
        """The last rows of the system's streams, and what they bring."""
        if self.watching:
            self.session.end_monitor()
        for number, q in self.watching:
            for batch in q.fetch():
                self.outputs.write(number, batch)

    def _show(self) -> None:
        if self.progress is None or not self.account.shards:
            return
        with self.lock:
            reports, events = self.reports(), self.events()
        rows = sum(r["state"]["rows"] for r in reports)
        bytes = sum(r["state"]["bytes"] for r in reports)
        self.progress.update(events, sum(r["results"] for r in reports), None, rows, bytes)

    def _look(self) -> None:
        """Samples for a bundle come with micro-batches: in between nothing is known."""
        if self.recorder is not None and self.account.batches > self._recorded:
            self._recorded = self.account.batches
            self.recorder.look()

    def seen(self, query: SparkQuery) -> tuple[PlanGraph, dict[str, Any]]:
        """The plan of a query with what its shards have said by now."""
        place = self.places[self.queries.index(query)]
        with self.lock:
            query.account = self.account.of(*place)
        counts = [one for one in query.account.left_out() if one.arrived or one.late]
        inputs = {one.name: {"arrived": one.arrived, "late": one.late, "invalid": one.invalid} for one in counts}
        results = query.account.report(0, 0)["results"]
        return query.plan(), {"pinned": False, "options": dict(query.bound.options), "inputs": inputs, "rows": results}

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


class ResultsInMemory:
    """Results in memory. A micro-batch that is run again replaces its own."""

    def __init__(self) -> None:
        self._segments: dict[int, Mapping[int, Sequence[pa.RecordBatch]]] = {}

    def write(self, number: int, batch: pa.RecordBatch) -> None:
        self.put(-len(self._segments) - 1, {number: [batch]})

    def put(self, segment: int, found: Mapping[int, Sequence[pa.RecordBatch]]) -> None:
        self._segments[segment] = found

    def of(self, number: int) -> list[pa.RecordBatch]:
        return [b for found in self._segments.values() for b in found.get(number, ())]


def answer_together(session: JobSession, queries: Sequence[SparkQuery]) -> None:
    """Answer queries of a session in one Spark query; their results and reports are theirs afterwards."""
    streaming = {q.streaming for q in queries}
    if len(streaming) > 1:
        raise JobError(
            "run() answers all queries in one Spark query, and some of them read streaming DataFrames, others batch"
            " ones: make all of them streaming, or ask each query for its results."
        )
    kept, before = ResultsInMemory(), session.accounts
    run = JobRun(session, queries, kept, None)
    run.at_once = streaming == {False}
    try:
        run.plan()
        assert run.program is not None
        with settings_for(session.spark, len(run.program.keys())):
            run.go(None, finite=True)
    finally:
        session.accounts = before
    for number, (q, place) in enumerate(zip(run.queries, run.places, strict=True)):
        q.answered(pa.Table.from_batches(kept.of(number), q.schema), run.account.of(*place))


@contextmanager
def _own_sentences() -> Iterator[None]:
    """Our own sentence instead of Spark's exception around it."""
    try:
        yield
    except Exception as error:
        found = original(error) or stopped(error, "; --spark-log FILE keeps what Spark says of it")
        if found is None or found is error:
            raise
        raise found from error


def in_order_of_time(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> list[pa.RecordBatch]:
    """The results of a micro-batch in order of time, and so that two runs agree: the order of shards is Spark's."""
    if not batches:
        return []
    table = pa.Table.from_batches(batches, schema)
    last = [n for n in ("_time", "_sign") if n in schema.names]
    keys = [*last, *(n for n in schema.names if n not in last)]
    return table.sort_by([(n, "ascending") for n in keys]).to_batches()  # type: ignore[no-any-return]
