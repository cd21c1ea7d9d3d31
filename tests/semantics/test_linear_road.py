"""Linear Road's tolls (``examples/linear_road``) against a model of the rules in plain Python."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter, defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.datasets.linear_road import linear_road

EXAMPLE = Path(__file__).parents[2] / "examples" / "linear_road"


def traffic() -> Any:
    spec = importlib.util.spec_from_file_location("traffic", EXAMPLE / "traffic.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def model(rows: list[tuple[int, ...]]) -> Counter[tuple[int, ...]]:
    speeds: dict[Any, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    stopped: dict[Any, set[int]] = defaultdict(set)
    history: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    entries = []
    for row in rows:
        ts, car, speed, xway, lane, way, seg, pos = row
        speeds[ts // 60, xway, way, seg][car].append(speed)
        before = history[car][-1] if history[car] else None
        history[car].append(row)
        if [r[7] for r in history[car][-4:]] == [pos] * 4:
            stopped[ts // 60, xway, way, seg, pos].add(car)
        if lane != 4 and (before is None or before[6] != seg or ts - before[0] > 60):
            entries.append((ts, car, xway, way, seg))
    accidents = {key[:4] for key, cars in stopped.items() if len(cars) >= 2}
    found: Counter[tuple[int, ...]] = Counter()
    for ts, car, xway, way, seg in entries:
        minute = ts // 60
        past = [speeds[key] for m in range(minute - 5, minute) if (key := (m, xway, way, seg)) in speeds]
        cars = len(speeds.get((minute - 1, xway, way, seg), ()))
        ahead = range(seg, seg + 5) if way == 0 else range(seg - 4, seg + 1)
        blocked = any((minute - 1, xway, way, s) in accidents for s in ahead)
        slow = bool(past) and mean(mean(map(mean, minutes.values())) for minutes in past) < 40
        toll = 2 * (cars - 50) ** 2 if slow and cars > 50 and not blocked else 0
        found[ts, car, xway, way, seg, toll] += 1
    return found


@pytest.mark.parametrize(("seed", "directions"), [(1, 1), (5, 2)])
def test_the_tolls_are_those_of_the_rules(seed: int, directions: int) -> None:
    generate = traffic()
    rows = generate.reports(130 * directions, 1200, seed, directions)
    text = (EXAMPLE / "tolls.cql").read_text(encoding="utf-8")
    text = re.sub(r"--[^\n]*", "", text)
    session = ed.Session()
    columns = zip(*rows, strict=True)
    table = pa.table({n: pa.array(c, pa.int64()) for n, c in zip(generate.COLUMNS, columns, strict=True)})
    session.stream("reports", table, timestamp="ts")
    for name, query in re.findall(r"CREATE VIEW (\w+) AS\s(.*?);", text, re.DOTALL):
        session.view(name, query)
    (tolls,) = re.findall(r"tolls:\s(.*?);", text, re.DOTALL)
    answer = session.query(tolls).to_arrow().to_pylist()
    ours = Counter(tuple(r[n] for n in ("ts", "car", "xway", "dir", "seg", "toll")) for r in answer)
    assert all(r["_time"] == r["ts"] for r in answer)
    theirs = model(rows)
    assert ours == theirs
    assert len({toll for *_, toll in theirs}) > 2
    without = sum(toll == 0 for *_, toll in theirs)
    assert 100 < without < len(theirs)


def test_an_accident_takes_the_toll_away() -> None:
    """Where nobody stops, the same cars pay in more segments."""
    generate = traffic()
    rows = generate.reports(130, 1200)
    moved = [(*r[:7], r[7] + i % 3) if r[1] in (3, 4) else r for i, r in enumerate(rows)]
    paid = [sum(n for (*_, toll), n in model(r).items() if toll) for r in (rows, moved)]
    assert paid[0] < paid[1]


DUCKDB = """WITH entries AS (
    SELECT ts, cid, sid FROM reports QUALIFY sid <> lag(sid, 1, -1) OVER (PARTITION BY cid ORDER BY ts)),
  minutes AS (
    SELECT sid, time_bucket(INTERVAL 1 MINUTE, ts) AS minute, count(DISTINCT cid) AS cars, avg(speed) AS speed
    FROM reports GROUP BY sid, minute),
  charged AS (
    SELECT e.ts, e.cid, e.sid,
      (SELECT cars FROM minutes m WHERE m.sid = e.sid AND m.minute = time_bucket(INTERVAL 1 MINUTE, e.ts)
         - INTERVAL 1 MINUTE) AS cars,
      (SELECT avg(speed) FROM minutes m WHERE m.sid = e.sid AND m.minute < time_bucket(INTERVAL 1 MINUTE, e.ts)
         AND m.minute >= time_bucket(INTERVAL 1 MINUTE, e.ts) - INTERVAL 5 MINUTES) AS speed
    FROM entries e)
  SELECT ts, cid, sid, CASE WHEN cars > 50 AND speed < 40 THEN 2 * (cars - 50) * (cars - 50) ELSE 0 END FROM charged"""


def test_tolls_of_generated_traffic_are_duckdbs() -> None:
    """``segment_tolls.cql`` over ``generate:linear_road``; its text stands in the documentation, too."""
    text = (EXAMPLE / "segment_tolls.cql").read_text(encoding="utf-8")
    page = (EXAMPLE.parents[1] / "docs" / "from-flink-and-spark.md").read_text(encoding="utf-8")
    assert f"```sql\n{text}```" in page
    reports = linear_road(hours=0.15, cars=300, accidents=0.6).table()
    session = ed.Session()
    session.stream("reports", reports, timestamp="ts")
    text = re.sub(r"--[^\n]*", "", text)
    for name, query in re.findall(r"CREATE VIEW (\w+) AS\s(.*?);", text, re.DOTALL):
        session.view(name, query)
    (tolls,) = re.findall(r"tolls:\s(.*?);", text, re.DOTALL)
    answer = session.query(tolls).to_arrow().to_pylist()
    ours = Counter(tuple(r[n] for n in ("ts", "cid", "sid", "toll")) for r in answer)
    with duckdb.connect() as connection:
        connection.register("reports", reports)
        theirs = Counter(connection.execute(DUCKDB).fetchall())
    assert ours == theirs
    assert sum(toll > 0 for *_, toll in theirs) > 100
    assert len(theirs) > 2_000
