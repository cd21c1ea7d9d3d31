"""Routes follow a change, also of steps that are hardly ever taken, and go on from a saved state."""

from __future__ import annotations

from eddyline.adaptive.indexes.routes import Routes

COMPLETE = [{1, 2}, {0, 2}, {0, 1}]


def drive(routes: Routes, fanouts: dict[int, int], batches: int) -> list[int]:
    """Batches of input 0 that take one step each, and what they find there."""
    taken = []
    for _ in range(batches):
        taken.append(routes.next((0,)))
        routes.searched((0,), taken[-1], requests=100, matches=100 * fanouts[taken[-1]])
    return taken


def test_a_step_that_has_become_good_is_found_though_it_is_rarely_tried():
    for seed in range(10):
        routes = Routes(COMPLETE, "greedy", explore=64, seed=seed)
        assert drive(routes, {1: 10, 2: 100}, 4_000)[-100:].count(1) > 90
        # With an average over the times that it was taken, one batch in 128 would need some 45 of them to find out.
        assert drive(routes, {1: 10, 2: 1}, 3_000)[-100:].count(2) > 90


def test_a_step_in_use_is_judged_by_many_batches():
    routes = Routes(COMPLETE, "greedy", explore=10**9)
    drive(routes, {1: 10, 2: 12}, 400)
    routes.searched((0,), 1, requests=100, matches=4_000)
    assert routes.next((0,)) == 1


def test_a_saved_state_goes_on_alike():
    routes = Routes(COMPLETE, "lottery", explore=8, seed=3)
    drive(routes, {1: 10, 2: 30}, 200)
    again = Routes(COMPLETE, "lottery", explore=8, seed=3)
    again.load(routes.state())
    assert again.state() == routes.state()
    assert drive(again, {1: 5, 2: 1}, 500) == drive(routes, {1: 5, 2: 1}, 500)
