"""A slow, obvious MJoin with caches, to hold the rules about caches against answers.

A store maps a key to the segment's rows that join with the support, each with the number of ways in which it does. New
entries are computed from the windows after the element; hits and maintenance see nothing but the pipelines.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import product

from eddyline.adaptive.joins.candidates import Candidate, Store, maintenance
from eddyline.adaptive.joins.shape import Shape


@dataclass(frozen=True)
class Row:
    number: int
    values: tuple[int, ...]  # by equality class
    other: int  # compared by thetas: the input with the smaller number must not have more


Partial = dict[int, Row]


class Executor:
    def __init__(self, shape: Shape, orders: list[tuple[int, ...]]) -> None:
        self.shape, self.orders = shape, orders
        self.windows: list[dict[int, Row]] = [{} for _ in range(shape.size)]
        self.caches: list[Candidate] = []
        self.entries: dict[Store, dict[tuple[int, ...], Counter[tuple[Row, ...]]]] = {}
        self.hits = self.updates = 0

    def use(self, caches: list[Candidate], orders: list[tuple[int, ...]] | None = None) -> None:
        """Caches that stay keep what they hold."""
        self.orders = self.orders if orders is None else orders
        self.caches = list(caches)
        self.entries = {c.store: self.entries.get(c.store, {}) for c in caches}

    def process(self, source: int, row: Row, sign: int) -> Counter[tuple[int, ...]]:
        """The results of an insertion or deletion, as row numbers by input."""
        if sign < 0:
            del self.windows[source][row.number]
        order, partials, at = self.orders[source], [{source: row}], 0
        missed: list[tuple[Candidate, tuple[int, ...]]] = []
        while at < len(order):
            cache = next((c for c in self.caches if c.pipeline == source and c.first == at), None)
            if cache is None:
                partials, at = self.step(partials, order[at]), at + 1
            else:
                found, rest = [], []
                for p in partials:
                    key = self.key(cache, p)
                    if self.hit(cache, key):
                        self.hits += 1
                        values = (
                            {**p, **dict(zip(cache.segment, x, strict=True))} for x in self.entries[cache.store][key]
                        )
                        found += [v for v in values if self.fits(v)]
                    else:
                        rest.append(p)
                        missed.append((cache, key))
                for j in cache.operators:
                    rest = self.step(rest, order[j])
                    if j < cache.last:
                        self.maintain(source, j + 1, rest, sign)
                partials, at = found + rest, cache.last + 1
            self.maintain(source, at, partials, sign)
        if sign > 0:
            self.windows[source][row.number] = row
        for cache, key in missed:
            self.entries[cache.store][key] = self.compute(cache, key)
        return Counter(tuple(p[i].number for i in range(self.shape.size)) for p in partials)

    def key(self, cache: Candidate, p: Partial) -> tuple[int, ...]:
        return tuple(next(p[i].values[c] for i in sorted(self.shape.classes[c]) if i in p) for c in cache.key)

    def hit(self, cache: Candidate, key: tuple[int, ...]) -> bool:
        if key not in self.entries[cache.store]:
            return False
        if not cache.anchored:
            return True
        own = cache.pipeline
        places = [(n, c) for n, c in enumerate(cache.key) if own in self.shape.classes[c]]
        return any(all(row.values[c] == key[n] for n, c in places) for row in self.windows[own].values())

    def fits(self, p: Partial) -> bool:
        for c, inputs in enumerate(self.shape.classes):
            if len({p[i].values[c] for i in inputs if i in p}) > 1:
                return False
        pairs = (sorted(pair) for pair in self.shape.thetas)
        return all(p[a].other <= p[b].other for a, b in pairs if a in p and b in p)

    def step(self, partials: list[Partial], target: int) -> list[Partial]:
        joined = ({**p, target: row} for p in partials for row in self.windows[target].values())
        return [p for p in joined if self.fits(p)]

    def maintain(self, source: int, after: int, partials: list[Partial], sign: int) -> None:
        for cache in {c.store: c for c in self.caches}.values():
            if (source, after) not in maintenance(cache, self.orders):
                continue
            for p in partials:
                entry = self.entries[cache.store].get(self.key(cache, p))
                if entry is not None:
                    self.updates += 1
                    x = tuple(p[i] for i in cache.segment)
                    entry[x] += sign
                    if entry[x] == 0:
                        del entry[x]

    def compute(self, cache: Candidate, key: tuple[int, ...]) -> Counter[tuple[Row, ...]]:
        found: Counter[tuple[Row, ...]] = Counter()
        for rows in product(*(self.windows[i].values() for i in cache.inputs)):
            p = dict(zip(cache.inputs, rows, strict=True))
            if self.fits(p) and self.key(cache, p) == key:
                found[tuple(p[i] for i in cache.segment)] += 1
        return found
