"""What a multiway join consists of: inputs, keys, pipelines. Pure data, turned into arrays for the kernel.

Every equality between key expressions of two inputs is checked at the step that binds the second of them: directly for
the equalities as written, and through one already bound member of the equivalence class where the written equality is
with an input that is not bound yet (R.a = S.a and S.a = T.a let the pipeline go from R to T).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eddyline.expr.nodes import Expr


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
class JoinGraph:
    """``keys[i]`` are the key expressions of input i; ``equalities`` pair members of different inputs."""

    keys: tuple[tuple[Expr, ...], ...]
    equalities: tuple[tuple[Member, Member], ...]

    @property
    def size(self) -> int:
        return len(self.keys)

    def classes(self) -> list[set[Member]]:
        classes: list[set[Member]] = []
        for a, b in self.equalities:
            touching = [c for c in classes if a in c or b in c]
            merged = {a, b}.union(*touching)
            classes = [c for c in classes if c not in touching] + [merged]
        return classes

    def connected(self, target: int, bound: Sequence[int]) -> bool:
        return any(any(m.input == target for m in c) and any(m.input in bound for m in c) for c in self.classes())

    def step(self, target: int, bound: Sequence[int]) -> Step:
        pairs: dict[tuple[int, Member], None] = {}
        for c in self.classes():
            there = sorted((m for m in c if m.input in bound), key=lambda m: (bound.index(m.input), m.key))
            if there:
                for mine in sorted((m for m in c if m.input == target), key=lambda m: m.key):
                    pairs.setdefault((mine.key, there[0]))
        for a, b in self.equalities:
            for mine, other in ((a, b), (b, a)):
                if mine.input == target and other.input in bound:
                    pairs.setdefault((mine.key, other))
        return Step(target, tuple(k for k, _ in pairs), tuple(m for _, m in pairs))

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
        bound, rest = [source], [i for i in range(self.size) if i != source]
        while rest:
            nxt = next((i for i in rest if self.connected(i, bound)), rest[0])
            rest.remove(nxt)
            bound.append(nxt)
        return tuple(bound[1:])
