"""How a monitor follows a k that changes: block by block what k is, what the monitor takes it for, what is missed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.constraints.harness import Ints, Run
from experiments.report import Number

BLOCK = 4_000  # elements


def adherence(rounds: int, largest: int) -> Ints:
    """k by arrival of S2, in five phases: it stays, grows slowly, falls slowly, grows at once and falls at once."""
    low, high = largest * 3 // 10, largest
    part = rounds // 5
    return np.concatenate(
        [
            np.full(part, low),
            np.linspace(low, high, part).astype(np.int64),
            np.linspace(high, low, part).astype(np.int64),
            np.full(part, high),
            np.full(rounds - 4 * part, low // 2),
        ]
    )


@dataclass(frozen=True, slots=True)
class Tracked:
    """Lines of ``elements``, ``k``, ``k_u`` and ``missing`` (share of the results), one for each block."""

    lines: list[dict[str, float]]

    @property
    def used(self) -> list[dict[str, float]]:
        return [x for x in self.lines if not math.isinf(x["k_u"])]

    @property
    def near(self) -> float:
        """The share of the used blocks in which k_u is within 10 % of k."""
        return sum(abs(x["k_u"] - x["k"]) <= 0.1 * x["k"] for x in self.used) / max(1, len(self.used))

    @property
    def missing(self) -> list[float]:
        return [x["missing"] for x in self.lines]

    @property
    def infinite(self) -> float:
        return 1 - len(self.used) / max(1, len(self.lines))

    def numbers(self, name: str) -> list[Number]:
        return [
            Number(f"{name}: blocks within 10 % of k, of those used", None, self.near),
            Number(f"{name}: most missing in a block", 0.02, max(self.missing)),
            Number(f"{name}: missing on average", None, float(np.mean(self.missing))),
            Number(f"{name}: share of time at k_u = ∞", None, self.infinite),
        ]

    def draw(self, axis: Any, title: str) -> None:
        at = [x["elements"] for x in self.lines]
        axis.plot(at, [x["k"] for x in self.lines], label="k")
        shown = [0 if math.isinf(x["k_u"]) else x["k_u"] for x in self.lines]
        axis.plot(at, shown, ".", label="k_u (0: not used)")
        axis.set(title=title)


def track(join: Run, k_u: Callable[[Run], float], came: Callable[[int], int], distance: Ints, look: int, due: Ints
          ) -> Tracked:  # fmt: skip
    """Run a join. ``came`` says how many rows of the stream that k is counted on have come after so many elements,
    ``distance`` has theirs, of which the last ``look`` count; ``due`` is when each result should come."""
    lines, before = [], 0
    for done in join.steps(BLOCK):
        until = came(done)
        actual = int(distance[max(0, until - look) : until].max())
        expected = int(((due >= done - BLOCK) & (due < done)).sum())
        missing = max(0, expected - (join.results - before)) / max(1, expected)
        before = join.results
        lines.append({"elements": done, "k": actual, "k_u": k_u(join), "missing": missing})
    return Tracked(lines)
