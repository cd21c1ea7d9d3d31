"""The random cases can fail: each small mistake put into the engine must be found within a few dozen of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from importlib import import_module
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from eddyline.core.window import Range, Rows, Slide
from eddyline.engine import closing, input_manager, relation_changes, time_line
from eddyline.operators import join_side, look_up, match, membership, mjoin, rstream, seq_window, sets, streams, windows
from eddyline.plan import physical
from eddyline.plan.deletions import Deletions
from eddyline.synopses import key_counts
from eddyline.testing.case_queries import Focus
from eddyline.testing.cases import draw_case
from tests.semantics.engine import Way, mismatch, run_engine

MOST_CASES = 320  # cases
Patch = tuple[Any, str, Any]
leave_times, enter_times, net = windows.leave_times, windows.enter_times, streams.net


def of_windows(name: str, function: Callable[..., Any]) -> list[Patch]:
    return [(seq_window, name, function), (join_side, name, function)]


def leave_early(spec: Any, ts: Any) -> Any:
    return ts + spec.width if isinstance(spec, Range) else leave_times(spec, ts)


def leave_slide_late(spec: Any, ts: Any) -> Any:
    """Closed on both ends."""
    slide = isinstance(spec, Slide)
    return (ts + spec.width) // spec.slide * spec.slide + spec.slide if slide else leave_times(spec, ts)


def plus_first(delta: Any) -> Any:
    return delta.take(np.lexsort((delta.weights < 0, delta.time)))


def one_row_more(init: Callable[..., None]) -> Callable[..., None]:
    return lambda self, name, schema, spec, *rest: init(self, name, schema, Rows(spec.count + 1), *rest)


def without_residual(init: Callable[..., None]) -> Callable[..., None]:
    return lambda self, name, inputs, graph, residual, *rest: init(self, name, inputs, graph, (), *rest)


def without_key(init: Callable[..., None]) -> Callable[..., None]:
    def made(self: Any, definition: Any, *rest: Any, **options: Any) -> None:
        init(self, replace(definition, key=()), *rest, **options)

    return made


def own_ticks_only(ticks: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, scans, frontier: ticks(self, scans[:1], frontier)


def without_slides(ticks: Callable[..., Any]) -> Callable[..., Any]:
    def made(self: Any, scans: Any, frontier: int) -> Any:
        self.steps = ()
        return ticks(self, scans, frontier)

    return made


def less_slack(divert: Callable[..., Any]) -> Callable[..., Any]:
    def made(self: Any, batch: Any, time: Any) -> Any:
        self.watermark.slack -= 1
        try:
            return divert(self, batch, time)
        finally:
            self.watermark.slack += 1

    return made


def end_early(inputs: Any, reached: int | None) -> int | None:
    found = closing.frontier(inputs, reached)
    return found - 1 if found is not None and all(i.finished for i in inputs) else found


def start_late(readers: Any, frontier: int | None) -> int | None:
    found = closing.start(readers, frontier)
    return None if found is None else found + 1


def null_is_found(self: Any, left: Any, n: int) -> Any:
    columns = [key(left.columns, n) for key in self.keys]
    return self.table.find(columns, n) >= 0 if columns else np.full(n, len(self.table) > 0)


def as_of_the_end(at: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, columns, time: at(self, columns, np.full(len(time), np.iinfo(np.int64).max))


def before_the_instant(at: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, columns, time: at(self, columns, time - 1)


class NoneAtArrivals:
    NONE = AT_ARRIVALS = Deletions.NONE
    ALL = Deletions.ALL


MUTATIONS: dict[str, tuple[Focus | None, list[Patch]]] = {
    "a range expires at ts + w": (None, of_windows("leave_times", leave_early)),
    "a slide is closed": (Focus("project", "slide", "rstream"), of_windows("leave_times", leave_slide_late)),
    "+ before −": (None, [(streams, "minus_first", plus_first), (streams, "net", lambda d, s: plus_first(net(d, s)))]),
    "nothing is netted": (None, [(streams, "net", lambda delta, schema: delta)]),
    "n + 1 rows": (
        Focus("project", "rows", "none"),
        [(seq_window.RowsWindow, "__init__", one_row_more(seq_window.RowsWindow.__init__))],
    ),
    "semijoin for antijoin": (
        Focus("antijoin", "range", "none"),
        [(match, "KINDS", {**match.KINDS, "semi": match.KINDS["anti"], "anti": match.KINDS["semi"]})],
    ),
    "equal timestamps of derived streams as they come": (
        Focus("aggregate", "rows", "istream"),
        [(streams.OrderTies, "process", lambda self, deltas, frontier: deltas[0])],
    ),
    "deletions never show": (Focus("project", "range", "istream"), [(physical, "cannot_cancel", lambda *_: True)]),
    "no deletions at arrivals": (Focus("project", "range", "istream"), [(physical, "Deletions", NoneAtArrivals)]),
    "less slack": (
        None,
        [(input_manager.InputStream, "_divert_late", less_slack(input_manager.InputStream._divert_late))],
    ),
    "nothing is late": (None, [(input_manager.InputStream, "_divert_late", lambda *_: None)]),
    "time ends too early": (None, [(time_line, "closed", end_early)]),
    "time starts too late": (Focus("aggregate", "range", "none"), [(time_line, "start_of_time", start_late)]),
    "the ticks of one stream": (
        Focus("binary-join", "range", "rstream"),
        [(rstream.RStream, "_ticks", own_ticks_only(rstream.RStream._ticks))],
    ),
    "no ticks at slides": (
        Focus("project", "slide", "rstream"),
        [(rstream.RStream, "_ticks", without_slides(rstream.RStream._ticks))],
    ),
    "EXCEPT ALL for EXCEPT": (
        Focus("except", "range", "none"),
        [(sets, "KINDS", {**sets.KINDS, ("except", False): sets.KINDS["except", True]})],
    ),
    "INTERSECT ALL for INTERSECT": (
        Focus("intersect", "range", "none"),
        [(sets, "KINDS", {**sets.KINDS, ("intersect", False): sets.KINDS["intersect", True]})],
    ),
    "filters below tuple-based windows": (
        Focus("select", "rows", "none"),
        [(import_module("eddyline.plan.rules.push_below_windows"), "is_time_based", lambda spec: True)],
    ),
    "no residual condition": (
        Focus("binary-join", "range", "none"),
        [(mjoin.MJoin, "__init__", without_residual(mjoin.MJoin.__init__))],
    ),
    "a key that does not replace": (
        Focus("binary-join", "unbounded", "none"),
        [(relation_changes.RelationChanges, "__init__", without_key(relation_changes.RelationChanges.__init__))],
    ),
    "NULL is IN a relation with NULL": (
        Focus("semijoin", "unbounded", "none"),
        [(membership, "_valid", lambda columns: None)],
    ),
    "NULL has a partner in a relation with NULL": (
        Focus("outer-join", "unbounded", "none"),
        [(look_up.LookUp, "_found", null_is_found)],
    ),
    "a window as it will be": (
        Focus("semijoin", "now", "rstream"),
        [(key_counts.KeyCounts, "at", as_of_the_end(key_counts.KeyCounts.at))],
    ),
    "a window as it was": (
        Focus("semijoin", "now", "istream"),
        [(key_counts.KeyCounts, "at", before_the_instant(key_counts.KeyCounts.at))],
    ),
    "NOT IN a window with NULL": (
        Focus("antijoin", "now", "none"),
        [(key_counts.Tally, "at", lambda self, time: np.zeros(len(time), np.int64))],
    ),
}


def first_difference(focus: Focus | None) -> int | None:
    """The number of the case that shows a mistake."""
    for i in range(MOST_CASES):
        case = draw_case(random.Random(f"mutation/{i}"), focus)
        expected = case.expected()
        try:
            if mismatch(case, expected, run_engine(case, Way(i))) is not None:
                return i
        except (ValueError, IndexError, KeyError):  # some mistakes break an invariant that the engine looks at itself
            return i
    return None


@pytest.mark.parametrize("mistake", MUTATIONS)
def test_a_mistake_is_found(mistake: str) -> None:
    focus, patches = MUTATIONS[mistake]
    with ExitStack() as stack:
        for target, name, value in patches:
            stack.enter_context(patch.object(target, name, value))
        assert first_difference(focus) is not None
