"""Programs as text, for explain."""

from __future__ import annotations

from collections.abc import Iterator

from eddyline.expr.describe import describe
from eddyline.models.program import Aggregate, Join, Map, Node, Program, Restrict, Source


def format_program(program: Program) -> str:
    """What a program does, from its inputs to its result."""
    steps = list(_steps(program.root))
    steps.append("segments" if program.sample is None else f"sample every {program.sample} ticks")
    return " → ".join(s for s in steps if s)


def _steps(node: Node) -> Iterator[str]:
    match node:
        case Source():
            return
        case Restrict():
            yield from _steps(node.input)
            yield f"solve {' AND '.join(map(describe, node.conjuncts))}"
        case Map():
            yield from _steps(node.input)
        case Join():
            yield from _steps(node.left)
            yield from _steps(node.right)
            keys = [f"{a} = {b}" for a, b in node.keys]
            solved = [f"solve {' AND '.join(map(describe, node.conjuncts))}"] if node.conjuncts else []
            yield f"join at each instant{' on ' * bool(keys)}{' and '.join(keys)}"
            yield from solved
        case Aggregate():
            yield from _steps(node.input)
            calls = ", ".join(f"{f}({describe(e)})" for _, f, e in node.functions)
            groups = f" by {', '.join(describe(e) for _, e in node.groups)}" if node.groups else ""
            how = "integral" if node.functions[0][1] in ("sum", "avg") else "envelope"
            over = f" over {node.width} ticks" if node.width else ""
            yield f"{how} {calls}{over}{groups}{' (partial windows too)' * node.partial}"
