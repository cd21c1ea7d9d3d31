"""Which aircraft will be closer than 5 nautical miles within the next 90 seconds? Answers before it happens.

Aircraft report position and velocity every few seconds. ``MODEL`` says how a report goes on, ``PREDICT`` asks for rows
of instants to come, and ``ERROR WITHIN`` lets reports within the bound only confirm what was said. When an aircraft
turns, what was predicted for it is taken back (−) and said anew (+).

    python examples/aircraft/closer_than.py [picture.png]
"""

from __future__ import annotations

import math
import random
import sys
from typing import Any

import eddyline as ed

CLOSER = """
    SELECT a.id, b.id AS other, sqrt((a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y)) AS miles
    FROM   reports a MODEL a.x = a.x + a.vx * t, a.y = a.y + a.vy * t
    JOIN   reports b MODEL b.x = b.x + b.vx * t, b.y = b.y + b.vy * t ON a.id < b.id
    WHERE  sqrt((a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y)) < 5
    ERROR WITHIN 0.4 SAMPLE EVERY 10 HORIZON 90 PREDICT
"""


def reports(seconds: int = 240, seed: int = 3) -> list[dict[str, float | str | int]]:
    """Four aircraft in nautical miles and seconds; one of a pair that approaches turns away after 100 seconds."""
    rng = random.Random(seed)
    # id: x, y, speed, course; LX8 meets SR1 head on, and turns at 100 s.
    flights = {"SR1": [0, 0, 0.12, 90], "LX8": [36, 1, 0.12, 270], "BA5": [10, 20, 0.11, 0], "AF3": [40, 60, 0.13, 200]}
    rows: list[dict[str, float | str | int]] = []
    for ts in range(seconds):
        for place, (name, (x, y, speed, course)) in enumerate(flights.items()):
            turn = 3 if name == "LX8" and 100 <= ts < 130 else 0
            course += turn
            vx, vy = speed * math.sin(math.radians(course)), speed * math.cos(math.radians(course))
            flights[name] = [x + vx, y + vy, speed, course]
            if (ts + place) % 5 == 0:
                seen = {"x": x + rng.gauss(0, 0.01), "y": y + rng.gauss(0, 0.01)}
                rows.append({"ts": ts, "id": name, **seen, "vx": vx, "vy": vy})
    return rows


def main() -> None:
    session = ed.Session()
    session.stream("reports", reports(), timestamp="ts")
    query = session.query(CLOSER)
    rows = query.to_arrow().to_pylist()
    for row in rows:
        ahead = row["_at"] - row["_time"]
        said = "will be" if row["_sign"] > 0 else "after all, will not be"
        sure = " (uncertain)" if row["_uncertain"] else ""
        print(
            f"{row['_time']:4} s: {row['id']} and {row['other']} {said} {row['miles']:.1f} nm apart in {ahead} s{sure}"
        )
    counts = query.statistics()["model-query 1"]
    print(
        f"{counts['a: validated']} of {len(reports())} reports only confirmed their model, {counts['runs']} runs, "
        f"{counts['predictions taken back']} predictions taken back"
    )
    if sys.argv[-1].endswith(".png"):
        draw(rows, sys.argv[-1])


def draw(rows: list[dict[str, Any]], path: str) -> None:
    """How far two aircraft are apart, and what was said of it ahead: with its bound, until it was taken back."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    pair = ("LX8", "SR1")
    at = {(r["id"], r["ts"] // 5): (r["x"], r["y"]) for r in reports()}
    times = sorted({t for _, t in at if all((p, t) in at for p in pair)})
    apart = [math.dist(at[pair[0], t], at[pair[1], t]) for t in times]
    figure, axis = plt.subplots(figsize=(8, 4))
    axis.plot([5 * t for t in times], apart, "k.", ms=3, label="reported, every 5 s")
    axis.axhline(5, color="tab:red", lw=1, label="closer than 5 nm")
    said = [r for r in rows if (r["id"], r["other"]) == pair]
    taken_back = {(r["_at"], round(r["miles"], 9)): r["_time"] for r in said if r["_sign"] < 0}
    for r in (r for r in said if r["_sign"] > 0):
        back = taken_back.get((r["_at"], round(r["miles"], 9)))
        color = "tab:blue" if back is None else "tab:orange"
        axis.plot([r["_time"], r["_at"]], [r["miles"]] * 2, color=color, lw=0.4, alpha=0.4)
        axis.errorbar(r["_at"], r["miles"], yerr=0.4, fmt="o" if back is None else "x", color=color, ms=4, lw=1)
    said_as = "predicted within 0.4 nm (the line begins when it was said), and taken back"
    axis.plot([], [], "x-", color="tab:orange", label=said_as)
    axis.axvspan(100, 130, color="0.85", lw=0, zorder=0, label="LX8 turns")
    axis.set(xlabel="seconds", ylabel="nautical miles", title="LX8 and SR1: answers before it happens")
    axis.set(xlim=(60, 200), ylim=(0, 22))
    axis.legend(fontsize=8, loc="upper right")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
