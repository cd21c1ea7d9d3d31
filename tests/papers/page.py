"""Writes ``docs/papers-queries.md`` from ``queries.toml``: ``python -m tests.papers.page``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.papers.catalogs import PaperQuery, paper_queries

PAGE = Path(__file__).resolve().parents[2] / "docs" / "papers-queries.md"
PAPERS = {
    "babu": "S. Babu, Adaptive Query Processing in Data Stream Management Systems",
    "amri": "K. Works et al., Optimizing adaptive multi-route query processing via time-partitioned indices",
    "cbr": "P. Bizarro et al., Content-Based Routing: Different Plans for Different Data",
    "pulse": "Y. Ahmad, Pulse: Database Support for Temporal Polynomial Models",
}
INTRODUCTION = """\
# The papers' queries

Every query printed in the four papers that Eddyline is built from, with the typesetting removed. {plain} of {all} run
as printed; {repaired} need a repair, mostly because they are schemes rather than queries. {models} has a `MODEL` clause
and is answered on [models](models.md). All run in the tests, against small data.

<!-- Written by `python -m tests.papers.page` from tests/papers/queries.toml: change that file, not this one. -->
"""


def page(queries: list[PaperQuery]) -> str:
    """The whole page."""
    repaired = [q for q in queries if q.repaired]
    models = [q for q in queries if q.expect == "model"]
    plain = len(queries) - len(repaired)
    counts = {"plain": plain, "all": len(queries), "repaired": len(repaired), "models": len(models)}
    lines = [INTRODUCTION.format(**counts), "## Repairs at a glance", "", "| query | where | repair |", "|---|---|---|"]
    lines += [f"| [{q.key}](#{q.key}) | {_place(q)} | {_cell(q.why or '')} |" for q in repaired]
    for key, title in PAPERS.items():
        lines += ["", f"## {title}"]
        for q in queries:
            if q.source.partition(",")[0] == key:
                lines += ["", *_query(q)]
    return "\n".join(lines) + "\n"


def _query(q: PaperQuery) -> Iterator[str]:
    yield f"### {q.key}"
    yield ""
    place = _place(q).capitalize() if _place(q)[:1].isalpha() else f"Section {_place(q)}"
    yield f"{place}." + (" Answered on models." if q.expect == "model" else "")
    yield ""
    yield from ("```sql", q.printed.strip("\n"), "```")
    if q.repaired:
        yield from ("", f"Repair: {q.why}.", "", "```sql", q.repaired.strip("\n"), "```")


def _place(q: PaperQuery) -> str:
    return q.source.partition(",")[2].strip()


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(paper_queries()), encoding="utf-8")
