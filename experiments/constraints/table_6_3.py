"""Table 6.3: queries of Linear Road with constraints.

Three simulated hours of traffic; AccSeg and CurCarSeg as the thesis prints them, and two queries of tolls that are
written by us, because the thesis prints no other: a toll is assessed when a car enters a segment and charged when it
leaves. They select the times of their elements: otherwise a result could leave at the instant at which an equal one
enters, so that rows of results would have to stay until they leave their windows. Rows and bytes of the
state of joins, which is what constraints can remove, and of all state of a query are averaged over the second half of
the run: the windows, groups and distinct rows below the joins of AccSeg have state of their own.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from eddyline.datasets.linear_road import linear_road
from experiments.constraints.replay import replay
from experiments.report import Claim, Number, Options, Outcome, Verdict, main

CURRENT = """
  (SELECT LastRep.cid, LastRep.sid FROM
    (SELECT * FROM CarStr [PARTITION BY cid ROWS 1]) AS LastRep,
    (SELECT DISTINCT cid FROM CarStr [RANGE 30 SECONDS]) AS CurActiveCars
   WHERE LastRep.cid = CurActiveCars.cid)"""
STOPPED = """
  (SELECT cid FROM CarStr [PARTITION BY cid ROWS 4] GROUP BY cid
   HAVING count(DISTINCT xpos) = 1 AND count(*) = 4)"""
QUERIES = {
    "CurCarSeg": f"SELECT cid, sid FROM {CURRENT} AS CurCarSeg",
    "AccSeg": f"SELECT DISTINCT CurCarSeg.sid FROM {CURRENT} AS CurCarSeg, {STOPPED} AS AccCars"
              " WHERE CurCarSeg.cid = AccCars.cid",
    "CarExitStr": "SELECT Istream(X.ts, X.cid, T.ts AS entered) FROM Exits [RANGE 30 MINUTES] X,"
                  " Tolls [RANGE 30 MINUTES] T WHERE X.crossing = T.crossing",
    "NegTollStr": "SELECT Istream(X.ts, X.cid, T.ts AS entered, 0 - T.toll AS charged) FROM Exits [RANGE 30 MINUTES] X,"
                  " Tolls [RANGE 30 MINUTES] T WHERE X.crossing = T.crossing AND T.toll > 0",
}  # fmt: skip
PAPER = {"CurCarSeg": 0.09, "AccSeg": 0.13, "CarExitStr": 0.10, "NegTollStr": 0.13}
KEYS = {"Tolls": ["crossing"], "Exits": ["crossing"]}


def run(options: Options) -> Outcome:
    cars = max(4.0, 60 * options.scale)
    names = {"CarStr": "reports", "Tolls": "tolls", "Exits": "exits"}
    tables = {n: linear_road(s, hours=3.0, cars=cars).table() for n, s in names.items()}
    reports = tables["CarStr"]
    time, cid = reports["ts"].cast("int64").to_numpy() // 1_000_000, reports["cid"].to_numpy()
    looked_at = range(int(time[0]) + 1800, int(time[-1]), 900)
    active = float(np.mean([len(np.unique(cid[(time > t - 30) & (time <= t)])) for t in looked_at]))
    distinct = len(np.unique(cid)) / active
    lines, claims, numbers = [], [], [Number("distinct over active cars", 15, distinct, "")]
    for name, text in QUERIES.items():
        mine = {n: t for n, t in tables.items() if f"{n} [" in text}
        found = {mode: replay(mine, text, mode, unique=KEYS) for mode in ("off", "exact", "lossy")}
        off = found["off"]
        for mode in ("exact", "lossy"):
            f = found[mode]
            lines.append({"query": name, "mode": mode, "rows": f.rows / off.rows, "bytes": f.bytes / off.bytes,
                          "join rows": f.join_rows / off.join_rows, "join bytes": f.join_bytes / off.join_bytes,
                          "seconds": f.seconds / off.seconds, "disk": f.disk, "results": f.results,
                          "not used": f.refused})  # fmt: skip
            of_joins = f"{name}, {mode}: state of joins over that without"
            numbers.append(Number(f"{of_joins}, rows", PAPER[name], f.join_rows / off.join_rows, ""))
            numbers.append(Number(f"{of_joins}, bytes", None, f.join_bytes / off.join_bytes, ""))
            numbers.append(Number(f"{name}, {mode}: all state, rows", None, f.rows / off.rows, ""))
            numbers.append(Number(f"{name}, {mode}: all state, bytes", None, f.bytes / off.bytes, ""))
        same = found["exact"].results == off.results and found["exact"].digest == off.digest
        claims.append(Claim(f"{name}: the exact answer", same))
        why = f" ({found['lossy'].refused})" if found["lossy"].refused else ""
        for what in ("join_rows", "join_bytes"):
            share = getattr(found["lossy"], what) / getattr(off, what)
            claims.append(
                Claim(f"{name}: at most 0.13 of the {what.replace('_', ' state, in ')}, lossy{why}", share <= 0.13)
            )
    figure, axis = plt.subplots(figsize=(6, 3.2))
    shown = [line for line in lines if line["mode"] == "lossy"]
    axis.bar([str(line["query"]) for line in shown], [float(line["join bytes"]) for line in shown])
    axis.set(ylabel="bytes of joins over those without")
    figure.tight_layout()
    claims.insert(0, Claim("15 times as many cars are seen as are on the road", distinct >= 15))
    return Outcome(lines, Verdict("Table 6.3", claims, numbers), figure)


if __name__ == "__main__":
    main(run)
