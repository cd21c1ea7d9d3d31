"""Where there is no Chromium the tests of the page are left out, and the summary says how many."""

from __future__ import annotations

import shutil

import pytest

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_left_out: list[str] = []


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    pages = [
        i
        for i in items
        if (i.nodeid.startswith("tests/server/test_page.py") and "page" in getattr(i, "fixturenames", ()))
        or i.get_closest_marker("browser") is not None
    ]
    if pages and BROWSER is None:
        config.hook.pytest_deselected(items=pages)
        items[:] = [i for i in items if i not in pages]
        _left_out.extend(i.nodeid for i in pages)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _left_out:
        terminalreporter.write_line(f"{len(_left_out)} tests of the server's page were not run: there is no Chromium.")
