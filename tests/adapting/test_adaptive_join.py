"""Joins that re-order and cache themselves: the answers of the reference under any policy, plans that change all the
time, what was learned in snapshots, and one sentence for each mistake.

``EDDYLINE_CASES`` scales the number of random cases, ``EDDYLINE_SEED`` moves to other ones.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.adapting.adaptive_join import AdaptiveJoin
from eddyline.core.errors import JobError
from eddyline.datasets.joins import in_step
from eddyline.streamon.decision import PLANNER
from eddyline.testing.shrinking import shrink
from tests.adapting.join_cases import draw_join, draw_options
from tests.semantics.engine import Way, check, mismatch, run_engine

FACTOR = float(os.environ.get("EDDYLINE_CASES", "1"))
SEED = os.environ.get("EDDYLINE_SEED", "2005")
CASES = max(20, round(120 * FACTOR))
PARTS = 4
SEEN: Counter[str] = Counter()


@contextmanager
def watched() -> Iterator[list[AdaptiveJoin]]:
    """The joins that are made, so that the test can see that it tested something."""
    made: list[AdaptiveJoin] = []
    original = AdaptiveJoin.__init__

    def note(self: AdaptiveJoin, *given: Any) -> None:
        original(self, *given)
        made.append(self)

    with patch.object(AdaptiveJoin, "__init__", note):
        yield made


@pytest.mark.parametrize("part", range(PARTS))
def test_answers_are_those_of_the_reference(part: int) -> None:
    for number in range(part, CASES, PARTS):
        rng = random.Random(f"{SEED}/join/{number}")
        case, shape = draw_join(rng)
        expected = case.expected()
        SEEN.update([f"{shape.inputs} inputs", shape.name, "cases", *(["non-empty"] if expected else [])])
        for _ in range(2):
            way = Way(
                rng.randrange(1 << 30),
                snapshot=rng.random() < 0.4,
                small=rng.random() < 0.6,
                batch=rng.choice([None, None, 1000]),
                options=draw_options(rng, shape),
            )
            with watched() as joins:
                found = mismatch(case, expected, run_engine(case, way))
            if found is not None:
                small = shrink(case, lambda c, way=way: check(c, way) is not None, attempts=300)
                pytest.fail(f"{number} {way}\n{case.text}\n{check(small, way)}\n\n{small.snippet()}", pytrace=False)
            for join in joins:
                kinds = {d.kind.split(" Δ")[0] for d in join.run_history.log}
                SEEN.update(kinds)
                SEEN["hits"] += join.caching is not None and any(
                    c["state"] == "used" and (c["miss"] or 0) < 1 for c in join.caching.statistics()["caches"]
                )


def test_the_cases_are_of_all_kinds() -> None:
    if SEEN["cases"] < CASES:
        pytest.fail("run the whole file: kinds are counted by the test above")
    assert SEEN["non-empty"] > 0.5 * SEEN["cases"]
    assert all(SEEN[f"{n} inputs"] >= 0.03 * CASES for n in range(2, 8))
    assert SEEN["order of"] > 0.3 * CASES and SEEN["join caches"] > 0.2 * CASES and SEEN["hits"] > 0.05 * CASES, SEEN


# ── longer runs, beside a join whose plan stays ───────────────────────────────────────────────────────────────────

ELEMENTS = 20_000
CHAIN = "FROM R [{0}] r, S [{0}] s, T [{0}] t, U [{0}] u WHERE r.a = s.a AND s.b = t.b AND t.a = u.a"
STAR = "FROM R [{0}] r, S [{0}] s, T [{0}] t, U [{0}] u WHERE r.a = s.a AND r.a = t.a AND r.b = u.b"
WINDOWS = "FROM R [ROWS 9] r, S [ROWS 9] s, T [ROWS 9] t"
CYCLE = "FROM R [{0}] r, S [{0}] s, T [{0}] t WHERE r.a = s.a AND s.b = t.b AND t.a = r.b"


def drifting(seed: int) -> dict[str, pa.Table]:
    """Four streams whose rates and values change half-way: now one is fast and seldom matches, now another."""
    rng = np.random.default_rng(seed)
    tables = {}
    for i, name in enumerate("RSTU"):
        parts = []
        for half in (0, 1):
            fast = i == (3 if half == 0 else 0)
            count = ELEMENTS if fast else ELEMENTS // 5
            ts = np.sort(rng.integers(half * ELEMENTS, (half + 1) * ELEMENTS, count))
            spread = 12 if (i + half) % 2 else 60
            a, b = rng.integers(0, spread, (2, count))
            keys = {"a": pa.array(a, mask=rng.random(count) < 0.02), "b": pa.array(np.where(a % 3 == 0, a, b))}
            parts.append(pa.table({"ts": ts, **keys}))
        tables[name] = pa.concat_tables(parts)
    return tables


def answers(tables: dict[str, pa.Table], text: str, **options: Any) -> tuple[Counter[Any], Any]:
    session = ed.Session()
    for name, table in tables.items():
        session.stream(name, table, timestamp="ts")
    query = session.query(text, **options)
    found = query.to_arrow()
    return Counter(zip(*(c.to_pylist() for c in found.columns), strict=True)), query


@pytest.mark.parametrize("graph", [CHAIN, STAR, CYCLE])
@pytest.mark.parametrize("window", ["RANGE 40", "ROWS 12", "RANGE 60 SLIDE 7"])
def test_long_runs_agree_with_a_plan_that_stays(graph: str, window: str) -> None:
    tables = drifting(len(graph) + len(window))
    text = f"SELECT Istream(r.ts AS x, s.ts AS y, t.ts AS z) {graph.format(window)}"
    expected, still = answers(tables, text, joins="static", caches="none")
    assert sum(expected.values()) > 100 and not [d for d in still.decisions if d.by != PLANNER]
    kinds: set[str] = set()
    for options in (
        {},
        {"joins": "a-greedy(p=0.2, window=100)", "caches": "global(interval=2000)"},
        {"joins": "sweep(p=0.2, window=100)", "caches": "prefix(interval=500, W_d=32, memory=4096, page=256)"},
        {"joins": "static", "caches": "global(interval=300, W=3, W_d=16, m=12)"},
        {"tree": "((r, s), (t, u))" if "U [" in graph else "((r, s), t)"},
    ):
        found, query = answers(tables, text, **options)
        assert found == expected, options
        kinds |= {d.kind.split(" Δ")[0] for d in query.decisions}
        json.dumps([query.report(), query.statistics()])
        query.explain()
    assert "order of" in kinds and (graph != CHAIN or "join caches" in kinds)


def test_a_budget_holds_and_less_of_it_is_not_a_cliff() -> None:
    tables = drifting(4)
    text = f"SELECT Istream(r.ts AS x) {CHAIN.format('RANGE 40')}"
    work = {}
    for memory in (0, 4096, 65_536, 1 << 22):
        _, query = answers(tables, text, joins="static", caches=f"global(interval=1000, memory={memory})")
        (told,) = query.statistics().values()
        assert told["cache_bytes"] <= memory + 2048  # the Bloom filters of candidates are beside the budget
        work[memory] = told["accesses"]
    assert work[1 << 22] <= 1.02 * work[0]
    assert max(work.values()) <= 1.1 * work[0], work


def test_what_was_learned_goes_on_after_a_restart(tmp_path: Path) -> None:
    tables = drifting(5)
    text = f"SELECT Istream(r.ts AS x) {CHAIN.format('RANGE 40')}"

    def started() -> tuple[ed.Session, Any]:
        session = ed.Session()
        for name, table in tables.items():
            session.stream(name, schema=table.schema, timestamp="ts")
        return session, session.query(text, joins="a-greedy(p=0.2, window=100)", caches="global(interval=1000)")

    def push(session: ed.Session, low: int, high: int) -> None:
        for name, table in tables.items():
            ts = np.asarray(table["ts"])
            for batch in table.slice(
                int(np.searchsorted(ts, low)), int(((ts >= low) & (ts < high)).sum())
            ).to_batches():
                session.push(name, batch)

    session, query = started()
    push(session, 0, ELEMENTS)
    first = query.fetch()
    session.snapshot(tmp_path)
    before = query.statistics()
    other, restored = started()
    other.restore(tmp_path)
    after = restored.statistics()
    (was,), (now,) = before.values(), after.values()
    assert was["orders"] == now["orders"] and was["elements"] == now["elements"] > 0
    assert [c["cache"] for c in was["caches"] if c["state"] == "used"] == [
        c["cache"] for c in now["caches"] if c["state"] == "used"
    ]
    push(other, ELEMENTS, 2 * ELEMENTS)
    other.finish()
    found = pa.Table.from_batches([*first, *restored.fetch()], query.schema)
    expected, _ = answers(tables, text, joins="static", caches="none")
    assert Counter(zip(*(c.to_pylist() for c in found.columns), strict=True)) == expected


# ── explain ───────────────────────────────────────────────────────────────────────────────────────────────────────


def joins_of(query: Any) -> list[str]:
    """The section about joins."""
    _, _, rest = query.explain().partition("\njoins")
    return [line.strip() for line in rest.partition("\n\n")[0].splitlines()]


def test_explain_draws_orders_caches_and_what_they_cost() -> None:
    text = f"SELECT Istream(r.ts AS x) {CHAIN.format('RANGE 40')}"
    options = {"joins": "a-greedy(p=0.2, window=100)", "caches": "global(interval=2000)"}
    _, query = answers(drifting(4), text, **options)
    legend, first, cost, *lines = joins_of(query)
    assert "ΔR → S → [T → U]" in legend
    assert first == "mjoin 1: orders by the policy a-greedy, caches by the policy global"
    assert "elements came or left" in cost and "accesses each" in cost and "more to learn" in cost
    (told,) = query.statistics().values()
    for line, (name, order) in zip(lines, told["orders"].items(), strict=False):
        assert line.replace("[", "").replace("]", "") == f"Δ{name} → {' → '.join(order)}"
    caches = [line for line in lines if line.startswith("cache ")]
    assert caches and len([c for c in caches if "not used" in c or "weighed" in c]) <= 6
    used = [c["cache"] for c in told["caches"] if c["state"] == "used"]
    assert [c.partition(": ")[0].removeprefix("cache in use").strip() for c in caches if "in use" in c] == used
    _, ordered = answers(drifting(4), text, joins="static", caches="global(interval=2000)")
    figures = [line for line in joins_of(ordered) if line.startswith("cache ")]
    assert any("hit" in c and "accesses an element" in c for c in figures)
    assert "filters" not in query.explain()
    decided = [d for d in query.decisions if d.kind.startswith("order of")]
    assert decided and all("accesses a tuple" in d.reason and "e-0" not in d.reason for d in decided)
    assert all(d.evidence for d in query.decisions if d.kind == "join caches" and d.time is not None)
    assert any(d.measured_gain is not None for d in query.decisions)


def test_explain_says_which_plan_stays() -> None:
    tables = drifting(4)
    text = f"SELECT Istream(r.ts AS x) {CHAIN.format('RANGE 40')}"
    _, still = answers(tables, text, joins="static", caches="none")
    _, why, cost, *drawn = joins_of(still)
    assert why == "mjoin 1: the orders stay as they are, and there are no caches" and drawn[0] == "Δr → s → t → u"
    (told,) = still.statistics().values()
    each = told["accesses"] / told["elements"]
    assert cost == f"{told['elements']:,} elements came or left, {each:.2f} accesses each"
    _, tree = answers(tables, text, tree="((R, s), (T, u))")
    _, why, cost, *drawn = joins_of(tree)
    assert why == "mjoin 1: the tree (r⋈s)⋈(t⋈u) stays" and "accesses each" in cost
    assert drawn[:4] == [
        "Δr → s → [t → u]",
        "Δs → r → [t → u]",
        "Δt → u → [s → r]",
        "Δu → t → [s → r]",
    ]
    assert drawn[4].startswith("kept: t⋈u, for Δr, Δs, ")
    told = {d.kind: d.after for d in tree.decisions}
    assert told == {"join operator": "tree-join", "join tree": "(r⋈s)⋈(t⋈u)"}


def test_explain_says_that_a_tree_has_a_product_and_what_caches_may_take() -> None:
    chain = "SELECT Istream(r.a) FROM R [ROWS 9] r, S [ROWS 9] s, T [ROWS 9] t WHERE r.a = s.a AND s.b = t.b"
    for options, told in (
        ({"tree": "((r, t), s)"}, "though no condition joins r with t: a product"),
        ({"caches": "global(memory = 8192)"}, "caches take 0 B of 8.0 kB"),
        ({"caches": "global(memory = 0)"}, "there is no memory for caches, not even a page"),
    ):
        session = ed.Session()
        for name in "RST":
            schema = pa.schema([("ts", pa.int64()), ("a", pa.int64()), ("b", pa.int64())])
            session.stream(name, schema=schema, timestamp="ts")
        assert told in str(session.query(chain, **options).explain()), (options, session.queries[0].explain())


def test_an_input_that_must_be_equal_to_itself_has_no_caches() -> None:
    text = f"SELECT Istream(r.ts AS x) {WINDOWS} WHERE r.a = s.a AND r.b = s.a AND s.b = t.b"
    found, query = answers(drifting(4), text)
    assert "no caches: two columns of r must be equal to the same" in joins_of(query)[1]
    assert found == answers(drifting(4), text, tree="((r, s), t)")[0]


def test_a_tree_goes_on_after_a_restart(tmp_path: Path) -> None:
    text = f"SELECT Istream(r.ts AS x, t.ts AS y) {WINDOWS} WHERE r.a = s.a AND s.b = t.b"
    tables = {n: t.slice(0, 400) for n, t in drifting(6).items() if n != "U"}
    expected, _ = answers(tables, text, joins="static", caches="none")
    found: Counter[Any] = Counter()
    session, query = ed.Session(), None
    for part in (0, 1):
        session = ed.Session()
        for name, table in tables.items():
            session.stream(name, schema=table.schema, timestamp="ts")
        query = session.query(text, tree="((r, s), t)")
        if part:
            session.restore(tmp_path)
        for name, table in tables.items():
            for batch in table.slice(200 * part, 200).to_batches():
                session.push(name, batch)
        if part:
            session.finish()
        found.update(row for b in query.fetch() for row in zip(*(c.to_pylist() for c in b.columns), strict=True))
        session.snapshot(tmp_path) if not part else None
    assert query is not None and found == expected
    assert "Δt → [s → r]" in joins_of(query)


def test_caches_of_several_shards_are_drawn_together() -> None:
    from eddyline.spark.explain_shards import drawn_together

    def shard(number: int, probes: int, misses: int, benefit: float) -> dict[str, Any]:
        cache = {"cache": "s⋈t in Δr", "state": "used", "span": ["r", 0, 1], "benefit": benefit, "cost": 0.25}
        counted = {"probes": probes, "misses": misses, "rows": 10, "bytes": 1024}
        orders = {"r": ["s", "t"], "s": ["t", "r"], "t": ["s", "r"]}
        known = {"operator": "mjoin 1", "orders": orders, "elements": 10, "accesses": 25, "caches": [cache | counted]}
        return {"shard": number, **known}

    other = shard(2, 0, 0, 0.0) | {"caches": []}
    assert drawn_together([shard(0, 90, 30, 1.0), shard(1, 10, 10, 1.5), other]) == [
        "mjoin 1 in shards 0, 1: 20 elements came or left, 2.50 accesses each",
        "  Δr → [s → t]",
        "  Δs → t → r",
        "  Δt → s → r",
        "  cache in use  s⋈t in Δr: hits 60.0%, spares 1.00 to 1.50 and costs 0.25 accesses an element, "
        "20 rows in 2.0 kB",
        "mjoin 1 in shard 2: 10 elements came or left, 2.50 accesses each",
        "  Δr → s → t",
        "  Δs → t → r",
        "  Δt → s → r",
    ]


# ── mistakes ──────────────────────────────────────────────────────────────────────────────────────────────────────

THREE = "SELECT Istream(r.a) FROM R [ROWS 5] r, S [ROWS 5] s, T [ROWS 5] t WHERE r.a = s.a AND s.b = t.b"
ONE = "SELECT Istream(a) FROM R"
TWO = "SELECT Istream(r.a) FROM R [ROWS 5] r, S [ROWS 5] s WHERE r.a = s.a"


@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        (THREE, {"joins": "a-gredy"}, "unknown join policy 'a-gredy'. Did you mean 'a-greedy'?"),
        (THREE, {"joins": 3}, "the option 'joins' is a text such as 'a-greedy', not 3."),
        (THREE, {"joins": "a-greedy(q=1)"}, "the join policy 'a-greedy' has no option 'q'. It has: "),
        (THREE, {"caches": "gobal"}, "unknown cache policy 'gobal'. Did you mean 'global'?"),
        (THREE, {"caches": True}, "the option 'caches' is a text such as 'global(memory=65536)', not True."),
        (THREE, {"caches": "global(memory=-1)"}, "the option 'memory' of 'global' must be a whole number "),
        (THREE, {"caches": "global(interval=1.5)"}, "the option 'interval' of 'global' must be a whole number "),
        (THREE, {"caches": "prefix(m=3)"}, "the cache policy 'prefix' has no option 'm'. It has: interval"),
        (THREE, {"caches": "none(memory=3)"}, "the cache policy 'none' has no option 'memory'. It has none."),
        (THREE, {"caches": "global(memory)"}, "an option of a cache policy is written like 'interval=10000', not "),
        (THREE, {"tree": "((r, s), t)", "joins": "sweep"}, "the option 'tree' fixes the plan of a join; 'joins' and "),
        (
            THREE,
            {"tree": "(r, s)"},
            "the tree '(r, s)' must name each of r, s, t once, in brackets such as ((r, s), t): t is missing.",
        ),
        (THREE, {"interval": 4096}, "unknown option 'interval'. It is a parameter of a cache policy: write caches = "),
        (THREE, {"tree": "((r, s), x)"}, "the tree '((r, s), x)' must name each of r, s, t once, in brackets such as "),
        (THREE, {"tree": "r, s, t"}, "the tree 'r, s, t' must name each of r, s, t once, in brackets such as "),
        (THREE, {"tree": "((r, s), t"}, "the tree '((r, s), t' must name each of r, s, t once, in brackets such as "),
        (THREE, {"tree": ""}, "the tree '' must name each of r, s, t once, in brackets such as "),
        (
            THREE,
            {"tree": "((r), (s, t))"},
            "the tree '((r), (s, t))' must name each of r, s, t once, in brackets such as ",
        ),
        (
            TWO,
            {"tree": "((r, s), t)"},
            "the tree '((r, s), t)' must name each of r, s once, in brackets such as (r, s): t is none of them.",
        ),
        (
            ONE,
            {"tree": "(r, s)"},
            "the option 'tree' draws the plan of a join, and this query has no join: leave it out.",
        ),
        (THREE, {"tre": "((r, s), t)"}, "unknown option 'tre'"),
    ],
)
def test_a_mistake_is_one_sentence(text: str, options: dict[str, Any], sentence: str) -> None:
    session = ed.Session()
    for name in "RST":
        session.stream(
            name, schema=pa.schema([("ts", pa.int64()), ("a", pa.int64()), ("b", pa.int64())]), timestamp="ts"
        )
    with pytest.raises(JobError) as failed:
        session.query(text, **options)
    assert str(failed.value).startswith(sentence), str(failed.value)
    assert "\n" not in str(failed.value) and not session.queries


def test_options_stand_in_the_text_too() -> None:
    session = ed.Session()
    for name in "RST":
        session.stream(
            name, schema=pa.schema([("ts", pa.int64()), ("a", pa.int64()), ("b", pa.int64())]), timestamp="ts"
        )
    query = session.query(f"{THREE} WITH (joins = 'a-greedy', caches = 'prefix(memory=65536)')")
    assert joins_of(query)[1] == "mjoin 1: orders by the policy a-greedy, caches by the policy prefix"


def test_options_for_joins_may_be_given_to_a_query_that_has_no_use_for_them() -> None:
    """A policy is for whatever joins there are; a tree names its inputs, and is refused."""
    rows = [{"ts": i, "a": i % 3} for i in range(9)]
    session = ed.Session()
    session.stream("R", rows, timestamp="ts")
    assert session.query(ONE, joins="a-greedy", caches="global").to_arrow().num_rows == 9


@pytest.mark.parametrize("option", ["joins = 'a-greed'", "tree = '((r, s), z)'", "caches = 'global(memory=-1)'"])
def test_a_mistake_behind_with_has_its_place_in_python_too(option: str) -> None:
    session = ed.Session()
    for name in "RST":
        session.stream(name, schema=pa.schema([("ts", pa.int64()), ("a", pa.int64())]), timestamp="ts")
    text = "SELECT Istream(r.a) FROM R [ROWS 5] r, S [ROWS 5] s, T [ROWS 5] t WHERE r.a = s.a AND s.a = t.a"
    with pytest.raises(ed.CqlError) as caught:
        session.query(f"{text} WITH ({option})")
    assert caught.value.line == 1 and caught.value.column > len(text)
    with pytest.raises(JobError) as other:  # a keyword has none
        session.query(f"{text} WITH (joins = 'static')", joins="a-greed")
    assert not isinstance(other.value, ed.CqlError)


def test_subqueries_have_the_names_that_from_gives_them() -> None:
    session, schema = ed.Session(), pa.schema([("ts", pa.int64()), ("a", pa.int64()), ("d", pa.int64())])
    for name in "RU":
        session.stream(name, schema=schema, timestamp="ts")
    text = """SELECT Istream(r.a, p.d AS x, q.d AS y)
              FROM R [RANGE 9] r, (SELECT * FROM U [RANGE 9] WHERE d < 5) p, (SELECT * FROM U [RANGE 9] WHERE d > 5) q
              WHERE r.a = p.a AND p.a = q.a"""
    query = session.query(text)
    assert query.decisions[0].after == {"r": ["p", "q"], "p": ["r", "q"], "q": ["r", "p"]}
    assert "    Δp → r → q\n" in query.explain() and "q (as it changes)" in query.explain()
    tree = session.query(text, tree="((p, q), r)")
    assert {d.kind for d in tree.decisions} == {"join operator", "join tree"}  # and no order that nobody uses


def test_a_shared_cache_is_paid_and_told_once() -> None:
    data = in_step(4000, (1, 1, 5, 5), ["a"] * 4)
    session = ed.Session()
    for name, (time, columns) in zip("RSTU", data.streams, strict=True):
        session.stream(name, pa.table({"ts": time, **columns}), timestamp="ts")
    query = session.query(
        "SELECT Istream(count(*)) FROM R [ROWS 50], S [ROWS 50], T [ROWS 250], U [ROWS 250]"
        " WHERE R.a = S.a AND S.a = T.a AND T.a = U.a",
        joins="static", caches="prefix(interval=5000, W_d=256)",
    )  # fmt: skip
    query.to_arrow()
    used = [line for line in query.explain().splitlines() if "cache in use" in line]
    assert len(used) == 2 and sum("costs next to nothing" in line for line in used) == 1
    assert "one with R⋈S in Δ" in used[1] and "kB" not in used[1] and "kB" in used[0]
