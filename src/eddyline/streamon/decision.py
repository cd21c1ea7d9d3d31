"""A decision is one frozen record. ``explain``, ``report``, plots, SysStream and the tests read the same object.

A policy fills in what changes, the statistics that the change rests on, its expected gain and its cost. The log
(``streamon.log``) adds who, where and when. A sentence for people is made when a decision is shown, never when it is
taken: ``because`` is a template over the evidence (``streamon.wording``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from eddyline.core.plain import plain_copy
from eddyline.streamon.wording import render

PLANNER, POLICY, SCHEDULER, SESSION, USER = "planner", "policy", "scheduler", "session", "user"


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision of the planner, a policy, the scheduler, the session or the user.

    ``evidence`` are the statistics that the decision rests on, ``units`` the units of those that have one.
    ``expected_gain`` is what they promise: the cost before over the cost after, or None where nothing was estimated.
    ``cost`` is what the change itself costs, in the unit ``units["cost"]``; None where nothing has to be moved or
    filled. ``measured_gain`` is the ratio that was measured after the change; it is None until then, and where no gain
    is measured. ``names`` are the names of the filters that the evidence has by number.

    >>> decision = Decision(
    ...     "filter order", (0, 1), (1, 0), "{first:name} takes {price} for a tuple", {"first": 1, "price": 3e-5},
    ...     {"price": "s"}, names=("size > 900", "is_bot(agent)"), expected_gain=1.3,
    ... )
    >>> decision.reason
    'is_bot(agent) takes 30 µs for a tuple'
    """

    kind: str
    before: Any
    after: Any
    because: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    expected_gain: float | None = None
    cost: float | None = None
    measured_gain: float | None = None
    names: tuple[str, ...] = ()
    operator: str = ""
    time: int | None = None  # event time, in ticks
    by: str = POLICY
    applied: bool = True  # False: a pinned query was not changed; this is what would have been done
    # The log sets these: the number of the record, the wall-clock time (microseconds), the query and the shard.
    sequence: int | None = None
    wall: int | None = None
    query: str = ""
    shard: int | None = None

    @property
    def reason(self) -> str:
        """Why it was taken, as a sentence for people."""
        return render(self.because, self.evidence, self.units, self.names)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for reports, with the reason as a sentence."""
        return {**self.state(), "reason": self.reason}

    def state(self) -> dict[str, Any]:
        """Plain data for snapshots: ``Decision.load`` is the inverse."""
        found: dict[str, Any] = plain_copy(self)
        return found

    @staticmethod
    def load(state: Mapping[str, Any]) -> Decision:
        """
        >>> taken = Decision("join caches", (), ("R⋈S",), expected_gain=2.0)
        >>> Decision.load(taken.to_dict()) == taken
        True
        """
        known = {k: state[k] for k in _FIELDS if k in state}
        return replace(Decision("", None, None), **known | {"names": tuple(known.get("names", ()))})


_FIELDS = tuple(f.name for f in fields(Decision))
