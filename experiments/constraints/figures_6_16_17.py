"""Figures 6.16 and 6.17: the memory of a join under OAC(k), and CA and OAC together.

Figure 6.16: S1 → S2 at rates 5:1 with a filter on S2 (Figure 6.9(c)); rows of S2 come up to k rows out of order, and
parents at any time around their child. Figure 6.17: S1 → S2, S1 → S3 at rates 5:1:1 (Figure 6.9(a)), CA(0) on S1.a,
OAC(5000) on S3.b, a quarter of the rows of S1 without a child in S3. Windows of 50,000 rows, filters that half of the
rows pass. Lossy, as in the thesis.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa

from experiments.constraints.harness import MULTIPLICITY, ROWS, Input, Ints, Run, interleaved, warm_up
from experiments.report import Claim, Number, Options, Outcome, Verdict, main

DISTANCES = (0, 1_000, 5_000, 10_000, 20_000)
SCRAMBLED = 5_000
WAYS = {"CA": "lossy(uses=ca)", "OAC": "lossy(uses=oac)", "both": "lossy(uses=ca+oac)"}


def scrambled(count: int, k: int, random: np.random.Generator) -> Ints:
    """0, 1, 2, … with rows up to about k places out of order."""
    return np.argsort(np.arange(count) + random.random(count) * k, kind="stable").astype(np.int64)


def one_child(k: int, rounds: int, reach: int) -> dict[str, pa.Table]:
    """Figure 6.9(c); parents within ``reach`` arrivals of S2 before or after the child's place in the order."""
    random = np.random.default_rng(16)
    times = interleaved({"S2": 1, "S1": MULTIPLICITY}, rounds)
    now = np.repeat(np.arange(rounds), MULTIPLICITY)
    keys = np.clip(now + random.integers(-reach, reach + 1, len(now)), 0, rounds - 1)
    s2 = {"ts": times["S2"], "a": scrambled(rounds, k, random), "f": random.integers(0, 100, rounds)}
    return {"S1": pa.table({"ts": times["S1"], "a": keys}), "S2": pa.table(s2)}


def two_children(k: int, rounds: int) -> dict[str, pa.Table]:
    """Figure 6.9(a); rows of S1 in clusters of S1.a, after their child in S2; S3 comes out of order."""
    random = np.random.default_rng(17)
    times = interleaved({"S2": 1, "S3": 1, "S1": MULTIPLICITY}, rounds)
    a = np.repeat(np.arange(rounds), MULTIPLICITY)
    b = np.clip(a + random.integers(-k, k + 1, len(a)), 0, rounds - 1)
    b = np.where(random.random(len(a)) < 0.25, b * 2 + 1, b * 2)  # odd values have no child
    made = {"S1": pa.table({"ts": times["S1"], "a": a, "b": b})}
    for name, key, values in (("S2", "a", np.arange(rounds)), ("S3", "b", 2 * scrambled(rounds, k, random))):
        made[name] = pa.table({"ts": times[name], key: values, "f": random.integers(0, 100, rounds)})
    return made


def run(options: Options) -> Outcome:
    rows = options.tuples(ROWS, 4_000)
    pair, star = [("S1.a", "S2.a")], [("S1.a", "S2.a"), ("S1.b", "S3.b")]
    warm_up(pair, one_child(0, 200, 5))
    share, lines = [], []
    for k in DISTANCES:
        tables = one_child(k * rows // ROWS, 2 * rows, rows // 50)
        inputs = {"S1": Input(tables["S1"], rows), "S2": Input(tables["S2"], rows, ("f", 50))}
        join = Run(inputs, pair, "lossy(uses=oac)").all()
        share.append(join.rows / sum(i.in_window for i in inputs.values()))
        lines.append({"figure": "6.16", "k": k, "rows": join.rows, "over SWJ": share[-1], "bytes": join.bytes})
    tables = two_children(SCRAMBLED * rows // ROWS, 2 * rows)
    inputs = {n: Input(tables[n], rows, None if n == "S1" else ("f", 50)) for n in ("S1", "S2", "S3")}
    together = {way: Run(inputs, star, text).all().rows for way, text in WAYS.items()}
    swj = sum(i.in_window for i in inputs.values())
    lines += [{"figure": "6.17", "way": w, "rows": r, "over SWJ": r / swj} for w, r in together.items()]
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.4))
    axes[0].plot(DISTANCES, share, "o-")
    axes[0].set(xlabel="k", ylabel="rows over SWJ's", title="Figure 6.16")
    axes[1].bar(list(together), [r / swj for r in together.values()])
    axes[1].set(title="Figure 6.17")
    figure.tight_layout()
    claims = [
        Claim("6.16: memory grows with k", share == sorted(share)),
        Claim("6.16: fewer rows than SWJ's at every k", max(share) < 1),
        Claim("6.17: both together keep the fewest rows", together["both"] <= min(together["CA"], together["OAC"])),
    ]
    numbers = [Number(f"OAC: rows at k = {k:,} over SWJ's", None, s, "") for k, s in zip(DISTANCES, share, strict=True)]
    numbers += [Number(f"6.17, {w}: rows over SWJ's", None, r / swj, "") for w, r in together.items()]
    return Outcome(lines, Verdict("Figures 6.16 and 6.17", claims, numbers), figure)


if __name__ == "__main__":
    main(run)
