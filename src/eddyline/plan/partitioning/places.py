"""The places at which a plan reads its inputs, from left to right.

A sub-plan that is read twice has its places twice: its rows may travel in another way for each reader. A plan whose
named queries read each other repeatedly has very many places (a chain of thirty has 2³⁰); there equal sub-plans have
the same places, and their rows travel in one way for all readers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from eddyline.core.window import Rows
from eddyline.plan.logical import Plan, RelationScan, StreamScan, Window, children
from eddyline.plan.numbering import Numbering
from eddyline.plan.rewrite import with_children
from eddyline.plan.traverse import MAX_PLACES_WALKED, count_places, walk

Scan = StreamScan | RelationScan


class Places:
    """``scans`` are those of a plan by place; ``shared``: equal sub-plans have the same places."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.shared = count_places(plan) > MAX_PLACES_WALKED
        self.numbers = Numbering(plan)
        self.scans: list[Scan] = []
        self.by_number: dict[int, int] = {}  # of scans, where places are shared
        found = self._distinct() if self.shared else walk(plan)
        for n in found:
            if isinstance(n, Scan):
                self.by_number.setdefault(self.numbers.of(n), len(self.scans))
                self.scans.append(n)

    def _distinct(self) -> Iterator[Plan]:
        """Each different node once, in the order in which ``walk`` meets it first."""
        seen: set[int] = set()
        stack = [self.plan]
        while stack:
            n = stack.pop()
            number = self.numbers.of(n)
            if number not in seen:
                seen.add(number)
                yield n
                stack.extend(reversed(children(n)))

    def renamed(self, names: Sequence[str]) -> Plan:
        """The plan with the names of its scans, by place."""
        if not self.shared:
            return _named(self.plan, iter(names))
        done: dict[int, Plan] = {}

        def of(p: Plan) -> Plan:
            number = self.numbers.of(p)
            if number not in done:
                if isinstance(p, Scan):
                    done[number] = _named(p, iter([names[self.by_number[number]]]))
                else:
                    done[number] = with_children(p, [of(c) for c in children(p)])
            return done[number]

        return of(self.plan)

    def counted(self) -> list[bool]:
        """By place, whether a scan stands below a ``[ROWS n]``."""
        if not self.shared:
            return _counted(self.plan, False)
        found = [False] * len(self.scans)
        seen: set[tuple[int, bool]] = set()
        stack = [(self.plan, False)]
        while stack:
            p, below = stack.pop()
            number = self.numbers.of(p)
            if (number, below) in seen:
                continue
            seen.add((number, below))
            if isinstance(p, Scan):
                found[self.by_number[number]] |= below
            below = below or _counts(p)
            stack += [(c, below) for c in children(p)]
        return found


def _named(p: Plan, names: Iterator[str]) -> Plan:
    match p:
        case StreamScan():
            return replace(p, stream=next(names))
        case RelationScan():
            return replace(p, relation=next(names))
        case _:
            return with_children(p, [_named(c, names) for c in children(p)])


def _counted(p: Plan, below: bool) -> list[bool]:
    if isinstance(p, Scan):
        return [below]
    below = below or _counts(p)
    return [found for c in children(p) for found in _counted(c, below)]


def _counts(p: Plan) -> bool:
    return isinstance(p, Window) and isinstance(p.spec, Rows)
