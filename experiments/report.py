"""What an experiment leaves behind: its numbers as CSV, a plot, and a verdict with the paper's numbers beside ours.

An experiment is a module with a function ``run(options) -> Outcome``. The name of the module names the files; the first
line of its docstring says what it shows, the rest what was chosen where the text is silent.
"""

from __future__ import annotations

import argparse
import csv
import inspect
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

OUT = Path("build/experiments")
VARIABLE = "EDDYLINE_DATA"


class NotHereError(Exception):
    """An experiment needs data that are not on this machine: one sentence, with the remedy."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number that the paper prints (None: it is in a lost figure at most), ours, and what it is.

    >>> print(Number("saved", 0.08, 0.0853)), print(Number("dearer by", None, 2.5, "×"))
    saved: ours 8.5%, the paper's 8.0%
    dearer by: ours 2.5×, the paper's not printed
    (None, None)
    """

    what: str
    paper: float | None
    ours: float
    unit: str = "%"

    def show(self, value: float | None) -> str:
        if value is None:
            return "not printed"
        if value != value or value == float("inf"):  # what never happened
            return "never"
        if self.unit == "%":
            return f"{value:.1%}"
        return f"{value:,.0f}{self.unit}" if abs(value) >= 1000 else f"{value:.3g}{self.unit}"

    def __str__(self) -> str:
        return f"{self.what}: ours {self.show(self.ours)}, the paper's {self.show(self.paper)}"


@dataclass(frozen=True, slots=True)
class Claim:
    """One sentence of the paper about the shape of a figure, and whether our data agree."""

    text: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """It holds if every claim does.

    >>> Verdict("Figure 0", [Claim("it rises", True), Claim("it stays up", False)], []).holds
    False
    """

    figure: str
    claims: Sequence[Claim]
    numbers: Sequence[Number]
    note: str = ""

    @property
    def holds(self) -> bool:
        return all(c.holds for c in self.claims)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What ``run`` returns. ``table``: the result as Markdown, where it is a table."""

    rows: Sequence[Mapping[str, Any]]
    verdict: Verdict
    figure: Figure
    table: str = ""


@dataclass(frozen=True, slots=True)
class Options:
    """How much to run: ``scale`` shrinks streams for a quick look, ``streams`` is how many are drawn for an average;
    ``data`` is the folder of the real data sets."""

    scale: float = 1.0
    streams: int = 12
    data: Path | None = None

    def tuples(self, full: int, least: int = 1000) -> int:
        return max(least, int(full * self.scale))

    def times(self, full: int, least: int = 2) -> int:
        return max(least, round(full * self.scale))


def parser(about: str) -> argparse.ArgumentParser:
    """The options that all experiments share."""
    found = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--out", type=Path, default=OUT, help=f"folder for results (default {OUT})")
    found.add_argument("--scale", type=float, default=1.0, help="share of the tuples or repetitions (default 1)")
    found.add_argument(
        "--streams", type=int, default=Options().streams,
        help="streams drawn for each point of the routing figures 5 to 7 (default %(default)s; the paper has 50)",
    )  # fmt: skip
    found.add_argument(
        "--data", type=Path, help=f"folder with the real data sets, such as room_climate.parquet (default: ${VARIABLE})"
    )
    return found


def options_of(given: argparse.Namespace) -> Options:
    data = given.data or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    return Options(given.scale, given.streams, data)


def main(run: Callable[[Options], Outcome], argv: Sequence[str] | None = None) -> None:
    """One experiment from the command line: ``python -m experiments.filters.figure_4_11``."""
    module = inspect.getmodule(run)
    assert module is not None
    given = parser(module.__doc__ or "").parse_args(argv)
    try:
        print(write(given.out, Path(inspect.getfile(run)).stem, run(options_of(given))))
    except NotHereError as missing:
        raise SystemExit(str(missing)) from None


def write(out: Path, name: str, outcome: Outcome, **more: Any) -> str:
    """``name``.csv, .png and .json; returns the verdict as text."""
    out.mkdir(parents=True, exist_ok=True)
    rows, verdict, figure = outcome.rows, outcome.verdict, outcome.figure
    with (out / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(k for r in rows for k in r)))
        writer.writeheader()
        writer.writerows(rows)
    found = {**asdict(verdict), "holds": verdict.holds, "table": outcome.table, **more}
    (out / f"{name}.json").write_text(json.dumps(found, indent=2, ensure_ascii=False), encoding="utf-8")
    if not figure.get_constrained_layout():
        figure.tight_layout()
    figure.savefig(out / f"{name}.png", dpi=110)
    plt.close(figure)
    lines = [f"{verdict.figure}: {'holds' if verdict.holds else 'DOES NOT HOLD'}"]
    lines += [f"  {'yes' if c.holds else 'NO '}  {c.text}" for c in verdict.claims]
    lines += [f"  {n}" for n in verdict.numbers]
    return "\n".join([*lines, *([f"  {verdict.note}"] if verdict.note else [])])
