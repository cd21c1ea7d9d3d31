"""What README and docs show is what happens: console blocks are run, job files compared, links followed.

In a ``console`` block each line ``$ command`` is run and what follows is its output (standard error included), where
``…`` alone on a line stands for any number of lines. A ``sql`` block whose first line is ``-- path.cql`` is that file:
the one in the checkout if there is one, else it is written for the commands that follow. Python blocks are doctests.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from eddyline.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ON_SPARK = ("README.md", "index.md", "spark.md")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+\.md)(?:#([\w-]+))?\)|\]\(#([\w-]+)\)")


@dataclass(frozen=True, slots=True)
class Command:
    line: str
    expected: list[str]


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    yield from FENCE.findall(page.read_text(encoding="utf-8"))


def commands(block: str) -> Iterator[Command]:
    found: Command | None = None
    for line in block.splitlines():
        if line.startswith("$ "):
            if found is not None:
                yield found
            found = Command(line[2:], [])
        elif found is not None:
            found.expected.append(line)
    if found is not None:
        yield found


class Shell:
    """Runs plain ``eddyline`` commands in this process (a start costs more than the work), all others in a shell.

    Pages about the engine say that they are ``inline``; on the others ``eddyline run`` is what it is for everybody."""

    def __init__(self, folder: Path, inline: bool) -> None:
        self.folder, self.inline, self.status = folder, inline, 0

    def run(self, line: str) -> str:
        if line == "echo $?":
            return f"{self.status}\n"
        words = shlex.split(line)
        here = self.inline or "inline" in words or words[1:2] != ["run"]
        if words[0] == "eddyline" and here and not {"|", ">", "<"} & set(words):
            said = io.StringIO()
            with contextlib.chdir(self.folder), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                try:
                    self.status = main(words[1:])
                except SystemExit as stop:  # argparse leaves by itself
                    self.status = int(stop.code or 0)
            return said.getvalue()
        near = f"PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; {line}"
        if not self.inline:
            near = f"unset EDDYLINE_RUNTIME; {near}"
        done = subprocess.run(["/bin/sh", "-c", near], cwd=self.folder, capture_output=True, text=True, check=False)
        self.status = done.returncode
        return done.stdout + done.stderr


def agrees(said: list[str], expected: list[str]) -> bool:
    parts = [r"(?:.*\n)*" if line.strip() == "…" else re.escape(line) + r"\n" for line in expected]
    return re.fullmatch("".join(parts), "".join(f"{line}\n" for line in said)) is not None


def stripped(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, id=p.name, marks=[pytest.mark.spark] if p.name in ON_SPARK else []) for p in PAGES],
)
def test_what_a_page_shows_is_what_happens(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")  # the width at which argparse breaks its help
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    shell = Shell(tmp_path, inline=page.name not in ON_SPARK)
    for kind, text in blocks(page):
        name = re.match(r"-- (\S+\.cql)\n", text)
        if kind == "sql" and name is not None:
            path = tmp_path / name.group(1)
            if path.exists():
                assert path.read_text(encoding="utf-8") == text, f"{page.name}: {name.group(1)} has changed"
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
        elif kind == "console":
            for command in commands(text):
                if command.line.split()[0] in ("make", "pip", "python", "."):
                    continue  # sets the machine up; the commands themselves are what is tested
                said = stripped(shell.run(command.line))
                shown = "\n".join(said)
                expected = stripped("\n".join(command.expected))
                assert agrees(said, expected), f"{page.name}: $ {command.line}\n{shown}"


def anchors(page: Path) -> set[str]:
    """The ids that headings get."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", re.sub(r"[`*]", "", t)).strip().lower() for t in titles)
    return {re.sub(r"[\s]+", "-", t) for t in plain}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for path, anchor, here in LINK.findall(page.read_text(encoding="utf-8")):
        if path.startswith("http"):
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), f"{page.name}: {path}"
        wanted = anchor or here
        assert not wanted or wanted in anchors(target), f"{page.name}: {path}#{wanted}"
