"""Section 6.1.1: the query that the chapter begins with, whose windows take 72 MB by themselves.

Total traffic that went through links C, B and O within ten minutes: packets flow from C to B to O, each with at most 10
seconds of delay, 10 % of the packets of a link go on to the next. Rates 1,000, 10,000 and 1,000 a second at full scale.
The sum needs to know when packets leave their windows, so those that went through all links stay for ten minutes.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa

from experiments.constraints.harness import measure
from experiments.report import Claim, Number, Options, Outcome, Verdict, main

SECONDS, DELAY, FLOW_ON, MICRO = 600, 10.0, 0.1, 1_000_000
TEXT = (
    "SELECT sum(C.size) AS traffic FROM C [RANGE 10 MINUTES], B [RANGE 10 MINUTES], O [RANGE 10 MINUTES]"
    " WHERE C.pid = B.pid AND B.pid = O.pid"
)


def packets(rate: int, seconds: int) -> dict[str, pa.Table]:
    """Packets of C; of B those that come from C and others; of O those that come from B and others."""
    random = np.random.default_rng(6)
    many = {"C": rate * seconds, "B": 10 * rate * seconds, "O": rate * seconds}
    made = {}
    pid, time = np.arange(many["C"]), np.sort(random.random(many["C"]) * seconds)
    made["C"] = (pid, time)
    next_pid = len(pid)
    for link in ("B", "O"):
        on = random.random(len(pid)) < FLOW_ON
        if link == "O":  # of the packets of B that came from C, and of its others
            on &= random.random(len(pid)) < 1.0
        pid, time = pid[on], time[on] + random.random(int(on.sum())) * DELAY
        others = max(0, many[link] - len(pid))
        pid = np.concatenate([pid, next_pid + np.arange(others)])
        time = np.concatenate([time, random.random(others) * seconds])
        next_pid += others
        order = np.argsort(time, kind="stable")
        order = order[time[order] < seconds]  # no link is quiet at the end
        pid, time = pid[order], time[order]
        made[link] = (pid, time)
    return {
        link: pa.table(
            {
                "ts": pa.array((time * MICRO).astype(np.int64), pa.timestamp("us")),
                "pid": pid,
                "size": random.integers(40, 1500, len(pid)),
            }
        )
        for link, (pid, time) in made.items()
    }


def run(options: Options) -> Outcome:
    rate = max(5, round(1_000 * options.scale))
    tables = packets(rate, SECONDS + 60)
    for mode in (None, "lossy", "exact"):
        measure(packets(5, 60), TEXT, mode)  # loads the kernels
    found = {
        "plain": measure(tables, TEXT, None),
        "lossy": measure(tables, TEXT, "lossy"),
        "exact": measure(tables, TEXT, "exact"),
    }
    lines = [
        {"join": n, "rows": m.rows, "bytes": m.bytes, "disk": m.disk, "spilled": m.spilled, "seconds": m.seconds,
         "results": m.results}
        for n, m in found.items()
    ]  # fmt: skip
    figure, axis = plt.subplots(figsize=(5, 3.4))
    axis.bar(list(found), [m.bytes / 1e6 for m in found.values()])
    axis.set(ylabel="MB of state", yscale="log")
    figure.tight_layout()
    plain, lossy, exact = found.values()
    claims = [
        Claim("exact mode has all results", exact.results == plain.results),
        Claim("lossy mode takes at most a hundredth of the memory", plain.bytes >= 100 * lossy.bytes),
        Claim("exact mode takes at most a fifteenth of the memory", plain.bytes >= 15 * exact.bytes),
    ]
    numbers = [
        Number("rows, plain over lossy", 400, plain.rows / lossy.rows, "×"),
        Number("bytes, plain over lossy", 400, plain.bytes / lossy.bytes, "×"),
        Number("rows, plain over exact", None, plain.rows / exact.rows, "×"),
        Number("bytes, plain over exact", None, plain.bytes / exact.bytes, "×"),
        Number("exact: bytes on disk over the plain join's in memory", None, exact.disk / plain.bytes, "×"),
        Number("lossy: CPU time over the plain join's (measured)", None, lossy.seconds / plain.seconds, "×"),
        Number("exact: CPU time over the plain join's (measured)", None, exact.seconds / plain.seconds, "×"),
    ]
    note = f"Run at {rate:,}, {10 * rate:,} and {rate:,} packets a second."
    return Outcome(lines, Verdict("Section 6.1.1", claims, numbers, note), figure)


if __name__ == "__main__":
    main(run)
