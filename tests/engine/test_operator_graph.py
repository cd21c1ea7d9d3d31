"""One graph per session: equal sub-plans run once, whoever reads them, and everybody gets what it would get alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import eddyline
from eddyline.streamon.decision import Decision
from tests.engine.sessions import fetched, rows, session

WIDE = pa.schema([("ts", pa.int64()), ("a", pa.int64()), ("b", pa.int64()), ("c", pa.string())])


class Counting:
    """A user's function that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, value: int | None) -> bool:
        self.calls += 1
        return value is not None and value % 2 == 0


def wide(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [{"ts": i, "a": i % 7, "b": i, "c": f"x{i % 3}"} for i in range(first, first + count)]


def started(**options: Any) -> tuple[eddyline.Session, Counting]:
    made, even = eddyline.Session(**options), Counting()
    made.stream("S", schema=WIDE, timestamp="ts")
    made.stream("T", schema=WIDE, timestamp="ts")
    made.function("even", even, arguments=["bigint"])
    return made, even


def operators(made: eddyline.Session) -> int:
    return len(made._graph.operators)


@pytest.mark.parametrize("readers", [1, 2, 10])
def test_a_function_is_called_once_for_a_row_however_many_read_the_result(readers: int) -> None:
    """A named query, and readers that ask for different columns, filters, windows and aliases of it."""
    texts = [
        "SELECT Istream(a) FROM hot",
        "SELECT Istream(c) FROM hot h WHERE h.b > 10",
        "SELECT count(*) AS n FROM hot [ROWS 3]",
        "SELECT a, sum(b) AS t FROM hot [RANGE 5] GROUP BY a",
        "SELECT Rstream(b) FROM hot [NOW]",
    ]
    made, even = started()
    made.query("SELECT Istream(*) FROM S WHERE even(b)", name="hot")
    queries = [made.query(texts[i % len(texts)]) for i in range(readers)]
    for i in range(100):
        made.push("S", wide(1, i))
    made.finish()
    assert even.calls == 100
    for i, query in enumerate(queries):
        assert fetched(query) == alone([("hot", "SELECT Istream(*) FROM S WHERE even(b)")], texts[i % len(texts)])


def alone(named: list[tuple[str, str]], text: str) -> list[tuple[Any, ...]]:
    made, _ = started(sharing=False)
    for name, view in named:
        made.view(name, view)
    query = made.query(text)
    for i in range(100):
        made.push("S", wide(1, i))
    made.finish()
    return fetched(query)


@pytest.mark.parametrize("readers", [1, 2, 10])
def test_equal_filters_of_different_columns_are_asked_once(readers: int) -> None:
    """Neither a view nor a name: two queries that happen to ask the same."""
    made, even = started()
    queries = [made.query(f"SELECT Istream({c}) FROM S WHERE even(b)") for c in ("a", "b", "c")[:readers]]
    made.push("S", wide(50))
    made.finish()
    assert even.calls == 50
    assert [len(fetched(q)) for q in queries] == [25] * len(queries)


def test_a_view_with_an_aggregate_has_one_for_those_who_need_deletions_and_those_who_do_not() -> None:
    made, even = started()
    view = "SELECT a, count(*) AS n FROM S [RANGE 9] WHERE even(b) GROUP BY a"
    made.view("v", view)
    texts = ["SELECT Istream(a, n) FROM v", "SELECT a FROM v WHERE n > 1", "SELECT max(n) AS m FROM v"]
    queries = [made.query(t) for t in texts]
    for i in range(100):
        made.push("S", wide(1, i))
    made.finish()
    assert even.calls == 100
    assert sum(o.task.name.startswith("aggregate") for o in made._graph.operators) == 2  # the view's, and max
    for query, text in zip(queries, texts, strict=True):
        assert fetched(query) == alone(
            [("v", "SELECT a, count(*) AS n FROM S [RANGE 9] WHERE even(b) GROUP BY a")], text
        )


def test_aliases_and_names_of_results_do_not_matter() -> None:
    made, _ = started()
    join = "FROM S [RANGE 10] {0}, T [RANGE 10] {1} WHERE {0}.a = {1}.a GROUP BY {0}.a"
    first = made.query("SELECT p.a, sum(p.b) AS total " + join.format("p", "q"))
    count = operators(made)
    second = made.query(
        "SELECT x.a AS k, sum(x.b) AS t FROM S [RANGE 10] x, T [RANGE 10] y WHERE x.a = y.a GROUP BY x.a"
    )
    assert operators(made) == count
    for i in range(60):
        made.push("S", wide(1, i))
        made.push("T", wide(1, i))
    made.finish()
    one, other = first.to_arrow(), second.to_arrow()
    assert one.num_rows > 50
    assert other.schema.names[:2] == ["k", "t"]
    assert one.to_pydict() == other.rename_columns(one.schema.names).to_pydict()


def test_equal_queries_cost_one_and_their_windows_are_kept_once() -> None:
    text = "SELECT a, sum(b) AS t FROM S [RANGE 50] WHERE even(b) GROUP BY a"
    runs, kept, bytes_kept = {}, {}, {}
    for readers in (1, 100):
        made, even = started()
        queries = [made.query(text) for _ in range(readers)]
        for i in range(100):
            made.push("S", wide(1, i))
        assert even.calls == 99  # the last instant is open
        runs[readers] = sum(o.task.statistics.runs for o in made._graph.operators)
        kept[readers], bytes_kept[readers] = made.store_size
        answers = [fetched(q) for q in queries]
        assert len(answers[0]) > 50
        assert all(a == answers[0] for a in answers)
        made.drop(queries[0])  # the one that built the operators
        made.push("S", wide(1, 100))
        assert all(fetched(q) for q in queries[1:])
    assert runs[100] == runs[1]
    assert kept[100] == kept[1]
    assert bytes_kept[100] == bytes_kept[1]


def test_what_nobody_reads_goes() -> None:
    made, even = started()
    hot = made.query("SELECT Istream(*) FROM S WHERE even(b)", name="hot")
    one = made.query("SELECT a, count(*) AS n FROM hot [RANGE 5] GROUP BY a")
    made.push("S", wide(10))
    hot.drop()
    made.push("S", wide(10, 10))
    assert even.calls == 19
    assert fetched(one)
    one.drop()
    assert operators(made) == 0
    assert not made._graph.intakes
    assert not made._graph.lines
    assert made.store_size == (0, 0)
    made.push("S", wide(10, 20))
    assert even.calls == 19


def test_a_query_that_comes_later_answers_as_if_its_inputs_began_then() -> None:
    text = "SELECT a, count(*) AS n FROM S [RANGE 20] GROUP BY a"
    made, _ = started()
    first = made.query(text)
    made.push("S", wide(10))
    later = made.query(text)
    twin = made.query(text)
    assert operators(made) == 2 * len(first.running.operators)  # the twin reads what the later one built
    made.push("S", wide(10, 10))
    made.finish()
    reference, _ = started()
    expected = reference.query(text)
    reference.push("S", wide(10, 10))
    reference.finish()
    assert fetched(later) == fetched(twin) == fetched(expected)
    assert len(fetched(first)) > 0


@pytest.mark.parametrize("every", [1, 3, 10])
def test_sharing_is_switched_while_queries_run(every: int) -> None:
    texts = [
        "SELECT a, sum(b) AS t FROM S [RANGE 20] WHERE even(b) GROUP BY a",
        "SELECT y.a AS k, sum(y.b) AS s FROM S [RANGE 20] y WHERE even(y.b) GROUP BY y.a",
        "SELECT Istream(p.b, q.b) FROM S [ROWS 5] p, T [RANGE 9] q WHERE p.a = q.a",
        "SELECT Istream(x.b, y.b) FROM S [ROWS 5] x, T [RANGE 9] y WHERE x.a = y.a",
    ]
    made, _ = started()
    queries = [made.query(t) for t in texts]
    shared = operators(made)
    plain, _ = started(sharing=False)
    others = [plain.query(t) for t in texts]
    for i in range(60):
        for s in (made, plain):
            s.push("S", wide(1, i))
            s.push("T", wide(1, i))
        if i % every == 0:
            made.sharing = not made.sharing
            assert operators(made) == (shared if made.sharing else operators(plain))
    made.finish()
    plain.finish()
    for query, other in zip(queries, others, strict=True):
        found = fetched(query)
        assert len(found) > 20
        assert found == fetched(other)


def test_queries_of_different_inputs_share_what_they_have_in_common() -> None:
    """The second one waits for T: what S brought meanwhile waits before its own operators."""
    join = "SELECT Istream(p.b) FROM hot p [RANGE 50], T [RANGE 50] t WHERE p.a = t.a"
    made, even = started()
    quick = made.query("SELECT Istream(a, b) FROM S WHERE even(b)", name="hot")
    slow = made.query(join)
    for i in range(30):
        made.push("S", wide(1, i))
    assert even.calls == 29
    assert len(fetched(quick)) == 15
    assert fetched(slow) == []
    made.push("T", wide(60))
    made.finish()
    assert even.calls == 30
    reference, _ = started()
    reference.view("hot", "SELECT Istream(a, b) FROM S WHERE even(b)")
    expected = reference.query(join)
    reference.push("S", wide(30))
    reference.push("T", wide(60))
    reference.finish()
    found = fetched(slow)
    assert len(found) > 10
    assert found == fetched(expected)


def test_the_end_of_time_is_that_of_each_query() -> None:
    """Both read one window; the time of the first ends with S, that of the second with T."""
    made = session("S", "T")
    made.view("v", "SELECT a, count(*) AS n FROM S [RANGE 3] GROUP BY a")
    short = made.query("SELECT * FROM v")
    long = made.query("SELECT a, n FROM v UNION ALL SELECT a, a FROM T [RANGE 3]")
    assert sum(o.task.name.startswith("aggregate") for o in made._graph.operators) == 1
    made.push("S", rows((1, 1), (2, 2), (5, 5)))
    made.push("T", rows((1, 10), (20, 20)))
    made.finish()
    assert fetched(short) == [(1, 1, 1, 1), (2, 1, 2, 1), (1, 1, 5, -1), (5, 1, 5, 1)]
    assert [r for r in fetched(long) if r[0] < 10] == [
        (1, 1, 1, 1), (2, 1, 2, 1), (1, 1, 5, -1), (5, 1, 5, 1), (2, 1, 6, -1), (5, 1, 9, -1),
    ]  # fmt: skip


def test_an_error_stops_those_who_read_the_operator_and_no_other() -> None:
    made = session("S")
    texts = [
        "SELECT 10 / a AS q FROM S [RANGE 5]",
        "SELECT 10 / x.a AS z FROM S [RANGE 5] x",
        "SELECT a FROM S [RANGE 5]",
    ]
    one, other, third = [made.query(t) for t in texts]
    made.push("S", rows((1, 1), (2, 2)))
    with pytest.raises(eddyline.EddylineError, match="division by zero"):
        made.push("S", rows((3, 0), (4, 1)))
    assert len(fetched(third)) == 3
    for query in (one, other):
        with pytest.raises(eddyline.EddylineError, match="division by zero"):
            list(query.results())
        query.drop()
    made.push("S", rows((9, 7)))
    assert len(fetched(third)) > 0


def test_rows_that_fail_are_counted_by_each_query() -> None:
    made = session("S")
    text = "SELECT 10 / a AS q FROM S [RANGE 5]"
    queries = [made.query(text, on_error="invalid") for _ in range(2)]
    made.push("S", rows((1, 1), (2, 0), (3, 5)))
    made.finish()
    assert [q.report()["invalid"] for q in queries] == [1, 1]
    assert [len(q.invalid()) for q in queries] == [1, 1]


@pytest.mark.parametrize("sharing", [(True, True), (True, False), (False, True)])
def test_a_snapshot_of_a_graph_goes_on(tmp_path: Path, sharing: tuple[bool, bool]) -> None:
    """Queries that began at different elements, one of them dropped; restored with sharing or without."""
    texts = {
        "hot": "SELECT Istream(*) FROM S WHERE even(b)",
        "counts": "SELECT h.a, count(*) AS n FROM hot h [RANGE 9] GROUP BY h.a",
        "again": "SELECT g.a AS k, count(*) AS m FROM hot g [RANGE 9] GROUP BY g.a",
        "later": "SELECT x.a, count(*) AS n FROM hot x [RANGE 9] GROUP BY x.a",
        "pairs": "SELECT Istream(p.b, q.b) FROM hot p [ROWS 4], T q [RANGE 5] WHERE p.a = q.a",
    }

    def feed(target: eddyline.Session, low: int, high: int) -> None:
        for i in range(low, high):
            target.push("S", wide(1, i))
            if i % 2:
                target.push("T", wide(1, i // 2))

    made, _ = started(sharing=sharing[0])
    queries = {n: made.query(t, name=n) for n, t in texts.items() if n in ("hot", "counts", "again")}
    gone = made.query("SELECT c, count(*) AS n FROM hot [RANGE 3] GROUP BY c")
    feed(made, 0, 20)
    queries |= {n: made.query(t, name=n) for n, t in texts.items() if n in ("later", "pairs")}
    gone.drop()
    feed(made, 20, 40)
    before = {n: fetched(q) for n, q in queries.items()}
    made.snapshot(tmp_path)
    saved = operators(made)
    restored, even = started(sharing=sharing[1])
    again = {n: restored.query(t, name=n) for n, t in texts.items()}
    restored.restore(tmp_path)
    if sharing[0] == sharing[1]:
        assert operators(restored) == saved
    feed(made, 40, 60)
    feed(restored, 40, 60)
    if sharing[0] and sharing[1]:
        assert even.calls == 40  # 39 to 58, for those that began with the first element and for those that came later
    for n in texts:
        assert before[n] or n == "pairs"
        assert fetched(again[n]) == fetched(queries[n])
    for target in (made, restored):
        target.finish()
    for n in texts:
        assert fetched(again[n]) == fetched(queries[n])


def test_explain_says_who_reads_what() -> None:
    made, _ = started()
    made.query("SELECT Istream(*) FROM S WHERE even(b)", name="hot")
    query = made.query("SELECT Istream(a) FROM hot", name="reader")
    assert "read by hot, reader" in query.explain()
    (node,) = [n for n in query.plan().nodes if n.kind == "select"]
    assert node.readers == ("hot", "reader")


def test_decisions_about_a_shared_operator_are_in_the_log_of_each_reader() -> None:
    made, _ = started()
    first = made.query("SELECT Istream(a) FROM S WHERE even(b) AND a > 1", name="first")
    second = made.query("SELECT Istream(x.a) AS q FROM S x WHERE even(x.b) AND x.a > 1", name="second")
    select = first.running.operators["select 1"]
    assert second.running.operators["select 1"] is select
    log = select.context.log
    taken = log.record(Decision("filter order", (0, 1), (1, 0)), operator="select 1")
    log.record(Decision("filter order", (0, 1), (1, 0)), operator="another one")
    log.settle(taken.sequence, 2.0)
    for query, count in ((first, 2), (second, 1)):
        found = [d for d in query.decisions if d.kind == "filter order"]
        assert len(found) == count
        assert (found[0].operator, found[0].measured_gain) == ("select 1", 2.0)
    first.drop()
    log.record(Decision("filter order", (1, 0), (0, 1)), operator="select 1")
    assert len([d for d in second.decisions if d.kind == "filter order"]) == 2
