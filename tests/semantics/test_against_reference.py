"""The whole engine against the reference: random queries, windows, streams, batches, disorder, snapshots.

``EDDYLINE_CASES`` scales the number of cases (1 is 300; ``make test-deep`` runs five times as many),
``EDDYLINE_SEED`` moves to other ones.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eddyline.testing.cases import Case, draw_case
from eddyline.testing.coverage import Coverage
from eddyline.testing.reference import StreamData
from eddyline.testing.shrinking import shrink
from tests.scale import DEEP, FACTOR, scaled
from tests.semantics.engine import HASTY, JOINS, ROUTES, Way, check, mismatch, run_engine, schedule, start

SEED = int(os.environ.get("EDDYLINE_SEED", "2004"))
CASES = max(10, round(300 * FACTOR))
MOST_CASES = max(2 * CASES, 8000)  # of a deep run, in which each cell must have been met fifty times
PARTS = 10


def ways(rng: random.Random) -> list[Way]:
    """Each case runs twice: once in batches at random, once in another way."""
    seed = rng.randrange(1 << 30)
    other = rng.choice(
        [
            Way(seed, batch=1),
            Way(seed, batch=1000, interleave=False),
            Way(seed, snapshot=True),
            Way(seed, snapshot=True, small=True),
            Way(seed, small=True),
            Way(seed, heartbeats=True),
            Way(seed, encoded=True),
            Way(seed, encoded=True, snapshot=True),
            Way(seed, toggle=True, twins=1),
            Way(seed, snapshot=True, twins=1),
            Way(seed, options={"scheduler": rng.choice(["greedy", "chain"])}),
            Way(seed, small=True, options={"filters": rng.choice(HASTY)}),
            Way(seed, small=True, snapshot=True, options={"filters": rng.choice(HASTY)}),
            Way(seed, small=True, snapshot=rng.random() < 0.5, options=rng.choice(JOINS)),
            Way(seed, small=True, snapshot=rng.random() < 0.5, options={"routing": rng.choice(ROUTES)}),
        ]
    )
    return [Way(seed), other]


def explain_failure(case: Case, way: Way, seed: str) -> str:
    """A small case that still fails, as Python text."""
    small = shrink(case, lambda c: check(c, way) is not None, attempts=400)
    what = check(small, way) or "(not reproduced)"
    return f"seed {seed}, {way}\n{case.text}\n{what}\n\n{small.snippet()}\n"


@pytest.mark.parametrize("part", range(PARTS))
def test_engine_agrees_with_the_reference(part: int, coverage: Coverage) -> None:
    for i in range(part * CASES // PARTS, (part + 1) * CASES // PARTS):
        one_case(i, coverage)


def one_case(number: int, coverage: Coverage) -> None:
    rng = random.Random(f"{SEED}/{number}")
    case = draw_case(rng, coverage.next_focus(rng))
    reference = case.reference()
    expected = reference.run()
    late = any(reference.late.values())
    coverage.add(case.features(), len(expected), late=late, nulls=case.nulls, ties=case.ties)
    for way in ways(rng):
        if mismatch(case, expected, run_engine(case, way)) is not None:
            pytest.fail(explain_failure(case, way, f"{SEED}/{number}"), pytrace=False)


def test_the_cases_cover_the_language(coverage: Coverage) -> None:
    """At least fifty cases of each operator × window × relation-to-stream in the deep run; 60 % with results."""
    if not coverage.cases:
        pytest.fail("run the whole file: coverage is counted by the tests above")
    number = CASES
    while DEEP and coverage.least < 50 and number < MOST_CASES:  # the last cells take a few more
        one_case(number, coverage)
        number += 1
    if coverage.cases < 100:  # a run with few cases: their shares vary too much to be judged
        return
    assert coverage.non_empty_share >= 0.6
    assert coverage.ties >= 0.9 * coverage.cases
    assert coverage.nulls >= 0.9 * coverage.cases
    assert coverage.late >= 0.3 * coverage.cases
    assert coverage.least >= (50 if DEEP else coverage.cases // 400)


@settings(max_examples=scaled(30, least=5), deadline=None, suppress_health_check=list(HealthCheck))
@given(rng=st.randoms(use_true_random=False), seed=st.integers(0, 1 << 20))
def test_engine_agrees_whatever_hypothesis_draws(rng: random.Random, seed: int) -> None:
    case = draw_case(rng)
    way = Way(seed, snapshot=seed % 3 == 0)
    what = check(case, way)
    assert what is None, f"{way}\n{what}\n\n{case.snippet()}"  # hypothesis makes it small


def test_a_query_that_comes_later_sees_what_comes_then() -> None:
    """In a session that runs already, and that others leave: as if there had been nothing before."""
    compared = 0
    for i in range(scaled(60, least=8)):
        rng = random.Random(f"{SEED}/later/{i}")
        case = draw_case(rng)
        if any(r.timestamp is not None for r in case.relations.values()):
            continue  # a relation is something before the query comes
        pushes = schedule(case, Way(i))
        later = rng.randint(0, len(pushes))
        rest = after(case, pushes[:later])
        if rest is None:
            continue
        session, first = start(case, Way(i))
        for name, batch in pushes[:later]:
            session.push(name, batch)
        query = session.query(case.text)
        if rng.random() < 0.3:
            session.drop(first)
        for name, batch in pushes[later:]:
            session.push(name, batch)
        session.finish()
        table = pa.Table.from_batches(query.fetch(), query.schema)
        found = mismatch(case, rest.expected(), table)
        assert found is None, f"{found}\nafter {later} batches of {case.snippet()}"
        compared += 1
    assert compared > 2


def after(case: Case, pushed: Sequence[tuple[str, pa.RecordBatch]]) -> Case | None:
    """The case of the elements on time that come after those pushed; None if time has gone further before."""
    streams = {}
    if any(data.unique for data in case.streams.values()):
        return None  # keys that were seen before the query came count, and the reference would not know them
    for name, data in case.streams.items():
        seen = sum(batch.num_rows for n, batch in pushed if n == name)
        before, rest = -math.inf, []
        largest = -math.inf
        for i, (ts, row) in enumerate(data.elements):
            if ts is None or ts < largest - data.slack:
                continue
            largest = max(largest, ts)
            if i < seen:
                before = largest
            else:
                rest.append((ts, row))
        if before > max((ts for ts, _ in rest), default=-math.inf):
            return None
        streams[name] = StreamData(rest, slack=1 << 60)  # what is late is gone
    return replace(case, streams=streams)


def test_the_reference_agrees_with_itself_when_it_skips_quiet_instants() -> None:
    from eddyline.testing.reference import Reference

    for i in range(40):
        case = draw_case(random.Random(f"skip/{i}"), plain=i % 2 == 0)
        if case.scale.unit > 1:
            continue  # every microsecond of half a minute
        query = case.bound()
        answers = [Reference(query, case.streams, case.relations, every_tick=e).run() for e in (True, False)]
        assert answers[0] == answers[1], case.snippet()
