"""One story of versions: the package, the command line, the changelog, the pages, formats of saved state, Java's."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import eddyline
from eddyline import cli
from eddyline.engine.state_codec import FORMAT
from eddyline.spark import compatibility, requirements

ROOT = Path(__file__).parents[2]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def newest() -> str:
    """The first version of the changelog, with its text."""
    return read("CHANGELOG.md").split("\n## ")[1]


def test_the_changelog_begins_with_this_version() -> None:
    assert newest().startswith(f"[{eddyline.__version__}]")


def test_the_package_takes_its_version_from_the_source(capsys: pytest.CaptureFixture[str]) -> None:
    project = tomllib.loads(read("pyproject.toml"))
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/eddyline/__init__.py"
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"eddyline {eddyline.__version__}\n"


@pytest.mark.parametrize("page", ["README.md", "docs/getting-started.md"])
def test_pages_show_this_version(page: str) -> None:
    assert set(re.findall(r"^eddyline (\d\S*)$", read(page), re.MULTILINE)) == {eddyline.__version__}


def test_the_readme_is_about_the_limits_of_this_version() -> None:
    assert f"## Limits of {eddyline.__version__.rpartition('.')[0]}\n" in read("README.md")


def test_the_changelog_names_the_formats_of_saved_state() -> None:
    inline = re.search(r"Saved state: format (\d+)\.", newest())
    spark = re.search(r"Saved state on Spark: format (\d+)\.", newest())
    assert inline is not None and int(inline[1]) == FORMAT
    assert spark is not None and int(spark[1]) == compatibility.FORMAT


@pytest.mark.parametrize("page", ["README.md", "docs/spark.md"])
def test_pages_name_the_javas_that_are_accepted(page: str) -> None:
    *first, last = map(str, requirements.LONG_TERM_JAVA)
    assert f"Java {', '.join(first)} or {last}" in read(page)


def test_the_lock_has_exact_versions_within_the_ranges_of_the_project() -> None:
    lines = [line for line in read("requirements-dev.lock").splitlines() if not line.startswith("#")]
    pinned = dict(line.split("==") for line in lines)  # no folders, no addresses, no ranges
    names = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pinned.items()}
    extras = tomllib.loads(read("pyproject.toml"))["project"]
    wanted = [
        *extras["dependencies"],
        *extras["optional-dependencies"]["dev"],
        *extras["optional-dependencies"]["spark"],
    ]
    for requirement in wanted:
        found = re.fullmatch(r"([\w-]+)>=([\d.]+),<([\d.]+)", requirement)
        if found is None:
            assert requirement.startswith("eddyline[")
            continue
        name, low, high = found.groups()
        version = requirements.version_numbers(names[name])
        assert requirements.version_numbers(low) <= version < requirements.version_numbers(high), name
