"""A DataFrame filtered by predicates in Python and in CQL, as one stateless plan over its columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.types import StructType

from eddyline.core.errors import JobError, did_you_mean
from eddyline.core.predicate import Predicate
from eddyline.cql import bind
from eddyline.spark.frame_reports import FrameObservation, FrameRecord, remember
from eddyline.spark.query_listener import listen
from eddyline.spark.session import SparkRuntime
from eddyline.spark.stateless import StatelessPlan
from eddyline.spark.statistics import NAME
from eddyline.spark.types import from_spark, quoted

DataFrame = Any  # classic or Connect: the two share an interface, not a class
ROWS = "rows"  # what the DataFrame is called in the query


def filtered(
    df: DataFrame, predicates: Sequence[Any], options: Mapping[str, Any], observe: str | bool | None
) -> DataFrame:
    """The rows that satisfy all predicates; the DataFrame is known to ``explain`` and ``report``."""
    plan = plan_filter(df, predicates, options)
    observed = None
    if observe and plan.watched:
        observed = FrameObservation(observe if isinstance(observe, str) else NAME, df.isStreaming)
        if df.isStreaming:
            listen(df.sparkSession)

    def explain() -> str:
        lines = ["adaptive_filter on Spark", *(f"  {line}" for line in plan.explain())]
        if any(b.filters and b.judge is not None for b in plan.branches):
            lines.append("  what Spark filters is not shipped")
        by_now = [] if observed is None else list(observed.read().explain())
        return "\n".join([*lines, *(["", "by now", *(f"  {line}" for line in by_now)] if by_now else [])])

    return remember(plan.keep(df, observed), FrameRecord(explain, observed, streaming=df.isStreaming))


def plan_filter(df: DataFrame, predicates: Sequence[Any], options: Mapping[str, Any]) -> StatelessPlan:
    """The plan of the conjunction. Columns of types that the engine does not have are passed through unread."""
    if not predicates:
        raise JobError("adaptive_filter needs at least one predicate: a CQL condition, or ed.predicate(function, …).")
    session = SparkRuntime(df.sparkSession)
    session.stream(ROWS, df.select(*map(quoted, _known(df))), arrival=True)
    conjuncts = [_conjunct(session, df, number, p) for number, p in enumerate(predicates, 1)]
    query = session.query(f"SELECT * FROM {ROWS} WHERE {' AND '.join(conjuncts)}", **options)
    plan = query.stateless
    if plan is None or len(plan.branches) != 1:
        raise JobError("adaptive_filter takes conditions on the columns of a row; for subqueries use eds.query.")
    return plan


def _conjunct(session: SparkRuntime, df: DataFrame, number: int, predicate: Any) -> str:
    if isinstance(predicate, str):
        # A condition by itself, before it stands in brackets: a stray bracket must not reach into its neighbours.
        bind(f"SELECT * FROM {ROWS} WHERE {predicate}", session.catalog)
        return f"({predicate})"
    if not isinstance(predicate, Predicate):
        hint = "ed.predicate(function, 'column', …)" if callable(predicate) else "a CQL condition or ed.predicate(…)"
        raise JobError(f"predicate {number} is a {type(predicate).__name__}; write {hint}.")
    for column in predicate.columns:
        if column not in df.columns:
            raise JobError(
                f"predicate {number} ({predicate.name}) reads the column {column!r}, which the DataFrame does not have."
                + did_you_mean(column, df.columns)
            )
    name = f"{re.sub(r'[^0-9A-Za-z_]', '_', predicate.name)}_{number}"  # no built-in function ends like this
    name = name if name[0].isalpha() else f"p{name}"
    session.function(name, predicate)
    return f"{name}({', '.join(map(quoted, predicate.columns))})"


def _known(df: DataFrame) -> list[str]:
    """The columns whose types the engine has."""
    found = []
    for field in df.schema.fields:
        try:
            from_spark(StructType([field]))
        except JobError:
            continue
        found.append(field.name)
    return found
