"""IN and EXISTS as conjuncts that are asked in any order: random conjunctions against the reference, every policy."""

from __future__ import annotations

import random
from typing import Any

import pytest

from eddyline.adapting.conjunction import AdaptiveConjunction
from eddyline.adapting.eddy import Eddy
from eddyline.core.errors import DataError, JobError
from eddyline.cql import bind
from eddyline.operators.bound_match import BoundMatch
from eddyline.operators.match import MatchOperator
from eddyline.operators.match_select import MatchSelect
from eddyline.testing.case_data import TimeScale, draw_scale
from eddyline.testing.case_memberships import membership
from eddyline.testing.case_queries import TO_STREAM, Focus, QueryWriter
from eddyline.testing.case_windows import WINDOWS
from eddyline.testing.cases import Case, draw_data
from tests.scale import scaled
from tests.semantics.engine import HASTY, ROUTES, Way, mismatch, run_engine, start

OPTIONS: tuple[dict[str, Any], ...] = (
    *({"filters": policy} for policy in (*HASTY, "static")),
    *({"routing": policy} for policy in ROUTES),
    {"strict_order": True},
    {},
)


def draw(rng: random.Random, brittle: bool = False) -> Case:
    """A selection with one to three memberships and up to two other conjuncts, mostly judged at its own instant."""
    while True:
        scale = TimeScale() if brittle else draw_scale(rng)
        focus = Focus("semijoin", rng.choice(WINDOWS), rng.choice(TO_STREAM))
        writer = QueryWriter(rng, focus, scale)
        left = rng.choice(["", "", "[NOW]", "[NOW]", "[RANGE 4]", "[ROWS 3]", "[ROWS UNBOUNDED]"])
        outer = writer.stream(window=left)
        scope = outer.scope()
        conditions = [membership(writer, rng.random() < 0.35, outer, 1) for _ in range(rng.randint(1, 3))]
        conditions += [writer.expressions.predicate(scope, 1) for _ in range(rng.randint(0, 2))]
        if brittle:
            conditions.append(f"4 DIV ({outer.alias}.{rng.choice('ab')} - 4) >= 0")
        rng.shuffle(conditions)
        items = ", ".join(f"{text} AS c{i}" for i, (text, _) in enumerate(writer.items(scope, plain=True)))
        kind = focus.to_stream
        listed = items if kind == "none" else f"{kind.capitalize()}({items})"
        text = f"SELECT {listed} FROM {outer.text} WHERE {' AND '.join(conditions)}"
        case = draw_data(rng, text, writer, scale)
        try:
            bind(text, case.catalog())
        except JobError:
            continue
        return case


def judged(case: Case, options: dict[str, Any]) -> tuple[list[MatchSelect], bool]:
    """The operators that judge rows once, and whether some semijoin is left."""
    _, query = start(case, Way(0, options=options))
    operators = [n.operator for n in query.running.physical.nodes]
    found = [o for o in operators if isinstance(o, MatchSelect)]
    return found, any(isinstance(o, BoundMatch | MatchOperator) for o in operators)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_any_order_gives_the_answer_of_the_reference(options: dict[str, Any]) -> None:
    adapting = rows = 0
    cases = scaled(24, least=24)
    for i in range(cases):
        rng = random.Random(f"membership/{options}/{i}")
        case = draw(rng)
        found, _ = judged(case, options)
        adapting += any(isinstance(o.conjunction, AdaptiveConjunction | Eddy) for o in found)
        expected = case.expected()
        rows += len(expected) > 0
        seed = rng.randrange(1 << 30)
        batch, snapshot = rng.choice([(None, False), (1, False), (1000, False), (None, True)])
        for way in (
            Way(seed, batch=batch, snapshot=snapshot, small=True, options=options),
            Way(seed, batch=1000, interleave=False, encoded=True, options=options),
        ):
            assert mismatch(case, expected, run_engine(case, way)) is None, f"{way}\n{case.snippet()}"
    assert rows > 0.3 * cases
    assert adapting == 0 if "strict_order" in options else adapting > 0.2 * cases


def test_errors_are_those_of_the_reference() -> None:
    """A row that a membership drops has no error, whichever comes first."""
    failed = compared = apart = 0
    for i in range(scaled(90, least=60)):
        rng = random.Random(f"membership/brittle/{i}")
        case = draw(rng, brittle=True)
        apart += judged(case, {})[1]
        try:
            expected = case.expected()
        except DataError:
            expected = None
        for way in (Way(i), Way(i, small=True, options=rng.choice(OPTIONS))):
            try:
                answer = run_engine(case, way)
            except DataError:
                answer = None
            assert (answer is None) == (expected is None), f"{way}\n{case.snippet()}"
            assert expected is None or mismatch(case, expected, answer) is None, f"{way}\n{case.snippet()}"
        failed += expected is None
        compared += 1
    assert compared > 30 and 5 < failed < compared - 5 and apart > 30
