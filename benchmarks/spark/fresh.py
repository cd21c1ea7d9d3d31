"""Driver processes, one after another, never two at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import groupby

from benchmarks.harness import HERE
from benchmarks.spark.configuration import Configuration, Outcome
from benchmarks.spark.data import streams
from benchmarks.spark.processes import Sampler, Usage
from benchmarks.spark.worker import MARK

# Spark gives a Python worker ten seconds to start, which a machine that does much else may not.
NOT_YET = "Python worker failed to connect back"
ATTEMPTS = 3


def measure(configurations: Sequence[Configuration], together: bool = False) -> list[Outcome]:
    """Each configuration in a driver of its own; ``together`` (quick runs): in one for all, without memory."""
    for c in configurations:
        streams(c)  # generated before any clock runs
    if not together:
        return [_driver([c])[0] for c in configurations]
    drivers = [list(g) for _, g in groupby(configurations, key=lambda c: c.memory)]
    found = [o for g in drivers for o in _driver(g)]
    for o in found:
        o.memory = {}
    return found


def _driver(asked: Sequence[Configuration]) -> list[Outcome]:
    for _ in range(ATTEMPTS):
        lines, errors, usage = _process(json.dumps([c.to_json() for c in asked]))
        if len(lines) == len(asked):
            break
        if NOT_YET not in errors:
            raise RuntimeError(f"{asked[len(lines)].title} failed:\n{errors[-6000:]}")
    else:
        raise RuntimeError(f"{asked[len(lines)].title}: no Python worker started in time; the machine is too busy.")
    found = [Outcome.from_json(json.loads(line)) for line in lines]
    for o in found:
        o.memory = usage.to_json()
        o.processor = [usage.spent(b, b + ms / 1000) for b, ms in zip(o.begun, o.milliseconds, strict=True)]
        print(f"    {describe(o)}", file=sys.stderr, flush=True)
    return found


def _process(told: str) -> tuple[list[str], str, Usage]:
    """The outcomes that a driver printed, what it said on its error stream, and what it used."""
    # Python workers import the floor's processor from here.
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent), "BENCHMARK_STARTED": repr(time.time())}
    command = [sys.executable, "-m", "benchmarks.spark.worker", told]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, cwd=HERE.parent, env=environment, stdout=out, stderr=errors, text=True)
        try:
            with Sampler(process.pid) as usage:
                process.wait()
        finally:
            process.terminate()  # when we are interrupted: Spark ends with its driver
        out.seek(0)
        errors.seek(0)
        return [line[len(MARK) :] for line in out if line.startswith(MARK)], errors.read(), usage


def describe(o: Outcome) -> str:
    each = f"{o.steady:.2f} s a micro-batch ({o.steady_processor:.2f} s of processors)"
    peak = f", {o.memory['peak']:,.0f} MB" if o.memory else ""
    return f"{o.configuration.title}: {each}, {o.seconds:.0f} s in all, {o.results:,} rows{peak}"
