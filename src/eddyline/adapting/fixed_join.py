"""A join with a fixed plan: as written, or the user's tree. Nothing is profiled; explain shows the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eddyline.adapting.join_history import accesses, drawn, each, held, named_cache
from eddyline.core.delta import Int64s
from eddyline.kernels import join_layout as k
from eddyline.operators.join_arrays import JoinArrays
from eddyline.operators.join_plan import CacheSpec


class FixedJoin:
    """``kept`` are the subresults of a tree, complete from the start. ``why`` is the text for explain."""

    def __init__(self, names: Sequence[str], why: str, kept: Sequence[CacheSpec] = ()) -> None:
        self.names, self.why, self.kept = tuple(names), why, tuple(kept)
        self.elements = self.work = 0
        self._next = np.zeros(0, np.int64)
        self._before = (0, 0)

    def attach(self, arrays: JoinArrays, orders: Sequence[tuple[int, ...]]) -> None:
        arrays.set_plan(orders, self.kept)

    def begin(self, arrays: JoinArrays, next_event: Int64s, lengths: Sequence[int]) -> int:
        arrays.profiling = False
        self._next = next_event
        self._before = self._done(arrays)
        return int(k.NEVER)

    def end(self, arrays: JoinArrays, now: int) -> None:
        elements, work = (after - before for after, before in zip(self._done(arrays), self._before, strict=True))
        self.elements += elements
        self.work += work

    def _done(self, arrays: JoinArrays) -> tuple[int, int]:
        """Elements inserted or deleted (deletions are joined, too, if the result needs them), and accesses."""
        return int(self._next.sum() + arrays.counters[k.CN_LEFT :].sum()), accesses(arrays)[0]

    def describe(self, arrays: JoinArrays) -> list[str]:
        cost = [each(self.elements, self.work)] if self.elements else []
        lines = [self.why, *cost, *drawn(self.names, arrays)]
        for store in dict.fromkeys(c.store for c in self.kept):
            mine = [c for c in arrays.cache_operators.used if (c.segment, c.key) == (store.segment, store.key)]
            contents = held(arrays, mine[0]) if mine else None
            kept = "⋈".join(self.names[x] for x in store.segment)
            readers = ", ".join(f"Δ{self.names[c.pipeline]}" for c in mine)
            lines.append(f"kept: {kept}, for {readers}{f', {contents}' if contents else ''}")
        return lines

    def statistics(self, arrays: JoinArrays) -> dict[str, Any]:
        return {
            "inputs": list(self.names),
            "orders": {self.names[i]: [self.names[x] for x in o] for i, o in enumerate(arrays.orders)},
            "ordering": None,
            "caching": None,
            "elements": self.elements,
            "accesses": self.work,
            "kept": [named_cache(c, self.names) for c in arrays.cache_operators.used],
        }

    def state(self) -> dict[str, Any]:
        return {"names": list(self.names), "elements": self.elements, "work": self.work}

    def load(self, state: Mapping[str, Any], arrays: JoinArrays) -> None:
        """Subresults are not saved. Look-ups fill them again, so they must not be marked complete: a missing entry
        would be read as an empty result."""
        self.elements, self.work = int(state.get("elements", 0)), int(state.get("work", 0))
        fill = [CacheSpec(c.pipeline, c.first, c.last, c.segment, c.key) for c in self.kept]
        arrays.set_plan(arrays.orders, fill)
