"""How much windows that close cost, in counted work, and what they keep."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

import eddyline as ed


def run(text: str, rows: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The results, and the report of each operator by its name."""
    session = ed.Session()
    session.stream("S", list(rows), timestamp="ts")
    query = session.query(text)
    return query.to_arrow().to_pylist(), {o["name"]: o for o in query.report()["operators"]}


def elements(count: int, shift: int = 0) -> list[dict[str, Any]]:
    rng = random.Random(4)
    return [{"ts": i // 5 + shift, "k": rng.randrange(20), "v": rng.randrange(100)} for i in range(count)]


def test_hop_does_the_work_of_a_sliding_window() -> None:
    """[e − w, e) over ts is (e − w, e] over ts + 1: the same elements, panes, changes and results."""
    rest = "GROUP BY k"
    hop, of_hop = run(f"SELECT k, count(*) AS n, sum(v) AS t FROM S [HOP 60 EVERY 7] {rest}", elements(20_000))
    slide, of_slide = run(f"SELECT k, count(*) AS n, sum(v) AS t FROM S [RANGE 60 SLIDE 7] {rest}", elements(20_000, 1))
    key = [(r["k"], r["n"], r["t"], r["_time"], r["_sign"]) for r in slide]
    assert sorted((r["k"], r["n"], r["t"], r["_time"], r["_sign"]) for r in hop) == sorted(key)
    assert list(of_hop) == list(of_slide) == ["panes 1", "seq-window 1", "aggregate 1", "project 1", "changes 1"]
    for name in of_hop:
        assert of_hop[name]["elements_in"] == of_slide[name]["elements_in"], name
    assert of_hop["seq-window 1"]["elements_in"] < 0.7 * 20_000  # panes, not elements


def test_edges_do_not_multiply_the_elements_of_an_aggregate() -> None:
    """A row of HOP 60 EVERY 2 is in 30 windows; the aggregate gets it once, and its groups get the edges."""
    rows = elements(20_000)
    plain, of_plain = run("SELECT k, count(*) AS n FROM S [HOP 60 EVERY 2] GROUP BY k", rows)
    _, of_edges = run(
        "SELECT Wstream(k, window_end, count(*) AS n) FROM S [HOP 60 EVERY 2] GROUP BY k, window_end", rows
    )
    assert of_edges["aggregate 1"]["elements_in"] == pytest.approx(of_plain["aggregate 1"]["elements_in"], rel=0.05)
    assert of_edges["window-columns 1"]["elements_in"] == pytest.approx(len(plain), rel=0.05)


@pytest.mark.parametrize("window", ["[TUMBLE 10]", "[SESSION 3 GAP PARTITION BY k]"])
def test_groups_that_are_complete_are_not_taken_apart_again(window: str) -> None:
    """All elements of such a window enter at once: the aggregate gets each once, and no deletion."""
    text = f"SELECT Wstream(k, window_end, max(v) AS m) FROM S {window} GROUP BY k, window_end"
    _, operators = run(text, elements(5_000))
    assert operators["aggregate 1"]["elements_in"] == 5_000
    assert operators["aggregate 1"]["rows"] == 0
    assert "w-stream 1" not in operators


def test_a_tumbling_window_with_edges_stays_inside_the_join() -> None:
    text = "SELECT Istream(a.v, a.window_end) FROM S [TUMBLE 10] a, S [TUMBLE 10] b WHERE a.k = b.v"
    _, operators = run(text, elements(2_000))
    assert "binary-join 1" in operators
    assert not any(n.startswith("seq-window") for n in operators)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT Wstream(k, window_end, count(*) AS n) FROM S [TUMBLE 1] GROUP BY k, window_end",
        "SELECT Wstream(k, count(*) AS n) FROM S [TUMBLE 1] GROUP BY k",
        "SELECT Wstream(k, window_end) FROM S [HOP 3 EVERY 1]",
        "SELECT Wstream(k, window_end) FROM S [SESSION 3 GAP PARTITION BY k]",
    ],
)
def test_quiet_times_cost_nothing(text: str) -> None:
    """There are 10¹² ends of windows between the two elements; nobody counts them."""
    found, _ = run(text, [{"ts": 0, "k": 1}, {"ts": 10**12, "k": 2}])
    assert {r["k"] for r in found} == {1, 2}


def test_open_sessions_alone_are_kept() -> None:
    """Thousands of sessions pass; the state is that of the few that are open."""
    rows = [{"ts": 10 * i, "k": i} for i in range(5_000)]
    found, operators = run("SELECT Wstream(k, window_start) FROM S [SESSION 25 GAP PARTITION BY k]", rows)
    assert len(found) == 5_000
    assert operators["session-window 1"]["rows"] <= 5


def test_expired_elements_are_forgotten() -> None:
    rows = [{"ts": i, "k": i % 3, "u": i + 5 if i % 2 else i - 1} for i in range(5_000)]
    found, operators = run("SELECT k, ts FROM S [UNTIL u]", rows)
    assert sum(r["_sign"] for r in found) == 3  # those of the last six instants, every other of them
    assert operators["until-window 1"]["rows"] == 3


@pytest.mark.parametrize(
    ("window", "said"),
    [
        ("[HOP 60 EVERY 2]", "the elements of [HOP 60 EVERY 2], to delete them when they leave"),
        ("[SESSION 9 GAP PARTITION BY k]", "the elements of open sessions: grows with the length of sessions"),
        ("[UNTIL u]", "the elements whose u has not come yet, to delete them then: for ever where it is NULL"),
    ],
)
def test_explain_says_what_is_kept_and_why(window: str, said: str) -> None:
    session = ed.Session()
    session.stream("S", [{"ts": 1, "k": 1, "u": 3}], timestamp="ts")
    text = session.query(f"SELECT k, max(ts) AS m FROM S {window} GROUP BY k").explain()
    assert window.replace("BY k", "BY S.k").replace("UNTIL u", "UNTIL S.u") in text
    assert said in text
