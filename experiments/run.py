"""All experiments, and one page with their figures and verdicts.

python -m experiments.run                                   all of them: about half an hour, half of it q2
python -m experiments.run --quick                           a short look at each
python -m experiments.run --only figure_4_11 table_4_2      some of them; the page shows what else is there
python -m experiments.run --page-only                       the page again, from results that are there
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from time import perf_counter

from experiments.page import docs, page
from experiments.report import NotHereError, options_of, parser, write

# In the order of the page.
EXPERIMENTS = {
    "filters": (
        "figure_4_11", "figure_4_12", "figure_4_13", "figure_4_14", "table_4_2", "figures_4_15_16", "figures_4_17_18",
        "figure_4_19", "figure_4_20", "figure_4_21", "figure_4_22", "figure_4_23", "figure_4_24", "figure_4_25",
    ),
    "routing": (
        "figures_3_4", "through_queries", "figures_5_6", "figure_7", "figure_8", "q2", "figures_9_10", "one_operator",
    ),
    "joins": (
        "figures_5_11_12", "figures_5_13_14", "figures_5_15_16", "figures_5_17_18", "figures_5_19_20", "figure_5_21",
        "figure_5_22", "figure_5_23", "profiling_runs", "stocks",
    ),
    "scheduling": ("bursts",),
    "inputs": ("slack_auto",),
    "indexes": ("figure_8_amri", "figure_9_amri", "figure_10_amri", "phases_amri", "room_climate_amri", "map_amri"),
    "models": ("figure_2_4", "figures_2_5_6", "figures_2_7_8", "figure_2_9", "figure_2_10", "figure_2_11",
               "figure_2_12"),
    "constraints": (
        "section_6_1_1", "figure_6_10", "figure_6_11", "figures_6_12_14", "figures_6_13_15", "figures_6_16_17",
        "figure_6_18", "table_6_1", "table_6_3", "real_constraints", "handover",
    ),
}  # fmt: skip
QUICK = 0.02


def modules() -> dict[str, str]:
    """Module by name of the experiment.

    >>> modules()["q2"]
    'experiments.routing.q2'
    """
    return {name: f"experiments.{room}.{name}" for room, names in EXPERIMENTS.items() for name in names}


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser(__doc__ or "")
    arguments.add_argument("--only", nargs="+", metavar="NAME", help="these experiments")
    arguments.add_argument("--quick", action="store_true", help=f"a short look: scale {QUICK:g}, two streams")
    arguments.add_argument("--page-only", action="store_true", help="run nothing; build the page")
    arguments.add_argument("--docs", type=Path, metavar="DIR", help="also write the tables of the documentation there")
    given = arguments.parse_args(argv)
    known = modules()
    for name in given.only or ():
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(known)}."
            print(f"there is no experiment {name}. {hint}", file=sys.stderr)
            return 2
    options = options_of(given)
    if given.quick:
        options = replace(options, scale=min(options.scale, QUICK), streams=min(options.streams, 2))
    for name in () if given.page_only else given.only or known:
        start = perf_counter()
        module = importlib.import_module(known[name])
        try:
            outcome = module.run(options)
        except NotHereError as missing:
            print(f"{name}: not run. {missing}", flush=True)
            continue
        more = {"seconds": perf_counter() - start, "quick": given.quick, "scale": options.scale}
        print(write(given.out, name, outcome, **more), f"  ({more['seconds']:.0f} s)", sep="\n", flush=True)
    print(page(given.out, known))
    if given.docs is not None:
        for path in docs(given.out, known, given.docs):
            print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
