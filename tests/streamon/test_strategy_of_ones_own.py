"""What a policy gets by being registered (``turn_round``, which nothing else names): a name, explanations, a log of its
decisions, saved state, shards, and the checks of the contract."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.core.errors import JobError
from eddyline.engine.strategies import strategy_lines
from eddyline.streamon.strategies import strategy, withdraw
from eddyline.testing.case_data import draw_scale, draw_stream
from eddyline.testing.cases import Case
from eddyline.testing.checks import check_policy
from tests.shards import shards
from tests.streamon import turn_round
from tests.streamon.turn_round import TurnRound

KINDS = ("filters", "joins")
for _kind in KINDS:
    withdraw(_kind, TurnRound.name)  # other tests go through all policies that are registered


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    strategy(*KINDS)(TurnRound)
    yield
    for kind in KINDS:
        withdraw(kind, TurnRound.name)


def asked(session: Any) -> Any:
    draw = np.random.default_rng(1).random
    table = pa.table({"ts": range(20_000), "a": draw(20_000), "b": draw(20_000)})
    session.stream("S", table.to_batches(max_chunksize=2000), timestamp="ts")
    session.function("f", lambda a: a > 0.5)
    session.function("g", lambda b: b > 0.5)
    return session.query("SELECT Istream(ts) FROM S WHERE f(a) AND g(b)", filters="turn-round(after=5000)")


def test_it_can_be_named_and_its_decision_is_explained(tmp_path: Any) -> None:
    session = ed.Session()
    query = asked(session)
    found = query.to_arrow()["ts"].to_pylist()
    (decision,) = query.decisions
    assert decision.after == ["g(S.b)", "f(S.a)"] and decision.reason.endswith(" rows have passed")
    assert "ordered by the policy turn-round" in query.explain()
    assert query.plan().node("select 1").strategy == "turn-round"
    plain = ed.Session()
    assert asked(plain).to_arrow()["ts"].to_pylist() == found
    session.snapshot(tmp_path)
    other = ed.Session()
    again = asked(other)
    other.restore(tmp_path)
    assert again.statistics()["select 1"]["order"] == [1, 0]


def test_it_decides_on_shards_too_and_the_log_is_on_the_driver() -> None:
    rng = random.Random("turn round")
    scale = draw_scale(rng)
    stream = draw_stream(rng, 3000, 2500, scale)
    case = Case(
        "SELECT Istream(a, b) FROM R [RANGE 0 SECONDS] WHERE a % 3 > 0 AND b % 2 = 0", {"R": stream}, {}, scale=scale
    )
    way = shards.Way(shards=2, batches=4, seed=1, hot=0.5, options={"filters": "turn-round(after=5)"})
    arrived = shards.arrive(case, way)
    answer = shards.run(arrived, way)
    assert shards.compare(arrived, answer) is None
    decisions = [d for d in answer.report["decisions"] if d["operator"] == "select 1"]
    assert {d["shard"] for d in decisions} == {0, 1}
    assert all(d["after"] == ["R.b % 2 = 0", "R.a % 3 > 0"] for d in decisions), decisions


def test_it_keeps_the_contract() -> None:
    assert check_policy("filters", "turn-round") >= 10 and check_policy("joins", TurnRound) >= 10


def test_it_is_listed_and_its_parameters_are_checked() -> None:
    lines = list(strategy_lines("filters"))
    assert "    after = 1000: rows before it turns the order round: fewer turn sooner" in lines
    session = ed.Session()
    session.stream("S", [{"ts": 1, "a": 1}], timestamp="ts")
    with pytest.raises(JobError, match="option 'after' of 'turn-round' must be a whole number"):
        session.query("SELECT ts FROM S WHERE a > 1 AND ts > 0", filters="turn-round(after=often)")


def test_it_is_one_short_file() -> None:
    assert turn_round.__file__ is not None
    assert len(Path(turn_round.__file__).read_text(encoding="utf-8").splitlines()) <= 120
