"""Query inversion while a query runs: the bounds of samples follow the magnitudes of the signals.

The Lipschitz constants of products depend on how large their factors are. Sizes are the largest magnitudes so far, as
powers of two; when one grows, the bounds are computed anew, from that instant on: an *epoch*. Sizes depend on the
samples up to an instant and on nothing else, so batches do not show. What is promised does not rest on them: a
segment carries the largest bound that any of its samples had.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

import numpy as np

from eddyline.core.delta import Float64s, Int64s
from eddyline.models.fitting import ErrorBound
from eddyline.models.inversion import Attribute, inverted, lineage
from eddyline.models.program import Program
from eddyline.models.sources import FittedRows, RowModel

Limits = dict[Attribute, ErrorBound]
SPARE = 2.0  # sizes are taken larger, so that a segment may reach into the next epoch


class Inverter:
    """``epochs`` are instants with the bounds of all attributes from there on."""

    def __init__(self, program: Program, models: Sequence[RowModel], aliases: Sequence[str]) -> None:
        self.program = program
        self.names = {
            i: {f"{a}.{n}": n for n in m.values}
            for i, (a, m) in enumerate(zip(aliases, models, strict=True))
            if isinstance(m, FittedRows)
        }
        self.results = tuple(n for n, modelled in program.columns if modelled)
        self.sizes: dict[Attribute, float] = {}
        # A signal that begins at zero is not known to be small: a product within the bound has factors of its root.
        self.least = max(program.bound.amount, program.bound.floor) ** 0.5 if program.bound is not None else 1.0

    def depends_on_sizes(self) -> bool:
        """Whether the bounds do: the results have products of modelled values."""
        attributes = [(i, n) for i, names in self.names.items() for n in names.values()]
        return self.limits({}) != self.limits(dict.fromkeys(attributes, 2.0))

    def limits(self, sizes: Mapping[Attribute, float]) -> Limits:
        assert self.program.bound is not None
        found = lineage(self.program.root, self.names, sizes, self.program.scale)
        return inverted(found, self.results, self.program.bound, self.program.split)

    def observe(self, given: Sequence[tuple[Int64s, Mapping[str, Float64s]]]) -> list[tuple[int, Limits]]:
        """The epochs that begin with these samples, of each input in order of time."""
        grows: dict[int, dict[Attribute, float]] = {}
        for i, (time, values) in enumerate(given):
            for name, value in values.items():
                for t, size in self._growth((i, name), time, value):
                    grows.setdefault(t, {})[i, name] = size
        epochs = []
        for t in sorted(grows):
            self.sizes |= grows[t]
            epochs.append((t, self.limits({a: SPARE * s for a, s in self.sizes.items()})))
        return epochs

    def _growth(self, attribute: Attribute, time: Int64s, value: Float64s) -> list[tuple[int, float]]:
        if not len(time):
            return []
        now = self.sizes.get(attribute, 0.0)
        size = np.where(np.isfinite(value), np.abs(value), 0.0)
        largest = np.maximum.accumulate(size)
        found = []
        for row in np.flatnonzero(np.r_[True, largest[1:] > largest[:-1]]).tolist():
            if largest[row] > now or (now == 0.0 and row == 0):
                now = 2.0 ** math.ceil(math.log2(max(float(largest[row]), self.least)))
                found.append((int(time[row]), now))
        return found

    def state(self) -> str:
        return json.dumps([[i, n, s] for (i, n), s in self.sizes.items()])

    def load(self, state: str) -> None:
        self.sizes = {(i, n): s for i, n, s in json.loads(state)}
