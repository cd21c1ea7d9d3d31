"""Multi-route joins of queries that come and go at any moment, in disorder, saved and restored: each answers as with
the default join in a session that shares nothing.

``EDDYLINE_CASES`` scales the number of sessions, ``EDDYLINE_SEED`` moves to others.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

import eddyline as ed
from eddyline.operators.routed_join import RoutedJoin
from tests.scale import scaled
from tests.semantics.session_scripts import Row, SessionScript
from tests.semantics.test_long_routed_joins import any_bits, any_machine
from tests.semantics.test_routed_options import draw_index

SEED = os.environ.get("EDDYLINE_SEED", "2012")
SESSIONS = scaled(5, 3, 200)
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("v", pa.int64())])
WINDOWS = ("[RANGE 4]", "[RANGE 12]", "[RANGE 30]", "[ROWS 1]", "[ROWS 5]", "[ROWS 20]", "[RANGE 9 SLIDE 4]", "[NOW]")
TEXTS = (
    "SELECT x.ts AS one, y.ts AS two, x.v FROM S {w} x, T {r} y WHERE x.k = y.k",
    "SELECT count(*) AS n, sum(x.v) AS t FROM S {w} x, T {r} y WHERE x.k = y.k AND x.v < y.v",
    "SELECT Istream(x.ts AS one, y.ts AS two) FROM S {w} x, T {r} y WHERE x.v <= y.k",
    "SELECT x.v, count(*) AS n FROM S {w} x, S {r} y WHERE x.k = y.k AND x.v = y.v GROUP BY x.v",
    "SELECT count(*) AS n, sum(y.v) AS t FROM S {w} x, U {r} y WHERE x.k = y.k AND y.v > 0",
    "SELECT count(*) AS n, sum(x.v) AS t FROM S {w} x, T {r} y, U {w} z WHERE x.k = y.k AND y.v = z.v",
    "SELECT Dstream(x.ts AS one, z.v AS two) FROM S {w} x, T {r} y, U [ROWS 6] z WHERE x.k = y.k AND y.k >= z.k",
    "SELECT Rstream(count(*) AS n) FROM S {w} x, T {r} y WHERE x.k = y.k AND x.v <> y.v",
)


class Play(SessionScript):
    """Without sharing every query has the default join."""

    def declared(self, shared: bool) -> ed.Session:
        self.routed = shared
        session = super().declared(shared)
        register = session.query

        def query(text: str, **options: Any) -> Any:
            if not self.routed:
                options = {n: v for n, v in options.items() if n not in ("joins", "index")}
            return register(text, **options)

        session.query = query  # type: ignore[method-assign]
        return session


def draw_script(seed: int) -> SessionScript:
    rng = random.Random(f"{SEED}/routed/{seed}")
    indexes = [draw_index(rng) for _ in range(rng.choice((1, 1, 2)))]

    def draw(rng: random.Random) -> tuple[str, dict[str, Any]]:
        text = rng.choice(TEXTS).format(w=rng.choice(WINDOWS), r=rng.choice(WINDOWS))
        return text, {"joins": "routes", "index": rng.choice(indexes)}

    slack, count = rng.choice((0, 0, 2, 6)), rng.choice((40, 90))
    rows: dict[str, list[Row]] = {}
    for name, many in {"S": count, "T": count, "U": count // 3}.items():
        made: list[Row] = [
            {"ts": t * count // (3 * many), "k": rng.choice((0, 0, 1, 2, 3, None)), "v": rng.choice((0, 1, 2, 3, None))}
            for t in range(many)
        ]
        rows[name] = sorted(made, key=lambda r: (r["ts"] or 0) + rng.randint(0, slack))
    return Play(rng, SCHEMA, rows, slack, draw, rng.choice((9, 30)))


def watch(session: ed.Session, seen: Counter[str]) -> None:
    joins = [o.task.operator for o in session._graph.operators if isinstance(o.task.operator, RoutedJoin)]
    seen["joins"] += len(joins)
    seen["shared modules"] += sum(len(view.shared.views) > 1 for join in joins for view in join.states)


def ordered(answers: dict[str, list[dict[str, Any]]]) -> dict[str, list[str]]:
    return {name: sorted(map(repr, rows)) for name, rows in answers.items()}


def test_queries_that_come_and_go_answer_as_with_the_default_join(tmp_path: Path) -> None:
    seen, alone = Counter[str](), Counter[str]()
    for seed in range(SESSIONS):
        script, rng = draw_script(seed), random.Random(seed)
        with ExitStack() as stack:
            stack.enter_context(any_machine(rng))
            if seed % 2:
                stack.enter_context(any_bits(rng))
            routed = script.play(True, tmp_path / str(seed), seen, watch)
        default = script.play(False, tmp_path / str(seed), alone, watch)
        for name, rows in ordered(routed).items():
            assert rows == ordered(default)[name], f"{SEED}/{seed} {name}"
    assert seen["joins"] > 20 * SESSIONS and seen["shared modules"] > 4 * SESSIONS and not alone["joins"]
