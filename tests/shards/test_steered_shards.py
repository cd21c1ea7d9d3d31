"""Shards that are steered between micro-batches: letters reach each shard once, and no answer shows them."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from eddyline.adapting import conjunction as adaptive_conjunction
from eddyline.adapting import join_choice as joining
from eddyline.spark.letters import STEERING, Letter, Mailbox, read_letters
from eddyline.spark.shard import ShardEngine
from eddyline.spark.sources.guard import Guard
from eddyline.testing.cases import draw_case
from tests.semantics.engine import quick_pace
from tests.semantics.steering import options
from tests.shards.shards import Way, arrive, compare, plan, run

FACTOR = float(os.environ.get("EDDYLINE_CASES", "1"))
SEED = os.environ.get("EDDYLINE_SEED", "2018")
CASES = max(8, round(40 * FACTOR))


def letter(rng: random.Random) -> Letter:
    return rng.choice(
        [
            {"alter": options(rng, long=False)},
            {"alter": options(rng, long=False)},
            {"pin": rng.random() < 0.5},
            {"undo": rng.randint(1, 6), "shard": None},
        ]
    )


def test_steered_shards_agree_with_the_reference() -> None:
    did: Counter[str] = Counter()
    for number in range(CASES):
        rng = random.Random(f"{SEED}/shards/{number}")
        case = draw_case(rng)
        way = Way(rng.choice([1, 2, 4]), rng.choice([3, 6]), rng.randrange(1 << 20), hot=rng.choice([0.0, 0.5, 1.0]))
        arrived = arrive(case, way)
        sent = [[letter(rng) for _ in range(rng.randrange(3))] for _ in range(arrived.count)]
        with ExitStack() as stack:
            stack.enter_context(patch.object(joining, "Pace", quick_pace))
            stack.enter_context(
                patch.multiple(adaptive_conjunction, FIRST_ROWS=1, TRIAL_ROWS=4, MIN_ROWS=1, MAX_ROWS=4, BURST_ROWS=2)
            )
            answer = run(arrived, way, sent.__getitem__)
        wrong = compare(arrived, answer)
        assert wrong is None, (number, way, sent, case.text, wrong)
        did.update(d["kind"].split()[0] for d in answer.report["decisions"] if d["by"] == "user")
    print(did)
    assert did["option"] > CASES // 4 and did["pinned"] > CASES // 8


def test_a_shard_that_cannot_do_what_it_is_told_says_so_and_goes_on() -> None:
    case = draw_case(random.Random(3))
    way = Way(2)
    engine = ShardEngine(plan(case, way), 1)
    list(engine.process([(STEERING, 0, None, None, 0, False, b'[{"undo": 99, "shard": 1}, {"pin": true}]')]))
    assert "no decision 99 in its log" in engine.statistics()["refused"][0]
    assert engine.queries[0].steering.pinned
    list(engine.process([(STEERING, 0, None, None, 0, False, b'[{"pin": false, "shard": 0}]')]))
    assert engine.queries[0].steering.pinned  # the letter was for another shard
    assert "refused" not in engine.statistics()


def test_letters_travel_in_the_offset_and_are_delivered_once() -> None:
    box = Mailbox()
    guard = Guard("program", "facts", box.path, (7, 8))
    start = guard.latestOffset(guard.initialOffset(), ReadAllAvailable())
    assert start == {"program": "program", "facts": "facts"}
    assert guard.latestOffset(start, ReadAllAvailable()) == start
    box.send({"pin": True})
    box.send({"alter": {"filters": "sweep"}})
    then = guard.latestOffset(start, ReadAllAvailable())
    assert then["sent"] == 2
    rows = delivered(guard, start, then)
    assert [r[0] for r in rows] == [7, 8] and {r[1] for r in rows} == {STEERING}
    assert b"sweep" in rows[0][7]
    assert guard.latestOffset(then, ReadAllAvailable()) == then
    assert delivered(guard, then, then) == []
    # Another run of the same checkpoint, with a mailbox of its own, first runs the last micro-batch again.
    again = Guard("program", "facts", Mailbox().path, (7, 8))
    assert delivered(again, start, then) == rows
    assert again.latestOffset(then, ReadAllAvailable()) == then


def delivered(guard: Guard, start: dict[str, Any], end: dict[str, Any]) -> list[Sequence[Any]]:
    return [row for p in guard.partitions(start, end) for row in guard.read(p)]


def test_a_letter_that_is_being_written_waits() -> None:
    box = Mailbox()
    box.send({"pin": True})
    with Path(box.path).open("a", encoding="utf-8") as file:
        file.write('{"pin": fal')
    assert read_letters(box.path, 0) == [{"pin": True}]
    assert read_letters("", 0) == read_letters(f"{box.path}.gone", 0) == []


@pytest.mark.parametrize("slack", [0, 30])
def test_a_slack_that_is_altered_counts_from_the_next_micro_batch_on(slack: int) -> None:
    case = draw_case(random.Random(11))
    way = Way(1, 3, 4)
    engine = ShardEngine(plan(case, way), 0)
    lane = engine.group.lanes[0]
    stream = engine.streams[0]
    letters = f'[{{"stream": "{lane.source}", "widths": {{"slack": {slack}}}}}]'.encode()
    list(engine.process([(STEERING, 0, None, None, 0, False, letters)]))
    assert stream.widths["slack"] == slack
    fresh = ShardEngine(plan(case, way), 0)
    fresh.load(engine.state())
    assert fresh.streams[0].widths["slack"] == slack
