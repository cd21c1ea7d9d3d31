"""A job in a folder of its own, run through the command line as a user would."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from eddyline import cli

FILES = {
    "s.csv": "ts,k,v,name\n1,1,10,a\n2,1,20,b\n3,2,30,c\n5,,40,d\n",
    "r.csv": "k,label\n1,one\n2,two\n",
    "t.csv": "at,k,w\n2024-01-01 00:00:00,1,1.5\n2024-01-01 00:00:10,1,2.5\n",
}
HEAD = (
    "CREATE STREAM S FROM 's.csv' TIMESTAMP BY ts;\n"
    "CREATE RELATION R FROM 'r.csv';\n"
    "CREATE STREAM T FROM 't.csv' TIMESTAMP BY at;\n"
)

WRITTEN = re.compile(r"[\d,]+ rows? written to .*")


@dataclass(frozen=True, slots=True)
class Outcome:
    status: int
    out: str
    err: str
    folder: Path

    @property
    def message(self) -> str:
        """The one sentence on standard error, without the drawing of the place."""
        assert self.err.startswith("error: ") and self.err.count("error: ") == 1, self.err
        assert "Traceback" not in self.err and "--traceback" not in self.err, self.err
        return self.err.removeprefix("error: ").split("\n  line ")[0].rstrip("\n")

    @property
    def underlined(self) -> str:
        """The part of the job that the drawing underlines."""
        *_, line, marks = self.err.rstrip("\n").split("\n")
        start = marks.index("^")
        return line[start : start + marks.count("^")]

    @property
    def written(self) -> list[str]:
        """What a run says about the files that it wrote."""
        return [line for line in self.err.splitlines() if WRITTEN.fullmatch(line)]

    @property
    def notes(self) -> list[str]:
        """What a run that went well says about rows that it turned away."""
        lines = [line for line in self.err.splitlines() if not WRITTEN.fullmatch(line)]
        assert self.status == 0 and all(line.startswith("note: ") for line in lines), self.err
        return [line.removeprefix("note: ") for line in lines]

    def made(self) -> list[str]:
        """The files that the run left behind, temporary ones included."""
        kept = {*FILES, "job.cql"}
        return sorted(p.name for p in self.folder.rglob("*") if p.is_file() and p.name not in kept)


Run = Callable[..., Outcome]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """``run(job, *arguments, files={name: text})``; the declarations of ``HEAD`` come first unless ``head`` differs."""
    monkeypatch.chdir(tmp_path)

    def call(
        job: str | bytes, *arguments: str, files: dict[str, str | bytes] | None = None, head: str = HEAD
    ) -> Outcome:
        for name, content in {**FILES, **(files or {})}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        text = job if isinstance(job, bytes) else job.encode()
        (tmp_path / "job.cql").write_bytes(head.encode() + text)
        capsys.readouterr()
        status = cli.main(["run", "job.cql", *arguments])
        out, err = capsys.readouterr()
        return Outcome(status, out, err, tmp_path)

    return call
