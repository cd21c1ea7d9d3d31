"""Which aircraft will be closer than 5 nautical miles within the next 90 seconds? Answers before it happens.

Aircraft report position and velocity every few seconds. ``MODEL`` says how a report goes on, ``PREDICT`` asks for rows
of instants to come, and ``ERROR WITHIN`` lets reports within the bound only confirm what was said. When an aircraft
turns, what was predicted for it is taken back (−) and said anew (+).

    python examples/aircraft/closer_than.py
"""

from __future__ import annotations

import math
import random

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
    for row in query.to_arrow().to_pylist():
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


if __name__ == "__main__":
    main()
