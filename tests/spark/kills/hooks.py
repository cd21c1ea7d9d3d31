"""Where a process is: written to a file of its own, and a place to be held until it is killed there.

The file outlives the process, so whoever kills it can read afterwards at which point it died. A point that is *armed*
(a file of its name) holds the first process that reaches it: the process takes the file away and waits.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

FOLDER = "EDDYLINE_KILLS"
HELD_AT_MOST = 60.0  # seconds; a killer that has gone must not leave a process behind
WIDTH = 64

# In a worker
RAN = "processing: rows taken in, nothing saved"
SAVE = "state commit: about to be saved"
SAVING = "state commit: segments written, head not"
SAVED = "state commit: saved, task not at its end"
COMMITTED = "sink commit: state committed, rows not all written"
# In the driver
BATCH = "sink commit: rows computed, nothing written"
WRITTEN = "sink commit: written, not in its place"
PLACED = "sink commit: in its place, batch not committed"
POINTS = (RAN, SAVE, SAVING, SAVED, COMMITTED, BATCH, WRITTEN, PLACED)
ELSEWHERE = "elsewhere"


class Reporter:
    """One for each process; ``pause`` is how long each point takes, so that random kills find it."""

    def __init__(self, folder: Path, pause: float) -> None:
        self.folder, self.pause = folder, pause
        self._file = -1
        self._pid = 0

    def say(self, phase: str) -> None:
        if self._pid != os.getpid():  # the first time, or after a fork
            self._pid = os.getpid()
            self._file = os.open(self.folder / "phases" / str(self._pid), os.O_CREAT | os.O_WRONLY)
        os.pwrite(self._file, phase.encode().ljust(WIDTH), 0)

    def reach(self, point: str) -> None:
        self.say(point)
        held = self.folder / "held" / f"{point}.{os.getpid()}"
        try:
            (self.folder / "armed" / point).rename(held)
        except FileNotFoundError:
            time.sleep(self.pause)
            return
        end = time.monotonic() + HELD_AT_MOST
        while time.monotonic() < end and held.exists():
            time.sleep(0.01)

    def note(self, what: str) -> None:
        """Add a word to the diary of this process."""
        with (self.folder / "notes" / str(os.getpid())).open("a") as file:
            file.write(what + "\n")


_reporter: Reporter | None = None


def reporter() -> Reporter:
    global _reporter
    if _reporter is None:
        _reporter = Reporter(Path(os.environ[FOLDER]), float(os.environ.get(FOLDER + "_PAUSE", "0")))
    return _reporter


def tail(batches: Iterable[Any]) -> Iterator[Any]:
    """Passes rows on. Its input ends when the stateful operator before it has committed its state."""
    yield from batches
    reporter().reach(COMMITTED)
    reporter().say(ELSEWHERE)


def install() -> None:
    """Into a worker (or the daemon that workers are forked from)."""
    from eddyline.spark import engine_cache as hot
    from eddyline.spark import shard_worker
    from eddyline.spark.shard import ShardEngine
    from eddyline.spark.shard_state import SegmentLog

    process, save, take = ShardEngine.process, SegmentLog.save, hot.take
    set_head, step = shard_worker.SparkValues.set_head, shard_worker.ShardTask.step

    def slow_process(self: Any, *arguments: Any, **named: Any) -> Iterator[Any]:
        reporter().say(RAN)
        out = list(process(self, *arguments, **named))
        reporter().reach(RAN)
        yield from out

    def slow_save(self: Any, *arguments: Any) -> Any:
        reporter().reach(SAVE)
        head = save(self, *arguments)
        reporter().reach(SAVED)
        return head

    def slow_set_head(self: Any, data: bytes) -> None:
        reporter().reach(SAVING)
        set_head(self, data)

    def noted_take(run: str, key: int, nonce: str) -> Any:
        there = (run, key) in hot._engines
        found = take(run, key, nonce)
        reporter().note("hot" if found is not None else "stale" if there else "cold")
        return found

    def marked_step(self: Any, *arguments: Any) -> Iterator[Any]:
        yield from step(self, *arguments)
        reporter().say(ELSEWHERE)

    ShardEngine.process = slow_process  # type: ignore[method-assign]
    SegmentLog.save = slow_save  # type: ignore[method-assign]
    shard_worker.SparkValues.set_head = slow_set_head  # type: ignore[method-assign]
    shard_worker.ShardTask.step = marked_step  # type: ignore[method-assign]
    hot.take = noted_take
