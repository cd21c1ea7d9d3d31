"""``eddyline fit``: a segment table from the samples of a file."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any


def add_command(commands: Any, path: Callable[[str], Path]) -> None:
    """Add the command to the parser; ``path`` reads the argument of an option that names a file."""
    fit = commands.add_parser(
        "fit",
        help="fit polynomials to samples",
        description="Fit piecewise polynomials to the samples of a source, within an error bound, and write them as a "
        "segment table, which CREATE STREAM name FROM 'segments.parquet' reads.",
    )
    fit.add_argument("input", metavar="INPUT", help="a file, a folder or a pattern, as CREATE STREAM … FROM takes it")
    fit.add_argument(
        "--key", metavar="COLUMNS", default="", help="the columns whose values identify a signal (a,b; none)"
    )
    fit.add_argument("--time", metavar="COLUMN", required=True, help="the column of time")
    fit.add_argument("--value", metavar="COLUMNS", required=True, help="the columns to model (a,b)")
    fit.add_argument("--error", metavar="BOUND", required=True, help="0.5, or a share of each value: 0.05%%")
    fit.add_argument("--floor", metavar="NUMBER", type=float, default=0.0, help="the least relative bound (0)")
    fit.add_argument("--degree", metavar="N", type=int, default=1, help="of the polynomials, 0 to 4 (1)")
    fit.add_argument("--max-gap", metavar="WIDTH", help="a longer silence ends a segment: '5 seconds'")
    fit.add_argument("--interpolate", action="store_true", help="make the bound hold between samples, too")
    fit.add_argument("--out", metavar="PATH", type=path, required=True, help="the .parquet file to write")
    fit.add_argument("--traceback", action="store_true", help="show where an error came from")
    fit.set_defaults(action=_fit, parser=fit)


def _names(text: str) -> tuple[str, ...]:
    return tuple(n.strip() for n in text.split(",") if n.strip())


def _fit(options: argparse.Namespace) -> int:
    from eddyline.core.errors import EddylineError, JobError

    if options.out.suffix.lower() not in (".parquet", ".pq"):
        raise JobError(f"--out is a .parquet file, not {options.out.name!r}.")
    import pyarrow.parquet as pq

    from eddyline.core.amounts import amount
    from eddyline.engine.fit import counts_of, fit

    table = fit(
        options.input, key=_names(options.key), time=options.time, value=_names(options.value), error=options.error,
        degree=options.degree, floor=options.floor, max_gap=options.max_gap, interpolate=options.interpolate,
    )  # fmt: skip
    try:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, options.out)
    except OSError as error:
        raise EddylineError(f"{options.out} cannot be written: {error.strerror or error}.") from error
    counts = counts_of(table)
    left_out = [f"{counts[n]} {word}" for n, word in _LEFT_OUT.items() if counts[n]]
    said = f" ({', '.join(left_out)} left out)" if left_out else ""
    samples = amount(counts["samples"], "sample")
    print(f"{amount(table.num_rows, 'segment')} of {samples} written to {options.out}{said}")
    return 0


_LEFT_OUT = {"late": "late", "violations": "that contradict another of the same instant", "invalid": "invalid"}
