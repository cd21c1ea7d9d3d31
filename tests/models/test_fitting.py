"""Fits: every sample within its bound, as few segments as possible, however the samples came."""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import asdict
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eddyline as ed
from eddyline import cli
from eddyline.core.schema import Schema
from eddyline.core.time import TimeKind
from eddyline.engine.fit import FitPlan, counts_of
from eddyline.engine.state_codec import decode, encode
from eddyline.models.fitting import ErrorBound, Fitter, keogh
from eddyline.models.segments import ModelledValue, SegmentLayout, coefficients_of


def signal(rng: np.random.Generator, n: int) -> np.ndarray[Any, Any]:
    """Something to fit: a walk, a wave with noise, steps, or a mixture."""
    t = np.arange(n)
    walk = np.cumsum(rng.normal(size=n)) * rng.choice([0.1, 1.0, 10.0])
    wave = 20 * np.sin(t / rng.uniform(3, 50)) + rng.normal(scale=0.3, size=n)
    steps = np.repeat(rng.normal(scale=50, size=n // 7 + 1), 7)[:n]
    return np.asarray([walk, wave, steps, walk + wave][rng.integers(4)], np.float64)


def evaluated(table: pa.Table, value: str, ts: Any, keys: Any) -> Any:
    """The model at each (time, key), NaN where no segment holds."""
    c = coefficients_of(table[value])
    begin, end = table["_from"].to_numpy(), table["_to"].to_numpy()
    out = np.full(len(ts), np.nan)
    for k in set(keys.tolist()):
        mine = np.flatnonzero(table["k"].to_numpy() == k)
        rows = np.flatnonzero(keys == k)
        at = np.searchsorted(begin[mine], ts[rows], "right") - 1
        seg = mine[np.maximum(at, 0)]
        x = (ts[rows] - begin[seg]).astype(float)
        y = np.zeros(len(rows))
        for d in reversed(range(c.shape[1])):
            y = y * x + c[seg, d]
        held = (at >= 0) & (ts[rows] < end[seg])
        out[rows[held]] = y[held]
    return out


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 4), st.sampled_from([0.3, 2.0, "1%", "0.05%"]), st.booleans())
def test_every_sample_lies_within_its_bound(seed: int, degree: int, error: float | str, gaps: bool) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 400))
    ts = np.cumsum(rng.integers(1, 40 if gaps else 3, n))
    keys, y = rng.integers(0, 3, n), signal(rng, n) + 100
    table = pa.table({"ts": ts, "k": keys, "y": y})
    fitted = ed.fit(table, key="k", time="ts", value="y", error=error, degree=degree, max_gap=30 if gaps else None)
    found = evaluated(fitted, "y", ts, keys)
    bound = ErrorBound.of(error).at(y)
    assert (np.abs(found - y) <= bound).all()  # NaN where a sample has no segment would fail, too
    assert fitted["_samples"].to_numpy().sum() == n
    begin = fitted["_from"].to_numpy()
    assert (np.diff(begin) >= 0).all()
    for k in range(3):  # segments of a key do not overlap
        mine = fitted.filter(pa.array(fitted["k"].to_numpy() == k))
        assert (mine["_to"].to_numpy()[:-1] <= mine["_from"].to_numpy()[1:]).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 4))
def test_batches_do_not_show(seed: int, degree: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 300))
    table = pa.table({"ts": np.cumsum(rng.integers(0, 3, n)), "k": rng.integers(0, 3, n), "y": signal(rng, n)})
    whole = ed.fit(table, key="k", time="ts", value="y", error=1.0, degree=degree, max_gap=9)
    cuts = np.unique(np.r_[0, rng.integers(0, n, 6), n])
    parts = [table.slice(a, b - a).combine_chunks().to_batches()[0] for a, b in pairwise(cuts)]
    pieces = ed.fit(parts, key="k", time="ts", value="y", error=1.0, degree=degree, max_gap=9)
    assert pieces.to_pylist() == whole.to_pylist()
    assert counts_of(pieces) == counts_of(whole)


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_a_fit_goes_on_from_its_state(degree: int) -> None:
    """What a streaming fit keeps between micro-batches is all that it needs, written and read as state is."""
    rng = np.random.default_rng(degree)
    n = 600
    table = pa.table(
        {"ts": np.cumsum(rng.integers(0, 3, n)), "k": rng.integers(0, 4, n).astype(str), "y": signal(rng, n)}
    )
    plan = FitPlan.of(
        Schema.from_arrow(table.schema), "samples", time="ts", value="y", key="k", error=1.0, degree=degree, floor=0.0,
        max_gap=9, interpolate=False,
    )  # fmt: skip
    whole = ed.fit(table, key="k", time="ts", value="y", error=1.0, degree=degree, max_gap=9)
    found, state = [], None
    for begin in range(0, n, 50):
        fitter = plan.fitter()
        if state is not None:
            memory: Any = state[1]
            fitter.load(decode(state[0], memory))
        plan.add(fitter, table.slice(begin, 50).combine_chunks().to_batches()[0])
        if begin + 50 >= n:
            fitter.finish()
        found.append(fitter.table())
        kept = Memory()
        state = json.loads(json.dumps(encode(fitter.state(), kept))), kept
    made = pa.concat_tables(found)
    order = [("_from", "ascending"), ("k", "ascending")]
    assert made.sort_by(order).to_pylist() == whole.sort_by(order).to_pylist()
    assert asdict(fitter.counts) == counts_of(whole)


def test_the_kernel_for_lines_makes_the_same_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """``fit_lines`` and ``fit_greedy`` take the same decisions; either goes on where the other stopped."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n = 3_000
        ts, y = np.cumsum(rng.integers(0, 3, n)), signal(rng, n)
        ts[rng.integers(0, n, 5)] -= 50  # late
        table = pa.table({"ts": ts, "k": rng.integers(0, 3, n), "y": y})
        parts = [table.slice(i, 500).combine_chunks().to_batches()[0] for i in range(0, n, 500)]
        found = []
        for lines in ([True], [False], [True, False]):
            turns = iter(lines * n)
            monkeypatch.setattr(Fitter, "_lines_only", property(lambda _, turns=turns: next(turns)))
            found.append(ed.fit(parts, key="k", time="ts", value="y", error=[0.7], max_gap=40 if seed % 2 else None))
        assert found[0].equals(found[1]) and found[0].equals(found[2])
        assert counts_of(found[0]) == counts_of(found[1])
        assert 20 < found[0].num_rows < n / 2 and counts_of(found[0])["late"] > 0


class Memory(dict[str, Any]):
    """Where the pieces of a state are kept."""

    def put(self, name: str, data: Any) -> None:
        self[name] = bytes(data)

    get = dict.__getitem__  # type: ignore[assignment]


def feasible(xs: list[Fraction], low: list[Fraction], high: list[Fraction], degree: int) -> bool:
    """Whether a line (a constant) holds all samples: exact, by the slopes at which the answer can change."""
    slopes = {Fraction(0)}
    if degree == 1:
        for ends in (low, high):
            slopes |= {
                (ends[j] - ends[i]) / (xs[j] - xs[i]) for i in range(len(xs)) for j in range(i + 1, len(xs))
            }  # fmt: skip
    return any(
        max(y - b * x for x, y in zip(xs, low, strict=True)) <= min(y - b * x for x, y in zip(xs, high, strict=True))
        for b in slopes
    )


def fewest(ts: Any, y: Any, bound: Any, degree: int) -> int:
    """Dynamic programming over all cuts."""
    xs, low, high = ([Fraction(float(v)) for v in a] for a in (ts, y - bound, y + bound))
    best = [0]
    for j in range(1, len(xs) + 1):
        best.append(min(best[i] + 1 for i in range(j) if feasible(xs[i:j], low[i:j], high[i:j], degree)))
    return best[-1]


@pytest.mark.parametrize("degree", [0, 1])
def test_as_few_segments_as_dynamic_programming_finds(degree: int) -> None:
    counts = set()
    for seed in range(25):
        rng = np.random.default_rng(seed)
        n = 14
        ts, y = np.cumsum(rng.integers(1, 4, n)), np.cumsum(rng.normal(size=n))
        bound = rng.uniform(0.3, 1.5)
        fitted = ed.fit(pa.table({"ts": ts, "y": y}), time="ts", value="y", error=bound, degree=degree)
        counts.add(fitted.num_rows)
        assert fitted.num_rows == fewest(ts, y, np.full(n, bound), degree)
    assert len(counts) > 3  # and not one segment each time


def test_keogh_needs_at_least_as_many_segments() -> None:
    rng = np.random.default_rng(3)
    more = 0
    for _ in range(20):
        y = signal(rng, 300)
        out, lines = keogh(np.arange(300), y, ErrorBound(1.0))
        optimal = ed.fit(pa.table({"ts": np.arange(300), "y": y}), time="ts", value="y", error=1.0).num_rows
        assert len(out) >= optimal
        more += len(out) > optimal
        at = np.searchsorted(out[:, 1], np.arange(300), "right") - 1
        assert (np.abs(lines[at, 0] + lines[at, 1] * (np.arange(300) - out[at, 1]) - y) <= 1.0 + 1e-9).all()
    assert more > 10


def test_sharing_a_sample_holds_the_interpolation() -> None:
    rng = np.random.default_rng(5)
    worst_without = 0.0
    for _ in range(20):
        ts, y = np.cumsum(rng.integers(1, 9, 200)), signal(rng, 200)
        table = pa.table({"ts": ts, "k": np.zeros(200, np.int64), "y": y})
        every = np.arange(ts[0], ts[-1])
        straight = np.interp(every, ts, y)
        zeros = np.zeros(len(every), np.int64)
        shared = ed.fit(table, key="k", time="ts", value="y", error=1.0, interpolate=True)
        assert np.abs(evaluated(shared, "y", every, zeros) - straight).max() <= 1.0 + 1e-9
        plain = ed.fit(table, key="k", time="ts", value="y", error=1.0)
        worst_without = max(worst_without, float(np.abs(evaluated(plain, "y", every, zeros) - straight).max()))
    assert worst_without > 1.5  # without it, extrapolation to the next sample breaks the bound


def test_several_values_share_their_segments() -> None:
    rng = np.random.default_rng(6)
    ts, k = np.arange(500), np.zeros(500, np.int64)
    x, y = np.cumsum(rng.normal(size=500)), np.cumsum(rng.normal(size=500))
    table = pa.table({"ts": ts, "k": k, "x": x, "y": y})
    for degree in (1, 2):
        fitted = ed.fit(table, key="k", time="ts", value=["x", "y"], error=[1.0, "5%"], floor=2.0, degree=degree)
        assert (np.abs(evaluated(fitted, "x", ts, k) - x) <= 1.0).all()
        assert (np.abs(evaluated(fitted, "y", ts, k) - y) <= np.maximum(2.0, 0.05 * np.abs(y))).all()


@pytest.mark.parametrize("degree", [1, 2])
def test_what_is_not_fitted_is_counted(degree: int) -> None:
    rows = [(1, 0.0), (5, 0.0), (3, 9.0), (5, 0.0), (5, 1.0), (6, None), (7, float("nan")), (None, 1.0), (8, 0.0)]
    table = pa.table(
        {"ts": [r[0] for r in rows], "y": [r[1] for r in rows]}, pa.schema([("ts", pa.int64()), ("y", pa.float64())])
    )
    fitted = ed.fit(table, time="ts", value="y", error=0.5, degree=degree)
    assert counts_of(fitted) == {"samples": 6, "late": 1, "violations": 1, "repeated": 1, "invalid": 3}
    assert fitted["_samples"].to_pylist() == [3]


def test_a_gap_belongs_to_no_segment() -> None:
    table = pa.table({"ts": [0, 1, 2, 50, 51], "y": [0.0, 1.0, 2.0, 50.0, 51.0]})
    assert ed.fit(table, time="ts", value="y", error=0.1)["_to"].to_pylist() == [52]
    assert ed.fit(table, time="ts", value="y", error=0.1, max_gap=10)["_to"].to_pylist() == [3, 52]


def test_time_in_microseconds_and_slopes_in_seconds() -> None:
    ts = pa.array(np.arange(10) * 500_000 + 10**15, pa.timestamp("us"))
    fitted = ed.fit(pa.table({"ts": ts, "y": np.arange(10) * 1.0}), time="ts", value="y", error=1e-6)
    assert fitted["y"].to_pylist()[0] == pytest.approx([0.0, 2.0])
    assert fitted.schema.field("_from").type == pa.timestamp("us")


def test_a_segment_table_survives_parquet(tmp_path: Path) -> None:
    table = ed.fit(pa.table({"ts": [0, 1], "y": [0.0, 1.0]}), time="ts", value="y", error="1%", floor=0.1)
    pq.write_table(table, tmp_path / "s.parquet")
    again = pq.read_table(tmp_path / "s.parquet")
    assert again.equals(table, check_metadata=True)
    layout = SegmentLayout.of(again.schema)
    assert layout == SegmentLayout((), (ModelledValue("y", 1, 0.01, True, 0.1),), TimeKind.INTEGER, "ts")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"error": "much"}, "an error bound is a number or a percentage"),
        ({"error": -1}, "not negative"),
        ({"error": 1, "degree": 5}, "degree is a whole number from 0 to 4"),
        ({"error": 1, "degree": 2, "interpolate": True}, "interpolate needs degree 1"),
        ({"error": 1, "value": "z"}, "'samples' has no column 'z'"),
        ({"error": 1, "value": "word"}, "only numbers can be modelled"),
        ({"error": [1, 2]}, "one for each of the 1 values"),
        ({"error": None}, "an error bound is a number or a percentage such as '0.05%', not None"),
        ({"error": b"1"}, "an error bound is a number or a percentage"),
        ({"error": {}}, "an error bound is a number or a percentage"),
        ({"error": "-1%"}, "error is finite and not negative, and '-1%' is not"),
        ({"error": "1%", "floor": -1}, "floor is finite and not negative, and -1 is not"),
        ({"error": "1%", "floor": "a"}, "the floor of a relative error bound is a number, not 'a'"),
        ({"error": 1, "floor": 0.5}, "floor is for a relative error"),
        ({"error": 1, "degree": True}, "degree is a whole number"),
        ({"error": 1, "max_gap": 0}, "max_gap must be larger than 0"),
        ({"error": 1, "max_gap": 1.5}, "max_gap: 1.5 is not a whole number of ticks"),
        ({"error": 1, "max_gap": "5 apples"}, "max_gap: unknown unit 'apples'"),
        ({"error": 1, "value": ["y", "y"]}, "and 'y' is named twice"),
        ({"error": 1, "key": "list"}, "the key 'list' is list<.*>: keys are texts"),
        ({"error": 1, "key": "_to"}, "'_to' is a column of every segment table"),
    ],
)
def test_mistakes_are_said_in_a_sentence(options: dict[str, Any], said: str) -> None:
    table = pa.table({"ts": [1], "y": [1.0], "word": ["a"], "list": [[1]], "_to": [3]})
    with pytest.raises(ed.JobError, match=said) as caught:
        ed.fit(table, **{"time": "ts", "value": "y", **options})
    assert "\n" not in str(caught.value)


def test_segments_are_not_fitted_again() -> None:
    segments = ed.fit([{"ts": t, "x": 1.0} for t in range(9)], time="ts", value="x", error=0.5)
    with pytest.raises(ed.JobError, match="'samples' holds segments already"):
        ed.fit(segments, time="_from", value="x", error=0.5)


def test_a_degree_may_be_a_number_of_numpy() -> None:
    rows = [{"ts": t, "x": 1.0} for t in range(9)]
    for degree in (1, 2):
        options: dict[str, Any] = {"time": "ts", "value": "x", "error": 0.5}
        assert ed.fit(rows, degree=np.int64(degree), **options).equals(ed.fit(rows, degree=degree, **options))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"ts": [0, 1, 2, 1], "k": ["a"] * 4, "y": [0.0, 1.0, 2.0, 7.0]}), tmp_path / "in.parquet")
    out = tmp_path / "new" / "segments.parquet"
    arguments = ["fit", str(tmp_path / "in.parquet"), "--key", "k", "--time", "ts", "--value", "y", "--error", "0.5"]
    assert cli.main([*arguments, "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"1 segment of 4 samples written to {out} (1 late left out)\n"
    assert pq.read_table(out)["_to"].to_pylist() == [3]
    assert cli.main([*arguments, "--out", str(tmp_path / "s.csv")]) == 2
    assert "--out is a .parquet file" in capsys.readouterr().err
    assert cli.main([*arguments, "--key", "kk", "--out", str(out)]) == 2
    assert "in.parquet' has no column 'kk'. Did you mean 'k'?" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert cli.main([*arguments, "--out", str(tmp_path / "file" / "s.parquet")]) == 1
    assert re.fullmatch("error: .*s.parquet cannot be written: .*\\.\n", capsys.readouterr().err)


def test_samples_may_come_in_any_number_of_steps() -> None:
    layout = SegmentLayout((), (ModelledValue("y", 1),), TimeKind.INTEGER)
    fitter = Fitter(layout, [], [ErrorBound(0.1)])
    for t in range(4):
        fitter.add([], np.array([t]), np.array([[float(t % 2)]]))
    assert fitter.table()["_to"].to_pylist() == [2]  # 0 and 1 are a line, 1 and 0 the next
    fitter.finish()
    assert fitter.table()["_to"].to_pylist() == [4]


def test_the_largest_numbers_do_not_overflow() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = [{"ts": t, "x": 1.5e308 * (-1) ** (t > 4)} for t in range(10)]
        found = ed.fit(rows, key=[], time="ts", value="x", error=0.5, degree=1).to_pylist()
    assert sum(s["_samples"] for s in found) == 10
    assert all(np.isfinite(c) for s in found for c in s["x"])
