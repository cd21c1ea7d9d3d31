"""How plans are spread over shards: what is split by what, what is copied, why there is one shard; and that it is
right: the shards' results together are those of the reference, whichever of the correct dimensions are taken."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from eddyline.core.catalog import Catalog, FunctionDef, RelationDef, StreamDef
from eddyline.core.errors import JobError
from eddyline.core.schema import Schema
from eddyline.core.time import TimeKind
from eddyline.cql import bind
from eddyline.plan.logical import Plan, StreamScan
from eddyline.plan.partitioning import Partitioning, lay_out, partition, sources_of
from eddyline.plan.partitioning import places as places_module
from eddyline.plan.partitioning.enumerate_layouts import Layouts
from eddyline.plan.partitioning.grid import Grid
from eddyline.plan.partitioning.places import Places
from eddyline.plan.rules import optimize
from eddyline.plan.traverse import MAX_PLACES_WALKED, walk
from eddyline.spark import program
from eddyline.spark.packing import coordinates
from eddyline.testing.case_queries import CLOSING_TO_STREAM, OPERATORS, TO_STREAM, Focus
from eddyline.testing.case_windows import CLOSING_WINDOWS, WINDOWS
from eddyline.testing.cases import Case, draw_case
from tests.plan.sharded import planned, run_sharded
from tests.semantics.engine import mismatch

FACTOR = float(os.environ.get("EDDYLINE_CASES", "1"))
SEED = int(os.environ.get("EDDYLINE_SEED", "2004"))


def make_catalog() -> Catalog:
    """Streams R, S, T, U; K is constant; P has a key, Q a sign, N neither."""
    long = pa.int64()
    catalog = Catalog()
    columns = {"ts": long, "a": long, "b": long, "c": pa.string(), "small": pa.int32(), "x": pa.float64()}
    for name in "RSTU":
        catalog.add("streams", StreamDef(name, schema(columns), TimeKind.INTEGER, "ts"))
    catalog.add("relations", RelationDef("K", schema({"k": long, "v": long})))
    timed = {"t": long, "k": long, "v": long}
    catalog.add("relations", RelationDef("P", schema(timed), TimeKind.INTEGER, "t", key=("k",)))
    catalog.add("relations", RelationDef("Q", schema({**timed, "g": long}), TimeKind.INTEGER, "t", sign="g"))
    catalog.add("relations", RelationDef("N", schema(timed), TimeKind.INTEGER, "t"))
    catalog.add("functions", FunctionDef("fair", bool, pa.bool_(), (long,)))
    catalog.add("functions", FunctionDef("dice", bool, pa.bool_(), (long,), deterministic=False))
    view = "SELECT Istream(a, b) FROM R [RANGE 5]"
    catalog.add("views", bind(view, catalog), "entered")
    catalog.add("views", bind(view, catalog), "named")
    return catalog


def schema(columns: Mapping[str, pa.DataType]) -> Schema:
    return Schema.from_arrow(pa.schema(list(columns.items())))


CATALOG = make_catalog()


def logical(text: str) -> Plan:
    return optimize(bind(text, CATALOG).plan)


def spread(text: str, shards: int = 8, rates: Mapping[str, float] | None = None) -> Partitioning:
    return partition(logical(text), CATALOG, shards, rates)


def lanes(p: Partitioning) -> str:
    """``R(a, -) S(a, b)``: the lanes with their columns, - where they are copied."""
    return " ".join(f"{lane.name}({', '.join(c or '-' for c in lane.split)})" for lane in p.lanes)


SPLIT = {
    # Joins: a common key, through any number of equalities.
    "SELECT Istream(*) FROM R [RANGE 9], S [RANGE 9], T [RANGE 9] WHERE R.a = S.a AND S.a = T.b": "R(a) S(a) T(b)",
    "SELECT Istream(*) FROM R [RANGE 9], S [RANGE 9] WHERE R.small = S.a": "R(small) S(a)",
    "SELECT Istream(*) FROM R [RANGE 9] x, R [RANGE 5] y WHERE x.a = y.a": "R(a)",
    "SELECT Istream(*) FROM R [RANGE 9] x, R [RANGE 9] y WHERE x.a = y.b": "R(a) R#2(b)",
    # No common key, or none that tells which results are equal: copies, in two dimensions where that is less.
    "SELECT Istream(*) FROM R [RANGE 9], S [RANGE 9] WHERE R.a < S.a": "R(*, -) S(-, *)",
    "SELECT Istream(R.b, S.b) FROM R [RANGE 9], S [RANGE 9] WHERE R.a = S.a": "R(b, -) S(-, b)",
    "SELECT Istream(*) FROM R [ROWS 9], S [RANGE 9] WHERE R.a = S.a": "R(-) S(a)",
    # Windows and stateless queries.
    "SELECT Istream(a) FROM R WHERE fair(a)": "R(*)",
    "SELECT Istream(ts, a) FROM R [RANGE 9]": "R(*)",
    "SELECT Istream(a) FROM R [RANGE 9]": "R(a)",
    "SELECT Istream(c, b) FROM R [PARTITION BY a, b ROWS 3]": "R(b)",
    # Relations.
    "SELECT Istream(*) FROM R [RANGE 9], K WHERE R.a = K.k": "R(a) K(k)",
    "SELECT Istream(ts, K.v) FROM R [RANGE 9], K WHERE R.a < K.k": "R(*) K(-)",
    "SELECT R.a, P.v FROM R, P WHERE R.a = P.k": "R(a) P(k)",
    "SELECT R.a, P.v FROM R, P WHERE R.b = P.v": "R(*, -) P(-, k)",
    "SELECT R.a, Q.k FROM R, Q WHERE R.b = Q.v": "R(b) Q(v)",
    "SELECT v FROM N": "N(v)",
    # Outer joins.
    "SELECT * FROM R [RANGE 9] LEFT JOIN S [RANGE 9] ON R.a = S.a": "R(a) S(a)",
    "SELECT * FROM R [RANGE 9] LEFT JOIN S [RANGE 9] ON R.a < S.a": "R(a) S(-)",
    "SELECT * FROM R [RANGE 9] RIGHT JOIN S [RANGE 9] ON R.a < S.a": "R(-) S(a)",
    "SELECT * FROM R [RANGE 9] FULL JOIN S [RANGE 9] ON R.a = S.b": "R(a) S(b)",
    "SELECT R.a, S.b, count(*) FROM R [RANGE 9] FULL JOIN S [RANGE 9] ON R.a = S.b GROUP BY R.a, S.b": "R(a) S(b)",
    # IN and EXISTS: NOT IN must see all of it, since a NULL anywhere counts.
    "SELECT Istream(a) FROM R [RANGE 9] WHERE a IN (SELECT b FROM S [RANGE 9])": "R(a) S(b)",
    "SELECT Istream(a) FROM R [ROWS 9] WHERE a IN (SELECT b FROM S [RANGE 9])": "R(-) S(b)",
    "SELECT Istream(a) FROM R [RANGE 9] WHERE a NOT IN (SELECT b FROM S [RANGE 9])": "R(a) S(-)",
    "SELECT Istream(a) FROM R [RANGE 9] WHERE b NOT IN (SELECT b FROM S [RANGE 9] WHERE S.a = R.a)": "R(a) S(a)",
    "SELECT Istream(a) FROM R [RANGE 9] WHERE NOT EXISTS (SELECT * FROM S [RANGE 9] WHERE S.b = R.a)": "R(a) S(b)",
    "SELECT Istream(a) FROM R [RANGE 9] WHERE a IN (SELECT b FROM S [RANGE 9]) OR b > 1": "R(a) S(-)",
    # What only grows has nothing to net: its result may be anything.
    "SELECT Istream(a + 1 AS x) FROM R WHERE a IN (SELECT b FROM S [ROWS UNBOUNDED])": "R(a) S(b)",
    "SELECT Istream(a + 1 AS x) FROM R [ROWS UNBOUNDED] LEFT JOIN K ON R.a = K.k": "R(a) K(k)",
    "SELECT Istream(v + 1 AS x) FROM N, R [ROWS UNBOUNDED] WHERE N.k = R.a": "N(k) R(a)",
    # Groups and sets.
    "SELECT a, count(*) AS n FROM R [RANGE 9] GROUP BY a": "R(a)",
    "SELECT x.a, x.n, y.n FROM (SELECT a, count(*) AS n FROM R [RANGE 9] GROUP BY a) x,"
    " (SELECT a, count(*) AS n FROM R [RANGE 60] GROUP BY a) y WHERE x.a = y.a": "R(a)",
    "SELECT DISTINCT a, b FROM R [RANGE 9]": "R(a)",
    "SELECT a, b FROM R [RANGE 9] UNION SELECT b, a FROM S [RANGE 9]": "R(a) S(b)",
    "SELECT a FROM R UNION ALL SELECT k FROM K": "R(*) K(k)",
    "SELECT a FROM R [RANGE 9] UNION ALL SELECT b FROM S [RANGE 9]": "R(a) S(b)",
    "SELECT a FROM R [RANGE 9] EXCEPT SELECT a FROM S [ROWS 9]": "R(a) S(-)",
    "SELECT a FROM R [ROWS 9] INTERSECT ALL SELECT a FROM S [RANGE 9]": "R(-) S(a)",
    # Streams of streams, Rstream, side streams.
    "SELECT a, count(*) AS n FROM entered [RANGE 9] GROUP BY a": "R(a)",
    "SELECT Rstream(R.b, S.b) FROM R [NOW], S [RANGE 9] WHERE R.a = S.a": "R(a) S(a)",
    "SELECT Rstream(b) FROM entered [NOW]": "R(a)",
    "SELECT Istream(row) FROM late(named)": "late(named)(*)",
    # Windows that close.
    "SELECT Wstream(a, window_end, count(*) AS n) FROM R [HOP 9 EVERY 3] GROUP BY a, window_end": "R(a)",
    "SELECT Wstream(b) FROM R [TUMBLE 9]": "R(*)",
    "SELECT Wstream(R.b, S.b) FROM R [TUMBLE 9], S [TUMBLE 9] WHERE R.a = S.a": "R(a) S(a)",
    "SELECT Wstream(a, count(*) AS n) FROM R [SESSION 9 GAP PARTITION BY a] GROUP BY a": "R(a)",
    "SELECT Rstream(b) FROM R [SESSION 9 GAP PARTITION BY a]": "R(a)",
    "SELECT R.a, S.b FROM R [UNTIL b], S [RANGE 9] WHERE R.a = S.a": "R(a) S(a)",
}  # fmt: skip


@pytest.mark.parametrize("text", SPLIT)
def test_what_is_split_and_what_is_copied(text: str) -> None:
    found = spread(text)
    assert lanes(found) == SPLIT[text], found.reasons
    assert found.shards == 8


ONE_SHARD = {
    "SELECT Istream(*) FROM R [ROWS 10]": r"R \[ROWS 10\] counts the elements of the whole stream",
    "SELECT count(*) AS n, max(a) AS m FROM R [RANGE 9]": r"count\(\*\), max\(R.a\) without GROUP BY is over all rows",
    "SELECT a % 3, count(*) AS n FROM R [RANGE 9] GROUP BY a % 3": r"no input is split by a column of GROUP BY R.a % 3",
    "SELECT DISTINCT a + 1 AS x FROM R [RANGE 9]": r"DISTINCT must see equal rows together",
    "SELECT a + 1 FROM R [RANGE 9] EXCEPT SELECT b FROM S [RANGE 9]": r"EXCEPT must see equal rows of both sides",
    "SELECT a FROM R [ROWS 9] UNION ALL SELECT a FROM S [RANGE 9]": r"R \[ROWS 9\] counts",
    "SELECT Istream(a + 1 AS x) FROM R [RANGE 9]": r"Istream must see equal rows together",
    "SELECT a + 1 AS x FROM R [RANGE 9]": r"the changes that are shown must see equal rows together",
    "SELECT Dstream(c) FROM R [PARTITION BY a ROWS 3]": r"Dstream must see equal rows together",
    "SELECT count(*) AS n FROM R [RANGE 9] GROUP BY a": r"the changes that are shown must see equal rows together",
    "SELECT Rstream(a) FROM R [RANGE 9]": r"Rstream repeats its rows at the instants of every input",
    "SELECT Rstream(count(*) AS n) FROM R [NOW]": r"count\(\*\) without GROUP BY is over all rows",
    "SELECT Istream(*) FROM R [NOW], (SELECT Rstream(b) FROM S [RANGE 9]) [NOW] s WHERE R.a = s.b": r"Rstream repeats",
    "SELECT * FROM R [RANGE 9] FULL JOIN S [RANGE 9] ON R.a < S.a": r"FULL JOIN of R and S needs rows and partners",
    # A padded column does not tell the shard, nor does a column by which a relation must not be split.
    "SELECT S.a FROM R [RANGE 9] LEFT JOIN S [RANGE 9] ON R.a = S.a": r"the changes that are shown must see equal rows",
    "SELECT R.a FROM R [RANGE 9] FULL JOIN S [RANGE 9] ON R.a = S.a": r"the changes that are shown must see equal rows",
    "SELECT v FROM P": r"the changes that are shown must see equal rows together",
    "SELECT DISTINCT t FROM Q": r"DISTINCT must see equal rows together",
    # What leaves does so at instants without elements.
    "SELECT Rstream(d.a) FROM (SELECT Dstream(a) FROM R [RANGE 9]) [NOW] d": r"Rstream repeats its rows",
    "SELECT Wstream(window_end, count(*) AS n) FROM R [TUMBLE 9]": r"no input is split by a column of GROUP BY",
    "SELECT Wstream(a) FROM R [SESSION 9 GAP]": r"makes sessions of elements that no column puts into one shard",
    "Wstream(SELECT a FROM R [SESSION 9 GAP PARTITION BY a] UNION ALL SELECT a FROM S [TUMBLE 9])": r"any session",
    "SELECT k, v FROM K": r"only constant relations are read",
    "SELECT Istream(a) FROM R WHERE dice(a)": r"dice is declared as not deterministic",
}  # fmt: skip


@pytest.mark.parametrize("text", ONE_SHARD)
def test_why_there_is_one_shard(text: str) -> None:
    found = spread(text)
    assert found.shares == () and found.shards == 1
    assert all(lane.split == () for lane in found.lanes)
    assert found.reasons[0].startswith("one shard: ")
    assert re.search(ONE_SHARD[text], found.reasons[0]), found.reasons


CHAIN = "SELECT Istream(*) FROM R [RANGE 9], S [RANGE 9], T [RANGE 9] WHERE R.a = S.a AND S.b = T.b"


def test_a_chain_of_joins_makes_a_hypercube() -> None:
    found = spread(CHAIN, 16)
    assert (found.shares, lanes(found)) == ((4, 4), "R(a, -) S(a, b) T(-, b)")
    assert found.reasons == (
        "16 shards: 4 by R.a = S.a × 4 by S.b = T.b",
        "R is copied 4 times (it has no S.b), S travels once, T is copied 4 times (it has no R.a)",
    )


def test_shares_follow_the_rates() -> None:
    assert spread(CHAIN, 16, {"r": 16.0}).shares == (16,)  # T is copied: cheaper than to copy R twice
    assert spread(CHAIN, 64, {"R": 4.0, "S": 1.0, "T": 1.0}).shares == (16, 4)


def test_fewer_shards_with_fewer_copies_may_be_better() -> None:
    assert spread(CHAIN, 7).shares == (2, 3)
    assert spread("SELECT Istream(*) FROM R [RANGE 9], S [RANGE 9] WHERE R.a = S.a", 7).shares == (7,)


def test_four_streams_in_a_chain() -> None:
    text = "SELECT Istream(*) FROM R [RANGE 9], S [RANGE 9], T [RANGE 9], U [RANGE 9]"
    found = spread(f"{text} WHERE R.a = S.a AND S.b = T.b AND T.c = U.c", 27, {"R": 9, "S": 9, "T": 9, "U": 9})
    assert found.shards <= 27
    assert {len(lane.split) for lane in found.lanes} == {len(found.shares)}
    assert all(any(lane.split) for lane in found.lanes)  # none is copied everywhere


def test_what_would_have_helped_is_said() -> None:
    text = "SELECT Istream(R.b, S.b) FROM R [RANGE 9], S [RANGE 9] WHERE R.a = S.a"
    assert spread(text).reasons[-1] == "if the result kept R.a, it could be split by it with less copied"
    text = "SELECT count(*) AS n FROM R [RANGE 9] GROUP BY a"
    assert spread(text).reasons[-1] == "if the result kept R.a, it could be split by it"


def test_lanes_are_called_by_their_aliases() -> None:
    text = "SELECT Istream(*) FROM R [RANGE 9] x, R [RANGE 5] y, S [RANGE 5] WHERE x.a = y.a AND y.a = S.a"
    assert spread(text).reasons == ("8 shards: 8 by x.a = y.a = S.a", "R (as x, y) travels once, S travels once")


def test_constant_relations_are_not_shipped() -> None:
    found = spread("SELECT Istream(*) FROM R [RANGE 9], K WHERE R.a = K.k")
    assert [lane.constant for lane in found.lanes] == [False, True]
    assert found.reasons[-1] == "every shard keeps its part of K, by k"


def test_scans_are_renamed_by_their_place() -> None:
    """Two scans may be equal in all but their place."""
    side = "(SELECT s.a, s.b FROM R [RANGE 9] s)"
    found = spread(f"SELECT Istream(*) FROM {side} x, {side} y WHERE x.a = y.b")
    scans = [n for n in walk(found.plan) if isinstance(n, StreamScan)]
    assert [(n.stream, n.alias) for n in scans] == [("R", "s"), ("R#2", "s")]
    assert lanes(found) == "R(a) R#2(b)"
    assert found.plan.schema == logical(f"SELECT Istream(*) FROM {side} x, {side} y WHERE x.a = y.b").schema


def test_a_declared_name_is_never_taken_for_a_lane() -> None:
    catalog = make_catalog()
    catalog.add("streams", StreamDef("R#2", CATALOG.streams["r"].schema, TimeKind.INTEGER, "ts"))
    plan = optimize(bind("SELECT Istream(*) FROM R [RANGE 9] x, R [RANGE 9] y WHERE x.a = y.b", catalog).plan)
    assert lanes(partition(plan, catalog, 8)) == "R(a) R#3(b)"


def test_the_number_of_shards_is_checked_and_one_is_obeyed() -> None:
    with pytest.raises(JobError, match="one shard or more, not on 0"):
        spread(CHAIN, 0)
    found = spread(CHAIN, 1)
    assert (found.shards, found.reasons, lanes(found)) == (1, ("one shard, as requested",), "R() S() T()")


@pytest.mark.parametrize("values", [[1, -7, 300_000, None], [0.5, -0.0, float("nan"), None]], ids=["int", "float"])
def test_equal_numbers_of_all_widths_have_one_coordinate(values: list[Any]) -> None:
    """What ``layout.hashed_like`` takes for granted."""
    types = (pa.float32(), pa.float64()) if isinstance(values[0], float) else (pa.int32(), pa.int64())
    narrow, wide = (pa.RecordBatch.from_pydict({"a": pa.array(values, t)}) for t in types)
    assert np.array_equal(coordinates(narrow, "a", 64), coordinates(wide, "a", 64))


# ── the shards together are the whole ─────────────────────────────────────────────────────────────────────────────


def cases(what: str, count: int) -> Iterator[tuple[int, random.Random, Case]]:
    for i in range(max(3, round(count * FACTOR))):
        rng = random.Random(f"{SEED}/{what}/{i}")
        # Rows of the whole stream cannot be counted in shards, and most Rstreams cannot be split: fewer of them.
        window = rng.choice([w for w in (*WINDOWS, *CLOSING_WINDOWS) if w != "rows" or rng.random() < 0.3])
        kinds = CLOSING_TO_STREAM if window in CLOSING_WINDOWS else TO_STREAM
        to_stream = rng.choice([k for k in kinds if k != "rstream" or rng.random() < 0.5])
        yield i, rng, draw_case(rng, Focus(rng.choice(OPERATORS), window, to_stream))


def fail(what: str, i: int, case: Case, group: program.Group, found: str) -> None:
    ways = [(lane.name, lane.split) for lane in (*group.lanes, *group.constants)]
    pytest.fail(f"{what} {SEED}/{i}\n{case.text}\n{group.shares} {ways}\n{found}\n\n{case.snippet()}", pytrace=False)


def test_shards_give_the_results_of_the_reference() -> None:
    several = drawn = 0
    for i, rng, case in cases("planned", 50):
        expected = case.expected()
        for shards in (1, 3, 8):
            group = planned(case, shards)
            several += group.shards > 1
            drawn += shards > 1
            if shards == 1 or group.shards > 1:
                found = mismatch(case, expected, run_sharded(case, group, rng.choice([1, 3]), i))
                if found is not None:
                    fail("planned", i, case, group, found)
    assert several > 0.4 * drawn  # otherwise little was compared


@pytest.mark.parametrize("many", [MAX_PLACES_WALKED, 0], ids=["by place", "by node"])
def test_every_correct_dimension_is_correct(monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    """Not only the best ones: any, in any number, with any shares. Plans with many places have equal parts laid out
    alike."""
    compared = 0
    monkeypatch.setattr(places_module, "MAX_PLACES_WALKED", many)

    def at_random(plan: Plan, catalog: Catalog, shards: int, rates: Any = None) -> Partitioning:
        places = Places(plan)
        choices = Layouts(catalog, places).choices(plan)
        if not choices:
            return partition(plan, catalog, 1)
        taken = tuple(rng.sample(choices, min(len(choices), rng.choice([1, 2, 3]))))
        grid = Grid(tuple(rng.choice([2, 3]) for _ in taken), taken)
        return lay_out(places, catalog, grid, sources_of(places, catalog, {}))

    monkeypatch.setattr(program, "partition", at_random)
    for i, rng, case in cases("any", 30):  # noqa: B007 (at_random draws from it)
        group = planned(case, 8)
        if group.shards > 1:
            compared += 1
            found = mismatch(case, case.expected(), run_sharded(case, group, 2, i))
            if found is not None:
                fail("any", i, case, group, found)
    assert compared > 5 * FACTOR
