"""SLACK AUTO against its row-by-row form, and answers against the reference over the rows that were kept."""

from __future__ import annotations

import os
import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from eddyline.adaptive.disorder.policies import make_policy
from eddyline.engine.auto_slack import IMPLAUSIBLE, ON_TIME, AutoSlack
from eddyline.engine.watermark import Watermark
from eddyline.testing.auto_slack import AutoByRow
from eddyline.testing.case_data import TimeScale
from eddyline.testing.cases import Case
from eddyline.testing.reference import StreamData
from tests.scale import FACTOR
from tests.semantics.engine import Way, mismatch, save_and_restore, schedule, start

CASES = min(5.0, max(1.0, FACTOR))  # with fewer nothing would be late
SEED = int(os.environ.get("EDDYLINE_SEED", "0"))
POLICIES = ("auto(target=80, interval=8, window=64, horizon=1000)", "auto(target=95, interval=16, jump=5)", "auto")
QUERIES = (
    "SELECT a, b FROM S [ROWS 3]",
    "SELECT count(*) AS n, sum(a) AS s FROM S [RANGE 5]",
    "SELECT Istream(a) FROM S WHERE a > 1",
    "SELECT S.a, T.b FROM S [RANGE 3], T [RANGE 3] WHERE S.a = T.a",
    "SELECT a, count(*) AS n FROM S [RANGE 8 SLIDE 4] GROUP BY a",
)


def disordered(rng: random.Random, count: int, spread: int | None = None) -> list[int]:
    """Times with ties, disorder that changes, bursts of late rows, strays ahead and behind, and real jumps."""
    out: list[int] = []
    now = rng.randint(-50, 50)
    width = rng.choice([0, 3, 20]) if spread is None else spread
    while len(out) < count:
        event = rng.random()
        if event < 0.02:
            width = rng.choice([0, 2, 10, 60])
        elif event < 0.03:
            out.append(now + rng.choice([1_000, 10_000_000, 20_000_000]))  # one that cannot be
        elif event < 0.035:
            out.append(now - rng.choice([200, 100_000]))
        elif event < 0.04:
            now += rng.choice([50, 500, 20_000])  # time really moves
        elif event < 0.05:
            out += [now - 40 - rng.randint(0, 5) for _ in range(rng.randint(1, 12))]
        now += rng.choice([0, 0, 1, 1, 2])
        out.append(now - rng.randint(0, width))
    if rng.random() < 0.2:
        out[rng.randrange(5)] += 50_000_000  # the very first rows may be wrong, too
    return out[:count]


def test_batches_do_not_matter_and_rows_meet_the_fate_of_the_slow_form() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEED, SEED + max(2, round(60 * CASES))):
        rng = random.Random(seed)
        times = disordered(rng, rng.choice([5, 63, 64, 65, 300, 900]))
        text = rng.choice(POLICIES)
        slow = AutoByRow(text)
        on_time, late, invalid = slow.split([(t, i) for i, t in enumerate(times)])
        mark = Watermark()
        fast = AutoSlack(make_policy(text), mark)
        kept, behind, ahead, at = [], [], [], 0
        marks = []
        while at <= len(times):
            size = rng.choice([1, 7, 50, 400])
            part = np.array(times[at : at + size], np.int64)
            fates = fast.judge(part, at) if len(part) else fast.settle()
            kept += fates.number[fates.fate == ON_TIME].tolist()
            behind += fates.number[(fates.fate != ON_TIME) & (fates.fate != IMPLAUSIBLE)].tolist()
            ahead += fates.number[fates.fate == IMPLAUSIBLE].tolist()
            marks.append(mark.bound)
            at += size
            if rng.random() < 0.2:  # go on from what was saved
                saved, watermark = fast.state(), mark
                mark = Watermark(mark.slack, mark.shown, mark.floor)
                fast = AutoSlack(make_policy(text), mark)
                fast.load(saved)
                assert watermark.bound == mark.bound
        rest = fast.settle()
        kept += rest.number[rest.fate == ON_TIME].tolist()
        ahead += rest.number[rest.fate == IMPLAUSIBLE].tolist()
        behind += rest.number[(rest.fate != ON_TIME) & (rest.fate != IMPLAUSIBLE)].tolist()
        assert sorted(kept) == sorted(i for _, i in on_time), seed
        assert sorted(behind) == sorted(i for _, i in late), seed
        assert sorted(ahead) == sorted(i for _, i in invalid), seed
        assert marks == sorted(marks), "the watermark went back"
        assert mark.slack == slow.slack
        seen.update(late=len(late), ahead=len(invalid), decisions=len(fast.decisions))
    assert min(seen["late"], seen["ahead"]) > 50, seen
    assert seen["decisions"] > 50, seen


def case_of(rng: random.Random) -> Case:
    text = rng.choice(QUERIES)
    streams = {}
    for name in ("S", "T") if "T [" in text else ("S",):
        times = disordered(rng, rng.choice([70, 150, 220]), rng.choice([0, 4, 12]))
        rows = [{"ts": t, "a": rng.choice([None, 1, 2, 3]), "b": rng.randint(0, 3)} for t in times]
        full = [{**dict.fromkeys(TimeScale().schema().names), **r} for r in rows]
        elements = tuple((r["ts"], r) for r in full)
        streams[name] = StreamData(elements, auto=rng.choice(POLICIES[:2]))
    return Case(text, streams, {})


@pytest.mark.parametrize("part", range(4))
def test_answers_are_those_of_the_reference_over_the_rows_that_were_kept(part: int) -> None:
    late = implausible = 0
    for seed in range(SEED + part * 1000, SEED + part * 1000 + max(1, round(6 * CASES))):
        rng = random.Random(seed)
        case = case_of(rng)
        way = Way(seed, batch=rng.choice([None, 1, 16]), snapshot=rng.random() < 0.5)
        reference = case.reference()
        session, query = start(case, way)
        pushes = schedule(case, way)
        stop = rng.randint(0, len(pushes)) if way.snapshot else None
        batches = []
        for i, push in enumerate(pushes):
            if i == stop:
                batches += query.fetch()
                session, query = save_and_restore(case, way, session)
            session.push(*push)
        session.finish()
        table = pa.Table.from_batches([*batches, *query.fetch()], query.schema)
        assert mismatch(case, reference.run(), table) is None, case.snippet()
        for name, stream in session.inputs.items():
            assert stream.late.count == len(reference.late[name.upper()])
            assert stream.invalid.count == len(reference.invalid[name.upper()])
            late += stream.late.count
            implausible += stream.invalid.count
    print(f"{late} late and {implausible} implausible rows")
    assert late > 20 and implausible > 0
