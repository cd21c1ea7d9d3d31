"""A-Caching step by step: the transitions of Figure 5.9, and what every policy must keep to."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from eddyline.adaptive.joins.a_caching import ACaching
from eddyline.adaptive.joins.cache_states import CacheStates, hides
from eddyline.adaptive.joins.candidates import Candidate, conflicts, prefix_invariant
from eddyline.adaptive.joins.policies import POLICIES, defaults, make_caching
from eddyline.core.errors import JobError
from eddyline.streamon.decision import Decision
from eddyline.streamon.wording import decided_line
from tests.adaptive.joins.graphs import EXAMPLE, chain, clique, random_orders, random_shape

ORDERS = [(1, 2), (0, 2), (1, 0)]
RS, ST = "R⋈S in ΔT", "(S⋈T)⋉R in ΔR"


class Workload:
    """R⋈S⋈T under a policy that sees a steady world, changed by hand."""

    def __init__(self, **parameters: Any) -> None:
        self.policy = ACaching(chain(3), "RST", **{"interval": 1000, "W": 3, **parameters})
        self.rates, self.tuples = (10, 10, 80), 0
        self.miss = {RS: 0.2, ST: 1.0}
        self.decisions: list[Decision] = []
        self.policy.orders(ORDERS, 0)

    def cache(self, label: str) -> Candidate:
        return next(c for c in self.policy.states if c.label("RST") == label)

    def step(self, tuples: int = 100, profile: bool = True) -> None:
        self.tuples += tuples
        self.policy.rates(self.rates, 100)
        for pipeline in range(3):
            self.policy.observe(pipeline, (1, 1, 1), (1.0, 1.0))
        for c in self.policy.profiled if profile else ():
            self.policy.distinct(c, round(100 * self.miss[c.label("RST")]), 100)
        for c in self.policy.states:
            self.policy.costs(c, 0.3, 0.3)
        for c in self.policy.used:
            self.policy.missed(c, 100, round(100 * self.miss[c.label("RST")]))
        self.decisions += self.policy.decide(self.tuples, self.tuples)

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.step()

    def states(self) -> dict[str, str | None]:
        return {c.label("RST"): self.policy.states.of(c) for c in self.policy.states}


def test_all_start_as_profiled_and_wait_for_W_observations() -> None:
    world = Workload(interval=10_000)
    assert world.states() == {RS: "profiled", ST: "profiled"}
    world.steps(2)
    assert world.states() == {RS: "profiled", ST: "profiled"} and world.decisions == []
    world.step()
    assert world.states() == {RS: "used", ST: "unused"}
    (decision,) = world.decisions
    assert (decision.kind, decision.before, decision.after) == ("join caches", (), (RS,))
    assert decision.expected_gain is not None and decision.expected_gain > 1.4
    # While the cache fills, for an interval at least, it spares half of what it will.
    benefit = decision.evidence["caches"][RS]["benefit"]
    assert benefit > 0 and decision.cost == pytest.approx(0.5 * benefit * 10_000)
    assert f"; costs {decision.cost:,.0f} accesses" in decided_line(decision.to_dict())
    assert "20 %" in decision.reason and decision.evidence["caches"][RS]["miss"] == pytest.approx(0.2)


def test_unused_ones_are_profiled_after_the_interval_and_stability_costs_nothing() -> None:
    world = Workload()
    world.steps(3)
    world.steps(9)
    assert world.states() == {RS: "used", ST: "unused"}
    world.step()
    assert world.states() == {RS: "used", ST: "profiled"}  # R⋈S hides nothing of ΔR: it stays in use
    assert len(world.policy.profiler._estimated) == 1  # what ST had before does not count
    world.steps(3)
    assert world.states() == {RS: "used", ST: "unused"} and len(world.decisions) == 1


def test_an_interval_in_time() -> None:
    world = Workload(interval=10**9, interval_time=700)
    world.steps(3)
    world.steps(6)
    assert world.states()[ST] == "unused"
    world.step()
    assert world.states()[ST] == "profiled"


def test_a_cache_that_does_not_pay_goes_at_once() -> None:
    world = Workload()
    world.steps(3)
    world.rates = (400, 10, 80)  # the burst of Figure 5.22
    world.step()
    world.steps(2)
    assert world.policy.used == () and world.tuples < 1000
    drop = world.decisions[-1]
    assert (drop.before, drop.after) == ((RS,), ()) and "now spares" in drop.reason
    assert drop.expected_gain is not None and drop.expected_gain > 1


def test_a_cache_dropped_in_a_burst_comes_back_though_nothing_has_changed_since_its_selection() -> None:
    world = Workload()
    world.steps(3)
    world.rates = (400, 10, 80)
    world.steps(3)
    assert world.states()[RS] != "used"
    world.rates = (10, 10, 80)
    world.steps(12)
    assert world.states()[RS] == "used" and world.tuples < 2000


def test_the_burst_of_figure_5_22() -> None:
    world = Workload()
    world.steps(5)
    world.rates, world.miss = (400, 10, 10), {RS: 0.9, ST: 0.05}
    world.steps(20)  # two intervals
    assert world.states() == {RS: "unused", ST: "used"}
    world.rates, world.miss = (10, 10, 80), {RS: 0.2, ST: 1.0}
    world.steps(20)
    assert world.states() == {RS: "used", ST: "unused"}


def test_misses_of_the_first_interval_are_those_of_an_empty_cache() -> None:
    world = Workload()
    world.steps(3)
    cache = world.cache(RS)
    world.miss[RS] = 1.0
    world.steps(9)
    assert world.states()[RS] == "used" and world.policy.profiler.miss(cache, world.tuples) == pytest.approx(0.2)
    world.steps(2)
    assert world.states()[RS] != "used" and world.decisions[-1].after == ()


def test_a_used_cache_is_profiled_again_only_if_it_hides_an_unused_one() -> None:
    policy = ACaching(clique(6), [f"R{i}" for i in range(1, 7)], interval=1000, W=1, memory=1 << 20)
    policy.orders(EXAMPLE)
    wide = next(c for c in policy.profiled if len(c.segment) == 5)
    pair = next(c for c in policy.profiled if c.pipeline == 3 and len(c.segment) == 2)

    def step(tuples: int) -> None:
        policy.rates((1,) * 6, 6)
        for i in range(6):
            policy.observe(i, (1,) * 6, (1.0,) * 5)
        for c in policy.profiled:
            policy.distinct(c, 10 if c in (wide, pair) else 100, 100)
        for c in policy.states:
            policy.costs(c, 0.1, 0.1)
        policy.decide(None, tuples)

    step(1)
    assert set(policy.used) == {wide, pair}
    step(1001)
    # wide begins at the first operator of ΔR6 and hides R4⋈R5 behind it; pair and its superset begin together.
    assert set(policy.used) == {pair} and wide in policy.profiled and policy.suspended == (wide,)
    before = len(policy.states.current)
    policy._allocate({}, {}, policy.profiler.statistics())
    assert wide.store in policy.memory.pages  # and finds what it holds when it returns
    step(1002)
    assert set(policy.used) == {wide, pair} and policy.suspended == () and before == 2


def test_a_selection_is_computed_only_after_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    from eddyline.adaptive.joins import a_caching

    real = a_caching.select
    monkeypatch.setattr(a_caching, "select", lambda *a, **k: calls.append(1) or real(*a, **k))
    world = Workload()
    world.steps(30)
    assert len(calls) == 1
    world.miss[RS] = 0.21
    world.steps(30)
    assert len(calls) == 1
    world.miss[RS] = 0.6
    world.steps(30)
    assert len(calls) == 2


def test_re_ordering_drops_what_it_breaks_and_profiles_what_is_new() -> None:
    world = Workload()
    world.steps(3)
    assert world.policy.orders(ORDERS, 5) == []
    (decision,) = world.policy.orders([(1, 2), (2, 0), (1, 0)], 5)  # ΔS: another pipeline than that of the cache
    assert (decision.before, decision.after, decision.expected_gain) == ((RS,), (), None)
    assert "ΔS" in decision.reason and decision.evidence["dropped"] == (RS,)
    assert world.states() == {"S⋈T in ΔR": "profiled", "(R⋈S)⋉T in ΔT": "profiled"}
    assert world.policy.profiler.statistics().d[1] == (0, 0, 0)  # what was seen of the places in ΔS is void


def test_a_new_candidate_behind_a_cache_in_use_is_not_profiled() -> None:
    """It would see the misses of that cache only."""
    rng, hidden = random.Random(5), 0
    for _ in range(300):
        shape = clique(5)
        states, orders = CacheStates(), random_orders(rng, shape)
        states.reorder(shape, orders, 60)
        states.choose([c for c in states.profiled if len(c.operators) > 2][:1])
        before = set(states)
        other = rng.randrange(5)
        states.reorder(shape, [*orders[:other], random_orders(rng, shape)[other], *orders[other + 1 :]], 60)
        behind = [c for c in set(states) - before if any(hides(u, c) for u in states.used)]
        assert {states.of(c) for c in behind} <= {"unused"}
        hidden += len(behind)
    assert hidden > 5


def test_caches_survive_a_re_ordering_that_does_not_touch_them() -> None:
    shape = clique(4)
    policy = ACaching(shape, "RSTU", W=1, interval=1000)
    policy.orders([(1, 2, 3), (0, 2, 3), (1, 0, 3), (1, 0, 2)])
    policy.rates((1,) * 4, 4)
    for i in range(4):
        policy.observe(i, (1,) * 4, (1.0,) * 3)
    for c in policy.profiled:
        policy.distinct(c, 10 if c.segment == (0, 1) else 100, 100)
        policy.costs(c, 0.1, 0.1)
    policy.decide(None, 1)
    assert {(c.segment, c.pipeline) for c in policy.used} == {((0, 1), 2), ((0, 1), 3)}
    policy.orders([(1, 3, 2), (0, 2, 3), (1, 0, 3), (1, 2, 0)])  # ΔR still begins with S
    assert {(c.segment, c.pipeline) for c in policy.used} == {((0, 1), 2)}


def test_nobody_waits_for_ever_for_a_starved_candidate() -> None:
    world = Workload(interval=1000)
    world.miss[ST] = 1.0
    for _ in range(4):
        world.step(profile=False)
        world.policy.distinct(world.cache(RS), 20, 100)
    assert world.states() == {RS: "used", ST: "unused"}


def test_a_segment_that_nothing_reaches_needs_no_probes() -> None:
    policy = ACaching(chain(3), "RST", W=2, interval=10**6)
    policy.orders(ORDERS)
    policy.rates((0, 10, 90), 100)  # ΔR is silent: (S⋈T)⋉R is probed by nobody
    for _ in range(2):
        policy.observe(1, (1, 1, 1), (1.0, 1.0))
        policy.observe(2, (1, 1, 1), (1.0, 1.0))
        policy.distinct(policy.profiled[1], 10, 100)
    policy.decide(None, 10)
    assert [c.label("RST") for c in policy.used] == [RS]


def test_shared_caches_are_judged_together() -> None:
    policy = ACaching(clique(4), "RSTU", W=1, interval=1000, global_caches=False)
    policy.orders([(1, 2, 3), (0, 2, 3), (1, 0, 3), (1, 0, 2)])
    pair = [c for c in policy.profiled if c.segment == (0, 1)]

    def told(rates: tuple[int, ...], tuples: int) -> list[Decision]:
        policy.rates(rates, 100)
        for i in range(4):
            policy.observe(i, (1,) * 4, (1.0,) * 3)
        for c in policy.profiled:
            policy.distinct(c, 10 if c in pair else 100, 100)
        for c in pair:
            policy.costs(c, 0.1, 1.0)
        return policy.decide(None, tuples)

    told((20, 20, 30, 30), 1)
    assert set(policy.used) == set(pair)
    # Each alone spares less than R and S cost, both together more.
    assert told((40, 10, 30, 30), 2) == [] and set(policy.used) == set(pair)
    told((60, 10, 5, 30), 3)
    assert policy.used == ()


def test_priorities_and_pages() -> None:
    world = Workload(memory=8 * 4096)
    world.steps(3)
    memory = world.policy.memory
    assert memory is not None and list(memory.pages) == [world.cache(RS).store]
    assert memory.request(world.cache(RS).store, 20) == 8
    assert world.policy.statistics()["caches"][1]["pages"] == 8
    memory.resize(4096)
    assert memory.pages[world.cache(RS).store] == 1
    world.policy.orders([(1, 2), (2, 0), (1, 0)])
    assert memory.pages == {}


def drive(policy: ACaching, rng: random.Random, steps: int, log: list[Any]) -> None:
    """Anything at all, within the protocol."""
    size = policy.shape.size
    for _ in range(steps):
        policy.rates([rng.randrange(0, 50) for _ in range(size)], 100)
        for i in range(size):
            if rng.random() < 0.8:
                deltas = [rng.randrange(4) for _ in range(size)]
                policy.observe(i, deltas, [d * rng.random() for d in deltas[:-1]])
        for c in policy.profiled:
            if rng.random() < 0.9:
                policy.distinct(c, rng.randrange(101), 100)
        for c in policy.states:
            policy.costs(c, rng.random() / 5, rng.random() / 5)
        for c in policy.used:
            policy.missed(c if rng.random() < 0.5 else c.store, 10, rng.randrange(11))
        if rng.random() < 0.05:
            log += policy.orders(random_orders(rng, policy.shape), None)
        log += policy.decide(None, policy._tuples + 50)
        log.append((policy.used, policy.profiled, policy.suspended))


@pytest.mark.parametrize("seed", range(20))
def test_the_contract_of_a_policy(seed: int) -> None:
    rng = random.Random(seed)
    shape = random_shape(rng, rng.randrange(3, 7))
    names = [f"R{i}" for i in range(shape.size)]

    def make() -> ACaching:
        return ACaching(shape, names, interval=500, W=3, memory=1 << 16)

    policy, twin = make(), make()
    first = random_orders(rng, shape)
    for p in (policy, twin):
        p.orders(first, None)
    one: list[Any] = []
    other: list[Any] = []
    drive(policy, random.Random(seed), 60, one)
    drive(twin, random.Random(seed), 60, other)
    assert one == other  # a pure function of what it is told
    # Elsewhere, by way of JSON, it goes on identically.
    moved = make()
    moved.load(json.loads(json.dumps(policy.state())))
    assert json.dumps(moved.state()) == json.dumps(policy.state())
    drive(policy, random.Random(seed + 1), 60, one := [])
    drive(moved, random.Random(seed + 1), 60, other := [])
    assert one == other
    size = len(json.dumps(policy.state()))
    drive(policy, random.Random(seed + 2), 100, [])
    assert len(json.dumps(policy.state())) < 3 * size + 2000  # bounded
    for entry in one:
        if isinstance(entry, Decision):
            assert entry.before != entry.after and entry.reason and json.dumps(entry.to_dict())
    for c in (*policy.used, *policy.profiled):
        assert prefix_invariant(c.inputs, policy.states.pipelines)
    for a in policy.used:
        assert not any(conflicts(a, b, policy.states.pipelines) for b in policy.used)


def test_policies_by_name() -> None:
    assert list(POLICIES) == ["none", "prefix", "global"]
    assert make_caching("none", chain(3), "RST") is None
    exact, wide = make_caching("prefix", chain(3), "RST"), make_caching("Global(m=8, W=5)", chain(3), "RST")
    assert exact is not None and exact.m == 0 and wide is not None and (wide.m, wide.W) == (8, 5)
    exact.orders(ORDERS)
    wide.orders(ORDERS)
    assert [c.label("RST") for c in exact.profiled] == [RS]
    assert {c.label("RST") for c in wide.profiled} == {RS, ST}
    assert defaults("global")["interval"] == 10_000 and defaults("global")["threshold"] == 0.2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("globbal", "unknown cache policy 'globbal'. Did you mean 'global'?"),
        ("none(m=3)", "the cache policy 'none' has no option 'm'. It has none."),
        ("global(m=200)", "the option 'm' of 'global' must be a whole number from 0 to 20, not 200."),
        ("global(threshold=0)", "the option 'threshold' of 'global' must be a number above 0 and at most 100, not 0."),
        ("prefix(intervall=5)", "the cache policy 'prefix' has no option 'intervall'. Did you mean 'interval'?"),
    ],
)
def test_mistakes_are_told_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(JobError) as found:
        make_caching(text, chain(3), "RST")
    assert str(found.value) == message
