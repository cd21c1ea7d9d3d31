"""``make demo``: runs the network-monitoring job on generated packets, and shows what came out and what was decided."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

WHERE = (
    "on Spark, local to this machine. In one process, without a JVM: EDDYLINE_RUNTIME=inline make demo,\n"
    "or eddyline run examples/network/job.cql --runtime inline.",
    "in one process. On Spark: make demo without EDDYLINE_RUNTIME=inline.",
)
JOB = Path(__file__).resolve().parents[3] / "examples" / "network" / "job.cql"


def main(job: Path = JOB, out: TextIO | None = None, command: Callable[[list[str]], int] | None = None) -> int:
    """Run ``eddyline run`` and ``eddyline explain`` as a user would. ``command`` stands in for the command line."""
    if command is None:
        from eddyline.cli import main as command_line

        command = command_line
    screen = out if out is not None else sys.stdout

    def say(text: str = "") -> None:
        print(text, file=screen, flush=True)

    if not job.is_file():
        say("The demo runs from a checkout: examples/network/job.cql is not here.")
        return 2
    with tempfile.TemporaryDirectory(prefix="eddyline-demo-") as folder:
        results, report = Path(folder, "results"), Path(folder, "report.json")
        say(f"The job, {job.parent.parent.name}/{job.parent.name}/{job.name}:\n")
        say("\n".join(f"    {line}" for line in statements(job.read_text())))
        say("\n$ eddyline run job.cql --out results/ --report report.json")
        status = command(["run", str(job), "--out", str(results), "--report", str(report)])
        if status != 0:
            return status
        say()
        for line in shown_results(results):
            say(line)
        for line in shown_report(json.loads(report.read_text())):
            say(line)
        say("\n$ eddyline explain job.cql\n")
        status = command(["explain", str(job)])
        say("\nThis ran " + WHERE[os.environ.get("EDDYLINE_RUNTIME") == "inline"])
        return status


def statements(text: str) -> Iterator[str]:
    """The queries of a job without comments and declarations: what a reader wants to see first.

    >>> list(statements("-- why\\nCREATE STREAM S FROM 'x';\\n\\nq:\\nSELECT *\\nFROM S;\\n"))
    ['q:', 'SELECT *', 'FROM S;']
    """
    plain = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
    queries = [s.strip() for s in plain.split(";") if s.strip() and not s.strip().upper().startswith("CREATE")]
    for i, query in enumerate(queries):
        if i:
            yield ""
        yield from f"{query};".splitlines()


def shown_results(folder: Path) -> Iterator[str]:
    """The last rows of each result file."""
    import io

    from eddyline.io.render import TablePrinter
    from eddyline.io.resolve import open_source
    from eddyline.io.source import whole

    for path in sorted(folder.iterdir()):
        source = open_source(path)
        table = whole(source.open(), source.schema)
        last = table.slice(max(0, len(table) - 5)).combine_chunks()
        text = io.StringIO()
        printer = TablePrinter(last.schema, text)
        for batch in last.to_batches():
            printer.rows(batch)
        yield f"{path.stem}: {len(table):,} result rows, the last of them:\n"
        yield from (f"    {line}" for line in text.getvalue().splitlines())
        yield ""


def shown_report(report: Mapping[str, Any]) -> Iterator[str]:
    """What happened, in a few lines, and every decision.

    >>> decision = {"operator": "mjoin 1", "kind": "join order", "before": None, "after": "B, O", "reason": "rates"}
    >>> for line in shown_report({"events": 1000, "results": 7, "seconds": 0.5, "decisions": [decision]}): print(line)
    1,000 events, 7 result rows, 0.5 s (2,000 events a second)
    <BLANKLINE>
    Decided:
        mjoin 1: join order B, O (rates)
    """
    events, seconds = int(report["events"]), float(report["seconds"])
    speed = f" ({events / seconds:,.0f} events a second)" if seconds > 0 else ""
    yield f"{events:,} events, {int(report['results']):,} result rows, {seconds:.1f} s{speed}"
    state = report.get("state") or {}
    if state:
        rows, size = state.get("peak_rows", state.get("rows", 0)), state.get("peak_bytes", state.get("bytes", 0))
        yield f"at most {int(rows):,} rows of state, {int(size) / 1e6:,.1f} MB"
    yield from (f"{report[side]:,} {side} rows" for side in ("late", "invalid") if report.get(side))
    decisions = list(report.get("decisions", ()))
    yield ""
    yield "Decided:" if decisions else "Nothing had to be decided."
    for d in decisions:
        change = _brief(d["after"]) if d.get("before") is None else f"{_brief(d['before'])} → {_brief(d['after'])}"
        yield f"    {d['operator']}: {d['kind']} {change} ({d['reason']})"


def _brief(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{k}: {_brief(v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_brief(v) for v in value)
    return str(value)


if __name__ == "__main__":
    sys.exit(main())
