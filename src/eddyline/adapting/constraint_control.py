"""Ties the monitors of k-constraints to the constrained join: what is measured goes to them, what they allow is used.

For every port of the join's tree there are up to three monitors: the join distance of rows that wait at the port
(RIDS), and of the rows of the port's own input how clustered (CA) and how ordered (OA) their keys come, each in
arrivals and in ticks. An edge is many-one as long as no two rows of one key are there at once, which is measured too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from eddyline.adapting import constraint_report as report
from eddyline.adapting.arrival_rates import ArrivalRates
from eddyline.adapting.clustered_arrival import ClusteredArrival
from eddyline.adapting.constraint_report import UNUSED, USED
from eddyline.adapting.directed_edges import DirectedEdges
from eddyline.adapting.followed_children import FollowedChildren
from eddyline.adapting.ordered_arrival import OrderedArrival
from eddyline.adapting.repeated_keys import RepeatedKeys
from eddyline.adaptive.constraints.forms import Forms
from eddyline.adaptive.constraints.missed import MissedResults
from eddyline.adaptive.constraints.no_rows import Prediction, choose, predict
from eddyline.adaptive.constraints.policies import CA, OAC, OAP, RIDS, ConstraintOptions
from eddyline.core.delta import Int64s
from eddyline.kernels import constrained_layout as k
from eddyline.operators.constrained_control import Collection
from eddyline.operators.constrained_join import ConstrainedJoin
from eddyline.streamon.decision import Decision
from eddyline.streamon.log import DecisionLog

VALUES_REMEMBERED = 1 << 20  # arrivals for which the values of a clustered attribute are remembered
SAMPLED_ROWS = 512  # useless rows that lossy joins keep as a sample, about: fewer notice losses later, and cost less
QUIET_INTERVALS = 2.0  # garbage is collected after so many times as long as it usually takes, though few elements came


@dataclass(frozen=True, slots=True)
class PortFacts:
    """What is known of a port when the join is planned."""

    label: str  # S.A
    declared: bool  # rows of the input are declared to have different keys
    ordered: bool  # keys order as the values do


class ConstraintWatch:
    """The control of one join. ``facts`` are by input and port."""

    def __init__(
        self,
        operator: str,
        join_edges: Sequence[tuple[int, int, int, int]],
        facts: Sequence[Sequence[PortFacts]],
        width: int,
        options: ConstraintOptions,
        log: DecisionLog | None = None,
    ) -> None:
        self.operator, self.options, self.log, self.width = operator, options, log, width
        self.size = len(facts)
        self.facts = {i * width + j: f for i, mine in enumerate(facts) for j, f in enumerate(mine)}
        self.edges = DirectedEdges(join_edges, {q: f.label for q, f in self.facts.items()}, width)
        self.other = self.edges.other
        self.removed: Counter[tuple[int, int]] = Counter()  # by input and why
        self.hits: Counter[int] = Counter()  # by why
        self.losses = MissedResults(options.adherence(RIDS).p)
        self.restart()

    def restart(self) -> None:
        options, ports = self.options, sorted(self.facts)
        self.rids = {q: options.forms(RIDS) for q in ports if options.may_use(RIDS)}
        self.clustered = {q: ClusteredArrival(options.forms(CA)) for q in ports if options.may_use(CA)}
        ordered = options.may_use(OAP) or options.may_use(OAC)
        self.ordered = {q: OrderedArrival(options.forms(OAP)) for q in ports if ordered and self.facts[q].ordered}
        self.repeated = {q: RepeatedKeys() for q in ports}
        self.edges.forget()
        self.used: dict[str, str] = {}
        self.rates = ArrivalRates(self.size)
        self.unwatched: set[int] = set()  # ports at which CA could save nothing
        # Which constraints are exploited (6.10): by port of a parent the children that are followed, and by input
        # whether its No rows are dropped where they may be.
        self.followed = {q: FollowedChildren() for q in ports} if options.predicts else {}
        self.reported: dict[int, list[Int64s]] = {}
        self.drops_no = dict.fromkeys(range(self.size), True)
        self.predicted: dict[int, Prediction] = {}

    # ── while the join runs ───────────────────────────────────────────────────────────────────────────────────────

    def listens(self, stream: int) -> bool:
        ports = range(stream * self.width, (stream + 1) * self.width)
        return bool(self.followed) or any(q in self.ordered or self._clusters(q) for q in ports)

    def _clusters(self, q: int) -> bool:
        """Whether CA is watched at a port."""
        return q in self.clustered and q not in self.unwatched and self.edges.is_parent(q)

    def arrived(self, join: ConstrainedJoin, stream: int, keys: Int64s, times: Int64s) -> None:
        if self.followed:
            self.reported.setdefault(stream, []).append(keys)
        for j in range(self.width):
            q = stream * self.width + j
            if self._clusters(q):
                self.clustered[q].arrived(np.ascontiguousarray(keys[:, j]), times)
            if q in self.ordered:
                self.ordered[q].arrived(np.ascontiguousarray(keys[:, j]), times)

    def measured(self, join: ConstrainedJoin, distances: Int64s) -> None:
        # Lines come port by port, those of each by increasing count.
        ports = self.size * self.width
        cuts = np.flatnonzero(np.diff(distances[:, 0], prepend=-1, append=-1)).tolist()
        for start, stop in pairwise(cuts):
            line = int(distances[start, 0])
            rids = self.rids.get(line % ports)
            if rids is None:
                continue
            counts, mine = distances[start:stop, 1], distances[start:stop, 2]
            if line >= ports:
                rids.observe_ticks(counts, mine, int(join.progress[k.NOW]))
            else:
                rids.arrivals.observe(counts, mine, self._counted(join, line))

    def hit(self, join: ConstrainedJoin, why: Int64s, now: int) -> None:
        for each, many in zip(*np.unique(why, return_counts=True), strict=True):
            kind, q = int(each) % k.KINDS, int(each) // k.KINDS
            self.hits[int(each)] += int(many)
            if kind == k.BY_RIDS and q in self.rids:
                self.rids[q].refuted(self._counted(join, q), now)
            elif kind in (k.BY_OAC, k.BY_OAP) and self.other[q] in self.ordered:
                oa = self.ordered[self.other[q]]
                oa.forms.refuted(oa.count, now)
            elif kind == k.BY_CA and q in self.clustered:
                self.clustered[q].forms.refuted(self.clustered[q].count, now)
            elif kind == k.BY_EXPIRY:
                self._repeats(join, self.other[q])
            elif kind == k.BY_MANY_ONE:
                for child in self.edges.child_ports():
                    self._repeats(join, child)

    def sampled(self, join: ConstrainedJoin, keys: Int64s) -> None:
        self.losses.seen(keys)

    def _repeats(self, join: ConstrainedJoin, q: int) -> None:
        """Rows of one key came while a row was there that both match."""
        self.repeated[q].refuted(int(join.slots.arrived[self.input_of(q)]))

    def collection(self, join: ConstrainedJoin, now: int) -> Collection | None:
        self.rates.note(join, now)
        self._pass_time(join, now)
        self._thin(join)
        self._direct(join, now)
        self._leave_clusters(join)
        self._follow(join)
        ports = self.size * self.width
        wait, low = np.full(ports, k.NEVER_USED, np.int64), np.full(ports, k.LOWEST, np.int64)
        lag, units = wait.copy(), np.zeros((2, ports), np.int64)
        notice = np.stack([wait, low, wait, wait])
        to_parents = self.edges.to_parents
        for q, rids in self.rids.items():
            if self.usable(join, rids, self.input_of(self.other[q])) and self.unique(join, self.other[q]):
                wait[q], units[0, q] = int(rids.used.k_e), rids.in_ticks
                notice[k.NOTICE_WAIT, q] = rids.used.growing
        for q, oa in self.ordered.items():
            purpose, waits = OAP if self.other[q] in to_parents else OAC, self.other[q]
            if self.options.may_use(purpose) and self.usable(join, oa.forms, self.input_of(q)):
                low[waits], lag[waits], units[1, waits] = oa.low(now), int(oa.forms.used.k_e), oa.forms.in_ticks
                growing = oa.forms.used.growing
                notice[[k.NOTICE_LOW, k.NOTICE_LAG], waits] = oa.low(now, growing), growing
                notice[k.MARK_EVERY, waits] = oa.marks_every()
        facts = np.zeros((4, self.size), np.int64)
        facts[:3] = self.edges.facts
        for i in range(self.size):
            upper = [self.other[q] for q in to_parents if self.input_of(q) == i]
            # Nothing says that no parent will come: no need to look for rows that none needs.
            facts[2, i] &= all(low[self.other[q]] > k.LOWEST or self._closes(join, q) for q in upper)
            facts[3, i] = bool(upper) and all(wait[q] < k.NEVER_USED or low[q] > k.LOWEST for q in upper)
            if facts[3, i] and self.followed:
                facts[3, i] = self._drops(join, i, [q for q in upper if wait[q] < k.NEVER_USED], now)
        closing = to_parents & {self.other[p] for p in self.clustered}
        for q in closing:
            self._close(join, q, now)
        self._record_uses(wait, low, now)
        share = self.losses.share if join.spill is None else 0
        return Collection(wait, low, share, facts, lag, units, notice, self._due(join), bool(closing))

    def _counted(self, join: ConstrainedJoin, q: int) -> int:
        """Arrivals of the neighbour at a port."""
        return int(join.slots.arrived[self.input_of(self.other[q])])

    def _pass_time(self, join: ConstrainedJoin, now: int) -> None:
        """Let monitors know that time has passed, and choose the form of each constraint."""
        none = np.empty(0, np.int64)
        for q, rids in self.rids.items():
            rids.arrivals.observe(none, none, self._counted(join, q))
        for q, ca in self.clustered.items():
            # A row of another window ago has no partner that is still there.
            ca.most = int(min(VALUES_REMEMBERED, max(ca.forms.arrivals.W, self.in_window(join, self.input_of(q)))))
        for forms, i in self.all_forms():
            forms.passed(now, self.rates.per_tick(join, i))
            forms.choose(int(join.slots.arrived[i]), self.in_window(join, i))

    def all_forms(self) -> list[tuple[Forms, int]]:
        """The monitors of all constraints, with the inputs whose arrivals they count."""
        made = [(rids, self.input_of(self.other[q])) for q, rids in self.rids.items()]
        made += [(ca.forms, self.input_of(q)) for q, ca in self.clustered.items()]
        return made + [(oa.forms, self.input_of(q)) for q, oa in self.ordered.items()]

    def _due(self, join: ConstrainedJoin) -> int:
        """Ticks after which garbage is collected though few elements came: none where no time is counted."""
        waits = [f.used.k_e for f, i in self.all_forms() if f.in_ticks and self.usable(join, f, i)]
        if not waits:
            return k.NEVER_USED
        rate = sum(self.rates.per_tick(join, i) for i in range(self.size))
        return int(max(1.0, min(waits), QUIET_INTERVALS * join.collect_every / rate if rate else 0.0))

    def _thin(self, join: ConstrainedJoin) -> None:
        """Keep samples small where windows are large."""
        if not self.options.thins:
            return
        held = sum(min(float(join.slots.arrived[i]), self.in_window(join, i)) for i in range(self.size))
        p = self.losses.p
        while p * held > SAMPLED_ROWS:
            p /= 2
        self.losses.thin(p)
        for ca in self.clustered.values():
            ca.p = min(ca.p, p)

    def _leave_clusters(self, join: ConstrainedJoin) -> None:
        """CA is watched of parents, and not along one-one edges whose child waits for its only parent no longer than
        RIDS says."""
        graph = self.edges.graph
        assert graph is not None
        for q in self.clustered:
            back, waits = self.rids.get(self.other[q]), self.input_of(self.other[q])
            alone = self.edges.edge(q).one_one and len(graph.parents(waits)) == 1
            covered = alone and back is not None and self.usable(join, back, self.input_of(q))
            idle = covered or not self.edges.is_parent(q)
            if idle and q not in self.unwatched:
                self.unwatched.add(q)
                self.clustered[q] = ClusteredArrival(self.options.forms(CA))
            elif not idle:
                self.unwatched.discard(q)

    # ── which constraints are exploited ───────────────────────────────────────────────────────────────────────────

    def _follow(self, join: ConstrainedJoin) -> None:
        """Tell those that follow children what came since the last collection."""
        if not self.reported:
            return
        came = {i: np.concatenate(parts) for i, parts in self.reported.items()}
        self.reported = {}
        none = np.empty((0, self.width), np.int64)
        for q, followed in self.followed.items():
            if not self.edges.is_parent(q):
                continue
            (i, p), (j, r) = divmod(q, self.width), divmod(self.other[q], self.width)
            child, parent = (np.ascontiguousarray(came.get(x, none)[:, y]) for x, y in ((j, r), (i, p)))
            children, parents = (int(join.slots.arrived[x]) for x in (j, i))
            followed.came(child, parent, children, parents)
            ca = self.clustered[q].forms if q in self.clustered else None
            oa = self.ordered[q].forms if q in self.ordered and self.options.may_use(OAP) else None
            clusters, order = (f.length if f is not None and self.usable(join, f, i) else math.inf for f in (ca, oa))
            window = self.in_window(join, j)
            followed.settle(children, parents, clusters, order, window if math.isfinite(window) else 1 << 40)

    def _drops(self, join: ConstrainedJoin, i: int, waiting: Sequence[int], now: int) -> bool:
        """Whether No rows of an input are dropped, whose parents at ports ``waiting`` then wait for k_e arrivals."""
        found = predict([(self.followed[q].seen(), min(self.rids[q].length, self.in_window(join, i))) for q in waiting])
        if found is None:
            return self.drops_no[i]
        self.predicted[i] = found
        before, after = self.drops_no[i], choose(self.drops_no[i], found)
        self.drops_no[i] = after
        if before != after:
            was, is_ = ("dropped" if d else "kept" for d in (before, after))
            evidence = {"rows if dropped": found.dropped, "rows if kept": found.kept}
            made = Decision(
                f"No rows of {join.labels[i]}", was, is_, "the rows of each way were predicted", evidence=evidence
            )
            self._record(made, now)
        return after

    def _closes(self, join: ConstrainedJoin, q: int) -> bool:
        """Whether the rows of a parent, at its port, are known to come in clusters."""
        return q in self.clustered and self.usable(join, self.clustered[q].forms, self.input_of(q))

    def _close(self, join: ConstrainedJoin, q: int, now: int) -> None:
        """Let a child's rows know which keys will not come again from its parent."""
        ca = self.clustered[self.other[q]]
        if not self.usable(join, ca.forms, self.input_of(self.other[q])):
            return
        places = ca.complete(now)
        if len(places):
            kept = join.slots.close(ca.table[places], q, k.BY_CA + k.KINDS * self.other[q])
            ca.forget(places[kept == 0])

    def collected(self, join: ConstrainedJoin, removed: Int64s) -> None:
        for i, kind in zip(*np.nonzero(removed), strict=True):
            self.removed[int(i), int(kind)] += int(removed[i, kind])

    # ── what can be used ──────────────────────────────────────────────────────────────────────────────────────────

    def input_of(self, q: int) -> int:
        return self.edges.input_of(q)

    def usable(self, join: ConstrainedJoin, forms: Forms, counting: int) -> bool:
        """k-Mon's threshold (6.1.6): a constraint is used if its k is at most half of what arrives in a window."""
        if math.isinf(forms.used.k_u):
            return False
        ticks = self.rates.bound(join, counting).ticks
        if forms.in_ticks and ticks is not None:
            return forms.used.k_e <= ticks / 2
        return forms.length <= self.in_window(join, counting) / 2

    def in_window(self, join: ConstrainedJoin, i: int) -> float:
        """Arrivals of an input during its window."""
        return self.rates.in_window(join, i)

    def unique(self, join: ConstrainedJoin, q: int) -> bool:
        """Whether keys of a port are taken to be different."""
        seen, i = self.repeated[q], self.input_of(q)
        if self.facts[q].declared and not seen.ever:
            return True
        return seen.over(int(join.slots.arrived[i]), self.options.adherence(RIDS).W, self.in_window(join, i))

    def _direct(self, join: ConstrainedJoin, now: int) -> None:
        for q in self.facts:
            self.repeated[q].count(int(join.slots.duplicates[q]), int(join.slots.arrived[self.input_of(q)]))
        before = self.edges.graph
        if not self.edges.direct(lambda q: self.unique(join, q)):
            return
        join.slots.direct(self.edges.on_ports(join.slots.ports))
        graph = self.edges.graph
        assert graph is not None
        if self.log is not None and (before is None or before.down != graph.down):
            was = None if before is None else self.edges.spelled(before)
            decision = Decision("many-one joins", was, self.edges.spelled(graph), "keys that repeat were counted")
            self._record(decision, now)

    def _record_uses(self, wait: Int64s, low: Int64s, now: int) -> None:
        """Enter it into the log when a constraint begins or ceases to be used."""
        using = {f"RIDS on {self.edges.label(q)}": (wait[q] < k.NEVER_USED, f) for q, f in self.rids.items()}
        using |= {f"OA on {self.facts[q].label}": (low[self.other[q]] > k.LOWEST, oa.forms)
                  for q, oa in self.ordered.items()}  # fmt: skip
        for name, (is_used, forms) in using.items():
            after = UNUSED if not is_used else f"{USED}, in ticks" if forms.in_ticks else USED
            before = self.used.get(name, UNUSED)
            if before != after:
                why = "its k was measured" if UNUSED in (before, after) else "this form keeps fewer rows"
                self._record(Decision(f"constraint {name}", before, after, why), now)
            self.used[name] = after

    def _record(self, decision: Decision, now: int) -> None:
        if self.log is not None:
            self.log.record(replace(decision, time=now), operator=self.operator)

    # ── explain, statistics and state ─────────────────────────────────────────────────────────────────────────────

    def describe(self, join: ConstrainedJoin) -> list[str]:
        return report.describe(self, join)

    def statistics(self, join: ConstrainedJoin) -> dict[str, Any]:
        return report.statistics(self, join)

    @property
    def nbytes(self) -> int:
        monitors = sum(c.nbytes for c in self.clustered.values()) + sum(o.nbytes for o in self.ordered.values())
        return monitors + sum(f.nbytes for f in self.followed.values())

    def state(self) -> dict[str, Any]:
        removed = np.array([[i, why, n] for (i, why), n in sorted(self.removed.items())], np.int64).reshape(-1)
        return {
            "rids": {str(q): a.state() for q, a in self.rids.items()},
            "clustered": {str(q): c.state() for q, c in self.clustered.items()},
            "ordered": {str(q): o.state() for q, o in self.ordered.items()},
            "repeated": np.array([x for q in sorted(self.facts) for x in self.repeated[q].state()], np.int64),
            "removed": removed, "rates": self.rates.state(), "unwatched": np.array(sorted(self.unwatched), np.int64),
            "hits": np.array([[w, n] for w, n in sorted(self.hits.items())], np.int64).reshape(-1),
            "used": dict(self.used), "losses": self.losses.state(),
            "followed": {str(q): f.state() for q, f in self.followed.items()},
            "drops_no": np.array([self.drops_no[i] for i in range(self.size)], np.int64),
        }  # fmt: skip

    def load(self, state: dict[str, Any]) -> None:
        for name in ("rids", "clustered", "ordered"):
            for q, monitor in getattr(self, name).items():
                monitor.load(state[name][str(q)])
        repeated = np.array(state["repeated"]).reshape(-1, 3).tolist()
        self.repeated = {q: RepeatedKeys(*seen) for q, seen in zip(sorted(self.facts), repeated, strict=True)}
        self.removed = Counter({(i, w): n for i, w, n in np.array(state["removed"]).reshape(-1, 3).tolist()})
        self.hits = Counter(dict(np.array(state["hits"]).reshape(-1, 2).tolist()))
        self.rates.load(state["rates"])
        self.unwatched = set(np.array(state["unwatched"]).tolist())
        self.used = {name: str(u) for name, u in state["used"].items()}
        self.losses.load(state["losses"])
        for q, followed in self.followed.items():
            if str(q) in state.get("followed", {}):
                followed.load(state["followed"][str(q)])
        self.drops_no = {i: bool(d) for i, d in enumerate(state.get("drops_no", [True] * self.size))}
        self.edges.forget()  # found again at the next collection, from the same counts
