"""Figures 3 and 4 (routing) through queries: Stream-Star's attributes partitioned and routed by the engine's own eddy.

The other routing experiments count what a policy does in a small executor that is told the classes. Here the stream is
a table with the paper's attributes and a key for each join, every join is a Python predicate that looks its key up, and
``WITH (routing = …)`` does the rest: the engine finds the attributes, partitions their values, and routes. Keys are
drawn from a million, so that they say nothing about other tuples. Calls of predicates are counted. Rows come in batches
of the small executor's size, since a policy decides between two of them; and the default ranks by selectivity alone, as
the others do, since the engine measures prices that the small executor does not have.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import eddyline as ed
from eddyline.adaptive.routing.content_learns import ContentLearns
from eddyline.adaptive.routing.default import Default
from eddyline.adaptive.routing.sbr import SourceBasedRouting
from eddyline.adaptive.routing.simulate import simulate
from eddyline.adaptive.routing.stream_star import StreamStar, skewed, stream_star
from experiments.report import Claim, Number, Options, Outcome, Verdict, main

POLICIES = (SourceBasedRouting, ContentLearns, Default)
OPERATORS, SKEWS = (2, 6), (0.05, 0.25, 0.5, 0.75)
BATCH, LARGE_BATCH = 500, 5000  # rows
OPTIONS = {Default.name: f"{Default.name}(cost_aware=0)"}  # for WITH (routing = …), where it is not the name alone


def through_query(star: StreamStar, policy: str, batch: int) -> tuple[int, int]:
    """Calls of all predicates for a stream, and rows that passed."""
    n = star.passes.shape[1]
    columns: dict[str, Any] = {"ts": np.arange(len(star.passes))}
    columns |= {name: [f"v{c}" for c in star.classes[:, a]] for a, name in enumerate(star.setting.attributes)}
    random = np.random.default_rng(7)
    for i in range(n):  # an even key has a partner
        columns[f"k{i}"] = 2 * random.integers(0, 1_000_000, len(star.passes)) + ~star.passes[:, i]
    table = pa.table(columns)
    session = ed.Session()
    session.stream("S", table.to_batches(max_chunksize=batch), timestamp="ts")
    for i in range(n):
        session.function(f"joins{i}", lambda key: pc.equal(pc.bit_wise_and(key, 1), 0), kind="arrow")
    where = " AND ".join(f"joins{i}(k{i})" for i in range(n))
    text = f"SELECT Istream({', '.join(star.setting.attributes)}) FROM S WHERE {where}"
    query = session.query(text, routing=policy)
    passed = query.to_arrow().num_rows
    (told,) = query.statistics().values()
    return sum(told["asked"]), passed


def run(options: Options) -> Outcome:
    tuples = options.tuples(40_000, 5000)
    rows = []
    for n in OPERATORS:
        for a in SKEWS:
            star = stream_star(skewed(n, a), tuples=tuples, seed=1)
            for policy in POLICIES:
                calls, passed = through_query(star, OPTIONS.get(policy.name, policy.name), BATCH)
                counted = policy(star.setting, cost_aware=0)
                simulated = simulate(counted, star.passes, star.classes, batch=BATCH).calls
                rows.append({
                    "operators": n, "A": a, "policy": policy.name, "calls": calls, "simulated": simulated,
                    "passed": passed, "expected": int(star.passes.all(1).sum()),
                })  # fmt: skip

    def of(policy: str, what: str) -> list[float]:
        return [float(r[what]) for r in rows if r["policy"] == policy]  # type: ignore[arg-type]

    saved = {
        p.name: [1 - c / s for c, s in zip(of(p.name, "calls"), of("sbr", "calls"), strict=True)] for p in POLICIES
    }
    apart = {
        p.name: max(abs(c / s - 1) for c, s in zip(of(p.name, "calls"), of(p.name, "simulated"), strict=True))
        for p in POLICIES
    }
    figure, axes = plt.subplots(1, len(OPERATORS), figsize=(9, 3.6), sharey=True)
    for axis, n in zip(axes, OPERATORS, strict=True):
        for policy in POLICIES[1:]:
            line = [s for s, r in zip(saved[policy.name], [r for r in rows if r["policy"] == "sbr"], strict=True)
                    if r["operators"] == n]  # fmt: skip
            axis.plot(SKEWS, line, marker="o", label=policy.name)
        axis.set(title=f"{n} joins, as queries", xlabel="A")
    axes[0].set_ylabel("fewer calls than sbr")
    axes[0].legend()
    verdict = Verdict(
        "Figures 3 and 4, through queries",
        [
            Claim("every query has the rows that pass all joins", all(r["passed"] == r["expected"] for r in rows)),
            Claim("Content-Learns saves at A = 5 %, for two and for six joins",
                  all(s > 0.05 for s, r in zip(saved["content-learns"], [r for r in rows if r["policy"] == "sbr"],
                                               strict=True) if r["A"] == 0.05)),
            Claim("calls are within 15 % of what the small executor counts, for every policy",
                  max(apart.values()) < 0.15),
        ],
        [
            *(Number(f"{p.name}: saved on average", None, float(np.mean(saved[p.name]))) for p in POLICIES[1:]),
            *(Number(f"{name}: calls apart from the small executor's, at most", None, x) for name, x in apart.items()),
        ],
        f"{tuples:,} tuples for each point, in batches of {BATCH}. Classes are hashes of texts here, so that two "
        f"values can share one. {_larger(tuples)}",
    )  # fmt: skip
    return Outcome(rows, verdict, figure)


def _larger(tuples: int) -> str:
    """What larger batches do, in the engine and in the small executor."""
    star = stream_star(skewed(6, 0.05), tuples=tuples, seed=1)
    calls = {
        batch: (
            through_query(star, ContentLearns.name, batch)[0],
            simulate(ContentLearns(star.setting), star.passes, star.classes, batch=batch).calls,
        )
        for batch in (BATCH, LARGE_BATCH)
    }
    query, small = (large / usual - 1 for usual, large in zip(calls[BATCH], calls[LARGE_BATCH], strict=True))
    return (
        "The engine's own batches grow as long as they take little time, and a policy decides more rarely then: in "
        f"batches of {LARGE_BATCH:,} Content-Learns makes {query:.0%} more calls at six joins and A = 5 %, and in the "
        f"small executor {small:.0%} more."
    )


if __name__ == "__main__":
    main(run)
