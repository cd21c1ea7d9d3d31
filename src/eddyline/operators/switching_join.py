"""A constrained join that the plain join's kernel runs while constraints save nothing.

Its state is handed over between two instants, to and from: at any time one of the two joins has all rows. The
control that decides it gets the arrivals while the plain join runs, and is asked after each call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from eddyline.core.delta import Delta, Int64s
from eddyline.core.time import NEVER
from eddyline.kernels import constrained_layout as k
from eddyline.operators.constrained_join import COLLECTIONS_PER_QUESTION, ConstrainedJoin
from eddyline.operators.join_handover import to_constrained, to_plain
from eddyline.operators.join_tree import port_keys
from eddyline.operators.mjoin import MJoin
from eddyline.synopses.constrained_slots import Slots
from eddyline.synopses.store import Stub


class SwitchControl(Protocol):
    """Who decides which of the joins runs. The operator knows no policy."""

    @property
    def watches(self) -> bool:
        """Whether arrivals are to be told while the plain join runs."""

    def begin(self) -> None:
        """A call begins."""

    def arrived(self, keys: Sequence[Int64s]) -> None:
        """While the plain join runs: rows came, by input with these keys by port."""

    def runs_plain(self, join: SwitchingJoin, elements: int, now: int) -> bool:
        """After a call with so many elements: whether the plain join runs from now on."""

    def limit_memory(self, bytes: int | None) -> None:
        """The limit of the query's state is this from now on."""

    def describe(self, join: SwitchingJoin) -> list[str]:
        """Lines for explain."""

    def state(self) -> dict[str, Any]:
        """What was learned."""

    def load(self, state: dict[str, Any]) -> None:
        """Go on with what was learned."""


class SwitchingJoin(ConstrainedJoin):
    """``make_plain`` makes the plain join over the same inputs; ``plain`` is that join while it runs."""

    plain: MJoin | None = None
    pinned = False  # the join that runs now goes on

    def follow(self, switch: SwitchControl, make_plain: Callable[[], MJoin]) -> None:
        """Before there are elements: who decides, and what to change to."""
        self.switch, self.make_plain = switch, make_plain
        self.earlier = np.zeros(self.tree.size, np.int64)  # rows of each window that came before those counted
        self.handovers = 0

    # ── running ───────────────────────────────────────────────────────────────────────────────────────────────────

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        self.switch.begin()
        if self.plain is None:
            made = super().process(deltas, frontier)
        else:
            made = self._process_plain(self.plain, deltas, frontier)
        elements = sum(map(len, deltas))
        if elements and not self.pinned:
            wanted = self.switch.runs_plain(self, elements, frontier)
            if wanted != (self.plain is not None):
                self.hand_over(wanted, frontier)
        return made

    def _process_plain(self, plain: MJoin, deltas: Sequence[Delta], frontier: int) -> Delta:
        if not self.switch.watches:
            return plain.process(deltas, frontier)
        for side, delta in zip(plain.sides, deltas, strict=True):
            side.accept(delta)
        self.report_arrivals(plain, deltas)
        return plain.process([Delta.empty(s.spec.schema) for s in plain.sides], frontier)

    def report_arrivals(self, plain: MJoin, deltas: Sequence[Delta]) -> None:
        """While a plain join runs, which has accepted these elements and not applied them."""
        width = self.slots.width
        self.switch.arrived([
            port_keys(s.codes[len(s.codes) - len(d) :], keys, width)
            for s, d, keys in zip(plain.sides, deltas, self.keys, strict=True)
        ])  # fmt: skip

    def hand_over(self, to_be_plain: bool, now: int) -> None:
        """Change the join between two instants, of which ``now`` is the first."""
        self.handovers += 1
        if to_be_plain:
            self.plain = self.make_plain()
            to_plain(self, self.plain, self.earlier, now)
            if self.spill is not None:
                self.spill.clear()
            self._empty()
        else:
            assert self.plain is not None
            self._empty()
            self.control.restart()
            self.earlier = to_constrained(self.plain, self, now)
            self.plain = None

    def _empty(self) -> None:
        """Forget all rows, and what was measured of arrivals."""
        self._report_arrivals()
        self.slots = Slots(self.tree.ports(), self.slots.order)
        for side in self.sides:
            side.rows.retain(np.empty(0, np.int64))
            side.drop_events(len(side.time))
        self.progress[k.PENDING], self.progress[k.SINCE] = -1, 0
        self.progress[k.COLLECTED] = COLLECTIONS_PER_QUESTION
        self.use(self.nothing_inferred())
        self.collected_at = NEVER
        self.skip[:] = 0

    def pin(self, pinned: bool) -> None:
        self.pinned = pinned

    def limit_memory(self, bytes: int | None) -> None:
        self.switch.limit_memory(bytes)

    # ── what others read ──────────────────────────────────────────────────────────────────────────────────────────

    def row_counts(self) -> Int64s:
        counts = super().row_counts()
        if self.plain is not None:
            counts[:, 0] = self.plain.arrays.tail - self.plain.arrays.first
        return counts

    def counted_in_window(self, i: int) -> int | None:
        if self.plain is None:
            return None
        return int(self.plain.arrays.tail[i] - self.plain.arrays.first[i])

    def bytes_of(self, i: int) -> int:
        if self.plain is None:
            return super().bytes_of(i)
        stub = self.plain.sides[i].stub
        return 0 if stub is None else stub.nbytes

    def adapts(self) -> list[str]:
        inner = [] if self.plain is None else self.plain.adapts()
        return [*self.switch.describe(self), *inner, *super().adapts()]

    def statistics(self) -> dict[str, Any]:
        made = super().statistics()
        made["runs"], made["handovers"] = "constrained" if self.plain is None else "plain", self.handovers
        return made if self.plain is None else {**self.plain.statistics(), **made}

    def most_rows(self, now: int) -> int:
        return super().most_rows(now) if self.plain is None else self.plain.most_rows(now)

    def size(self) -> tuple[int, int]:
        return super().size() if self.plain is None else self.plain.size()

    def give_back(self, bytes: int) -> int:
        return super().give_back(bytes) if self.plain is None else self.plain.give_back(bytes)

    def private_stubs(self) -> Sequence[Stub]:
        return () if self.plain is None else [s.stub for s in self.plain.sides if s.stub is not None]

    def spilled(self) -> tuple[int, int]:
        if self.plain is None:
            return super().spilled()
        found = [stub.spilled() for stub in self.private_stubs()]
        return sum(rows for rows, _ in found), sum(bytes for _, bytes in found)

    def describe(self) -> str:
        return super().describe() if self.plain is None else self.plain.describe()

    def state(self) -> dict[str, Any]:
        shared = {"switch": self.switch.state(), "earlier": self.earlier.copy(), "handovers": self.handovers}
        if self.plain is None:
            return {"runs": "constrained", **shared, **super().state()}
        progress = self.progress[: k.SAVED].copy()
        learned = {"control": self.control.state(), "progress": progress, "fetches": self.fetches}
        return {"runs": "plain", **shared, **learned, "plain": self.plain.state()}

    def load(self, state: dict[str, Any]) -> None:
        self.switch.load(state["switch"])
        self.earlier, self.handovers = np.array(state["earlier"], np.int64), int(state["handovers"])
        self.plain = None
        if state["runs"] == "constrained":
            super().load(state)
            return
        self._empty()
        self.control.load(state["control"])
        self.progress[: k.SAVED], self.fetches = state["progress"], int(state["fetches"])
        self.plain = self.make_plain()
        self.plain.load(state["plain"])
