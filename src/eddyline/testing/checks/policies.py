"""Checks of policies: a suite for each kind of strategy, run on whatever ``streamon.strategies`` has."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.errors import JobError
from eddyline.engine.session import Session

# Importing the lines of ``eddyline strategies`` registers the strategies that the package has.
from eddyline.engine.strategies import strategy_lines as _strategy_lines  # noqa: F401
from eddyline.streamon.parameters import NamedChoice, Parameter
from eddyline.streamon.strategies import KINDS, Strategy, strategies, strategy, withdraw
from eddyline.testing.checks.cache_policies import cache_policy_checks
from eddyline.testing.checks.check import Check, named, require, run_all
from eddyline.testing.checks.filter_policies import filter_policy_checks
from eddyline.testing.checks.routing_policies import routing_policy_checks
from eddyline.testing.checks.schedulers import scheduler_checks
from eddyline.testing.checks.slack_policies import slack_policy_checks

# Parameters under which few rows suffice, by name; a policy gets those that it has.
QUICK: dict[str, Any] = {
    "p": 0.2, "burst": 0.5, "window": 100, "overhead": 0.5,
    "P": 0.2, "R": 60, "trial": 200, "control": 0.05, "confidence": 3.0,
    "interval": 1000, "W": 3, "W_d": 16, "period": 4,
    "periodic": 300, "triggered": 400, "partition": 40, "batch": 30, "collect": 50,
}  # fmt: skip

Checks = Iterator[tuple[str, Callable[[], None]]]


def policy_checks(kind: str, name: str) -> Iterator[Check]:
    """The checks of a registered strategy."""
    found = strategies(kind)[name]
    quick = {p.name: QUICK[p.name] for p in found.parameters if p.name in QUICK}
    make = partial(found.make, **quick)
    seeded = any(p.name == "seed" for p in found.parameters)
    yield from named(f"{kind} policy", name, _common(found))
    suites: dict[str, Callable[[], Checks]] = {
        "filters": lambda: filter_policy_checks(make, seeded),
        "joins": lambda: filter_policy_checks(make, seeded),
        "routing": lambda: routing_policy_checks(make, seeded),
        "caches": lambda: cache_policy_checks(make),
        "scheduler": lambda: scheduler_checks(make),
        "slack": lambda: slack_policy_checks(make),
    }
    if kind in suites:  # another kind has what all have
        yield from named(f"{kind} policy", name, suites[kind]())
    if kind in QUERIES and (kind, name) not in APPROXIMATE:
        yield Check(f"{kind} policy", name, "a query answers as without it", partial(_same_answers, found, quick))


def check_policy(kind: str, policy: str | Callable[..., Any]) -> int:
    """Check a policy: a registered name, or a class that is registered for as long as it is checked. How many checks
    there were; the first that fails raises ``CheckFailed``.

    >>> check_policy("scheduler", "fifo")
    5
    """
    if isinstance(policy, str):
        return run_all(policy_checks(kind, policy))
    name = str(policy.name)  # type: ignore[attr-defined]
    mine = name not in strategies(kind)
    if mine:
        strategy(kind)(policy)
    try:
        return run_all(policy_checks(kind, name))
    finally:
        if mine:
            withdraw(kind, name)


def all_policy_checks() -> Iterator[Check]:
    for kind in KINDS:
        for name in list(strategies(kind)):
            yield from policy_checks(kind, name)


# ── what all policies promise ─────────────────────────────────────────────────────────────────────────────────────────


def _common(found: Strategy) -> Checks:
    yield "parameters outside their bounds are refused", partial(_parameters, found)
    yield "is described", partial(_described, found)


def _parameters(found: Strategy) -> None:
    for p in found.parameters:
        default = found.defaults.get(p.name)
        if default is not None:
            accepted = found.checked({p.name: default})
            require(accepted == {p.name: default}, f"the default of {p.name!r}, {default}, is not accepted as it is")
        for value in _outside(p):
            require(_refused(found, {p.name: value}), f"{p.name!r} accepts {value!r}")
    require(_refused(found, {"no such parameter": 1}), "it accepts a parameter that it does not have")


def _outside(p: Parameter | NamedChoice) -> Iterator[Any]:
    yield from ("often", None, True, float("nan"), float("inf"))
    if isinstance(p, NamedChoice):
        return
    yield p.high + 1
    yield p.low - 1
    if p.whole:
        yield p.low + 0.5
    else:
        yield p.low


def _refused(found: Strategy, given: dict[str, Any]) -> bool:
    try:
        found.checked(given)
    except JobError:
        return True
    return False


def _described(found: Strategy) -> None:
    require(found.summary, "its docstring is empty: `eddyline strategies` has nothing to say about it")
    for p in found.parameters:
        require(p.trades, f"the parameter {p.name!r} does not say what it trades")


# ── whole queries ─────────────────────────────────────────────────────────────────────────────────────────────────────

ROWS, BATCH = 2_000, 125
JOIN = "SELECT Istream(R.v, T.v) FROM R [RANGE 20], S [RANGE 20], T [RANGE 20] WHERE R.a = S.a AND S.b = T.b"
FILTER = "SELECT Istream(v) FROM R WHERE is_small(a) AND is_odd(b) AND v % 3 = 1"
PLAIN = "SELECT a, count(*) AS n FROM R [RANGE 40] WHERE b < 30 GROUP BY a"
QUERIES: dict[str, tuple[str, dict[str, str]]] = {  # the text, and the options without the policy
    "filters": (FILTER, {"filters": "static"}),
    "routing": (FILTER, {}),
    "joins": (JOIN, {"joins": "static", "caches": "none"}),
    "caches": (JOIN, {"joins": "static", "caches": "none"}),
    "index": (JOIN, {"joins": "routes"}),
    "constraints": (JOIN, {"constraints": "off"}),
    "scheduler": (PLAIN, {"scheduler": "fifo"}),
}
APPROXIMATE = {("constraints", "lossy")}  # strategies that may change answers, which is said where they are described


def _start(kind: str, options: dict[str, str]) -> tuple[Session, Any]:
    random = np.random.default_rng(7)
    session = Session()
    for name in "RST" if kind in ("joins", "caches", "index", "constraints") else "R":
        phase = np.arange(ROWS) * 4 // ROWS  # the data change three times
        table = pa.table(
            {
                "ts": np.arange(ROWS) // 4,
                "a": random.integers(0, 30 + 10 * phase),
                "b": random.integers(0, 70 - 15 * phase),
                "v": np.arange(ROWS),
            }
        )
        session.stream(name, table.to_batches(max_chunksize=BATCH), timestamp="ts")
    session.function("is_small", lambda a: a < 15)
    session.function("is_odd", lambda b: b % 2 == 1)
    return session, session.query(QUERIES[kind][0], **options)


def _rows(batches: list[pa.RecordBatch], schema: pa.Schema) -> list[Any]:
    return sorted(map(str, pa.Table.from_batches(batches, schema).to_pylist()))


def _same_answers(found: Strategy, quick: dict[str, Any]) -> None:
    kind, baseline = found.kind, QUERIES[found.kind][1]
    session, query = _start(kind, baseline)
    want = _rows(query.to_arrow().to_batches(), query.schema)
    require(want, "the example query has no results")
    parameters = ", ".join(f"{name}={value}" for name, value in quick.items())
    text = f"{found.name}({parameters})" if parameters else found.name
    options = {**baseline, kind: text}
    session, query = _start(kind, options)
    got = query.to_arrow().to_batches()
    require(_rows(got, query.schema) == want, f"the query has other results with {kind} = {text!r}")

    session, query = _start(kind, options)
    streams = len(session.catalog.streams)
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(streams * (ROWS // BATCH) // 2):
            session.step()
        got = query.fetch()
        session.snapshot(folder)
        session, query = _start(kind, options)
        session.restore(folder)
        got += query.to_arrow().to_batches()
    require(_rows(got, query.schema) == want, f"restored from a snapshot, the query has other results with {text!r}")
