"""SIGKILL to workers and to whole drivers: what the sinks have in the end is what an undisturbed run gives, row for row.

``EDDYLINE_CASES`` ≥ 15 (``make test-deep``) runs the long form: at least 25 kills at random moments, besides the aimed
ones. ``pytest -s`` shows the log of every kill.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from tests.spark.kills import hooks
from tests.spark.kills.killer import PHASES, Kill, Story, story
from tests.spark.kills.workload import DIFFERENT, committed, differences, expected

DEEP = float(os.environ.get("EDDYLINE_CASES", "1")) >= 15
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


def check(told: Story) -> None:
    """All rows, each as often as it should be there, and no batch that gave other rows when it was run again."""
    wanted = expected(told.folder / "input")
    for query, sink in told.queries.items():
        out = told.folder / "out" / query
        problem = differences(committed(out, sink), wanted[query])
        assert not problem, f"{query} → {sink}: {problem}"
        assert not list(out.glob(DIFFERENT + "*"))


def hit(kills: list[Kill]) -> set[str]:
    return {k.phase for k in kills}


def test_aimed_kills(tmp_path: Path) -> None:
    """Every phase is hit, by workers (whose tasks are tried again) and by drivers (which are started again)."""
    with story(tmp_path, {"join": "files", "aggregate": "batches"}, files=10) as told:
        told.start()
        for point in (hooks.RAN, hooks.SAVING, hooks.SAVED, hooks.COMMITTED):
            told.kill_at(point, "worker")
        told.kill_at(hooks.PLACED, "driver")
        told.start()
        told.kill_when(lambda: told.found("join").point.startswith("sink commit"), "the file sink")
        told.start()
        told.kill_at(hooks.SAVING, "driver")
        told.finish()
    check(told)
    for what in ("worker", "driver"):
        assert {"state commit", "sink commit"} <= hit([k for k in told.kills if k.what == what])
    assert hit(told.kills) >= set(PHASES)
    assert told.notes()["hot"] > 0
