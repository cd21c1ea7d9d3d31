"""A-Caching when rates jump, samples are few, caches fill and memory is short: it neither lags behind nor flickers."""

from __future__ import annotations

import random
from collections import deque

import pytest

from eddyline.adaptive.joins.a_caching import ACaching
from eddyline.adaptive.joins.candidates import Candidate, candidates
from eddyline.adaptive.joins.model import Value, net, upkeep
from eddyline.adaptive.joins.profiler import Profiler
from eddyline.streamon.estimates import anchored_miss_probability, miss_probability
from tests.adaptive.joins.graphs import chain, clique
from tests.adaptive.joins.test_a_caching import RS, ST, Workload


def test_a_jump_of_the_rates_does_not_wait_for_the_interval() -> None:
    world = Workload(interval=10_000)
    world.steps(30)
    assert world.states() == {RS: "used", ST: "unused"}
    began = world.tuples
    world.rates, world.miss = (80, 10, 10), {RS: 0.9, ST: 0.05}
    while world.states()[ST] != "used":
        world.step()
        assert world.tuples - began < 0.35 * 10_000  # the time to collect, not the rest of the interval
    assert world.states() == {RS: "unused", ST: "used"}


def test_after_a_jump_a_second_selection_comes_soon() -> None:
    """Right after it windows still hold what came before: keys seem not to recur, and nothing is chosen."""
    world = Workload(interval=10_000)
    world.steps(30)
    began = world.tuples
    world.rates, world.miss = (80, 10, 10), {RS: 0.9, ST: 1.0}
    while world.states()[RS] == "used" or world.states()[ST] != "unused":
        world.step()
    assert world.policy.used == () and world.tuples - began < 4000
    world.miss[ST] = 0.05
    while world.states()[ST] != "used":
        world.step()
    assert world.tuples - began < 10_000
    profiled = 0  # and then intervals are whole again
    for _ in range(300):
        world.step()
        profiled += world.states()[RS] == "profiled"
    assert profiled < 60


def test_rates_are_forgotten_after_a_jump_and_not_after_chance() -> None:
    profiler = Profiler(2, W=10)
    rng = random.Random(1)
    for _ in range(50):  # half of 200, give or take seven: more than the threshold now and then
        count = sum(rng.random() < 0.5 for _ in range(200))
        assert not profiler.rates((count, 200 - count), 200)
    assert profiler.rates((180, 20), 200)
    assert profiler.statistics().rate == (0.9, 0.1)
    slow = Profiler(2, W=10, horizon=500)
    for share in range(50, 80):  # a drift, of which no step is a jump
        assert not slow.rates((10 * share, 1000 - 10 * share), 1000)
    assert slow.statistics().rate[0] == pytest.approx(0.79)


def test_jumps_at_every_step_do_not_keep_a_selection_from_being_made() -> None:
    world = Workload(interval=2000)
    for n in range(60):
        world.rates = (10, 10, 80) if n % 2 else (20, 20, 60)
        world.step()
    assert world.states()[RS] == "used"


def test_what_a_probe_gives_is_counted_in_the_same_sample_as_what_it_spares() -> None:
    """Two samples of one world, in one of which elements found many rows by chance: the cache is worth the same."""
    cache = Candidate(2, 0, 1, (0, 1), (1,))
    found = []
    for rows in (1, 6):
        profiler = Profiler(3, W=2)
        profiler.rates((10, 10, 80), 100)
        for pipeline in range(3):
            for _ in range(2):
                profiler.observe(pipeline, (1, 1, rows), (2.0, 1.0 + rows))  # two probes, and a link for each row
        profiler.costs(cache, 1.0, 0.0, row=1.0)
        found.append(profiler.values({cache: 0.0}, profiler.statistics())[cache].benefit)
    assert found[0] == pytest.approx(found[1]) == pytest.approx(0.8 * 2)


def test_elements_profiled_together_are_one_observation_and_count_as_many() -> None:
    profiler = Profiler(3, W=10, sample=64)
    profiler.rates((1, 1, 1), 3)
    cache = Candidate(2, 0, 1, (0, 1), (1,))
    for pipeline in range(3):
        profiler.observe(pipeline, (12, 24, 60), (12.0, 48.0), elements=12)
    assert profiler.known(cache)  # W = 10 elements of each
    assert profiler.statistics().d[2] == pytest.approx((1 / 3, 2 / 3, 5 / 3))
    assert profiler.statistics().c[2] == pytest.approx((1.0, 2.0))
    for _ in range(6):
        profiler.observe(2, (12, 12, 12), (12.0, 12.0), elements=12)
    assert profiler.statistics().d[2] == pytest.approx((1 / 3,) * 3)  # 72 newer elements are enough
    assert profiler.statistics().c[2] == pytest.approx((1.0, 1.0))


def test_what_a_used_cache_costs_to_maintain_is_seen() -> None:
    world = Workload()
    world.steps(3)
    cache = world.cache(RS)
    for _ in range(12):
        world.policy.upkept(cache.store, 2.0, 100)
        world.step()
    value = world.policy.statistics()["caches"][1]
    assert value["cache"] == RS and value["cost"] == pytest.approx(0.02) and world.states()[RS] == "used"
    for _ in range(4):  # much more than it spares, whatever the model says
        world.policy.upkept(cache.store, 300.0, 100)
        world.step()
    assert world.states()[RS] != "used" and "now spares" in world.decisions[-1].reason


def test_a_cache_fills_until_the_window_of_its_pipeline_is_another() -> None:
    world = Workload()
    world.policy.windows((0, 0, 1000))  # 2,500 tuples at a rate of 0.8
    world.steps(3)
    world.miss[RS] = 1.0
    world.steps(20)
    assert world.states()[RS] == "used"
    world.steps(8)
    assert world.states()[RS] != "used"
    world = Workload()
    world.policy.windows((0, 0, 10**6))
    world.steps(3)
    world.miss[RS] = 1.0
    world.steps(60)  # no longer than four intervals
    assert world.states()[RS] != "used"


def test_the_misses_by_which_a_cache_filled_are_not_held_against_it() -> None:
    world = Workload()
    world.steps(3)
    world.miss[RS] = 1.0
    world.steps(9)
    world.miss[RS] = 0.2
    world.steps(3)
    assert world.states()[RS] == "used" and world.policy.profiler.miss(world.cache(RS), world.tuples) < 0.5


def test_a_selection_waits_for_the_first_that_is_known_of_anybody() -> None:
    world = Workload(interval=1000)
    for _ in range(6):  # far beyond a quarter of the interval
        world.step(profile=False)
    assert world.states() == {RS: "profiled", ST: "profiled"}
    world.policy.distinct(world.cache(RS), 20, 100)
    world.step(profile=False)
    assert world.states() == {RS: "used", ST: "unused"}


def test_anchored_caches_share_nothing() -> None:
    orders = [(1, 2, 3), (0, 2, 3), (1, 0, 3), (1, 0, 2)]
    found = candidates(clique(4), orders, 20)
    anchored = [c for c in found if c.anchored]
    assert len({c.store for c in anchored}) == len(anchored) > 2
    one, other = (Candidate(i, 0, 1, (0, 1), (0,), (2, 3)) for i in (2, 3))
    values = {one: Value(5.0, 4.0, 1.0), other: Value(5.0, 4.0, 1.0)}
    assert len(upkeep([one, other], values)) == 2 and net([one, other], values) == 2.0


@pytest.mark.parametrize(("keys", "rows", "probes"), [(1000, 300, 4096), (200, 300, 4096), (5000, 1000, 16384)])
def test_an_anchored_cache_misses_as_predicted(keys: int, rows: int, probes: int) -> None:
    """A window of so many rows, equally frequent keys: an entry stands while the window has a row of its key."""
    rng, window, alive = random.Random(3), deque[int](), dict[int, int]()
    missed = asked = 0
    seen: set[int] = set()
    bits: list[int] = []
    for n in range(40_000):
        key = rng.randrange(keys)
        for k, arrives in ((window.popleft() if len(window) == rows else None, False), (key, True)):
            if k is None:
                continue
            if n > 2000:
                asked += 1
                missed += arrives and not alive.get(k)
                seen.add(k)
            alive[k] = alive.get(k, 0) + (1 if arrives else -1)
            if n > 2000 and asked % probes == 0:
                bits, seen = [*bits, len(seen)], set()
        window.append(key)
    mean = sum(bits) // len(bits)
    assert anchored_miss_probability(mean, probes, rows) == pytest.approx(missed / asked, abs=0.03)
    assert anchored_miss_probability(50, 100, 300) == miss_probability(50, 100)  # too short to tell


def squeezed_world(memory: int) -> Workload:
    world = Workload(memory=memory, page=64, W_d=100)
    world.policy.windows((100, 100, 800))
    world.steps(4)
    return world


def test_with_too_little_memory_a_cache_is_not_used() -> None:
    ample = squeezed_world(1 << 20)
    assert ample.states()[RS] == "used"
    none = squeezed_world(0)
    assert none.policy.profiled == () and none.policy.used == () and none.decisions == []
    # Twenty keys, four places of 16 bytes each, and a row of 24: a fourteenth of that does not pay.
    used = [squeezed_world(memory).states()[RS] == "used" for memory in (64, 128, 256, 512, 1024, 2048, 4096)]
    assert used == sorted(used) and not used[1] and used[-1]


def test_while_a_small_cache_fills_it_is_judged_by_what_it_can_hold() -> None:
    world = squeezed_world(1 << 20)
    cache = world.cache(RS)
    assert world.policy.profiler.kept == {cache.store: pytest.approx(0.885, abs=0.01)}
    world.miss[RS] = 1.0
    world.step()
    assert world.policy.profiler.miss(cache, world.tuples) == pytest.approx(1 - 0.8 * 0.885, abs=0.01)


def test_the_state_has_all_of_it() -> None:
    world = squeezed_world(4096)
    world.policy.upkept(world.cache(RS).store, 2.0, 100)
    world.policy.rates((80, 10, 10), 1000)
    moved = ACaching(chain(3), "RST", interval=1000, W=3, memory=4096, page=64, W_d=100)
    moved.load(world.policy.state())
    assert moved.state() == world.policy.state()
    assert [d.after for d in moved.decide(0, 500)] == [d.after for d in world.policy.decide(0, 500)]
    assert moved.states.state() == world.policy.states.state()
