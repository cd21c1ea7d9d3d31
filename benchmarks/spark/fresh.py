"""Driver processes, one after another, never two at once."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import IO

from benchmarks.harness import HERE
from benchmarks.spark.configuration import Configuration, Outcome
from benchmarks.spark.data import streams
from benchmarks.spark.processes import Sampler
from benchmarks.spark.worker import MARK

# Spark gives a Python worker ten seconds to start, which a machine that does much else may not.
NOT_YET = "Python worker failed to connect back"
ATTEMPTS = 3
LIMIT = 300  # seconds for one configuration; the longest takes about a third of it


def measure(configurations: Sequence[Configuration], together: bool = False) -> list[Outcome]:
    """Each configuration in a driver of its own; ``together`` (quick runs): in one that stays, without memory."""
    for c in configurations:
        streams(c)  # generated before any clock runs
    found = []
    for c in configurations:
        found.append(_attempt(c, together))
        print(f"    {describe(found[-1])}", file=sys.stderr, flush=True)
    return found


def _attempt(c: Configuration, together: bool) -> Outcome:
    for attempt in range(1, ATTEMPTS + 1):
        driver = _shared() if together else Driver()
        try:
            outcome = driver.run(c)
            if together:
                outcome.memory = {}
            return outcome
        except RuntimeError as error:
            driver.stop()
            if NOT_YET not in str(error) or attempt == ATTEMPTS:
                raise
        finally:
            if not together:
                driver.stop()
    raise AssertionError("not reached")


class Driver:
    """A process of ``benchmarks.spark.worker``, watched from its start to its end."""

    def __init__(self) -> None:
        # Python workers import the floor's processor from here.
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent), "BENCHMARK_STARTED": repr(time.time())}
        self.errors: IO[str] = tempfile.TemporaryFile("w+")  # noqa: SIM115  (closed in stop)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.spark.worker"],
            cwd=HERE.parent,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        self._ended = False
        self.sampler = Sampler(self.process.pid)
        self.sampler.start()

    def run(self, c: Configuration) -> Outcome:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(c.to_json()) + "\n")
        self.process.stdin.flush()
        overdue = threading.Timer(LIMIT, self._end)
        overdue.start()
        line = next((x for x in self.process.stdout if x.startswith(MARK)), None)
        overdue.cancel()
        if self._ended:
            raise TimeoutError(f"{c.title} took more than {LIMIT} s.")
        if line is None:
            self.errors.seek(0)
            raise RuntimeError(f"{c.title} failed:\n{self.errors.read()[-6000:]}")
        found = Outcome.from_json(json.loads(line[len(MARK) :]))
        usage = self.sampler.usage
        found.memory = usage.to_json()
        found.processor = [usage.spent(b, b + ms / 1000) for b, ms in zip(found.begun, found.milliseconds, strict=True)]
        return found

    def _end(self) -> None:
        """Spark's JVM and its workers end with the process that talks to them."""
        self._ended = True
        self.process.kill()

    def stop(self) -> None:
        """The driver ends when it is told no more; Spark and its workers end with it."""
        if self.errors.closed:
            return
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        self.sampler.stop()
        self.errors.close()


_kept: list[Driver] = []


def _shared() -> Driver:
    if not _kept or _kept[-1].errors.closed:
        _kept.append(Driver())
        atexit.register(_kept[-1].stop)
    return _kept[-1]


def describe(o: Outcome) -> str:
    each = f"{o.steady:.2f} s a micro-batch ({o.steady_processor:.2f} s of processors)"
    total = f", {o.seconds:.0f} s in all, {o.memory['peak']:,.0f} MB" if o.memory else ""
    return f"{o.configuration.title}: {each}, {o.results:,} rows{total}"
