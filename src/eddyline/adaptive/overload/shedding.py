"""Shedding: rows in order of arrival → those that are kept while more wait than the stream may hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from eddyline.core.delta import Bools
from eddyline.core.overload import Overload
from eddyline.streamon.coins import Coins
from eddyline.streamon.decision import Decision

RECOVERED_SHARE: Final = 0.8  # of the bound: overload ends below it, so that it does not begin and end with every row


class Shedding:
    """Overload begins with the row that finds the bound reached, and ends when the load has fallen to 80 % of it. In
    between DROP keeps no row, and SAMPLE keeps each with probability p, decided by a coin for each row: the rows that
    are kept depend on the seed and on when overload began, not on how the rows were cut into batches.

    >>> shedding = Shedding(Overload("sample", 4, "rows", 0.5, seed=3))
    >>> shedding.keeps(10, load=0, each=1)
    array([ True,  True,  True,  True, False,  True,  True,  True, False,
           False])
    >>> shedding.overloaded, shedding.shed, [d.after for d in shedding.taken_decisions()]
    (True, 3, ['SAMPLE 50 % ABOVE 4 ROWS'])
    >>> shedding.keeps(2, load=1, each=1) is None  # all: the load has fallen
    True
    """

    def __init__(self, spec: Overload, stream: str = "") -> None:
        self.spec, self.stream = spec, stream
        self.overloaded = False
        self.shed = 0  # rows
        self.since: int | None = None  # the first row of this overload in the last call; None: there is none
        self.coins = Coins(spec.seed)
        self._decisions: list[Decision] = []

    def keeps(
        self, count: int, load: float, each: float, now: int | None = None, above_memory: bool = False
    ) -> Bools | None:
        """Which of the next ``count`` rows are kept; None: all. ``load`` is what is held now, ``each`` what one more
        row adds to it, both in the unit of the bound. Where the state of a query is above its limit of memory, the
        stream is overloaded however little is held."""
        limit, spec = self.spec.limit, self.spec
        self.since = None
        if self.overloaded and load <= RECOVERED_SHARE * limit and not above_memory:
            self._decide(False, load, now)
        first = 0
        if not self.overloaded:
            room = 0 if above_memory else limit - load
            first = count if room > 0 and each == 0 else max(0, min(count, int(np.ceil(room / each)) if each else 0))
            if first == count:
                return None
            self._decide(True, load + first * each, now, above_memory)
        self.since = first
        keep = np.zeros(count, np.bool_)
        keep[:first] = True
        if spec.action == "sample":
            heads, _ = self.coins.heads(count - first, spec.share)
            keep[first + np.array(heads, np.int64)] = True
        self.shed += count - int(keep.sum())
        return keep

    def _decide(self, begins: bool, load: float, now: int | None, above_memory: bool = False) -> None:
        self.overloaded = begins
        before, after = ("all rows", str(self.spec)) if begins else (str(self.spec), "all rows")
        because = "{held} wait, and the bound is {bound}" if begins else "{held} wait; {shed} rows were shed so far"
        if above_memory:
            because = "the state of a query is above its limit of memory"
        unit = self.spec.unit
        evidence: dict[str, Any] = {"held": round(load), "bound": self.spec.limit, "shed": self.shed}
        if unit == "µs":
            evidence |= {"held": load / 1e6, "bound": self.spec.limit / 1e6}
        units = dict.fromkeys(("held", "bound"), "s" if unit == "µs" else unit)
        self._decisions.append(Decision("shedding", before, after, because, evidence, units, time=now))

    def taken_decisions(self) -> list[Decision]:
        """The decisions since the last call."""
        out, self._decisions = self._decisions, []
        return out

    def state(self) -> dict[str, Any]:
        return {"overloaded": self.overloaded, "shed": self.shed, "coins": self.coins.state()}

    def load(self, state: Mapping[str, Any]) -> None:
        self.overloaded, self.shed = bool(state["overloaded"]), int(state["shed"])
        self.coins.load(state["coins"])
