"""Docstrings and pages name modules and files that exist: a reader who follows a name finds something."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "eddyline"
ROOMS = {p.name for p in SOURCE.iterdir() if p.is_dir()}
OTHERS = ("plan.schema.names", "spark.sql.")  # attributes of values, and Spark's own settings
DOTTED = re.compile(r"``([a-z_]+)\.([a-z_]\w*)[\w.]*``")
FILES = re.compile(r"`+((?:[\w-]+/)+[\w-]+\.py)`+")


def wrong_modules(text: str) -> Iterator[str]:
    """References such as ``plan.matches`` to no module and no name of the package."""
    for found in DOTTED.finditer(text):
        room, name = found[1], found[2]
        if room not in ROOMS or found[0].strip("`").startswith(OTHERS):
            continue
        folder = SOURCE / room
        known = (folder / f"{name}.py").exists() or (folder / name).is_dir()
        if not known and not re.search(rf"\b{name}\b", (folder / "__init__.py").read_text(encoding="utf-8")):
            yield found[0]


def wrong_files(path: Path) -> Iterator[str]:
    """References to files that are neither in the checkout nor in the package nor beside ``path``."""
    for found in FILES.finditer(path.read_text(encoding="utf-8")):
        if not any((folder / found[1]).exists() for folder in (ROOT, SOURCE, SOURCE.parent, path.parent)):
            yield found[1]


def test_modules_that_docstrings_name_exist() -> None:
    assert list(wrong_modules("``plan.lifting`` and ``plan.matches``, ``operators.panes.Panes``")) == [
        "``plan.lifting``"
    ]
    wrong = [(p.name, w) for p in SOURCE.rglob("*.py") for w in wrong_modules(p.read_text(encoding="utf-8"))]
    assert wrong == []


def test_files_that_are_named_exist() -> None:
    pages = [*SOURCE.rglob("*.py"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    assert [(p.name, w) for p in pages for w in wrong_files(p)] == []
