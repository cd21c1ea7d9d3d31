"""The cells of the map of indexes that were measured, in a file, so that a long run can be cut into short ones.

A line of the file is one cell of one part of the map: what each index and the planner took there. A run with
``--resume`` measures the cells that the file lacks. What it shows is then of several runs, maybe of several versions of
the code: delete the file after a change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from experiments.indexes.harness import Measured

Cell = tuple[int, int, int]  # attributes, values, tuples of a phase


class Cells:
    """Measured cells by part of the map, in a ``file`` of lines; those of another ``scale`` are left alone.

    >>> from tempfile import TemporaryDirectory
    >>> amri = Measured("amri", 9, 5, 2, 2, 4000, 500, 1, 0.25, 77)
    >>> with TemporaryDirectory() as folder:
    ...     Cells(Path(folder) / "cells", 1.0).add("timed", (3, 16, 250), {"amri": amri})
    ...     found = Cells(Path(folder) / "cells", 1.0)
    ...     found.known("timed", (3, 16, 250)) == {"amri": amri}, found.known("counted", (3, 16, 250))
    (True, None)
    """

    def __init__(self, file: Path, scale: float, *, resume: bool = True) -> None:
        self.file, self.scale = file, scale
        self._known: dict[tuple[str, Cell], dict[str, Measured]] = {}
        if not resume:
            file.unlink(missing_ok=True)
        for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
            told = json.loads(line)
            if told["scale"] == scale:
                found = {n: Measured(**{**m, "turns": tuple(m.get("turns", ()))}) for n, m in told["found"].items()}
                self._known[told["part"], tuple(told["cell"])] = found

    def known(self, part: str, cell: Cell) -> dict[str, Measured] | None:
        """What was measured in a cell, by index; None if it was not yet."""
        return self._known.get((part, cell))

    def add(self, part: str, cell: Cell, found: Mapping[str, Measured]) -> None:
        """A cell that was measured just now."""
        self._known[part, cell] = dict(found)
        told = {"scale": self.scale, "part": part, "cell": cell, "found": {n: asdict(m) for n, m in found.items()}}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(told) + "\n")
