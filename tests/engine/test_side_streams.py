"""Side streams of queries that read side streams: each ends when its query has worked off what its inputs brought."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import eddyline as ed

SCHEMA = pa.schema([("t", pa.int64()), ("v", pa.int64())])
DECLARED: dict[str, dict[str, Any]] = {"invalid": {}, "late": {"slack": 2}, "shed": {"overload": "drop above 3 rows"}}
CHAIN = """
first: SELECT Istream(100 / (v % 3) AS x) FROM S WITH (on_error = 'invalid');
second: SELECT Istream(7 / (length(row) - length(row)) AS y) FROM {which}(first) WITH (on_error = 'invalid');
third: SELECT Istream(7 / (length(row) - length(row)) AS y) FROM invalid(second) WITH (on_error = 'invalid');
last: SELECT Istream(stream) FROM invalid(third);
"""
POLICIES = ("fifo", "greedy", "chain", "round-robin")


def run(rng: random.Random, which: str, rows: list[dict[str, int]], ended: bool) -> dict[str, Any]:
    """``ended``: the stream ends while another one, that no query of the chain reads, goes on."""
    session = ed.Session(scheduler=rng.choice(POLICIES))
    session.warns = False
    session.stream("S", schema=SCHEMA, timestamp="t", **DECLARED[which])
    session.stream("T", schema=SCHEMA, timestamp="t")
    beside = session.query("SELECT Istream(t) FROM T")
    made = session.execute(CHAIN.format(which=which))
    queries = {q.name: q for q in session.queries}
    assert made is not None and {"first", "second", "third", "last"} <= queries.keys()
    session.budget, session.quantum = rng.choice([None, 1, 3]), rng.choice([2, 64])
    at = 0
    while at < len(rows):
        count = rng.randint(1, 9)
        session.push("S", rows[at : at + count])
        at += count
        session.budget = rng.choice([None, 1, 3])
    session.finish("S") if ended else session.finish()
    for t in range(60 if ended else 0):  # a budget leaves work for later steps
        session.push("T", [{"t": t, "v": 0}])
    if ended:
        session.finish()
        assert sum(b.num_rows for b in beside.running.results) == 60
    first = queries["first"]
    turned = {"invalid": first.running.invalid, "late": session.inputs["s"].late, "shed": session.inputs["s"].shed}
    return {
        "turned": turned[which].count,
        "second": queries["second"].running.invalid.count,
        "third": queries["third"].running.invalid.count,
        "last": sum(b.num_rows for b in queries["last"].running.results),
    }


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("which", list(DECLARED))
def test_a_chain_of_side_streams_loses_nothing_at_its_end(which: str, ended: bool) -> None:
    found = 0
    for seed in range(25):
        rng = random.Random(f"{which} {ended} {seed}")
        rows = [{"t": max(0, t - rng.choice([0, 0, 0, 9])), "v": rng.randint(0, 8)} for t in range(40)]
        if which != "late":
            rows.sort(key=lambda r: r["t"])
        rows[-1]["v"] = 0  # fails in the last instant, which the end of the stream closes
        got = run(rng, which, rows, ended)
        assert got["last"] == got["third"] == got["second"] == got["turned"], (seed, got)
        found += got["last"]
    assert found > 100


@pytest.mark.parametrize("which", ["late", "invalid", "shed"])
def test_a_side_stream_that_nobody_reads_is_no_part_of_a_snapshot(tmp_path: Path, which: str) -> None:
    def declared() -> ed.Session:
        session = ed.Session()
        session.warns = False
        session.stream("S", schema=SCHEMA, timestamp="t")
        session.query("SELECT Istream(v) FROM S", name="q")
        return session

    text = f"SELECT Istream(stream, reason) FROM {which}(q)"
    session = declared()
    first, second = session.query(text), session.query(text)
    session.drop(first)
    session.push("S", [{"t": 5, "v": 1}, {"t": 1, "v": 2}, {"t": 9, "v": 3}])
    assert sum(len(b) for b in second.fetch()) == (which == "late")  # the other one goes on
    session.drop(second)
    with pytest.raises(ed.JobError):
        session.query(f"SELECT Istream(stream) FROM {which}(q) WITH (filters = 'a-greedy(p = 7)')")
    assert session.sides == {}
    session.snapshot(tmp_path / "state")
    again = declared()
    again.restore(tmp_path / "state")
    later = again.query(text)
    again.push("S", [{"t": 1, "v": 2}, {"t": 11, "v": 3}, {"t": 12, "v": 3}])
    assert sum(len(b) for b in later.fetch()) == (which == "late")
