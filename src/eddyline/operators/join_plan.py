"""The plan of a multiway join: inputs, keys, pipelines. Pure data, turned into arrays for the kernel.

Equalities form equivalence classes of key expressions (R.a = S.a and S.a = T.a let a pipeline go from R to T). A step
compares all members of its target with those members of the class whose input was bound first. So in any order all
members of a class agree once they are bound, and no equality is checked twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from eddyline.expr.nodes import Expr
from eddyline.synopses.store_id import StoreId


@dataclass(frozen=True, slots=True)
class Member:
    """Key expression number ``key`` of input number ``input``."""

    input: int
    key: int


@dataclass(frozen=True, slots=True)
class Step:
    """Probe ``target`` on its keys ``columns`` with the values of ``probes``, in the same order."""

    target: int
    columns: tuple[int, ...]
    probes: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """``left op right`` for ordered codes of two inputs; op is one of lt, le, gt, ge, ne."""

    left: Member
    op: str
    right: Member


@dataclass(frozen=True, slots=True)
class CacheSpec:
    """A cache in a pipeline: the results of its steps ``first`` … ``last``, which bind the inputs ``segment``, by the
    codes of the equality classes ``key``. With ``support`` only the results that join with those inputs need be there
    (thesis 5.7). A ``complete`` one lacks nothing: what it does not hold is empty.
    """

    pipeline: int
    first: int
    last: int
    segment: tuple[int, ...]
    key: tuple[int, ...]
    support: tuple[int, ...] = ()
    complete: bool = False

    @property
    def store(self) -> StoreId:
        """Caches that agree in this hold the same, and share it."""
        anchor = self.pipeline if self.pipeline in self.support else -1
        return StoreId(self.segment, self.key, self.support, anchor, self.complete)


@dataclass(frozen=True, slots=True)
class JoinGraph:
    """``keys[i]`` are the key expressions of input i; ``equalities`` pair members of different inputs."""

    keys: tuple[tuple[Expr, ...], ...]
    equalities: tuple[tuple[Member, Member], ...]
    classes: tuple[frozenset[Member], ...] = field(init=False, repr=False, compare=False)
    # By input for each class that it has members of: their keys, and by each other input its members, by key.
    touching: tuple[tuple[tuple[tuple[int, ...], dict[int, list[Member]]], ...], ...] = field(
        init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", _classes(self.equalities))
        touching: list[list[tuple[tuple[int, ...], dict[int, list[Member]]]]] = [[] for _ in self.keys]
        for c in self.classes:
            by_input: dict[int, list[Member]] = {}
            for m in sorted(c, key=lambda m: (m.input, m.key)):
                by_input.setdefault(m.input, []).append(m)
            for i, mine in by_input.items():
                touching[i].append((tuple(m.key for m in mine), by_input))
        object.__setattr__(self, "touching", tuple(map(tuple, touching)))

    @property
    def size(self) -> int:
        return len(self.keys)

    @property
    def simple(self) -> bool:
        """Whether no input has two members of one class: then a class is one code for all, as caches need it."""
        return all(len({m.input for m in c}) == len(c) for c in self.classes)

    def neighbours(self) -> list[set[int]]:
        """For each input the others that an equality class links it with."""
        near: list[set[int]] = [set() for _ in self.keys]
        for c in self.classes:
            inputs = {m.input for m in c}
            for i in inputs:
                near[i] |= inputs - {i}
        return near

    def step(self, target: int, bound: Sequence[int]) -> Step:
        columns: list[int] = []
        probes: list[Member] = []
        place = {i: n for n, i in enumerate(bound)}
        for mine, by_input in self.touching[target]:
            # All that is bound agrees already, but for several members of the input that was bound first.
            first = unbound = len(bound)
            for i in by_input:
                at = place.get(i, unbound)
                if at < first:
                    first = at
            if first < unbound:
                members = by_input[bound[first]]
                for key in mine:
                    columns += [key] * len(members)
                    probes += members
        return Step(target, tuple(columns), tuple(probes))

    def pipeline(self, source: int, order: Sequence[int]) -> tuple[Step, ...]:
        """The steps for elements of ``source`` that visit the other inputs in ``order``."""
        bound = [source]
        steps = []
        for target in order:
            steps.append(self.step(target, bound))
            bound.append(target)
        return tuple(steps)

    def default_order(self, source: int) -> tuple[int, ...]:
        """Connected inputs first, in written order: no product unless the graph is disconnected."""
        near = self.neighbours()
        order, rest = [], [i for i in range(self.size) if i != source]
        reached = set(near[source])
        while rest:
            nxt = next((i for i in rest if i in reached), rest[0])
            rest.remove(nxt)
            order.append(nxt)
            reached |= near[nxt]
        return tuple(order)


def _classes(equalities: Sequence[tuple[Member, Member]]) -> tuple[frozenset[Member], ...]:
    """The equality classes, in the order in which their last equality is written."""
    classes: dict[int, set[Member]] = {}
    home: dict[Member, int] = {}
    for number, (a, b) in enumerate(equalities):
        old = [classes.pop(n) for n in dict.fromkeys(home[m] for m in (a, b) if m in home)]
        merged = max(old, key=len, default=set())
        for other in (*old, {a, b}):
            if other is not merged:
                merged |= other
        classes[number] = merged
        home.update(dict.fromkeys(merged, number))
    return tuple(map(frozenset, classes.values()))
