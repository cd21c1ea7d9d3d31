"""A second executor, a row and a call at a time: slow, obvious, and strict about what may be asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from eddyline.adaptive.filters.policy import FilterPolicy
from eddyline.core.delta import Bools
from eddyline.streamon.decision import Decision


@dataclass(slots=True)
class Seen:
    """``asked[row, filter]`` counts calls; ``passed`` are the rows that no filter dropped and for which none failed."""

    asked: np.ndarray
    passed: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    extra: int = 0
    decisions: list[Decision] = field(default_factory=list)


def execute(policy: FilterPolicy, drops: Bools, batch: int, fails: Bools | None = None, end: int | None = None) -> Seen:
    """Evaluate every row on its own. Where ``fails``, a filter raises instead of answering."""
    n = drops.shape[1]
    seen = Seen(np.zeros(drops.shape, np.int64))
    for start in range(0, len(drops) if end is None else end, batch):
        rows = range(start, min(start + batch, len(drops)))
        order, wanted, reach = policy.order, policy.wants_profile(len(rows)), policy.reach
        assert list(wanted) == sorted(set(wanted)) and all(0 <= w < len(rows) for w in wanted)
        chosen = {start + int(w) for w in wanted}
        rows_in, rows_out, bits = np.zeros(n, np.int64), np.zeros(n, np.int64), []
        for row in rows:
            bits_of_row, dropped_at, failed = [False] * n, None, False
            for position, f in enumerate(order):
                if dropped_at is not None and not (row in chosen and reach[dropped_at, position]):
                    continue
                seen.asked[row, f] += 1
                raised = fails is not None and bool(fails[row, f])
                bits_of_row[f] = bool(drops[row, f]) and not raised
                if dropped_at is not None:
                    seen.extra += 1
                    continue
                failed |= raised
                rows_in[f] += 1
                if bits_of_row[f]:
                    dropped_at = position
                else:
                    rows_out[f] += 1
            if dropped_at is None:
                (seen.failed if failed else seen.passed).append(row)
            if row in chosen:
                bits.append(bits_of_row)
        seconds = np.where(seen.asked[rows.start : rows.stop].any(0), 1.0, np.nan)
        policy.processed(rows_in, rows_out, seconds)
        if bits:
            policy.profiled(np.array(bits), seconds)
        decision = policy.decide(rows.stop)
        if decision is not None:
            seen.decisions.append(decision)
    return seen


def population(*tuples: str) -> Bools:
    """Drop bits as the thesis prints them: ``"0010"`` is dropped by F3."""
    return np.array([[b == "1" for b in t] for t in tuples], np.bool_)


def phases(*parts: Sequence[Bools] | Bools) -> Bools:
    return np.concatenate([np.asarray(p, np.bool_) for p in parts])
