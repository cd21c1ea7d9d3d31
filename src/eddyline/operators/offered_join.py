"""An MJoin that may hand its rows over to a constrained join, which from then on runs in its place.

Until then it is the MJoin that it would be without the offer: the same stores and indexes, shared with other queries,
the same orders and caches. It counts elements, and after every ``ASK_EVERY`` of them looks at the bytes of its state.
From ``Offer.from_bytes`` on the switch that decides receives arrivals, of which it takes samples. When the switch
decides for the constrained join, all rows are handed over between two instants, and this join gives its stores and
indexes up. Afterwards the two may still change places (``operators.switching_join``), now with stores of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from eddyline.core.bound import Bound
from eddyline.core.delta import Delta
from eddyline.operators.join_arrays import JoinArrays
from eddyline.operators.mjoin import TAKEN, MJoin
from eddyline.synopses.store import Stub

if TYPE_CHECKING:  # Most joins never hand over, and start without the kernels of the other.
    from eddyline.operators.switching_join import SwitchingJoin

ASK_EVERY = 1_024  # elements between two looks at the bytes of state: fewer notice a limit sooner, and cost more


class Offer(NamedTuple):
    """``make`` makes the join that may take over, or says why there is none; ``release`` gives a stub's rows up."""

    from_bytes: Callable[[int | None], float]  # under a memory limit: from which state on it is watched
    make: Callable[[], SwitchingJoin | str]
    release: Callable[[Stub], None]
    told: Callable[[int | None], str]  # under a memory limit: the line of explain before it is watched, if any
    memory: int | None = None  # the limit


class OfferedJoin(MJoin):
    """``taken`` is the join that has taken over, once it has; ``ready`` is that join from when it is watched on."""

    offer: Offer | None = None
    ready: SwitchingJoin | None = None
    taken: SwitchingJoin | None = None
    pinned = False
    _unasked = 0  # elements since the bytes were last looked at

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        if self.taken is not None:
            return self.taken.process(deltas, frontier)
        if self.ready is not None:
            return self._watched(self.ready, deltas, frontier)
        made = super().process(deltas, frontier)
        self._unasked += sum(map(len, deltas))
        if self._unasked >= ASK_EVERY:
            self._unasked = 0
            if self.offer is not None and self._is_large(self.offer):
                self._prepare(self.offer)
        return made

    def _is_large(self, offer: Offer) -> bool:
        return self.size()[1] + self.on_disk() > offer.from_bytes(offer.memory)

    def _prepare(self, offer: Offer) -> None:
        found = offer.make()
        if isinstance(found, str):
            self.offer = None
            return
        self.ready, found.plain = found, self
        found.limit_memory(offer.memory)

    def _watched(self, ready: SwitchingJoin, deltas: Sequence[Delta], frontier: int) -> Delta:
        ready.switch.begin()
        if ready.switch.watches:
            for side, delta in zip(self.sides, deltas, strict=True):
                side.accept(delta)
            ready.report_arrivals(self, deltas)
            made = super().process([Delta.empty(s.spec.schema) for s in self.sides], frontier)
        else:
            made = super().process(deltas, frontier)
        elements = sum(map(len, deltas))
        if elements and not self.pinned and not ready.switch.runs_plain(ready, elements, frontier):
            ready.hand_over(False, frontier)
            self._give_up()
        return made

    def _give_up(self) -> None:
        """The other join has the rows: keep none, and share none."""
        assert self.offer is not None
        self.taken = self.ready
        assert self.taken is not None
        self.taken.pin(self.pinned)
        for side in self.sides:
            if side.stub is not None:
                self.offer.release(side.stub)
            side.drop_events(len(side.time))
            side.reader = None
        self.adapter = None
        self.arrays = JoinArrays(self.sides, self.graph, self.arrays.conditions)

    def pin(self, pinned: bool) -> None:
        self.pinned = pinned
        if self.taken is not None:
            self.taken.pin(pinned)

    def limit_memory(self, bytes: int | None) -> None:
        if self.offer is not None:
            self.offer = self.offer._replace(memory=bytes)
        if self.ready is not None:
            self.ready.limit_memory(bytes)

    # ── state ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def state(self) -> dict[str, Any]:
        return super().state() if self.taken is None else {TAKEN: self.taken.state()}

    def load(self, state: dict[str, Any]) -> None:
        if TAKEN not in state or self.offer is None:
            self.ready = self.taken = None
            super().load(state)
            return
        if self.ready is None:
            self._prepare(self.offer)
        assert self.ready is not None, "the saved state is that of a join that could be made"
        self.ready.load(state[TAKEN])
        if self.taken is None:
            self._give_up()

    # ── what others read ──────────────────────────────────────────────────────────────────────────────────────────

    def size(self) -> tuple[int, int]:
        return super().size() if self.taken is None else self.taken.size()

    def give_back(self, bytes: int) -> int:
        return super().give_back(bytes) if self.taken is None else self.taken.give_back(bytes)

    def spilled(self) -> tuple[int, int]:
        return super().spilled() if self.taken is None else self.taken.spilled()

    def private_stubs(self) -> Sequence[Stub]:
        return () if self.taken is None else self.taken.private_stubs()

    def most_rows(self, now: int) -> int:
        return super().most_rows(now) if self.taken is None else self.taken.most_rows(now)

    def describe(self) -> str:
        return super().describe() if self.taken is None else self.taken.describe()

    def bounds(self) -> dict[str, Bound]:
        return super().bounds() if self.taken is None else self.taken.bounds()

    def adapts(self) -> list[str]:
        if self.taken is not None:
            return self.taken.adapts()
        if self.ready is not None:
            return [*super().adapts(), *self.ready.switch.describe(self.ready)]
        told = "" if self.offer is None else self.offer.told(self.offer.memory)
        return [*super().adapts(), told] if told else super().adapts()

    def statistics(self) -> dict[str, Any]:
        return super().statistics() if self.taken is None else self.taken.statistics()
