"""The skewed join of ``benchmarks.skewed_star`` on Spark: its data, its plans, and how many results there must be.

Windows differ: an element of stream i is there for others until its own window has passed, so that of any two
elements of a result the later one is at most the earlier one's window later.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import Any

import pyarrow as pa
import pyspark.sql.functions as F

from benchmarks import skewed_star
from benchmarks.skewed_star import EQUAL, PHASES, WINDOW
from benchmarks.spark.configuration import Configuration

NAMES = ("R", *skewed_star.OTHERS)
SCHEMAS = {
    "R": "ts timestamp, a long, c long, d long, val double",
    "S": "ts timestamp, a long, b long, val double",
    "T": "ts timestamp, b long, val double",
    "U": "ts timestamp, c long, val double",
    "V": "ts timestamp, d long, val double",
}
#: The order of Spark's own joins, which stays: what has several rows for a key comes last, so that the results in
#: between, which Spark keeps, are few.
ORDER = "UVST"
EVENTS = 41 / 6  # of all streams for one of R in a phase


def _seconds(c: Configuration) -> float:
    """How long R lasts; before, the windows of the others fill."""
    return c.seconds * PHASES / (PHASES + WINDOW)


def tables(c: Configuration) -> Mapping[str, pa.Table]:
    return skewed_star.star(round(c.events / EVENTS), _seconds(c))


def near(c: Configuration, time: Mapping[str, str], some: tuple[str, ...] = NAMES) -> list[str]:
    """The conditions on the times, given as expressions in microseconds."""
    widths = skewed_star.widths(_seconds(c))
    return [f"{time[j]} - {time[i]} <= {widths[i]}" for i, j in permutations(some, 2)]


def question(c: Configuration, closed: int) -> str:
    time = {n: f"epoch_us({n}.ts)" for n in NAMES}
    where = [*EQUAL.values(), *near(c, time), f"greatest({', '.join(time.values())}) < {closed}"]
    return f"SELECT count(*) FROM {', '.join(NAMES)} WHERE {' AND '.join(where)}"


def native(c: Configuration, streams: Mapping[str, Any]) -> Any:
    """As ``native.join``, in which only R's time stays a timestamp."""
    widths = skewed_star.widths(_seconds(c))
    named = {n: df.toDF(*(x + n for x in df.columns)).withWatermark(f"ts{n}", "0 seconds") for n, df in streams.items()}
    joined, done = named["R"], ["R"]
    for n in ORDER:
        left, right = (side.strip().split(".")[::-1] for side in EQUAL[n].split("="))
        time = {"R": "unix_micros(tsR)", n: f"unix_micros(ts{n})", **{x: f"micros{x}" for x in done if x != "R"}}
        conditions = [
            f"{''.join(left)} = {''.join(right)}",
            f"ts{n} >= tsR - interval {widths[n]} microseconds",
            f"ts{n} <= tsR + interval {widths['R']} microseconds",
            *(x for other in done[1:] for x in near(c, time, (other, n))),
        ]
        joined = joined.join(named[n], F.expr(" and ".join(conditions)))
        joined = joined.withColumn(f"micros{n}", F.unix_micros(f"ts{n}")).drop(f"ts{n}", "".join(right))
        done.append(n)
    return joined


def text(c: Configuration) -> str:
    told = ", ".join(f"{n}.{x} AS {n}_{x}" for n in NAMES for x in ("ts", "val"))
    return f"SELECT Istream({told})\n{skewed_star.query(_seconds(c)).partition(chr(10))[2]}"
