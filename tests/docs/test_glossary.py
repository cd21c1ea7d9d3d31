"""The glossary: each term once, in one line, with a module that exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def rows() -> list[list[str]]:
    lines = (ROOT / "docs/glossary.md").read_text(encoding="utf-8").splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return [row for row in table if row[0] != "term"]


def test_each_module_exists() -> None:
    assert len(rows()) > 40
    for term, _, _, module in rows():
        named = re.findall(r"`([^`]+)`", module)
        assert named, f"{term} names no module"
        for name in named:
            assert (ROOT / "src/eddyline" / name).exists(), f"{term}: there is no {name}"


def test_each_term_stands_once_with_a_meaning_and_its_section() -> None:
    terms = [row[0].lower() for row in rows()]
    assert len(set(terms)) == len(terms)
    for term, meaning, section, _ in rows():
        assert meaning, term
        assert re.fullmatch(r"((T|C|A|P) \d+(\.\d+)*)?", section), f"{term}: {section}"
