"""How fast attributes move while a query runs: the mean |x′| that split functions divide bounds by (Pulse 2.6.3).

The paper takes the derivative of the input models. Of samples that are still to be fitted the model is a chord over
``RUN`` samples of a signal: neighbours alone would show their noise. Means weigh chords by their duration, and forget:
at each review the past counts half. What is known at an instant follows from the samples before it and from nothing
else, so how they were cut into batches does not show: a review at T takes the chords that ended before T, and holds for
samples behind T.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from eddyline.core.catalog import Attribute
from eddyline.core.delta import Float64s, Int64s

RUN: Final = 16  # samples of a chord: more hide noise better, and see fewer turns
CHORDS: Final = 32  # between two reviews, of all signals: fewer follow a change sooner


@dataclass(slots=True)
class Movement:
    """Of one attribute: how far it moved, and in how much time."""

    way: float = 0.0
    time: float = 0.0

    @property
    def gradient(self) -> float:
        return self.way / self.time if self.time > 0.0 else 0.0


@dataclass(slots=True)
class Chords:
    """The signals of one input by number: samples so far, and the sample at which the chord of each began."""

    width: int
    seen: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    time: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))
    value: Float64s = field(default_factory=lambda: np.zeros((0, 0)))

    def complete(self, code: Int64s, time: Int64s, values: Float64s) -> tuple[Int64s, Float64s, Float64s]:
        """The chords that these samples complete, by their ends: (end, duration in ticks, |Δx| of each value)."""
        self._grow(int(code.max(initial=-1)) + 1)
        order = np.argsort(code, kind="stable")
        key = code[order]
        first = np.flatnonzero(np.r_[True, key[1:] != key[:-1]]) if len(key) else np.empty(0, np.int64)
        many = np.diff(np.r_[first, len(key)])
        number = self.seen[key] + np.arange(len(key)) - np.repeat(first, many)
        corner = order[number % RUN == 0]
        of = code[corner]
        begins = np.r_[True, of[1:] != of[:-1]] if len(of) else np.empty(0, np.bool_)
        since = np.where(begins, self.time[of], np.r_[0, time[corner][:-1]] if len(of) else of)
        was = np.where(begins[:, None], self.value[of], np.roll(values[corner], 1, axis=0))
        known = ~begins | (self.seen[of] > 0)
        self.seen[key[first]] += many
        self.time[of], self.value[of] = time[corner], values[corner]  # of several corners of a key the last stays
        ends, lasted, moved = time[corner], (time[corner] - since).astype(np.float64), np.abs(values[corner] - was)
        index = np.flatnonzero(known)
        index = index[np.argsort(ends[index], kind="stable")]
        return ends[index], lasted[index], moved[index]

    def _grow(self, keys: int) -> None:
        more = keys - len(self.seen)
        if more > 0:
            self.seen, self.time = (np.r_[a, np.zeros(more, np.int64)] for a in (self.seen, self.time))
            self.value = np.concatenate([self.value.reshape(-1, self.width), np.zeros((more, self.width))])

    def state(self) -> list[Any]:
        return [self.seen.tolist(), self.time.tolist(), self.value.tolist()]

    def load(self, state: Sequence[Any]) -> None:
        self.seen, self.time = (np.array(a, np.int64) for a in state[:2])
        self.value = np.array(state[2], np.float64).reshape(-1, self.width)


class Gradients:
    """Of all attributes of a query."""

    def __init__(self, attributes: Mapping[int, Sequence[str]], scale: float) -> None:
        self.names, self.scale = attributes, scale
        self.movements = {(i, n): Movement() for i, names in attributes.items() for n in names}
        self.chords = {i: Chords(len(names)) for i, names in attributes.items()}
        self.since = 0  # chords since the last review
        self.last: int | None = None  # the latest end of a chord

    def observe(self, given: Mapping[int, tuple[Int64s, Int64s, Float64s]]) -> list[tuple[int, dict[Attribute, float]]]:
        """Instants behind which the gradients are others. ``given`` has samples of inputs in order of time: numbers of
        the signals, times and values."""
        ends: list[tuple[int, int, float, list[float]]] = []
        for i, (code, time, values) in given.items():
            parts = self.chords[i].complete(code, time, values)
            ends += [(t, i, d, m) for t, d, m in zip(*(p.tolist() for p in parts), strict=True)]
        found = []
        for t, i, lasted, moved in sorted(ends, key=lambda e: e[:2]):
            if t != self.last and self.since >= CHORDS:
                found.append((t, self.means()))
                self.since = 0
                for m in self.movements.values():
                    m.way, m.time = 0.5 * m.way, 0.5 * m.time
            for name, way in zip(self.names[i], moved, strict=True):
                one = self.movements[i, name]
                one.way, one.time = one.way + way, one.time + lasted * self.scale
            self.since, self.last = self.since + 1, t
        return found

    def means(self) -> dict[Attribute, float]:
        return {a: m.gradient for a, m in self.movements.items()}

    def state(self) -> list[Any]:
        moved = [[i, n, m.way, m.time] for (i, n), m in self.movements.items()]
        return [moved, [[i, c.state()] for i, c in self.chords.items()], self.since, self.last]

    def load(self, state: Sequence[Any]) -> None:
        moved, chords, self.since, self.last = state
        self.movements = {(i, n): Movement(way, time) for i, n, way, time in moved}
        for i, own in chords:
            self.chords[i].load(own)
