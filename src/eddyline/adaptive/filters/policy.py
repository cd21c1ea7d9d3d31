"""The protocol between a policy that orders filters and the executor that evaluates them.

An executor works on batches with selection vectors and follows this protocol, per batch:

1. ``order = policy.order``; ``rows = policy.wants_profile(len(batch))``; ``reach = policy.reach``. None of the three
   changes before the next ``decide``.
2. Ask the filter at each position about the rows still alive, and about every row of ``rows`` that is no longer alive
   and for which ``reach[i, position]`` holds, where i is the position of the filter that dropped it. Each filter is
   asked about a row at most once, profiling included, and a row is out as soon as one filter drops it, whatever else is
   asked about it.
3. ``policy.processed(…)`` with the totals of the batch; ``policy.profiled(…)`` with the drop bits of ``rows``, if any.
4. ``policy.decide(now)``. A decision is already in force: the next batch reads the new ``order``.

*Drops* means FALSE or NULL. A filter that fails for a row has not dropped it, for the row lives on until another filter
drops it. A bit that was not asked for is False too.

Why the coin is thrown before the tuple is seen: the thesis profiles a *dropped* tuple with probability p. The coin does
not depend on the tuple, so it can be thrown for every tuple in advance. If a chosen tuple is dropped, the rest of its
bits are asked for in the same pass, vectorised; if it passes, all filters were asked anyway, nothing was spent, and the
policy ignores it. The two are the same algorithm, and no filter is asked twice.

A policy is a pure function of its parameters, its seed and these calls. It reads no clock; ``now`` is only copied into
the decision. Its state is bounded by its parameters and can be taken elsewhere by ``state`` and ``load``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.core.delta import Bools, Float64s, Int64s
from eddyline.streamon.decision import Decision
from eddyline.streamon.parameters import Parameter


class FilterPolicy(Protocol):
    """Statistics in, orders out."""

    name: ClassVar[str]
    parameters: ClassVar[tuple[Parameter, ...]]

    @property
    def pipeline(self) -> Pipeline: ...

    @property
    def order(self) -> tuple[int, ...]:
        """The filters (as written, from 0) in the order in which they are to be asked."""

    @property
    def reach(self) -> Bools:
        """n × n: whether a profiled tuple that was dropped at position i is also shown to the filter at position j."""

    def wants_profile(self, count: int) -> Int64s:
        """Which of the next ``count`` tuples are to be profiled: increasing offsets. Coins are thrown tuple by tuple:
        as long as p stays the same, how the stream is cut into batches does not change which tuples are chosen.
        """

    def processed(self, rows_in: Int64s, rows_out: Int64s, seconds: Float64s) -> None:
        """The totals of a batch by filter: rows asked while alive, rows of these that lived on, and the seconds spent
        per row asked (NaN for a filter that was asked about none).
        """

    def profiled(self, dropped: Bools, seconds: Float64s) -> None:
        """Profile tuples in order of arrival: a row each, a column per filter as written. ``seconds`` per tuple and
        filter, or one row for all; NaN where nothing was measured.
        """

    def decide(self, now: int | None = None) -> Decision | None:
        """Change the order if the statistics say so."""

    def alarm(self) -> None:
        """The executor of the filters has seen by other means that the data have changed."""

    @property
    def hoped(self) -> float:
        """The estimated saving per tuple of another order: 0 if none is better, infinite before the first search."""

    def statistics(self) -> Mapping[str, Any]:
        """What the next decision will rest on, for people."""

    def state(self) -> dict[str, Any]:
        """Plain numbers and arrays: with them another instance with the same parameters goes on identically."""

    def load(self, state: Mapping[str, Any]) -> None:
        """The inverse of ``state``."""
