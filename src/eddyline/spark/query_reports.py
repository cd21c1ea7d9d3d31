"""Reports of a query on DataFrames: its counts, its decisions, the rows that it turned away, and its errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eddyline.core import arguments as check
from eddyline.core.errors import JobError


def report(source: Any, name: str = "eddyline") -> dict[str, Any]:
    """What was counted and decided: of a ``StreamingQuery`` (running or ended), of the ``Observation`` of a batch query
    that has run, or of a batch DataFrame of ``adaptive_filter`` or ``query`` on which an action was taken.

    Keys as in ``eddyline run --report``. ``shards`` has the figures of each shard of a query with state; ``workers``
    those of each worker's filters: rows, the current order, and for each filter what it was asked, let pass and took,
    its selectivity and price by now. ``decisions`` have their evidence, the gain that was expected and the one that was
    measured. Of a DataFrame this is what the first action saw (on Spark Connect the last).
    """
    from eddyline.spark import frame_reports
    from eddyline.spark.session import is_frame

    if is_frame(source):
        return frame_reports.report(source)
    account, filter_reports, counts = _observations_of(source, name)
    filters = filter_reports.report() if filter_reports.last else {}
    if account.shards:
        found = account.report(0, 0)
        decisions = [*found["decisions"], *filters.get("decisions", ())]
        return {**filters, **found, "decisions": decisions}
    if counts is None:
        raise JobError(f"nothing was observed under the name {name!r} yet: run the query, or pass observe={name!r}.")
    # Of an Observation only what went out is known: it is one place, behind everything.
    events = counts.events if hasattr(source, "recentProgress") else None
    known = {"events": events, "results": counts.results, "invalid": counts.invalid}
    if filters and not events:  # not counted
        known = {}
    return {"late": 0, "shards": [], **filters, **known}


def late(source: Any, name: str = "eddyline") -> list[dict[str, Any]]:
    """The late rows of a ``StreamingQuery``, with ``_reason`` and ``_at`` (the time that their stream had reached): of
    each shard up to 100 in each micro-batch that Spark still remembers. ``report`` has their exact number.

    A ``LateRowsWarning`` says once for each stream that there are some, and which slack would have kept them.
    """
    return _turned_away(source, name, "late")


def invalid(source: Any, name: str = "eddyline") -> list[dict[str, Any]]:
    """The invalid rows of a ``StreamingQuery`` or of a batch DataFrame that has run, with ``_reason``: those that no
    stream could take in (NULL timestamps), and with ``on_error='invalid'`` those that made an expression fail. Of each
    shard up to 100 in each micro-batch, of each worker's filters the last 100, with the columns that they read.
    ``report`` has their number."""
    return _turned_away(source, name, "invalid")


def _turned_away(source: Any, name: str, which: str) -> list[dict[str, Any]]:
    from eddyline.spark import frame_reports
    from eddyline.spark.session import is_frame

    if is_frame(source):
        return frame_reports.rows(source, which)
    account, filter_reports, _ = _observations_of(source, name)
    return [*account.rows(which), *(filter_reports.invalid_rows() if which == "invalid" else ())]


def _observations_of(source: Any, name: str) -> tuple[Any, Any, Any]:
    """What was observed: of shards, of the filters in workers, and counts (None: not counted)."""
    from eddyline.spark import frame_reports
    from eddyline.spark.filter_statistics import FilterReports
    from eddyline.spark.row_counts import Counting, as_dict
    from eddyline.spark.statistics import OBSERVED, Account, is_of

    accounts: dict[str, Account] = {}
    counts, filter_reports = None, FilterReports()
    for observed in _observed(source, name):
        filter_reports.add(frame_reports.texts(observed, name))
        shards = {n: found for n, m in observed.items() if is_of(n, name) and OBSERVED in (found := as_dict(m))}
        for called, metrics in shards.items():
            accounts.setdefault(called, Account()).add(metrics[OBSERVED] or ())
        if not shards:
            more = Counting(name).read({n if n != name else f"{n}.out": m for n, m in observed.items()})
            counts = more if counts is None else counts + more
    if len(accounts) > 1:
        raise JobError(
            f"this streaming query holds {len(accounts)} queries of Eddyline: give each a name with observe='…', and"
            " ask with eds.report(query, '…')."
        )
    return next(iter(accounts.values()), Account()), filter_reports, counts


def sentence(error: BaseException) -> str | None:
    """What went wrong in a predicate or a query, in one sentence, out of Spark's exception with its stack traces of two
    languages; None if the exception is not about that.

    >>> sentence(RuntimeError("Job aborted … [[eddyline:1]] division by zero in 'a / b' [[/eddyline]] at org.apache…"))
    "division by zero in 'a / b'"
    >>> sentence(RuntimeError("No space left on device"))
    """
    from eddyline.spark.failures import sentence as find

    if not isinstance(error, BaseException):
        raise JobError(f"sentence takes an exception, not {check.shown(error)}.")
    return find(error)


def _observed(source: Any, name: str) -> list[Mapping[str, Any]]:
    """What was observed, one entry for each micro-batch or action."""
    if hasattr(source, "recentProgress"):
        return [p.observedMetrics for p in source.recentProgress]
    if not hasattr(source, "get") or callable(getattr(type(source), "get", None)):
        raise JobError(f"a StreamingQuery or an Observation has a report, and {type(source).__name__} has none.")
    return [{name: source.get}]
