"""``fitting``: the kind of index of each state is a decision, too, made from measured costs within a limit of memory.

A state begins with the indexes that would cost least if it were searched by each attribute as often as by any other,
and no value were repeated: nothing more is known then. As soon as some searches have been counted the choice is made
again, and after each assessment: among the bit-address indexes and the sets of hash indices that fit into the state's
share of the memory, the one that is expected to cost least, by

* the costs of a hash, a bucket visit, a comparison in a bucket and along all rows, and an insertion, measured on this
  machine when the join starts;
* the rows of the state, the searches for each arriving row and the access patterns with their frequencies, counted;
* how often two rows agree in an attribute, in a sample of the newest rows.

Memory is divided among the states by what each gains (``selection.divide_by_gain``). Partitions keep the indexes they
have where re-indexing them is not repaid and the memory allows it: the kinds of a state's partitions may differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eddyline.adaptive.indexes.access_patterns import attributes_of, pattern_of
from eddyline.adaptive.indexes.cost import UnitCosts, Workload, dependent_costs
from eddyline.adaptive.indexes.index_sets import (
    BITS,
    HASHED,
    MOST_HASHES,
    IndexSet,
    best_hashes,
    bytes_of,
    costs_of_hash_sets,
    costs_of_searches,
    insertion,
)
from eddyline.adaptive.indexes.migration import EXPECTED, runs_of
from eddyline.adaptive.indexes.selection import Choice, best_by_bits, convex_hull, divide_by_gain, most_frequent
from eddyline.adaptive.indexes.tuners import (
    CHANGE_RATIO,
    EXPECTED_WORTH,
    FIRST_BATCH,
    MOST_BITS,
    SEARCHES,
    Costed,
    StateFacts,
    Tuning,
    spelled,
)
from eddyline.streamon.decision import Decision

# Searches of a state before the first decision about it: more are steadier, and slower.
FIRST_SEARCHES = 1_500
STILL_LEARNING = 0.2  # share of what is not known from which a state is assessed again at once: twice as long each time
LEAST_PRIOR = 0.05  # share of searches that are expected by attributes which are not asked for now: routes change
PARTITIONS = 4  # of a window whose rows are not known
NAMES = {BITS: "bit-address", HASHED: "hash indices"}


class Fitting(Costed):
    """``budget`` is the bytes of all indexes together; ``rows`` are those of all windows and ``largest`` those of the
    largest one when they are full, 0 where that is not known. Of ``batch`` rows each state has its part in its indexes
    beside a full window: they are inserted before the rows leave that their searches must still find."""

    name = "fitting"

    def __init__(self, *args: Any, rows: int = 0, largest: int = 0, batch: int = 0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.arriving = batch / max(1, len(self.attributes))
        self.brought = [self.arriving or FIRST_BATCH] * len(self.attributes)
        self.largest = largest or PARTITIONS * self.partition
        self.rows = rows or self.largest * len(self.attributes)
        self._initial: dict[int, IndexSet] = {}  # by number of attributes
        self.indexes: list[IndexSet] = [self.initial(n) for n in self.attributes]
        self.choices: list[list[Choice]] = [[] for _ in self.attributes]  # of the last decision about each state
        self.hulls: list[list[Choice]] = [[] for _ in self.attributes]  # those of them that give most for their bytes
        self.requests = [0] * len(self.attributes)  # searches of each state that have been assessed
        for s in range(len(self.attributes)):
            self.schedule.running[s] = min(self.schedule.window, FIRST_SEARCHES)

    def initial(self, attributes: int) -> IndexSet:
        """The least cost for searches by one attribute each."""
        if attributes not in self._initial:
            share = None if self.budget is None else self.budget * self.largest / self.rows
            best = first_choice(attributes, self.largest, share, self.unit, self.arriving)
            self._initial[attributes] = best.configuration
        return self._initial[attributes]

    def take_over(self, state: int, indexes: IndexSet) -> None:
        self.indexes[state] = tuple(indexes)

    def complete(self, state: int) -> None:
        self.requests[state] += self.assessments[state].requests
        super().complete(state)
        if self._prior(state) > STILL_LEARNING:  # what was not worth a change with so little known may soon be
            self.schedule.running[state] = min(self.schedule.window, self.requests[state])

    def workload(self, state: int, facts: Sequence[StateFacts]) -> Workload:
        """Of a window that is full. To what was counted come ``FIRST_SEARCHES`` searches by all attributes alike: few
        searches of a first phase must not leave an attribute without an index for ever."""
        mine, n = facts[state], self.attributes[state]
        rows = float(max(1, mine.rows, mine.full))
        prior = self._prior(state)
        shares = {p: (1 - prior) * f for p, f in self.known[state].items()}
        for a in range(n):
            p = pattern_of([a], n)
            shares[p] = shares.get(p, 0.0) + prior / n
        searches = rows * self.load_ratio[state]
        batches = self.batch[state], self.brought[state]
        return Workload(rows, searches, 1.0, shares, 1.0, mine.agreeing, mine.admitted, *batches)

    def indexed(self, mine: StateFacts) -> float:
        """The rows of a state that are in its indexes at most. Decisions are made amid a batch: of a full window the
        rows that a state has then include those that arrived with the batch, and these must not be counted twice."""
        return max(mine.rows, mine.full + self.arriving)

    def _prior(self, state: int) -> float:
        """The share of what is not known from searches that were counted."""
        return max(LEAST_PRIOR, FIRST_SEARCHES / (FIRST_SEARCHES + self.requests[state]))

    def decide(self, state: int, facts: Sequence[StateFacts]) -> list[Tuning]:
        load = self.workload(state, facts)
        more = self.indexed(facts[state]) - load.rows
        self.choices[state] = found = candidates(self.attributes[state], load, self.unit, more)
        if self.budget is None:
            best = min(found, key=lambda c: c.cost).configuration
            alone = self._tuning(state, best, load, facts[state], room=math.inf)
            return [] if alone is None else [alone]
        self.hulls[state] = convex_hull(found)
        known = [s for s in range(len(facts)) if self.choices[s]]
        taken = [bytes_of(self.indexes[s], self.indexed(f)) for s, f in enumerate(facts)]
        left = self.budget - sum(taken[s] for s in range(len(facts)) if s not in known)
        shares = divide_by_gain(left, [self.choices[s] for s in known], [self.hulls[s] for s in known])
        chosen = dict(zip(known, shares, strict=True))
        spare = max(0.0, left - sum(c.bytes for c in chosen.values()))

        def tuning(s: int, *, forced: bool) -> Tuning | None:
            mine = load if s == state else self.workload(s, facts)
            return self._tuning(s, chosen[s].configuration, mine, facts[s], chosen[s].bytes + spare, forced=forced)

        others = [s for s in known if set(chosen[s].configuration) != set(self.indexes[s])]
        growing = [s for s in others if chosen[s].bytes > taken[s]]
        tunings = [tuning(s, forced=False) for s in growing]
        used = sum(chosen[t.state].bytes - taken[t.state] for t in tunings if t is not None) + sum(taken)
        # What one state gets another one gives, whether that is worth it by itself or not.
        give = used > self.budget
        tunings += [tuning(s, forced=give) for s in others if s not in growing]
        return [t for t in tunings if t is not None]

    def _tuning(
        self, state: int, best: IndexSet, load: Workload, mine: StateFacts, room: float, *, forced: bool = False
    ) -> Tuning | None:
        """A change of a state's indexes if it pays; ``room`` is the bytes that the state may take meanwhile."""
        before, n = self.indexes[state], len(mine.names)
        if set(best) == set(before):
            return None
        costs = (_total(before, n, load, self.unit), _total(best, n, load, self.unit))
        if self.migration == EXPECTED:
            worth = EXPECTED_WORTH + self._prior(state) - LEAST_PRIOR  # the less is known, the more must be gained
            # Where all rows have the same indexes, no change gains more than one that moved all of them for nothing.
            if all(indexes == before for indexes, _ in mine.partitions) and costs[0] < worth * costs[1] and not forced:
                return None
            costs, moved = self.expected(before, best, load, mine)
        else:
            worth, moved = CHANGE_RATIO, list(range(len(mine.partitions))) if self.migration == "all" else []
        if costs[0] < worth * costs[1] and not forced:
            return None
        kept = runs_of(mine.partitions[: len(mine.partitions) - len(moved)])
        rest = self.indexed(mine) - sum(run.rows for run in kept)
        if bytes_of(best, rest) + sum(bytes_of(run.indexes, run.rows) for run in kept) > room:
            moved = list(range(len(mine.partitions)))  # old indexes would not fit beside the new ones
        self.indexes[state] = best
        kinds = [s[0][0] if s else "" for s in (before, best)]
        kind = "index kind" if kinds[0] != kinds[1] else "index bits" if kinds[1] == BITS else "hash indexes"
        decision = Decision(
            kind,
            _described(before, mine.names),
            _described(best, mine.names),
            SEARCHES,
            {**self.evidence(state, mine, moved), "costs": self._costs(state, load)},
            self.units,
            expected_gain=costs[0] / costs[1] if costs[1] > 0 else None,
            cost=self.moving(mine, moved, best),
        )
        return Tuning(state, best, tuple(moved), decision)

    def _costs(self, state: int, load: Workload) -> dict[str, float]:
        """The least cost of each kind, for one search."""
        least: dict[str, float] = {}
        for c in self.choices[state]:
            name = NAMES[c.configuration[0][0]] if c.configuration else "no index"
            least[name] = min(least.get(name, float("inf")), c.cost / max(1.0, load.searches))
        return {name: round(cost, 1) for name, cost in least.items()}

    def state(self) -> dict[str, Any]:
        indexes = [[list(i) for i in some] for some in self.indexes]
        return {**super().state(), "indexes": indexes, "requests": list(self.requests)}

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        self.indexes = [tuple((str(k), *(int(a) for a in rest)) for k, *rest in some) for some in state["indexes"]]
        self.requests = [int(r) for r in state["requests"]]


def candidates(n: int, load: Workload, unit: UnitCosts, arriving: float = 0.0) -> list[Choice]:
    """No index, bit-address indexes, and sets of hash indices (those that are added one by one, one on each attribute,
    those of the most frequent patterns): what no other one beats in cost and bytes. Bytes are those of a full window
    and of ``arriving`` rows more.

    >>> load = Workload(1000, 9000, 1.0, {0b10: 0.6, 0b01: 0.4}, agreeing={0: 0.001, 1: 0.001})
    >>> for c in candidates(2, load, UnitCosts())[-3:]:
    ...     print(c.configuration, round(c.cost / load.searches, 1), c.bytes)
    (('bits', 5, 4),) 68.4 3274
    (('bits', 5, 5),) 65.6 4298
    (('hashed', 0), ('hashed', 1)) 5.4 6548
    """
    bits = min(MOST_BITS, max(0, math.ceil(math.log2(max(1.0, load.rows)))))
    by_bits = best_by_bits(n, bits, load, unit)[1:]
    hashes: list[IndexSet] = [(), *best_hashes(n, load, unit)]
    hashes.append(tuple((HASHED, a) for a in range(n) if a not in load.admitted))
    asked = [attributes_of(p, n) for p in most_frequent(load.frequencies, MOST_HASHES)]
    frequent = [(HASHED, *a) for a in asked if load.admitted.keys().isdisjoint(a)]
    hashes += [tuple(frequent[: count + 1]) for count in range(len(frequent))]
    hashes = list(dict.fromkeys(hashes))
    searching = load.searches * costs_of_hash_sets(hashes, n, load, unit)
    costs = [float(c) + insertion(s, load, unit) for s, c in zip(hashes, searching, strict=True)]
    if by_bits:
        putting = load.arrivals * (unit.insert + unit.put / load.brought)
        costs += (dependent_costs(np.array(by_bits), load, unit) + putting).tolist()
    sets: list[IndexSet] = [*hashes, *(((BITS, *c),) for c in by_bits)]
    rows = load.rows + arriving
    found = [Choice(s, c, round(bytes_of(s, rows))) for s, c in zip(sets, costs, strict=True)]
    found.sort(key=lambda c: (c.bytes, c.cost))
    kept: list[Choice] = []
    for c in found:
        if not kept or c.cost < kept[-1].cost:
            kept.append(c)
    return kept


def first_choice(n: int, rows: int, share: float | None, unit: UnitCosts, arriving: float = 0.0) -> Choice:
    """The indexes of a state of which nothing is known but its attributes and rows, within ``share`` bytes; its cost is
    that of a search.

    >>> [first_choice(3, 10_000, 10_000 * bytes, UnitCosts()).configuration for bytes in (4, 16)]
    [(('bits', 4, 4, 4),), (('hashed', 0), ('hashed', 1), ('hashed', 2))]
    """
    single = {pattern_of([a], n): 1 / max(1, n) for a in range(n)}
    load = Workload(float(rows), float(n * rows), 1.0, single, brought=arriving or FIRST_BATCH)
    fit = (c for c in candidates(n, load, unit, arriving) if share is None or c.bytes <= share)
    best = min(fit, key=lambda c: c.cost)
    return replace(best, cost=best.cost / max(1.0, load.searches))


def _total(indexes: IndexSet, n: int, load: Workload, unit: UnitCosts) -> float:
    """The cost of a window to come all of whose rows have these indexes."""
    search = float(costs_of_searches(indexes, n, np.array([load.rows]), load, unit)[0])
    return load.searches * search + insertion(indexes, load, unit)


def _described(indexes: IndexSet, names: tuple[str, ...]) -> dict[str, int] | list[str]:
    """Bits by attribute, or the patterns that have a hash index.

    >>> _described((("bits", 3, 0),), ("a", "b")), _described((("hashed", 0), ("hashed", 0, 1)), ("a", "b"))
    ({'a': 3, 'b': 0}, ['⟨a, *⟩', '⟨a, b⟩'])
    """
    if indexes and indexes[0][0] == BITS:
        return dict(zip(names, indexes[0][1:], strict=True))
    return [spelled(pattern_of(index[1:], len(names)), names) for index in indexes]
