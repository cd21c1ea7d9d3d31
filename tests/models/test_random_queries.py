"""Random queries against their meaning at single instants: several keys and NULL as one, gaps, repeated instants, late
and missing values, small and large magnitudes, both kinds of time, joins of three, views, and snapshots in between."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.core.time import TimeKind
from eddyline.cql import bind
from eddyline.models.segments import ModelledValue, SegmentLayout, polynomial_array
from eddyline.plan.logical import ModelQuery
from eddyline.testing.interpolated import Interpolated
from tests.models.random_queries import SECOND, Stored, Texts

CASES = max(1, round(30 * float(os.environ.get("EDDYLINE_CASES", "1"))))
BATCHES = 3  # of tests, so that they can run beside each other
KEYS = ("a", "b", "c", None)
Streams = dict[str, pa.Table]


class Case:
    """What cases of both kinds share; ticks are written as ``base + unit * n``."""

    def __init__(self, *seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.stamps = bool(rng.random() < 0.4)
        self.unit = SECOND if self.stamps else 1
        far = [1_699_999_992 * SECOND, 240 * 10**15, -60 * 10**15]  # this century, and where ticks are no doubles
        self.base = int(rng.choice(far if self.stamps else [0, 0, -48, 12 * 10**11]))
        self.magnitude = float(rng.choice([1, 1, 1, 2.0**-30, 2.0**30]))
        self.keys = KEYS[: int(rng.integers(1, 5))]
        self.width = " SECONDS" if self.stamps else ""  # how a unit is written behind a number
        self.texts = Texts(rng, self.magnitude, self.width).query()
        self.size = int(rng.integers(1, 60))

    def stamp(self, ticks: list[int]) -> pa.Array:
        return pa.array(ticks, pa.int64()).cast(pa.timestamp("us") if self.stamps else pa.int64())

    def started(self, streams: Streams, **options: Any) -> tuple[ed.Session, Any]:
        session = ed.Session()
        for name, table in streams.items():
            batches = table.to_batches(max_chunksize=self.size) or table
            session.stream(name, batches, **({"timestamp": "ts"} if "ts" in table.column_names else {}))
        *views, text = self.texts
        for view in views:
            session.execute(view)
        return session, session.query(text, **options)

    def answer(self, streams: Streams, folder: Path, **options: Any) -> tuple[dict[int, list[dict[str, Any]]], Any]:
        """The rows of each instant, less the case's base; in some cases the query is restarted from a snapshot."""
        session, query = self.started(streams, **options)
        before: list[pa.RecordBatch] = []
        if self.rng.random() < 0.3:
            for _ in range(int(self.rng.integers(1, 8))):
                session.step()
            before = list(query.fetch())
            session.snapshot(folder)
            session, query = self.started(streams, **options)
            session.restore(folder)
        table = query.to_arrow()
        table = pa.Table.from_batches([*before, *table.to_batches()], table.schema)
        found: dict[int, list[dict[str, Any]]] = {}
        for t, row in zip(table["_time"].cast(pa.int64()).to_pylist(), table.to_pylist(), strict=True):
            del row["_time"]
            found.setdefault(t - self.base, []).append(row)
        plan = bind(self.texts[-1], session.catalog).plan
        assert isinstance(plan, ModelQuery)
        return found, plan


def named(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Rows by what is constant in them."""
    found = {tuple(v for v in r.values() if not isinstance(v, float | bool)): r for r in rows}
    assert len(found) == len(rows), "a row twice"
    return found


def refused(case: Case, streams: Streams) -> bool:
    """Whether the text has no answer: a side of a join whose values nobody reads, a quotient without SAMPLE EVERY."""
    try:
        case.started(streams)
    except ed.CqlError as error:
        assert "that is fitted is read" in error.message or "add SAMPLE EVERY" in error.message
        return True
    return False


# ── samples within a bound ────────────────────────────────────────────────────────────────────────────────────────────


def samples(case: Case) -> list[dict[str, Any]]:
    rng, rows = case.rng, []
    for number, k in enumerate(case.keys):
        t, (x, y), slope = int(rng.integers(0, 6)), rng.normal(size=2) * 3, rng.normal() * 0.3
        noise, rounded = float(rng.choice([0.0, 0.02, 0.1, 0.4])), rng.random() < 0.3
        for _ in range(int(rng.integers(1, 30))):
            shown = float(round(x)) if rounded else x
            row = {"ts": t, "k": k, "n": number % 2, "x": shown * case.magnitude, "y": y * case.magnitude}
            rows.append(row)
            if rng.random() < 0.1:  # a sample that is repeated, missing or no number
                rows.append({**row, "x": rng.choice([row["x"] + 1.0, None, np.nan, np.inf])})
            step = int(rng.integers(1, 4)) if rng.random() > 0.05 else int(rng.integers(8, 25))
            slope = rng.normal() * 0.4 if rng.random() < 0.15 else slope
            t, y = t + step, y + 0.2 * step * rng.normal()
            x += slope * step + rng.normal() * noise + (rng.normal() * 4 if rng.random() < 0.04 else 0.0)
    rows.sort(key=lambda r: r["ts"])
    return [{**r, "ts": r["ts"] * case.unit} for r in rows]


def with_late_ones(case: Case, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    given = list(rows)
    for place in case.rng.integers(4, len(rows), 3) if len(rows) > 8 and case.rng.random() < 0.3 else ():
        behind = rows[place - 4]["ts"] - 2 * case.unit
        given.insert(int(place), {**rows[place], "ts": behind, "x": 99.0 * case.magnitude})
    return given


def table_of(case: Case, rows: list[dict[str, Any]]) -> pa.Table:
    ts, k = case.stamp([case.base + r["ts"] for r in rows]), pa.array([r["k"] for r in rows], pa.string())
    return pa.table({"ts": ts, "k": k, **{n: pa.array([r[n] for r in rows], from_pandas=False) for n in "nxy"}})


def within(case: Case) -> tuple[str, float, float, float]:
    """A clause, and its bound as an amount, a share and a floor."""
    rng, unit = case.rng, case.width
    gap, horizon = f" MAX GAP {rng.integers(4, 9)}{unit}", f" HORIZON {rng.integers(5, 40)}{unit}"
    more = {" BY (k, n)": 0.3, " SPLIT GRADIENT": 0.3, gap: 0.8, horizon: 0.3}
    rest = "".join(m for m, share in more.items() if rng.random() < share)
    if rng.random() < 0.6:
        amount = float(rng.choice([0.05, 0.2, 0.5, 1.0])) * case.magnitude
        return f"ERROR WITHIN {amount!r}{rest}", amount, 0.0, 0.0
    percent, floor = float(rng.choice([1, 5, 10])), float(rng.choice([0.0, 0.05, 0.2])) * case.magnitude
    return f"ERROR WITHIN {percent} % FLOOR {floor!r}{rest}", 0.0, percent / 100, floor


def check_within(case: Case, folder: Path) -> int:
    """How many rows are certain: they are rows over the lines between samples, and all of these are there."""
    clause, amount, share, floor = within(case)
    case.texts = [t.replace("{}", clause) for t in case.texts]
    streams = {n: samples(case) for n in "ST"}
    given = {n: table_of(case, with_late_ones(case, rows)) for n, rows in streams.items()}
    if refused(case, given):
        return 0
    found, plan = case.answer(given, folder, models=str(case.rng.choice(["always", "auto", "never"])))
    reference = Interpolated(plan, streams, "ts")
    step, instants = plan.program.sample or 1, reference.instants() or [0]
    certain = 0
    for t in range(-(-instants[0] // step) * step, instants[-1] + 15 * case.unit, step):
        truth, have = named(reference.at(t)), named(found.pop(t, []))
        sure = {k: r for k, r in have.items() if not r["_uncertain"]}
        assert truth.keys() <= have.keys(), (case.texts, t, "a row is missing")
        assert sure.keys() <= truth.keys(), (case.texts, t, "a row that is not true is certain")
        for key, row in sure.items():
            for name, value in truth[key].items():
                if isinstance(value, float):
                    allowed = amount or max(share * abs(value), floor)
                    assert abs(row[name] - value) <= allowed + 1e-7 * case.magnitude, (case.texts, t, name)
        certain += len(sure)
    assert not any(not r["_uncertain"] for rows in found.values() for r in rows), (case.texts, "a row at no instant")
    return certain


@pytest.mark.parametrize("batch", range(BATCHES))
def test_what_is_certain_is_true_of_the_lines_between_samples(batch: int, tmp_path: Path) -> None:
    certain = sum(check_within(Case(1, batch, i), tmp_path / str(i)) for i in range(CASES))
    assert certain > 4 * CASES


# ── stored segments ───────────────────────────────────────────────────────────────────────────────────────────────────


def segments(case: Case, degree: int) -> list[dict[str, Any]]:
    """Some end before they begin or have a value that is no number; those with round coefficients meet round levels."""
    rng, rows, rounded = case.rng, [], case.rng.random() < 0.4
    for number, k in enumerate(case.keys):
        t = int(rng.integers(0, 5))
        for _ in range(int(rng.integers(1, 14))):
            width = int(rng.integers(1, 16))
            c = rng.normal(size=(2, degree + 1)) * 4 / width ** np.arange(degree + 1)
            c = rng.integers(-2, 3, (2, degree + 1)) / 2.0 ** np.arange(degree + 1) if rounded else c
            c[0, 0] = np.nan if rng.random() < 0.04 else c[0, 0]
            end = t - 1 if rng.random() < 0.03 else t + width + int(rng.integers(0, 9)) * int(rng.random() < 0.3)
            x, y = (c * case.magnitude).tolist()
            rows.append({"k": k, "n": number % 2, "begin": t * case.unit, "end": end * case.unit, "x": x, "y": y})
            t += (width + (int(rng.integers(0, 6)) if rng.random() < 0.3 else 0)) * int(rng.random() > 0.1)
    return sorted(rows, key=lambda r: r["begin"])


def stored(case: Case, rows: list[dict[str, Any]], degree: int) -> pa.Table:
    kind = TimeKind.TIMESTAMP if case.stamps else TimeKind.INTEGER
    layout = SegmentLayout(("k", "n"), (ModelledValue("x", degree), ModelledValue("y", degree)), kind)
    key = [pa.array([r["k"] for r in rows], pa.string()), pa.array([r["n"] for r in rows], pa.int64())]
    times = [case.stamp([case.base + r[n] for r in rows]) for n in ("begin", "end")]
    values = [polynomial_array(np.array([r[v] for r in rows]).reshape(len(rows), degree + 1)) for v in "xy"]
    columns = [*key, *times, pa.array([1] * len(rows), pa.int64()), *values]
    return pa.Table.from_arrays(columns, schema=layout.schema([pa.string(), pa.int64()]))


def check_stored(case: Case, folder: Path) -> int:
    """How many rows there are, which are those of the segments' values at each instant."""
    case.texts = [t.replace("{} ", "").replace(" {}", "") for t in case.texts]
    degree = int(case.rng.integers(0, 2 if "sqrt" in case.texts[-1] else 3))  # what the reference is exact for
    streams = {n: segments(case, degree) for n in "ST"}
    given = {n: stored(case, rows, degree) for n, rows in streams.items()}
    if refused(case, given):
        return 0
    found, plan = case.answer(given, folder)
    reference = Stored(plan, streams)
    step, total = plan.program.sample or 1, 0
    first, last = (reference.edges[0], reference.edges[-1]) if reference.edges else (0, 0)
    for t in range(-(-first // step) * step, last + 15 * case.unit, step):
        truth, have = named(reference.at(t)), named(found.pop(t, []))
        assert truth.keys() == have.keys(), (case.texts, t)
        for key, row in truth.items():
            for name, value in row.items():
                if isinstance(value, float):
                    tolerance = 1e-7 * max(abs(value), case.magnitude)
                    assert have[key][name] == pytest.approx(value, abs=tolerance), (case.texts, t)
        total += len(have)
    assert not found, (case.texts, "a row at no instant")
    return total


@pytest.mark.filterwarnings("ignore::eddyline.InvalidRowsWarning")
@pytest.mark.parametrize("batch", range(BATCHES))
def test_stored_segments_answer_with_their_values_at_instants(batch: int, tmp_path: Path) -> None:
    assert sum(check_stored(Case(2, batch, i), tmp_path / str(i)) for i in range(CASES)) > 4 * CASES


def test_cases_cover_all_that_they_are_meant_to() -> None:
    seen: Counter[str] = Counter()
    for i in range(200):
        case = Case(3, i)
        seen["stamps"] += case.stamps
        seen["NULL"] += None in case.keys
        seen["views"] += len(case.texts) > 1
        words = ("S a, T b, S c", "sqrt", "HAVING", "avg", "BETWEEN", " = ", "OR", "PARTIAL", "SLIDE")
        for word in words:
            seen[word] += any(word in t for t in case.texts)
    assert min(seen.values()) >= 5 and len(seen) == 12, seen
