"""Closing: up to which instant a query's answer is final.

The rule (the whole of it):

- Instant τ closes when every input of the query has shown, by element or heartbeat, a time − slack > τ. So the
  frontier is the smallest ``bound`` of the inputs, less one. An input that has shown nothing holds everything back.
- A finished input holds nothing back, nor does one that has been silent for its declared ``IDLE`` interval.
- Once all have finished, time ends at the largest timestamp of any element on time (what heartbeats of *all* inputs had
  closed before stays closed). Nothing expires after that.
- If the inputs that have not finished are all idle, the instants up to the largest time shown by any are closed.

Ways that look right and are wrong:

- *The end of time is NEVER*: then every window would expire at the end of a file. It is the last timestamp.
- *The end of time of each input*: a stream that ends early must not end the query, and its windows go on expiring.
- *The largest timestamp less the slack at the end*: no late row can come after the end, so no slack is needed.
- *The largest timestamp of the slowest input*: its own instant is open until a later one is shown.
- *Skip inputs that have shown no time yet*: the first element of a slow input would find its instants closed. Only
  ``IDLE`` may do that, because the user declared it.
- *Frontiers may go back when an idle input wakes*: closed is closed; ``reached`` is kept, and what is behind is late.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from eddyline.core.time import BEGINNING


class Bounded(Protocol):
    """The part of an input that closing reads; ``InputStream`` is one."""

    @property
    def bound(self) -> int: ...
    @property
    def shown_bound(self) -> int: ...
    @property
    def shown(self) -> int | None: ...
    @property
    def finished(self) -> bool: ...
    @property
    def idle(self) -> bool: ...
    @property
    def last_time(self) -> int | None: ...


def frontier(inputs: Iterable[Bounded], reached: int | None = None) -> int | None:
    """The largest closed instant, never below ``reached``; None while nothing is closed.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Input:
    ...     shown: int | None
    ...     finished: bool = False
    ...     idle: bool = False
    ...     bound = property(lambda self: BEGINNING if self.shown is None else self.shown)
    ...     shown_bound = bound
    ...     last_time = property(lambda self: self.shown)
    >>> frontier([Input(7), Input(5)])
    4
    >>> frontier([Input(7), Input(None)]) is None
    True
    >>> frontier([Input(7), Input(5, finished=True)]), frontier([Input(7, finished=True), Input(5, finished=True)])
    (6, 7)
    >>> frontier([Input(3), Input(5, idle=True)], reached=4)
    4
    """
    everyone = list(inputs)
    holding = [i.bound for i in everyone if not (i.finished or i.idle)]
    closed: list[int] = [] if reached is None else [reached]
    if holding:
        lowest = min(holding)
        if lowest > BEGINNING:
            closed.append(lowest - 1)
    elif all(i.finished for i in everyone):
        closed += [i.last_time for i in everyone if i.last_time is not None]
        together = min((i.shown_bound for i in everyone), default=BEGINNING)
        if together > BEGINNING:
            closed.append(together - 1)
    else:
        closed += [i.shown for i in everyone if i.shown is not None]
    return max(closed, default=None)


def start(inputs: Iterable[StartsAt], frontier: int | None) -> int | None:
    """The first instant of a query's time: the smallest timestamp of an element on time; None while that is open.

    With slack, instants before the first element seen close while an earlier element may still come on time; only an
    instant that is closed itself cannot be preceded any more.

    >>> from types import SimpleNamespace
    >>> s = SimpleNamespace(first_time=100)
    >>> start([s], 49), start([s], 100)
    (None, 100)
    """
    first = min((i.first_time for i in inputs if i.first_time is not None), default=None)
    return first if first is not None and frontier is not None and first <= frontier else None


class StartsAt(Protocol):
    @property
    def first_time(self) -> int | None: ...
