"""``eddyline serve --demo``: its plan follows its drift, and it says why it cannot start or go on."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.expr.types import parse_type
from eddyline.server.demo import ALERTS, COLUMNS, DRIFT_SECONDS, QUERIES, DemoRows
from tests.server.running import RunningServer

STEP = 0.1  # seconds of the stream


def test_the_order_of_the_filters_follows_the_drift() -> None:
    session = ed.Session()
    for name, columns in (("requests", COLUMNS), ("alerts", ALERTS)):
        session.stream(name, schema=pa.schema([(n, parse_type(t)) for n, t in columns]), timestamp="ts")
    query = session.query(QUERIES["suspicious"], name="suspicious")
    rows, found = DemoRows(), []
    for step in range(int(4 * DRIFT_SECONDS / STEP)):
        session.push("requests", rows.requests(step * STEP, (step + 1) * STEP))
        phase, within = divmod((step + 1) * STEP, DRIFT_SECONDS)
        if within > 0.75 * DRIFT_SECONDS and len(found) == phase:
            (statistics,) = query.statistics().values()
            found.append([statistics["filters"][i].split()[0] for i in statistics["order"]])
    # In even phases few agents pass, in odd ones few paths: that filter stands before the other.
    before = ["agent" if o.index("requests.agent") < o.index("requests.path") else "path" for o in found]
    assert before == ["agent", "path", "agent", "path"], (found, [d.reason for d in query.decisions])
    assert sum(len(b) for b in query.fetch()) > 1000


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "state") as server:
        columns = [["ts", "bigint"], ["size", "bigint"]]
        server.request("POST", "/v1/streams", {"name": "requests", "columns": columns, "timestamp": "ts"})
    with pytest.raises(RuntimeError, match="has another stream 'requests' than the demo: begin with an empty"):
        RunningServer(tmp_path / "state", "--demo")
    for _ in range(2):  # and again with what it left
        with RunningServer(tmp_path / "empty", "--demo") as server:
            assert {q["name"] for q in server.request("GET", "/v1/queries").data} == set(QUERIES)
