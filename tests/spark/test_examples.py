"""The example for PySpark users runs, and the notebook is the same cells."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CELL = re.compile(r"^# %%.*\n", re.MULTILINE)


def test_the_script_runs(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    text = (EXAMPLES / "dataframes.py").read_text(encoding="utf-8")
    exec(compile(text, "dataframes.py", "exec"), {"__name__": "example"})
    said = capsys.readouterr().out
    assert "500 orders were paid and sent within two minutes" in said
    assert re.search(r"4\d\d of them are final", said)
    assert "on Spark" in said


def test_the_notebook_has_the_same_cells() -> None:
    script = [c.strip() for c in CELL.split((EXAMPLES / "dataframes.py").read_text(encoding="utf-8"))[1:]]
    notebook = json.loads((EXAMPLES / "dataframes.ipynb").read_text(encoding="utf-8"))["cells"]
    cells = ["".join(c["source"]) for c in notebook]
    assert len(cells) == len(script)
    for cell, kind, text in zip(cells, (c["cell_type"] for c in notebook), script, strict=True):
        plain = "\n".join(line.removeprefix("#").removeprefix(" ") for line in text.splitlines())
        assert cell.strip() == (plain.strip() if kind == "markdown" else text)
