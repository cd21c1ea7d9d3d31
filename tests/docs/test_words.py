"""Names and docstrings say who does what: no riddles for a reader whose first language is another one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "eddyline"
ROOMS = sorted(p.name for p in SOURCE.iterdir() if p.suffix == ".py" or (p / "__init__.py").is_file())
RIDDLES = re.compile(r"\b(whoever|nobody|somebody)\b", re.IGNORECASE)  # instead of the caller, the user, no query, …
UNBOUND = re.compile(r"^\s*_?(FEW|SOME|ENOUGH|MOST|MANY|LITTLE|LARGEST|SMALLEST)\s*(,|=|:)", re.MULTILINE)


def found(text: str) -> list[str]:
    """Words without a plain subject, and constants that do not say what they bound."""
    return [m[1] for expression in (RIDDLES, UNBOUND) for m in expression.finditer(text)]


def files_of(room: str) -> list[Path]:
    path = SOURCE / room
    return [path] if path.is_file() else sorted(path.rglob("*.py"))


@pytest.mark.parametrize("room", ROOMS)
def test_words(room: str) -> None:
    wrong = {str(p.relative_to(SOURCE)): found(p.read_text(encoding="utf-8")) for p in files_of(room)}
    assert {path: words for path, words in wrong.items() if words} == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# Nobody reads it.", ["Nobody"]),
        ("for whoever asks", ["whoever"]),
        ("FEW = 96", ["FEW"]),
        ("ENOUGH, SOME = 12, 6", ["ENOUGH"]),
        ("    _MOST: Final = 3", ["MOST"]),
        ("MOST_ROWS = 3\nmost = 4\nrows = MOST_ROWS", []),
    ],
)
def test_a_riddle_is_found(text: str, words: list[str]) -> None:
    assert found(text) == words
