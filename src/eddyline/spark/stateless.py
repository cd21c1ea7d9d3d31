"""Plans that judge each element once, on Spark: no shuffle, no state, and as little Python as possible.

A query that only selects and projects the elements of one stream (or of several, side by side: ``UNION ALL``) has an
answer that depends on each element alone, so every element is evaluated where Spark reads it:

1. rows without a timestamp are invalid, and are removed;
2. conjuncts that Spark can compute with the engine's own meaning (``native``) are its filter, where it may push them
   into the source;
3. the rest is *one* Arrow function (``stateless_worker``), which gets only the columns that it reads. Other
   columns never leave the JVM;
4. what remains is projected by Spark.

A native conjunct may come first because it cannot fail, and because a row that it drops has no error. That holds for
the conjuncts of one ``WHERE``; above a subquery whose own expressions can fail, a filter stays in its place, behind
them.

There is no lateness here: a micro-batch is one arrival, and a batch DataFrame has none.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_
from typing import Any, Final

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import StructType

from eddyline.adapting.conjunction import AdaptiveConjunction
from eddyline.adapting.eddy import Eddy
from eddyline.adapting.eddy_attributes import may_classify
from eddyline.adapting.filter_choice import Filtering
from eddyline.core.catalog import Catalog, StreamDef
from eddyline.core.errors import JobError
from eddyline.core.window import Range, Unbounded, WindowSpec
from eddyline.expr.describe import describe
from eddyline.expr.evaluate import can_fail
from eddyline.expr.nodes import Column, Expr, columns_of, substitute
from eddyline.expr.types import TIMESTAMP, type_name
from eddyline.plan.deletions import cannot_cancel
from eddyline.plan.logical import BoundQuery, Plan, Project, Select, SetOperation, StreamScan, ToStream, Window
from eddyline.plan.rewrite import deterministic
from eddyline.spark import worker_state as learned
from eddyline.spark.frame_reports import FrameObservation
from eddyline.spark.native import native, why_not
from eddyline.spark.row_counts import Counting
from eddyline.spark.stateless_worker import Compute, Judge, Keep, Step, read_by
from eddyline.spark.types import from_spark, is_ntz, made_of_ntz, quoted, result_type, to_spark, with_ntz

_ANSWER: Final = "__eddyline"  # the column in which the answer of the Arrow function stands for a moment


# ── which plans ───────────────────────────────────────────────────────────────────────────────────────────────────


def recognise(
    plan: Plan, query: BoundQuery, catalog: Catalog, ntz: Mapping[str, Collection[str]] | None = None
) -> StatelessPlan | None:
    """The stateless form of a query's plan, or None if its answer needs more than one element at a time.

    ``ntz`` gives for each declared stream the columns that are ``TimestampNTZType``. Needs no Spark session.
    """
    found = _elements(plan, catalog)
    if found is None:
        return None
    ntz = {name.lower(): columns for name, columns in (ntz or {}).items()}
    diverting = query.options.get("on_error") == "invalid"
    branches = []
    for chain in found:
        stream = catalog.streams[chain.scan.stream.lower()]
        branch = _split(chain, stream, frozenset(ntz.get(stream.name.lower(), ())), diverting)
        if branch.judge is not None:
            judge = replace(branch.judge, filtering=Filtering.of(query.options), plan=uuid.uuid4().hex)
            _check_classifier(judge)
            branch = replace(branch, judge=judge)
        branches.append(branch)
    if len({tuple(b.ntz_outputs) for b in branches}) > 1:
        return None  # one side gives instants and the other what a clock shows: Spark has no column for both
    return StatelessPlan(tuple(branches), result_type(query, plan, catalog, ntz))


def _check_classifier(judge: Judge) -> None:
    """A column that is no classifier is reported now, not by a worker."""
    routing = None if judge.filtering is None else judge.filtering.routing
    if routing is not None and routing.classifier is not None and judge.filters:
        routing.column([name for name, type in judge.inputs if may_classify(type)])


@dataclass(frozen=True, slots=True)
class _Chain:
    """A scan and what is done with its elements, in order: conjuncts, or items of a projection."""

    scan: StreamScan
    steps: tuple[Step, ...] = ()

    def then(self, step: Step) -> _Chain:
        return replace(self, steps=(*self.steps, step))


def _elements(p: Plan, catalog: Catalog) -> list[_Chain] | None:
    """The chains whose elements together are those of a stream."""
    match p:
        case StreamScan():
            stream = catalog.streams.get(p.stream.lower())
            return None if stream is None or stream.unique else [_Chain(p)]
        case Select() | Project():
            return _then(_elements(p.input, catalog), p)
        case ToStream(kind="istream"):
            # A row that leaves a window could cancel an equal row that enters, unless their timestamps are columns.
            lasting = cannot_cancel(p.input, catalog)
            return _rows(p.input, catalog, (Unbounded, Range) if lasting else (Unbounded,))
        case ToStream(kind="rstream"):
            return _rows(p.input, catalog, ())
        case _:
            return None


def _rows(p: Plan, catalog: Catalog, windows: tuple[type[WindowSpec], ...]) -> list[_Chain] | None:
    """The chains whose elements are the rows of a relation, each at the instant at which it enters.

    ``windows`` are those that may stand below an ``Istream``; none: below an ``Rstream``, which wants ``[NOW]``.
    """
    match p:
        case Window(spec=spec):
            fits = isinstance(spec, windows) if windows else spec == Range(0)
            return _elements(p.input, catalog) if fits else None
        case Select() | Project():
            return _then(_rows(p.input, catalog, windows), p)
        case SetOperation(kind="union", all=True, left=left, right=right):
            one, other = _rows(left, catalog, windows), _rows(right, catalog, windows)
            if one is None or other is None:
                return None
            pairs = zip(left.schema, right.schema, strict=True)
            renamed = Compute(tuple((a.name, Column(b.name, b.type)) for a, b in pairs))
            return [*one, *(c.then(renamed) for c in other)]
        case _:
            return None


def _then(chains: list[_Chain] | None, p: Select | Project) -> list[_Chain] | None:
    step = Keep(p.conjuncts) if isinstance(p, Select) else Compute(p.items)
    return None if chains is None else [c.then(step) for c in chains]


# ── what is native and what is not ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Branch:
    """One stream's way to the result. Expressions are over the scan's plan names, ``filters`` and native outputs
    alone; an output that ``judge`` computes is the column of its name there."""

    scan: StreamScan
    stream: StreamDef
    ntz: frozenset[str]
    filters: tuple[Expr, ...]
    judge: Judge | None
    outputs: tuple[tuple[str, Expr], ...]
    ntz_outputs: tuple[bool, ...] = field(compare=False)

    def source_of(self, name: str) -> str:
        """The column of the DataFrame that a plan name stands for."""
        return self.scan.columns[self.scan.schema.names.index(name)]


def _split(chain: _Chain, stream: StreamDef, ntz: frozenset[str], diverting: bool) -> Branch:
    scan = chain.scan
    clocks = {f.name for f, c in zip(scan.schema, scan.columns, strict=True) if c in ntz}
    by: dict[str, Expr] = {f.name: Column(f.name, f.type) for f in scan.schema}
    computed: dict[str, pa.DataType] = {}  # by Python
    filters: list[Expr] = []
    steps: list[Step] = []
    failing = False  # whether a step so far may fail: then nothing later may drop a row before it

    def stays_native(e: Expr) -> bool:
        return not columns_of(e) & computed.keys() and native(e, clocks) is not None

    for step in chain.steps:
        if isinstance(step, Keep):
            conjuncts = [substitute(c, by) for c in step.conjuncts]
            # A function that is not deterministic sees no fewer rows than what is written before it lets through.
            wall = next((i for i, c in enumerate(conjuncts) if not deterministic(c)), len(conjuncts))
            early = [c for c in conjuncts[:wall] if not failing and stays_native(c)]
            rest = tuple(c for c in conjuncts if c not in early)
            filters += early
            if rest:
                steps.append(Keep(rest))
                failing = failing or any(map(can_fail, rest))
            continue
        after: dict[str, Expr] = {}
        items: list[tuple[str, Expr]] = []
        for name, written in step.items:
            e = substitute(written, by)
            if not isinstance(e, Column) and not stays_native(e):
                unique = f"#{len(computed) + len(items)}"
                items.append((unique, e))
                e = Column(unique, e.type)
            after[name] = e
        for unique, e in items:
            computed[unique] = e.type
            if made_of_ntz([e], clocks):
                clocks.add(unique)
        if items:
            steps.append(Compute(tuple(items)))
            failing = failing or any(can_fail(e) for _, e in items)
        by = after
    outputs = tuple(by.items())
    made = sorted({e.name for _, e in outputs if isinstance(e, Column) and e.name in computed})
    judge = _judge(scan, steps, [(n, computed[n]) for n in made], clocks, diverting) if steps else None
    kinds = tuple(made_of_ntz([e], clocks) for _, e in outputs)
    return Branch(scan, stream, ntz, tuple(filters), judge, outputs, (*kinds, stream.timestamp in ntz))


def _judge(
    scan: StreamScan, steps: Sequence[Step], made: Iterable[tuple[str, pa.DataType]], clocks: set[str], diverting: bool
) -> Judge:
    read = read_by(steps)
    inputs = tuple((f.name, f.type) for f in scan.schema if f.name in read)
    instant = pa.timestamp("us", "UTC")
    outputs = tuple((n, instant if type == TIMESTAMP and n not in clocks else type) for n, type in made)
    exprs = [e for s in steps for e in (s.conjuncts if isinstance(s, Keep) else [e for _, e in s.items])]
    return Judge(inputs, tuple(steps), outputs, diverting and any(map(can_fail, exprs)))


# ── on DataFrames ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class StatelessPlan:
    """``schema`` is the result's: the query's columns, then ``_time``."""

    branches: tuple[Branch, ...]
    schema: StructType

    def apply(
        self,
        frames: DataFrame | Mapping[str, DataFrame],
        counting: Counting | None = None,
        observed: FrameObservation | None = None,
    ) -> DataFrame:
        """The result of the query over a DataFrame, batch or streaming, with the declared columns of its stream; over
        several streams, a DataFrame for each name. Nothing is run here.

        With ``counting`` the rows that come in, come out and are invalid are counted as they pass; ``observed``
        collects what the filters in Python do.
        """
        if not isinstance(frames, Mapping):
            frames = {b.stream.name: frames for b in self.branches}
        known = {name.lower(): df for name, df in frames.items()}
        results = []
        seen: set[str] = set()  # what comes in is counted once, however many branches read it
        for i, b in enumerate(self.branches):
            name = b.stream.name.lower()
            if name not in known:
                raise JobError(f"there is no DataFrame for the stream {b.stream.name!r}.")
            results.append(_apply(b, known[name], self.schema, counting, observed, i, name not in seen))
            seen.add(name)
        return reduce(lambda a, b: a.union(b), results)

    @property
    def watched(self) -> bool:
        """Whether there is something to observe."""
        return any(b.judge is not None and b.judge.watched for b in self.branches)

    def keep(self, df: DataFrame, observed: FrameObservation | None = None) -> DataFrame:
        """The rows of the DataFrame, with all their columns, that a plan over one stream lets through."""
        (b,) = self.branches
        columns, clocks = _scanned(b)
        conditions = [_column(e, columns, clocks) for e in b.filters]
        if conditions:
            df = df.filter(reduce(and_, conditions))
        if b.judge is None or not b.judge.drops:
            return df
        judge = _watched(b.judge, observed)
        return _kept(df.withColumn(_ANSWER, _answer(judge, columns)), judge, observed).drop(_ANSWER)

    def explain(self) -> list[str]:
        """What Spark computes by itself, what runs in Python, and what is shipped there."""
        lines = ["no shuffle and no state: every element is evaluated where Spark reads it"]
        for b in self.branches:
            place = f"{b.stream.name}: " if len(self.branches) > 1 else ""
            lines += [place + line for line in _explain(b)]
        return lines


def _apply(
    b: Branch,
    df: DataFrame,
    schema: StructType,
    counting: Counting | None,
    observed: FrameObservation | None,
    place: int,
    first: bool,
) -> DataFrame:
    _check(b, df)
    columns, clocks = _scanned(b)
    stamp = None if b.stream.timestamp is None else F.col(quoted(b.stream.timestamp))
    if counting is not None and first:
        df = counting.arriving(df, place, stamp)
    conditions = [_column(e, columns, clocks) for e in b.filters]
    if stamp is not None:
        conditions.insert(0, stamp.isNotNull())
    if conditions:
        df = df.filter(reduce(and_, conditions))
    computed: dict[str, SparkColumn] = {}
    judge = None if b.judge is None else _watched(b.judge, observed)
    if judge is not None:
        df, computed = _judged(b, judge, df, columns)
    if counting is not None:
        keep = F.col(f"{_ANSWER}.keep") if judge is not None and judge.drops else None
        error = F.col(f"{_ANSWER}.error") if judge is not None and judge.diverting else None
        df = counting.leaving(df, place, keep, error)
    if judge is not None and judge.drops:
        df = _kept(df, judge, observed)
    made = [
        computed[e.name] if isinstance(e, Column) and e.name in computed else _column(e, columns, clocks)
        for _, e in b.outputs
    ]
    time = F.current_timestamp() if stamp is None else stamp.cast(schema["_time"].dataType)
    return df.select(*(c.alias(f.name) for c, f in zip((*made, time), schema.fields, strict=True)))


def _watched(judge: Judge, observed: FrameObservation | None) -> Judge:
    return judge if observed is None or not judge.watched else replace(judge, reports=True)


def _kept(df: DataFrame, judge: Judge, observed: FrameObservation | None) -> DataFrame:
    """The rows that are kept. The reports of workers are collected from the few rows that pass, and behind the
    function, so that Spark can still push filters into the source."""
    keep, report = F.col(f"{_ANSWER}.keep"), F.col(f"{_ANSWER}.report")
    if observed is not None and judge.reports:
        df = observed.see(df.filter(keep | report.isNotNull()), report, judge.plan)
    return df.filter(keep)


def _scanned(b: Branch) -> tuple[dict[str, SparkColumn], frozenset[str]]:
    """The columns of the scan by their names in the plan, and which of them show a clock."""
    pairs = list(zip(b.scan.schema.names, b.scan.columns, strict=True))
    return {n: F.col(quoted(c)) for n, c in pairs}, frozenset(n for n, c in pairs if c in b.ntz)


def _judged(
    b: Branch, judge: Judge, df: DataFrame, columns: Mapping[str, SparkColumn]
) -> tuple[DataFrame, dict[str, SparkColumn]]:
    """The DataFrame with the answers of the Arrow function beside the columns that native outputs need."""
    computed = {n: F.col(f"{_ANSWER}.{quoted(n)}") for n, _ in judge.outputs}
    read = frozenset[str]().union(*(columns_of(e) for _, e in b.outputs)) - computed.keys()
    beside = dict.fromkeys([b.source_of(n) for n in sorted(read)])
    if b.stream.timestamp is not None:
        beside.setdefault(b.stream.timestamp)
    df = df.select(*(F.col(quoted(c)) for c in beside), _answer(judge, columns).alias(_ANSWER))
    return df, computed


def _answer(judge: Judge, columns: Mapping[str, SparkColumn]) -> SparkColumn:
    """The Arrow function over the columns that it reads."""

    def judged(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        found: Iterator[pa.Array] = learned.judge(plan, pickled).run(
            batches if several else ((array,) for array in batches)
        )
        return found

    # Pickled here and only once: a worker that has the plan does not unpickle it, with all that its functions carry.
    plan, pickled = judge.plan, cloudpickle.dumps(judge)  # type: ignore[no-untyped-call]
    several = len(judge.inputs) > 1  # a single column comes without a tuple around it
    make: Any = arrow_udf  # its stub lacks functions whose kind follows from their type hints
    # Not "deterministic", or Spark would evaluate it once for the filter and again for the projection.
    answer = make(judged, to_spark(with_ntz(judge.schema, judge.schema.names))).asNondeterministic()
    found: SparkColumn = answer(*([columns[n] for n, _ in judge.inputs] or [F.lit(True)]))
    return found


def _column(e: Expr, columns: Mapping[str, SparkColumn], clocks: Collection[str]) -> SparkColumn:
    found = native(e, clocks)
    assert found is not None, describe(e)
    return found.build(columns)


def _check(b: Branch, df: DataFrame) -> None:
    """The DataFrame must have the columns that were declared, or the plan would mean something else."""
    used = [*b.scan.columns, *([] if b.stream.timestamp is None else [b.stream.timestamp])]
    there = StructType([f for f in df.schema.fields if f.name in used])
    found = from_spark(there, f"the DataFrame of stream {b.stream.name!r}")
    for name in used:
        if name not in found.names:
            raise JobError(f"the DataFrame of stream {b.stream.name!r} has no column {name!r}; it has: {_list(df)}.")
        declared, given = b.stream.schema[name].type, found.field(name)
        if given.type != declared or is_ntz(given) != (name in b.ntz):
            wanted = "timestamp_ntz" if name in b.ntz else type_name(declared)
            raise JobError(
                f"the column {name!r} of stream {b.stream.name!r} is declared as {wanted}, and the DataFrame has it as "
                f"{there[name].dataType.simpleString()}; cast it."
            )


def _list(df: DataFrame) -> str:
    return ", ".join(df.schema.names)


def _ordering(judge: Judge, step: Keep) -> str:
    found = None if judge.filtering is None else judge.filtering.ordered("", step.conjuncts)
    if isinstance(found, AdaptiveConjunction):
        return f", in the order that costs least, found while running (policy {found.policy.name})"
    if isinstance(found, Eddy):
        return f", each row in an order for rows like it, found while running (routing {found.routing.policy})"
    return ""


def _explain(b: Branch) -> Iterator[str]:
    shown: dict[str, Expr] = {f.name: Column(c, f.type) for f, c in zip(b.scan.schema, b.scan.columns, strict=True)}

    def together(conjuncts: Iterable[Expr]) -> str:
        return " AND ".join(describe(substitute(c, shown)) for c in conjuncts)

    if b.filters:
        yield f"filtered by Spark: {together(b.filters)}"
    if b.judge is None:
        yield "nothing runs in Python"
        return
    for step in b.judge.steps:
        if isinstance(step, Keep):
            yield f"filtered in Python: {together(step.conjuncts)}{_ordering(b.judge, step)}"
            for c in step.conjuncts:
                if why := why_not(c):
                    yield f"  {together([c])} is not left to Spark: {why}"
        else:
            shown |= {name: substitute(e, shown) for name, e in step.items}
            yield "computed in Python: " + ", ".join(describe(shown[name]) for name, _ in step.items)
    names = ", ".join(b.source_of(n) for n, _ in b.judge.inputs) or "no column"
    yield f"shipped to Python: {names} (of {len(b.stream.schema)} columns)"
