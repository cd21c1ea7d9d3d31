"""The demo, with a command line that only pretends."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow as pa
import pytest

from eddyline.cql.job import CreateRelation, CreateStream, QueryStatement, parse_job
from eddyline.datasets import demo
from eddyline.io.resolve import open_source
from eddyline.io.sinks import open_sink


def pretend(arguments: list[str]) -> int:
    if arguments[0] == "run":
        out, report = (Path(arguments[arguments.index(o) + 1]) for o in ("--out", "--report"))
        with open_sink(out / "traffic.parquet", pa.schema([("bytes", pa.int64())])) as sink:
            sink.write(pa.record_batch({"bytes": list(range(100))}))
        decision = {"operator": "mjoin 1", "kind": "order", "before": ["B"], "after": {"C": ["O"]}, "reason": "rates"}
        figures = {"events": 10, "results": 100, "seconds": 2.0, "late": 3, "invalid": 0, "decisions": [decision]}
        report.write_text(json.dumps({**figures, "state": {"peak_rows": 5, "peak_bytes": 10**6}}))
    return 0


def test_what_it_shows() -> None:
    screen = io.StringIO()
    assert demo.main(out=screen, command=pretend) == 0
    shown = screen.getvalue()
    for part in (
        "SELECT sum(C.size) AS bytes",
        "traffic: 100 result rows, the last of them:",
        "10 events, 100 result rows, 2.0 s (5 events a second)",
        "at most 5 rows of state, 1.0 MB",
        "3 late rows",
        "mjoin 1: order B → C: O (rates)",
        "$ eddyline explain job.cql",
    ):
        assert part in shown
    assert "CREATE" not in shown and "invalid" not in shown


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
    assert "mjoin 1: join order" in screen.getvalue()
    assert "match-select 1" in capsys.readouterr().out
