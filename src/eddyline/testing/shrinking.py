"""Makes a failing case small: drops elements and rows as long as it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from eddyline.testing.cases import Case

T = TypeVar("T")


def shrink(case: Case, fails: Callable[[Case], bool], attempts: int = 2000) -> Case:
    """The smallest case found by dropping parts of its data, half by half and then one by one.

    ``fails`` must be deterministic; a case on which it raises counts as not failing.
    """
    left = attempts
    progress = True
    while progress and left > 0:
        progress = False
        for smaller in reductions(case):
            left -= 1
            if left <= 0:
                break
            if _fails(smaller, fails):
                case, progress = smaller, True
                break
    return case


def _fails(case: Case, fails: Callable[[Case], bool]) -> bool:
    try:
        return fails(case)
    except Exception:  # another failure than the one that is looked for
        return False


def reductions(case: Case) -> Iterator[Case]:
    """Cases with less data, the boldest first."""
    parts: list[tuple[int, Callable[[Sequence[Any]], Case], Sequence[Any]]] = []
    for name, data in case.streams.items():
        parts.append((len(data.elements), lambda e, n=name: case.with_elements(n, e), data.elements))  # type: ignore[misc]
    for name, relation in case.relations.items():
        parts.append((len(relation.rows), lambda r, n=name: case.with_rows(n, r), relation.rows))  # type: ignore[misc]
    sizes = sorted({max(1, n >> k) for n, _, _ in parts for k in range(8) if n}, reverse=True)
    for size in sizes:
        for count, build, items in parts:
            if size <= count:
                yield from (build(rest) for rest in without(items, size))


def without(items: Sequence[T], size: int) -> Iterator[list[T]]:
    """The list with one run of the given size left out.

    >>> list(without([1, 2, 3], 2))
    [[3], [1, 2]]
    """
    for start in range(0, len(items), size):
        yield [*items[:start], *items[start + size :]]
