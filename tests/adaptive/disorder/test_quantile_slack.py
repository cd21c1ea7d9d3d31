"""The policy behind SLACK AUTO on generated lateness: shares, strays, state."""

from __future__ import annotations

import numpy as np
import pytest

from eddyline.adaptive.disorder.policies import make_policy
from eddyline.adaptive.disorder.quantile_slack import QuantileSlack
from eddyline.core.delta import Int64s
from eddyline.core.errors import JobError
from eddyline.engine.state_codec import decode, encode
from eddyline.streamon.strategies import strategies


def run(policy: QuantileSlack, lateness: Int64s) -> float:
    """The share that was late, of the second half. The watermark is that of an endless stream: a slack acts at once."""
    late = np.zeros(len(lateness), np.bool_)
    for start in range(0, len(lateness), policy.interval):
        part = lateness[start : start + policy.interval]
        late[start : start + len(part)] = part > policy.slack
        policy.observe(part, int((part > policy.slack).sum()), 1)
        policy.decide()
    return float(late[len(late) // 2 :].mean())


@pytest.mark.parametrize("target", [90.0, 95.0, 99.0, 99.9])
@pytest.mark.parametrize("shape", ["exponential", "uniform", "two sources"])
def test_the_share_of_late_rows_approaches_the_target(target: float, shape: str) -> None:
    random = np.random.default_rng(11)
    draws = {
        "exponential": random.exponential(1000, 200_000),
        "uniform": random.uniform(0, 5000, 200_000),
        "two sources": np.where(random.random(200_000) < 0.1, random.uniform(8000, 9000, 200_000), 0),
    }
    share = run(QuantileSlack(target=target), draws[shape].astype(np.int64))
    assert (0.75 if target < 99.9 else 0.0) * (100 - target) < 100 * share + 1e-9 < 1.05 * (100 - target)


def test_it_follows_lateness_that_grows_and_shrinks() -> None:
    policy = QuantileSlack(target=95)
    slacks = []
    for scale in (100, 10_000, 100):
        run(policy, np.random.default_rng(scale).integers(0, scale, 60_000))
        slacks.append(policy.slack)
    assert slacks[0] < 200 and 9000 < slacks[1] < 20_000 and slacks[2] < 200


def test_rows_of_another_century_do_not_set_the_slack() -> None:
    lateness = np.random.default_rng(3).integers(0, 100, 50_000)
    lateness[::5000] = 10**15
    policy = QuantileSlack()
    run(policy, lateness)
    assert policy.slack < 2000


def test_a_decision_has_evidence_with_units() -> None:
    policy = QuantileSlack(unit="µs")
    policy.observe(np.arange(64) * 1_000_000, 3, 5)
    decision = policy.decide(7)
    assert decision is not None
    assert (decision.kind, decision.before, decision.after, decision.time) == ("slack", 0, policy.slack, 7)
    assert decision.units["after"] == "µs" and "3 of 64 rows" in decision.reason and "63 s behind" in decision.reason


def test_a_policy_goes_on_from_its_state() -> None:
    lateness = np.random.default_rng(5).integers(0, 500, 20_000)
    whole, half = QuantileSlack(target=98), QuantileSlack(target=98)
    run(half, lateness[:9984])
    pieces: dict[str, bytes] = {}

    class Store:
        def put(self, name: str, data: bytes) -> None:
            pieces[name] = bytes(data)

        def get(self, name: str) -> bytes:
            return pieces[name]

    rest = QuantileSlack(target=98)
    rest.load(decode(encode(half.state(), Store()), Store()))  # type: ignore[arg-type]
    run(whole, lateness)
    run(rest, lateness[9984:])
    assert rest.slack == whole.slack and rest.reach == whole.reach and rest.excess == whole.excess


@pytest.mark.parametrize("text", ["auto(target=0)", "auto(target=100)", "auto(window=3)", "auto(goal=1)", "sometimes"])
def test_what_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(JobError):
        make_policy(text)


def test_it_is_registered_with_defaults() -> None:
    found = strategies("slack")["auto"]
    assert found.defaults["target"] == 99.9 and {p.name for p in found.parameters} == set(found.defaults)
