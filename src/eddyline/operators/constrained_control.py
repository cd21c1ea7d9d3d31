"""What a constrained join asks of, and reports to, the control that measures constraints and decides which are used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from eddyline.core.delta import Int64s
from eddyline.kernels import constrained_layout as k

Join = TypeVar("Join", contravariant=True)  # the operator, which imports this file


@dataclass(frozen=True, slots=True)
class Collection:
    """What garbage collections may infer until the next question. By port: ``wait`` (RIDS) and ``low`` (OA), which
    may be raised to the largest key that came ``lag`` arrivals ago (NEVER_USED: stays as it is); ``units`` (wait, then
    lag) say what they count (ARRIVALS, TICKS). ``notice`` has wait, low and lag a little earlier, so that the control
    is asked again while nothing is lost, and after how many rows or ticks keys are marked. ``facts`` by input: root,
    only root, all roots are parents, NO rows are not kept. ``share`` of 65,536 useless rows stay as a sample.
    After ``due`` ticks garbage is collected, however few elements came. ``closes``: the control finds keys whose rows
    have all come (CA), so it is asked at the end of a call, too."""

    wait: Int64s
    low: Int64s
    share: int
    facts: np.ndarray[Any, Any]
    lag: Int64s | None = None
    units: Int64s | None = None
    notice: Int64s | None = None
    due: int = k.NEVER_USED
    closes: bool = True


class ConstraintControl(Protocol[Join]):
    """Measures constraints and decides which are used. The operator knows no policy."""

    @property
    def nbytes(self) -> int:
        """Bytes of what it remembers of rows and keys."""

    def listens(self, stream: int) -> bool:
        """Whether arrivals of an input are to be reported (``arrived``)."""

    def arrived(self, join: Join, stream: int, keys: Int64s, times: Int64s) -> None:
        """Rows came with these keys, by port, at these times."""

    def measured(self, join: Join, distances: Int64s) -> None:
        """Join distances: lines of port, count of the neighbour's rows, distance; of ports behind the last in ticks."""

    def collection(self, join: Join, now: int) -> Collection | None:
        """Before a garbage collection: what may be inferred; None: nothing."""

    def collected(self, join: Join, removed: Int64s) -> None:
        """How many rows were found useless since the last call, by input and kind (BY_RIDS, …)."""

    def hit(self, join: Join, why: Int64s, now: int) -> None:
        """Spilled rows were needed after all."""

    def sampled(self, join: Join, keys: Int64s) -> None:
        """Results came that would be missing, had their rows not been kept: hashes of the keys."""

    def describe(self, join: Join) -> list[str]:
        """Lines for explain."""

    def statistics(self, join: Join) -> dict[str, Any]:
        """What is known and was done, as plain data."""

    def restart(self) -> None:
        """Arrivals are counted anew: forget what was measured."""

    def state(self) -> dict[str, Any]:
        """What was learned."""

    def load(self, state: dict[str, Any]) -> None:
        """Go on with what was learned."""
