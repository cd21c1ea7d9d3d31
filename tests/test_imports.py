"""No cycles among the modules: imports inside functions and under TYPE_CHECKING count like any other."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"


def modules(root: Path) -> dict[str, Path]:
    """Every module of the packages in a folder, by name."""
    found = {}
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(tree: ast.AST, known: Mapping[str, Path]) -> Iterator[tuple[str, int]]:
    """The modules that a module imports anywhere in its text, with the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in known:
                    yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in known:
                    yield inner, node.lineno
                elif node.module in known:
                    yield node.module, node.lineno


def graph(root: Path) -> dict[str, dict[str, int]]:
    known = modules(root)
    return {
        name: {m: line for m, line in imported(ast.parse(path.read_text(encoding="utf-8")), known) if m != name}
        for name, path in known.items()
    }


def cycles(edges: Mapping[str, Mapping[str, int]]) -> list[list[str]]:
    """The groups of modules that import each other, directly or not (Tarjan's strongly connected components)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    open_, found = [], []

    def visit(name: str) -> None:
        number[name] = low[name] = len(number)
        open_.append(name)
        for other in edges[name]:
            if other not in number:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in open_:
                low[name] = min(low[name], number[other])
        if low[name] == number[name]:
            group = []
            while not group or group[-1] != name:
                group.append(open_.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for name in edges:
        if name not in number:
            visit(name)
    return found


def test_no_modules_import_each_other() -> None:
    edges = graph(SOURCE)
    assert len(edges) > 300
    told = [f"{a}:{edges[a][b]} imports {b}" for group in cycles(edges) for a in group for b in group if b in edges[a]]
    assert told == []


def test_the_test_finds_cycles(tmp_path: Path) -> None:
    for name, text in {
        "a": "import p.b",
        "b": "def f():\n    from p import c",
        "c": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.a import x",
        "d": "from p.a import x",
        "__init__": "",
    }.items():
        (tmp_path / "p").mkdir(exist_ok=True)
        (tmp_path / "p" / f"{name}.py").write_text(text)
    assert cycles(graph(tmp_path)) == [["p.a", "p.b", "p.c"]]
