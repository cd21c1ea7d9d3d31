"""Plots show what a query's own statistics say."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.adaptive.filters.filter_statistics import FilterStatistics
from eddyline.core.errors import EddylineError, JobError
from eddyline.plot import REMEDY, heat_map, join_rates, timeline
from eddyline.streamon.work_history import MAX_POINTS, History


def query(**options: Any) -> Any:
    rows = 20_000
    random = np.random.default_rng(1)
    table = pa.table({
        "ts": range(rows),
        "room": [f"room {i}" for i in random.integers(0, 4, rows)],
        "v": random.random(rows),
        "w": random.random(rows),
    })  # fmt: skip
    session = ed.Session()
    session.stream("R", table, timestamp="ts")
    session.function("warm", lambda room, v: v > (0.9 if room < "room 2" else 0.1))
    session.function("bright", lambda room, w: w > (0.1 if room < "room 2" else 0.9))
    found = session.query("SELECT Istream(ts) FROM R WHERE warm(room, v) AND bright(room, w)", **options)
    found.to_arrow()
    return found


def test_the_timeline_adds_up_to_the_counts() -> None:
    found = query(filters="a-greedy(p=0.05)")
    (told,) = found.statistics().values()
    history = told["history"]
    assert sum(history["rows"]) == told["rows"] == 20_000
    assert sum(history["asked"]) == sum(told["asked"])
    assert sum(history["profiling"]) == sum(told["profiling"]) > 0
    axis = timeline(found)
    assert axis.get_title() == "select 1: a-greedy"
    decisions = [line for line in axis.lines if line.get_linestyle() == ":"]
    assert [int(line.get_xdata()[0]) for line in decisions] == history["decided"]
    assert len(history["decided"]) == len([d for d in found.decisions if d.kind == "filter order"])


def test_the_heat_map_shows_selectivities_by_class() -> None:
    found = query(routing="default")
    axis = heat_map(found)
    assert axis.get_ylabel().endswith("room")
    (told,) = found.statistics().values()
    table = told["by_class"][axis.get_ylabel()]
    shown = axis.images[0].get_array()
    assert shown.shape == (len(table["classes"]), 2)
    assert np.allclose(shown, np.array(table["selectivity"], float))
    assert [t.get_text() for t in axis.get_yticklabels()] == table["classes"]
    low = table["classes"].index("room 0")
    assert shown[low, 0] < 0.3 < shown[low, 1]


def joined(**options: Any) -> Any:
    random = np.random.default_rng(2)
    session = ed.Session()
    for name, keys in (("R", 20), ("S", 20), ("T", 400)):
        stamps = np.sort(random.integers(0, 20_000, 10_000))
        session.stream(name, pa.table({"ts": stamps, "a": random.integers(0, keys, 10_000)}), timestamp="ts")
    windows = "R [RANGE 30] r, S [RANGE 30] s, T [RANGE 30] t"
    found = session.query(f"SELECT Istream(r.ts) FROM {windows} WHERE r.a = s.a AND s.a = t.a", **options)
    found.to_arrow()
    return found


def test_the_rates_of_a_join_add_up_and_show_its_changes() -> None:
    found = joined(joins="a-greedy(p=0.2, window=100)", caches="none")
    (told,) = found.statistics().values()
    history = told["history"]
    assert sum(h["elements"] for h in history) == told["elements"] == history[-1]["total"]
    axis = join_rates(found, points=5)
    rate, accesses = (a.patches[0].get_data() for a in axis.figure.axes)
    assert len(rate.values) <= 6 and (rate.values > 0).all()
    widths = np.diff(accesses.edges)
    assert (accesses.values * widths).sum() == pytest.approx(told["accesses"])
    marks = [line for line in axis.lines if line.get_linestyle() == ":"]
    assert 0 < len(marks) <= history[-1]["decisions"]
    with pytest.raises(
        EddylineError, match=r"^mjoin 1 has no changes to draw: its plan is fixed, or no element has come"
    ):
        join_rates(joined(joins="static", caches="none"))
    with pytest.raises(EddylineError, match=r"^nothing in this query joins three or more inputs"):
        join_rates(query(filters="a-greedy"))


def test_what_cannot_be_drawn_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    found = query(filters="a-greedy")
    with pytest.raises(EddylineError, match=r"^nothing in this query routes by content: there is nothing to draw\.$"):
        heat_map(found)
    with pytest.raises(JobError, match=r"^no operator named 'select 2' keeps a history .* Did you mean 'select 1'\?$"):
        timeline(found, "select 2")
    with pytest.raises(JobError, match=r"has no classes of 'rom'"):
        heat_map({"by_class": {"room": {}}, "classifiers": [None], "filters": ["a"]}, "rom")
    whole = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return whole(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(EddylineError) as failed:
        timeline(found)
    assert str(failed.value) == REMEDY and "pip install 'eddyline[plot]'" in REMEDY


def test_a_history_is_bounded_and_forgets_nothing() -> None:
    history = History()
    for i in range(10_000):
        history.add(7, 11, i % 2)
        history.decided(7 * i)
    told = history.statistics()
    assert max(len(line) for line in told.values()) <= MAX_POINTS
    assert (sum(told["rows"]), sum(told["asked"]), sum(told["profiling"])) == (70_000, 110_000, 5_000)
    assert max(told["rows"][:-1]) <= 3 * min(told["rows"][:-1])


def test_a_history_outlives_a_restart() -> None:
    counts = FilterStatistics(2)
    counts.add(10, np.array([10, 5]), np.array([5, 2]), np.array([0, 1]), np.zeros(2), np.ones(2))
    other = FilterStatistics(2)
    other.load(counts.state())
    assert other.statistics() == counts.statistics()
    older = {k: v for k, v in counts.state().items() if k != "history"}
    FilterStatistics(2).load(older)
