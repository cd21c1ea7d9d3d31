"""Figures 6.12 and 6.14: the memory of a join under CA(k) and OAP(k).

Join graph of Figure 6.9(b): two streams of parents, whose rows come after their child in clusters of 5 that spread over
at most k other rows. Windows of 50,000 rows. Lossy, as in the thesis; only the named constraint is used.
"""

from __future__ import annotations

import matplotlib.pyplot as plt

from experiments.constraints.harness import ROWS, Input, Run, two_parents, warm_up
from experiments.report import Claim, Number, Options, Outcome, Verdict, main

SPREADS = (0, 1_000, 5_000, 10_000)


def run(options: Options) -> Outcome:
    rows = options.tuples(ROWS, 2_000)
    joined = [("S1.a", "S3.a"), ("S2.a", "S3.a")]
    share: dict[str, list[float]] = {"ca": [], "oap": []}
    lines, complete = [], True
    warm_up(joined, {n: two_parents(0, 200)[n] for n in ("S1", "S2", "S3")})
    for k in SPREADS:
        tables = two_parents(k * rows // ROWS, rows + rows // 10)
        inputs = {n: Input(tables[n], rows) for n in ("S1", "S2", "S3")}
        swj = sum(i.in_window for i in inputs.values())
        plain = Run(inputs, joined, None).all()
        for use in share:
            m = Run(inputs, joined, f"lossy(uses={use})").all()
            share[use].append(m.rows / swj)
            complete = complete and m.results >= 0.999 * plain.results
            lines.append({"k": k, "constraint": use, "rows": m.rows, "swj": swj, "bytes": m.bytes, "seconds": m.seconds,
                          "plain_seconds": plain.seconds, "results": m.results, "plain": plain.results})  # fmt: skip
    figure, axis = plt.subplots(figsize=(6, 3.6))
    for use, values in share.items():
        axis.plot(SPREADS, values, "o-", label=use.upper())
    axis.set(xlabel="k", ylabel="rows over SWJ's", yscale="log")
    axis.legend()
    figure.tight_layout()
    claims = [
        Claim("at k = 0 CA keeps at most 0.02 of SWJ's rows", share["ca"][0] <= 0.02),
        Claim("at k = 0 OAP keeps at most 0.02 of SWJ's rows", share["oap"][0] <= 0.02),
        Claim("memory grows with k", all(v == sorted(v) for v in share.values())),
        Claim("less than 0.1 % of the results are missing", complete),
    ]
    numbers = [Number(f"{u.upper()}: rows at k = {k:,} over SWJ's", None, v, "")
               for u, values in share.items() for k, v in zip(SPREADS, values, strict=True)]  # fmt: skip
    times = [line["seconds"] / line["plain_seconds"] for line in lines if line["k"] == 0]  # type: ignore[operator]
    numbers.append(Number("CPU time at k = 0 over the plain join's (measured, the larger)", 1.07, max(times), "×"))
    return Outcome(lines, Verdict("Figures 6.12 and 6.14", claims, numbers), figure)


if __name__ == "__main__":
    main(run)
