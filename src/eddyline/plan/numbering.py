"""Equal sub-plans: each different sub-plan of a plan gets a number, equal ones get the same.

Equal means that they compute the same from the same inputs: they agree in every node, name and expression. So running
one of them gives the answer of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import fields
from typing import Any

from eddyline.expr import nodes
from eddyline.expr.nodes import AggregateCall, Expr
from eddyline.plan.logical import Plan, RelationScan, StreamScan, children

_CHILDREN = ("input", "inputs", "left", "right")


class Numbering:
    """Numbers of the sub-plans of ``plans``; others that are asked for later get numbers, too.

    ``readers[n]`` counts the places of ``plans`` where number n is read, a sub-plan that is itself read in several
    places counted once: what is only inside a repeated sub-plan has one reader. A whole plan has a reader outside, who
    gets the results; so have several that are equal. It is counted if some input is read in several places
    (``repeats``): else every sub-plan has one reader.
    """

    def __init__(self, *plans: Plan) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._by_id: dict[int, tuple[Plan, int]] = {}  # the plan itself, so that its id is not used again
        self._below: list[tuple[int, ...]] = []
        self.repeats = repeats_inputs(plans)
        self.readers = Counter[int]()
        if self.repeats:  # otherwise every sub-plan has one reader, and gets its number at its first look-up
            whole = {self.of(p) for p in plans}
            self.readers.update(n for below in self._below for n in below)
            self.readers.update(whole)

    def of(self, p: Plan) -> int:
        known = self._by_id.get(id(p))
        if known is not None:
            return known[1]
        below = tuple(map(self.of, children(p)))
        own = tuple(getattr(p, f.name) for f in fields(p) if f.name not in _CHILDREN)
        key = (type(p), below, own, tuple(_literals(own)))
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers)
            self._below.append(below)
        number = self._numbers[key]
        self._by_id[id(p)] = p, number
        return number

    def shared(self, p: Plan) -> bool:
        """Whether a sub-plan is read in more than one place."""
        return self.repeats and self.readers[self.of(p)] > 1


def repeats_inputs(plans: Sequence[Plan]) -> bool:
    """Whether an input is read in several places. Where none is, no two sub-plans are equal: equal ones read the same
    inputs."""
    seen: set[str] = set()
    waiting = list(plans)
    while waiting:
        p = waiting.pop()
        waiting.extend(children(p))
        if isinstance(p, StreamScan | RelationScan):
            name = p.stream if isinstance(p, StreamScan) else p.relation
            if name in seen:  # a part that is read twice comes twice, so this ends early
                return True
            seen.add(name)
    return False


def _literals(value: Any) -> Iterator[str]:
    """Literals as texts: 0.0 equals -0.0, and yet they are different constants."""
    if isinstance(value, tuple):
        for v in value:
            yield from _literals(v)
    elif isinstance(value, AggregateCall):
        yield from _literals(value.args)
    elif isinstance(value, Expr):
        for e in nodes.walk(value):
            if isinstance(e, nodes.Literal):
                yield repr(e.value)
