"""What an operator gets by being a candidate (``nested_loop``, which nothing else in the package names): planning,
explain, the plan as data, the log, snapshots, shards, contract checks and the refusal of another operator's state."""

from __future__ import annotations

import pickle
import random
from pathlib import Path

import pytest

from eddyline.core.errors import EddylineError, JobError
from eddyline.spark.compatibility import explain, facts
from eddyline.spark.program import Program
from eddyline.testing.case_data import draw_scale, draw_stream
from eddyline.testing.cases import Case
from eddyline.testing.checks import CheckFailed, QueryExample, check_query, record
from eddyline.testing.checks.operator_examples import stream
from tests.adapting import nested_loop
from tests.adapting.nested_loop import NestedLoop, NestedLoopJoin
from tests.semantics.engine import Way, mismatch, run_engine, start
from tests.shards import shards

OPTIONS = {"joins": NestedLoop.name}


def draw(rng: random.Random) -> Case:
    window = rng.choice(["[RANGE 4 SECONDS]", "[ROWS 3]", "[RANGE 3 SECONDS SLIDE 2 SECONDS]"])
    joined = f"FROM R {window}, S {window} WHERE R.a = S.a" + rng.choice(["", " AND R.b < S.b"])
    tops = ("SELECT R.a, count(*) AS n, sum(S.b) AS x {} GROUP BY R.a", "SELECT max(R.b) AS x {}", "SELECT R.b, S.s {}")
    scale = draw_scale(rng)
    return Case(rng.choice(tops).format(joined), {n: draw_stream(rng, 20, 30, scale) for n in "RS"}, {}, scale=scale)


def test_answers_are_those_of_the_reference_inline_restored_and_on_shards() -> None:
    rows = 0
    for i in range(30):
        rng = random.Random(f"nested loop/{i}")
        case = draw(rng)
        expected = case.expected()
        rows += bool(expected)
        for way in (Way(i, options=OPTIONS), Way(i, small=True, snapshot=True, options=OPTIONS)):
            assert mismatch(case, expected, run_engine(case, way)) is None, case.snippet()
        sharded = shards.Way(shards=rng.choice([1, 4]), batches=3, seed=i, hot=0.5, options=OPTIONS)
        assert shards.check(case, sharded) is None, case.snippet()
    assert rows > 20


def test_the_choice_is_in_explain_the_plan_and_the_log() -> None:
    _, query = start(draw(random.Random(1)), Way(0, options=OPTIONS))
    assert "nested-loop-join 1: join operator nested-loop (the option 'joins' names it" in query.explain()
    chosen = query.plan().node("nested-loop-join 1").chosen
    assert (chosen["operator"], chosen["version"], chosen["cost"]) == ("nested-loop", 1, 1000.0)
    (decision,) = (d for d in query.decisions if d.after == "nested-loop")
    assert (
        decision.by == "planner"
        and decision.evidence["refused"]["fixed-join"] == "the option 'joins' names nested-loop"
    )


def test_another_operator_does_not_take_over_its_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = draw(random.Random(1))
    start(case, Way(0, options=OPTIONS))[0].snapshot(tmp_path)
    with pytest.raises(
        EddylineError, match="was run by nested-loop and would now be run by fixed-join: use the options"
    ):
        start(case, Way(0))[0].restore(tmp_path)
    start(case, Way(0, options=OPTIONS))[0].restore(tmp_path)
    monkeypatch.setattr(NestedLoop, "version", 2)
    with pytest.raises(EddylineError, match="by nested-loop with state of version 1, and this nested-loop has version"):
        start(case, Way(0, options=OPTIONS))[0].restore(tmp_path)


def test_the_choice_is_made_on_the_driver_shipped_and_part_of_a_checkpoint() -> None:
    case = draw(random.Random(1))
    then, now = (facts(Program((shards.plan(case, shards.Way(options=o)),))) for o in (OPTIONS, {}))
    assert "was run by nested-loop and would now be run by fixed-join; use the options" in explain(then, now)
    group = pickle.loads(pickle.dumps(shards.plan(case, shards.Way(options=OPTIONS))))
    assert [c.operator for _, c in group.planned[0].choices.made] == ["nested-loop"]


def test_an_operator_that_is_named_must_suit_somewhere() -> None:
    case = Case("SELECT R.a FROM R", {"R": draw(random.Random(1)).streams["R"]}, {})
    with pytest.raises(
        JobError, match="names the operator 'nested-loop', but this query has no join; leave the option"
    ):
        start(case, Way(0, options=OPTIONS))


@pytest.mark.parametrize("window", ["[RANGE 4]", "[ROWS 3]"])
def test_it_keeps_the_contract_of_operators(window: str) -> None:
    text = f"SELECT R.a, R.v, S.d FROM R {window}, S {window} WHERE R.a = S.a AND R.v < S.v"
    example = QueryExample(text, {"R": stream(1), "S": stream(2)}, options=OPTIONS)
    assert isinstance(next(o for o in record(example) if o.name.startswith("nested-loop")).make(), NestedLoopJoin)
    assert check_query(example) >= 10


def test_a_fault_in_it_is_found_by_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NestedLoopJoin, "load", lambda self, state: None)
    example = QueryExample(
        "SELECT R.a, S.d FROM R [RANGE 4], S [RANGE 4] WHERE R.a = S.a", {"R": stream(1), "S": stream(2)},
        options=OPTIONS,
    )  # fmt: skip
    with pytest.raises(CheckFailed, match="nested-loop-join 1"):
        check_query(example)


def test_it_is_one_short_file() -> None:
    assert nested_loop.__file__ is not None
    assert len(Path(nested_loop.__file__).read_text(encoding="utf-8").splitlines()) <= 120
