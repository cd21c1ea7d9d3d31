"""The engines of all shards together against the reference, without Spark: what packers send, in micro-batches, with
state that is stored and loaded in between.

``EDDYLINE_CASES`` scales the number of random cases, ``EDDYLINE_SEED`` moves to other ones.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import eddyline
from eddyline.adapting import join_choice
from eddyline.cql import bind
from eddyline.engine import state_codec
from eddyline.io.source import InvalidRow
from eddyline.spark import shard_state
from eddyline.spark.packing import Packer
from eddyline.spark.program import Program, plan_group
from eddyline.spark.shard import ShardEngine
from eddyline.spark.shard_keys import group_of, key_of
from eddyline.spark.statistics import Account
from eddyline.testing.case_data import TimeScale, draw_stream
from eddyline.testing.case_queries import TO_STREAM, Focus
from eddyline.testing.case_windows import WINDOWS
from eddyline.testing.cases import Case, draw_case
from eddyline.testing.clock import ManualClock
from eddyline.testing.reference import RelationData, StreamData
from eddyline.testing.shrinking import shrink
from tests.semantics.engine import quick_pace
from tests.shards.shards import Arrival, Arrived, Shard, Way, arrive, check, compare, pack, plan, run, tagged, unpacked

FACTOR = float(os.environ.get("EDDYLINE_CASES", "1"))
SEED = int(os.environ.get("EDDYLINE_SEED", "2004"))
CASES = max(10, round(90 * FACTOR))
PARTS = 3


def draw_way(rng: random.Random) -> Way:
    return Way(
        shards=rng.choice([1, 3, 3, 8, 8, 8]),
        batches=rng.choice([1, 2, 4, 7]),
        seed=rng.randrange(1 << 30),
        positions=rng.random() < 0.5,
        tasks=rng.choice([1, 1, 2]),
        hot=rng.choice([1.0, 0.5, 0.0]),
    )


@pytest.mark.parametrize("part", range(PARTS))
def test_shards_agree_with_the_reference(part: int) -> None:
    for i in range(part * CASES // PARTS, (part + 1) * CASES // PARTS):
        rng = random.Random(f"shards/{SEED}/{i}")
        case, way = draw_case(rng), draw_way(rng)
        found = check(case, way)
        if found is not None:
            pytest.fail(explain_failure(case, way, f"shards/{SEED}/{i}"), pytrace=False)


@pytest.mark.parametrize("operator", ["top-n", "as-of-join", "over"])
def test_shards_rank_their_partitions_and_find_partners(operator: str) -> None:
    """By columns of PARTITION BY, or by keys, where a stream has them; on one shard otherwise."""
    for i in range(max(12, round(40 * FACTOR))):
        rng = random.Random(f"ranks/{SEED}/{i}")
        focus = Focus(operator, rng.choice(WINDOWS), rng.choice(TO_STREAM))
        case, way = draw_case(rng, focus), replace(draw_way(rng), shards=8)
        assert check(case, way) is None, explain_failure(case, way, f"ranks/{SEED}/{i}")


RANKED = "SELECT a, b, r FROM (SELECT a, b, ROW_NUMBER() OVER ({} ORDER BY b) AS r FROM S [RANGE 5]) WHERE r <= 2"
RANKED_JOIN = (
    "SELECT S.a, S.b, T.b FROM S [RANGE 5], T [RANGE 5] WHERE S.a = T.a"
    " QUALIFY ROW_NUMBER() OVER ({} ORDER BY S.b) <= 2"
)
LAST = "SELECT a, sum(b) OVER ({} ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s FROM S"
AS_OF = "SELECT S.a, S.b, T.b FROM S ASOF JOIN T ON {} T.ts <= S.ts"


@pytest.mark.parametrize(
    ("text", "key", "why"),
    [
        (RANKED, "PARTITION BY a", "ROW_NUMBER() without PARTITION BY rank all rows"),
        (RANKED_JOIN, "PARTITION BY S.a", "ROW_NUMBER() without PARTITION BY rank all rows"),
        (LAST, "PARTITION BY a", "OVER (…) without PARTITION BY counts the elements of the whole stream"),
        (AS_OF, "S.a = T.a AND", ""),  # without a key all of T is copied, and S is spread
    ],
)
def test_ranks_and_as_of_joins_are_split_by_their_keys(text: str, key: str, why: str) -> None:
    rng = random.Random(text)
    streams = {n: draw_stream(rng, 40, 30, TimeScale()) for n in ("S", "T") if f"{n}." in text or n == "S"}
    keyed, whole = (Case(text.format(k), streams, {}) for k in (key, ""))
    way = Way(shards=8, batches=4, seed=1, positions=True)
    lanes = {lane.name: lane.split for lane in plan(keyed, way).lanes}
    assert plan(keyed, way).shards == 8 and set(lanes.values()) == {("a",)}
    assert check(keyed, way) is None and check(whole, way) is None
    if why:
        assert plan(whole, way).shards == 1 and why in " ".join(plan(whole, way).reasons)
    else:
        assert {lane.name: lane.split for lane in plan(whole, way).lanes}["T"] == (None,)


def explain_failure(case: Case, way: Way, seed: str) -> str:
    small = shrink(case, lambda c: check(c, way) is not None, attempts=300)
    what = check(small, way) or "(not reproduced)"
    lanes = [(lane.name, lane.split) for lane in plan(case, way).lanes]
    return f"seed {seed}, {way}, {lanes}\n{case.text}\n{what}\n\n{small.snippet()}\n"


def test_state_in_many_small_pieces_and_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_state, "SEGMENT_BYTES", 1500)
    monkeypatch.setattr(state_codec, "BLOCK_ROWS", 3)
    monkeypatch.setattr(state_codec, "BLOCK_BYTES", 64)
    for i in range(max(4, round(20 * FACTOR))):
        rng = random.Random(f"pieces/{SEED}/{i}")
        case = draw_case(rng)
        way = Way(shards=rng.choice([1, 3]), batches=7, seed=i, positions=rng.random() < 0.5, hot=0.3)
        assert check(case, way) is None, explain_failure(case, way, f"pieces/{SEED}/{i}")


# ── what is easily got wrong ──────────────────────────────────────────────────────────────────────────────────────


def stream(*rows: tuple[Any, ...], slack: int = 0) -> StreamData:
    """Elements (ts, a, b, x, s), the last ones optional."""
    full = [(*r, *(None,) * (5 - len(r))) for r in rows]
    return StreamData([(r[0], dict(zip(("ts", "a", "b", "x", "s"), r, strict=True))) for r in full], slack)


def constant(*rows: tuple[Any, ...]) -> RelationData:
    return RelationData([dict(zip(("k", "v", "w"), (*r, None, None)[:3], strict=True)) for r in rows])


def split(case: Case, **cuts: Sequence[int]) -> Arrived:
    """A case in micro-batches that bring so many rows each."""
    whole = arrive(case, Way())
    batches: dict[str, list[list[Arrival]]] = {}
    for name, sizes in cuts.items():
        rows = iter(whole.batches[name][0])
        batches[name] = [[next(rows) for _ in range(n)] for n in sizes]
    return Arrived(case, batches, positions=True)


def agree(arrived: Arrived, shards: int = 8, expect: tuple[int, ...] | None = None) -> Mapping[str, Any]:
    """Compare with the reference on one shard and on several, and hand back the report of the latter."""
    found: Mapping[str, Any] = {}
    for count in (1, shards):
        answer = run(arrived, Way(shards=count, hot=0.5))
        assert compare(arrived, answer) is None
        found = answer.report
        assert count == 1 or expect is None or answer.shares == expect
    return found


def test_time_starts_and_ends_in_every_shard() -> None:
    """Rows of K are padded from the start of time on, in shards that never see a row of S as well."""
    text = "SELECT k, S.a AS a, S.b AS b FROM K LEFT JOIN S [RANGE 3] ON K.k = S.a"
    many = constant(*[(k, 0) for k in range(20)])
    case = Case(text, {"S": stream((5, 1, 1), (9, 2, 1), (30, 3, 1))}, {"K": many})
    report = agree(split(case, S=[1, 1, 1]), expect=(8,))
    assert report["results"] == 20 + 2 * 4  # one goes, one comes and goes, one comes


def test_the_first_instant_may_come_late() -> None:
    """With slack the first element need not be the first of all, and one behind the slack must not hide that."""
    text = "SELECT k, S.a AS a FROM K LEFT JOIN S [RANGE 3] ON K.k = S.a"
    rows = stream((20, 1), (5, 2), (12, 3), (40, 4), (41, 5), (8, 6), (90, 7), slack=10)
    case = Case(text, {"S": rows}, {"K": constant(*[(k, 0) for k in range(9)])})
    assert agree(split(case, S=[1, 2, 2, 1, 1]), expect=(8,))["late"] == 1  # 8; time begins with the third


def test_an_empty_input_ends_all_the_same() -> None:
    text = "SELECT k, S.a AS a FROM K LEFT JOIN S [RANGE 3] ON K.k = S.a"
    case = Case(text, {"S": stream()}, {"K": constant((1, 0), (2, 0))})
    assert agree(split(case, S=[0, 0]))["results"] == 0  # no time ever began


def test_an_aggregate_without_groups_counts_in_one_shard_and_joins_in_all() -> None:
    text = "SELECT Istream(S.a AS a, n) FROM S [RANGE 2], (SELECT count(*) AS n FROM T [RANGE 4])"
    rows = [(t, t % 5, t % 3) for t in range(24)]
    case = Case(text, {"S": stream(*rows), "T": stream(*rows[::3])}, {})
    assert agree(split(case, S=[5, 9, 0, 10], T=[2, 0, 3, 3]), expect=(8,))["results"] > 20
    alone = Case("SELECT count(*) AS n FROM S [RANGE 2]", {"S": stream(*rows)}, {})
    agree(split(alone, S=[10, 14]), expect=())


CHAIN = "SELECT Istream(S.a AS a, T.b AS b) FROM S [RANGE 5], T [RANGE 5], U [RANGE 5] WHERE S.a = T.a AND T.b = U.b"


def test_copies_are_counted_once() -> None:
    """Rows of S and U go to several shards of a grid: late and invalid ones are counted at one of them."""
    rows = [(t, t % 3, t % 4) for t in range(30)]
    late = [(3, 1, 1), (2, 2, 2), (None, 1, 2), (None, 0, 0)]
    data = stream(*rows[:20], *late, *rows[20:])
    case = Case(CHAIN, {"S": data, "T": data, "U": data}, {})
    parts = [15, 5, 4, 10]  # by then time has begun
    report = agree(split(case, S=parts, T=parts, U=parts), shards=16, expect=(4, 4))
    assert (report["events"], report["late"], report["invalid"]) == (3 * 34, 6, 6)


def test_several_lanes_of_one_stream_are_counted_once() -> None:
    text = "SELECT Istream(p.a AS a, q.b AS b) FROM S [RANGE 9] p, S [RANGE 9] q WHERE p.a = q.b"
    rows = [(t, t % 3, t % 4) for t in range(12)]
    case = Case(text, {"S": stream(*rows, (1, 1, 1), (None, 1, 1), (12, 0, 0))}, {})
    group = plan(case, Way(shards=8))
    assert [(lane.name, lane.split) for lane in group.lanes] == [("S", ("a",)), ("S#2", ("b",))]
    report = agree(split(case, S=[12, 2, 1]), expect=(8,))
    assert (report["events"], report["late"], report["invalid"]) == (15, 1, 1)


def test_equal_keys_meet_whatever_they_look_like() -> None:
    nan = float("nan")
    values = [nan, 0.0, -0.0, None, -nan, 0.0, None, 1.5, float("inf"), -float("inf"), nan, -0.0]
    rows = [(t, t, None, x, "uvw"[t % 3] if t % 4 else None) for t, x in enumerate(values * 2)]
    for key in ("x", "s"):
        text = f"SELECT {key} AS k, count(*) AS n, sum(a) AS total FROM S [RANGE 6] GROUP BY {key}"
        case = Case(text, {"S": stream(*rows)}, {})
        agree(split(case, S=[7, 0, 10, 7]), expect=(8,))


def test_a_constant_relation_is_divided_like_the_stream_that_it_meets() -> None:
    text = "SELECT Istream(S.a AS a, w) FROM S [RANGE 4], K WHERE S.s = K.w"
    words = ["u", "v", "w", "", "x", None]
    relation = constant(*[(i, i, words[i % 6]) for i in range(15)])
    case = Case(text, {"S": stream(*[(t, t, 0, 0.5, words[t % 6]) for t in range(20)])}, {"K": relation})
    group = plan(case, Way(shards=8))
    assert [lane.split for lane in group.constants] == [("w",)]
    kept = [ShardEngine(group, i).session.relations["k"].num_rows for i in range(8)]
    assert sum(kept) == 15 and max(kept) < 15
    agree(split(case, S=[6, 14]), expect=(8,))


def test_a_timed_relation_with_key_and_sign_over_micro_batches() -> None:
    rows = [(0, 1, 1, 5), (0, 1, 2, 6), (2, 1, 1, 7), (3, -1, 2, 0), (3, 1, 2, 9), (3, None, 3, 1), (6, -1, 4, 1)]
    elements = [dict(zip(("t", "g", "k", "v"), r, strict=True)) | {"w": None} for r in rows]
    text = "SELECT S.a AS a, v FROM S [RANGE 2], B WHERE S.a = B.k"
    for key in ((), ("k",)):
        relation = RelationData(elements, "t", key, "g")
        case = Case(text, {"S": stream(*[(t, 1 + t % 3) for t in range(9)])}, {"B": relation})
        report = agree(split(case, S=[4, 0, 5], B=[3, 2, 2]), expect=(8,))
        assert report["invalid"] == (2 if key else 3)  # no sign, and what is not there cannot go


def test_ties_by_value_are_the_same_however_rows_were_shared_out() -> None:
    text = "SELECT s, first(a) AS f, last(b) AS l FROM S [ROWS 4] GROUP BY s"
    rng = random.Random(5)
    rows = [(t // 5, rng.choice([1, 2, None]), rng.choice([3, None, 4]), None, rng.choice("uv")) for t in range(40)]
    case = Case(text, {"S": stream(*rows)}, {})
    for tasks in (1, 3):
        for batches in (1, 4):
            assert check(case, Way(shards=3, batches=batches, seed=tasks, positions=False, tasks=tasks)) is None


def test_failing_rows_are_diverted_as_inline() -> None:
    rows = [(t, t % 4, t % 3) for t in range(24)]
    texts = {
        "SELECT Istream(a, 12 / b AS d) FROM S [RANGE 5] WHERE 6 / a > 1": 8,
        "SELECT a, sum(12 / b) AS d FROM S [RANGE 5] GROUP BY a": 8,
        CHAIN.replace("WHERE", "WHERE 6 / S.b > 0 AND"): 1,  # copies would fail again
    }
    for text, shards in texts.items():
        names = [n for n in "STU" if f"{n} [" in text]
        case = Case(text, {n: stream(*rows) for n in names}, {})
        options = {"on_error": "invalid"}
        answer = run(split(case, **{n: [9, 15] for n in names}), Way(shards=8, options=options))
        session = eddyline.Session()
        for n in names:
            session.stream(n, pa.Table.from_pylist([r for _, r in stream(*rows).elements], case.scale.schema()), "ts")
        query = session.query(text, **options)
        table = query.to_arrow()
        assert Counter(map(repr, answer.table.to_pylist())) == Counter(map(repr, table.to_pylist()))
        assert answer.report["invalid"] == query.report()["invalid"] > 0
        assert answer.shares == ((shards,) if shards > 1 else ())


def test_queries_over_late_and_invalid_rows() -> None:
    rows = [(t, t % 5, t % 3) for t in range(40)]
    data = stream(*rows[:30], (4, 7, 7), (None, 8, 8), (5, 9, 9), *rows[30:])
    case = Case("SELECT Istream(a, b) FROM S [PARTITION BY a ROWS 9]", {"S": data}, {})
    catalog = case.catalog()
    main = replace(bind(case.text, catalog), name="q")
    catalog.add("views", main, "q")
    others = [bind(f"SELECT Istream(row) FROM {which}(q) [RANGE UNBOUNDED]", catalog) for which in ("late", "invalid")]
    for shards in (1, 8):
        positions = frozenset({"s"})
        group = plan_group([main, *others], catalog, lambda name: pa.table({}), shards=shards, positions=positions)
        found: list[list[Any]] = [[], [], []]
        program = Program((group,))
        engines = [ShardEngine(group, i) for i in range(group.shards)]
        arrived = split(case, S=[20, 10, 3, 10])
        for number in range(4):
            packed = [p for b in pack(program, arrived, number, 1, random.Random(1)) for p in unpacked(b)]
            for i, engine in enumerate(engines):
                for query, batch in engine.process([row for key, row in packed if key == key_of(0, i)]):
                    found[query] += batch.column(0).to_pylist()
        assert (group.shards, len(found[0])) == (shards, 40)
        assert sorted(json.loads(r)["a"] for r in found[1]) == [7, 9]
        assert [json.loads(r) for r in found[2]] == [{"ts": None, "a": 8, "b": 8}]


def test_malformed_rows_are_counted_once() -> None:
    case = Case(CHAIN, {n: stream((1, 1, 1), (2, 2, 2)) for n in "STU"}, {})
    program = Program((plan(case, Way(shards=16)), plan(case, Way(shards=1))))
    account = Account()
    for g, group in enumerate(program.groups):
        for i in range(group.shards):
            rows = []
            for name in program.sources():
                packer = Packer(program.routes(name), program.timestamp(name))
                rows += unpacked(packer.malformed([InvalidRow("not a number", "x;y")]))
            engine = ShardEngine(group, i)
            list(engine.process([row for key, row in rows if key == key_of(g, i)], ended=True))
            account.add([tagged(engine, g)])
    for g in (0, 1):
        report = account.report(g, 0)
        assert (report["events"], report["invalid"]) == (3, 3)


def test_a_quiet_shard_holds_nothing_back_and_an_idle_stream_not_for_ever() -> None:
    """One stream falls silent: the instants of the other close when its idle interval has passed, in every shard."""
    case = Case(
        "SELECT Istream(S.a AS a, T.b AS b) FROM S [RANGE 50], T [RANGE 50] WHERE S.a = T.a",
        {"S": stream(*[(t, t % 4) for t in range(40)]), "T": stream((0, 1, 1), (0, 2, 2), (0, 3, 3), (0, 0, 0))},
        {},
    )
    catalog = case.catalog()
    catalog.streams["t"] = replace(catalog.streams["t"], idle=10_000_000)
    group = plan_group([bind(case.text, catalog)], catalog, lambda name: pa.table({}), shards=8)
    assert group.shards == 8
    clock = ManualClock()
    engines = [ShardEngine(group, i, clock) for i in range(8)]
    program = Program((group,))
    arrived = split(case, S=[10, 10, 20], T=[4, 0, 0])
    results = []
    for number in range(2):
        clock.advance(6_000_000)
        packed = [p for b in pack(program, arrived, number, 1, random.Random(1)) for p in unpacked(b)]
        results.append(0)
        for i, engine in enumerate(engines):
            results[-1] += sum(
                b.num_rows for _, b in engine.process([row for key, row in packed if key == key_of(0, i)])
            )
    assert results == [0, 0]
    assert {e.next_idle() for e in engines} == {16_000_000}
    clock.advance(6_000_000)
    assert sum(b.num_rows for e in engines for _, b in e.process([])) == 19  # 0 to 18; 19 may have company


def test_a_query_over_constants_is_answered_once_beside_others() -> None:
    """It reads nothing that arrives; in a program with others it must be woken all the same, and only say it once."""
    relation = constant((1, 0), (2, 0), (2, 0))
    main = Case("SELECT Istream(a) FROM S [RANGE 3]", {"S": stream(*[(t, t) for t in range(9)])}, {"K": relation})
    other = replace(main, text="SELECT k, count(*) AS n FROM K GROUP BY k")
    program = Program((plan(other, Way(shards=8)), plan(main, Way(shards=8))))
    arrived = split(main, S=[3, 3, 3])
    shards = {key_of(g, i): Shard(group, i) for g, group in enumerate(program.groups) for i in range(group.shards)}
    found: list[list[Any]] = [[], []]
    for number in range(3):
        packed = [p for b in pack(program, arrived, number, 1, random.Random(1)) for p in unpacked(b)]
        assert {key for key, _ in packed} == set(shards)
        for key, shard in shards.items():
            batches, _ = shard.step([row for k, row in packed if k == key], stay=number == 0)
            found[group_of(key)] += [r for b in batches for r in b.to_pylist()]
    assert found[0] == [{"k": 1, "n": 1, "_time": 0, "_sign": 1}, {"k": 2, "n": 2, "_time": 0, "_sign": 1}]
    assert len(found[1]) == 9


@pytest.mark.parametrize(("hot", "parts"), [(0.0, [400, 1600, 2000, 1, 2]), (0.5, [4000, 3]), (1.0, [4003])])
@pytest.mark.parametrize("query", ["join", "sums"])
def test_totals_are_of_the_whole_run(query: str, hot: float, parts: list[int]) -> None:
    """The most state there was, and what operators took in, count from the start and not from the last move to another
    worker; and also where one micro-batch brings everything, with the windows empty at its end."""
    texts = {
        "join": "SELECT Istream(S.a AS a, T.b AS b) FROM S [RANGE 50], T [RANGE 50] WHERE S.a = T.a AND S.b = T.b",
        "sums": "SELECT a, sum(b) AS total FROM S [RANGE 100] GROUP BY a",
    }
    count, keys = (2, 49) if query == "join" else (1, 7)
    busy = [(t, t % 7, t // 7 % 7) for t in range(4000)]
    quiet = [(t, 1, 1) for t in (7_000, 8_000, 9_000)]  # by then what came before has left the windows
    inputs = {n: stream(*busy, *quiet) for n in ("S", "T")[:count]}
    way = Way(shards=2, hot=hot, told=0.0)
    answer = run(split(Case(texts[query], inputs, {}), **dict.fromkeys(inputs, parts)), way)
    state, operators = answer.report["state"], answer.report["operators"]
    assert 90 <= state["peak_rows"] <= 102 + 2 * keys and state["rows"] < 20
    assert max(o["elements_in"] for o in operators) >= count * 4003


def test_the_logs_of_all_shards_are_one_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planner's decisions stand once; each shard's keep its shard and their order; the log survives a rebuild."""
    monkeypatch.setattr(join_choice, "Pace", quick_pace)
    rng = random.Random(5)

    def rows(keys: int) -> StreamData:
        return stream(*((t, rng.randrange(9), rng.randrange(keys + t // 200)) for t in range(1500)))

    text = (
        "SELECT Istream(S.a AS a) FROM S [RANGE 9], T [RANGE 9], U [RANGE 9] "
        "WHERE S.a = T.a AND T.a = U.a AND S.b = T.b AND T.b <> U.b"
    )
    case = Case(text, {"S": rows(3), "T": rows(6), "U": rows(1)}, {})
    options = {"joins": "a-greedy(p=0.5, window=12)", "caches": "none"}
    way = Way(shards=3, batches=6, seed=3, hot=0.5, options=options)
    arrived = arrive(case, way)
    found = run(arrived, way).report["decisions"]
    planned = [d for d in found if d["time"] is None]
    made = [d for d in found if d["time"] is not None]
    assert planned and all(d["shard"] is None for d in planned)
    assert len({(d["kind"], d["operator"]) for d in planned}) == len(planned)
    by_shard: dict[int, list[int]] = {}
    for d in made:
        by_shard.setdefault(d["shard"], []).append(d["sequence"])
        assert d["query"] == found[0]["query"] and d["by"] == "policy"
    assert len(by_shard) > 1 and sum(map(len, by_shard.values())) == len(made)
    assert all(numbers == sorted(set(numbers)) for numbers in by_shard.values())
