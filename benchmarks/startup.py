"""How long until the engine is there: the import, and a trivial query from process start to answer."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.harness import Limit, Options, Report, python

ROUNDS = 5
IMPORT = "import time; t = time.perf_counter(); {0}; print(time.perf_counter() - t)"
JOB = """CREATE STREAM calls (ts int, number string, seconds int) FROM 'calls.csv' TIMESTAMP BY ts;
SELECT Istream(number, seconds) FROM calls WHERE seconds > 60;
"""


class Startup:
    name = "startup"
    title = "import and first answer, seconds"

    def run(self, options: Options) -> Report:
        report = Report(self.name, self.title)
        imports = [float(python(["-c", IMPORT.format("import eddyline")])) for _ in range(ROUNDS)]
        sessions = [float(python(["-c", IMPORT.format("from eddyline import Session")])) for _ in range(ROUNDS)]
        with tempfile.TemporaryDirectory() as folder:
            job = Path(folder) / "job.cql"
            job.write_text(JOB)
            (Path(folder) / "calls.csv").write_text("ts,number,seconds\n1,555-1,30\n2,555-2,90\n3,555-3,61\n")
            answers = [_wall(job) for _ in range(ROUNDS)]
        report.lines = [
            f"  {'import eddyline':44s} {median(imports):8.3f}",
            f"  {'from eddyline import Session':44s} {median(sessions):8.3f}",
            f"  {'eddyline run job.cql, process start to end':44s} {median(answers):8.3f}",
        ]
        report.limits = [
            Limit("import eddyline", median(imports), 0.3, unit="s"),
            Limit("a trivial job, process start to answer", median(answers), 1.5, unit="s"),
        ]
        report.details = {
            "query": JOB,
            "import_seconds": imports,
            "import_session_seconds": sessions,
            "answer_seconds": answers,
        }
        return report


def _wall(job: Path) -> float:
    begin = time.perf_counter()
    told = python(["-m", "eddyline.cli", "run", str(job), "--runtime", "inline"])
    spent = time.perf_counter() - begin
    assert "555-2" in told, told
    return spent
