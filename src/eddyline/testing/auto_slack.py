"""SLACK AUTO one row at a time: a slow, simple form of ``engine.auto_slack``, for the reference and for tests.

It shares the policy with the engine and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eddyline.adaptive.disorder.policies import make_policy

WARM_UP_ROWS, CONFIRM_WITHIN_ROWS, CONFIRMING_ROWS, FIRST_REACH_FACTOR = 64, 16, 8, 20
Element = tuple[int | None, Any]


class AutoByRow:
    """
    >>> rows = [(t, t) for t in range(100)]
    >>> rows[70] = (5_000_000, "ahead")
    >>> found = AutoByRow("auto").split(rows)
    >>> len(found[0]), found[1], found[2]
    (99, [], [(5000000, 'ahead')])
    """

    def __init__(self, policy: str) -> None:
        self.policy = make_policy(policy)
        self.slack = 0
        self.shown: int | None = None
        self.mark: int | None = None  # below it, rows are late
        self.limit: int | None = None
        self.judged = self.position = 0
        self.held: list[tuple[int, int, Any]] = []  # position, time, row
        self.on_time: list[tuple[int, Any]] = []
        self.late: list[Element] = []
        self.invalid: list[Element] = []

    def split(self, elements: Sequence[Element]) -> tuple[list[tuple[int, Any]], list[Element], list[Element]]:
        """(on time in order of (ts, arrival), late, invalid)."""
        self.invalid += [e for e in elements if e[0] is None]
        rows = [(ts, row) for ts, row in elements if ts is not None]
        self._begin(rows[:WARM_UP_ROWS])
        for ts, row in rows[WARM_UP_ROWS:]:
            self._arrives(ts, row)
        if self.held:
            since = self.position - self.held[0][0] + 1
            for _, ts, row in self.held:
                if 2 * len(self.held) >= since:
                    self._judge(ts, row, jump=True)
                else:
                    self.invalid.append((ts, row))
        return sorted(self.on_time, key=lambda e: e[0]), self.late, self.invalid

    def _begin(self, rows: list[tuple[int, Any]]) -> None:
        if not rows:
            return
        times = sorted(ts for ts, _ in rows)
        centre = times[(len(times) - 1) // 2]
        apart = sorted(abs(t - centre) for t in times)[int(0.8 * (len(times) - 1))] + 1
        near = [t for t in times if abs(t - centre) <= FIRST_REACH_FACTOR * apart]
        self.limit = centre + FIRST_REACH_FACTOR * apart
        self.slack = near[-1] - near[0]
        self.judged = -len(rows)
        for ts, row in rows:
            self._arrives(ts, row)
        self._choose()

    def _ahead(self, ts: int) -> bool:
        assert self.limit is not None
        if self.judged < 0 or self.shown is None:
            return ts > self.limit
        return ts > max(self.limit, self.shown + self.policy.reach)

    def _arrives(self, ts: int, row: Any) -> None:
        self.position += 1
        self.invalid += [(t, r) for p, t, r in self.held if p <= self.position - CONFIRM_WITHIN_ROWS]
        self.held = [h for h in self.held if h[0] > self.position - CONFIRM_WITHIN_ROWS]
        if self._ahead(ts):
            self.held.append((self.position, ts, row))
            if len(self.held) == CONFIRMING_ROWS:
                believed, self.held = self.held, []
                for _, t, r in believed:
                    self._judge(t, r, jump=True)
            return
        self._judge(ts, row)
        while caught := [h for h in self.held if not self._ahead(h[1])]:
            self.held.remove(caught[0])
            self._judge(*caught[0][1:])

    def _judge(self, ts: int, row: Any, jump: bool = False) -> None:
        shown = ts if self.shown is None else self.shown
        late = ts < shown - self.slack or (self.mark is not None and ts < self.mark)
        (self.late if late else self.on_time).append((ts, row))
        lateness = max(0, shown - ts)
        if self.judged < 0:
            lateness = min(lateness, self.slack)
        self.policy.observe(np.array([lateness]), int(late), 0 if jump else max(0, ts - shown))
        self.shown = max(shown, ts)
        self.judged += 1
        if self.judged == self.policy.interval:
            self._choose()

    def _choose(self) -> None:
        self.judged = 0
        self.policy.decide()
        if self.shown is not None:
            bound = self.shown - self.slack
            self.mark = bound if self.mark is None else max(self.mark, bound)
        self.slack = self.policy.slack
