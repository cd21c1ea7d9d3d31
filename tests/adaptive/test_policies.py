"""Names, options and what the documentation says about them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.adaptive.filters.policies import POLICIES, defaults, make_policy
from eddyline.core.errors import JobError

PAGE = Path(__file__).resolve().parents[2] / "docs" / "adaptive-filters.md"


def test_the_defaults_of_table_4_1() -> None:
    assert {n: defaults(n) for n in ("a-greedy", "independent", "sweep", "local-swaps", "static")} == {
        "a-greedy": {"p": 0.01, "window": 1000, "alpha": 0.9, "seed": 0},
        "independent": {"p": 0.005, "window": 1000, "alpha": 0.9, "seed": 0},
        "sweep": {"p": 0.01, "window": 500, "alpha": 0.9, "seed": 0},
        "local-swaps": {"p": 0.01, "window": 1000, "alpha": 0.9, "seed": 0},
        "static": {},
    }


@pytest.mark.parametrize("text", ["A-Greedy", "a_greedy", "agreedy", " a-greedy ", "a-greedy()", "A-Greedy(p=1e-2)"])
def test_names_as_people_write_them(text: str) -> None:
    made = make_policy(text, Pipeline(3))
    assert made.name == "a-greedy" and made.order == (0, 1, 2)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a-gredy", {}, "unknown filter policy 'a-gredy'. Did you mean 'a-greedy'?"),
        ("best", {}, "unknown filter policy 'best'. There are: static, independent, a-greedy, sweep,"),
        ("sweep", {"windw": 5}, "'sweep' has no option 'windw'. Did you mean 'window'?"),
        ("sweep", {"zzz": 5}, "has no option 'zzz'. It has: p, window, alpha, seed."),
        ("static", {"p": 0.5}, "the filter policy 'static' has no option 'p'. It has none."),
        ("sweep(p=2)", {}, "the option 'p' of 'sweep' must be a number above 0 and at most 1, not 2."),
        ("sweep(window=0)", {}, "the option 'window' of 'sweep' must be a whole number from 1 to 1,000,000, not 0."),
        ("sweep", {"window": 2.5}, "must be a whole number from 1 to 1,000,000, not 2.5."),
        ("default(alpha=true)", {}, "must be a number above 0 and at most 1, not 'true'."),
        ("sweep(p)", {}, "an option of a filter policy is written like 'p=0.05', not 'p'"),
        ("sweep(p=1, p=1)", {}, "the option 'p' is given twice"),
        ("sweep(", {}, "a filter policy is written like 'a-greedy' or 'a-greedy(p=0.05)', not 'sweep('"),
    ],
)
def test_mistakes(text: str, options: dict[str, float], message: str) -> None:
    with pytest.raises(JobError, match=re.escape(message)):
        make_policy(text, Pipeline(3), **options)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"filters": 0}, "at least one filter"),
        ({"filters": 2, "pinned": frozenset({2})}, "must be among 0 to 1, not [2]"),
        ({"filters": 2, "costs": (1.0,)}, "must be 2 positive numbers"),
        ({"filters": 2, "costs": (1.0, 0.0)}, "must be 2 positive numbers"),
        ({"filters": 2, "initial": (0, 0)}, "permutation of 0 to 1"),
        ({"filters": 2, "pinned": frozenset({0}), "initial": (1, 0)}, "permutation of 0 to 1"),
    ],
)
def test_impossible_pipelines(facts: dict[str, object], message: str) -> None:
    with pytest.raises(JobError, match=re.escape(message)):
        Pipeline(**facts)  # type: ignore[arg-type]


def test_declared_costs_are_believed_until_measured() -> None:
    for name in POLICIES:
        if name != "static":
            policy = make_policy(name, Pipeline(2, costs=(3.0, 5.0)))
            assert policy.statistics()["seconds"] == (3.0, 5.0)


def test_the_page_lists_every_parameter_with_its_default() -> None:
    text = PAGE.read_text(encoding="utf-8")
    listed: dict[str, dict[str, float]] = {n: {} for n in POLICIES}
    for option, values in re.findall(r"^\| `(\w+)` \| (.+?) \|", text, re.MULTILINE):
        for value, names in re.findall(r"([\d.]+) \(([\w, -]+)\)", values):
            for name in names.split(", "):
                listed[name][option] = float(value)
    assert listed == {n: {k: v for k, v in defaults(n).items() if k != "seed"} for n in POLICIES}
    for name in POLICIES:
        assert f"`{name}`" in text
