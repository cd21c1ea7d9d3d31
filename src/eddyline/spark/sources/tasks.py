"""Assigns the pieces of a micro-batch to tasks.

Each task sends one packed row for every shard and lane of each source that it reads, so a source is cut only where the
tasks would otherwise be uneven: at most once for each task.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from eddyline.core.errors import DataError
from eddyline.io.source import SourceBatch, shorten
from eddyline.spark.sources.parts import Piece, Slice

MIN_ROWS_PER_TASK: Final = 20_000  # a task with fewer costs more than it saves
CARRIED_BYTES_PER_TASK: Final = 8 << 20  # of rows that are sent with a task's description, at most
SNAP_SHARE: Final = 0.15  # of a task's rows: a source that ends so close to the task's end is not cut


@dataclass(frozen=True, slots=True)
class Load:
    """What one task reads of one source. ``ended``: this is the last of it."""

    source: str
    slices: tuple[Slice, ...]
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    loads: tuple[Load, ...]
    stamp: int  # wall-clock time (µs) of the micro-batch


def check(batch: SourceBatch, strict: bool) -> None:
    """Stop at a malformed row, if asked to."""
    if strict and batch.invalid:
        first = batch.invalid[0]
        raise DataError(f"malformed row in strict mode. {first.reason}: {shorten(first.row)}")


Dealt = list[dict[str, list[Piece]]]


def number_of_tasks(pieces: Mapping[str, Sequence[Piece]], cores: int, most_rows: float = math.inf) -> int:
    rows = sum(p.rows for ps in pieces.values() for p in ps)
    carried = sum(p.size for ps in pieces.values() for p in ps)
    useful = min(cores, max(1, math.ceil(rows / MIN_ROWS_PER_TASK)))
    return max(useful, math.ceil(rows / most_rows), math.ceil(carried / CARRIED_BYTES_PER_TASK))


def deal(pieces: Mapping[str, Sequence[Piece]], tasks: int) -> Dealt:
    """Runs of pieces for each task, in order of source; neighbours are put together again.

    >>> from eddyline.spark.sources.places import Mark
    >>> cut = [Piece(0, Mark(i), Mark(i + 10), 10) for i in range(0, 40, 10)]
    >>> [[(n, int(p.start.at), int(p.rows)) for n, ps in t.items() for p in ps] for t in deal({"R": cut, "S": cut}, 2)]
    [[('R', 0, 40)], [('S', 0, 40)]]
    """
    total = sum(p.rows for ps in pieces.values() for p in ps)
    share = total / tasks
    out: Dealt = [{} for _ in range(tasks)]
    task, filled = 0, 0.0
    for source, mine in pieces.items():
        left = sum(p.rows for p in mine)
        for p in mine:
            full = filled + p.rows / 2 > share * (task + 1)
            nearly_done = filled + left <= share * (task + 1 + SNAP_SHARE)
            if full and not nearly_done and task < tasks - 1:
                task += 1
            _add(out[task].setdefault(source, []), p)
            filled, left = filled + p.rows, left - p.rows
        if task < tasks - 1 and filled >= share * (task + 1 - SNAP_SHARE):
            task += 1
    return [t for t in out if t]


def _add(run: list[Piece], p: Piece) -> None:
    joined = run[-1].joined(p) if run else None
    if joined is not None:
        run[-1] = joined
    else:
        run.append(p)
