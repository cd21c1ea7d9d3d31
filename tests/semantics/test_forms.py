"""Random cases for each form of the language that other engines have too, with a table of how often each was met.

In ``make test-deep`` each form is met at least 2,000 times; with ``-s`` the table is printed. Streams have ties, NULLs,
disorder and late rows; half of the runs are saved and restored on the way.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter

import pytest

from eddyline.plan.logical import Rank
from eddyline.plan.traverse import each
from eddyline.testing.case_queries import CLOSING_TO_STREAM, OPERATORS, TO_STREAM, Focus
from eddyline.testing.case_windows import WINDOWS
from eddyline.testing.cases import Case, draw_case
from tests.scale import DEEP, FACTOR
from tests.semantics.engine import Way, mismatch, run_engine

SEED = int(os.environ.get("EDDYLINE_SEED", "2004"))
TIMES = round(100 * FACTOR) if DEEP else max(2, round(4 * FACTOR))
PARTS = 2

# What tells a form in the text of a query, and the operators and windows around which cases with it are drawn.
TIES_OF_JOINS = "ties of joins by arrival"
_ANY, _CLOSING = (*OPERATORS, "over", "as-of-join"), ("tumble", "hop", "session")
FORMS: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "TUMBLE": (r"\[TUMBLE", _ANY, ("tumble",)),
    "HOP": (r"\[HOP", _ANY, ("hop",)),
    "SESSION": (r"\[SESSION", _ANY, ("session",)),
    "UNTIL": (r"\[UNTIL", _ANY, ("until",)),
    "Wstream": (r"Wstream", OPERATORS, _CLOSING),
    "window_start, window_end": (r"window_(start|end)", OPERATORS, _CLOSING),
    "ranks": (r"(ROW_NUMBER|RANK)\(\) OVER", ("top-n",), WINDOWS),
    "ORDER BY … LIMIT": (r"LIMIT \d", ("top-n",), WINDOWS),
    "ASOF JOIN": (r"ASOF", ("as-of-join",), WINDOWS),
    "ASOF JOIN … WITHIN": (r"WITHIN", ("as-of-join",), WINDOWS),
    "FILTER": (r"FILTER \(WHERE", ("aggregate", "over"), WINDOWS),
    "subquery as a value": (r"(<=|>|<>|>=) \(SELECT", ("select",), WINDOWS),
    "LAG, LEAD": (r"(LAG|LEAD)\(", ("over",), (*WINDOWS, *_CLOSING)),
    "aggregate OVER … ROWS": (r"OVER \([^)]*ROWS", ("over",), (*WINDOWS, *_CLOSING)),
    "approx_count_distinct": (r"approx_count_distinct", ("approximate",), (*WINDOWS, *_CLOSING)),
    "approx_percentile": (r"approx_percentile", ("approximate",), (*WINDOWS, *_CLOSING)),
    TIES_OF_JOINS: (r"(?!)", ("top-n",), (*WINDOWS, *_CLOSING)),  # told by its plan
}


def forms_of(case: Case) -> list[str]:
    text = " ; ".join((case.text, *case.views.values()))
    found = [form for form, (pattern, _, _) in FORMS.items() if re.search(pattern, text)]
    joined = any(isinstance(n, Rank) and len(n.ties) > 1 for n in each(case.bound().plan))
    return [*found, TIES_OF_JOINS] if joined else found


def draw(form: str, rng: random.Random) -> Case:
    _, operators, windows = FORMS[form]
    window = rng.choice(windows)
    kinds = TO_STREAM if window in (*WINDOWS, "until") else CLOSING_TO_STREAM
    kind = "wstream" if form == "Wstream" else rng.choice(kinds)
    return draw_case(rng, Focus(rng.choice(operators), window, kind))


@pytest.mark.parametrize("part", range(PARTS))
def test_each_form_answers_as_the_reference(part: int) -> None:
    met: Counter[str] = Counter()
    full: Counter[str] = Counter()
    disorder: Counter[str] = Counter()
    restarts: Counter[str] = Counter()
    wanted, number = -(-TIMES // PARTS), 0
    while any(met[form] < wanted for form in FORMS):
        form = min(FORMS, key=lambda f: met[f])
        rng = random.Random(f"forms/{SEED}/{part}/{number}")
        number += 1
        assert number < 40 * wanted * len(FORMS), f"{form} is hardly ever drawn"
        case = draw(form, rng)
        found = forms_of(case)
        if form not in found:
            continue
        expected = case.expected()
        way = Way(rng.randrange(1 << 30), small=rng.random() < 0.5, snapshot=rng.random() < 0.5)
        difference = mismatch(case, expected, run_engine(case, way))
        assert difference is None, f"{difference}\n{way}\n{case.snippet()}"
        for one in found:
            met[one] += 1
            full[one] += bool(expected)
            restarts[one] += way.snapshot
            disorder[one] += any(_disordered(case, name) for name in case.streams)
    print(f"\n{'form':28s}{'cases':>7s}{'results':>9s}{'disorder':>10s}{'restarts':>10s}")
    for form in FORMS:
        print(f"{form:28s}{met[form]:7d}{full[form]:9d}{disorder[form]:10d}{restarts[form]:10d}")
    assert all(full[form] for form in FORMS) or wanted < 10


def _disordered(case: Case, name: str) -> bool:
    times = [ts for ts, _ in case.streams[name].elements if ts is not None]
    return times != sorted(times)
