"""The sources of a program as packed rows for its shards: Spark's DataFrames, and our own readers."""

from __future__ import annotations

from typing import Any, Protocol

from eddyline.io.source import Source
from eddyline.spark import pipeline
from eddyline.spark.program import Program, state_partitions


class PackedSession(Protocol):
    """The part of the session on Spark that readers use."""

    spark: Any
    frames: dict[str, Any]
    opened: dict[str, Source]
    rows_per_batch: int
    strict: bool

    def definition(self, name: str) -> Any: ...


def packed(session: PackedSession, program: Program, streaming: bool) -> list[Any]:
    """The rows of all sources of a program for its shards: of DataFrames, and of our own readers together."""
    names = program.sources()
    theirs = {n: session.frames[n.lower()] for n in names if n.lower() in session.frames}
    # As many tasks as there are for the state: more would cost each micro-batch their start, and wait for those.
    tasks = state_partitions(session.spark) if streaming else None
    frames = [pipeline.pack(theirs, program, tasks, streaming)] if theirs else []
    mine = {n: session.opened[n.lower()] for n in names if n.lower() in session.opened}
    if mine:
        from eddyline.spark.sources.packed import packed_frame

        definitions = {n: session.definition(n) for n in mine}
        # One state partition and one task that reads: then a micro-batch is one task, without a shuffle.
        alone = tasks == 1
        read = packed_frame(
            session.spark,
            program,
            mine,
            definitions,
            rows_per_batch=session.rows_per_batch,
            streaming=streaming,
            strict=session.strict,
            tasks=1 if alone else None,
        )
        frames.append(read.coalesce(1) if alone else read)
    return frames
