"""The example on models runs and says what it promises, and the notebook is the same cells."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CELL = re.compile(r"^# %%.*\n", re.MULTILINE)


def test_the_script_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = (EXAMPLES / "models.py").read_text(encoding="utf-8")
    names: dict[str, object] = {"__name__": "example"}
    exec(compile(text, "models.py", "exec"), names)
    said = capsys.readouterr().out
    smaller = re.search(r"(\d+) times smaller", said)
    assert smaller is not None and int(smaller.group(1)) >= 100
    assert "closer than 12 from 34 s on; at 20 s 13 of these rows were taken back" in said
    pictures = Path(str(names["pictures"]))
    assert {p.name for p in pictures.glob("*.png")} == {"models-year.png", "models-sweep.png", "models-predict.png"}


def test_the_notebook_has_the_same_cells() -> None:
    script = [c.strip() for c in CELL.split((EXAMPLES / "models.py").read_text(encoding="utf-8"))[1:]]
    notebook = json.loads((EXAMPLES / "models.ipynb").read_text(encoding="utf-8"))["cells"]
    cells = ["".join(c["source"]) for c in notebook]
    assert len(cells) == len(script)
    for cell, kind, text in zip(cells, (c["cell_type"] for c in notebook), script, strict=True):
        plain = "\n".join(line.removeprefix("#").removeprefix(" ") for line in text.splitlines())
        assert cell.strip() == (plain.strip() if kind == "markdown" else text)
