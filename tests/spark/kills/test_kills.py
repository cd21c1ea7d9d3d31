"""SIGKILL to workers and to whole drivers: in the end the sinks hold what an undisturbed run gives, row for row.

``EDDYLINE_CASES`` above 1 (``make test-deep``) runs the long form: at least 25 kills at random moments, besides
the aimed ones. ``pytest -s`` shows the log of every kill.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import psutil
import pytest

from tests.scale import DEEP
from tests.spark.kills import hooks
from tests.spark.kills.killer import PHASES, Kill, Story, story
from tests.spark.kills.workload import DIFFERENT, committed, differences, expected

SINKS = [{"join": "files", "aggregate": "batches"}, {"join": "batches", "aggregate": "files"}]
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


def disturb(told: Story, kills: int, rng: random.Random, drivers: float) -> None:
    """Kill at random moments until there were enough kills or there is nothing left to disturb; ``drivers`` is the
    share of kills that take the whole driver."""
    end = len(told.kills) + kills
    while len(told.kills) < end:
        if told.ended:
            told.start()
        told.wait(lambda: told.at_work() or told.done, "a worker at work")
        wait = time.monotonic() + rng.uniform(0, 2.5)
        told.wait(lambda: told.done or time.monotonic() > wait, "a random moment")  # noqa: B023 — called here only
        if told.done:
            return
        if rng.random() < drivers:
            told.kill_driver()
        else:
            told.kill_worker(lambda workers: choose(told, workers, rng))


def catch(told: Story, query: str) -> None:
    """A driver between Spark's sink and Spark's commit: a short time, which may take several drivers to hit. Only the
    long form insists on it; in the short one a loaded machine may be too slow, and the aimed kills hit the sink too."""
    for _ in range(8 if DEEP else 3):
        told.start()
        if "in the sink, not committed" in told.kill_in_sink(query).point:
            return
    if DEEP:
        raise AssertionError("no kill fell between the sink and the commit")


def wear(told: Story, kills: int, rng: random.Random) -> None:
    """A worker in one micro-batch after the other: shards move to and fro, and leave engines that are out of date."""
    seen = told.batches()
    for _ in range(kills):
        told.wait(lambda: told.done or told.batches() > seen, "a micro-batch")  # noqa: B023 — called here only
        told.wait(lambda: told.done or told.any_busy(), "a worker at a shard")
        if told.done:
            return
        seen = told.batches()
        told.kill_worker(lambda workers: choose(told, workers, rng))


def choose(told: Story, workers: list[psutil.Process], rng: random.Random) -> psutil.Process:
    """Now and then any, mostly one that is at a shard."""
    busy = [w for w in workers if told.busy(w.pid)]
    return rng.choice(busy if busy and rng.random() < 0.8 else workers)


def test_aimed_kills(tmp_path: Path) -> None:
    """Every phase is hit: workers, whose tasks are tried again, and drivers, which are started again."""
    with story(tmp_path, SINKS[0], files=8) as told:
        told.start()
        for point in (hooks.RAN, hooks.SAVING, hooks.SAVED, hooks.COMMITTED):
            told.kill_at(point, "worker")
        told.kill_at(hooks.PLACED, "driver")
        catch(told, "join")
        told.start()
        wear(told, 5, random.Random(1))
        told.finish()
    check(told)
    assert hit([k for k in told.kills if k.what == "worker"]) >= set(PHASES)
    assert "sink commit" in hit([k for k in told.kills if k.what == "driver"])
    assert told.notes()["hot"] > 0


if DEEP:
    KILLS = 8  # in each of four ways to run

    def test_drivers_at_every_point(tmp_path: Path) -> None:
        with story(tmp_path, SINKS[0], files=12) as told:
            for point in hooks.POINTS:
                told.start()
                told.kill_at(point, "driver")
            catch(told, "join")
            told.finish()
        check(told)
        assert hit(told.kills) >= set(PHASES)  # and elsewhere, where ``catch`` came too late once

    def test_undisturbed(tmp_path: Path) -> None:
        """The comparison is with the inline engine; that an undisturbed run on Spark gives the same is shown here."""
        for i, sinks in enumerate(SINKS):
            with story(tmp_path / str(i), sinks, pause=0.0) as told:
                told.finish()
            check(told)
            assert (told.drivers, told.failures) == (1, [])

    @pytest.mark.parametrize(
        ("sinks", "changelog", "master"),
        [
            (SINKS[0], "true", "local[2,4]"),  # a killed worker's task is tried again
            (SINKS[0], "false", "local[2]"),  # a killed worker ends its query, which is started again
            (SINKS[1], "true", "local[2]"),
            (SINKS[1], "false", "local[2,4]"),
        ],
    )
    def test_random_kills(tmp_path: Path, sinks: dict[str, str], changelog: str, master: str) -> None:
        rng = random.Random(f"{sinks}/{changelog}/{master}")
        how = {"files": 16, "master": master, "settings": {CHANGELOG: changelog}, "pause": 0.05}
        killed = 0
        for attempt in range(3):
            with story(tmp_path / str(attempt), sinks, seed=rng.randrange(1000), **how) as told:
                disturb(told, KILLS - killed, rng, drivers=0.4)
                told.finish()
            check(told)
            killed += len(told.kills)
            if killed >= KILLS:
                break
        assert killed >= KILLS
