"""The plan as a page: the server's page with a bundle inside, in one file that needs no server.

A *bundle* is what was seen of a query: samples of its plan, and its decisions. The server's page saves one, so does
``eddyline run --bundle``, and ``eddyline view`` makes a file of it that is opened offline and replayed with a slider. A
query in a notebook is shown in the same way, with one sample.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from eddyline.core.errors import JobError
from eddyline.plan.plan_data import PlanGraph

KIND, VERSION = "bundle", 1
HEIGHT = 620  # pixels of a query in a notebook


def sample(plan: PlanGraph | Mapping[str, Any], at: float, seen: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What a bundle keeps of a plan, seen at ``at`` (seconds); ``seen`` are further counts, such as ``inputs``."""
    data = _data(plan)
    del data["decisions"]
    found: dict[str, Any] = _finite({"plan": data | dict(seen or {}), "decisions": [], "at": at})
    return found


def bundle(plan: PlanGraph | Mapping[str, Any], at: float, samples: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """A bundle with the decisions of a plan as of now and the ``samples`` seen so far; by default one, of now.

    >>> found = bundle(PlanGraph("q", "SELECT …", "istream", (), (), ""), 5.0)
    >>> found["query"], len(found["samples"]), found["decisions"]
    ('q', 1, [])
    """
    data = _data(plan)
    kept = list(samples) or [sample(plan, at)]
    return {
        "eddyline": KIND,
        "version": VERSION,
        "query": data["query"],
        "saved": at,
        "samples": kept,
        "decisions": _finite(data["decisions"]),
    }


def read_bundle(text: str, place: str) -> dict[str, Any]:
    """
    >>> read_bundle("[]", "x.json")
    Traceback (most recent call last):
    ...
    eddyline.core.errors.JobError: x.json is no bundle: save one with the server's page or with eddyline run --bundle.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("eddyline") != KIND or not isinstance(found.get("samples"), list):
        raise JobError(f"{place} is no bundle: save one with the server's page or with eddyline run --bundle.")
    if found.get("version") != VERSION:
        raise JobError(f"{place} is a bundle of version {found.get('version')}, and this one reads {VERSION}.")
    if not (found["samples"] and all(map(_is_sample, found["samples"])) and isinstance(found.get("decisions"), list)):
        raise JobError(f"{place} is a damaged bundle: its plans or decisions are missing. Save it again.")
    return found


def _is_sample(found: Any) -> bool:
    """Whether the page can draw it."""
    plan = found.get("plan") if isinstance(found, dict) else None
    return isinstance(plan, dict) and isinstance(plan.get("nodes"), list) and isinstance(plan.get("text"), str)


def page(found: Mapping[str, Any], *, layout: bool = False) -> str:
    """One file with the page and the bundle. ``layout`` brings ELK along (1.6 MB), which places large plans better."""
    static = resources.files("eddyline").joinpath("server", "static")
    whole = static.joinpath("index.html").read_text(encoding="utf-8")
    script = static.joinpath("assets", "page.js").read_text(encoding="utf-8")
    style = static.joinpath("assets", "page.css").read_text(encoding="utf-8")
    data = json.dumps(found).replace("<", "\\u003c")
    whole = re.sub(r"\s*<script [^>]*></script>|\s*<link rel=\"stylesheet\"[^>]*>", "", whole)
    inside = script.replace("</script", "<\\/script")
    head = f"<style>{style}</style></head>"
    body = f'<script type="application/json" id="bundle">{data}</script><script type="module">{inside}</script></body>'
    if layout:
        elk = (
            static.joinpath("assets", "elk-worker.min.js").read_text(encoding="utf-8").replace("</script", "<\\/script")
        )
        body = f'<script type="text/plain" id="elk">{elk}</script>{body}'
    return whole.replace("</head>", head).replace("</body>", body)


def notebook(plan: PlanGraph | Mapping[str, Any], at: float) -> str:
    """The plan as a notebook shows it; one of a server is plain data already."""
    inside = html.escape(page(bundle(plan, at)), quote=True)
    style = f"width: 100%; height: {HEIGHT}px; border: 0"
    return f'<iframe srcdoc="{inside}" style="{style}" title="plan of a query"></iframe>'


class Explained(str):
    """An explanation as text, which a notebook draws as a plan."""

    _plan: PlanGraph
    _at: float

    def __new__(cls, text: str, plan: PlanGraph, at: float) -> Explained:
        found = super().__new__(cls, text)
        found._plan, found._at = plan, at
        return found

    def _repr_html_(self) -> str:
        return notebook(self._plan, self._at)


def _data(plan: PlanGraph | Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(plan.to_json()) if isinstance(plan, PlanGraph) else dict(plan)
    return found


def _finite(value: Any) -> Any:
    """JSON has no infinities and no NaN: they become texts."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    return [_finite(v) for v in value] if isinstance(value, list) else value
