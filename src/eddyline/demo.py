"""``make demo``: runs the network-monitoring job on generated packets, and shows what came out, the plan that ran, what
was decided on the way and what it gained."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TextIO

READABLE_CHARACTERS: Final = 40  # a longer text says nothing to a reader
DECISIONS_SHOWN: Final = 8  # the last ones of a query
WHERE = (
    "on Spark, local to this machine. In one process, without a JVM:\n    EDDYLINE_RUNTIME=inline make demo",
    "in one process. On Spark:\n    EDDYLINE_RUNTIME=spark make demo",
)
JOB = Path(__file__).resolve().parents[2] / "examples" / "network" / "job.cql"


def main(job: Path = JOB, out: TextIO | None = None, command: Callable[[list[str]], int] | None = None) -> int:
    """Run ``eddyline run`` as a user would. ``command`` stands in for the command line."""
    if command is None:
        from eddyline.cli import main as command_line

        command = command_line
    screen = out if out is not None else sys.stdout

    def say(text: str = "") -> None:
        print(text, file=screen, flush=True)

    if not job.is_file():
        say("The demo runs from a checkout: examples/network/job.cql is not here.")
        return 2
    inline = os.environ.get("EDDYLINE_RUNTIME") == "inline"
    with tempfile.TemporaryDirectory(prefix="eddyline-demo-") as folder:
        results, report = Path(folder, "results"), Path(folder, "report.json")
        say(f"The job, {job.parent.parent.name}/{job.parent.name}/{job.name}:\n")
        say("\n".join(f"    {line}" for line in statements(job.read_text())))
        say("\nThe command; here its results go to a temporary folder, which is removed:\n")
        say(shown_command(job, inline))
        say()
        status = command(["run", str(job), "--out", str(results), "--report", str(report)])
        if status != 0:
            return status
        say()
        for line in shown_results(results):
            say(line)
        happened = json.loads(report.read_text())
        width = shutil.get_terminal_size((100, 24)).columns
        for line in (*shown_report(happened), *shown_plan(happened), *shown_decisions(happened, width)):
            say(line)
        say("\nThis ran " + WHERE[inline])
        return 0


def shown_command(job: Path, inline: bool) -> str:
    """The command, typed in this folder, for the same run with its results kept; in short lines.

    >>> print(shown_command(Path("job.cql"), True).partition("eddyline run ")[2])
    job.cql \\
            --runtime inline --out results/ --report report.json
    """
    own = Path(sys.executable).with_name("eddyline")  # the one of a virtual environment is not always on the path
    program = _from_here(own) if own.exists() and shutil.which("eddyline") != str(own) else "eddyline"
    runtime = "--runtime inline " if inline else ""
    words = f"{shlex.quote(program)} run {shlex.quote(_from_here(job))}"
    return f"    {words} \\\n        {runtime}--out results/ --report report.json"


def _from_here(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


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
        long = [n for n, column in zip(last.column_names, last.columns, strict=True) if _is_long(column)]
        last = last.drop_columns(long)
        text = io.StringIO()
        printer = TablePrinter(last.schema, text)
        for batch in last.to_batches():
            printer.rows(batch)
        without = f" (without {', '.join(long)}, which is long)" if long else ""
        yield f"{path.stem}: {len(table):,} result rows, the last of them{without}:\n"
        yield from (f"    {line}" for line in text.getvalue().splitlines())
        yield ""


def _is_long(column: Any) -> bool:
    return any(isinstance(v, str) and len(v) > READABLE_CHARACTERS for v in column.to_pylist())


def shown_report(report: Mapping[str, Any]) -> Iterator[str]:
    """What happened, in a few lines.

    >>> operator = {"query": "q", "name": "mjoin 1", "seconds": 0.25}
    >>> for line in shown_report({"events": 1000, "results": 7, "seconds": 0.5, "operators": [operator]}): print(line)
    1,000 events, 7 result rows
    0.5 s from start to end, 0.2 s of it in the operators
    """
    events, seconds = int(report["events"]), float(report["seconds"])
    busy = sum(float(o["seconds"]) for o in report.get("operators", ()))
    together = " of all shards together" if any("shard" in a for a in report.get("adapting", ())) else ""
    work = f"{busy:.1f} s in the operators{together}" if together else f"{busy:.1f} s of it in the operators"
    yield f"{events:,} events, {int(report['results']):,} result rows"
    yield f"{seconds:.1f} s from start to end, {work}"
    state = report.get("state") or {}
    if state:
        rows, size = state.get("peak_rows", state.get("rows", 0)), state.get("peak_bytes", state.get("bytes", 0))
        yield f"at most {int(rows):,} rows of state, {int(size) / 1e6:,.1f} MB"
    yield from (f"{report[side]:,} {side} rows" for side in ("late", "invalid") if report.get(side))


def shown_plan(report: Mapping[str, Any]) -> Iterator[str]:
    """The operators as they ran: what came in, what went out, what they keep; and the joins in their last order.

    >>> operator = {"query": "q", "name": "mjoin 1", "elements_in": 900, "elements_out": 7, "seconds": 0.25, "rows": 80}
    >>> join = {"query": "q", "operator": "mjoin 1", "orders": {"R": ["S"], "S": ["R"]}, "elements": 9, "accesses": 18}
    >>> for line in shown_plan({"operators": [operator], "adapting": [join]}): print(line)
    <BLANKLINE>
    The plan that ran:
    <BLANKLINE>
        q                         in         out  seconds  rows kept
          mjoin 1                900           7     0.25         80
    <BLANKLINE>
        ΔR → S → T: an element of R is joined with S, then with T
        mjoin 1: 9 elements came or left, 2.00 accesses each
          ΔR → S
          ΔS → R
    """
    yield ""
    yield "The plan that ran:"
    operators = list(report.get("operators", ()))
    for name in dict.fromkeys(o["query"] for o in operators):
        yield ""
        yield f"    {name:<18}{'in':>10}  {'out':>10}  {'seconds':>7}  {'rows kept':>9}"
        for o in operators:
            if o["query"] == name and (o["elements_in"] or o["rows"]):
                moved = f"{o['elements_in']:>10,}  {o['elements_out']:>10,}"
                yield f"      {o['name']:<16}{moved}  {o['seconds']:>7.2f}  {o['rows']:>9,}"
    from eddyline.spark.explain_shards import drawn_together  # which needs no Spark

    joins = [a for a in report.get("adapting", ()) if "orders" in a]
    if joins:
        yield ""
        yield "    ΔR → S → T: an element of R is joined with S, then with T"
        yield from (f"    {line}" for line in drawn_together(joins))


def shown_decisions(report: Mapping[str, Any], width: int) -> Iterator[str]:
    """The last decisions of each operator: why, what was expected of them, and what was measured afterwards.

    >>> decision = {"operator": "mjoin 1", "kind": "order of ΔB", "before": ["C", "O"], "after": ["O", "C"],
    ...             "reason": "fewer accesses", "time": 5, "expected_gain": 1.6, "measured_gain": 1.2}
    >>> for line in shown_decisions({"decisions": [decision]}, 100): print(line)
    <BLANKLINE>
    What was decided, and what it gained:
    <BLANKLINE>
        mjoin 1: order of ΔB C, O → O, C (fewer accesses); expected 1.60×, measured 1.20×
    """
    from eddyline.io.render import brief

    decisions = list(report.get("decisions", ()))
    yield ""
    yield "What was decided, and what it gained:" if decisions else "Nothing had to be decided."
    yield from [""] if decisions else []
    hidden = len(decisions) - DECISIONS_SHOWN
    for d in decisions[-DECISIONS_SHOWN:]:
        change = brief(d["after"]) if d.get("before") is None else f"{brief(d['before'])} → {brief(d['after'])}"
        gains = [f"{n} {d[f'{n}_gain']:.2f}×" for n in ("expected", "measured") if d.get(f"{n}_gain") is not None]
        gained = f"; {', '.join(gains)}" if gains else ""
        text = f"{d['operator']}: {d['kind']} {change} ({d['reason']}){gained}"
        yield from textwrap.wrap(text, max(width, 60), initial_indent="    ", subsequent_indent="      ")
    if hidden > 0:
        yield f"    and {hidden:,} decisions before"


if __name__ == "__main__":
    sys.exit(main())
