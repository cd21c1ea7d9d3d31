"""The states of candidate caches and the transitions between them: Figure 5.9.

::

    new ──▶ profiled ──selected──▶ used ──────────────── benefit < cost ──▶ unused
               ▲  └──────────────not selected──────────────────────────────▶  │
               ├──────── interval over, hides the probes of an unused ── used │
               └──────── interval over ───────────────────────────────────────┘
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from eddyline.adaptive.joins.candidates import Candidate, candidates, still_valid
from eddyline.adaptive.joins.shape import Orders, Shape

State = Literal["used", "profiled", "unused"]


@dataclass(frozen=True, slots=True)
class Reordering:
    """What a change of orders did: the pipelines that changed, the candidates that stayed, the caches lost."""

    changed: tuple[int, ...]
    stayed: frozenset[Candidate]
    lost: tuple[Candidate, ...]


class CacheStates:
    """All candidates for the pipelines of now, each used, profiled or unused.

    >>> chain = Shape(3, (frozenset({0, 1}), frozenset({1, 2})))
    >>> states = CacheStates()
    >>> states.reorder(chain, [(1, 2), (0, 2), (1, 0)], m=6).lost
    ()
    >>> [c.label("RST") for c in states.profiled]
    ['(S⋈T)⋉R in ΔR', 'R⋈S in ΔT']
    >>> states.choose(states.profiled[1:])
    [Candidate(pipeline=2, first=0, last=1, segment=(0, 1), key=(1,), support=())]
    >>> [c.label("RST") for c in states.used], [c.label("RST") for c in states.unused]
    (['R⋈S in ΔT'], ['(S⋈T)⋉R in ΔR'])
    >>> states.reorder(chain, [(1, 2), (2, 0), (1, 0)], m=6).lost  # ΔS no longer joins with R first
    (Candidate(pipeline=2, first=0, last=1, segment=(0, 1), key=(1,), support=()),)
    """

    def __init__(self) -> None:
        self.pipelines: tuple[tuple[int, ...], ...] = ()
        self._states: dict[Candidate, State] = {}
        self._suspended: frozenset[Candidate] = frozenset()

    def __contains__(self, candidate: object) -> bool:
        return candidate in self._states

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self._states)

    def of(self, candidate: Candidate) -> State | None:
        return self._states.get(candidate)

    @property
    def used(self) -> tuple[Candidate, ...]:
        return self._in("used")

    @property
    def profiled(self) -> tuple[Candidate, ...]:
        return self._in("profiled")

    @property
    def unused(self) -> tuple[Candidate, ...]:
        return self._in("unused")

    @property
    def suspended(self) -> tuple[Candidate, ...]:
        """Profiled, but used before: they return unless something better is found."""
        return tuple(c for c in self.profiled if c in self._suspended)

    @property
    def current(self) -> tuple[Candidate, ...]:
        """The set that the last selection put to use, as far as it still stands."""
        return tuple(c for c, s in self._states.items() if s == "used" or c in self._suspended)

    def _in(self, state: State) -> tuple[Candidate, ...]:
        return tuple(c for c, s in self._states.items() if s == state)

    def reorder(self, shape: Shape, orders: Orders, m: int) -> Reordering:
        """Step 5: caches in re-ordered pipelines go, with those elsewhere that are no longer maintained; the new
        candidates are profiled unless a cache in use hides their probes, the others stay what they were."""
        new = tuple(tuple(order) for order in orders)
        old, before = self.pipelines, self.current
        changed = tuple(i for i, order in enumerate(new) if not old or order != old[i])
        surviving = frozenset(still_valid(self._states, old, new) if old else ())
        # A survivor in use stays a candidate even if the quota would now go to others.
        found = {*candidates(shape, new, m), *(c for c in before if c in surviving)}
        using = [c for c in self.used if c in surviving]
        self._states = {
            c: self._states[c] if c in surviving else "unused" if any(hides(u, c) for u in using) else "profiled"
            for c in sorted(found)
        }
        stayed = surviving & found
        self._suspended &= stayed
        self.pipelines = new
        return Reordering(changed, stayed, tuple(c for c in before if c not in stayed))

    def drop(self, lost: Iterable[Candidate]) -> None:
        for c in lost:
            self._states[c] = "unused"

    def profile(self, suspend: bool = True) -> tuple[Candidate, ...]:
        """Unused → profiled, and used → profiled where a used cache hides the probes of an unused one. Returns those
        whose state has changed. Without ``suspend`` the used ones stay, and those that they hide are not profiled."""
        unused = self.unused
        if not suspend:
            unused = tuple(c for c in unused if not any(hides(u, c) for u in self.used))
        hiding = [c for c in self.used if any(hides(c, other) for other in unused)] if suspend else []
        self._suspended = frozenset(hiding)
        for c in (*unused, *hiding):
            self._states[c] = "profiled"
        return (*unused, *hiding)

    def adopt(self, caches: Iterable[Candidate]) -> list[Candidate]:
        """Those of the caches that are candidates are used; all others stay what they are."""
        found = [c for c in caches if c in self._states]
        self._states |= dict.fromkeys(found, "used")
        return found

    def choose(self, chosen: Iterable[Candidate]) -> list[Candidate]:
        """These are used, all others unused. Returns those that were not used until now."""
        wanted = set(chosen)
        fresh = [c for c, s in self._states.items() if c in wanted and s != "used"]
        self._states = {c: "used" if c in wanted else "unused" for c in self._states}
        self._suspended = frozenset()
        return fresh

    def state(self) -> dict[str, Any]:
        return {
            "pipelines": [list(order) for order in self.pipelines],
            "states": [[c.state(), s] for c, s in self._states.items()],
            "suspended": [c.state() for c in sorted(self._suspended)],
        }

    def load(self, state: Mapping[str, Any]) -> None:
        self.pipelines = tuple(tuple(order) for order in state["pipelines"])
        self._states = {Candidate.load(c): s for c, s in state["states"]}
        self._suspended = frozenset(Candidate.load(c) for c in state["suspended"])


def hides(used: Candidate, other: Candidate) -> bool:
    """Whether hits in a used cache keep probes from the place where the other would be probed.

    The thesis says *subset*: what counts is that the other begins inside. One that begins at the same operator sees the
    whole probe stream; one that begins inside and reaches beyond, as globally-consistent caches can, does not.

    >>> hides(Candidate(3, 0, 2, (0, 1, 2), (0,)), Candidate(3, 1, 2, (1, 2), (0,)))
    True
    >>> hides(Candidate(3, 0, 2, (0, 1, 2), (0,)), Candidate(3, 0, 1, (0, 1), (0,)))
    False
    """
    return used.pipeline == other.pipeline and used.first < other.first <= used.last
