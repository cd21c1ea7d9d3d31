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
    """Elements: times, when they leave a time-based window (of a relation: their identities), where their rows are
    stored, whether they can join and whether a filter rejects them, their keys by port. ``next`` and ``stop`` by input
    say which are to be applied; ``reported`` up to where the control has received them. What need not be looked up for
    each element is not: ``leave`` is empty if all windows are tuple-based, ``place`` if those of each input are stored
    one after another, from ``place_from`` on, less the first of them; of an input that is ``clean`` every element can
    join."""

    time: Int64s
    leave: Int64s
    place: Int64s
    place_from: Int64s
    clean: Int64s
    state: Int64s
    keys: Int64s
    next: Int64s
    stop: Int64s
    reported: Int64s

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

        parts = list(zip(sides, failed, cuts, strict=True))
        clean = np.array([s.valid[a:b].all() and not f[a:b].any() for s, f, (a, b) in parts], np.int64)
        state = [
            np.zeros(b - a, np.int64) if fine else np.where(s.valid[a:b] != 0, f[a:b] * k.REJECTED, k.INVALID)
            for fine, (s, f, (a, b)) in zip(clean.tolist(), parts, strict=True)
        ]
        slots, none = [s.slot[a:b] for s, _, (a, b) in parts], np.empty(0, np.int64)
        in_a_row = all(len(p) == 0 or p[-1] - p[0] == len(p) - 1 for p in slots)  # they increase
        first = np.array([p[0] if len(p) else 0 for p in slots], np.int64)
        timed = any(s.limit <= 0 for s in sides)
        return Arrivals(
            joined([s.time[a:b] for s, _, (a, b) in parts]),
            joined([s.leave[a:b] for s, _, (a, b) in parts]) if timed else none,
            none if in_a_row else joined(slots),
            first - start, clean, joined(state),
            joined([port_keys(s.codes[a:b], mine, width) for mine, (s, _, (a, b)) in zip(keys, parts, strict=True)]),
            start.copy(), stop.astype(np.int64), start.copy(),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.time)

    def unreported(self, wanted: Sequence[bool]) -> Iterator[tuple[int, Int64s, Int64s]]:
        """By input, of those ``wanted``, the keys and times of the elements that were applied and that the control has
        not received yet."""
        for i, (a, b) in enumerate(zip(self.reported.tolist(), self.next.tolist(), strict=True)):
            if a < b and not wanted[i]:
                self.reported[i] = b
            elif a < b:
                able = (self.state[a:b] & k.INVALID) == 0
                keys, times = self.keys[a:b], self.time[a:b]
                if not able.all():
                    keys, times = keys[able], times[able]
                self.reported[i] = b
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
