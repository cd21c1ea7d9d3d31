"""Multi-route joins with options at random against the reference: partitions of one row, one batch in flight, batches
of one row, hardly any memory, equalities beside ranges, NULLs, ties, disorder and late rows; inline, restored, with
twins that share state modules, restored with another index several times, and on shards.

``EDDYLINE_CASES`` scales the number of cases, ``EDDYLINE_SEED`` moves to others.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from contextlib import ExitStack
from typing import Any

import pyarrow as pa
import pytest

from eddyline.testing.case_data import draw_relation, draw_scale, draw_stream
from eddyline.testing.cases import Case
from tests.scale import scaled
from tests.semantics.engine import Way, mismatch, run_engine, save_and_restore, schedule, start
from tests.semantics.test_long_routed_joins import any_bits, any_machine
from tests.shards import shards

SEED = os.environ.get("EDDYLINE_SEED", "2012")
CASES = scaled(40, least=12, most=2_000)
PARTS = 4
SELECTS = (
    "{p}.a, count(*) AS n, sum({q}.b) AS t",
    "count(*) AS n, max({q}.x) AS m",
    "{p}.b, {q}.s",
    "Istream({p}.a, {q}.b)",
    "Dstream({p}.a, {q}.s)",
    "Rstream({p}.b, count(*) AS n)",
    "DISTINCT {p}.a, {q}.a AS other",
    "Istream({p}.ts, {q}.ts AS other)",
)
SEEN: Counter[str] = Counter()


def draw_index(rng: random.Random) -> str:
    """An index with any of its parameters."""
    name = rng.choice(["amri", "amri", "amri", "fitting", "fitting", "hash", "bitmap", "single"])
    options: dict[str, Any] = {
        "partition": rng.choice([1, 1, 2, 3, 7, 40]),
        "batch": rng.choice([1, 1, 2, 5, 1000]),
        "in_flight": rng.choice([1, 1, 2, 9]),
        "routes": rng.choice(["greedy", "lottery", "random", "written"]),
        "explore": rng.choice([1, 2, 64]),
        "seed": rng.randrange(100),
    }
    if name != "single":
        options |= {
            "window": rng.choice([1, 3, 20]),
            "periodic": rng.choice([1, 5, 60]),
            "triggered": rng.choice([1, 7, 80]),
            "change": rng.choice([0.01, 0.2, 5]),
            "assessment": rng.choice(["sria", "dia", "csria", "cdia", "cdia-random"]),
            "theta": rng.choice([0.05, 0.5, 1]),
            "epsilon": rng.choice([0.01, 0.05, 0.5]),
            "scheduling": rng.choice(["hybrid", "continuous", "periodic", "triggered"]),
            "migration": rng.choice(["expected", "nothing", "all", "partial"]),
            "costs": rng.choice(["counted", "measured"]),
        }
    if name == "hash":
        options["count"] = rng.choice([1, 2, 7, 64])
    if name in ("amri", "bitmap", "fitting") and rng.random() < 0.6:
        options["memory"] = rng.choice([1, 60, 500, 10**9])
    kept = rng.sample(sorted(options), rng.randint(0, len(options)))
    always = {"partition", "batch", "window", "costs", "count"} & options.keys()
    return f"{name}({', '.join(f'{o} = {options[o]}' for o in sorted({*kept, *always}))})"


def draw_window(rng: random.Random, scale: Any) -> str:
    width = scale.width(rng.randint(1, 12), rng)
    sliding = f"[RANGE {scale.width(rng.randint(1, 6), rng, False)} SLIDE {scale.width(rng.randint(1, 4), rng, False)}]"
    rows = f"[ROWS {rng.choice([1, 2, 3, 5, 9, 30])}]"
    return rng.choice([f"[RANGE {width}]", f"[RANGE {width}]", rows, rows, rows, sliding, "[NOW]", "[ROWS UNBOUNDED]"])


def draw(rng: random.Random) -> Case:
    """Two to four inputs, of which one may be a relation and one a stream that is there already."""
    scale = draw_scale(rng)
    count = rng.choice([2, 3, 3, 4])
    names = [f"i{n}" for n in range(count)]
    sources, relations, streams = [], {}, {}
    for n, alias in enumerate(names):
        if n and rng.random() < 0.15 and not relations:
            relations["K"] = draw_relation(rng, "K", 20, scale)
            sources.append(("K", "", alias))
            continue
        stream = rng.choice("RST")
        streams[stream] = None
        sources.append((stream, draw_window(rng, scale), alias))
    conditions = []
    for n in range(1, count):
        before = rng.randrange(n)
        conditions.append(condition(rng, (before, sources[before][0]), (n, sources[n][0]), 0.7))
    for _ in range(rng.choice([0, 0, 1])):
        one, other = sorted(rng.sample(range(count), 2))
        conditions.append(condition(rng, (one, sources[one][0]), (other, sources[other][0]), 0.4))
    if rng.random() < 0.2 and sources[0][0] != "K":
        conditions.append(f"i0.b {rng.choice(['<', '>', '<>'])} 2")
    first = next(alias for source, _, alias in sources if source != "K")
    last = next(alias for source, _, alias in reversed(sources) if source != "K")
    select = rng.choice(SELECTS).format(p=first, q=last)
    tables = ", ".join(" ".join(filter(None, s)) for s in sources)
    text = f"SELECT {select} FROM {tables} WHERE {' AND '.join(conditions)}"
    group = {f"{first}.a, count": f" GROUP BY {first}.a", f"Rstream({first}.b, count": f" GROUP BY {first}.b"}
    text += next((g for start, g in group.items() if select.startswith(start)), "")
    most = {2: 30, 3: 20, 4: 13}[count]
    data = {n: draw_stream(rng, rng.randint(8, most), rng.choice([9, 15, 30]), scale) for n in streams}
    return Case(text, data, relations, scale=scale)


def condition(rng: random.Random, one: tuple[int, str], other: tuple[int, str], equal: float) -> str:
    columns = ["kkv" if source == "K" else "aaabbx" for _, source in (one, other)]
    left, right = (f"i{n}.{rng.choice(c)}" for (n, _), c in zip((one, other), columns, strict=True))
    if rng.random() < 0.15:
        left, right = (f"i{n}.{'w' if source == 'K' else 's'}" for n, source in (one, other))
    if rng.random() < 0.1:
        left = f"{left.replace('.s', '.a').replace('.w', '.k').replace('.x', '.b')} + 1"
        right = right.replace(".s", ".a").replace(".w", ".k")
    return f"{left} {'=' if rng.random() < equal else rng.choice(['<', '<=', '>', '>=', '<>'])} {right}"


def restored(case: Case, way: Way, indexes: list[str]) -> pa.Table:
    """The answer of a query that is saved between batches and goes on with another index."""
    rng = random.Random(way.seed)
    session, query = start(case, way)
    batches: list[pa.RecordBatch] = []
    pushes = schedule(case, way)
    for push in pushes:
        if rng.random() < 0.12:
            way = Way(way.seed, options={**way.options, "index": rng.choice(indexes)})
            batches += query.fetch()
            session, query = save_and_restore(case, way, session)
            SEEN["restored"] += 1
        session.push(*push)
    session.finish()
    return pa.Table.from_batches([*batches, *query.fetch()], query.schema)


@pytest.mark.parametrize("part", range(PARTS))
def test_answers_with_any_options_are_those_of_the_reference(part: int) -> None:
    for number in range(part, CASES, PARTS):
        one_case(number)


def one_case(number: int) -> None:
    rng = random.Random(f"{SEED}/routed options/{number}")
    case = draw(rng)
    expected = case.expected()
    SEEN["cases"] += 1
    SEEN["with results"] += bool(expected)
    seed, index = rng.randrange(1 << 30), draw_index(rng)
    options = {"joins": "routes", "index": index}
    ways = [
        Way(seed, options=options), Way(seed, small=True, snapshot=True, options=options),
        Way(seed, twins=2, toggle=rng.random() < 0.5, snapshot=True, options=options),
    ]  # fmt: skip
    with ExitStack() as stack:
        if rng.random() < 0.7:
            stack.enter_context(any_machine(rng))
        if rng.random() < 0.5:
            stack.enter_context(any_bits(rng))
        for way in ways:
            wrong = mismatch(case, expected, run_engine(case, way))
            assert wrong is None, f"{SEED}/{number} {way}\n{wrong}\n{case.snippet()}"
        way = Way(seed, options=options)
        wrong = mismatch(case, expected, restored(case, way, [index, *(draw_index(rng) for _ in range(2))]))
        assert wrong is None, f"{SEED}/{number} restored {way}\n{wrong}\n{case.snippet()}"
        sharded = shards.Way(shards=rng.choice([1, 4]), batches=3, seed=seed, hot=0.5, options=options)
        wrong = shards.check(case, sharded)
        assert wrong is None, f"{SEED}/{number} {sharded}\n{wrong}\n{case.snippet()}"


def test_the_cases_have_results() -> None:
    if SEEN["cases"] < CASES:
        pytest.fail("run the whole file: what the cases did is counted by the tests above")
    assert SEEN["with results"] > 0.4 * CASES and SEEN["restored"] > CASES // 4
