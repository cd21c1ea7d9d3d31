"""Eddyline for people who have DataFrames: plain PySpark in, plain PySpark out.

    import eddyline.spark as eds

    joined = eds.window_join({"R": r, "S": s, "T": t}, on="key", within="60 seconds")
    loud = eds.query("SELECT Istream(*) FROM R [RANGE 60 SECONDS] WHERE level > 3", streams={"R": r})

Both work on streaming and on batch DataFrames and take no action: they return a DataFrame to write, join or show. A
batch answer is a replay of the streaming one. A stream that is given as ``None`` is the DataFrame that
``DataFrame.transform`` brings: ``r.transform(eds.window_join({"R": None, "S": s}, on="key", within="1 minute"))``.

A session belongs to its user: what a query needs of it (the RocksDB state store, Java, packages) is asked for in one
sentence and never set here. Nothing here uses ``rdd``, ``_jvm`` or ``sparkContext``, so it works on Spark Connect
wherever Spark's own ``mapInArrow`` and ``transformWithStateInPandas`` do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from eddyline.core import arguments as check
from eddyline.core.errors import JobError, did_you_mean
from eddyline.core.time import SystemClock
from eddyline.spark.query_reports import invalid, late, report, sentence

if TYPE_CHECKING:
    import pyarrow as pa

    from eddyline.plan.plan_data import PlanGraph

__all__ = [
    "adaptive_filter", "explain", "fit", "invalid", "late", "query", "report", "segment_table", "sentence", "stream",
    "window_join",
]  # fmt: skip

DataFrame = Any  # classic or Connect: the two share an interface, not a class
Width = int | float | str | timedelta


@dataclass(frozen=True, slots=True)
class Declared:
    """A DataFrame with what a stream declares; made by ``stream``."""

    df: DataFrame | None
    timestamp: str | None
    slack: Width = 0
    idle: Width | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def stream(df: DataFrame | None, timestamp: str | None, *, slack: Width = 0, idle: Width | None = None) -> Declared:
    """A DataFrame as a stream: the column that holds its time (None: rows are stamped when they arrive), how far a
    micro-batch may lie behind the ones before it (``slack``: larger waits longer and loses less), and the silence
    after which it no longer holds other streams back (``idle``)."""
    return Declared(df, timestamp, slack, idle)


def query(
    text: str,
    streams: Mapping[str, DataFrame | Declared | None],
    *,
    timestamp: str | None = None,
    relations: Mapping[str, Any] | None = None,
    functions: Mapping[str, Any] | None = None,
    splits: Mapping[str, Callable[..., Any]] | None = None,
    shards: int | None = None,
    rates: Mapping[str, float] | None = None,
    observe: Any = True,
    **options: Any,
) -> Any:
    """The answer of a CQL query as a DataFrame: its columns, ``_time``, and ``_sign`` where it is a changing relation.

    ``timestamp`` is the time column of all streams that do not name their own with ``eds.stream``; without it a
    stream's only timestamp column is taken. ``relations`` are constant: tables, pandas frames, paths. ``functions`` are
    Python functions that the query calls: a callable (row-wise, returns a Boolean), or a dictionary of the arguments of
    ``Session.function``; ``splits`` are functions that divide bounds (``Session.split``). ``shards`` is fixed for the
    life of a checkpoint: a few for each core that will ever work on the query. ``rates`` weigh what is copied in joins
    without a common key. ``observe`` names the metrics that ``report`` reads (an ``Observation`` for a batch query;
    None: no statistics). By default ``report`` finds them without a name, as long as a streaming query holds one query
    of Eddyline. Of a query without state they are what its filters do: to count what comes in would keep Spark from
    pushing its own filters into the source. Further options are the query's own (``on_error='invalid'``).
    """

    check.text(text, "a query", empty=True)
    _check_streams(streams)

    def build(brought: DataFrame | None) -> DataFrame:
        session = _session(_filled(streams, brought), timestamp, relations, functions, shards, rates)
        for name, split in (splits or {}).items():
            session.split(name, split)
        return _remembered(session.query(text, **options), observe)

    return _now_or_later(streams, build)


def window_join(
    streams: Mapping[str, DataFrame | Declared | None],
    on: str | Sequence[str],
    within: Width,
    *,
    timestamp: str | None = None,
    shards: int | None = None,
    observe: Any = True,
    **options: Any,
) -> Any:
    """Rows of two or more streams that agree on the columns ``on`` and lie within ``within`` of each other, all of
    them: one multiway join, no intermediate state. ``options`` are those of a query: ``joins``, ``caches``, ``tree``.

    The result has the key columns once, then the other columns of each stream (with the stream's name before it where
    two streams have a column of that name: ``S_ts``), then ``_time``, the latest of the joined timestamps.
    """
    keys = _keys(on)
    _check_streams(streams)
    if len(streams) < 2:
        raise JobError("a join needs two streams or more.")
    if not keys:
        raise JobError("window_join needs at least one column in on; for other conditions use eddyline.spark.query.")

    def build(brought: DataFrame | None) -> DataFrame:
        filled = _filled(streams, brought)
        session = _session(filled, timestamp, None, None, shards, None)
        return _remembered(session.query(join_text(_columns(filled), keys, within), **options), observe)

    return _now_or_later(streams, build)


def adaptive_filter(
    df: DataFrame,
    *predicates: Any,
    policy: str = "default",
    strict_order: bool = False,
    observe: str | bool | None = True,
    **parameters: Any,
) -> DataFrame:
    """The rows of a DataFrame, batch or streaming, that satisfy all predicates: each a CQL condition (``"size > 900"``)
    or an ``ed.predicate(function, *columns)``.

        hot = eds.adaptive_filter(df, "size > 900", ed.predicate(is_bot, "agent"), ed.predicate(near, "lat", "lon"))

    Spark calls every Python function of a conjunction for every row. Here conditions that Spark can compute, and that
    cannot fail, are Spark's; all functions are one Arrow function that gets only the columns they read, asks each about
    the rows still alive, and finds the order that costs least while it runs. What a worker learns it keeps from batch
    to batch and from task to task. ``policy`` and its ``parameters`` are those of the option ``filters`` of a query;
    ``strict_order`` keeps the written order, for a predicate that guards another.

    ``explain(df)`` of the result says what runs where, ``report(df)`` (of a streaming one: of its ``StreamingQuery``)
    the order, selectivities, costs and decisions of every worker. ``observe`` names the metrics that carry them
    (True: ``eddyline``; None: nothing is reported).
    """
    from eddyline.spark.frame_filter import filtered
    from eddyline.spark.session import is_frame

    if not is_frame(df):
        raise JobError(f"adaptive_filter filters a Spark DataFrame, and this is a {type(df).__name__}.")
    options = {**parameters, **({} if policy == "default" else {"filters": policy})}
    if strict_order is not False:
        options["strict_order"] = strict_order
    return filtered(df, predicates, options, observe)


def fit(
    df: DataFrame,
    *,
    time: str,
    value: str | Sequence[str],
    key: str | Sequence[str] = (),
    error: float | str | Sequence[float | str],
    degree: int = 1,
    floor: float = 0.0,
    max_gap: Width | None = None,
    interpolate: bool = False,
    shards: int | None = None,
    observe: Any = None,
) -> DataFrame:
    """The samples of a DataFrame, batch or streaming, as polynomial segments: the arguments are those of ``ed.fit``.

        segments = eds.fit(readings, key="room", time="ts", value="celsius", error=0.05)
        segments.write.parquet("segments")  # CREATE STREAM heat FROM 'segments' reads it

    The result has the key, ``_from``, ``_to``, ``_samples`` and a list of coefficients for each value. Of a batch it is
    what ``ed.fit`` gives of the samples in order of time (of differing samples of an instant the smallest counts),
    ordered by ``_from``; all samples of a key are fitted in one task. Of a streaming DataFrame it is a stream: a
    segment comes when the next one of its key begins, what a key's open segment depends on is kept in the state store,
    and keys are divided over ``shards``, which are fixed for the life of a checkpoint. ``observe`` (a name, or an
    ``Observation`` of a batch) counts ``samples``, ``late``, ``violations``, ``repeated`` and ``invalid``.
    """
    from eddyline.spark.frame_fit import fitted, plan_of

    plan = plan_of(
        _a_frame(df, "fit"), time=time, value=value, key=key, error=error, degree=degree, floor=floor, max_gap=max_gap,
        interpolate=interpolate,
    )  # fmt: skip
    return fitted(df, plan, shards, observe)


def segment_table(df: DataFrame) -> pa.Table:
    """A batch DataFrame of segments (of ``fit``, or read from its Parquet files) as a segment table of Arrow, which
    ``Session.stream`` and ``ed.sweep`` take. Runs the DataFrame."""
    from eddyline.spark.frame_fit import collected

    return collected(_a_frame(df, "segment_table"))


def sweep(text: str, streams: Mapping[str, Any], parameters: DataFrame) -> DataFrame:
    """A query on segments for every row of a DataFrame of parameters, which stand in its text as ``:name``.

        limits = spark.range(100).select((F.col("id") / 10).alias("limit"))
        hours = eds.sweep("SELECT room, celsius FROM heat WHERE celsius > :limit", {"heat": segments}, limits)

    The rows are those of ``ed.sweep``. ``streams`` are segment tables of Arrow (``segment_table``), which are sent to
    the tasks, or paths of Parquet files that the tasks can read. Each partition of the parameters is a task, which
    computes once what reads no parameter. No action is taken.
    """
    from eddyline.spark.frame_sweep import swept

    return swept(text, streams, _a_frame(parameters, "sweep"))


def explain(
    what: str | DataFrame,
    streams: Mapping[str, DataFrame | Declared] | None = None,
    *,
    timestamp: str | None = None,
    relations: Mapping[str, Any] | None = None,
    functions: Mapping[str, Any] | None = None,
    shards: int | None = None,
    rates: Mapping[str, float] | None = None,
    **options: Any,
) -> str:
    """How ``query`` would run: the plan, what it keeps and why, how rows travel to the shards; or how a DataFrame of
    ``query`` or ``adaptive_filter`` runs: what Spark computes, what Python, in which order by now. Takes no action. A
    notebook draws the plan of a query."""
    if not isinstance(what, str):
        from eddyline.spark import frame_reports

        record = frame_reports.record_of(_a_frame(what, "explain"))
        return record.explain() if record.plan is None else _explained(record.explain(), record.plan())
    if streams is None:
        raise JobError("explain needs the streams of the query: eds.explain(text, {'S': df}).")
    _check_streams(streams)
    session = _session(streams, timestamp, relations, functions, shards, rates)
    asked = session.query(what, **options)
    return _explained(asked.explain(), asked.plan())


def join_text(columns: Mapping[str, Sequence[str]], keys: Sequence[str], within: Width) -> str:
    """The CQL of a window join.

    >>> print(join_text({"R": ["ts", "k"], "S": ["ts", "k"]}, ["k"], "60 seconds"))
    SELECT Istream("R"."k" AS "k", "R"."ts" AS "R_ts", "S"."ts" AS "S_ts")
    FROM "R" [RANGE 60 seconds], "S" [RANGE 60 seconds]
    WHERE "R"."k" = "S"."k"
    """
    for name, found in columns.items():
        for key in keys:
            if key not in found:
                raise JobError(f"the stream {name!r} has no column {key!r} to join on.{did_you_mean(key, found)}")
    first, *others = columns
    everything = [c for found in columns.values() for c in found if c not in keys]
    items = [f"{_quoted(first, k)} AS {_quoted(k)}" for k in keys]
    for name, found in columns.items():
        for c in found:
            if c not in keys:
                alias = c if everything.count(c) == 1 else f"{name}_{c}"
                items.append(f"{_quoted(name, c)} AS {_quoted(alias)}")
    width = _width(within)
    windows = ", ".join(f"{_quoted(n)} [RANGE {width}]" for n in columns)
    conditions = [f"{_quoted(first, k)} = {_quoted(n, k)}" for n in others for k in keys]
    return f"SELECT Istream({', '.join(items)})\nFROM {windows}\nWHERE {' AND '.join(conditions)}"


def _keys(on: Any) -> list[str]:
    """The names of the columns to join on."""
    several = isinstance(on, Sequence | set | frozenset | Mapping) and not isinstance(on, bytes)
    for key in [on] if isinstance(on, str) or not several else on:
        if not isinstance(key, str):
            raise JobError(
                "on takes names of columns, on='k' or on=['k', 'day'], and this is"
                f" {check.shown(key)}; for other conditions use eddyline.spark.query."
            )
    return [on] if isinstance(on, str) else list(on)


def _check_streams(streams: Any) -> None:
    if not isinstance(streams, Mapping) or not all(isinstance(n, str) for n in streams):
        raise JobError(f"streams is a dictionary of DataFrames by name, {{'S': df}}, not {check.shown(streams)}.")


def _quoted(*parts: str) -> str:
    return ".".join('"' + p.replace('"', '""') + '"' for p in parts)


def _width(width: Width) -> str:
    if isinstance(width, timedelta):
        return f"{width // timedelta(microseconds=1)} microseconds"
    if isinstance(width, bool) or not isinstance(width, int | float | str):
        raise JobError(f"within is a number, a text such as '5 seconds' or a timedelta, not {check.shown(width)}.")
    return str(width)


def _remembered(asked: Any, observe: Any) -> DataFrame:
    """The DataFrame of a query, known to ``explain`` and ``report``."""
    from eddyline.spark import frame_reports

    df = asked.dataframe(observe)
    counted = bool(observe) and asked.stateless is None
    account = asked.read if counted else None
    record = frame_reports.FrameRecord(asked.explain, asked.frame_observation, account, asked.streaming, asked.plan)
    return frame_reports.remember(df, record)


def _explained(text: str, plan: PlanGraph) -> str:
    from eddyline.plan.print_html import Explained

    return Explained(text, plan, SystemClock().now() / 1e6)


def _a_frame(df: Any, what: str) -> DataFrame:
    from eddyline.spark.session import is_frame

    if not is_frame(df):
        takes = "a Spark DataFrame" if what in ("fit", "segment_table") else "the text of a query or a Spark DataFrame"
        raise JobError(f"{what} takes {takes}, and this is a {type(df).__name__}.")
    return df


def _now_or_later(streams: Mapping[str, Any], build: Callable[[DataFrame | None], DataFrame]) -> Any:
    open_places = [n for n, df in streams.items() if df is None or (isinstance(df, Declared) and df.df is None)]
    if not open_places:
        return build(None)
    if len(open_places) > 1:
        raise JobError(f"transform passes one DataFrame, and {' and '.join(open_places)} have none; pass the others.")
    return build


def _filled(streams: Mapping[str, DataFrame | Declared | None], brought: DataFrame | None) -> dict[str, Any]:
    filled: dict[str, Any] = {}
    for name, df in streams.items():
        if df is None:
            filled[name] = brought
        elif isinstance(df, Declared) and df.df is None:
            filled[name] = Declared(brought, df.timestamp, df.slack, df.idle)
        else:
            filled[name] = df
    return filled


def _columns(streams: Mapping[str, Any]) -> dict[str, list[str]]:
    return {n: _frame(df).columns for n, df in streams.items()}


def _frame(df: Any) -> Any:
    return df.df if isinstance(df, Declared) else df


def _session(
    streams: Mapping[str, Any],
    timestamp: str | None,
    relations: Mapping[str, Any] | None,
    functions: Mapping[str, Any] | None,
    shards: int | None,
    rates: Mapping[str, float] | None,
) -> Any:
    from eddyline.spark.session import SparkRuntime, is_frame

    if not streams:
        raise JobError("a query needs at least one stream: streams={'S': df}.")
    declared: dict[str, Declared] = {}
    for name, df in streams.items():
        frame = _frame(df)
        if not is_frame(frame):
            given = f"{type(frame).__module__.partition('.')[0]}.{type(frame).__name__}"
            raise JobError(
                f"the stream {name!r} must be a Spark DataFrame, and it is {given}: spark.createDataFrame makes one."
            )
        declared[name] = df if isinstance(df, Declared) else Declared(df, _time_column(name, df, timestamp))
    spark = next(iter(declared.values())).df.sparkSession  # type: ignore[union-attr]
    session = SparkRuntime(spark, shards=shards, rates=rates)
    for name, d in declared.items():
        # A time of None was asked for in so many words.
        session.stream(name, d.df, d.timestamp, d.slack, d.idle, arrival=d.timestamp is None)
    for name, relation in (relations or {}).items():
        session.relation(name, relation)
    for name, function in (functions or {}).items():
        session.function(name, **function) if isinstance(function, Mapping) else session.function(name, function)
    return session


def _time_column(name: str, df: DataFrame, timestamp: str | None) -> str:
    if timestamp is not None:
        return timestamp
    found = [f.name for f in df.schema.fields if f.dataType.typeName() in ("timestamp", "timestamp_ntz")]
    if len(found) == 1:
        return str(found[0])
    what = "no timestamp column" if not found else f"several timestamp columns ({', '.join(found)})"
    raise JobError(
        f"the stream {name!r} has {what}: name its time with timestamp='…' or eds.stream(df, '…'), or ask for stamps on"
        " arrival with eds.stream(df, None)."
    )
