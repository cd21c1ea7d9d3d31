"""The rows of a stream with SLACK AUTO: those that wait to be judged, and where they go: on time, late, implausible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa

from eddyline.adaptive.disorder.policies import make_policy
from eddyline.core.delta import Int64s
from eddyline.core.time import TimeKind
from eddyline.engine.auto_slack import IMPLAUSIBLE, ON_TIME, AutoSlack, Fates
from eddyline.engine.reorder import Chunk
from eddyline.engine.side_output import Diverted
from eddyline.engine.watermark import BEFORE, BEHIND, SHUT, Watermark
from eddyline.streamon.decision import Decision

AHEAD: Final = (
    "implausible: far ahead of the rows around it; a fixed SLACK, or SLACK 'auto(jump=…)' with a larger jump, believes"
    " such times"
)
REASONS: Final = pa.array([BEHIND, BEFORE, SHUT, AHEAD])  # by fate, from 1 on


@dataclass(frozen=True, slots=True)
class Placed:
    """Rows that were judged: ``on_time`` by time, in parts that came one after another, each with the rows as they
    came; and those to divert."""

    on_time: list[tuple[Chunk, pa.RecordBatch]]
    late: list[Diverted]
    implausible: list[Diverted]


class SlackState(Protocol):
    """The part of a slack's choice that an input stream reads."""

    decisions: list[Decision]
    implausible: int

    @property
    def believed(self) -> int | None: ...

    @property
    def held_times(self) -> list[int]: ...


class JudgedRows(Protocol):
    """Rows that are judged before they count: row by row here, in micro-batches in ``spark.batch_rows``."""

    text: str

    @property
    def slack(self) -> SlackState: ...

    def take(self, batch: pa.RecordBatch, chosen: pa.RecordBatch, time: Int64s, first: int, closed: int) -> Placed: ...
    def heartbeat(self, time: int, closed: int) -> Placed: ...
    def settle(self, closed: int) -> Placed: ...
    def state(self) -> dict[str, Any]: ...
    def load(self, state: Mapping[str, Any]) -> None: ...


class AutoRows:
    """``policy`` is what was written behind SLACK: ``'auto(target=99)'``."""

    def __init__(self, policy: str, kind: TimeKind | None, watermark: Watermark, stream: str) -> None:
        self.text = policy
        self.slack = AutoSlack(make_policy(policy, "µs" if kind is TimeKind.TIMESTAMP else "ticks"), watermark)
        self.stream = stream
        self._waiting: dict[int, tuple[pa.RecordBatch, pa.RecordBatch]] = {}  # a row as it came, and its columns

    def take(self, batch: pa.RecordBatch, chosen: pa.RecordBatch, time: Int64s, first: int, closed: int) -> Placed:
        """The next rows, numbered from ``first``; ``chosen`` has the columns that queries read."""
        fates = self.slack.judge(time, first, closed)
        placed = self._place(fates, batch, chosen, first)
        for number in self.slack.held:
            if number >= first:
                at = number - first
                self._waiting[number] = batch.slice(at, 1), chosen.slice(at, 1)
        return placed

    def heartbeat(self, time: int, closed: int) -> Placed:
        return self._place(self.slack.heartbeat(time, closed), None, None, 0)

    def settle(self, closed: int) -> Placed:
        """The stream has ended or is idle: nothing waits any more."""
        return self._place(self.slack.settle(closed), None, None, 0)

    def _place(self, fates: Fates, batch: pa.RecordBatch | None, chosen: pa.RecordBatch | None, first: int) -> Placed:
        placed = Placed([], [], [])
        before = np.ones(len(fates.number), np.bool_) if batch is None else fates.number < first
        for i in np.flatnonzero(before).tolist():  # rows of earlier batches: a few
            row, columns = self._waiting.pop(int(fates.number[i]))
            self._put(placed, _part(fates, slice(i, i + 1)), row, columns)
        if batch is not None and chosen is not None and not before.all():
            mine = _part(fates, ~before)
            at = mine.number - first
            if len(at) < batch.num_rows or (np.diff(at) < 0).any():
                batch, chosen = batch.take(pa.array(at)), chosen.take(pa.array(at))
            self._put(placed, mine, batch, chosen)
        return placed

    def _put(self, placed: Placed, fates: Fates, batch: pa.RecordBatch, chosen: pa.RecordBatch) -> None:
        kept = fates.fate == ON_TIME
        if kept.all():
            placed.on_time.append(_chunk(fates, chosen, batch))
            return
        for part, rows in (
            (placed.late, ~kept & (fates.fate != IMPLAUSIBLE)),
            (placed.implausible, fates.fate == IMPLAUSIBLE),
        ):
            if rows.any():
                reasons = REASONS.take(pa.array(fates.fate[rows] - 1))
                part.append(Diverted(self.stream, batch.filter(pa.array(rows)), fates.shown[rows], reasons))
        if kept.any():
            mask = pa.array(kept)
            placed.on_time.append(_chunk(_part(fates, kept), chosen.filter(mask), batch.filter(mask)))

    def state(self) -> dict[str, Any]:
        waiting = [{"number": n, "row": r, "columns": c} for n, (r, c) in self._waiting.items()]
        return {"policy": self.text, "slack": self.slack.state(), "waiting": waiting}

    def load(self, state: Mapping[str, Any]) -> None:
        self.slack.load(state["slack"])
        self._waiting = {int(w["number"]): (w["row"], w["columns"]) for w in state["waiting"]}


def _part(fates: Fates, rows: Any) -> Fates:
    return Fates(fates.number[rows], fates.time[rows], fates.shown[rows], fates.fate[rows])


def _chunk(fates: Fates, rows: pa.RecordBatch, raw: pa.RecordBatch) -> tuple[Chunk, pa.RecordBatch]:
    """Rows by time; those of one instant by number."""
    chunk = Chunk(fates.time, rows, int(fates.number.min()), fates.number)
    if (np.diff(fates.time) >= 0).all():
        return chunk, raw
    return chunk.sorted(), raw.take(pa.array(np.argsort(fates.time, kind="stable")))
