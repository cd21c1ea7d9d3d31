"""The demo, with a command line that only pretends."""

from __future__ import annotations

import io
import json
import shlex
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from eddyline import demo
from eddyline.cli import parser
from eddyline.cql.job import CreateRelation, CreateStream, QueryStatement, parse_job
from eddyline.io.resolve import open_source
from eddyline.io.sinks import open_sink


def pretend(arguments: list[str]) -> int:
    if arguments[0] == "run":
        out, report = (Path(arguments[arguments.index(o) + 1]) for o in ("--out", "--report"))
        with open_sink(out / "traffic.parquet", pa.schema([("bytes", pa.int64()), ("data", pa.string())])) as sink:
            sink.write(pa.record_batch({"bytes": list(range(100)), "data": ["xyzzy" * 20] * 100}))
        decision = {"operator": "mjoin 1", "kind": "order", "before": ["B"], "after": {"C": ["O"]}, "reason": "rates"}
        gained = {**decision, "expected_gain": 3.0, "measured_gain": 0.97}
        ran = {"query": "q", "name": "mjoin 1", "elements_in": 10, "elements_out": 4, "seconds": 1.5, "rows": 8}
        joined = {"query": "q", "operator": "mjoin 1", "orders": {"C": ["B", "O"]}, "elements": 10, "accesses": 20}
        figures = {"events": 10, "results": 100, "seconds": 2.0, "late": 3, "invalid": 0, "decisions": [gained]}
        figures |= {"operators": [ran], "adapting": [joined], "state": {"peak_rows": 5, "peak_bytes": 10**6}}
        report.write_text(json.dumps(figures))
    return 0


def test_what_it_shows() -> None:
    screen = io.StringIO()
    assert demo.main(out=screen, command=pretend) == 0
    shown = screen.getvalue()
    for part in (
        "SELECT sum(C.size) AS bytes",
        "traffic: 100 result rows, the last of them (without data, which is long):",
        "10 events, 100 result rows\n2.0 s from start to end, 1.5 s of it in the operators",
        "at most 5 rows of state, 1.0 MB",
        "3 late rows",
        "mjoin 1: 10 elements came or left, 2.00 accesses each\n      ΔC → B → O",
        "mjoin 1: order B → C: O (rates); expected 3.00×, measured 0.97×",
    ):
        assert part in shown
    assert "xyzzy" not in shown and "eddyline explain" not in shown
    assert "CREATE" not in shown and "invalid" not in shown


def test_the_command_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(demo.JOB.parents[2])
    screen = io.StringIO()
    assert demo.main(out=screen, command=pretend) == 0
    lines = screen.getvalue().splitlines()
    first = next(n for n, line in enumerate(lines) if " run " in line)
    words = shlex.split(lines[first].removesuffix("\\") + lines[first + 1])
    assert Path(words[words.index("run") + 1]) == demo.JOB.relative_to(Path.cwd())
    assert shutil.which(words[0]) is not None
    assert parser().parse_args(words[1:]).out == Path("results")
    assert max(map(len, [*lines[first : first + 2], *screen.getvalue().rpartition("This ran")[2].splitlines()])) <= 70


def test_a_failure_is_passed_on() -> None:
    assert demo.main(out=io.StringIO(), command=lambda _: 3) == 3
    assert demo.main(Path("nowhere.cql"), out=io.StringIO()) == 2


def test_the_job_declares_what_it_reads() -> None:
    parsed = parse_job(demo.JOB.read_text())
    sources = [s for s in parsed if isinstance(s, CreateStream | CreateRelation)]
    assert [s.name for s in sources] == ["C", "B", "O", "Packets", "T"]
    assert all(open_source(s.source).finite for s in sources)
    assert [s.name for s in parsed if isinstance(s, QueryStatement)] == ["traffic", "intrusion"]


def test_it_runs_for_real_on_less_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = tmp_path / "examples" / "network" / "job.cql"
    job.parent.mkdir(parents=True)
    job.write_text(demo.JOB.read_text().replace("seconds=1200", "seconds=20"))
    screen = io.StringIO()
    assert demo.main(job, screen) == 0
    assert "intrusion:" in screen.getvalue() and "traffic:" in screen.getvalue()
    shown = screen.getvalue()
    assert "mjoin 1: join order" in shown and "elements came or left" in shown
    # The plan that ran: rows went through it, and no plan that has not run is shown.
    assert any(line.split()[:2] == ["match-select", "1"] for line in shown.splitlines()) and "Now 0 rows" not in shown
    assert "plan\n" not in capsys.readouterr().out
