"""Starting plans: what a run learned is where the next run of the same query begins, and what a stale one costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline as ed
from eddyline.testing import ManualClock
from tests.engine.test_steering import Joined

SCHEMA = pa.schema([(n, pa.int64()) for n in ("ts", "a", "b", "c")])
TEXT = "SELECT Istream(a, b, c) FROM S WHERE fa(a) AND fb(b) AND fc(c)"
RATES = (0.9, 0.5, 0.05)  # shares that pass fa, fb, fc


def run(
    learned: Path | None, passes: tuple[float, ...] = RATES, rows: int = 20_000, text: str = TEXT, **options: Any
) -> tuple[ed.Session, Any]:
    session = ed.Session(clock=ManualClock(), learned=learned)
    session.stream("S", schema=SCHEMA, timestamp="ts")
    for name in "abc":
        session.function(f"f{name}", lambda x: x == 1, "boolean", ["bigint"])
    query = session.query(text, **options)
    rng = np.random.default_rng(11)
    columns = {n: (rng.random(rows) < p).astype(np.int64) for n, p in zip("abc", passes, strict=True)}
    table = pa.table({"ts": np.arange(rows), **columns}, schema=SCHEMA)
    for at in range(0, rows, 1000):
        session.push("S", table.slice(at, 1000))
    session.finish()
    return session, query


def work(query: Any) -> int:
    """Evaluations, those for profiling included."""
    s = query.statistics()["select 1"]
    return sum(s["asked"]) + sum(s["profiling"])


def starting(query: Any) -> list[Any]:
    return [d for d in query.decisions if d.kind == "starting plan"]


def test_the_next_run_begins_where_the_last_one_ended(tmp_path: Path) -> None:
    file = tmp_path / "plans.json"
    session, first = run(file)
    assert starting(first) == []
    session.save_learned()
    order = first.statistics()["select 1"]["order"]
    assert order[0] == 2
    _, again = run(file)
    (decision,) = starting(again)
    assert (decision.by, decision.operator, decision.time) == ("session", "select 1", None)
    names = ["fa(S.a)", "fb(S.b)", "fc(S.c)"]
    assert decision.after == [names[f] for f in order]
    assert decision.evidence["selectivity"][2] == pytest.approx(0.05, abs=0.01)
    assert work(again) < work(first)
    assert again.to_arrow() == first.to_arrow()
    assert not any(d.by == "policy" for d in again.decisions)


def test_a_stale_plan_is_said_and_costs_at_most_three_percent(tmp_path: Path) -> None:
    file = tmp_path / "plans.json"
    session, _ = run(file)
    session.save_learned()
    turned = RATES[::-1]
    _, fresh = run(None, turned, rows=100_000)
    _, stale = run(file, turned, rows=100_000)
    applied, said = starting(stale)
    assert applied.after[0] == "fc(S.c)"
    assert said.reason.startswith("stale: ")
    assert stale.statistics()["select 1"]["order"][0] == 0
    assert stale.to_arrow() == fresh.to_arrow()
    print(f"stale {work(stale):,} evaluations, without {work(fresh):,}: {work(stale) / work(fresh):.4f}")
    assert work(stale) <= 1.03 * work(fresh)


def test_an_order_that_stays_good_with_other_selectivities_is_stale_too(tmp_path: Path) -> None:
    file = tmp_path / "plans.json"
    session, _ = run(file)
    session.save_learned()
    _, other = run(file, (0.95, 0.9, 0.5))
    applied, said = starting(other)
    assert "of its rows, and passed" in said.reason
    assert applied.after == said.before == said.after


def test_other_queries_and_other_options_are_not_touched(tmp_path: Path) -> None:
    file = tmp_path / "plans.json"
    session, _ = run(file)
    session.save_learned()
    for text in (TEXT.replace("fa(a) AND fb(b)", "fb(b) AND fa(a)"), TEXT.replace("c)", "c) ", 1).replace("a, b", "a")):
        assert starting(run(file, text=text)[1]) == []
    assert len(starting(run(file, text="  " + TEXT.replace(" WHERE", "\n WHERE"))[1])) == 1
    assert starting(run(file, strict_order=True)[1]) == []
    assert starting(run(file, filters="static")[1]) == []
    assert len(starting(run(file, filters="a-greedy")[1])) == 1
    session, _ = run(None, text="SELECT Istream(a) FROM S WHERE fa(a) AND fb(b) AND fc(c)")
    session.save_learned(file)
    assert len(json.loads(file.read_text())["queries"]) == 2  # what was there stays


@pytest.mark.parametrize("options", [{"filters": None}, {"filters": "static"}, {"routing": "default"}])
def test_a_query_that_is_altered_before_its_starting_plan_is_judged_goes_on(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    session = ed.Session()
    session.stream("S", schema=SCHEMA, timestamp="ts")
    text = "SELECT Istream(ts) FROM S WHERE a < 50 AND b < 50 AND c < 10 WITH (filters = 'a-greedy')"

    def push(begin: int) -> None:
        ts = range(begin, begin + 5000)
        session.push("S", pa.table({"ts": ts, "a": [7] * 5000, "b": [7] * 5000, "c": [t % 100 for t in ts]}))

    first = session.query(text, name="q")
    push(0)
    session.snapshot(tmp_path)  # takes what was learned
    session.drop(first)
    again = session.query(text, name="q")
    assert len(starting(again)) == 1
    again.alter(**options)
    push(5000)
    assert again.to_arrow().num_rows == 500


def test_orders_and_caches_of_joins_are_learned(tmp_path: Path) -> None:
    file = tmp_path / "plans.json"
    first = Joined()
    for _ in range(8):
        first.push()
    orders = next(s for s in first.query.statistics().values() if "orders" in s)["orders"]
    used = first.used
    assert used and orders["S"] == ["R", "T"]
    first.session.save_learned(file)
    again = Joined(learned=file)
    (decision,) = starting(again.query)
    assert decision.after == orders
    assert again.used == used
    without = Joined()
    answers = []
    for j in (again, without):
        for _ in range(4):
            j.push()
        j.session.finish()
        answers.append(j.query.to_arrow())
    assert answers[0] == answers[1]


def test_it_is_saved_beside_a_snapshot(tmp_path: Path) -> None:
    session, _ = run(None)
    session.snapshot(tmp_path / "state")
    (decision,) = starting(run(tmp_path / "state")[1])
    assert decision.after[0] == "fc(S.c)"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is damaged, or no file of what was learned: remove it, or name another file"),
        (b'{"format": 1, "queries"', "is damaged"),
        (b"\xff\xfe", "is damaged"),
        (b"[1, 2]", "holds nothing that this version could have learned"),
        (b'{"format": 99, "queries": {}}', "holds nothing that this version could have learned"),
        (b'{"format": 1, "queries": {"x": {"operators": [1]}}}', "holds nothing that this version"),
    ],
)
def test_a_damaged_file_is_one_sentence(tmp_path: Path, content: bytes, says: str) -> None:
    file = tmp_path / "plans.json"
    file.write_bytes(content)
    with pytest.raises(ed.JobError, match=says):
        ed.Session(learned=file)
    with pytest.raises(ed.JobError, match="learned needs the path of a file, not 5"):
        ed.Session(learned=5)  # type: ignore[arg-type]
    with pytest.raises(ed.JobError, match="there is no file for what was learned"):
        ed.Session().save_learned()


@pytest.mark.parametrize(
    "operators",
    [
        {"select 1": {"filters": ["fa(S.a)", "fb(S.b)", "fc(S.c)"], "order": [0, 0, 1]}},
        {"select 1": {"filters": ["other"], "order": [0]}},
        {"select 1": {}},
        {"select 9": {"filters": [], "order": []}},
    ],
)
def test_what_does_not_fit_is_left_alone(tmp_path: Path, operators: dict[str, Any]) -> None:
    file = tmp_path / "plans.json"
    session, _ = run(file)
    session.save_learned()
    saved = json.loads(file.read_text())
    for entry in saved["queries"].values():
        entry["operators"] = operators
    file.write_text(json.dumps(saved))
    assert starting(run(file)[1]) == []


def test_the_command_line_keeps_it(tmp_path: Path) -> None:
    from eddyline.cli import main

    rng = np.random.default_rng(2)
    rows = 30_000
    table = pa.table({"ts": np.arange(rows), "t": [f"{x}-{y}" for x, y in rng.integers(0, 40, (rows, 2))]})
    pq.write_table(table, tmp_path / "s.parquet")
    job = tmp_path / "job.cql"
    job.write_text(
        "CREATE STREAM S FROM 's.parquet' TIMESTAMP BY ts;\n"
        "SELECT Istream(ts) FROM S WHERE t LIKE '%1%' AND regexp_like(t, '^[0-9]+-7$')"
        " WITH (filters = 'a-greedy(p=0.2)');"
    )
    learned, report = tmp_path / "plans.json", tmp_path / "report.json"
    for _ in range(2):
        arguments = ["run", str(job), "--runtime", "inline", "--out", str(tmp_path / "out.csv"), "--quiet"]
        assert main([*arguments, "--learned", str(learned), "--report", str(report)]) == 0
    (entry,) = json.loads(learned.read_text())["queries"].values()
    assert entry["rates"] == {"S": rows}
    assert len(entry["operators"]["select 1"]["filters"]) == 2
    learned.write_text("{")
    assert main([*arguments, "--learned", str(learned)]) == 2
