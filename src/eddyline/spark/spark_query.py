"""A query of ``ed.Session(spark)``: a DataFrame to write anywhere, or results to fetch here."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from eddyline.adapting.join_choice import Joining
from eddyline.adapting.planning import optimized
from eddyline.core.amounts import amount
from eddyline.core.catalog import Catalog
from eddyline.core.errors import JobError, clipped
from eddyline.core.time import SystemClock
from eddyline.engine.delivery import result_schema
from eddyline.engine.row_warnings import LeftOut, Notices
from eddyline.engine.steering import Steering, merged
from eddyline.plan.logical import BoundQuery, Plan
from eddyline.plan.plan_data import PlanGraph
from eddyline.plan.print_html import notebook
from eddyline.plan.traverse import streams_of
from eddyline.spark import cores, pipeline, requirements
from eddyline.spark.explain_shards import explain, plan_of
from eddyline.spark.frame_reports import FrameObservation, answered, observation
from eddyline.spark.letters import Mailbox
from eddyline.spark.output_columns import TAG
from eddyline.spark.packed_sources import PackedSession, packed
from eddyline.spark.program import Program, state_partitions
from eddyline.spark.query_listener import listen
from eddyline.spark.row_counts import Counting
from eddyline.spark.shard import ShardEngine
from eddyline.spark.stateless import StatelessPlan, recognise
from eddyline.spark.statistics import NAME, OBSERVED, Account, metrics_name
from eddyline.spark.types import arrow_schema, from_engine, result_type


class QuerySession(PackedSession, Protocol):
    """The part of the session on Spark that a query uses."""

    catalog: Catalog
    ntz: dict[str, frozenset[str]]
    invalid_of_relations: dict[str, Any]

    def program(self, queries: list[BoundQuery]) -> Program: ...
    def shards_reported(self) -> None: ...


class SparkQuery:
    """Nothing runs until the DataFrame is written or results are asked for."""

    def __init__(self, session: QuerySession, bound: BoundQuery, label: str) -> None:
        self.session, self.bound = session, bound
        self.name = bound.name or label
        self.account = Account()
        self.account.on_report = session.shards_reported
        self.logical: Plan = optimized(bound)
        Joining.of(bound.options).check(self.logical)
        self.schema: pa.Schema = result_schema(self.logical.schema, bound.time_kind, signed=not bound.is_stream)
        self.frame_observation: FrameObservation | None = None  # of the last DataFrame without state
        self.observation: Any = None  # of the last batch DataFrame with state
        self.notices = Notices()
        self.mailbox: Mailbox | None = None  # to the shards of the last streaming DataFrame
        self._judging = False  # a DataFrame without state was made
        self._program: Program | None = None
        self._template: Steering | None = None
        self._table: pa.Table | None = None

    @property
    def program(self) -> Program:
        if self._program is None:
            self._program = self.session.program([self.bound])
        return self._program

    @property
    def result(self) -> StructType:
        """The schema of the DataFrame."""
        return result_type(self.bound, self.logical, self.session.catalog, self.session.ntz)

    @property
    def streaming(self) -> bool:
        """Whether the answer is a streaming DataFrame: as its DataFrames are, over paths it is one, and over constant
        relations it is none."""
        if not streams_of(self.logical):
            return False
        frames = self.session.frames
        kinds = {frames[s.lower()].isStreaming for s in streams_of(self.logical) if s.lower() in frames}
        if len(kinds) > 1:
            raise JobError(
                f"{self.name} reads streaming and batch DataFrames, which Spark cannot put together: make all of them"
                " streaming (spark.readStream), or pass a constant one as a relation."
            )
        return kinds != {False}

    @property
    def stateless(self) -> StatelessPlan | None:
        """The form without a shuffle, where each element can be judged on its own and the input is a DataFrame."""
        frames = self.session.frames
        if not all(s.lower() in frames for s in streams_of(self.logical)):
            return None
        return recognise(self.logical, self.bound, self.session.catalog, self.session.ntz)

    def dataframe(self, observe: bool | str | Any | None = True) -> Any:
        """The answer as a DataFrame: the query's columns, ``_time``, and ``_sign`` for the changes of a relation.

        ``observe`` names the metrics that carry the shards' statistics (or is an ``Observation``, for a batch query);
        ``eddyline.spark.report`` reads them. True: metrics with a name of their own where they cost nothing. Of a
        stateless query these are the filters in Python; to count what comes in would keep Spark from pushing other
        filters into the source, so that is done only under a name.
        """
        stateless = self.stateless
        if stateless is not None:
            return self._judged(stateless, observe)
        requirements.check_session(self.session.spark, stateful=True)
        if self.streaming and (said := cores.advice(state_partitions(self.session.spark), len(self.program.keys()))):
            warnings.warn(said, stacklevel=2)
        out = self.tagged(guarded=True)
        if observe:
            name = metrics_name() if observe is True else observe
            if observe is True and not self.streaming:
                name = self.observation = observation(out)  # so that it can be asked for what it saw
            out = out.observe(name, F.collect_list(TAG).alias(OBSERVED))
            if self.streaming:
                listen(self.session.spark, str(name), self.account)
        return out.where(F.col(TAG).isNull()).drop(TAG)

    def tagged(self, guarded: bool = False) -> Any:
        """Results and statistics together, distinguished by ``TAG``. ``guarded``: a changed query is refused when it
        starts on an old checkpoint."""
        stateless = self.stateless
        if stateless is not None:
            return self._judged(stateless, True).withColumn(TAG, F.lit(None).cast("string"))
        program, streaming = self.program, self.streaming
        if not program.sources():
            return self._at_one_instant().withColumn(TAG, F.lit(None).cast("string"))
        rows = packed(self.session, program, streaming)
        if guarded and streaming:
            from eddyline.spark.sources.guard import guard_frame

            self.mailbox = Mailbox()
            rows.append(guard_frame(self.session.spark, program, self.mailbox.path))
        return pipeline.process(program, rows, self.result, streaming=streaming)

    def _at_one_instant(self) -> Any:
        """Over constant relations only there is one instant, and nothing to ship."""
        engine = ShardEngine(self.program.groups[0], 0)
        table = pa.Table.from_batches([batch for _, batch in engine.process((), ended=True)], self.schema)
        typed = from_engine(table, arrow_schema(self.result))
        return self.session.spark.createDataFrame(typed, self.result)

    def _judged(self, plan: StatelessPlan, observe: Any) -> Any:
        frames = {s: self.session.frames[s.lower()] for s in streams_of(self.logical)}
        named = isinstance(observe, str)
        self.frame_observation, self._judging = None, True
        if observe and plan.watched:
            self.frame_observation = FrameObservation(observe if named else NAME, self.streaming)
            if self.streaming:
                listen(self.session.spark)
        if named:
            return plan.apply(frames, Counting(observe), self.frame_observation)
        out = plan.apply(frames, None, self.frame_observation)
        if observe and observe is not True:  # an Observation is one place only: behind everything
            out = out.observe(observe, F.count(F.lit(1)).alias("results"))
        return out

    # ── steering ──────────────────────────────────────────────────────────────────────────────────────────────────

    def alter(self, **options: Any) -> None:
        """Change options: of a query that has not started when it starts, of a streaming DataFrame in every shard at
        the next micro-batch. What is wrong is refused here, and then nothing changes."""
        self._steering.check(options)
        if self.mailbox is None:
            self._change_options(merged(self.bound.options, options))
        else:
            self._steering.alter(options)
            self.mailbox.send({"alter": options})

    def pin(self) -> None:
        """Keep all plans as they are; what the policies of the shards would have done is reported."""
        self._pin(True)

    def unpin(self) -> None:
        """Let policies change plans again."""
        self._pin(False)

    def _pin(self, pinned: bool) -> None:
        steering = self._steering
        if self.mailbox is None:
            self._change_options({**self.bound.options, "pinned": pinned})
        elif steering.pin(pinned):
            self.mailbox.send({"pin": pinned})

    def undo(self, number: int, shard: int | None = None) -> None:
        """Set back what a decision of the shards changed, at the next micro-batch; ``decisions`` has the number
        (``sequence``) and the ``shard`` of each. A shard in which a later decision has replaced it says so in its
        statistics (``refused``)."""
        found = [d["shard"] for d in self.decisions if d["sequence"] == number and shard in (None, d["shard"])]
        if not found or self.mailbox is None:
            raise JobError(f"no shard of {self.name!r} has reported a decision {number} that could be undone.")
        if len(found) > 1:
            shards = ", ".join(map(str, found))
            raise JobError(f"the shards {shards} each have a decision {number} of their own: say in which shard.")
        self.mailbox.send({"undo": number, "shard": found[0]})

    def alter_stream(self, name: str, widths: Mapping[str, int]) -> None:
        """Called by the session: a stream that this query may read has other widths, in ticks."""
        if self.mailbox is None:
            self._program = self._template = None
        elif "idle" in widths:
            raise JobError(
                f"{self.name!r} has started, and on Spark the idle interval of its streams is decided before:"
                " alter it before the DataFrame is made."
            )
        else:
            self.mailbox.send({"stream": name, "widths": dict(widths)})

    def _change_options(self, options: Mapping[str, Any]) -> None:
        self.bound = replace(self.bound, options=options)
        self._program = self._template = None

    @property
    def _steering(self) -> Steering:
        """That of a shard on the driver: it checks what all shards will receive, and follows it."""
        if self._judging:
            raise JobError(
                f"{self.name!r} runs without state in Spark's workers, which cannot be changed once they run:"
                " alter it before its DataFrame is made."
            )
        if self._template is None:
            self._template = ShardEngine(self.program.groups[0], 0).queries[0].steering
        return self._template

    # ── results here ──────────────────────────────────────────────────────────────────────────────────────────────

    def __repr__(self) -> str:
        events, text = sum(self.account.arrived().values()), clipped(" ".join(self.bound.text.split()))
        return f"<Query {self.name} on Spark: {text}; {amount(events, 'event')} so far>"

    def results(self) -> Iterator[pa.RecordBatch]:
        """Record batches as Spark completes them, not in order of time between shards. Sources are read to their end,
        streaming DataFrames as far as they reach now."""
        from eddyline.spark.collect import collect

        yield from collect(self)

    def to_arrow(self) -> pa.Table:
        """All results as one table, in order of time."""
        if self._table is None:
            table = pa.Table.from_batches(list(self.results()), self.schema)
            keys = [(n, "ascending") for n in self.schema.names if n in ("_time", "_sign")]
            self._table = table.sort_by(keys)
        return self._table

    def answered(self, table: pa.Table, account: Account) -> None:
        """Results and reports of a run that answered several queries."""
        keys = [(n, "ascending") for n in self.schema.names if n in ("_time", "_sign")]
        self._table = table.sort_by(keys)
        account.on_report, self.account = self.account.on_report, account

    def read(self) -> Account:
        """What the shards have reported so far; of a DataFrame with an action behind it also what that saw."""
        if self.observation is not None and answered(self.observation):
            self.account.add(self.observation.get[OBSERVED] or ())
            self.observation = None
        return self.account

    def left_out(self) -> list[LeftOut]:
        """What was turned away so far, of streams, constant relations and by the query's expressions."""
        filtered = [] if self.frame_observation is None else self.frame_observation.read().left_out(self.name)
        constant = self.session.invalid_of_relations.values()
        return [*self.read().left_out({(0, 0): self.name}), *filtered, *constant]

    def explain(self) -> str:
        """The plan of a shard, how the work is split and why, and what all shards hold by now."""
        return explain(self)

    def plan(self) -> PlanGraph:
        """The plan of every shard as data, with the totals of all shards and the statistics of each."""
        return plan_of(self)

    def _repr_html_(self) -> str:
        """In a notebook: the plan with its shards and decisions."""
        return notebook(self.plan(), SystemClock().now() / 1e6)

    def report(self) -> dict[str, Any]:
        """What was counted, over all shards; of a query without state, what its filters did in each worker."""
        self.read()
        if self.frame_observation is not None and not self.account.shards:
            return {"query": self.name, **self.frame_observation.read().report()}
        return self.account.report(0, 0)

    def statistics(self) -> dict[str, Any]:
        """What operators report inline, shards or workers report here."""
        raise JobError(
            "on Spark each shard and worker learns by itself: see report()['adapting'] for joins, report()['workers']"
            " for filters, or explain(); statistics() is of queries in one process."
        )

    @property
    def decisions(self) -> list[Mapping[str, Any]]:
        """What the planner and the shards decided, as plain data; each with the shard that took it, or None."""
        return list(self.report()["decisions"])

    def late(self) -> list[dict[str, Any]]:
        """Some of the late rows with ``_reason``; the report has their exact number."""
        return self.read().rows("late")

    def invalid(self) -> list[dict[str, Any]]:
        """Some of the invalid rows with ``_reason``; the report has their exact number."""
        filtered = [] if self.frame_observation is None else self.frame_observation.read().invalid_rows()
        return [*self.read().rows("invalid"), *filtered]
