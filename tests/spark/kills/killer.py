"""Starts the driver, kills it or its workers, and finds out what was hit.

What a kill hit is known from evidence that outlives the process: the file in which it said where it was (``hooks``),
and for the JVM the files of the checkpoint and of the sink. A micro-batch leaves them in a fixed order::

    offsets/N      the batch is decided            processing from here
    state/…/N+1    a partition's state is stored   state commit from the first to the last partition
    out N          the sink has the rows           sink commit until
    commits/N      the batch is done
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

from tests.spark.kills import hooks
from tests.spark.kills.workload import DONE, generate

ROOT: Final = Path(__file__).parents[3]
PATIENCE: Final = 300.0  # seconds for anything: a machine may be busy, a test must end
PARTITIONS: Final = 2
PHASES: Final = ("processing", "state commit", "sink commit")


@dataclass(frozen=True, slots=True)
class Kill:
    seconds: float  # since the story began
    pid: int
    what: str  # 'worker' or 'driver'
    aimed: bool
    point: str  # where it was, in words that begin with the phase

    @property
    def phase(self) -> str:
        return self.point.partition(":")[0]

    def __str__(self) -> str:
        how = "aimed" if self.aimed else "random"
        return f"{self.seconds:7.2f} s  {how:6}  {self.what} {self.pid:<7} {self.point}"


@dataclass(frozen=True, slots=True)
class Found:
    """How far a query has come under the present driver, by the files it left."""

    batch: int  # the newest that was decided
    decided: bool  # by this driver; a batch of an earlier one may not be in work yet
    committed: bool
    states: int  # partitions that have stored their state after it
    in_sink: bool

    @property
    def point(self) -> str:
        if self.committed or self.batch < 0:
            return hooks.ELSEWHERE
        if self.in_sink:
            return f"sink commit: batch {self.batch} in the sink, not committed"
        if self.states == PARTITIONS:
            return f"sink commit: state of batch {self.batch} stored, not in the sink"
        if self.states:
            return f"state commit: {self.states} of {PARTITIONS} partitions stored in batch {self.batch}"
        return f"processing: batch {self.batch}, no state stored" if self.decided else hooks.ELSEWHERE


@dataclass(slots=True)
class Story:
    """One input, one set of checkpoints and outputs, any number of drivers and kills."""

    folder: Path
    queries: dict[str, str]  # sinks by query
    files: int = 8
    seed: int = 1
    master: str = "local[2,4]"  # a task may fail four times
    settings: dict[str, str] = field(default_factory=dict)
    pause: float = 0.02
    kills: list[Kill] = field(default_factory=list)
    drivers: int = 0
    failures: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    started: float = 0.0  # the present driver, by the clock that stamps files
    _driver: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        generate(self.folder / "input", self.files, self.seed)
        for name in ("phases", "armed", "held", "notes", "local", "tmp"):
            (self.folder / name).mkdir()
        facts = {"folder": str(self.folder), "master": self.master, "settings": self.settings, "queries": self.queries}
        (self.folder / "story.json").write_text(json.dumps(facts))

    # ── the driver ────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """A driver that goes on where the last one was killed."""
        self.drivers += 1
        self.started = time.time() - 0.05  # stamps are a few milliseconds coarse
        places = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(places),
            "PYSPARK_PYTHON": sys.executable,
            "TMPDIR": str(self.folder / "tmp"),
            hooks.FOLDER: str(self.folder),
            hooks.FOLDER + "_PAUSE": str(self.pause),
        }
        with (self.folder / f"driver-{self.drivers}.log").open("wb") as log:
            self._driver = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.kills.driver", str(self.folder / "story.json")],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def done(self) -> bool:
        return (self.folder / DONE).exists()

    @property
    def ended(self) -> bool:
        return self._driver is None or self._driver.poll() is not None

    def finish(self) -> None:
        """Let the driver come to its end, starting it if it is not there."""
        if not self.done:
            if self.ended:
                self.start()
            self.wait(lambda: self.done, "the driver to finish")
        self.failures = json.loads((self.folder / DONE).read_text())["failures"]

    def stop(self) -> None:
        """Leave no process behind."""
        if self._driver is not None:
            _kill_tree(self._driver.pid)
            self._driver.wait(PATIENCE)
        for name in ("local", "tmp"):  # what killed processes could not tidy up
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def wait(self, condition: Callable[[], bool], what: str, pause: float = 0.02) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            if self.ended and not condition():
                raise AssertionError(f"the driver ended while we waited for {what}: {self.last_words()}")
            if time.monotonic() > end:
                raise AssertionError(f"waited {PATIENCE:.0f} s for {what}: {self.last_words()}")
            time.sleep(pause)

    def last_words(self) -> str:
        text = (self.folder / f"driver-{self.drivers}.log").read_text(errors="replace")
        return text[-3000:]

    # ── evidence ──────────────────────────────────────────────────────────────────────────────────────────────────

    def phase(self, pid: int) -> str:
        """Where a process is, or was when it died."""
        with contextlib.suppress(FileNotFoundError):
            return (self.folder / "phases" / str(pid)).read_text().strip()
        return hooks.ELSEWHERE

    def busy(self, pid: int) -> bool:
        return self.phase(pid) != hooks.ELSEWHERE

    def any_busy(self) -> bool:
        """Whether some worker is at a shard now; much cheaper than to look for the workers."""
        return any(self.busy(int(p.name)) for p in self._written(self.folder / "phases", r"\d+") if _exists(p.name))

    def found(self, query: str) -> Found:
        checkpoint, out = self.folder / "checkpoint" / query, self.folder / "out" / query
        batch, done = _newest(checkpoint / "offsets"), _newest(checkpoint / "commits")
        fresh = self._fresh(checkpoint / "offsets", str(batch))
        version = rf"{batch + 1}(_[^.]+)?\.(zip|changelog|delta)"
        states = sum(self._fresh(checkpoint / "state" / "0" / str(p), version) for p in range(PARTITIONS))
        if self.queries[query] == "files":
            in_sink = self._fresh(out / "_spark_metadata", rf"{batch}(\.compact)?")
        else:
            in_sink = self._fresh(out, rf"{batch:05d}\.parquet")
        return Found(batch, fresh, done >= batch, states, in_sink)

    def _fresh(self, folder: Path, name: str) -> bool:
        """Whether the present driver wrote a file of this name (a pattern)."""
        return any(True for _ in self._written(folder, name))

    def _written(self, folder: Path, name: str) -> Iterator[Path]:
        with contextlib.suppress(FileNotFoundError):
            for p in folder.iterdir():
                if re.fullmatch(name, p.name) is not None and p.stat().st_mtime >= self.started:
                    yield p

    def at_work(self) -> bool:
        """Whether a worker of the present driver has come to its first shard."""
        return self._fresh(self.folder / "phases", r"\d+")

    def batches(self) -> int:
        """How many micro-batches are done, over all queries."""
        return sum(_newest(self.folder / "checkpoint" / q / "commits") + 1 for q in self.queries)

    def notes(self) -> dict[str, int]:
        """How often workers found an engine that stood where the store does, a stale one, none."""
        words = [w for p in (self.folder / "notes").iterdir() for w in p.read_text().split()]
        return {w: words.count(w) for w in ("hot", "stale", "cold")}

    def workers(self) -> list[psutil.Process]:
        """The Python processes that run tasks: children of the daemon."""
        assert self._driver is not None
        found = []
        with contextlib.suppress(psutil.Error):
            for p in psutil.Process(self._driver.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    parent = p.parent()
                    if parent is not None and _is_daemon(parent):
                        found.append(p)
        return found

    # ── killing ───────────────────────────────────────────────────────────────────────────────────────────────────

    def kill_at(self, point: str, what: str) -> Kill:
        """Hold the first process that reaches a point, and kill it or the driver that it belongs to."""
        armed, held = self.folder / "armed" / point, self.folder / "held"
        armed.touch()
        self.wait(lambda: not armed.exists(), f"a process at '{point}'")
        (place,) = (p for p in held.iterdir() if p.name.startswith(point + "."))
        pid = int(place.name.rpartition(".")[2])
        kill = self._kill_worker(pid, True, point) if what == "worker" else self._kill_driver(True, point)
        place.unlink()
        return kill

    def kill_in_sink(self, query: str) -> Kill:
        """Kill the driver as soon as the sink has a batch, before the batch is committed: some hundredths of a second.
        What it hit is said by what it left."""
        self.wait(lambda: self.found(query).states == PARTITIONS, "a state commit", pause=0.005)
        self.wait(lambda: self.found(query).in_sink, "a sink commit", pause=0.0005)
        return self._kill_driver(True)

    def kill_driver(self) -> Kill:
        return self._kill_driver(False)

    def kill_worker(self, choose: Callable[[list[psutil.Process]], psutil.Process]) -> Kill | None:
        """None if there is no worker now."""
        workers = self.workers()
        return self._kill_worker(choose(workers).pid, False) if workers else None

    def _kill_worker(self, pid: int, aimed: bool, point: str | None = None) -> Kill:
        os.kill(pid, signal.SIGKILL)
        return self._log(pid, "worker", aimed, point or self.phase(pid))

    def _kill_driver(self, aimed: bool, point: str | None = None) -> Kill:
        assert self._driver is not None
        pids = _kill_tree(self._driver.pid)
        self._driver.wait(PATIENCE)
        said = [point] if point else [*map(self.phase, pids), *(self.found(q).point for q in self.queries)]
        # Of several queries and processes the one that is furthest in its batch names the kill.
        last = max(said, key=lambda s: (_rank(s), s))
        return self._log(self._driver.pid, "driver", aimed, last)

    def _log(self, pid: int, what: str, aimed: bool, point: str) -> Kill:
        kill = Kill(time.monotonic() - self.began, pid, what, aimed, point)
        self.kills.append(kill)
        return kill

    def log(self) -> str:
        lines = [str(k) for k in self.kills]
        counts = ", ".join(f"{p} {sum(k.phase == p for k in self.kills)}" for p in (*PHASES, hooks.ELSEWHERE))
        lines.append(
            f"{len(self.kills)} kills ({counts}), {self.drivers} drivers, {len(self.failures)} queries restarted"
        )
        lines.append("engines: " + ", ".join(f"{n} {w}" for w, n in self.notes().items()))
        return "\n".join(lines)


def _rank(point: str) -> int:
    phase = point.partition(":")[0]
    return PHASES.index(phase) + 1 if phase in PHASES else 0


def _newest(folder: Path) -> int:
    names = [p.name for p in folder.iterdir()] if folder.exists() else []
    return max((int(n) for n in names if n.isdigit()), default=-1)


def _exists(pid: str) -> bool:
    return Path("/proc", pid).exists() or psutil.pid_exists(int(pid))


def _is_daemon(process: psutil.Process) -> bool:
    words = process.cmdline()
    return "-m" in words and words[words.index("-m") + 1].endswith("daemon") and process.parent() is not None


def _kill_tree(pid: int) -> list[int]:
    """SIGKILL to a process and all that it started, parents first, so that nobody can tidy up."""
    try:
        top = psutil.Process(pid)
        everyone = [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        return [pid]
    for p in everyone:
        with contextlib.suppress(psutil.NoSuchProcess):
            p.kill()
    end = time.monotonic() + PATIENCE
    while any(map(_lives, everyone)) and time.monotonic() < end:
        time.sleep(0.005)
    return [p.pid for p in everyone]


def _lives(process: psutil.Process) -> bool:
    """A zombie does nothing any more, whoever is to bury it."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextlib.contextmanager
def story(folder: Path, queries: dict[str, str], **facts: object) -> Iterator[Story]:
    """A story whose processes end with it, and whose log is printed."""
    told = Story(folder, queries, **facts)  # type: ignore[arg-type]
    try:
        yield told
    finally:
        told.stop()
        print("\n" + told.log())
