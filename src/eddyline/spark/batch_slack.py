"""SLACK AUTO where rows come in micro-batches: the same policy, which receives whole micro-batches.

The rows of a micro-batch have no order, and its rows are spread over shards. So every map task counts the times of the
rows that it reads (``time_counts``) and sends the counts to all shards; all of them add up the same counts and compute
the same slack and the same bound for times that are believed, without exchanging data. The judgement of a shard's own
rows follows from these two numbers (``batch_rows``). The state of the policy is part of the state of each shard.

*For each micro-batch, in this order*:

1. **The first rows** are held until ``WARM_UP_ROWS`` came. Nothing was shown before them, so how late rows are is
   estimated where they are read, in the order in which they are read (``read_lateness``).
2. Time reaches from what was shown (at first: from the middle row) to the largest time that can be reached in steps of
   at most the policy's ``reach``. Rows **ahead** of it are held. If they are at least half of the rows of the
   micro-batch, and ``CONFIRMING_ROWS`` with those held before, time has really moved, and it goes on from their
   middle. A row that ``CONFIRM_WITHIN_ROWS`` rows of later micro-batches have not confirmed is **implausible**. When
   the stream falls idle, the held rows are believed if they are half of the rows since the first of them; when it
   ends, a sixteenth is enough, because no later row can become late by it.
3. A row is **late** if it lies below the watermark that earlier micro-batches have left.
4. The policy receives how far the rows lie behind the largest time of earlier micro-batches, and chooses. A larger
   slack is in force at once, because nothing of this micro-batch is closed yet; a smaller one after it, because what is
   late in a micro-batch must not depend on its own rows.

Ways that look right and are wrong:

- *To let each shard choose by its own rows*: shards would close different instants.
- *To let the driver choose*: it has the results of a micro-batch after the commit, so one that is run again after
  a restart would find another slack.
- *To take the largest step between two times as the measure for others*: a row hours ahead makes the largest step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from eddyline.adaptive.disorder.policies import make_policy
from eddyline.adaptive.disorder.policy import SlackPolicy
from eddyline.core.delta import Int64s
from eddyline.engine.auto_slack import CONFIRM_WITHIN_ROWS, CONFIRMING_ROWS, IMPLAUSIBLE, WARM_UP_ROWS, AutoSlack, Fates
from eddyline.engine.watermark import Watermark
from eddyline.spark.time_counts import TimeCounts
from eddyline.streamon.decision import Decision

SAMPLED_ROWS: Final = 8192  # of a micro-batch for the policy; of a task, judged one by one
USUAL_SHARE: Final = 0.9  # of the rows: the steps between their times are a measure for other rows
MOVED_SHARE: Final = 0.5  # of the rows of a micro-batch: if so many are ahead, time has really moved
MOVED_SHARE_AT_END: Final = 1 / 16  # the same at the end of the stream
EMPTY: Final = TimeCounts.of(np.empty(0, np.int64))


def read_lateness(time: Int64s, policy: str) -> TimeCounts:
    """How far the rows that a task reads first lie behind those before them, implausible ones aside. More than the time
    that eight of ten rows cover is no measure: it follows a row far ahead that was believed.

    The first ``SAMPLED_ROWS`` rows are judged one by one. Of the others those count that time reaches from their middle
    in steps of the reach that the policy has found: a few thousand rows may cover less time than rows come late.

    >>> read_lateness(np.array([1, 2, 9_000_000, 5, 3, 6, 7, 8, 9, 10]), "auto").last.tolist()
    [0, 2]
    """
    judge = AutoSlack(make_policy(policy), Watermark())
    found = Fates.joined([judge.judge(time[:SAMPLED_ROWS], 0), judge.settle()])
    behind = np.maximum(found.shown - found.time, 0)[found.fate != IMPLAUSIBLE]
    if len(time) > SAMPLED_ROWS:
        known = TimeCounts.of(time)
        believed = time <= known.reached(known.median, judge.policy.reach)
        shown = np.maximum.accumulate(np.where(believed, time, time.min()))
        behind = np.concatenate([behind, (shown - time)[SAMPLED_ROWS:][believed[SAMPLED_ROWS:]]])
    low, high = np.quantile(time, (0.1, 0.9), method="nearest")
    return TimeCounts.of(behind[behind <= high - low + 1])


@dataclass(slots=True)
class _Ahead:
    """The rows of one micro-batch that are ahead, how many rows it had, and how many have come since."""

    batch: int
    counts: TimeCounts
    rows: int
    since: int = 0


class BatchSlack:
    """Applies a slack policy to the micro-batches of one stream. It is the same in all shards.

    >>> mark = Watermark()
    >>> slack = BatchSlack(make_policy("auto"), mark)
    >>> for start in (0, 100):
    ...     times = np.append(np.arange(start, start + 100), 5_000_000)
    ...     slack.step(TimeCounts.of(times), read_lateness(times, "auto"))
    ...     print(slack.limit, slack.refuted); slack.end()
    99 0
    199 1
    >>> mark.shown
    199
    """

    def __init__(self, policy: SlackPolicy, watermark: Watermark) -> None:
        self.policy, self.watermark = policy, watermark
        self.decisions: list[Decision] = []  # those that were not yet collected
        self.implausible = 0  # rows of this shard
        self.held_times: list[int] = []  # no query comes later that would have to know them
        self.batch = 0  # the number of the micro-batch
        self.limit: int | None = None  # rows up to it are believed; None while the first rows are held
        self.refuted = 0  # rows of micro-batches up to this one that are beyond the limit are implausible
        self.took: tuple[int, int] | None = None  # the smallest and the largest time that was believed since ``end``
        self._first: tuple[TimeCounts, TimeCounts] | None = (EMPTY, EMPTY)  # of the first rows; None: they have come
        self._ahead: list[_Ahead] = []

    @property
    def believed(self) -> int | None:
        return self.limit

    def step(self, times: TimeCounts, lateness: TimeCounts) -> None:
        """The next micro-batch: its times, and how late its rows were where they were read."""
        self.batch += 1
        if self._first is None:
            self._judge(times)
            return
        self._first = TimeCounts.merged([self._first[0], times]), TimeCounts.merged([self._first[1], lateness])
        if self._first[0].rows >= WARM_UP_ROWS:
            self._begin()

    def settle(self, ended: bool) -> None:
        """The stream falls idle or has ended: nothing is held any more."""
        if self._first is not None and self._first[0].rows:
            self._begin()
        share = MOVED_SHARE_AT_END if ended else MOVED_SHARE
        while self._ahead and self.limit is not None:
            rest = TimeCounts.merged(a.counts for a in self._ahead)
            if rest.rows < share * (self._ahead[0].rows + self._ahead[0].since):
                self._ahead = []
                break
            self._believe(rest, rest.reached(rest.median, self.policy.reach))
        self.refuted = self.batch

    def end(self) -> None:
        """The rows of the micro-batch were judged: show how far time has come, and let a smaller slack take effect."""
        if self.took is not None:
            self.watermark.show(self.took[1])
        if self.limit is not None and self.policy.slack != self.watermark.slack:
            self.watermark.change(self.policy.slack)

    def taken(self) -> tuple[int, int] | None:
        """The smallest and the largest time that was believed since the last call."""
        found, self.took = self.took, None
        return found

    def _begin(self) -> None:
        assert self._first is not None
        (times, lateness), self._first = self._first, None
        middle = times.median
        near = -lateness.first[::-1], lateness.count[::-1]  # by time behind, the latest first
        behind = TimeCounts(0, near[0], near[1], near[0], near[0]).behind(0, SAMPLED_ROWS)
        self._choose(behind, 0, times.step(USUAL_SHARE, None), times.rows, middle)
        self.limit = times.reached(middle, self.policy.reach)
        self._go_on(times)

    def _judge(self, times: TimeCounts) -> None:
        for a in self._ahead:
            a.since += times.rows
        shown, bound = self.watermark.shown, self.watermark.bound
        known = TimeCounts.merged([times, *(a.counts for a in self._ahead)])
        self.limit = known.reached(known.median if shown is None else shown, self.policy.reach)
        moved = self._go_on(times)
        believed = times.up_to(self.limit)
        if not believed.rows:
            return
        behind = believed.behind(believed.median if shown is None else shown, SAMPLED_ROWS)
        late = int(believed.count[believed.first < bound].sum())
        step = believed.step(USUAL_SHARE, None if moved else shown)
        self._choose(behind, late, step, believed.rows, believed.median if shown is None else shown)

    def _go_on(self, times: TimeCounts) -> bool:
        """Hold the rows ahead, or follow them; whether time has moved by more than the reach."""
        assert self.limit is not None
        moved = False
        self._ahead.append(_Ahead(self.batch, times, times.rows))
        self._believe(TimeCounts.merged(a.counts for a in self._ahead), self.limit)
        while self._ahead and self._ahead[-1].batch == self.batch:
            rest, new = TimeCounts.merged(a.counts for a in self._ahead), self._ahead[-1].counts.rows
            if rest.rows < CONFIRMING_ROWS or new < MOVED_SHARE * times.rows:
                break
            moved = True
            self._believe(rest, rest.reached(rest.median, self.policy.reach))
        passed = [a.batch for a in self._ahead if a.since >= CONFIRM_WITHIN_ROWS]
        self.refuted = max([self.refuted, *passed])
        self._ahead = [a for a in self._ahead if a.since < CONFIRM_WITHIN_ROWS]
        return moved

    def _believe(self, known: TimeCounts, limit: int) -> None:
        """Rows up to this time are believed, of those that are known."""
        self.limit = limit
        believed = known.up_to(limit)
        if believed.rows:
            low, high = int(believed.first[0]), int(believed.last[-1])
            before = self.took or (low, high)
            self.took = min(before[0], low), max(before[1], high)
        for a in self._ahead:
            a.counts = a.counts.beyond(limit)
        self._ahead = [a for a in self._ahead if a.counts.rows]

    def _choose(self, behind: Int64s, late: int, step: int, rows: int, now: int) -> None:
        """Let the policy choose; ``now`` is the time of the decision, because one without is the planner's."""
        scaled = late if rows <= len(behind) else round(late * len(behind) / rows)
        self.policy.observe(behind, scaled, step)
        decision = self.policy.decide(now)
        if decision is not None:
            self.decisions.append(decision)
        if self.policy.slack > self.watermark.slack:
            self.watermark.change(self.policy.slack)

    def state(self) -> dict[str, Any]:
        return {
            "policy": self.policy.state(),
            "first": None if self._first is None else [c.packed() for c in self._first],
            "ahead": [{"numbers": [a.batch, a.rows, a.since], "counts": a.counts.packed()} for a in self._ahead],
            "numbers": [self.batch, self.refuted, self.implausible],
            "limit": self.limit,
        }

    def load(self, state: Mapping[str, Any]) -> None:
        self.policy.load(state["policy"])
        first = state["first"]
        self._first = None if first is None else (TimeCounts.unpack(first[0])[0], TimeCounts.unpack(first[1])[0])
        self._ahead = [
            _Ahead(int(a["numbers"][0]), TimeCounts.unpack(a["counts"])[0], int(a["numbers"][1]), int(a["numbers"][2]))
            for a in state["ahead"]
        ]
        self.batch, self.refuted, self.implausible = (int(n) for n in state["numbers"])
        self.limit = state["limit"]
        if self._first is None:
            self.watermark.slack = self.policy.slack
