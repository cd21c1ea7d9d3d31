"""Section 9, further: which index of a multi-route join costs least where, in which memory, and what the planner takes.

A complete join of four, six and nine streams (three, five and eight attributes a state), about 16 to 10,000 values an
attribute, phases of half a window and of four windows. Windows have 500 rows in partitions of 125. The attributes of a
join have a quarter of that many values, half, as many, twice and four times as many; phases exchange them. A second map
has other numbers of attributes, values and tuples of a phase; nothing of the planner was chosen with a look at it.

The planner is ``index = 'fitting(memory = …)'``: it runs like the others, and what it learns and changes on the way is
part of what it costs. Operations (hashes, bucket visits, comparisons) are counted with ``costs = counted``, so that a
run can be repeated. CPU times are of runs with twice as many tuples, so that most take longer than a twentieth of a
second, and with costs as they are measured when the join starts. All contestants run in turns, ``ROUNDS`` times: the
time of one is the median of its runs, and the planner is judged by the median of its ratios to the winner's run of the
same turn. Only there the MJoin takes part, because its operations are index accesses.

The whole map is some 2,500 runs. ``--parts counted second timed``, ``--attributes 3 5 8``, ``--values 16`` and
``--phases 250`` run a part of it, ``--turns 5`` fewer turns, and the verdict is of that part. Each cell is written to
``map_amri.cells`` when it is complete; ``--resume`` goes on with the cells that this file lacks, and ``--minutes 7``
stops measuring after so many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from time import monotonic

import matplotlib.pyplot as plt
import numpy as np

from eddyline.datasets.multi_route import multi_route
from experiments.indexes.harness import Measured, check_same, measure
from experiments.indexes.map_cells import Cell, Cells
from experiments.report import OUT, Claim, Number, Options, Outcome, Verdict, options_of, parser, write

ATTRIBUTES, CARDINALITIES, PHASES = (3, 5, 8), (16, 100, 1_000, 10_000), (250, 2_000)
MAP: list[Cell] = [(a, c, p) for a in ATTRIBUTES for c in CARDINALITIES for p in PHASES]
OTHERS: list[Cell] = [(a, c, p) for a in (4, 6, 7) for c in (40, 300, 3_000) for p in (500, 1_000)]
CELL = ("attributes", "values", "phases")
ROWS, TUPLES, TIMED_TUPLES, ROUNDS = 500, 2_500, 5_000, 9
WINDOW = f"[ROWS {ROWS}]"
TUNED = "window=4000, periodic=16000, triggered=24000, partition=125, batch=512"
INDEXES = {
    "amri": "amri({})", "bitmap": "bitmap({})", "hash 1": "hash(count=1, {})", "hash 3": "hash(count=3, {})",
    "hash 7": "hash(count=7, {})", "single": "single(partition=125, batch=512)",
}  # fmt: skip
LIMITS: tuple[float, ...] = (8, 24, 64, float("inf"))  # bytes of indexes for a row
COUNTED, SECOND, TIMED = PARTS = ("counted", "second", "timed")
BY = {COUNTED: "operations", SECOND: "operations", TIMED: "seconds"}
CLAIMED = {
    COUNTED: "the planner takes at most 10 % more operations than the winner",
    SECOND: "the same on the second map,",
    TIMED: "the planner is within 10 % of the winner's time",
}
NAMED = {COUNTED: "operations", SECOND: "operations, second map", TIMED: "time (measured)"}
SPREAD = (0.25, 0.5, 1, 1, 2, 4)
WITHIN = 1.1


@dataclass(slots=True)
class Survey:
    """What was measured in each cell, by name of the index; the planner's names are those of the limits."""

    by: str  # what is compared: operations or seconds
    found: dict[tuple[Cell, str], Measured] = field(default_factory=dict)

    @property
    def cells(self) -> list[Cell]:
        return list(dict.fromkeys(cell for cell, _ in self.found))

    def cost(self, cell: Cell, name: str) -> float:
        return float(getattr(self.found[cell, name], self.by))

    def winner(self, cell: Cell, limit: float) -> str:
        """The index that costs least of those that fit."""
        fit = [n for c, n in self.found if c == cell and n not in PLANNER and self._bytes(c, n) <= limit]
        return min(fit, key=lambda n: self.cost(cell, n))

    def regret(self, cell: Cell, limit: float) -> float:
        """The cost of what the planner takes, over that of the winner; of times the median of all turns."""
        name = limit_name(limit) if (cell, limit_name(limit)) in self.found else "mjoin"
        planner, winner = (self.found[cell, n] for n in (name, self.winner(cell, limit)))
        if self.by == "seconds":
            return median(mine / best for mine, best in zip(planner.turns, winner.turns, strict=True))
        return self.cost(cell, name) / self.cost(cell, self.winner(cell, limit))

    def _bytes(self, cell: Cell, name: str) -> float:
        return self.found[cell, name].bytes_per_row


def limit_name(limit: float) -> str:
    return "no limit" if limit == float("inf") else f"{limit:.0f} bytes a row"


PLANNER = [limit_name(limit) for limit in LIMITS]


def measure_cell(by: str, cell: Cell, options: Options, rounds: int = ROUNDS) -> dict[str, Measured]:
    """All indexes and the planner within all limits, in one cell. Times are of several turns, so that a machine which
    is busy for a while is so for all of them."""
    attributes, cardinality, phase = cell
    timed = by == "seconds"
    tuned = f"{TUNED}, costs={'measured' if timed else 'counted'}"
    values = tuple(max(2, round(cardinality * s)) for s in SPREAD)
    tables = multi_route(attributes + 1, options.tuples(TIMED_TUPLES if timed else TUPLES, 800), phase, values=values)
    rows = ROWS * (attributes + 1)
    runs: dict[str, str | None] = {name: text.format(tuned) for name, text in INDEXES.items()}
    for limit in LIMITS:
        if limit < float("inf"):
            runs[limit_name(limit)] = f"fitting(memory={round(limit * rows)}, {tuned})"
    runs |= {"mjoin": None} if timed else {limit_name(float("inf")): f"fitting({tuned})"}
    turns: list[dict[str, Measured]] = []
    for turn in range(rounds if timed else 1):
        names = list(runs)[:: -1 if turn % 2 else 1]  # whoever comes later in one turn comes earlier in the next
        turns.append({name: measure(tables, runs[name], WINDOW) for name in names})
        check_same(list(turns[-1].values()))
    found: dict[str, Measured] = {}
    for name, last in turns[-1].items():
        seconds = [turn[name].seconds for turn in turns]
        found[name] = replace(last, seconds=median(seconds), turns=tuple(seconds))
    return found


def survey(part: str, cells: list[Cell], options: Options, known: Cells, until: float, rounds: int = ROUNDS) -> Survey:
    """The cells of one part of the map that are known, or can be measured before the time is over."""
    told = Survey(BY[part])
    for cell in cells:
        found = known.known(part, cell)
        if found is None:
            if monotonic() >= until:
                continue
            found = measure_cell(BY[part], cell, options, rounds)
            known.add(part, cell, found)
        told.found |= {(cell, name): m for name, m in found.items()}
    return told


def run(
    options: Options,
    parts: Sequence[str] = PARTS,
    only: Sequence[Sequence[int]] = ((), (), ()),
    known: Cells | None = None,
    minutes: float = float("inf"),
    rounds: int = ROUNDS,
) -> Outcome:
    """``only`` are the attributes, values and phases of the cells that are measured, none of them: all there are."""
    known = known or Cells(OUT / "map_amri.cells", options.scale, resume=False)
    until = monotonic() + 60 * minutes
    for index in (*(text.format(TUNED) for text in INDEXES.values()), f"fitting({TUNED})", None):
        measure(multi_route(4, 800, 250, values=(20,)), index, WINDOW)  # the first run of each loads and compiles
    asked = {
        part: [c for c in (OTHERS if part == SECOND else MAP)
               if all(not some or n in some for n, some in zip(c, only, strict=True))]
        for part in parts
    }  # fmt: skip
    surveys = {part: survey(part, asked[part], options, known, until, rounds) for part in parts}
    cells = {part: s.cells for part, s in surveys.items() if s.found}
    surveys = {part: surveys[part] for part in cells}
    rows = [
        {"map": part, "attributes": a, "values": c, "phase": p, "index": n, "judged_by": s.by,
         "operations": m.operations, "seconds": m.seconds, "bytes_per_row": m.bytes_per_row, "changes": m.changes}
        for part, s in surveys.items() for ((a, c, p), n), m in s.found.items()
    ]  # fmt: skip
    claims, numbers = [], []
    for part, told in surveys.items():
        here = cells[part]
        claims.append(_claim(f"{CLAIMED[part]} in every cell and limit", told, here))
        numbers += _numbers(NAMED[part], told, here)
    if COUNTED in surveys:
        told = surveys[COUNTED]
        level = all(told.cost(c, "amri") <= 1.05 * told.cost(c, "bitmap") for c in cells[COUNTED])
        claims.append(Claim("AMRI takes at most 5 % more operations than the static bitmap in every cell", level))
    shown = surveys.get(TIMED) or next(iter(surveys.values()))
    here = cells[next(part for part, s in surveys.items() if s is shown)]
    won = {limit: {c: shown.winner(c, limit) for c in here} for limit in LIMITS}
    if TIMED in surveys:
        alone = set(won[LIMITS[-1]].values()) == {"mjoin"}
        claims.append(Claim("without a limit of memory the MJoin takes the least time in every cell", alone))
        numbers += [
            Number(f"cells that {name} wins in time, {limit_name(limit)}", None,
                   float(list(won[limit].values()).count(name)), f" of {len(here)}")
            for limit in LIMITS for name in (*INDEXES, "mjoin") if name in won[limit].values()
        ]  # fmt: skip
    note = (
        "Without a limit the MJoin wins in time: it looks into a hash index for each pattern that its pipelines use, "
        "and its loop over a batch is one kernel; its indexes take 120 to 390 bytes a row. Where they do not fit, the "
        "planner begins with the indexes that its measured costs call for, and changes their kind for each state as it "
        "counts searches and sees values. It often takes fewer operations than the best single kind, because states "
        "differ in what they gain from memory. Most runs of the map take less than a fifth of a second of CPU time, in "
        "which decisions are a part that counts."
    )
    return Outcome(rows, Verdict("Map of indexes (AMRI)", claims, numbers, note), _picture(won, shown))


def _claim(text: str, told: Survey, cells: list[Cell]) -> Claim:
    return Claim(text, all(told.regret(c, limit) <= WITHIN for c in cells for limit in LIMITS))


def _numbers(what: str, told: Survey, cells: list[Cell]) -> list[Number]:
    found = []
    for limit in LIMITS:
        regrets = {c: told.regret(c, limit) for c in cells}
        worst = max(cells, key=regrets.__getitem__)
        name = f"{what}, {limit_name(limit)}"
        found += [
            Number(f"cells where the planner is within 10 %, {name}", None,
                   float(sum(r <= WITHIN for r in regrets.values())), f" of {len(cells)}"),
            Number(f"the planner over the winner in all cells, {name}", None, _mean(list(regrets.values())), "×"),
            Number(f"in the worst cell ({worst[0]} attributes, {worst[1]:,} values, phases of {worst[2]:,}; the winner "
                   f"is {told.winner(worst, limit)}), {name}", None, regrets[worst], "×"),
        ]  # fmt: skip
    return found


def _mean(ratios: list[float]) -> float:
    """The geometric mean."""
    return float(np.exp(np.mean(np.log(ratios))))


def _picture(won: dict[float, dict[Cell, str]], told: Survey) -> plt.Figure:
    """A panel for each limit and phase: attributes down, values across, coloured by who costs least; below its name the
    cost of what the planner takes, over the winner's."""
    names = [*INDEXES, "mjoin"]
    cells = list(won[LIMITS[0]])
    attributes, values, phases = (sorted({c[i] for c in cells}) for i in range(3))
    figure, axes = plt.subplots(len(phases), len(LIMITS), figsize=(13, 5), squeeze=False)
    for row, phase in zip(axes, phases, strict=True):
        for axis, limit in zip(row, LIMITS, strict=True):
            shade = np.full((len(attributes), len(values)), np.nan)  # cells that were not run stay empty
            for (a, c, p), name in won[limit].items():
                if p == phase:
                    y, x = attributes.index(a), values.index(c)
                    shade[y, x] = names.index(name)
                    axis.text(
                        x, y, f"{name}\n{told.regret((a, c, p), limit):.2f}", ha="center", va="center", fontsize=7
                    )
            axis.imshow(shade, cmap="tab10", vmin=0, vmax=9, aspect="auto")
            axis.set_xticks(range(len(values)), [f"{c:,}" for c in values], fontsize=7)
            axis.set_yticks(range(len(attributes)), [str(a) for a in attributes])
            axis.set_title(f"{limit_name(limit)}, phases of {phase:,}", fontsize=8)
    axes[-1][0].set(xlabel="values of an attribute", ylabel="attributes")
    figure.tight_layout()
    return figure


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser(__doc__ or "")
    arguments.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="which maps (default: all)")
    for name in CELL:
        arguments.add_argument(f"--{name}", nargs="+", type=int, metavar="N", help=f"cells with so many {name} only")
    arguments.add_argument("--turns", type=int, default=ROUNDS, help="runs of each, in time (default: %(default)s)")
    arguments.add_argument("--resume", action="store_true", help="go on with the cells that an earlier run left")
    arguments.add_argument(
        "--minutes", type=float, default=float("inf"), help="begin no cell after so many (default: all)"
    )
    given = arguments.parse_args(argv)
    only = [getattr(given, name) or () for name in CELL]
    for name, some, known in zip(CELL, only, map(set, zip(*MAP, *OTHERS, strict=True)), strict=True):
        for n in some:
            if n not in known:
                arguments.error(f"no cell has {n} {name}; there are {', '.join(map(str, sorted(known)))}")
    options = options_of(given)
    cells = Cells(given.out / "map_amri.cells", options.scale, resume=given.resume)
    print(write(given.out, "map_amri", run(options, given.parts, only, cells, given.minutes, given.turns)))


if __name__ == "__main__":
    main()
