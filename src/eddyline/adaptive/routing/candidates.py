"""Candidate classifiers: each attribute, and by options also sets of attributes and coarser ranges.

The paper considers single attributes at one granularity, and leaves sets and the choice of d to future work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from eddyline.adaptive.routing.setting import Setting
from eddyline.core.delta import Int64s

_MIN_RANGES = 3  # of a coarser partition: two ranges say little more than the whole domain


@dataclass(frozen=True, slots=True)
class Candidate:
    """Attributes taken together, or one attribute with ``width`` neighbouring ranges in each class."""

    attributes: tuple[int, ...]
    width: int = 1


class Candidates:
    """The candidates of a setting and the classes that they put tuples in, each at most d of them.

    The classes of a set are numbered as they come: the first d combinations of its members' classes have a class of
    their own, later ones share by their remainder.

    >>> from eddyline.adaptive.filters.pipeline import Pipeline
    >>> candidates = Candidates(Setting(Pipeline(2), ("a", "b"), d=6, ranges=frozenset({1})), sets=2, widths=True)
    >>> [(c.attributes, c.width) for c in candidates]
    [((0,), 1), ((1,), 1), ((1,), 2), ((0, 1), 1)]
    >>> candidates.classes(np.array([[0, 0], [4, 5], [0, 3], [4, 5], [-1, 1]])).tolist()
    [[0, 0, 0, 0], [4, 5, 2, 1], [0, 3, 1, 2], [4, 5, 2, 1], [-1, 1, 0, -1]]
    """

    def __init__(self, setting: Setting, *, sets: int = 1, widths: bool = False) -> None:
        self.d = setting.d
        attributes = range(len(setting.attributes))
        self.all: list[Candidate] = []
        for a in attributes:
            self.all.append(Candidate((a,)))
            width = 2
            while widths and a in setting.ranges and self.d / width >= _MIN_RANGES:
                self.all.append(Candidate((a,), width))
                width *= 2
        self.all += [Candidate(c) for size in range(2, sets + 1) for c in combinations(attributes, size)]
        self.numbers: dict[int, dict[int, int]] = {i: {} for i, c in enumerate(self.all) if len(c.attributes) > 1}

    def __len__(self) -> int:
        return len(self.all)

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self.all)

    def __getitem__(self, index: int) -> Candidate:
        return self.all[index]

    def column(self, classes: Int64s, index: int) -> Int64s:
        """The class of each tuple by one candidate; −1 where an attribute has none."""
        candidate = self.all[index]
        if len(candidate.attributes) == 1:
            ids = classes[:, candidate.attributes[0]]
            return ids if candidate.width == 1 else ids // candidate.width
        members = classes[:, candidate.attributes]
        key = members[:, 0].astype(np.int64)
        for m in range(1, members.shape[1]):
            key = key * self.d + members[:, m]
        known = (members >= 0).all(1)
        result: Int64s = np.full(len(classes), -1, np.int64)
        result[known] = self._numbered(key[known], self.numbers[index])
        return result

    def _numbered(self, keys: Int64s, numbers: dict[int, int]) -> Int64s:
        values, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        if len(numbers) < self.d:
            for at in np.argsort(first):
                if len(numbers) < self.d:
                    numbers.setdefault(int(values[at]), len(numbers))
        found = np.array([numbers.get(int(v), int(v) % self.d) for v in values], np.int64)
        return found[inverse]

    def classes(self, classes: Int64s) -> Int64s:
        """The classes by all candidates: rows × candidates."""
        if len(self.all) == classes.shape[1]:
            return classes
        return np.column_stack([self.column(classes, i) for i in range(len(self.all))])

    def state(self) -> dict[str, Any]:
        return {str(i): np.array(list(n), np.int64) for i, n in self.numbers.items()}

    def load(self, state: Mapping[str, Any]) -> None:
        for i in self.numbers:
            self.numbers[i] = {int(key): number for number, key in enumerate(state[str(i)])}
