"""State modules: whatever the indexes and their changes, a search finds the rows that a plain loop finds."""

import random

import numpy as np
import pytest

from eddyline.core.time import NEVER
from eddyline.kernels import bit_address
from eddyline.synopses import index_group
from eddyline.synopses.index_maps import BitAddress, Hashed, buckets_of_search, equi_depth
from eddyline.synopses.state_module import Search, StateModule, Weights


def test_the_example_of_section_4_1():
    """A tuple with the parts 00111, 11 and 010 lies in bucket 250; a search without A2 visits four buckets."""
    index = BitAddress((5, 2, 3))
    assert buckets_of_search(index, [0b00111, 0b11, 0b010]) == [250]
    assert buckets_of_search(index, [0b00111, None, 0b010]) == [226, 234, 242, 250]


def test_a_row_is_stored_where_its_values_say():
    module = StateModule(3, 100, (BitAddress((5, 2, 3)),), ranged=frozenset({0, 1, 2}))
    codes = np.array([[a % 32, a % 4, a % 8] for a in range(64)])
    module.insert(codes, np.zeros(64, np.int64), np.full(64, NEVER))
    heads = module.partitions[0].group.heads[0]
    assert heads[0b00111_11_111] > 0  # 7, 3 and 7: the boundaries of evenly spread values are the values
    assert (heads > 0).sum() == 32


class Model:
    """The same as a list of rows."""

    def __init__(self):
        self.rows = []

    def search(self, s):
        found = []
        for i in range(len(s)):
            for r, (codes, enter, leave) in enumerate(self.rows):
                if enter > s.max_enter[i] or leave < s.min_leave[i]:
                    continue
                if all(s.low[i, j] <= codes[a] <= s.high[i, j] for j, a in enumerate(s.asked)):
                    found.append((i, r))
        return sorted(found)


def random_spec(rng, n):
    match rng.randrange(4):
        case 0:
            return tuple(
                Hashed(tuple(sorted(rng.sample(range(n), rng.randint(1, n))))) for _ in range(rng.randint(1, 3))
            )
        case 1:
            return ()
        case _:
            return (BitAddress(tuple(rng.randint(0, 4) for _ in range(n))),)


def random_search(rng, n, now, ranged):
    m = rng.randint(1, 6)
    asked = np.array(sorted(rng.sample(range(n), rng.randint(0, n))), np.int64)
    low = np.array([[rng.randrange(6) for _ in asked] for _ in range(m)], np.int64).reshape(m, len(asked))
    high, equal = low.copy(), set(asked.tolist())
    for j, a in enumerate(asked.tolist()):
        if a in ranged:
            high[:, j] += rng.randint(-1, 3)
            equal.discard(a)
    at = np.array([rng.randint(max(0, now - 5), now) for _ in range(m)], np.int64)
    return Search(asked, low, high, at, at + 1, frozenset(equal))


@pytest.fixture
def small_rings(monkeypatch):
    """Rings of a few slots, so that slots are used again soon, and four bytes a slot from 24 rows on."""
    monkeypatch.setattr(index_group, "MIN_SLOTS", 4)
    monkeypatch.setattr(bit_address, "NARROW_SLOTS", 24)


@pytest.mark.usefixtures("small_rings")
@pytest.mark.parametrize("seed", range(30))
def test_slots_of_rows_that_have_left_are_used_again(seed):
    rng = random.Random(seed)
    module = StateModule(2, rng.choice([3, 20, 1000]), random_spec(rng, 2) or (BitAddress((2, 2)),))
    model, matches, kinds, resized = Model(), 0, set(), 0
    slots = 0
    for now in range(150):
        count = (
            rng.randint(0, 4) if now % 40 < 30 else rng.randint(5, 12)
        )  # bursts make the ring grow, and shrink again
        codes = np.array([[rng.randrange(4) for _ in range(2)] for _ in range(count)], np.int64).reshape(count, 2)
        module.insert(codes, np.full(count, now), np.full(count, now + 6))
        model.rows += [(tuple(c), now, now + 6) for c in codes.tolist()]
        s = random_search(rng, 2, now, frozenset())
        requests, rows = module.search(s)
        assert sorted(zip(requests.tolist(), rows.tolist(), strict=True)) == model.search(s), (seed, now)
        matches += len(rows)
        module.expire(now - 5)
        newest = module.partitions[-1].group if module.partitions else None
        if newest is not None:
            kinds |= {h.dtype for h in newest.heads}
            resized += newest.slots != slots
            slots = newest.slots
    assert matches > 100
    assert len(module.codes) < len(model.rows) * 4
    if module.partition_rows == 1000:
        assert kinds == {np.dtype(np.uint16), np.dtype(np.uint32)}
        assert newest.end - newest.start > 3 * slots and resized > 5  # slots were used again, several times


def test_an_index_takes_at_most_eight_bytes_a_row():
    module = StateModule(3, 2_500, (BitAddress((4, 5, 4)),))
    rng = np.random.default_rng(1)
    for t in range(60):
        module.insert(rng.integers(0, 100, (500, 3)), np.full(500, t), np.full(500, t + 20))
        module.expire(t)
    assert len(module) == 10_000
    assert module.index_bytes <= 8 * len(module)


@pytest.mark.parametrize("seed", range(60))
def test_a_search_finds_what_a_plain_loop_finds(seed):
    rng = random.Random(seed)
    n = rng.randint(1, 4)
    ranged = frozenset(a for a in range(n) if rng.random() < 0.3)
    module = StateModule(n, rng.choice([1, 7, 50]), random_spec(rng, n), ranged)
    model, now, matches, migrations = Model(), 0, 0, 0
    for _ in range(60):
        now += rng.randint(0, 3)
        count = rng.randint(0, 12)
        codes = np.array([[rng.randrange(6) for _ in range(n)] for _ in range(count)], np.int64).reshape(count, n)
        enter = np.array([now if rng.random() < 0.9 else NEVER for _ in range(count)], np.int64)
        leave = np.full(count, now + 15, np.int64)
        module.insert(codes, enter, leave)
        model.rows += [(tuple(c), e, x) for c, e, x in zip(codes.tolist(), enter.tolist(), leave.tolist(), strict=True)]
        action = rng.random()
        if action < 0.15:
            module.spec = random_spec(rng, n)
        elif action < 0.3 and module.partitions:
            chosen = rng.sample(range(len(module.partitions)), rng.randint(1, len(module.partitions)))
            migrations += module.migrate(chosen, random_spec(rng, n)) > 0
        elif action < 0.4:
            module.expire(now - 5)
        elif action < 0.5:
            restored = StateModule(n, module.partition_rows, (), ranged)
            restored.load(module.state())
            module = restored
        s = random_search(rng, n, now, ranged)
        requests, rows = module.search(s)
        found = sorted(zip(requests.tolist(), rows.tolist(), strict=True))
        assert found == model.search(s), seed
        matches += len(found)
    assert matches > 20
    assert migrations > 0


@pytest.mark.parametrize("slots", [bit_address.NARROW_SLOTS, 24])
@pytest.mark.parametrize("seed", range(20))
def test_a_search_by_values_finds_and_counts_what_one_by_ranges_does(seed, slots, monkeypatch):
    monkeypatch.setattr(bit_address, "NARROW_SLOTS", slots)
    rng, draw = random.Random(f"values/{seed}"), np.random.default_rng(seed)
    n, rows, requests = rng.randint(1, 4), rng.choice([3, 60, 400]), rng.choice([0, 1, 30])
    ranged = frozenset(a for a in range(n) if rng.random() < 0.2)
    hashed = [Hashed(tuple(sorted(rng.sample(range(n), rng.randint(1, n))))) for _ in range(2)]
    bits = BitAddress(tuple(rng.randint(0, 3) for _ in range(n)))
    module = StateModule(n, rng.choice([7, 100]), rng.choice([(bits,), tuple(hashed)]), ranged)
    module.weights = Weights(visit=0.0, compare=0.0)  # the index is used, whatever it costs
    codes, times = draw.integers(0, rng.choice([2, 9]), (rows, n)), np.sort(draw.integers(0, 50, rows))
    module.insert(codes, times, times + 9)
    module.spec = (BitAddress((1,) * n),)
    module.insert(codes, times + 50, times + 70)
    asked = sorted(rng.sample(range(n), rng.randint(1, n)))
    values, at = draw.integers(0, 9, (requests, len(asked))), draw.integers(0, 100, requests)
    found = []
    for high in (values, values.copy()):
        before = module.counts.copy()
        rows_found = module.search(Search(np.array(asked), values, high, at, at + 1, frozenset(asked)))
        found.append((*map(np.ndarray.tolist, rows_found), (module.counts - before).tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("spec", [(), (BitAddress((3, 2)),), (Hashed((0,)),)])
def test_ranges_up_to_the_ends_of_the_numbers_empty_ones_and_none(spec):
    least, most = -(1 << 63), (1 << 63) - 1
    module = StateModule(2, 100, spec, frozenset({1}))
    codes = np.array([[1, x] for x in (least, -1, 0, 1, most)] * 8)
    module.insert(codes, np.zeros(40, np.int64), np.full(40, 9))

    def found(*ranges: tuple[int, int]) -> list[int]:
        low, high = (np.array([[r[i] for r in ranges]], np.int64).reshape(1, -1) for i in (0, 1))
        asked = np.arange(len(ranges))
        equal = frozenset(a for a, r in enumerate(ranges) if r[0] == r[1])
        return sorted(module.search(Search(asked, low, high, np.ones(1, np.int64), np.ones(1, np.int64), equal))[1])

    assert found() == list(range(40))
    for low in (least, -1, 0, most):
        for high in (least, -1, 1, most):
            expected = [i for i in range(40) if low <= codes[i, 1] <= high]
            assert found((1, 1), (low, high)) == expected, (low, high)
    assert found((2, 0), (0, 0)) == []


def test_comparisons_without_an_index_are_counted_apart():
    module = StateModule(2, 100, (Hashed((0,)),))
    module.insert(np.arange(80).reshape(40, 2), np.zeros(40, np.int64), np.full(40, 9))
    one = np.ones(1, np.int64)
    for a, scanned in ((0, 0), (1, 40)):  # only the first attribute has an index
        values = np.array([[4 + a]])
        assert module.search(Search(np.array([a]), values, values, one, one, frozenset({a})))[1].tolist() == [2]
        assert module.scanned == scanned
    assert 40 < module.counts[bit_address.COMPARISONS] < 60


def test_partitions_behind_are_dropped_and_their_places_used_again():
    module = StateModule(1, 100, (BitAddress((6,)),))
    for t in range(200):
        module.insert(np.full((50, 1), t % 7), np.full(50, t), np.full(50, t + 10))
        module.expire(t)
    assert len(module) == 50 * 10
    assert len(module.partitions) <= 7
    assert len(module.codes) < 5000
    assert module.nbytes < 150_000


def test_equal_neighbours_share_an_index():
    module = StateModule(1, 10, (BitAddress((3,)),))
    module.insert(np.arange(35).reshape(-1, 1), np.arange(35), np.full(35, NEVER))
    assert len({id(p.group) for p in module.partitions}) == 1
    module.spec = (BitAddress((4,)),)
    module.insert(np.arange(35).reshape(-1, 1), np.arange(35), np.full(35, NEVER))
    assert [len(p.group.heads[0]) for p in module.partitions] == [8] * 4 + [16] * 3
    module.migrate(range(4), module.spec)
    assert len({id(p.group) for p in module.partitions}) == 1


@pytest.mark.parametrize("count", [1, 3, 8])
def test_a_batch_is_put_into_all_hash_indices_by_one_call(count, monkeypatch):
    calls = []
    for kernels in ("INSERT_HASHED", "CLEAR_HEADS"):
        forms = getattr(bit_address, kernels)
        counted = tuple(lambda *a, form=form, name=kernels: (calls.append(name), form(*a)) for form in forms)
        monkeypatch.setattr(bit_address, kernels, counted)
    module = StateModule(8, 10_000, tuple(Hashed((a,)) for a in range(count)))
    for batch in range(40):
        at = np.arange(50 * batch, 50 * batch + 50)
        module.insert(np.repeat(at.reshape(-1, 1), 8, axis=1), at, at + 100)
        module.expire(50 * batch)
    assert calls.count("INSERT_HASHED") == 40 and calls.count("CLEAR_HEADS") <= 40
    asked = Search(np.array([0]), np.array([[1990]]), np.array([[1990]]), *(np.array([1999]),) * 2, frozenset({0}))
    assert module.search(asked)[1].tolist() == [1990] and module.counts[2] == 1


@pytest.mark.parametrize("values", ["even", "skewed", "few"])
def test_equi_depth_parts_hold_at_most_twice_the_mean_besides_heavy_values(values):
    rng = np.random.default_rng(3)
    codes = {
        "even": rng.integers(0, 100_000, 10_000),
        "skewed": (rng.pareto(1.1, 10_000) * 100).astype(np.int64),
        "few": rng.integers(0, 40, 10_000),
    }[values]
    bits = 4
    mean = len(codes) / (1 << bits)
    value, count = np.unique(codes, return_counts=True)
    light = codes[np.isin(codes, value[count <= mean])]
    if len(light) == 0:
        return
    parts = np.searchsorted(equi_depth(codes, bits), light, side="right")
    assert np.bincount(parts).max() <= 2 * mean


@pytest.mark.parametrize("values", ["few", "large"])
def test_rows_that_are_compared_as_one_number_are_those_with_all_values(values):
    """Codes of several attributes make one number where all rows are compared; rows are found by each attribute."""
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 3, (200, 4)) * (1 if values == "few" else (1 << 61) - 7)
    module = StateModule(4, 1000, ())
    at = np.zeros(200, np.int64)
    module.insert(codes, at, at + 1)
    for asked in ((0,), (2, 3), (0, 1, 3), (0, 1, 2, 3)):
        wanted = codes[:50, list(asked)].copy()
        wanted[::5] += 1  # mostly found nowhere
        searched = Search(np.array(asked), wanted, wanted, at[:50], at[:50], frozenset(asked))
        requests, rows = module.search(searched)
        there = (codes[None][:, :, list(asked)] == wanted[:, None]).all(axis=2)
        assert sorted(zip(requests.tolist(), rows.tolist(), strict=True)) == sorted(zip(*there.nonzero(), strict=True))


def test_a_search_that_finds_many_rows_uses_the_index_rather():
    """Along all rows a row that is found costs more than one in a bucket."""
    compared = []
    for values in (1000, 2):
        module = StateModule(1, 1000, (BitAddress((2,)),))
        codes, at = np.arange(400).reshape(-1, 1) % values, np.zeros(400, np.int64)
        module.insert(codes, at, at + 1)
        module.weights = Weights(visit=1.0, compare=1.0, scan=0.2, hit=3.0)
        for _ in range(2):
            module.search(Search(np.array([0]), codes[:9], codes[:9], at[:9], at[:9], frozenset({0})))
        compared.append(module.scanned)
    assert compared == [2 * 9 * 400, 9 * 400]  # what the first search found is known to the second
