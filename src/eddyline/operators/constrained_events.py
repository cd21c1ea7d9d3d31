"""The elements of a run of a constrained join, of all inputs one after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from eddyline.core.delta import Int64s
from eddyline.kernels import constrained_layout as k
from eddyline.operators.join_side import JoinSide
from eddyline.operators.join_tree import port_keys


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Elements: times, when they leave a time-based window, where their rows are stored, whether they can join and
    whether a filter rejects them, their keys by port. ``next`` and ``stop`` by input say which are to be applied;
    ``told`` up to where the control knows them."""

    time: Int64s
    leave: Int64s
    place: Int64s
    state: Int64s
    keys: Int64s
    next: Int64s
    stop: Int64s
    told: Int64s

    @staticmethod
    def of(
        sides: Sequence[JoinSide],
        failed: Sequence[Int64s],
        keys: Sequence[Sequence[tuple[int, ...]]],
        width: int,
        cuts: Sequence[tuple[int, int]],
    ) -> Arrivals:
        """The waiting elements of each side within its cut."""
        stop = np.cumsum([b - a for a, b in cuts])
        start = np.concatenate([[0], stop[:-1]]).astype(np.int64)

        def joined(parts: list[Int64s]) -> Int64s:
            return np.concatenate(parts)

        state = [np.where(s.valid[a:b] != 0, f[a:b] * k.REJECTED, k.INVALID)
                 for s, f, (a, b) in zip(sides, failed, cuts, strict=True)]  # fmt: skip
        return Arrivals(
            joined([s.time[a:b] for s, (a, b) in zip(sides, cuts, strict=True)]),
            joined([s.leave[a:b] for s, (a, b) in zip(sides, cuts, strict=True)]),
            joined([s.slot[a:b] for s, (a, b) in zip(sides, cuts, strict=True)]),
            joined(state),
            joined([port_keys(s.codes[a:b], mine, width) for s, mine, (a, b) in zip(sides, keys, cuts, strict=True)]),
            start.copy(), stop.astype(np.int64), start.copy(),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.time)

    def untold(self, wanted: Sequence[bool]) -> Iterator[tuple[int, Int64s, Int64s]]:
        """By input, of those ``wanted``, the keys and times of the elements that were applied and that the control does
        not know yet."""
        for i, (a, b) in enumerate(zip(self.told.tolist(), self.next.tolist(), strict=True)):
            if a < b and not wanted[i]:
                self.told[i] = b
            elif a < b:
                able = (self.state[a:b] & k.INVALID) == 0
                keys, times = self.keys[a:b], self.time[a:b]
                if not able.all():
                    keys, times = keys[able], times[able]
                self.told[i] = b
                if len(keys):
                    yield i, keys, times


def cuts_of(times: Sequence[Int64s], most: int) -> Iterator[list[tuple[int, int]]]:
    """Parts of some elements, by increasing time, of about ``most`` each; those of one instant are in one part.

    >>> list(cuts_of([np.array([1, 2, 3, 4]), np.array([2, 2])], 3))
    [[(0, 2), (0, 2)], [(2, 4), (2, 2)]]
    """
    lengths = [len(t) for t in times]
    at = [0] * len(times)
    while sum(lengths) - sum(at) > most:
        left = [n - a for n, a in zip(lengths, at, strict=True)]
        longest = left.index(max(left))
        last = times[longest][at[longest] + max(0, left[longest] * most // sum(left) - 1)]
        to = [max(a, int(np.searchsorted(t, last, side="right"))) for t, a in zip(times, at, strict=True)]
        yield list(zip(at, to, strict=True))
        at = to
    yield list(zip(at, lengths, strict=True))
