"""Writes reports.csv: cars that report every 30 seconds, a jam, and in it an accident.

``python examples/linear_road/traffic.py`` writes some 4,200 reports of 20 minutes beside this file.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
from pathlib import Path

COLUMNS = ("ts", "car", "speed", "xway", "lane", "dir", "seg", "pos")
SEGMENT = 5280  # feet


def reports(cars: int, seconds: int, seed: int = 1, directions: int = 1) -> list[tuple[int, ...]]:
    """In order of time; of one car in the order in which it drives."""
    rng = random.Random(seed)
    found = [r for car in range(cars) for r in _drive(car, rng, seconds, directions)]
    return sorted(found, key=lambda r: r[0])


def _drive(car: int, rng: random.Random, seconds: int, directions: int) -> Iterator[tuple[int, ...]]:
    """Through segments 9 to 14 (or back): slowly in 10 and 11. Cars 3 and 4 stop in 11 for five minutes."""
    way = rng.randrange(directions)
    at = rng.uniform(8.6, 10.4) * SEGMENT
    stops = 11.5 * SEGMENT
    begins = 4 * 60 + 30
    for ts in range(rng.randrange(30), seconds, 30):
        slow = 10 <= at / SEGMENT < 12
        speed = rng.randint(2, 14) if slow else rng.randint(50, 70)
        if car in (3, 4) and begins <= ts < begins + 300:
            speed, at = 0, stops
        if at / SEGMENT >= 14:
            return
        place = int(at) if way == 0 else 24 * SEGMENT - int(at)
        lane = 4 if at / SEGMENT >= 13.5 else rng.randint(1, 3)
        yield ts, car, speed, 0, lane, way, place // SEGMENT, place
        at += speed * SEGMENT / 3600 * 30


if __name__ == "__main__":
    with (Path(__file__).parent / "reports.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(reports(130, 1200))
