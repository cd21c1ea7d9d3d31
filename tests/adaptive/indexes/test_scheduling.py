"""When states are assessed: what each schedule notices, and that a restored one goes on."""

import random

import pytest

from eddyline.adaptive.indexes.scheduling import SCHEDULES, make_schedule

STATES, WINDOW, PERIOD, EVALUATION = 4, 200, 1_000, 2_000


def schedule(name):
    return make_schedule(name, STATES, WINDOW, PERIOD, EVALUATION, 0.2)


def drive(made, requests):
    """Selections by state, in order."""
    return [state for state, pattern, count in requests if made.searched(state, pattern, count)]


def steady(total, seed=0, mixes=None):
    rng = random.Random(seed)
    mixes = mixes or [[1, 2]] * STATES
    for i in range(total):
        state = i % STATES
        yield state, mixes[state][rng.randrange(2)], 1


@pytest.mark.parametrize(("name", "least", "most"), [("continuous", 99, 100), ("periodic", 15, 20), ("hybrid", 15, 20)])
def test_every_state_is_assessed_again_and_again(name, least, most):
    selections = drive(schedule(name), steady(20_000))
    assert least <= len(selections) <= most
    assert set(selections) == set(range(STATES))


def test_triggered_never_assesses_what_does_not_change():
    assert drive(schedule("triggered"), steady(20_000)) == []


@pytest.mark.parametrize("name", ["triggered", "hybrid"])
def test_a_shift_of_the_mix_is_noticed_at_the_next_evaluation(name):
    made = schedule(name)
    drive(made, steady(8_000))
    changed = [[1, 2], [1, 2], [4, 4], [1, 2]]
    selections = drive(made, steady(4 * EVALUATION, seed=1, mixes=changed))
    first = selections.index(2)
    assert first <= 4 if name == "hybrid" else selections == [2]


@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_a_restored_schedule_goes_on_as_if_nothing_had_happened(name):
    rng = random.Random(7)
    requests = [(rng.randrange(STATES), rng.choice([1, 2, 3]), rng.randrange(1, 60)) for _ in range(2_000)]
    whole, first, second = (schedule(name) for _ in range(3))
    expected = drive(whole, requests)
    begun = drive(first, requests[:900])
    second.load(first.state())
    assert begun + drive(second, requests[900:]) == expected
    assert name == "triggered" or expected
