"""Parameters of policies: their ranges, and what each trades. Defaults stand in the constructors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eddyline.core.errors import JobError


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number in (low, high] or, if ``whole``, a whole number in [low, high].

    >>> P.check("a-greedy", 0.05)
    0.05
    >>> P.check("a-greedy", "often")
    Traceback (most recent call last):
    ...
    eddyline.core.errors.JobError: the option 'p' of 'a-greedy' must be a number above 0 and at most 1, not 'often'.
    """

    name: str
    low: float
    high: float
    trades: str
    whole: bool = False

    def check(self, policy: str, value: Any) -> Any:
        """The value, or a sentence that says what it must be."""
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if number and self.whole and self.low <= value <= self.high and value == int(value):
            return int(value)
        if number and not self.whole and self.low < value <= self.high:
            return float(value)
        kind = f"a whole number from {self.low:,.0f} to" if self.whole else f"a number above {self.low:g} and at most"
        limit = f"{self.high:,.0f}" if self.whole else f"{self.high:g}"
        raise JobError(f"the option {self.name!r} of {policy!r} must be {kind} {limit}, not {value!r}.")


@dataclass(frozen=True, slots=True)
class NamedChoice:
    """A parameter whose value is one of some names; dashes and underscores are the same.

    >>> NamedChoice("migration", ("nothing", "all"), "what is re-indexed").check("amri", "some")
    Traceback (most recent call last):
    ...
    eddyline.core.errors.JobError: the option 'migration' of 'amri' must be one of nothing, all, not 'some'.
    """

    name: str
    names: tuple[str, ...]
    trades: str

    def check(self, policy: str, value: Any) -> Any:
        """The name, or a sentence that says which there are."""
        written = value.replace("_", "-").lower() if isinstance(value, str) else value
        if written in self.names:
            return written
        raise JobError(f"the option {self.name!r} of {policy!r} must be one of {', '.join(self.names)}, not {value!r}.")


def check_all(parameters: Sequence[Parameter | NamedChoice], policy: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of all parameters of a policy, by name.

    >>> check_all((P,), "a-greedy", {"p": 1})
    {'p': 1.0}
    """
    return {p.name: p.check(policy, values[p.name]) for p in parameters}


P = Parameter(
    "p",
    0,
    1,
    "drop-profiling probability: larger notices changes sooner and spends more evaluations on dropped tuples",
)
WINDOW = Parameter(
    "window",
    1,
    1_000_000,
    "profile tuples remembered: more give steadier estimates and forget the past more slowly",
    whole=True,
)
ALPHA = Parameter(
    "alpha",
    0,
    1,
    "thrash avoidance: smaller reorders less often for near ties and accepts orders up to 4/α from the optimum",
)
SEED = Parameter(
    "seed",
    0,
    2**63 - 1,
    "which tuples are profiled: nothing but repeatability",
    whole=True,
)
