"""PREDICT: rows for instants to come, taken back when a model is corrected."""

from __future__ import annotations

import os
import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.operators import predictive_query

CASES = max(1, round(4 * float(os.environ.get("EDDYLINE_CASES", "1"))))
SCHEMA = pa.schema([("ts", pa.int64()), ("id", pa.string()), ("x", pa.float64()), ("v", pa.float64())])
PAIRS = (
    "SELECT a.id, b.id AS other, a.x - b.x AS gap FROM S a MODEL a.x = a.x + a.v * t "
    "JOIN S b MODEL b.x = b.x + b.v * t ON a.id < b.id WHERE (a.x - b.x) * (a.x - b.x) < 9 SAMPLE EVERY 2 {} PREDICT"
)
FILTER = "SELECT id, x FROM S MODEL S.x = S.x + S.v * t WHERE x > 3 SAMPLE EVERY 2 {} PREDICT"


def ships(rng: np.random.Generator, keys: int = 4, count: int = 40) -> list[dict[str, Any]]:
    rows = []
    for i in range(count):
        for k in "abcdef"[:keys]:
            if rng.random() < 0.3:
                x, v = float(rng.integers(-8, 9)), float(rng.integers(-4, 5)) / 4
                rows.append({"ts": 2 * i + int(rng.integers(0, 2)), "id": k, "x": x, "v": v})
    return sorted(rows, key=lambda r: r["ts"])


def run(text: str, rows: list[dict[str, Any]], size: int = 1000) -> tuple[list[dict[str, Any]], Any]:
    session = ed.Session()
    batches = pa.Table.from_pylist(rows, SCHEMA).to_batches(max_chunksize=size)
    session.stream("S", pa.Table.from_batches(batches, SCHEMA), timestamp="ts")
    query = session.query(text)
    return query.to_arrow().to_pylist(), query


def segments(rows: list[dict[str, Any]], horizon: int, limit: float | None) -> list[tuple[int, int, dict[str, Any]]]:
    """(begin, end, row) of every row that begins a segment: one that the model in force does not foretell."""
    found: list[tuple[int, int, dict[str, Any]]] = []
    force: dict[str, dict[str, Any]] = {}
    for row in rows:
        old = force.get(row["id"])
        holds = limit is not None and old is not None and row["ts"] < old["ts"] + horizon
        if holds and abs(old["x"] + old["v"] * (row["ts"] - old["ts"]) - row["x"]) <= limit:  # type: ignore[index]
            continue
        force[row["id"]] = row
        found.append((row["ts"], row["ts"] + horizon, row))
    return found


def positions(known: list[tuple[int, int, dict[str, Any]]], t: int, now: int) -> dict[str, float]:
    """Of each key at t, by what was known at ``now``."""
    force: dict[str, tuple[int, dict[str, Any]]] = {}
    for begin, end, row in known:
        if begin <= min(t, now):
            force[row["id"]] = end, row
    return {k: r["x"] + r["v"] * (t - r["ts"]) for k, (end, r) in force.items() if t < end}


def expected(text: str, at: dict[str, float], t: int) -> list[tuple[Any, ...]]:
    if text == FILTER:
        return [(t, k, round(x, 6)) for k, x in at.items() if x > 3]
    pairs = [(a, b, at[a] - at[b]) for a in at for b in at if a < b]
    return [(t, a, b, round(gap, 6)) for a, b, gap in pairs if gap * gap < 9]


@pytest.mark.parametrize("text", [FILTER, PAIRS])
def test_what_is_predicted_at_each_instant_is_what_the_known_models_say(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predictive_query, "measurable", lambda root: False)  # accuracy alone: see test_slack.py
    taken_back = 0
    for case in range(CASES):
        rng = np.random.default_rng([len(text), case])
        rows, horizon = ships(rng), int(rng.integers(3, 15))
        limit = None if rng.random() < 0.5 else float(rng.choice([0.5, 2.0]))
        # Of two attributes each gets half of the bound.
        within = "" if limit is None else f" ERROR WITHIN {limit * (2 if text == PAIRS else 1)}"
        clause = f"HORIZON {horizon}{within}"
        found, _ = run(text.format(clause), rows, int(rng.integers(1, 30)))
        known = segments(rows, horizon, limit)
        relation: Counter[tuple[Any, ...]] = Counter()
        place = 0
        for now in sorted({b for b, _, _ in known}):
            while place < len(found) and found[place]["_time"] == now:
                row = found[place]
                place += 1
                assert row["_at"] >= now, "what is final was touched"
                if row.get("_uncertain"):
                    continue
                names = [n for n in row if n in ("id", "other", "x", "gap")]
                values = (round(row[n], 6) if isinstance(row[n], float) else row[n] for n in names)
                relation[(row["_at"], *values)] += row["_sign"]
                taken_back += row["_sign"] < 0
            last = max(e for _, e, _ in known)
            truth = Counter(
                r for t in range(now + now % 2, last + 2, 2) for r in expected(text, positions(known, t, now), t)
            )
            have = Counter({r: n for r, n in relation.items() if n and r[0] >= now})
            assert all(n >= 0 for n in relation.values())
            if limit is None:
                assert have == truth, (case, now)
            else:
                assert not have - truth, (case, now)  # what is certain is true on the models as well
        assert place == len(found)
    assert taken_back > 20


def test_batches_do_not_show() -> None:
    rng = np.random.default_rng(3)
    texts = (
        FILTER.format("HORIZON 12"),
        "SELECT max(x) AS m FROM S MODEL S.x = S.x + S.v * t SAMPLE EVERY 1 ERROR WITHIN 1 HORIZON 9 PREDICT",
        "SELECT id, avg(x) AS m FROM S [RANGE 4] MODEL S.x = S.x + S.v * t GROUP BY id SAMPLE EVERY 1 HORIZON 9 "
        "PREDICT",
        FILTER.format("").replace("EVERY 2", "EVERY 1"),
    )
    for text in texts:
        rows = ships(rng, keys=2)
        whole, pieces = run(text, rows)[0], run(text, rows, 3)[0]
        key = lambda r: (r["_time"], r["_sign"], str(r))  # noqa: E731
        assert sorted(whole, key=key) == sorted(pieces, key=key)
        assert len(whole) > (20 if "HORIZON" in text else 3)


def test_the_horizon_is_what_most_segments_survived() -> None:
    rows = [{"ts": 10 * i, "id": "a", "x": 5.0, "v": 0.0} for i in range(12)]
    rows += [{"ts": 120 + 3 * i, "id": "a", "x": 5.0, "v": 0.0} for i in range(20)]
    found, query = run(FILTER.format(""), rows)
    ahead = {r["_time"]: r["_at"] - r["_time"] for r in found if r["_sign"] > 0}
    assert ahead[100] == 8  # the instants before 110
    decisions = [d for d in query.decisions if d.kind == "horizon"]
    assert [d.after for d in decisions] == [10, 3]
    assert decisions[0].reason == "0.9 of the last 5 segments of a survived so many ticks"


def test_nothing_is_computed_for_tuples_that_confirm_their_model() -> None:
    rows = [{"ts": t, "id": "a", "x": 5.0 + 0.1 * (t % 2), "v": 0.0} for t in range(100)]
    _, query = run(FILTER.format("HORIZON 1000 ERROR WITHIN 0.2"), rows)
    counts = query.statistics()["model-query 1"]
    assert (counts["runs"], counts["S: validated"], counts["S: violations"]) == (1, 99, 0)


def test_the_example_warns_in_time_and_takes_it_back(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(Path(__file__).parents[2] / "examples" / "aircraft" / "closer_than.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert "94 s: LX8 and SR1 will be 1.0 nm apart in 56 s\n" in out
    assert "109 s: LX8 and SR1 after all, will not be 1.0 nm apart in 41 s\n" in out
    assert "177 of 192 reports only confirmed their model" in out


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (FILTER.replace("SAMPLE EVERY 2", "").format(""), "add SAMPLE EVERY"),
        (FILTER.format("ERROR WITHIN 1 %"), "an absolute bound"),
    ],
)
def test_refusals(text: str, told: str) -> None:
    with pytest.raises(ed.CqlError, match=told):
        run(text, [{"ts": 0, "id": "a", "x": 1.0, "v": 1.0}])
