"""A notebook shows plans of queries, wherever they run, and results as a table that updates."""

from __future__ import annotations

import html
import itertools
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import eddyline as ed
from eddyline.notebook import watch


class Notebook:
    """Stands for IPython: what was displayed, as HTML, one after another."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def display(self, what: Any, *, display_id: bool) -> SimpleNamespace:
        assert display_id
        self.update(what)
        return SimpleNamespace(update=self.update)

    def update(self, what: Any) -> None:
        self.shown.append(what._repr_html_())


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    found, module = Notebook(), ModuleType("IPython.display")
    module.display = found.display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return found


def query() -> ed.Query:
    session = ed.Session()
    session.stream("S", ({"ts": t, "a": t} for t in range(30_000)), timestamp="ts")
    found: ed.Query = session.query("SELECT Istream(a) FROM S WHERE a % 2 = 0", name="even")
    return found


def test_results_are_a_table_that_updates(notebook: Notebook) -> None:
    watch(query(), rows=3, clock=itertools.count().__next__)
    assert len(notebook.shown) > 2 and "even: 0 rows, more may come" in notebook.shown[0]
    assert "even: 15,000 rows</caption>" in notebook.shown[-1]
    assert notebook.shown[-1].count("<tr>") == 4 and "<td>29998</td>" in notebook.shown[-1]


def test_an_interrupted_watch_leaves_the_query_running(notebook: Notebook) -> None:
    found = query()

    class Interrupted:
        name = found.name

        def results(self) -> Any:
            yield next(found.results())
            raise KeyboardInterrupt

    watch(Interrupted())
    assert "more may come" in notebook.shown[-1]
    assert found.session.queries == [found]


def test_without_a_notebook_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", None)
    monkeypatch.setitem(sys.modules, "IPython.display", None)
    with pytest.raises(ed.JobError, match="watch is for notebooks"):
        watch(query())


def test_an_explanation_that_knows_its_plan_is_drawn() -> None:
    from eddyline.plan.print_html import Explained

    found = query()
    said = Explained(found.explain(), found.plan(), 5.0)
    assert said == found.explain() and "select 1" in html.unescape(said._repr_html_())
