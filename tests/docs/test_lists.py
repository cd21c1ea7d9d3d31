"""Lists in the documentation are complete: a new function, option, dial or dependency must be written down."""

from __future__ import annotations

import inspect
import re
import tomllib
from pathlib import Path

from eddyline.cli import parser
from eddyline.cql.windows import UNITS
from eddyline.datasets.registry import GENERATORS, generator
from eddyline.engine.snapshot import FORMAT
from eddyline.expr.functions import function_names, is_aggregate
from eddyline.io.resolve import OPTIONS
from tests.papers.catalogs import paper_queries
from tests.papers.page import PAGE, page

ROOT = Path(__file__).resolve().parents[2]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def section(text: str, title: str) -> str:
    """From a heading to the next one of its level or above."""
    found = re.search(rf"^(#+) {re.escape(title)}\n(.*?)(?=^#{{1,3}} |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found.group(2)


def quoted(text: str) -> set[str]:
    return set(re.findall(r"`([a-z_][\w]*)`", text))


def test_functions() -> None:
    listed = quoted(
        "\n".join(line for line in section(read("docs/language.md"), "Functions").splitlines() if "|" in line)
    )
    assert listed == set(function_names())


def test_aggregates() -> None:
    listed = quoted(
        section(read("docs/language.md"), "Aggregates").split("\n\n")[0].replace("(*)", "").replace("(x)", "")
    )
    assert listed >= {"count", "sum", "avg", "stddev_pop", "last_value"}
    assert all(is_aggregate(n) for n in listed)


def test_functions_of_spark() -> None:
    """What the table says we have is there, and what it says we have not is not."""
    lines = [line for line in read("docs/spark-functions.md").splitlines() if line.startswith("| ")]
    rows = [line.strip("|").split("|") for line in lines[1:]]
    elsewhere = {"explode"}  # bound in the select list, not a function
    checked = 0
    for _, have, have_not, *_ in rows:
        for there, names in ((True, have), (False, have_not)):
            for name, more in re.findall(r"`([a-z_][a-z_0-9]*)(\*?)`", names):
                known = [f for f in function_names() if f == name or (more and f.startswith(name))]
                assert bool(known or is_aggregate(name) or name in elsewhere) is there, name
                checked += 1
    assert checked > 90


def test_options_of_sources() -> None:
    assert quoted(section(read("docs/io.md"), "Options of a source")) >= set(OPTIONS)


def test_generators_and_their_dials() -> None:
    rows = dict(
        re.findall(r"^\| `(\w+)` \| [^|]+ \| (.+) \|$", section(read("docs/io.md"), "Generators"), re.MULTILINE)
    )
    assert {n: quoted(dials) for n, dials in rows.items()} == {
        n: set(inspect.signature(generator(n)).parameters) for n in GENERATORS
    }


def test_options_of_the_command_line() -> None:
    text = read("docs/cli.md")
    (commands,) = (a for a in parser()._actions if a.choices is not None)
    for name, command in dict(commands.choices or {}).items():
        assert f"## eddyline {name}" in text
        assert all(f"`{o}" in text for a in command._actions for o in a.option_strings if a.dest != "help")


def test_units() -> None:
    assert (UNITS[0], UNITS[-1]) == ("microsecond", "week")


def test_dependencies() -> None:
    text = read("docs/dependencies.md")
    project = tomllib.loads(read("pyproject.toml"))["project"]
    listed = [*project["dependencies"], *(d for some in project["optional-dependencies"].values() for d in some)]
    for requirement in listed:
        name = re.match(r"[\w-]+", requirement)
        assert name is not None and name.group() in text
    for requirement in project["dependencies"]:
        assert f"`{requirement.removeprefix(re.match(r'[a-z]+', requirement).group())}`" in text  # type: ignore[union-attr]


def test_the_changelog_names_the_format_of_saved_state() -> None:
    assert f"Saved state: format {FORMAT}." in read("CHANGELOG.md")


def test_the_page_on_snapshots_names_the_format_of_saved_state() -> None:
    named = re.findall(r"The format has a number \((\d+) in this version\)", read("docs/snapshots.md"))
    assert named == [str(FORMAT)]


def test_the_papers_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(paper_queries()), "run: python -m tests.papers.page"


def test_options_of_queries() -> None:
    from eddyline.engine.base_session import OPTIONS as KNOWN

    assert quoted(section(read("docs/language.md"), "Statements")) >= set(KNOWN)


def test_options_of_cache_policies_and_their_defaults() -> None:
    from eddyline.adapting.join_choice import DEFAULT_CACHES
    from eddyline.adaptive.joins.policies import POLICIES, defaults

    table = section(read("docs/adaptive-joins.md"), "In a query")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+?) \| ", table, re.MULTILINE))
    assert list(rows) == [p.name for p in POLICIES["global"].parameters]
    for name, told in rows.items():
        numbers = [float(n.replace(",", "")) for n in re.findall(r"\d[\d,.]*", told)]
        usual, ours = defaults("global").get(name), DEFAULT_CACHES.get(name)
        assert numbers == [n for n in (usual, ours) if n is not None], (name, told)
