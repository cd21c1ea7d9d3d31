"""The partitioning in words, for ``explain``: what is split by what, what is copied how often, or why nothing is."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Protocol

from eddyline.plan.partitioning.grid import ANY, Choice, Grid, Source, Split, copies


class Travels(Protocol):
    """The part of a lane that the explanation shows."""

    @property
    def name(self) -> str: ...
    @property
    def split(self) -> Split: ...


def explain_one_shard(obstacles: Sequence[str]) -> tuple[str, ...]:
    first, *rest = obstacles or ["no input can be split"]
    return (f"one shard: {first}", *(f"besides, {r}" for r in rest))


def explain_grid(
    grid: Grid, sources: Sequence[Source], lanes: Sequence[Travels], counted: Sequence[bool]
) -> tuple[str, ...]:
    """``sources`` and ``lanes`` are those of the scans, by place; ``counted`` are those below a ``[ROWS n]``."""
    axes = [f"{n} by {_axis(d, sources)}" for n, d in zip(grid.shares, grid.dimensions, strict=True)]
    travels: dict[str, str] = {}
    constants: dict[str, str] = {}
    for i, (source, lane) in enumerate(zip(sources, lanes, strict=True)):
        if source.constant:
            kept = [c for c in lane.split if c is not None]
            part = f"its part of {source.name}, by {', '.join(kept)}" if kept else f"all of {source.name}"
            constants.setdefault(lane.name, f"every shard keeps {part}")
        elif source.shipped:
            aliases = dict.fromkeys(s.alias for s, other in zip(sources, lanes, strict=True) if other is lane)
            label = lane.name if list(aliases) == [lane.name] else f"{lane.name} (as {', '.join(aliases)})"
            times = copies(lane.split, grid.shares)
            lacks = [_lacks(d, sources) for d in grid.dimensions if d[i] is None]
            why = "its window counts all elements" if counted[i] else " and ".join(lacks)
            travels.setdefault(
                lane.name, f"{label} is copied {times} times ({why})" if lacks else f"{label} travels once"
            )
    said = [f"{prod(grid.shares)} shards: {' × '.join(axes)}"]
    if travels:
        said.append(", ".join(travels.values()))
    return (*said, *constants.values())


def _axis(d: Choice, sources: Sequence[Source]) -> str:
    columns = [f"{s.alias}.{c}" for s, c in zip(sources, d, strict=True) if c not in (None, ANY)]
    spread = [s.alias for s, c in zip(sources, d, strict=True) if c == ANY]
    said = [" = ".join(dict.fromkeys(columns))] if columns else []
    if spread:
        said.append(f"the rows of {', '.join(dict.fromkeys(spread))} as they come")
    return " and ".join(said)


def _lacks(d: Choice, sources: Sequence[Source]) -> str:
    """Why an input is copied along a dimension that it does not have."""
    pairs = [(s.alias, c) for s, c in zip(sources, d, strict=True) if c is not None]
    alias, column = next((p for p in pairs if p[1] != ANY), pairs[0])
    return f"it may meet every row of {alias}" if column == ANY else f"it has no {alias}.{column}"
