"""Programs as text, for explain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eddyline.core.window import spelled_width
from eddyline.expr.describe import describe
from eddyline.models.extrapolated import ExtrapolatedRows
from eddyline.models.fitting import ErrorBound
from eddyline.models.program import Aggregate, Join, Map, Node, Program, Restrict, Source
from eddyline.models.sources import FittedRows, RowModel


def format_program(program: Program) -> str:
    """What a program does, from its inputs to its result."""
    steps = list(_steps(program.root, program.scale))
    steps.append("segments" if program.sample is None else f"sample every {span(program.sample, program.scale)}")
    return " → ".join(s for s in steps if s)


def format_fits(models: Sequence[RowModel], aliases: Sequence[str]) -> str:
    """The fits inside a query: which signals, within which bound of each sample.

    >>> format_fits([FittedRows(("k",), ("x",), (ErrorBound(0.25),))], ["S"])
    'fit S.x within 0.25'
    """
    signals = [f"{a}.{n} within {b}" for a, m in zip(aliases, models, strict=True) for n, b in _bounds(m)]
    return f"fit {', '.join(signals)}" if signals else ""


def _bounds(model: RowModel) -> list[tuple[str, ErrorBound]]:
    """The values that are fitted, with the bounds of their samples."""
    match model:
        case FittedRows():
            return list(zip(model.values, model.bounds, strict=True))
        case ExtrapolatedRows():
            return [(n, ErrorBound(limit)) for (n, _), limit in zip(model.values, model.limits, strict=True)]
        case _:
            return []


def _steps(node: Node, scale: float) -> Iterator[str]:
    match node:
        case Source():
            return
        case Restrict():
            yield from _steps(node.input, scale)
            yield f"solve {' AND '.join(map(describe, node.conjuncts))}"
        case Map():
            yield from _steps(node.input, scale)
        case Join():
            yield from _steps(node.left, scale)
            yield from _steps(node.right, scale)
            keys = [f"{a} = {b}" for a, b in node.keys]
            solved = [f"solve {' AND '.join(map(describe, node.conjuncts))}"] if node.conjuncts else []
            yield f"join at each instant{' on ' * bool(keys)}{' and '.join(keys)}"
            yield from solved
        case Aggregate():
            yield from _steps(node.input, scale)
            calls = ", ".join(f"{f}({describe(e)})" for _, f, e in node.functions)
            groups = f" by {', '.join(describe(e) for _, e in node.groups)}" if node.groups else ""
            how = "integral" if node.functions[0][1] in ("sum", "avg") else "envelope"
            over = f" over {span(node.width, scale)}" if node.width else ""
            yield f"{how} {calls}{over}{groups}{' (partial windows too)' * node.partial}"


def span(ticks: int, scale: float) -> str:
    """``scale`` is units of t in a tick: one for an integer time, a millionth for a timestamp.

    >>> span(60, 1.0), span(60_000_000, 1e-6)
    ('60 ticks', '1 MINUTE')
    """
    return f"{ticks} ticks" if scale == 1 else spelled_width(ticks)
