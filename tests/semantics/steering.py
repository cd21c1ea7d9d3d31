"""Random statements that steer a running query: what they change may never show in its answer."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import eddyline as ed
from tests.semantics.engine import HASTY, JOINS, ROUTES

SCHEDULERS = ("fifo", "greedy", "chain(period=2)")
MEMORY = ("0 B", "1 kB", "64 kB", "64 MB", None)
CACHES = (
    "none",
    "global(interval=300, W=3, W_d=16, m=12)",
    "prefix(interval=300, W=3, W_d=16)",
    "global(interval=200, W=1, W_d=8, threshold=0.001)",
)
LONG_ORDERS = ("default", "static", "a-greedy", "sweep", "independent", "local-swaps")


def options(rng: random.Random, long: bool) -> dict[str, Any]:
    """What ALTER QUERY may set; ``long`` for joins that run for thousands of elements."""
    if long:
        return rng.choice(
            [
                {"joins": rng.choice(LONG_ORDERS)},
                {"caches": rng.choice(CACHES)},
                {"joins": rng.choice(LONG_ORDERS), "caches": rng.choice(CACHES)},
                {"memory": rng.choice(MEMORY)},
                {"joins": None, "caches": None},
                {"scheduler": rng.choice(SCHEDULERS)},
            ]
        )
    return rng.choice(
        [
            {"filters": rng.choice(HASTY)},
            {"filters": "static"},
            {"filters": None},
            {"routing": rng.choice(ROUTES)},
            {"routing": None},
            {"strict_order": rng.choice([True, False])},
            dict(rng.choice(JOINS)),
            {"joins": None, "caches": None},
            {"memory": rng.choice(MEMORY)},
            {"scheduler": rng.choice(SCHEDULERS)},
        ]
    )


def steer(session: ed.Session, query: Any, rng: random.Random, did: Counter[str], *, long: bool = False) -> None:
    """One random change, by statement or by method; refusals must be sentences, and are counted."""
    what = rng.choice(["alter", "alter", "alter", "pin", "unpin", "undo", "undo", "sharing"])
    try:
        if what == "alter":
            query.alter(**options(rng, long))
        elif what == "sharing":
            session.sharing = not session.sharing
        elif what == "undo":
            made = [d for d in query.decisions if d.applied and d.operator]
            if not made:
                return
            query.undo(rng.choice(made[-4:]).sequence)
        else:
            session.execute(f'{what.upper()} QUERY "{query.name}"')
    except ed.JobError as error:
        assert str(error).rstrip().endswith((".", "^")), error
        did[f"{what} refused"] += 1
    else:
        did[what] += 1
