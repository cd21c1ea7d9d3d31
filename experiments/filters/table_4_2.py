"""Table 4.2: where A-Greedy's time goes, for n = 3 and 8 filters and p = 0.01 and 0.05, under stable conditions.

Tuple processing and profile tuples are counted (selectivity 50 %, Γ = 2, cost 1). The other three rows are no
evaluations; their time is measured and set against filters that take 20 µs a tuple, what a small Python function takes
(a hash probe in the thesis's C++ took about one). Batches
of 256 tuples, as the executor of queries cuts them for such filters.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import matplotlib.pyplot as plt

from eddyline.adaptive.filters.a_greedy import AGreedy
from eddyline.adaptive.filters.simulate import simulate
from experiments.filters.setting import policy, stream
from experiments.report import Claim, Number, Options, Outcome, Verdict, main

PROBE = 20e-6  # seconds that a filter takes
COLUMNS = ((3, 0.01), (3, 0.05), (8, 0.01), (8, 0.05))
PAPER = {
    "tuple processing": (0.9877, 0.9417, 0.9662, 0.8477),
    "profile tuples": (0.0088, 0.0417, 0.0292, 0.1334),
    "profile window": (0.0020, 0.0093, 0.0020, 0.0091),
    "view update": (0.0015, 0.0073, 0.0022, 0.0098),
    "view violations": (0.0, 0.0, 0.0004, 0.0),
}


class Stopwatch:
    """Adds up the time that calls take."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            start = perf_counter()
            try:
                return function(*arguments)
            finally:
                self.seconds += perf_counter() - start

        return timed


class Timed:
    """An object of which some methods are timed."""

    def __init__(self, of: Any, watch: Stopwatch, names: set[str]) -> None:
        self.of, self.watch, self.names = of, watch, names

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.of, name)
        return self.watch(found) if name in self.names else found


def shares(n: int, p: float, rows: int) -> dict[str, float]:
    """A column of the table: parts of the whole, after a first half that does not count."""
    greedy = policy("a-greedy", n, 0, p=p)
    assert isinstance(greedy, AGreedy)
    drops = stream(rows, n, seed=1)
    simulate(greedy, drops[: rows // 2], batch=256)
    view, violations = Stopwatch(), Stopwatch()
    insert, whole = greedy._insert, Stopwatch()
    greedy._insert = whole(insert)  # type: ignore[method-assign]
    greedy.view = Timed(greedy.view, view, {"insert", "delete"})  # type: ignore[assignment]
    greedy._reoptimize = violations(greedy._reoptimize)  # type: ignore[method-assign]
    run = simulate(greedy, drops[rows // 2 :], batch=256)
    parts = (run.work * PROBE, run.profiling * PROBE, whole.seconds - view.seconds, view.seconds, violations.seconds)
    return {name: part / sum(parts) for name, part in zip(PAPER, parts, strict=True)}


def run(options: Options) -> Outcome:
    rows = options.tuples(400_000, 100_000)
    found = {(n, p): shares(n, p, rows) for n, p in COLUMNS}
    useful = [found[c]["tuple processing"] + found[c]["profile tuples"] for c in COLUMNS]
    profile = [found[c]["profile tuples"] for c in COLUMNS]
    verdict = Verdict(
        "Table 4.2",
        [
            Claim("more than 98 % of the time goes into tuple processing or profile tuples", min(useful) > 0.98),
            Claim("profile tuples cost more with larger n", profile[2] > profile[0] and profile[3] > profile[1]),
            Claim("and with larger p", profile[1] > profile[0] and profile[3] > profile[2]),
            Claim("from less than 1 % (n = 3, p = 0.01) to more than 10 % (n = 8, p = 0.05)",
                  profile[0] < 0.01 and profile[-1] > 0.1),
        ],
        [Number(f"{name}, n = {n}, p = {p:g}", PAPER[name][i], found[n, p][name])
         for name in PAPER for i, (n, p) in enumerate(COLUMNS)],
        "The first two rows are counted, the others measured, against filters of 20 µs.",
    )  # fmt: skip
    figure, axis = plt.subplots(figsize=(8, 3.8))
    for i, name in enumerate(list(PAPER)[1:]):
        at = [c + (i - 1.5) * 0.2 for c in range(len(COLUMNS))]
        axis.bar(at, [found[c][name] for c in COLUMNS], 0.18, label=name, color=f"C{i}")
        axis.plot(at, PAPER[name], "k_", markersize=12, label="the thesis's" if i == 0 else None)
    axis.set_xticks(range(len(COLUMNS)), [f"n = {n}, p = {p:g}" for n, p in COLUMNS])
    axis.set(ylabel="share of A-Greedy's time", title="Table 4.2: beside tuple processing")
    axis.legend(fontsize=8)
    head = "| component | " + " | ".join(f"n = {n}, p = {p:g}" for n, p in COLUMNS) + " |\n|---" * 1
    table = [head + "|---" * len(COLUMNS) + "|"]
    for name in PAPER:
        cells = [f"{found[c][name]:.2%} ({PAPER[name][i]:.2%})" for i, c in enumerate(COLUMNS)]
        table.append(f"| {name} | " + " | ".join(cells) + " |")
    rows_out = [{"n": n, "p": p, **found[n, p]} for n, p in COLUMNS]
    return Outcome(rows_out, verdict, figure, "\n".join(table))


if __name__ == "__main__":
    main(run)
