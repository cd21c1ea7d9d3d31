"""Ties routes and index tuning to the multi-route join: what it reports goes to the policies, what they decide back.

After each search the routes learn its fanout, and the tuner the access pattern. When the tuner wants to decide
about a state, the control gathers what is known of the states, applies the new indexes between two batches, and logs
the decision.

Of the joins that have one state module the first *leads*: its tuner gets the searches of all of them and decides. When
it goes, the next one takes the indexes over as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

from eddyline.adapting.decision_pace import DecisionPace
from eddyline.adaptive.indexes.access_patterns import spelled
from eddyline.adaptive.indexes.cost import UnitCosts
from eddyline.adaptive.indexes.index_sets import IndexKey
from eddyline.adaptive.indexes.routes import Routes
from eddyline.adaptive.indexes.tuners import IndexTuner, StateFacts, Tuning
from eddyline.core.delta import Int64s
from eddyline.core.time import Clock
from eddyline.core.window import Rows
from eddyline.expr.describe import describe
from eddyline.kernels.agreement import agreeing_pairs
from eddyline.kernels.bit_address import FOUND
from eddyline.operators.routed_join import RoutedJoin
from eddyline.streamon.log import DecisionLog
from eddyline.synopses.index_maps import BitAddress, Hashed, IndexSpec
from eddyline.synopses.module_view import ModuleView
from eddyline.synopses.state_module import StateModule, Weights

SAMPLE = 2_500  # of the newest rows, from which repeated values are estimated
ADMITTED = 0.5  # share of the rows that a search by a range is taken to admit


def to_spec(indexes: Sequence[IndexKey]) -> IndexSpec:
    """A policy's indexes as a state module takes them.

    >>> to_spec([("bits", 3, 1), ("hashed", 0)])
    (BitAddress(bits=(3, 1)), Hashed(attributes=(0,)))
    """
    return tuple(BitAddress(tuple(rest)) if kind == "bits" else Hashed(tuple(rest)) for kind, *rest in indexes)


@lru_cache(maxsize=1 << 8)  # a decision asks for those of all partitions of all states, which have few different ones
def to_keys(spec: IndexSpec) -> tuple[IndexKey, ...]:
    """The inverse of ``to_spec``."""
    return tuple(("bits", *m.bits) if isinstance(m, BitAddress) else ("hashed", *m.attributes) for m in spec)


def agreeing(codes: Int64s, attribute: int, others: Int64s | None = None, attribute_of_others: int = 0) -> float:
    """The probability that two different rows agree in an attribute, from a sample with a line for each row; with
    ``others`` that a row and one of those do.

    >>> rows, others = np.array([[1], [1], [2], [3]]), np.array([[0, 1], [0, 4]])
    >>> agreeing(rows, 0), agreeing(rows, 0, others, 1)
    (0.16666666666666666, 0.25)
    """
    n = len(codes)
    if others is None:
        pairs, most = agreeing_pairs(codes, attribute, codes, attribute) - n, n * (n - 1)
    else:
        pairs, most = agreeing_pairs(codes, attribute, others, attribute_of_others), n * len(others)
    return int(pairs) / max(1, most)


def leader_of(view: ModuleView) -> tuple[RoutesAndIndexes, int]:
    """The control that decides about the indexes of a state, and the state's number there. One that has not begun knows
    no views yet."""
    leader: tuple[RoutesAndIndexes, int] = view.shared.views[0].owner
    return leader


def known_patterns(view: ModuleView) -> Mapping[int, float]:
    """The access patterns of a state with their shares."""
    leader, place = leader_of(view)
    return leader.tuner.frequencies(place) if leader.views else {}


def _equated(join: RoutedJoin) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """By input and attribute of its module the attributes of others that the join equates it with."""
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for c in join.graph.classes:
        places = [(m.input, join.states[m.input].columns[m.key]) for m in c]
        for mine in dict.fromkeys(places):
            found.setdefault(mine, []).extend(other for other in places if other[0] != mine[0])
    return found


class _Agreeing(Mapping[int, float]):
    """For each attribute of a state how often rows agree, computed when it is first read: a decision about one state
    needs of the others mostly their size."""

    def __init__(self, attributes: int, compute: Callable[[int], float]) -> None:
        self._attributes, self._compute, self._known = attributes, compute, dict[int, float]()

    def __len__(self) -> int:
        return self._attributes

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._attributes))

    def __getitem__(self, attribute: int) -> float:
        if attribute not in self._known:
            if not 0 <= attribute < self._attributes:
                raise KeyError(attribute)
            self._known[attribute] = self._compute(attribute)
        return self._known[attribute]


class _InProcess(Sequence[int]):
    """For each partition the searches in flight that its rows may answer, counted when they are read: only one method
    of migration asks for them."""

    def __init__(self, partitions: int, count: Callable[[int], int]) -> None:
        self._partitions, self._count = partitions, count

    def __len__(self) -> int:
        return self._partitions

    def __getitem__(self, i: Any) -> Any:
        if not 0 <= i < self._partitions:
            raise IndexError(i)
        return self._count(i)


class _Partitions(Sequence[tuple[tuple[IndexKey, ...], int]]):
    """Indexes and rows of each partition, gathered when they are read: of most states only the size is."""

    def __init__(self, state: StateModule) -> None:
        self._state = state

    @cached_property
    def _all(self) -> tuple[tuple[tuple[IndexKey, ...], int], ...]:
        first = self._state.first
        return tuple((to_keys(p.group.spec), p.end - max(p.start, first)) for p in self._state.partitions)

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, i: Any) -> Any:
        return self._all[i]


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
    """The control of one join. ``attributes`` are the names of each input's join attributes; ``make_tuner`` makes a
    tuner for states with these numbers of attributes, ``unit`` gives the costs of operations as far as they are
    known: they are measured as soon as the kernels are compiled. With a ``clock`` what decisions take is measured, too,
    and they wait until they can pay."""

    def __init__(
        self,
        operator: str,
        attributes: Sequence[Sequence[str]],
        routes: Routes,
        make_tuner: Callable[..., IndexTuner],
        unit: Callable[[], UnitCosts] = UnitCosts,
        log: DecisionLog | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.operator, self.attributes = operator, [tuple(a) for a in attributes]
        self.routes, self.log = routes, log
        self._make_tuner, self._unit = make_tuner, unit
        self.tuner = make_tuner(states=self._sizes, unit=unit())
        self.views: Sequence[ModuleView] = ()
        self._led: list[bool] = []
        self._equated: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self.pace = DecisionPace(self.tuner.name, clock)
        self.waiting: list[int] = []  # states that the tuner wants to decide about as soon as that pays
        self.due: list[int] = []  # those about which it decides now
        self.tunings = self.migrated = 0
        self.pinned = False  # by the user: routes and indexes stay as they are
        self._suggested: dict[int, tuple[IndexKey, ...]] = {}  # by state what would have been done last, while pinned

    @property
    def _sizes(self) -> list[int]:
        return [len(names) for names in self.attributes]

    def initial(self, attributes: int) -> IndexSpec:
        """The first indexes of a state."""
        return to_spec(self.tuner.initial(attributes))

    # ── while the join runs ───────────────────────────────────────────────────────────────────────────────────────

    def begin(self, join: RoutedJoin) -> None:
        before, self.views = self._sizes, join.states
        self.attributes = [tuple(describe(e) for e in view.key_exprs()) for view in self.views]
        self._led = [view.leads for view in self.views]
        if self._sizes != before:  # other joins brought attributes of theirs
            self.tuner, self.due, self.waiting = self._make_tuner(states=self._sizes, unit=self._unit()), [], []
            for i, view in enumerate(self.views):
                if view.leads:  # states that have begun keep their indexes
                    self.tuner.take_over(i, to_keys(view.module.spec))
        self._equated = _equated(join)
        self._weigh(self._unit())

    def _weigh(self, unit: UnitCosts) -> None:
        """Searches take what is cheaper, their index or all rows."""
        for view in self.views:
            more = max(0.0, unit.hit - unit.compare)
            view.module.weights = Weights(unit.visit, unit.compare, unit.scan, more)

    def next(self, bound: Sequence[int]) -> int:
        return self.routes.next(bound)

    def aside(self, bound: Sequence[int], rows: int, target: int) -> tuple[int, int] | None:
        return None if self.pinned else self.routes.aside(bound, rows, target)

    def searched(self, bound: Sequence[int], target: int, pattern: int, requests: int, counts: Int64s) -> None:
        if not self.pinned:
            self.routes.searched(bound, target, requests, int(counts[FOUND]))
        leader, place = leader_of(self.views[target])
        if requests and leader.views:
            leader.tuner.searched(place, pattern, requests)

    def round_ended(self) -> None:
        leads = [view.leads for view in self.views]
        if leads != self._led:  # an older join was dropped, or this one moved to the module of an older one
            for i, view in enumerate(self.views):
                if leads[i] and not self._led[i]:
                    self.tuner.take_over(i, to_keys(view.module.spec))
            self._led = leads
        self.waiting += [s for s in self.tuner.round_ended() if s not in (*self.due, *self.waiting) and leads[s]]
        if self.waiting:
            paid = {s for s in self.waiting if self.pace.pays(s, len(self.attributes[s]), self._spent(s))}
            if paid:
                self.due += [s for s in self.waiting if s in paid]
                self.waiting = [s for s in self.waiting if s not in paid]

    def _spent(self, state: int) -> float:
        """What the searches of a state have taken since the start, by the operations that were counted."""
        module, unit = self.views[state].module, self.tuner.unit
        hashes, visits, comparisons, _ = module.counts.tolist()
        compared = (comparisons - module.scanned) * unit.compare + module.scanned * unit.scan
        return float(hashes * unit.hash + visits * unit.visit + compared)

    def inserted(self, target: int, rows: int) -> None:
        leader, place = leader_of(self.views[target])
        if leader.views:
            leader.tuner.inserted(place, rows)

    def tune(self, join: RoutedJoin, now: int) -> None:
        while self.due:
            target = self.due.pop(0)
            if self.pinned:
                self._suggest(target, join, now)
                continue
            self._weigh(self._unit())  # measures, once: that is no part of the decision
            decide = partial(self._decided, target, join, self.tuner)
            for tuning in self.pace.timed(target, len(self.attributes[target]), self._spent(target), decide):
                state, spec = join.states[tuning.state].module, to_spec(tuning.indexes)
                state.spec = spec
                self.migrated += state.migrate(tuning.migrate, spec) if tuning.migrate else 0
                self.tunings += 1
                if self.log is not None:
                    self.log.record(replace(tuning.decision, time=now), operator=self.operator)

    def _decided(self, target: int, join: RoutedJoin, tuner: IndexTuner) -> list[Tuning]:
        """What a tuner decides about the states whose indexes this join decides about."""
        tuner.unit = self._unit()
        self._weigh(tuner.unit)
        return [t for t in tuner.decide(target, self.facts(join)) if join.states[t.state].leads]

    def pin(self, pinned: bool) -> None:
        """Keep routes and indexes, or let them change again."""
        self.pinned, self._suggested = pinned, {}

    def _suggest(self, target: int, join: RoutedJoin, now: int) -> None:
        """Enter what would have been done to indexes that are pinned, once."""
        for tuning in self._decided(target, join, deepcopy(self.tuner)):
            indexes = tuple(tuning.indexes)
            if self._suggested.get(tuning.state) != indexes and self.log is not None:
                self.log.record(replace(tuning.decision, time=now, applied=False), operator=self.operator)
            self._suggested[tuning.state] = indexes

    def facts(self, join: RoutedJoin) -> Sequence[StateFacts]:
        """What the tuner may know of each state. To count repeated values takes time: only of states it asks about."""
        return _Facts([partial(self._facts, join, i) for i in range(len(join.states))])

    def _facts(self, join: RoutedJoin, i: int) -> StateFacts:
        state = join.states[i].module
        newest = state.recent(SAMPLE)
        return StateFacts(
            self.attributes[i],
            len(state),
            _Partitions(state),
            _InProcess(len(state.partitions), lambda p: join.in_process(i, p)),
            _Agreeing(state.attributes, lambda a: self._agreeing(join, i, a, newest)),
            dict.fromkeys(np.flatnonzero(state.ranged).tolist(), ADMITTED),
            max((v.window.count for v in join.states[i].shared.views if isinstance(v.window, Rows)), default=0),
        )

    def _agreeing(self, join: RoutedJoin, i: int, attribute: int, newest: Int64s) -> float:
        """The share of a state's rows that a search by an attribute finds: its values come from the rows that the
        attribute is equated with. Where this join equates it with none, its own rows tell how values repeat.

        What repeats among the rows of the state says less: readings that stay the same for hours, but differ from those
        of the other input, are found by no search, and a bit for them saves all comparisons."""
        shares = []
        for other, column in self._equated.get((i, attribute), ()):
            others = join.states[other].module.recent(SAMPLE)
            if len(others):
                shares.append(agreeing(newest, attribute, others, column))
        return sum(shares) / len(shares) if shares else agreeing(newest, attribute)

    # ── for people ────────────────────────────────────────────────────────────────────────────────────────────────

    def describe(self, join: RoutedJoin) -> list[str]:
        lines = [f"routes are {self.routes.policy}, indexes {self.tuner.name}: {self.tunings} changes"]
        for i, (label, view) in enumerate(zip(join.labels, join.states, strict=True)):
            state = view.shared.rows
            if state is None or not self.views:
                lines.append(f"{label}: {self._spelled(i, self.initial(len(self.attributes[i])))}")
                continue
            now = "; ".join(self._runs(i, state.partitions)) or self._spelled(i, state.spec)
            shares = sorted(known_patterns(view).items(), key=lambda x: -x[1])
            asked = ", ".join(f"{spelled(p, self.attributes[i])} {100 * f:.0f} %" for p, f in shares)
            readers = len(view.shared.views)
            together = f"; one state module for {readers} join inputs" if readers > 1 else ""
            lines.append(f"{label}: {now}" + (f"; searched by {asked}" if asked else "") + together)
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
        for i, (label, view) in enumerate(zip(join.labels, join.states, strict=True)):
            state = view.shared.rows
            if state is None or not self.views:
                continue
            hashes, visits, comparisons, matches = state.counts.tolist()
            states[label] = {
                "rows": len(view),
                "shared_by": len(view.shared.views),
                "index_bytes": state.index_bytes,
                "hashes": hashes + state.insert_hashes,
                "bucket_visits": visits,
                "comparisons": comparisons,
                "matches": matches,
                "indexes": [self._spelled(i, p.group.spec) for p in state.partitions],
                "patterns": {spelled(p, self.attributes[i]): f for p, f in known_patterns(view).items()},
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
            "tuner": [self.tuner.name, self._sizes, self.tuner.state()],
            "learns_by": list(self.tuner.learns_by),
            "due": [*self.due, *self.waiting],
            "tunings": self.tunings,
            "migrated": self.migrated,
        }

    def load(self, state: dict[str, Any]) -> None:
        self.routes.load(state["routes"])
        name, sizes, learned = state["tuner"]
        learned_by = tuple(state.get("learns_by", self.tuner.learns_by))
        # Another tuner, or one for other attributes, takes the stored indexes over and learns anew.
        if (name, learned_by, list(map(int, sizes))) == (self.tuner.name, self.tuner.learns_by, self._sizes):
            self.tuner.load(learned)
            self.due = [int(i) for i in state["due"]]
        else:
            for i, view in enumerate(self.views):
                self.tuner.take_over(i, to_keys(view.module.spec))
        self.tunings, self.migrated = int(state["tunings"]), int(state["migrated"])
