"""Index assessment: the paper's example, and the promises of the compact methods over random and adversarial orders."""

import math
import random
from collections import Counter

import pytest

from eddyline.adaptive.indexes.assessment import (
    ASSESSMENTS,
    Assessment,
    CdiaHighestCount,
    CdiaRandom,
    Csria,
    Dia,
    Sria,
    make_assessment,
)
from eddyline.adaptive.indexes.cost import UnitCosts, Workload, dependent_cost
from eddyline.adaptive.indexes.selection import exhaustive
from tests.scale import scaled

TABLE_2 = {0b100: 4, 0b010: 10, 0b001: 10, 0b110: 4, 0b101: 16, 0b011: 10, 0b111: 46}  # percent
ONLY_COMPARISONS = UnitCosts(hash=0, visit=0)
THETA, EPSILON = 0.1, 0.02


def table_2(method: Assessment) -> dict[int, float]:
    """Table 2 in a random order, 10,000 requests."""
    requests = [p for p, percent in TABLE_2.items() for _ in range(100 * percent)]
    random.Random(5).shuffle(requests)
    for pattern in requests:
        method.search(pattern)
    return method.frequencies()


def best(frequencies: dict[int, float]) -> tuple[int, ...]:
    return exhaustive(3, 4, Workload(1, 1, 1, frequencies), ONLY_COMPARISONS)


@pytest.mark.parametrize("exact", [Sria, Dia])
def test_all_statistics_of_table_2_select_1_1_2(exact):
    found = table_2(exact(3))
    assert found == {p: percent / 100 for p, percent in TABLE_2.items()}
    assert best(found) == (1, 1, 2)


def test_csria_loses_two_patterns_of_table_2_and_selects_0_1_3():
    found = table_2(Csria(3, theta=0.05, epsilon=0.001))
    assert 0b100 not in found
    assert 0b110 not in found
    assert best(found) == (0, 1, 3)


def test_cdia_by_highest_count_sends_a1_a2_to_a2_and_selects_0_2_2():
    found = table_2(CdiaHighestCount(3, theta=0.05, epsilon=0.001))
    assert found[0b010] == pytest.approx(0.14)
    assert best(found) == (0, 2, 2)


def test_cdia_by_random_combination_can_keep_a1_and_selects_1_1_2():
    kept = [table_2(CdiaRandom(3, theta=0.05, epsilon=0.001, seed=seed)) for seed in range(20)]
    with_a1 = [found for found in kept if 0b100 in found]
    assert 2 < len(with_a1) < 18  # a draw between two parents
    for found in with_a1:
        assert found[0b100] == pytest.approx(0.08)
        assert best(found) == (1, 1, 2)


def orders(seed: int, n: int, length: int) -> list[int]:
    """Requests with a skewed mix, in an order that is meant to mislead: shuffled, sorted, or frequent patterns late."""
    rng = random.Random(seed)
    patterns = rng.sample(range(1, 1 << n), k=rng.randint(2, min(12, (1 << n) - 1)))
    weights = [rng.paretovariate(1.1) for _ in patterns]
    requests = rng.choices(patterns, weights, k=length)
    match seed % 4:
        case 0:
            rng.shuffle(requests)
        case 1:
            requests.sort(key=lambda p: -p.bit_count())
        case 2:
            often = Counter(requests)
            requests.sort(key=lambda p: often[p])
        case _:
            # A frequent pattern that starts rare: one request in each segment, the rest at the end.
            (target, count), *_ = Counter(requests).most_common(1)
            rest = [p for p in requests if p != target]
            width = math.ceil(1 / EPSILON)
            early = [target if i % width == 0 and count > i // width else p for i, p in enumerate(rest)]
            requests = early + [target] * max(0, count - sum(p == target for p in early))
    return requests


@pytest.mark.parametrize("name", ["csria", "cdia", "cdia-random"])
def test_no_pattern_above_the_threshold_is_missed(name):
    checked = 0
    for seed in range(200):
        n = 2 + seed % 5
        requests = orders(seed, n, 3000)
        method = make_assessment(name, n, THETA, EPSILON, seed)
        for pattern in requests:
            method.search(pattern)
        found = method.frequencies()
        for pattern, count in Counter(requests).items():
            if count / len(requests) >= THETA:
                checked += 1
                assert pattern in found, (seed, f"{pattern:0{n}b}", count / len(requests))
    assert checked > 300


@pytest.mark.parametrize("name", ["csria", "cdia", "cdia-random"])
def test_memory_stays_within_the_bound(name):
    reduced, cases = 0, scaled(20, least=20)
    for seed in range(cases):
        n, rng = 8, random.Random(seed)
        method = make_assessment(name, n, THETA, EPSILON, seed)
        levels = n if name != "csria" else 1
        most = 0
        for i in range(1, 6001):
            method.search(rng.randrange(1, 1 << n) if seed % 2 else rng.choice([1, 3, 7, 255, rng.randrange(1, 256)]))
            if i % 500 == 0:
                bound = math.log2(EPSILON * i) / EPSILON
                assert method.entries <= levels * min((1 << n) - 1, bound)
                most = max(most, method.entries)
        reduced += most < len(set(range(1, 1 << n)))
    assert reduced > 0.8 * cases


@pytest.mark.parametrize("name", ["cdia", "cdia-random"])
def test_cdia_keeps_the_statistics_of_what_it_combines(name):
    for seed in range(40):
        requests = orders(seed, 4, 2000)
        method = make_assessment(name, 4, THETA, EPSILON, seed)
        for pattern in requests:
            method.search(pattern)
        assert sum(method.counts.values()) == len(requests)
        assert sum(method.frequencies().values()) == pytest.approx(1.0)


def test_removing_patterns_changes_no_cost_by_more_than_their_frequency():
    """|ΔC_D| ≤ λ_r·λ_d·W·C_c·Σ F_removed, for every configuration of four bits."""
    removed_some = 0
    for seed in range(60):
        requests = orders(seed, 3, 2000)
        exact, compact = Sria(3), Csria(3, THETA, EPSILON)
        for pattern in requests:
            exact.search(pattern)
            compact.search(pattern)
        every = exact.frequencies()
        kept = {p: f for p, f in every.items() if p in compact.frequencies()}
        gone = sum(every.values()) - sum(kept.values())
        removed_some += gone > 0
        for configuration in ((4, 0, 0), (0, 4, 0), (1, 1, 2), (0, 2, 2), (0, 0, 0)):
            costs = [
                dependent_cost(configuration, Workload(50.0, 20.0, 10.0, f), ONLY_COMPARISONS) for f in (every, kept)
            ]
            assert abs(costs[0] - costs[1]) <= 20.0 * 50.0 * 10.0 * gone + 1e-6
    assert removed_some > 10


@pytest.mark.parametrize("name", sorted(ASSESSMENTS))
def test_a_restored_assessment_goes_on_as_if_nothing_had_happened(name):
    requests = orders(3, 4, 1500)
    whole, first = (make_assessment(name, 4, THETA, EPSILON, seed=9) for _ in range(2))
    for pattern in requests:
        whole.search(pattern)
    for pattern in requests[:700]:
        first.search(pattern)
    second = make_assessment(name, 4, THETA, EPSILON, seed=9)
    second.load(first.state())
    for pattern in requests[700:]:
        second.search(pattern)
    assert second.frequencies() == whole.frequencies()
    second.restart()
    assert second.entries == second.requests == 0


@pytest.mark.parametrize("name", sorted(ASSESSMENTS))
def test_requests_can_come_in_batches(name):
    one, batched = (make_assessment(name, 3, THETA, EPSILON, seed=2) for _ in range(2))
    rng = random.Random(1)
    for _ in range(50):
        pattern, count = rng.randrange(1, 8), rng.randrange(1, 300)
        batched.search(pattern, count)
        for _ in range(count):
            one.search(pattern)
    assert one.state() == batched.state()
