"""The page of all experiments, and the tables of the documentation: both from the files that experiments left."""

from __future__ import annotations

import base64
import importlib
import json
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

from PIL import Image

from experiments.report import Number

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; } td, th { border-bottom: 1px solid #ddd; padding: .25rem .7rem;
text-align: left; vertical-align: top; } img { max-width: 100%; } .yes { color: #17692f; } .no { color: #a3220e;
font-weight: 600; } code { background: #f3f3f3; padding: .1rem .3rem; } .n { text-align: right; white-space: nowrap; }
section { border-top: 2px solid #ddd; margin-top: 2.5rem; } .note { color: #555; }
"""
NOT_RUN = "not run here"
PICTURES = ("stocks", "map_amri")  # that a page of the documentation shows


def results(out: Path, known: Mapping[str, str]) -> dict[str, dict[str, Any] | None]:
    """What each experiment found, in the order of the page; None if it left nothing."""
    return {
        name: json.loads(path.read_text(encoding="utf-8")) if (path := out / f"{name}.json").is_file() else None
        for name in known
    }


def summary(found: Mapping[str, Any]) -> str:
    """
    >>> summary({"claims": [{"text": "it rises", "holds": True}, {"text": "it stays up", "holds": False}]})
    '1 of 2 claims'
    """
    claims = found["claims"]
    good = sum(c["holds"] for c in claims)
    return "holds" if good == len(claims) else f"{good} of {len(claims)} claims"


def page(out: Path, known: Mapping[str, str]) -> Path:
    """index.html in ``out``: one file, with the images in it."""
    found = results(out, known)
    parts = [f"<!doctype html><html lang=en><meta charset=utf-8><title>Experiments</title><style>{STYLE}</style>"]
    parts.append("<h1>Experiments</h1><p>One for each figure or table of the papers: S. Babu's thesis, chapters 4 and "
                 "5, and Content-Based Routing (3 to 10). Counts with declared costs, profiling included, unless it "
                 "says <i>measured</i>. A verdict is computed from the data, sentence by sentence.</p>")  # fmt: skip
    parts.append("<table><tr><th>experiment<th>verdict<th>what")
    for name, f in found.items():
        verdict = NOT_RUN if f is None else summary(f)
        shown = f"<span class={'yes' if verdict == 'holds' else 'no'}>{verdict}</span>"
        parts.append(f"<tr><td><a href='#{name}'>{name}</a><td>{shown}<td>{escape(about(known[name])[0])}")
    parts.append("</table>")
    for name, f in found.items():
        parts += _section(out, name, known[name], f)
    path = out / "index.html"
    out.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def _section(out: Path, name: str, module: str, f: Mapping[str, Any] | None) -> Iterator[str]:
    first, rest = about(module)
    yield f"<section id={name}><h2>{escape(first)}</h2><p>{escape(rest)}</p><p><code>python -m {module}</code></p>"
    if f is None:
        yield f"<p class=no>{NOT_RUN}: it needs data that are not on this machine, or was not asked for.</p></section>"
        return
    if f.get("quick"):
        yield "<p class=no>A quick look at a small part of the data: the numbers mean little.</p>"
    yield "<ul>"
    yield from (f"<li class={'yes' if c['holds'] else 'no'}>{'yes' if c['holds'] else 'no'}: {escape(c['text'])}"
                for c in f["claims"])  # fmt: skip
    yield "</ul>"
    image = base64.b64encode((out / f"{name}.png").read_bytes()).decode()
    yield f"<img alt='{escape(first)}' src='data:image/png;base64,{image}'>"
    yield "<table><tr><th>number<th>ours<th>the paper's"
    for number in (Number(**n) for n in f["numbers"]):
        cells = "".join(f"<td class=n>{number.show(v)}" for v in (number.ours, number.paper))
        yield f"<tr><td>{escape(number.what)}{cells}"
    yield "</table>"
    yield from _table(f.get("table", ""))
    if f["note"]:
        yield f"<p class=note>{escape(f['note'])}</p>"
    yield "</section>"


def _table(markdown: str) -> Iterator[str]:
    """Enough of Markdown for the tables that experiments write."""
    lines = [line for line in markdown.splitlines() if line]
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("|") and not line.startswith("|-")]
    if rows:
        yield "<table>"
        for i, row in enumerate(rows):
            yield "<tr>" + "".join(f"<{'td' if i else 'th'}>{escape(cell).replace('`', '')}" for cell in row)
        yield "</table>"
    yield from (f"<p>{escape(line)}</p>" for line in lines if not line.startswith("|"))


def about(module: str) -> tuple[str, str]:
    """The first line of an experiment's docstring and the rest."""
    first, _, rest = (importlib.import_module(module).__doc__ or "").strip().partition("\n")
    return first, " ".join(rest.split())


def docs(out: Path, known: Mapping[str, str], folder: Path) -> list[Path]:
    """Write the summary table, and Figure 4.25's into the page on filters, between marks; and the pictures of pages."""
    found = results(out, known)
    lines = ["| experiment | verdict | number | ours | the paper's |", "|---|---|---|---|---|"]
    for name, f in found.items():
        if f is None:
            lines.append(f"| `{name}` | {NOT_RUN} | | | |")
            continue
        # What the paper prints, else the first two of ours.
        numbers = [Number(**n) for n in f["numbers"]]
        shown = [n for n in numbers if n.paper is not None][:8] or numbers[:2]
        for i, n in enumerate(shown):
            head = f"`{name}` | {summary(f)}" if i == 0 else " | "
            lines.append(f"| {head} | {n.what} | {n.show(n.ours)} | {n.show(n.paper)} |")
    missed = [line for name, f in found.items() if f for line in _missed(name, f)]
    text = "\n".join(lines) + "\n\n" + ("What does not hold here:\n\n" + "\n".join(missed) if missed else "All hold.")
    written = [between(folder / "experiments.md", "summary", text)]
    if (tradeoff := found.get("figure_4_25")) is not None:
        written.append(between(folder / "adaptive-filters.md", "figure_4_25", tradeoff["table"]))
    return written + [picture(out / f"{n}.png", folder / "images") for n in PICTURES if found.get(n) is not None]


def _missed(name: str, f: Mapping[str, Any]) -> Iterator[str]:
    """The claims that do not hold, and why, as far as the experiment says.

    >>> list(_missed("figure_0", {"claims": [{"text": "it rises", "holds": False}], "note": "It is flat."}))
    ['- `figure_0`: it rises.', '  It is flat.']
    """
    lines = [f"- `{name}`: {c['text']}." for c in f["claims"] if not c["holds"]]
    yield from lines
    if lines and f["note"]:
        yield f"  {f['note']}"


def picture(path: Path, folder: Path) -> Path:
    """A copy with few colours, as plots have: a third of the size."""
    folder.mkdir(exist_ok=True)
    with Image.open(path) as image:
        image.convert("RGB").quantize(64).save(folder / path.name, optimize=True)
    return folder / path.name


def between(path: Path, mark: str, text: str) -> Path:
    """Replace what stands between ``<!-- mark: begin … -->`` and ``<!-- mark: end -->``."""
    old = path.read_text(encoding="utf-8")
    head, begin, rest = old.partition(f"<!-- {mark}: begin")
    inside, end, tail = rest.partition(f"<!-- {mark}: end -->")
    if not begin or not end:
        raise ValueError(f"{path} has no marks for {mark}")
    first = inside.partition("-->")[0]
    path.write_text(f"{head}{begin}{first}-->\n\n{text}\n\n{end}{tail}", encoding="utf-8")
    return path
