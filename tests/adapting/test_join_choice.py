"""What the options of a query say about its joins: where a mistake is shown, and what somebody is told who compares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.adapting.join_choice import read_tree
from eddyline.core.errors import CqlError, JobError

TEXT = """SELECT {}(r.ts AS x, s.ts AS y, t.ts AS z) FROM R [RANGE 30] r, S [RANGE 30] s, T [RANGE 30] t
          WHERE r.page = s.page AND s.memory = t.memory"""


def session(count: int = 3_000) -> ed.Session:
    """T seldom has what the others look for."""
    rng = np.random.default_rng(11)
    made = ed.Session()
    for name, domain in (("R", 20), ("S", 20), ("T", 400)):
        keys = {"page": rng.integers(0, 20, count), "memory": rng.integers(0, domain, count)}
        made.stream(name, pa.table({"ts": np.sort(rng.integers(0, 2 * count, count)), **keys}), timestamp="ts")
    return made


def told(query: Any) -> dict[str, Any]:
    (statistics,) = query.statistics().values()
    return dict(statistics)


@pytest.mark.parametrize(
    ("options", "underlined"),
    [
        ("caches = 'global(page=1)'", "page"),
        ("caches = 'global(memory=-1)'", "memory"),
        ("caches = ''", "''"),
        ("joins = ''", "''"),
        ("joins = 'a-greedy(p=2)'", "p"),
        ("tree = ''", "''"),
        ("tree = 'r'", "r"),
        ("tree = '((r, s), x)'", "((r, s), x)"),
        ("page = 3", "page"),
    ],
)
def test_a_mistake_in_an_option_is_shown_in_the_options(options: str, underlined: str) -> None:
    """Columns and inputs of the query are called the same."""
    job = f"{TEXT.format('Istream')} WITH ({options});"
    with pytest.raises(CqlError) as failed:
        session(9).execute(job)
    span = failed.value.span
    assert span is not None and job[span.start : span.end] == underlined
    assert span.start > job.index("WITH ("), str(failed.value)


def test_brackets_however_deep_are_a_mistake_like_any_other() -> None:
    with pytest.raises(JobError, match="must name each of r, s, t once"):
        read_tree("(" * 5_000 + "r, s), t)", ["r", "s", "t"])


@pytest.mark.usefixtures("free_profiling_runs")
def test_the_default_by_its_name_is_the_default() -> None:
    text = TEXT.format("Istream")
    runs = [session().query(text, **options) for options in ({}, {"joins": "default"})]
    for query in runs:
        assert query.to_arrow().num_rows
    unnamed, named = (told(q) for q in runs)
    assert any(d.kind.startswith("order of") for d in runs[0].decisions)
    assert [d.after for d in runs[0].decisions] == [d.after for d in runs[1].decisions]
    assert (unnamed["accesses"], unnamed["profiling"]) == (named["accesses"], named["profiling"])


@pytest.mark.usefixtures("free_profiling_runs")
def test_an_order_of_the_default_rests_on_accesses_not_on_seconds() -> None:
    query = session().query(TEXT.format("Istream"))
    assert query.to_arrow().num_rows
    decided = [d for d in query.decisions if d.kind.startswith("order of")]
    assert decided
    for d in decided:
        assert d.reason.endswith("accesses less") and "e-" not in d.reason and d.units["saved"] == "accesses"
        assert d.evidence["saved"] > 0.01 and f"costs {d.evidence['saved']:.3g} accesses ± " in d.reason


@pytest.mark.parametrize("result", ["Istream", "Dstream"])
def test_plans_that_stay_can_be_compared_with_plans_that_change(result: str) -> None:
    """They count the same elements, those that leave too if they are joined."""
    text = TEXT.format(result)
    plans = ({}, {"joins": "static", "caches": "none"}, {"tree": "((r, s), t)"})
    found = {}
    for options in plans:
        query = session().query(text, **options)
        assert query.to_arrow().num_rows
        found[str(options)] = told(query)
    assert len({f["elements"] for f in found.values()}) == 1
    assert all(f["accesses"] > 0 for f in found.values())


def test_what_a_plan_that_stays_took_is_kept_in_a_snapshot(tmp_path: Path) -> None:
    schema = pa.schema([("ts", pa.int64()), ("page", pa.int64()), ("memory", pa.int64())])
    counted = []
    for restored in (False, True):
        made = ed.Session()
        for name in "RST":
            made.stream(name, schema=schema, timestamp="ts")
        query = made.query(TEXT.format("Istream"), joins="static", caches="none")
        if restored:
            made.restore(tmp_path)
            counted.append(told(query))
        times = range(100, 200) if restored else range(100)
        for name in "RST":
            made.push(name, [{"ts": ts, "page": ts % 5, "memory": ts % 3} for ts in times])
        assert list(query.fetch())
        made.snapshot(tmp_path)
        counted.append(told(query))
    before, again, after = ((c["elements"], c["accesses"]) for c in counted)
    assert before[0] > 250 and before[1] > 250 and again == before
    assert after[0] > before[0] and after[1] > before[1]
