"""Forwarding: the decisions about an operator that several queries read are in the log of each of them.

An operator reports to the log of the query that built it. Each other query that reads it gets each record from then on,
with the operator's name in its own plan and a number of its own log.
"""

from __future__ import annotations

from eddyline.streamon.decision import Decision
from eddyline.streamon.log import DecisionLog, Follower


class Forwarding(Follower):
    """
    >>> first, second = DecisionLog(query="a"), DecisionLog(query="b")
    >>> forwarding = Forwarding(first, "select 1", second, "select 3")
    >>> taken = first.record(Decision("filter order", (0, 1), (1, 0)), operator="select 1")
    >>> _ = first.record(Decision("filter order", (0, 1), (1, 0)), operator="select 2")
    >>> first.settle(taken.sequence, 1.5)
    >>> [(d.query, d.operator, d.measured_gain) for d in second]
    [('b', 'select 3', 1.5)]
    """

    def __init__(self, source: DecisionLog, operator: str, target: DecisionLog, name: str) -> None:
        super().__init__()
        self.source, self.operator, self.target, self.name = source, operator, target, name
        self._numbers: dict[int, int] = {}  # of the records that may still be settled
        source.add_follower(self)

    def put(self, decision: Decision) -> None:
        if decision.operator == self.operator:
            made = self.target.record(decision, operator=self.name)
            if decision.sequence is not None and made.sequence is not None:
                self._numbers = {decision.sequence: made.sequence}  # a decision is settled when the next one is taken

    def settle(self, sequence: int, measured_gain: float) -> None:
        if sequence in self._numbers:
            self.target.settle(self._numbers[sequence], measured_gain)

    def end(self) -> None:
        self.source.unfollow(self)
