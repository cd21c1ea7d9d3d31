"""No function and no file is too long to be read at once."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "eddyline"
LONGEST_FILE = 450  # lines; a longer one is split where it has parts that can be read alone
LONGEST = 80  # lines, docstring included
LONGEST_IN_KERNELS = 150  # a loop over many local variables is cut where it has parts with names of their own


def too_long(folder: Path, longest: int, but: str = "") -> list[str]:
    found = []
    for path in sorted(folder.rglob("*.py")):
        if but and (folder / but) in path.parents:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                lines = node.end_lineno - node.lineno + 1
                if lines > longest:
                    found.append(f"{path.relative_to(SOURCE)}: {node.name} has {lines} lines")
    return found


def long_files(folder: Path, longest: int) -> list[str]:
    counted = {p: len(p.read_text(encoding="utf-8").splitlines()) for p in sorted(folder.rglob("*.py"))}
    return [f"{p.relative_to(folder)} has {n} lines" for p, n in counted.items() if n > longest]


def test_files() -> None:
    assert long_files(SOURCE, LONGEST_FILE) == []


def test_a_long_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("pass\n" * 451)
    (tmp_path / "short.py").write_text("pass\n" * 450)
    assert long_files(tmp_path, LONGEST_FILE) == ["long.py has 451 lines"]


def test_functions_outside_kernels() -> None:
    assert too_long(SOURCE, LONGEST, but="kernels") == []


def test_functions_inside_kernels() -> None:
    assert too_long(SOURCE / "kernels", LONGEST_IN_KERNELS) == []


def test_a_long_function_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    (tmp_path / "long.py").write_text("def f() -> None:\n" + "    pass\n" * 80)
    assert too_long(tmp_path, LONGEST) == ["long.py: f has 81 lines"]
