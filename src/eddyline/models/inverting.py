"""Query inversion while a query runs: the bounds of samples follow how large the signals are and how fast they move.

The Lipschitz constants of products depend on how large their factors are. Sizes are the largest magnitudes so far, as
powers of two. A split function that divides by gradients depends on the mean |x′| (``models.gradients``). When a size
grows, or a share would change clearly, the bounds are computed anew, from that instant on: an *epoch*. Both depend on
the samples up to an instant and on nothing else, so batches do not show. What is promised does not rest on them: a
segment carries the largest bound that any of its samples had.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.core.catalog import Attribute
from eddyline.core.delta import Float64s, Int64s
from eddyline.models.fitting import ErrorBound
from eddyline.models.gradients import Gradients
from eddyline.models.inversion import inverted, lineage
from eddyline.models.program import Program
from eddyline.models.sources import FittedRows, RowModel
from eddyline.models.splits import EQUI

Limits = dict[Attribute, ErrorBound]
SPARE = 2.0  # sizes are taken larger, so that a segment may reach into the next epoch
EPOCH_FACTOR = 1.5  # by which factor a bound must change for a change of gradients to begin an epoch


@dataclass(frozen=True, slots=True)
class Samples:
    """Of one input in order of time: numbers of the signals, times, values of each attribute."""

    code: Int64s
    time: Int64s
    values: Mapping[str, Float64s]


@dataclass(frozen=True, slots=True)
class Epoch:
    """Samples from ``start`` on have these bounds; ``reason`` in words, with what it names."""

    start: int
    limits: Limits
    reason: str
    evidence: Mapping[str, str]


class Inverter:
    """What the bounds of samples follow from, and which they were last."""

    def __init__(self, program: Program, models: Sequence[RowModel], aliases: Sequence[str]) -> None:
        self.program, self.aliases = program, tuple(aliases)
        fitted = {i: m for i, m in enumerate(models) if isinstance(m, FittedRows)}
        self.names = {i: {f"{aliases[i]}.{n}": n for n in m.values} for i, m in fitted.items()}
        self.results = tuple(n for n, modelled in program.columns if modelled)
        self.sizes: dict[Attribute, float] = {}
        by_gradients = program.split != EQUI
        own = {i: m.values for i, m in fitted.items()}
        self.gradients = Gradients(own, program.scale) if by_gradients else None
        self.means: dict[Attribute, float] = {}
        # A signal that begins at zero is not known to be small: a product within the bound has factors of its root.
        self.least = max(program.bound.amount, program.bound.floor) ** 0.5 if program.bound is not None else 1.0
        self.sized = self._depends_on_sizes()
        self.last = self.limits()

    @property
    def changes(self) -> bool:
        """Whether the bounds can change: the results have products of modelled values, or gradients divide."""
        return self.sized or self.gradients is not None

    def _depends_on_sizes(self) -> bool:
        attributes = [(i, n) for i, names in self.names.items() for n in names.values()]
        return self._inverted({}) != self._inverted(dict.fromkeys(attributes, 2.0))

    def limits(self) -> Limits:
        return self._inverted({a: SPARE * s for a, s in self.sizes.items()})

    def _inverted(self, sizes: Mapping[Attribute, float]) -> Limits:
        assert self.program.bound is not None
        found = lineage(self.program.root, self.names, sizes, self.program.scale)
        return inverted(found, self.results, self.program.bound, self.program.split, self.means)

    def observe(self, given: Mapping[int, Samples]) -> list[Epoch]:
        """The epochs that begin with these samples, by the number of their input."""
        grows: dict[int, dict[Attribute, float]] = {}
        if self.sized:
            for i, samples in given.items():
                for name, value in samples.values.items():
                    for t, size in self._growth((i, name), samples.time, value):
                        grows.setdefault(t, {})[i, name] = size
        turns: dict[int, dict[Attribute, float]] = {}
        if self.gradients is not None:
            columns = {i: np.column_stack(list(s.values.values())) for i, s in given.items() if len(s.time)}
            found = self.gradients.observe({i: (given[i].code, given[i].time, v) for i, v in columns.items()})
            turns = {t + 1: means for t, means in found}
        return [e for t in sorted({*grows, *turns}) for e in self._epoch(t, grows.get(t), turns.get(t))]

    def _epoch(
        self, start: int, grown: dict[Attribute, float] | None, turned: dict[Attribute, float] | None
    ) -> list[Epoch]:
        before = self.means
        if grown is not None:
            self.sizes |= grown
        if turned is not None:
            self.means = turned
        limits = self.limits()
        if grown is None and not clearly(limits, self.last):
            self.means = before  # compared with those of the last epoch, not of the last review
            return []
        self.last = limits
        if grown is not None:
            sizes = ", ".join(f"{self._shown(a)} ≤ {size:g}" for a, size in self.sizes.items())
            return [Epoch(start, limits, "the Lipschitz constants grow with the values: {sizes}", {"sizes": sizes})]
        means = ", ".join(f"{self._shown(a)} by {mean:.3g}" for a, mean in self.means.items())
        because = "the split {split} follows how attributes move in a unit of time: {means}"
        return [Epoch(start, limits, because, {"split": self.program.split.name, "means": means})]

    def _shown(self, attribute: Attribute) -> str:
        return f"{self.aliases[attribute[0]]}.{attribute[1]}"

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
        gradients = None if self.gradients is None else self.gradients.state()
        sizes, means = ([[i, n, v] for (i, n), v in of.items()] for of in (self.sizes, self.means))
        return json.dumps([sizes, means, gradients])

    def load(self, state: str) -> None:
        sizes, means, gradients = json.loads(state)
        self.sizes, self.means = ({(i, n): v for i, n, v in of} for of in (sizes, means))
        if self.gradients is not None:
            self.gradients.load(gradients)
        self.last = self.limits()


def clearly(new: Limits, old: Limits) -> bool:
    return any(not b.amount / EPOCH_FACTOR < new[a].amount < b.amount * EPOCH_FACTOR for a, b in old.items())
