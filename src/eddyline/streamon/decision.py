"""Decisions are data: explain, the plan log, SysStream, the web page and the tests read the same object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision of the planner or of an adaptive operator.

    ``evidence`` are the statistics it rests on, ``expected_gain`` what they promise (a ratio of costs, or None where
    nothing was estimated), ``cost`` what the change itself costs. ``measured_gain`` is the same ratio as it was found
    after the change; until then, and where nobody measures, it is None.
    """

    time: int | None
    operator: str
    kind: str
    before: Any
    after: Any
    reason: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    expected_gain: float | None = None
    cost: float | None = None
    measured_gain: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
