"""What an experiment leaves behind: its numbers as CSV, a plot, and a verdict with the paper's numbers beside ours."""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


@dataclass(frozen=True, slots=True)
class Number:
    """A number that the paper prints (None if it is only in a lost figure), ours, and what it is."""

    what: str
    paper: float | None
    ours: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """``holds``: whether the shape that the paper describes is there."""

    figure: str
    shape: str
    holds: bool
    numbers: Sequence[Number]
    note: str = ""


def arguments(figure: str, argv: Sequence[str] | None = None, *, data: bool = False) -> argparse.Namespace:
    """Where results go, how much to run, and for real data where they are."""
    parser = argparse.ArgumentParser(description=f"Content-based routing, {figure}.")
    parser.add_argument("--out", type=Path, default=Path("build/experiments/routing"), help="folder for results")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the tuples or queries, for a quick look")
    if data:
        parser.add_argument("--data", type=Path, required=True, help="folder with room_climate and building_rooms")
    return parser.parse_args(argv)


def write(out: Path, name: str, rows: Sequence[Mapping[str, Any]], verdict: Verdict, figure: plt.Figure) -> None:
    """``name``.csv, .png and .json; the verdict is printed, too."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    (out / f"{name}.json").write_text(json.dumps(asdict(verdict), indent=2, ensure_ascii=False), encoding="utf-8")
    figure.tight_layout()
    figure.savefig(out / f"{name}.png", dpi=110)
    plt.close(figure)
    print(f"{verdict.figure}: {'holds' if verdict.holds else 'DOES NOT HOLD'}: {verdict.shape}")
    for n in verdict.numbers:
        print(f"  {n.what}: ours {n.ours:.1%}, the paper's {'not printed' if n.paper is None else f'{n.paper:.1%}'}")
    if verdict.note:
        print(f"  {verdict.note}")
