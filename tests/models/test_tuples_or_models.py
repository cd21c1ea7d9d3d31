"""Signals on tuples and on models beside each other: how each key is chosen, and that the bound holds on both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.core.time import ProcessorClock, SystemClock
from eddyline.kernels import interpolate
from eddyline.models import phase_costs, tuples_or_models
from eddyline.models.fitting import Fitter
from eddyline.models.phase_costs import FIT, INSTANT, SEGMENT, SHOWN, WALK, PhaseCosts
from eddyline.models.tuples_or_models import Prices
from tests.models.test_error_within import CASES, asked, check, run, signals
from tests.models.test_error_within import early as early_reviews

TEXT = "SELECT k, 2 * x - y AS z FROM S WHERE x > y OR NOT x < 3 {} SAMPLE EVERY 1"
WINDOWS = (
    "SELECT k, avg(x) AS m FROM S [RANGE 9] GROUP BY k HAVING avg(x) > 0 {} SAMPLE EVERY 1",
    "SELECT k, min(x) AS low, max(2 * x - y) AS high FROM S [RANGE 14] GROUP BY k {} SAMPLE EVERY 1",
    "SELECT k, m + 1 AS n FROM (SELECT k, avg(z) AS m, min(z) AS l FROM (SELECT k, x + y AS z FROM S WHERE k <> 'c') "
    "[RANGE 5] GROUP BY k) WHERE m - l < 1 {} SAMPLE EVERY 1",
    "SELECT k, max(x) AS m FROM S [RANGE 3 SLIDE 2] GROUP BY k {}",
)
ASKED = (TEXT, *WINDOWS)
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("x", pa.float64()), ("y", pa.float64())])


early = early_reviews  # the fixture


def mixed(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Signals that are smooth for a while and noisy for a while, sampled now and then or at every tick."""
    rows = []
    for k in "abcd":
        t, smooth, dense = int(rng.integers(0, 5)), True, k in "ab"
        x, y = rng.normal(size=2)
        for _ in range(120):
            if rng.random() < 0.03:
                smooth = not smooth
            x += 0.02 if smooth else rng.normal() * 2
            rows.append({"ts": t, "k": k, "x": round(float(x), 3), "y": round(float(y), 3)})
            t += 1 if dense else int(rng.integers(2, 6)) if rng.random() < 0.97 else 30
    return sorted(rows, key=lambda r: r["ts"])


def answers(table: pa.Table) -> list[dict[str, Any]]:
    return [{n: round(v, 7) if isinstance(v, float) else v for n, v in r.items()} for r in table.to_pylist()]


@pytest.mark.usefixtures("early")
@pytest.mark.parametrize("text", ASKED)
def test_signals_change_their_way_and_the_bound_holds_on_both(text: str) -> None:
    changes = certain = on_tuples = solved = 0
    for case in range(CASES):
        rng = np.random.default_rng([5, case])
        clause, *limits = asked(rng)
        streams = {"S": mixed(rng)}
        size = int(rng.integers(1, 90))
        certain += check(text.format(clause), streams, tuple(limits), size, "auto")  # type: ignore[arg-type]
        _, _, query = run(text.format(clause), streams, size, "auto")
        changes += sum(d.evidence["keys"] for d in query.decisions if d.kind == "tuples or models")
        counts = query.statistics()["model-query 1"]
        on_tuples, solved = on_tuples + counts["S: instants on tuples"], solved + counts["segments solved"]
    many = 3 if text == TEXT else 1  # windows that are not covered have no rows, and cost nothing
    assert changes > many * CASES and certain > 100 * CASES and on_tuples > 100 * CASES and solved > 10 * CASES


@pytest.mark.parametrize("text", WINDOWS)
def test_windows_on_tuples_are_those_of_the_lines_between_samples(text: str) -> None:
    certain = 0
    for case in range(3 * CASES):
        rng = np.random.default_rng([8, case])
        clause, *limits = asked(rng)
        streams = {"S": mixed(rng) if case % 2 else signals(rng, 5)}
        size = int(rng.integers(1, 90))
        certain += check(text.format(clause), streams, tuple(limits), size, "never")  # type: ignore[arg-type]
        table, _, query = run(text.format(clause), streams, size, "never")
        assert not any(table["_uncertain"].to_pylist())
        assert query.statistics()["model-query 1"]["segments solved"] == 0
    assert certain > 100 * CASES


@pytest.mark.usefixtures("early")
@pytest.mark.parametrize("text", ASKED)
def test_batches_do_not_show(text: str) -> None:
    rng, changes = np.random.default_rng(6), 0
    for _ in range(2 * CASES):
        clause, streams = asked(rng)[0], {"S": [*mixed(rng), *signals(rng)]}
        streams["S"].sort(key=lambda r: r["ts"])
        whole, _, first = run(text.format(clause), streams, models="auto")
        pieces, _, second = run(text.format(clause), streams, int(rng.integers(1, 9)), "auto")
        one, other = answers(whole), answers(pieces)
        if text in WINDOWS:  # groups have no order within an instant
            one, other = (sorted(rows, key=lambda r: (r["_time"], str(r))) for rows in (one, other))
        assert one == other
        changed = [
            sum(d.evidence["keys"] for d in q.decisions if d.kind == "tuples or models") for q in (first, second)
        ]
        assert changed[0] == changed[1]
        changes += changed[0]
    assert changes > CASES


@pytest.mark.usefixtures("early")
@pytest.mark.parametrize("models", ["always", "auto", "never"])
@pytest.mark.parametrize("asked_for", [TEXT, WINDOWS[1]])
def test_a_snapshot_holds_the_ways_and_what_waits(asked_for: str, models: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    text, rows = asked_for.format("ERROR WITHIN 0.3 MAX GAP 9"), mixed(rng)

    def started() -> tuple[ed.Session, Any]:
        session = ed.Session()
        batches = pa.Table.from_pylist(rows, SCHEMA).to_batches(max_chunksize=11)
        session.stream("S", pa.Table.from_batches(batches, SCHEMA).to_batches(), timestamp="ts")
        return session, session.query(text, models=models)

    _, query = started()
    want = answers(query.to_arrow())
    session, query = started()
    for _ in range(20):
        session.step()
    got = [r for b in query.fetch() for r in answers(pa.Table.from_batches([b]))]
    session.snapshot(tmp_path)
    session, query = started()
    session.restore(tmp_path)
    assert got + answers(query.to_arrow()) == want
    assert len(got) < len(want) and (got or models == "always")


def wave(every: int, noise: float, count: int = 1000) -> list[dict[str, Any]]:
    rng = np.random.default_rng(3)
    x = 5 * np.sin(np.arange(count) / 100) + noise * rng.normal(size=count)
    return [{"ts": every * i, "k": "a", "x": float(v), "y": 0.0} for i, v in enumerate(x)]


@pytest.fixture
def typical(monkeypatch: pytest.MonkeyPatch) -> None:
    """Typical prices: measured ones differ from run to run."""
    monkeypatch.setattr(PhaseCosts, "end", lambda *given: None)


@pytest.mark.usefixtures("typical")
@pytest.mark.parametrize(
    ("every", "noise", "way", "solved"),
    [(1, 0.01, "tuples", False), (1, 2.0, "tuples", False), (50, 0.01, "models", True), (20, 2.0, "tuples", True)],
)
def test_the_cheaper_way_is_taken_and_shown(every: int, noise: float, way: str, solved: bool) -> None:
    """With ten samples for an instant nothing is ever fitted; with many instants a sample, models pay if segments are
    long; if they are not, a profile shows it and the key stays on tuples."""
    text = "SELECT k, x FROM S WHERE x > 4 ERROR WITHIN 0.2 SAMPLE EVERY 1"
    text = text.replace("EVERY 1", "EVERY 10") if every == 1 else text
    _, _, query = run(text, {"S": wave(every, noise)}, models="auto")
    counts = query.statistics()["model-query 1"]
    assert counts[f"S: keys on {way}"] == 1 and (counts["segments solved"] > 0) == solved
    shown = "1 keys on tuples, 0 on models" if way == "tuples" else "0 keys on tuples, 1 on models"
    assert f"S: {shown}: by cost, a key at a time" in query.explain()
    decisions = [d for d in query.decisions if d.kind == "tuples or models"]
    assert [d.after for d in decisions] == ["models"] * (way == "models")
    for d in decisions:
        assert d.expected_gain is not None and d.expected_gain > 1
        assert d.reason.startswith(
            "segments of a hold 64 samples, and 46.9 instants are evaluated for each sample: models take "
        )


@pytest.mark.usefixtures("typical")
def test_a_pinned_query_keeps_the_way_of_its_keys() -> None:
    text = "SELECT k, x FROM S WHERE x > 4 ERROR WITHIN 0.2 SAMPLE EVERY 1"
    rows = wave(50, 0.01, 6000)

    def started(pinned: bool) -> tuple[ed.Session, Any]:
        session = ed.Session()
        batches = pa.Table.from_pylist(rows, SCHEMA).to_batches(max_chunksize=100)
        session.stream("S", pa.Table.from_batches(batches, SCHEMA).to_batches(), timestamp="ts")
        return session, session.query(text, pinned=pinned)

    def ways(query: Any) -> list[tuple[Any, bool]]:
        return [(d.after, d.applied) for d in query.decisions if d.kind == "tuples or models"]

    _, query = started(pinned=True)
    found = query.to_arrow()
    assert ways(query) == [("models", False)] and not any(found["_uncertain"].to_pylist())
    assert query.statistics()["model-query 1"]["S: keys on tuples"] == 1
    session, query = started(pinned=True)
    for _ in range(20):
        session.step()
    query.unpin()
    query.to_arrow()
    assert ways(query) == [("models", False), ("models", True)]
    session, query = started(pinned=False)
    for _ in range(20):
        session.step()
    query.pin()
    assert query.to_arrow() and ways(query) == [("models", True)]
    assert query.statistics()["model-query 1"]["S: keys on models"] == 1


class Ticking(SystemClock):
    """A clock that goes on by as much as it is told."""

    def __init__(self) -> None:
        self.now_ns = 0

    def nanoseconds(self) -> int:
        return self.now_ns


def test_prices_are_those_of_one_more_row_of_each_phase() -> None:
    clock = Ticking()
    costs = PhaseCosts(clock)
    assert costs.prices() == Prices()
    for rows in (100, 400, 200, 800, 20_000):
        for phase, price in ((WALK, 3), (INSTANT, 20), (FIT, 90), (SEGMENT, 500), (SHOWN, 40)):
            costs.begin()
            clock.now_ns += (7000 if phase in (FIT, SEGMENT, SHOWN) else 0) + price * rows  # a call is nobody's price
            costs.end(phase, rows)
    costs.asked, costs.kept = 100, 25
    found = costs.prices()
    assert [found.sample, found.instant, found.fit, found.shown, found.segment] == pytest.approx([3, 23, 90, 10, 500])
    restored = PhaseCosts(clock)
    restored.load(costs.state())
    assert restored.prices() == found


@pytest.mark.parametrize("fit", [10, 5000])
def test_a_measured_price_decides(fit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same signals twice; where a fit turns out to be dear, keys go back to tuples."""
    for name, value in {
        "SAMPLES_TO_FIRST_REVIEW": 16,
        "PROFILED_SAMPLES": 16,
        "MIN_SAMPLES_TO_REVIEW": 64,
        "MAX_SAMPLES_TO_REVIEW": 64,
    }.items():
        monkeypatch.setattr(tuples_or_models, name, value)
    monkeypatch.setattr(phase_costs, "ROWS_FOR_A_PRICE", 30)
    clock, real = Ticking(), {"fit": Fitter.add_coded, "walk": interpolate.pass_samples}

    def add_coded(self: Fitter, code: Any, *rest: Any) -> None:
        clock.now_ns += fit * len(code)
        real["fit"](self, code, *rest)

    def pass_samples(rows: Any, *rest: Any) -> Any:
        done = real["walk"](rows, *rest)
        clock.now_ns += 20 * (len(rows) + int(rest[-1][interpolate.MADE]))
        return done

    monkeypatch.setattr(Fitter, "add_coded", add_coded)
    monkeypatch.setattr(interpolate, "pass_samples", pass_samples)
    session = ed.Session(clock=clock)
    batches = pa.Table.from_pylist(wave(50, 0.01), SCHEMA).to_batches(max_chunksize=40)
    session.stream("S", pa.Table.from_batches(batches, SCHEMA), timestamp="ts")
    query = session.query("SELECT k, x FROM S WHERE x > 4 ERROR WITHIN 0.2 SAMPLE EVERY 1")
    query.to_arrow()
    way = "models" if fit == 10 else "tuples"
    assert query.statistics()["model-query 1"][f"S: keys on {way}"] == 1


def test_prices_are_of_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process waits for on a busy machine is no price of a phase."""
    clocks = []
    whole = PhaseCosts.__init__

    def made(self: PhaseCosts, clock: Any) -> None:
        clocks.append(clock)
        whole(self, clock)

    monkeypatch.setattr(PhaseCosts, "__init__", made)
    for given in (None, Ticking()):
        session = ed.Session() if given is None else ed.Session(clock=given)
        session.stream("S", wave(50, 0.01, 40), timestamp="ts")
        session.query("SELECT k, x FROM S WHERE x > 4 ERROR WITHIN 0.2 SAMPLE EVERY 1").to_arrow()
    assert isinstance(clocks[0], ProcessorClock) and isinstance(clocks[-1], Ticking)


def test_what_reads_more_than_one_signal_stays_on_models() -> None:
    average = "SELECT k, avg({}) AS m FROM S [RANGE 5] {} GROUP BY k {} ERROR WITHIN 1 SAMPLE EVERY 1"
    for text, told in {
        "SELECT max(x) AS m FROM S ERROR WITHIN 1 SAMPLE EVERY 1": "an aggregate of single instants reads more than",
        "SELECT max(x) AS m FROM S [RANGE 5 SLIDE 2] ERROR WITHIN 1": "an extreme over several signals",
        "SELECT k, x FROM S ERROR WITHIN 1": "the result is segments",
        average.format("x * y", "", ""): "the aggregated value is not linear in the samples",
        average.format("x", "WHERE x < 99", ""): "a condition on a signal stands below its window",
        average.format("x", "", "PARTIAL"): "windows may be covered in part",
        "SELECT a.k, a.x + b.x AS z FROM S a JOIN S b ON a.k = b.k ERROR WITHIN 1 SAMPLE EVERY 1": "signals are joined",
    }.items():
        for models in ("auto", "never"):
            _, _, query = run(text, {"S": wave(1, 0.1, 50)}, models=models)
            assert not any("keys on tuples" in n for n in query.statistics()["model-query 1"])
            assert f"model-query 1: all keys on models: {told}" in query.explain()
        _, _, query = run(text, {"S": wave(1, 0.1, 50)}, models="always")
        assert "all keys on models" not in query.explain()


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(ed.JobError, match="the option 'models' is one of auto, always, never, not 'often'"):
        run("SELECT k, x FROM S ERROR WITHIN 1 SAMPLE EVERY 1", {"S": wave(1, 0.1, 5)}, models="often")


def test_an_instant_far_from_zero_belongs_to_one_piece() -> None:
    """As far as two doubles are an eighth of a tick apart, so that roots fall on ends of pieces."""
    text = "SELECT k, 2 * x - y AS z FROM S WHERE x > y OR NOT x < 3 ERROR WITHIN 100 SAMPLE EVERY 1"
    rows = []
    for case in range(40):
        rng = np.random.default_rng([12, case])
        for t in np.cumsum(rng.choice([1, 1, 1, 2, 3, 5, 30], 50)).tolist():
            x = float(rng.choice([rng.normal(), 0.0, 1.0, 1e6 * rng.normal()]))
            rows.append({"ts": 10**15 + t, "k": str(case), "x": x, "y": float(rng.normal())})
    found, _, _ = run(text, {"S": sorted(rows, key=lambda r: r["ts"])})
    seen = list(zip(found["k"].to_pylist(), found["_time"].to_pylist(), strict=True))
    assert len(seen) == len(set(seen)) > 1000
