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
from benchmarks.spark.processes import Sampler
from benchmarks.spark.worker import MARK


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
    told = json.dumps([c.to_json() for c in asked])
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        # Python workers import the floor's processor from here.
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent), "BENCHMARK_STARTED": repr(time.time())}
        command = [sys.executable, "-m", "benchmarks.spark.worker", told]
        process = subprocess.Popen(command, cwd=HERE.parent, env=environment, stdout=out, stderr=errors, text=True)
        with Sampler(process.pid) as usage:
            code = process.wait()
        out.seek(0)
        errors.seek(0)
        lines = [line[len(MARK) :] for line in out if line.startswith(MARK)]
        if code or len(lines) != len(asked):
            raise RuntimeError(f"{asked[min(len(lines), len(asked) - 1)].title} failed:\n{errors.read()[-6000:]}")
    found = [Outcome.from_json(json.loads(line)) for line in lines]
    for o in found:
        o.memory = usage.to_json()
        o.processor = [usage.spent(b, b + ms / 1000) for b, ms in zip(o.begun, o.milliseconds, strict=True)]
        print(f"    {describe(o)}", file=sys.stderr, flush=True)
    return found


def describe(o: Outcome) -> str:
    each = f"{o.steady:.2f} s a micro-batch ({o.steady_processor:.2f} s of processors)"
    peak = f", {o.memory['peak']:,.0f} MB" if o.memory else ""
    return f"{o.configuration.title}: {each}, {o.seconds:.0f} s in all, {o.results:,} rows{peak}"
