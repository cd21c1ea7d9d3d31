"""Ties routes and index tuning to the multi-route join: what it reports goes to the policies, what they decide back.

After each search the routes learn its fanout, and the tuner the access pattern. When the tuner wants to decide
about a state, the control gathers what is known of the states, applies the new indexes between two batches, and logs
the decision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from eddyline.adaptive.indexes.access_patterns import spelled
from eddyline.adaptive.indexes.routes import Routes
from eddyline.adaptive.indexes.tuners import IndexKey, IndexTuner, StateFacts
from eddyline.core.delta import Int64s
from eddyline.kernels.bit_address import FOUND
from eddyline.operators.routed_join import RoutedJoin
from eddyline.streamon.log import DecisionLog
from eddyline.synopses.index_maps import BitAddress, Hashed, IndexSpec

SAMPLE = 2_500  # of the newest rows, from which repeated values are estimated
ADMITTED = 0.5  # share of the rows that a search by a range is taken to admit


def to_spec(indexes: Sequence[IndexKey]) -> IndexSpec:
    """A policy's indexes as a state module takes them.

    >>> to_spec([("bits", 3, 1), ("hashed", 0)])
    (BitAddress(bits=(3, 1)), Hashed(attributes=(0,)))
    """
    return tuple(BitAddress(tuple(rest)) if kind == "bits" else Hashed(tuple(rest)) for kind, *rest in indexes)


def to_keys(spec: IndexSpec) -> tuple[IndexKey, ...]:
    """The inverse of ``to_spec``."""
    return tuple(("bits", *m.bits) if isinstance(m, BitAddress) else ("hashed", *m.attributes) for m in spec)


def agreeing(codes: Int64s) -> float:
    """The probability that two different rows agree, from a sample.

    >>> agreeing(np.array([1, 1, 2, 3]))
    0.16666666666666666
    """
    n = len(codes)
    _, counts = np.unique(codes, return_counts=True)
    return float((counts * (counts - 1)).sum() / (n * (n - 1))) if n > 1 else 0.0


class _Facts(Sequence[StateFacts]):
    """Facts of all states, each gathered when it is first read."""

    def __init__(self, gather: Sequence[Callable[[], StateFacts]]) -> None:
        self._gather, self._known = gather, dict[int, StateFacts]()

    def __len__(self) -> int:
        return len(self._gather)

    def __getitem__(self, i: Any) -> Any:
        if i not in self._known:
            self._known[i] = self._gather[i]()
        return self._known[i]


class RoutesAndIndexes:
    """The control of one join. ``attributes`` are the names of each input's join attributes."""

    def __init__(
        self,
        operator: str,
        attributes: Sequence[Sequence[str]],
        routes: Routes,
        tuner: IndexTuner,
        log: DecisionLog | None = None,
    ) -> None:
        self.operator, self.attributes = operator, [tuple(a) for a in attributes]
        self.routes, self.tuner, self.log = routes, tuner, log
        self.due: list[int] = []  # states that the tuner wants to decide about
        self.tunings = self.migrated = 0
        self.pinned = False  # by the user: routes and indexes stay as they are
        self._suggested: dict[int, tuple[IndexKey, ...]] = {}  # by state what would have been done last, while pinned

    # ── while the join runs ───────────────────────────────────────────────────────────────────────────────────────

    def next(self, bound: Sequence[int]) -> int:
        return self.routes.next(bound)

    def searched(self, bound: Sequence[int], target: int, pattern: int, requests: int, counts: Int64s) -> None:
        if not self.pinned:
            self.routes.searched(bound, target, requests, int(counts[FOUND]))
        if requests:
            self.tuner.searched(target, pattern, requests)

    def round_ended(self) -> None:
        self.due += [s for s in self.tuner.round_ended() if s not in self.due]

    def inserted(self, target: int, rows: int) -> None:
        self.tuner.inserted(target, rows)

    def tune(self, join: RoutedJoin, now: int) -> None:
        while self.due:
            target = self.due.pop(0)
            if self.pinned:
                self._suggest(target, join, now)
                continue
            for tuning in self.tuner.decide(target, self.facts(join)):
                state, spec = join.states[tuning.state], to_spec(tuning.indexes)
                state.spec = spec
                self.migrated += state.migrate(tuning.migrate, spec) if tuning.migrate else 0
                self.tunings += 1
                if self.log is not None:
                    self.log.record(replace(tuning.decision, time=now), operator=self.operator)

    def pin(self, pinned: bool) -> None:
        """Keep routes and indexes, or let them change again."""
        self.pinned, self._suggested = pinned, {}

    def _suggest(self, target: int, join: RoutedJoin, now: int) -> None:
        """Enter what would have been done to indexes that are pinned, once."""
        for tuning in deepcopy(self.tuner).decide(target, self.facts(join)):
            indexes = tuple(tuning.indexes)
            if self._suggested.get(tuning.state) != indexes and self.log is not None:
                self.log.record(replace(tuning.decision, time=now, applied=False), operator=self.operator)
            self._suggested[tuning.state] = indexes

    def facts(self, join: RoutedJoin) -> Sequence[StateFacts]:
        """What the tuner may know of each state. To count repeated values takes time: only of states it asks about."""
        return _Facts([partial(self._facts, join, i) for i in range(len(join.states))])

    def _facts(self, join: RoutedJoin, i: int) -> StateFacts:
        state = join.states[i]
        newest = state.recent(SAMPLE)
        return StateFacts(
            self.attributes[i],
            len(state),
            tuple((to_keys(p.group.spec), p.end - max(p.start, state.first)) for p in state.partitions),
            join.in_process(i),
            {a: agreeing(newest[:, a]) for a in range(state.attributes)},
            dict.fromkeys(np.flatnonzero(state.ranged).tolist(), ADMITTED),
        )

    # ── for people ────────────────────────────────────────────────────────────────────────────────────────────────

    def describe(self, join: RoutedJoin) -> list[str]:
        lines = [f"routes are {self.routes.policy}, indexes {self.tuner.name}: {self.tunings} changes"]
        for i, (label, state) in enumerate(zip(join.labels, join.states, strict=True)):
            now = "; ".join(self._runs(i, state.partitions)) or self._spelled(i, state.spec)
            shares = sorted(self.tuner.frequencies(i).items(), key=lambda x: -x[1])
            asked = ", ".join(f"{spelled(p, self.attributes[i])} {100 * f:.0f} %" for p, f in shares)
            lines.append(f"{label}: {now}" + (f"; searched by {asked}" if asked else ""))
        return lines

    def _runs(self, i: int, partitions: Sequence[Any]) -> list[str]:
        """The indexes by partition, equal neighbours together."""
        runs: list[tuple[IndexSpec, int]] = []
        for p in partitions:
            if runs and runs[-1][0] == p.group.spec:
                runs[-1] = (runs[-1][0], runs[-1][1] + 1)
            else:
                runs.append((p.group.spec, 1))
        return [f"{n} partition{'s' if n > 1 else ''} by {self._spelled(i, spec)}" for spec, n in runs]

    def _spelled(self, i: int, spec: IndexSpec) -> str:
        names = self.attributes[i]
        parts = []
        for m in spec:
            if isinstance(m, BitAddress):
                used = [f"{n}: {b}" for n, b in zip(names, m.bits, strict=True) if b]
                parts.append(f"bits {', '.join(used)}" if used else "no bits")
            else:
                parts.append(f"hash of {', '.join(names[a] for a in m.attributes)}")
        return " and ".join(parts) or "no index"

    def statistics(self, join: RoutedJoin) -> dict[str, Any]:
        states = {}
        for i, (label, state) in enumerate(zip(join.labels, join.states, strict=True)):
            hashes, visits, comparisons, matches = state.counts.tolist()
            states[label] = {
                "rows": len(state),
                "index_bytes": state.index_bytes,
                "hashes": hashes + state.insert_hashes,
                "bucket_visits": visits,
                "comparisons": comparisons,
                "matches": matches,
                "indexes": [self._spelled(i, p.group.spec) for p in state.partitions],
                "patterns": {spelled(p, self.attributes[i]): f for p, f in self.tuner.frequencies(i).items()},
            }
        return {
            "routes": self.routes.policy,
            "index": self.tuner.name,
            "changes": self.tunings,
            "migrated_rows": self.migrated,
            "states": states,
        }

    # ── state ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def state(self) -> dict[str, Any]:
        return {
            "routes": self.routes.state(),
            "tuner": [self.tuner.name, self.tuner.state()],
            "due": list(self.due),
            "tunings": self.tunings,
            "migrated": self.migrated,
        }

    def load(self, state: dict[str, Any]) -> None:
        self.routes.load(state["routes"])
        name, learned = state["tuner"]
        if name == self.tuner.name:  # another tuner takes the stored indexes over and learns anew
            self.tuner.load(learned)
            self.due = [int(i) for i in state["due"]]
        self.tunings, self.migrated = int(state["tunings"]), int(state["migrated"])
