"""Plans and queries as text."""

from __future__ import annotations

import pytest

from eddyline.core.errors import CqlError
from eddyline.cql.options import check_options
from eddyline.cql.printing import format_query
from tests.cql.build import bound, error


def test_a_query() -> None:
    query = bound("hot: INSERT INTO 'x.csv' SELECT a\nFROM S [ROWS 5] WITH (filters = 'sweep')")
    assert format_query(query) == (
        "hot: INSERT INTO 'x.csv' SELECT a FROM S [ROWS 5]\n"
        "result: a relation, shown as signed changes; time: integer\n"
        "options: filters = 'sweep'\n"
        "project S.a AS a\n"
        "└─ window [ROWS 5]\n"
        "   └─ stream S (S.a, S.b, S.name, S.t)"
    )


def test_an_error_underlines_its_place() -> None:
    assert str(error("SELECT a\nFROM S\nWHERE nam = 'x'")) == (
        "unknown column 'nam'. Did you mean 'name'?\n  line 3, column 7:\n  WHERE nam = 'x'\n        ^^^"
    )


def test_unknown_options() -> None:
    check_options({"filters": 1}, ["filters"])
    with pytest.raises(CqlError, match="unknown option 'filter'") as caught:
        check_options({"filter": 1}, ["filters"], "SELECT 1 WITH (filter = 1)")
    assert caught.value.span is not None
    assert caught.value.text[caught.value.span.start : caught.value.span.end] == "filter"
