"""What the caches of joins did while a test ran, counted where plans change, and a table of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from eddyline.kernels import join_layout as k
from eddyline.operators.join_arrays import JoinArrays
from eddyline.synopses.store_id import StoreId

COLUMNS = (
    "chosen",  # stores that a plan began to use
    "supported",  # … those of globally-consistent caches
    "filled",  # entries that were written after a miss
    "hits",
    "updates",  # joins that other pipelines brought
    "pushed out",  # entries that gave way to others, for want of buckets or nodes
    "resized",  # stores that got another size and kept their entries
    "exchanged",  # stores that went in a change of plan in which others came
    "dropped",  # stores that went in all
)


class CacheCoverage:
    """The joins of one run."""

    def __init__(self) -> None:
        self.seen = Counter[str]()
        self._joins: dict[int, JoinArrays] = {}

    def changed(self, arrays: JoinArrays, before: Mapping[StoreId, Counter[str]], sizes: Mapping[StoreId, Any]) -> None:
        """A plan was changed; these are the stores that were there before."""
        caches = arrays.cache_operators.caches
        gone, come = [s for s in before if s not in caches.ids], [s for s in caches.ids if s not in before]
        for store in gone:
            self.seen += before[store]
        self.seen["resized"] += sum(s in sizes and caches.size_of(s) != sizes[s] for s in caches.ids)
        self.seen["chosen"] += len(come)
        self.seen["supported"] += sum(bool(s.support) for s in come)
        self.seen["dropped"] += len(gone)
        self.seen["exchanged"] += len(gone) if come else 0
        self._joins[id(arrays)] = arrays

    def finish(self) -> Counter[str]:
        """All that was seen, with what the caches did that are still there."""
        for arrays in self._joins.values():
            for counts in _counts(arrays).values():
                self.seen += counts
        self._joins.clear()
        return self.seen


def _counts(arrays: JoinArrays) -> dict[StoreId, Counter[str]]:
    return {
        store: Counter(
            {
                "filled": int(r[k.SR_MISSES]),
                "hits": int(r[k.SR_PROBES] - r[k.SR_MISSES]),
                "updates": int(r[k.SR_UPDATES]),
                "pushed out": int(r[k.SR_REPLACED] + r[k.SR_EVICTED]),
            }
        )
        for store, r in zip(arrays.cache_operators.caches.ids, arrays.cache_operators.caches.stores, strict=True)
    }


@contextmanager
def watching() -> Iterator[CacheCoverage]:
    """Counts what the caches of all joins do that are planned inside."""
    coverage, original = CacheCoverage(), JoinArrays.set_plan

    def set_plan(self: JoinArrays, *given: Any, **options: Any) -> None:
        before = _counts(self)
        sizes = {s: self.cache_operators.caches.size_of(s) for s in self.cache_operators.caches.ids}
        original(self, *given, **options)
        coverage.changed(self, before, sizes)

    with patch.object(JoinArrays, "set_plan", set_plan):
        yield coverage


def runs_with(column: str) -> str:
    """The name under which a row of the table counts the runs in which something happened at all."""
    return f"runs with {column}"


class Table:
    """Runs by what they were, and what the caches did in them."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], Counter[str]] = {}

    def add(self, facts: Mapping[str, str], seen: Counter[str]) -> None:
        """A run; ``facts`` are a name and a value for each part of the table."""
        for fact in facts.items():
            row = self.rows.setdefault(fact, Counter())
            row.update({c: seen[c] for c in COLUMNS})
            row.update(["runs", *(["in use"] if seen["hits"] else [])])
            row.update(runs_with(c) for c in COLUMNS if seen[c])

    def values(self, name: str) -> Sequence[tuple[str, Counter[str]]]:
        return sorted((value, row) for (part, value), row in self.rows.items() if part == name)

    def __str__(self) -> str:
        columns = ("runs", "in use", *COLUMNS)
        lines = []
        for part in dict.fromkeys(name for name, _ in self.rows):
            lines.append(f"{part:<60}" + "".join(f"{c:>12}" for c in columns))
            for value, row in self.values(part):
                lines.append(f"  {value:<58}" + "".join(f"{row[c]:>12,}" for c in columns))
                lines.append(f"    {'in how many runs':<80}" + "".join(f"{row[runs_with(c)]:>12,}" for c in COLUMNS))
        return "\n".join(lines)
