"""A contract check: its name, its subject, and a function that raises an error if the contract is broken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from eddyline.engine.state_codec import decode, encode


class CheckFailed(AssertionError):
    """A contract is broken. The message names the check, the thing that was checked and what was found."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check of one thing. ``kind`` is what the thing is (``filters policy``, ``source``), ``subject`` its name.

    >>> check = Check("source", "mine", "opens twice", lambda: require(False, "the second run has 3 rows less"))
    >>> str(check)
    'source mine: opens twice'
    >>> check()
    Traceback (most recent call last):
    ...
    eddyline.testing.checks.check.CheckFailed: source mine: opens twice: the second run has 3 rows less
    """

    kind: str
    subject: str
    name: str
    run: Callable[[], None]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}: {self.name}"

    def __call__(self) -> None:
        try:
            self.run()
        except CheckFailed as failure:
            raise CheckFailed(f"{self}: {failure}") from None
        except Exception as error:
            raise CheckFailed(f"{self}: {type(error).__name__}: {error}") from error


def require(condition: object, what: str) -> None:
    """Raise ``CheckFailed`` with ``what`` unless the condition holds."""
    if not condition:
        raise CheckFailed(what)


def named(kind: str, subject: str, checks: Iterable[tuple[str, Callable[[], None]]]) -> Iterator[Check]:
    """Checks of one thing."""
    for name, run in checks:
        yield Check(kind, subject, name, run)


def run_all(checks: Iterable[Check]) -> int:
    """Run checks one after another; how many there were. The first that fails raises."""
    count = 0
    for check in checks:
        check()
        count += 1
    return count


class _Memory:
    def __init__(self) -> None:
        self.pieces: dict[str, Any] = {}

    def put(self, name: str, data: Any) -> None:
        self.pieces[name] = bytes(data)

    def get(self, name: str) -> Any:
        return self.pieces[name]


def saved(state: Any) -> Any:
    """A state as it comes back from a snapshot: encoded, written and read.

    >>> saved({"order": [1, 0], "counts": np.array([3, 4])})
    {'order': [1, 0], 'counts': array([3, 4])}
    """
    memory = _Memory()
    return decode(encode(state, memory), memory)


def same_state(a: Any, b: Any) -> bool:
    """Whether two states are equal trees of numbers and arrays; NaN equals NaN.

    >>> same_state({"a": np.array([1.0, np.nan])}, {"a": np.array([1.0, np.nan])}), same_state({"a": 1}, {"b": 1})
    (True, False)
    """
    if isinstance(a, dict) or isinstance(b, dict):
        return (
            isinstance(a, dict)
            and isinstance(b, dict)
            and a.keys() == b.keys()
            and all(same_state(a[k], b[k]) for k in a)
        )
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same_state, a, b))
    x, y = np.asarray(a), np.asarray(b)
    return bool(np.array_equal(x, y, equal_nan=x.dtype.kind == "f" and y.dtype.kind == "f"))
