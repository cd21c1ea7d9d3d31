"""A quick look at some experiments leaves data, a plot and a verdict, and a verdict can fail."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from experiments.filters import correlation, setting
from experiments.filters.adaptivity import timelines
from experiments.report import Claim, NotHereError, Number, Options, Outcome, Verdict, write
from experiments.routing.lab import readings
from matplotlib.figure import Figure

from experiments import page, run

QUICK = Options(scale=0.02, streams=2)


def test_every_experiment_is_listed_and_described() -> None:
    root = Path(run.__file__).parent
    there = {
        p.stem for room in run.EXPERIMENTS for p in (root / room).glob("*.py") if "def run(" in p.read_text("utf-8")
    }
    assert there == set(run.modules())
    for module in run.modules().values():
        first, _ = page.about(module)
        assert first.startswith(("Figure", "Table", "Section")) and first.endswith(".")


def test_a_quick_run_leaves_data_plot_verdict_and_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("EDDYLINE_DATA", raising=False)
    names = ["figure_4_13", "figure_4_23", "table_4_2", "figure_8", "figures_9_10"]
    assert run.main(["--quick", "--out", str(tmp_path), "--only", *names]) == 0
    assert "figure_8: not run. it needs building_rooms.parquet" in capsys.readouterr().out
    for name in set(names) - {"figure_8"}:
        with (tmp_path / f"{name}.csv").open(encoding="utf-8") as file:
            assert len(list(csv.DictReader(file))) > 2
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        verdict = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
        assert verdict["holds"] == all(c["holds"] for c in verdict["claims"])
        assert verdict["claims"] and verdict["numbers"] and verdict["quick"]
    html = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert html.count("data:image/png;base64,") == len(names) - 1
    assert "python -m experiments.filters.figure_4_13" in html and page.NOT_RUN in html


def test_an_unknown_name_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--out", str(tmp_path), "--only", "figure_4_31"]) == 2
    assert "there is no experiment figure_4_31. Did you mean" in capsys.readouterr().err


def test_a_verdict_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without correlation A-Greedy has no lead, and the same computation says so."""
    assert correlation.by_correlation(QUICK, "Figure 4.13", 3).verdict.holds
    monkeypatch.setattr(correlation, "stream", lambda rows, n, gamma, seed: setting.stream(rows, n, gamma=1, seed=seed))
    verdict = correlation.by_correlation(QUICK, "Figure 4.13", 3).verdict
    assert not verdict.holds
    assert [c.holds for c in verdict.claims].count(False) >= 1


def test_a_failed_claim_is_shown_everywhere(tmp_path: Path) -> None:
    verdict = Verdict("Figure 0", [Claim("it rises", True), Claim("it stays up", False)], [Number("height", 0.5, 0.4)])
    text = write(tmp_path, "figure_4_25", Outcome([{"x": 1}], verdict, Figure(), "| a | b |\n|---|---|\n| 1 | 2 |"))
    assert "DOES NOT HOLD" in text and "NO   it stays up" in text
    known = {"figure_4_25": "experiments.filters.figure_4_25"}
    assert "<li class=no>no: it stays up" in page.page(tmp_path, known).read_text(encoding="utf-8")
    for name, mark in (("experiments", "summary"), ("adaptive-filters", "figure_4_25")):
        (tmp_path / f"{name}.md").write_text(
            f"a\n<!-- {mark}: begin (how) -->\nstale\n<!-- {mark}: end -->\nb\n", "utf-8"
        )
    page.docs(tmp_path, known, tmp_path)
    summary = (tmp_path / "experiments.md").read_text(encoding="utf-8")
    assert "| `figure_4_25` | 1 of 2 claims | height | 40.0% | 50.0% |" in summary
    assert "- `figure_4_25`: it stays up." in summary and "stale" not in summary and "(how) -->" in summary
    assert "| 1 | 2 |" in (tmp_path / "adaptive-filters.md").read_text(encoding="utf-8")


def test_the_documentation_shows_pictures(tmp_path: Path) -> None:
    figure = Figure()
    figure.add_subplot().plot(range(9))
    write(tmp_path, "stocks", Outcome([{"x": 1}], Verdict("Trades", [Claim("it rises", True)], []), figure))
    (tmp_path / "experiments.md").write_text("<!-- summary: begin -->\n<!-- summary: end -->\n", "utf-8")
    (shown,) = [p for p in page.docs(tmp_path, {"stocks": "experiments.joins.stocks"}, tmp_path) if p.suffix == ".png"]
    assert shown == tmp_path / "images" / "stocks.png"
    assert 0 < shown.stat().st_size < (tmp_path / "stocks.png").stat().st_size


def test_counts_can_be_repeated_and_profiling_is_in_them() -> None:
    drops = setting.stream(20_000, 4, seed=3)
    first, again = (setting.settle(("optimal", "a-greedy"), drops, seed=1) for _ in range(2))
    assert first == again
    assert first["a-greedy"].profiling > 0
    assert first["a-greedy"].work >= first["optimal"].work
    assert first["a-greedy"].rate == 1000 / (first["a-greedy"].work + first["a-greedy"].profiling)


def test_the_default_is_back_sooner_than_a_greedy() -> None:
    (lines, *_) = timelines(Options(scale=0.01), ("a-greedy", "default"))
    assert lines["default"].back_to(lines["default"].last(1)) < lines["a-greedy"].back_to(lines["default"].last(1))
    assert len(lines["default"].evaluated) == 2 * lines["default"].change // 2000


def test_absent_data_are_one_sentence(tmp_path: Path) -> None:
    for folder in (None, tmp_path):
        with pytest.raises(NotHereError, match=r"^it needs room_climate\.parquet, and .*: set EDDYLINE_DATA or give"):
            readings(folder, "room_climate")
