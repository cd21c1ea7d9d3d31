"""``eddyline run`` on Spark: one streaming query reads every source once and answers all queries of the job.

With a checkpoint the results of each micro-batch are put into a file named by the micro-batch, so that one which is
run again replaces its own results; the sinks are written from those files at the end. So results are neither lost nor
repeated across restarts, whatever was killed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from eddyline.core.errors import JobError
from eddyline.core.time import SystemClock
from eddyline.engine.bundles import Recorder, bundle_paths
from eddyline.engine.job import (
    begun_elsewhere,
    check_rereadable,
    check_writable,
    checked_job,
    completed,
    declare_job,
    owning_checkpoint,
    write_bundles,
    write_done,
    write_notes,
    write_report,
)
from eddyline.engine.outputs import Outputs, Result
from eddyline.engine.progress import Progress
from eddyline.engine.row_warnings import LeftOut, notes
from eddyline.engine.snapshot import Snapshots
from eddyline.spark import job_checkpoint, jvm
from eddyline.spark.job_run import JobRun
from eddyline.spark.program import state_partitions
from eddyline.spark.session import SparkRuntime
from eddyline.spark.spark_query import SparkQuery
from eddyline.spark.statistics import Account


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
    bundle: Path | None = None,
) -> int:
    begin = SystemClock().nanoseconds()
    connect = master is not None and master.startswith("sc://")
    other = checkpoint if checkpoint is not None and Snapshots(checkpoint).numbers() else None
    # Mistakes in the job are reported before a JVM is started for it.
    job = checked_job(path, report, learned, None if other is None else begun_elsewhere(other, "inline"))
    session = SparkRuntime(None, strict=strict, base=job.base, learned=learned)

    def start() -> None:
        from eddyline.spark.local import DEFAULT_MASTER, local_session

        if session.spark is None:
            if progress is not None:
                progress.note(f"starting Spark on {master or DEFAULT_MASTER}")
                jvm.before_words = progress.erase
            begun = None if checkpoint is None else job_checkpoint.shards_of(checkpoint)
            with jvm.ended_if_interrupted():
                spark = local_session(master, warm=True)
                session.attach(spark, begun if shards is None else shards, sized=not connect)
            if progress is not None:
                progress.note(f"Spark has started ({_tasks(spark)}); waiting for the first micro-batch")

    session.start = start
    queries = declare_job(session, job, out, report, checkpoint, bundle)
    watching = [q for q in queries if not isinstance(q, SparkQuery)]
    _check_watching(watching, queries, checkpoint)
    if checkpoint is not None:
        check_rereadable(session)
    finite = all(s.finite for s in session.opened.values()) and not session.frames
    if connect and not finite:
        raise JobError(
            "this job reads sources without an end, and from a Spark Connect server (sc://…) results come at the end"
            " only: give a master, or write the answer with eddyline.spark.query(…).writeStream."
        )
    asked = [q.bound if isinstance(q, SparkQuery) else q.running.query for q in queries]
    results = [Result(b.name, b.target, q.schema) for b, q in zip(asked, queries, strict=True)]
    outputs = Outputs(results, out, job.base, stdout, checkpoint, finite=finite)
    if checkpoint is not None and outputs.spools is not None:
        outputs.spools.keep_first(job_checkpoint.done(checkpoint))
    with completed(outputs, progress):
        run = JobRun(session, queries, outputs, progress)
        _record(run, bundle, results)
        start()
        run.start(checkpoint, finite)
        run.end_watching()
    if learned is not None:
        session.save_learned(accounts=[run.account])
    reports = {q.name: r for q, r in zip(run.queries, run.reports(), strict=True)}
    write_done(outputs, quiet)
    write_bundles(run.recorder, quiet)
    found = run.left_out()
    write_notes([*run.notices.wrong_times(found), *notes(found, named=bool(session.catalog.views))])
    if report is not None:
        whole = job_report(reports, run.account, found, (SystemClock().nanoseconds() - begin) / 1e9)
        whole["queries"] = {**whole["queries"], **{q.name: q.report() for q in watching}}
        write_report(report, whole, stdout)
    return 0


def _record(run: JobRun, path: Path | None, results: Sequence[Result]) -> None:
    """Take samples of the queries that run in shards."""
    if path is None:
        return
    run.recorder = Recorder()
    paths = bundle_paths(path, [r.name for r in results])
    for number, q in zip(run.numbers, run.queries, strict=True):
        check_writable(paths[number], "--bundle", folder=False)
        run.recorder.add(paths[number], partial(run.seen, q))


def _check_watching(watching: Sequence[Any], queries: Sequence[Any], checkpoint: Path | None) -> None:
    """Queries over the system's streams run on the driver, beside those that the streams describe."""
    if watching and len(watching) == len(queries):
        raise JobError("this job reads only SysStream or Decisions, and on Spark no other query runs beside it.")
    if watching and checkpoint is not None:
        raise JobError(
            f"{watching[0].name} reads SysStream or Decisions, which describe this run and cannot be read again: leave"
            " --checkpoint out, or run that query in a job without one."
        )


def _tasks(spark: Any) -> str:
    count = state_partitions(spark)
    return f"{count} task{'' if count == 1 else 's'} at a time"


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
