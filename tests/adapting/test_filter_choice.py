"""Which selections adapt, what options say, what explain and reports show, what survives a snapshot."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.core.errors import JobError
from eddyline.operators.adaptive_select import AdaptiveSelect
from eddyline.operators.select import SelectOperator
from eddyline.testing.clock import ManualClock

SCHEMA = pa.schema([("ts", pa.int64()), ("a", pa.int64()), ("b", pa.int64()), ("s", pa.string())])


def rows(count: int, start: int = 0) -> pa.Table:
    n = np.arange(start, start + count)
    return pa.table({"ts": n, "a": n % 10, "b": n % 7, "s": pa.array([f"name-{i % 50}" for i in n])}, schema=SCHEMA)


class Asked:
    """A session with functions that count what they are asked; an answer takes a microsecond of a given ``clock``."""

    def __init__(self, table: pa.Table | None = None, clock: ManualClock | None = None) -> None:
        self.session, self.clock = ed.Session(clock=clock), clock
        self.calls: Counter[str] = Counter()
        if table is None:
            self.session.stream("S", schema=SCHEMA, timestamp="ts")
        else:
            self.session.stream("S", table, timestamp="ts")
        self.session.function("small", lambda a: self.told("small") and a < 9)
        self.session.function("rare", lambda b: self.told("rare") and b == 3)
        self.session.function("fickle", lambda a: self.told("fickle") and a != 5, deterministic=False)

    def told(self, name: str) -> bool:
        self.calls[name] += 1
        if self.clock is not None:
            self.clock.advance(1)
        return True


def select_of(query: Any) -> Any:
    operators = [n.operator for n in query.running.physical.nodes]
    (found,) = [o for o in operators if isinstance(o, SelectOperator | AdaptiveSelect)]
    return found


@pytest.mark.parametrize(
    ("condition", "adapts", "why"),
    [
        ("small(a) AND rare(b)", True, "policy default"),
        ("small(a) AND s RLIKE 'name-[0-4]$'", True, "policy default"),
        ("small(a) AND a > 2", False, "S.a > 2, small(S.a) (fixed: cheap ones first)"),
        ("a > 2 AND b > 2", False, "S.a > 2, S.b > 2 (fixed: they cost less than to measure them)"),
        ("10 / a > 2 AND b > 2", False, "S.b > 2, 10.0 / S.a > 2.0 (fixed: they cost less than to measure them)"),
        (
            "fickle(a) AND rare(b)",
            False,
            "fickle(S.a), rare(S.b) (fixed: conjuncts that are not deterministic keep their places",
        ),
        ("fickle(a) AND rare(b) AND small(a)", True, "1. fickle(S.a): not evaluated yet, keeps its place"),
        ("small(a) AND a > 2 AND rare(b)", True, "first, on whole batches: S.a > 2"),
    ],
)
def test_what_adapts_by_default_and_what_explain_says(condition: str, adapts: bool, why: str) -> None:
    query = Asked().session.query(f"SELECT Istream(a) FROM S WHERE {condition}")
    assert isinstance(select_of(query), AdaptiveSelect) == adapts
    assert why in query.explain()


def test_a_single_conjunct_has_nothing_to_tell() -> None:
    query = Asked().session.query("SELECT Istream(a) FROM S WHERE small(a)")
    assert isinstance(select_of(query), SelectOperator) and "filters" not in query.explain()


def test_options_choose_the_policy_and_its_parameters() -> None:
    session = Asked().session
    text = "SELECT Istream(a) FROM S WHERE a > 2 AND b > 2"
    by_text = session.query(f"{text} WITH (filters = 'a-greedy', p = 0.05, window = 200)")
    assert (select_of(by_text).conjunction.policy.name, select_of(by_text).conjunction.policy.p) == ("a-greedy", 0.05)
    by_keyword = session.query(text, filters="Sweep(p=0.2)", window=50)
    policy = select_of(by_keyword).conjunction.policy
    assert (policy.name, policy.p, policy.window.size) == ("sweep", 0.2, 50)
    unnamed = session.query("SELECT Istream(a) FROM S WHERE small(a) AND rare(b)", p=0.1)
    assert (select_of(unnamed).conjunction.policy.name, select_of(unnamed).conjunction.policy.p) == ("default", 0.1)
    strict = session.query(text, filters="a-greedy", strict_order=True)
    assert isinstance(select_of(strict), SelectOperator) and "strict_order" in strict.explain()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"filters": "a-gredy"}, "unknown filter policy 'a-gredy'. Did you mean 'a-greedy'?"),
        ({"filters": 3}, "the option 'filters' is one of static, independent, .*, not 3."),
        ({"filters": "sweep", "burst": 0.5}, "unknown option 'burst'"),
        ({"filters": "sweep", "windw": 5}, "unknown option 'windw'. Did you mean 'window'?"),
        ({"filters": "sweep(windw=5)"}, "no option 'windw'. Did you mean 'window'?"),
        ({"p": 1.5}, "p.*1.5"),
        ({"strict_order": "yes"}, "'strict_order' is TRUE or FALSE, not 'yes'"),
        ({"strict": True}, "unknown option 'strict'. Did you mean 'strict_order'?"),
    ],
)
def test_mistakes_in_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(JobError, match=message):
        Asked().session.query("SELECT Istream(a) FROM S WHERE small(a) AND rare(b)", **options)


def test_a_mistake_in_a_job_has_its_place() -> None:
    with pytest.raises(JobError, match="Did you mean 'sweep'") as caught:
        Asked().session.execute("SELECT Istream(a) FROM S WHERE a > 2 AND b > 2 WITH (filters = 'swep');")
    assert "^^^^" in str(caught.value)


def test_strict_order_asks_as_written_and_the_default_less() -> None:
    text = "SELECT Istream(ts) FROM S WHERE small(a) AND rare(b)"
    asked = {}
    for strict in (True, False):
        case = Asked(rows(6_000), ManualClock())
        answer = case.session.query(text, strict_order=strict).to_arrow()["ts"].to_pylist()
        assert answer == [i for i in range(6_000) if i % 10 < 9 and i % 7 == 3]
        asked[strict] = case.calls
    assert asked[True] == {"small": 6_000, "rare": 5_400}
    assert asked[False]["rare"] <= 6_000 and asked[False].total() < 0.75 * asked[True].total()


@pytest.mark.parametrize("held_up", [{1}, {70}, {1, 200}], ids=["first row", "second pass", "twice"])
@pytest.mark.parametrize("routing", [None, "default"])
def test_a_model_that_is_loaded_at_a_row_of_the_first_is_not_what_its_filter_costs(
    held_up: set[int], routing: str | None
) -> None:
    case = Asked(rows(6_000), ManualClock())

    def loads(b: int) -> bool:
        case.told("loads")
        if case.calls["loads"] in held_up:
            case.clock.advance(500_000)
        return b == 3

    case.session.function("loads", loads)
    query = case.session.query("SELECT Istream(ts) FROM S WHERE small(a) AND loads(b)", routing=routing)
    assert query.to_arrow().num_rows == len([i for i in range(6_000) if i % 10 < 9 and i % 7 == 3])
    assert case.calls["small"] < 3_000  # 857 of them have to be asked, all before a better order is known


@pytest.mark.parametrize("row", [1, 180, 190, 300])
@pytest.mark.parametrize("routing", [None, "default"])
def test_a_pause_in_a_small_call_does_not_make_a_dear_filter_free(row: int, routing: str | None) -> None:
    """Sixteen rows that take longer than sixty-four before them: whatever that is, rows still have a price."""
    clock = ManualClock()
    session, asked = ed.Session(clock=clock), 0
    session.stream("S", rows(6_000), timestamp="ts")

    def cheap(numbers: pa.Array) -> pa.Array:
        clock.advance(10 * len(numbers))
        return pa.array([n % 10 == 0 for n in numbers.to_pylist()])

    def dear(numbers: pa.Array) -> pa.Array:
        nonlocal asked
        clock.advance(1000 * len(numbers) + (500_000 if asked < row <= asked + len(numbers) else 0))
        asked += len(numbers)
        return pa.array([n // 10 % 2 == 0 for n in numbers.to_pylist()])

    for function in (cheap, dear):
        session.function(function.__name__, function, arguments=["bigint"], kind="arrow")
    query = session.query("SELECT Istream(ts) FROM S WHERE cheap(ts) AND dear(ts)", routing=routing)
    assert query.to_arrow().num_rows == 300
    assert asked < 1_500  # 600 have to be


def test_what_is_not_deterministic_sees_what_survives_before_it() -> None:
    case = Asked(rows(6_000))
    text = "SELECT Istream(ts) FROM S WHERE small(a) AND rare(b) AND fickle(a) AND b > 2 AND s > ''"
    query = case.session.query(text)
    assert query.to_arrow().num_rows == len([i for i in range(6_000) if i % 10 < 9 and i % 7 == 3 and i % 10 != 5])
    assert case.calls["fickle"] == len([i for i in range(6_000) if i % 10 < 9 and i % 7 == 3])


def test_nothing_is_pushed_past_what_is_not_deterministic() -> None:
    for text, called in (("fickle(x.a) AND x.b = 3", 40), ("x.b = 3 AND fickle(x.a)", 6)):
        case = Asked(rows(40))
        case.session.relation("R", pa.table({"a": list(range(10))}))
        query = case.session.query(f"SELECT Istream(x.ts) FROM S x, R WHERE x.a = R.a AND {text}")
        answer = query.to_arrow()["ts"].to_pylist()
        assert answer == [i for i in range(40) if i % 10 != 5 and i % 7 == 3]
        assert case.calls["fickle"] == called


def test_explain_and_report_tell_the_same_decisions() -> None:
    case = Asked(rows(20_000), ManualClock())
    query = case.session.query("SELECT Istream(ts) FROM S WHERE small(a) AND rare(b)")
    query.to_arrow()
    text, report = query.explain(), query.report()
    assert "1. rare(S.b): passes 14." in text and "2. small(S.a): passes 9" in text and "s a row" in text
    assert "to learn: " in text
    found = [d for d in report["decisions"] if d["kind"] == "filter order"]
    assert found and found[0]["after"] == ["rare(S.b)", "small(S.a)"]
    assert found[0]["evidence"]["profiled"] > 0 and found[0]["measured_gain"] > 1
    assert "select 1 at " in text and "expected gain " in text and "; measured " in text
    assert [d.to_dict() for d in query.decisions] == report["decisions"]
    (adapting,) = report["adapting"]
    (known,) = query.statistics().values()
    assert adapting == {"operator": "select 1", **{k: v for k, v in known.items() if k != "history"}}
    assert adapting["asked"][1] + adapting["profiling"][1] == case.calls["rare"]
    json.dumps(report)


def test_what_was_learned_survives_a_snapshot(tmp_path: Any) -> None:
    text = "SELECT Istream(ts) FROM S WHERE small(a) AND rare(b)"
    case = Asked()
    query = case.session.query(text)
    case.session.push("S", rows(5_000))
    first = query.to_arrow()
    case.session.snapshot(tmp_path)
    there = Asked()
    restored = there.session.query(text)
    there.session.restore(tmp_path)
    assert select_of(restored).conjunction.policy.order == select_of(query).conjunction.policy.order == (1, 0)
    told = [json.dumps([d.to_dict() for d in q.decisions]) for q in (restored, query)]
    assert told[0] == told[1] != "[]"
    there.session.push("S", rows(2_000, 5_000))
    there.session.finish()
    ids = [*first["ts"].to_pylist(), *restored.to_arrow()["ts"].to_pylist()]
    assert ids == [i for i in range(7_000) if i % 10 < 9 and i % 7 == 3]
    assert there.calls["small"] < 600  # rare goes first at once
    assert restored.report()["decisions"][0]["before"] == ["small(S.a)", "rare(S.b)"]


def test_what_was_learned_under_other_parameters_is_not_taken_over(tmp_path: Any) -> None:
    text = "SELECT Istream(ts) FROM S WHERE small(a) AND rare(b)"
    first, second = Asked(), Asked()
    first.session.query(text)
    first.session.push("S", rows(5_000))
    first.session.snapshot(tmp_path)
    restored = second.session.query(text, window=50)
    second.session.restore(tmp_path)
    assert select_of(restored).conjunction.seen.rows == 0
    second.session.push("S", rows(2_000, 5_000))
    second.session.finish()
    expected = [i for i in range(5_000, 7_000) if i % 10 < 9 and i % 7 == 3]
    assert restored.to_arrow()["ts"].to_pylist()[-len(expected) :] == expected


def test_explain_counts_in_good_english() -> None:
    case = Asked(rows(1))
    query = case.session.query("SELECT a FROM S [ROWS 5]")
    query.to_arrow()
    assert "Now 1 row, " in query.explain()


def test_errors_of_rows_that_another_drops_are_forgotten_and_others_diverted() -> None:
    case = Asked()
    case.session.function("inverse", lambda a: 1 / a > 0)
    text = "SELECT Istream(ts) FROM S WHERE inverse(a) AND rare(b)"
    query = case.session.query(text, on_error="invalid")
    case.session.push("S", rows(3_000))
    case.session.finish()
    assert query.to_arrow()["ts"].to_pylist() == [i for i in range(3_000) if i % 10 and i % 7 == 3]
    assert query.report()["invalid"] == len([i for i in range(3_000) if i % 10 == 0 and i % 7 == 3])


def test_predicates_are_functions_of_queries() -> None:
    seen = Counter[str]()

    def even(a: Any) -> Any:
        seen[type(a).__name__] += 1
        return a % 2 == 0

    session = ed.Session()
    session.stream("S", rows(100), timestamp="ts")
    session.function("is_even", ed.predicate(even, "a", kind="pandas", cost=1e-6))
    session.function("low", ed.predicate(lambda b: b < 3, "b"))
    query = session.query("SELECT Istream(ts) FROM S WHERE low(b) AND is_even(a)")
    assert query.to_arrow()["ts"].to_pylist() == [i for i in range(100) if i % 2 == 0 and i % 7 < 3]
    assert set(seen) == {"Series"}
    # What is declared to be cheap starts in front.
    assert select_of(query).conjunction.policy.pipeline.initial == (1, 0)


@pytest.mark.parametrize("cost", [0, -1, float("inf"), "cheap", True])
def test_a_cost_is_a_time(cost: Any) -> None:
    with pytest.raises(JobError, match="positive number of seconds"):
        ed.predicate(len, "s", cost=cost)
    with pytest.raises(JobError, match="positive number of seconds"):
        ed.Session().function("f", len, cost=cost)
