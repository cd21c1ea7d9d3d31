"""Section 2.3.2, on a real trading morning: queue memory and latency of a bursty stream under each scheduler.

``SELECT Istream(symbol, dear(price) AS v) FROM trades WHERE size >= 300``: a cheap filter that drops most trades, and
a user's function of Python on those that are left: the thesis's first example, with real bursts. Trades of 7 October
2013 from the opening of the exchanges on are pushed second by second. After each second the operators get an equal
budget of processor time, enough for the mean of all seconds and 15 % more, so that bursts wait in queues.

The model is the thesis's: costs and selectivities are those that the session measured with FIFO, elements flow like a
fluid. FIFO serves what came first, all the way; chain serves the block of operators that reduces the queues fastest.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.figure import Figure

import eddyline as ed
from eddyline.core.time import SystemClock
from eddyline.datasets import real
from experiments.report import VARIABLE, Claim, NotHereError, Number, Options, Outcome, Verdict, main

POLICIES = ("fifo", "round-robin", "greedy", "chain")
TEXT = "SELECT Istream(symbol, dear(price) AS v) FROM trades WHERE size >= 300"
OPENS = 13.5  # hours of the day, UTC
SECONDS = 1200
ROOM = 1.15  # the budget over the mean of the work
QUANTUM = 16  # elements in one run: small enough to let a scheduler choose
WITHIN = 0.20  # of the model's ratio


class ProcessorClock(SystemClock):
    """Time that this process computes, so that other work on the machine does not count."""

    def nanoseconds(self) -> int:
        return time.process_time_ns()


def dear(price: float | None) -> float:
    """Some ten microseconds of Python."""
    found = price or 1.0
    for _ in range(400):
        found = (found + 2.0 / found) / 2.0
    return found


def seconds(folder: Path | None, count: int) -> list[pa.RecordBatch]:
    """The trades of each second from the opening on."""
    if folder is None or "stock_trades" not in real.available(folder):
        where = "no folder is named" if folder is None else f"{folder} does not hold it"
        raise NotHereError(f"it needs stock_trades.parquet, and {where}: set {VARIABLE} or give --data.")
    table = real.read("stock_trades", ["ts", "symbol", "price", "size"], folder).sort_by("ts")
    at = table["ts"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy() // 1_000_000
    first = int(at[0]) // 86_400 * 86_400 + int(OPENS * 3600)
    cuts = np.searchsorted(at, np.arange(first, first + count + 1))
    whole = table.combine_chunks().to_batches()[0]
    return [whole.slice(a, b - a) for a, b in itertools.pairwise(cuts)]


@dataclass(frozen=True, slots=True)
class Run:
    """After each second what waited, and for results how many seconds they took."""

    queued: np.ndarray
    latency: np.ndarray
    costs: Sequence[float]  # by operator nanoseconds for an element
    selectivities: Sequence[float]
    spent: float  # nanoseconds of operators and of choosing among them


def execute(arrivals: Sequence[pa.RecordBatch], policy: str, budget: timedelta | None) -> Run:
    session = ed.Session(clock=ProcessorClock(), scheduler=policy)
    session.stream("trades", schema=arrivals[0].schema, timestamp="ts")
    session.function("dear", dear, returns="double", arguments=["double"])
    query = session.query(TEXT)
    session.quantum = QUANTUM
    session.budget = budget
    queued, latency = [], []
    spent = timed(session)
    for batch in arrivals:
        if batch.num_rows:
            session.push("trades", batch)
            now = pc.max(batch["ts"])
        else:
            session.advance()
        queued.append(session.queued)
        for found in query.fetch():
            late = pc.subtract(now.cast(pa.timestamp("us")), found["_time"]).cast(pa.int64())
            latency.append(late.to_numpy() / 1e6)
    session.drain()
    told = [o.task.statistics for o in query.running.operators.values()]
    busy = [t for t in told if t.elements_in]
    # What a run costs beside its operator (the choice, queues) is shared out by the operators' time.
    costs = [t.nanoseconds / t.elements_in * spent[0] / sum(t.nanoseconds for t in told) for t in busy]
    passed = [t.elements_out / t.elements_in for t in busy]
    passed[-1] = 0.0  # results leave the system
    found = np.concatenate(latency) if latency else np.zeros(1)
    return Run(np.array(queued), found, costs, passed, spent[0])


def timed(session: ed.Session) -> list[int]:
    """The nanoseconds that the executor takes from now on: what the budget is for."""
    executor = session._graph.executor
    run, spent = executor.run, [0]

    def measured(**budget: int | None) -> int:
        begin = time.process_time_ns()
        try:
            return run(**budget)
        finally:
            spent[0] += time.process_time_ns() - begin

    executor.run = measured  # type: ignore[method-assign, assignment]
    return spent


def chains(costs: Sequence[float], selectivities: Sequence[float]) -> list[tuple[float, float]]:
    """The blocks of the thesis as (cost for an element that enters, share that leaves)."""
    found, at = [], 0
    while at < len(costs):
        best = (-1.0, at + 1, 0.0, 1.0)
        cost, size = 0.0, 1.0
        for end in range(at, len(costs)):
            cost += size * costs[end]
            size *= selectivities[end]
            rate = (1 - size) / cost
            if rate >= best[0]:
                best = (rate, end + 1, cost, size)
        found.append((best[2], best[3]))
        at = best[1]
    return found


def modelled(counts: Sequence[int], blocks: Sequence[tuple[float, float]], budget: float) -> np.ndarray:
    """What waits after each second, if the block that reduces queues fastest is served first. One block of all
    operators is FIFO."""
    order = sorted(range(len(blocks)), key=lambda i: -(1 - blocks[i][1]) / blocks[i][0])
    waiting = [0.0] * len(blocks)
    found = []
    for count in counts:
        waiting[0] += count
        left = budget
        while left > 0:
            ready = [i for i in order if waiting[i] > 1e-9]
            if not ready:
                break
            i = ready[0]
            cost, share = blocks[i]
            served = min(waiting[i], left / cost)
            left -= served * cost
            waiting[i] -= served
            if i + 1 < len(blocks):
                waiting[i + 1] += served * share
            if served * cost <= 1e-9:
                break
        found.append(sum(waiting))
    return np.array(found)


def whole(costs: Sequence[float], selectivities: Sequence[float]) -> tuple[float, float]:
    cost, size = 0.0, 1.0
    for c, s in zip(costs, selectivities, strict=True):
        cost, size = cost + size * c, size * s
    return cost, size


def run(options: Options) -> Outcome:
    arrivals = seconds(options.data, options.tuples(SECONDS, 60))
    measured = execute(arrivals, "fifo", None)
    per_second = measured.spent / len(arrivals) * ROOM
    budget = timedelta(microseconds=per_second / 1000)
    runs = {policy: execute(arrivals, policy, budget) for policy in POLICIES}
    counts = [b.num_rows for b in arrivals]
    costs, selectivities = measured.costs, measured.selectivities
    model = {
        "fifo": modelled(counts, [whole(costs, selectivities)], per_second),
        "chain": modelled(counts, chains(costs, selectivities), per_second),
    }
    predicted = float(model["fifo"].mean() / model["chain"].mean())
    ratio = float(runs["fifo"].queued.mean() / runs["chain"].queued.mean())
    verdict = Verdict(
        "Section 2.3.2, live",
        [
            Claim("chain keeps less in queues than FIFO", ratio > 1),
            Claim("at least by the ratio that the model predicts for the measured costs and selectivities, less 20 %",
                  ratio >= (1 - WITHIN) * predicted),
        ],
        [
            Number("mean queue of FIFO over that of chain", predicted, ratio, "×"),
            *(Number(f"mean queue, {p}", float(model[p].mean()) if p in model else None, float(r.queued.mean()), "")
              for p, r in runs.items()),
            *(Number(f"mean latency, {p}", None, float(r.latency.mean()), " s") for p, r in runs.items()),
            *(Number(f"99th percentile of latency, {p}", None, float(np.percentile(r.latency, 99)), " s")
              for p, r in runs.items()),
        ],
        "Where it says paper it is the model's prediction. Latency is in seconds of the stream.",
    )  # fmt: skip
    rows = [
        {"second": i, "arrived": counts[i], **{p: int(r.queued[i]) for p, r in runs.items()},
         **{f"model of {p}": float(m[i]) for p, m in model.items()}}
        for i in range(len(counts))
    ]  # fmt: skip
    return Outcome(rows, verdict, draw(runs, model))


def draw(runs: Mapping[str, Run], model: Mapping[str, np.ndarray]) -> Figure:
    figure, axes = plt.subplots(figsize=(9, 4))
    for policy, found in runs.items():
        axes.plot(found.queued, label=policy, linewidth=1)
    for policy, waiting in model.items():
        axes.plot(waiting, label=f"model of {policy}", linestyle=":", linewidth=1)
    axes.set_xlabel("second after the opening")
    axes.set_ylabel("elements in queues")
    axes.set_title("Queue memory of a bursty stream under each scheduler")
    axes.legend()
    return figure


if __name__ == "__main__":
    main(run)
