"""The plan as a page of its own: whole, with nothing from elsewhere, and safe for any text of a query."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

import eddyline as ed
from eddyline.cli import main
from eddyline.plan.print_html import bundle, page, read_bundle

HOSTILE = "SELECT Istream(a) FROM S WHERE a > 1 AND b <> '</script><script>alert(1)</script>'"


def query() -> ed.Query:
    session = ed.Session()
    session.stream("S", [{"ts": t, "a": t, "b": "x"} for t in range(9)], timestamp="ts")
    found: ed.Query = session.query(HOSTILE, name="hostile")
    found.pin()
    found.to_arrow()
    return found


def inside(whole: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="bundle">(.*?)</script>', whole, re.DOTALL)
    assert found is not None
    return read_bundle(found[1], "the page")


def test_a_page_holds_the_bundle_and_needs_nothing_else() -> None:
    made = bundle(query().plan(), 5.0)
    whole = page(made)
    assert inside(whole) == json.loads(json.dumps(made))
    assert made["samples"][0]["plan"]["text"] == HOSTILE and made["decisions"][0]["kind"] == "pinned"
    assert not re.search(r'(src|href)="(?!data:|\$\{)', whole)  # but for what a script composes
    assert "alert(1)</script>" not in whole


def test_a_notebook_shows_the_same_page() -> None:
    shown = query()._repr_html_()
    srcdoc = re.search(r'srcdoc="([^"]*)"', shown)
    assert srcdoc is not None and inside(html.unescape(srcdoc[1]))["query"] == "hostile"


def test_view_writes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "q.json"
    saved.write_text(json.dumps(bundle(query().plan(), 5.0)))
    assert main(["view", str(saved)]) == 0
    assert inside((tmp_path / "q.html").read_text())["query"] == "hostile"
    saved.write_text("{}")
    assert main(["view", str(saved)]) == 2
    assert "is no bundle" in capsys.readouterr().err
    saved.write_bytes(b"\xff\xfe\x00")
    assert main(["view", str(saved)]) == 2
    assert "is no bundle" in capsys.readouterr().err
    for samples in ([], [1], [{"plan": {}}]):
        saved.write_text(json.dumps({"eddyline": "bundle", "version": 1, "samples": samples, "decisions": []}))
        assert main(["view", str(saved)]) == 2
        assert "q.json is a damaged bundle: its plans or decisions are missing" in capsys.readouterr().err
    assert main(["view", str(tmp_path)]) == 2
    assert "is a folder: name one of the bundles in it." in capsys.readouterr().err
    assert main(["view", str(tmp_path / "none.json")]) == 2
    assert capsys.readouterr().err.endswith("none.json cannot be read: No such file or directory.\n")
