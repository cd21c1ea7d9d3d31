"""Statistics of a router, by class: rows, selectivities and routes, for explain and heat maps. No policy reads them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from eddyline.adaptive.routing.policy import Outputs
from eddyline.core.delta import Float64s, Int64s
from eddyline.streamon.wording import in_units

_ROWS_UNTIL_HALF = 16384  # rows after which the past counts half
_ROWS_REMEMBERED = 4096  # the last rows, whose routes are counted
CLASSES_SHOWN = 12  # in explain, at most


class RouteHistory:
    """Rows in and out by attribute, class and conjunct, the past fading; the routes of the last rows.

    >>> history = RouteHistory(attributes=1, d=3, conjuncts=2)
    >>> orders, outputs = np.array([[0, 1], [1, 0], [1, 0]]), np.array([[1, 1], [-1, 0], [1, 1]], np.int8)
    >>> history.add(np.array([[0], [2], [2]]), orders, outputs)
    >>> history.table(0, ["a", "b", "c"])
    {'classes': ['a', 'c'], 'rows': [1, 2], 'selectivity': [[1.0, 1.0], [1.0, 0.5]], 'routes': [[0, 1], [1, 0]]}
    """

    def __init__(self, attributes: int, d: int, conjuncts: int) -> None:
        self.shape = (attributes, d, conjuncts)
        self.rows: Float64s = np.zeros((attributes, d))
        self.shown: Float64s = np.zeros(self.shape)
        self.passed: Float64s = np.zeros(self.shape)
        self._seen = 0.0
        self._routes: deque[tuple[Int64s, Int64s]] = deque()  # classes and orders of the last sub-batches
        self._kept = 0

    def add(self, classes: Int64s, orders: Int64s, outputs: Outputs) -> None:
        attributes, d, n = self.shape
        if self._seen > _ROWS_UNTIL_HALF:
            for counts in (self.rows, self.shown, self.passed):
                counts /= 2
            self._seen /= 2
        self._seen += len(orders)
        asked, passed = (outputs >= 0).astype(np.float64), np.maximum(outputs, 0).astype(np.float64)
        for a in range(attributes):
            column = classes[:, a]
            there = np.flatnonzero(column >= 0)
            if not len(there):
                continue
            inside = column[there]
            self.rows[a] += np.bincount(inside, minlength=d)
            for f in range(n):
                self.shown[a, :, f] += np.bincount(inside, asked[there, f], minlength=d)
                self.passed[a, :, f] += np.bincount(inside, passed[there, f], minlength=d)
        self._routes.append((classes, orders))
        self._kept += len(orders)
        while self._kept - len(self._routes[0][1]) >= _ROWS_REMEMBERED:
            self._kept -= len(self._routes.popleft()[1])

    def usual(self, initial: Int64s) -> list[int]:
        """The order that most of the last rows took."""
        routes = Counter(tuple(o) for _, orders in self._routes for o in orders.tolist())
        return list(routes.most_common(1)[0][0]) if routes else initial.tolist()

    def table(self, attribute: int, labels: list[str]) -> dict[str, Any]:
        """The classes of an attribute that rows had: their selectivities by conjunct, and the route that most took."""
        seen = np.flatnonzero(self.rows[attribute] >= 0.5).tolist()
        routes: dict[int, Counter[tuple[int, ...]]] = {}
        for classes, orders in self._routes:
            for number, order in zip(classes[:, attribute].tolist(), orders.tolist(), strict=True):
                routes.setdefault(number, Counter())[tuple(order)] += 1
        shown, passed = self.shown[attribute], self.passed[attribute]
        return {
            "classes": [labels[c] or f"class {c}" for c in seen],
            "rows": [round(float(self.rows[attribute, c])) for c in seen],
            "selectivity": [
                [None if i < 0.5 else round(float(o / i), 6) for o, i in zip(passed[c], shown[c], strict=True)]
                for c in seen
            ],
            "routes": [list(routes[c].most_common(1)[0][0]) if c in routes else None for c in seen],
        }

    def state(self) -> dict[str, Any]:
        counts = {"rows": self.rows.copy(), "shown": self.shown.copy(), "passed": self.passed.copy()}
        return {**counts, "seen": self._seen}

    def load(self, state: Mapping[str, Any]) -> None:
        """Routes are those of rows that this eddy will see."""
        self.rows, self.shown, self.passed = (np.array(state[n]) for n in ("rows", "shown", "passed"))
        self._seen = float(state["seen"])
        self._routes.clear()
        self._kept = 0


def explain_lines(s: Mapping[str, Any], pruned: Mapping[str, str], joins: bool = False) -> list[str]:
    """Lines for explain from a router's statistics. ``joins``: operators are relations, and bring partners."""
    lines = [f"routed by the policy {s['policy']}, {s['rows']:,} rows in sub-batches of {s['size']:,}"]
    for f, text in enumerate(s["filters"]):
        passes, price, by = s["selectivity"][f], s["seconds_per_row"][f], s["classifiers"][f]
        known = "not evaluated yet" if passes is None else matched(passes, s["asked"][f], joins)
        cost = "" if not price else f", {in_units(price)} a row"
        classifier = "" if by is None else f", by {', '.join(by)}"
        lines.append(f"O{f + 1}. {text}: {known}{cost}{classifier}{', keeps its place' if f in s['pinned'] else ''}")
    used = list(dict.fromkeys(a for by in s["classifiers"] for a in by or ()))
    for name in used:
        table = s["by_class"][name]
        lines.append(f"by {name}:")
        order = sorted(range(len(table["classes"])), key=lambda c: -table["rows"][c])
        for c in order[:CLASSES_SHOWN]:
            shares = ", ".join(
                "–" if x is None else f"{x:.2f}" if joins else f"{x:.0%}" for x in table["selectivity"][c]
            )
            each = f"matches per row {shares}" if joins else f"pass rates {shares}"
            lines.append(f"  {table['classes'][c]}: {_route(table['routes'][c])}; {each}")
        if len(order) > CLASSES_SHOWN:
            lines.append(f"  and {len(order) - CLASSES_SHOWN} more classes")
    if not used:
        lines.append(f"no classifier; most rows go {_route(s['order'])}")
    if s["attributes"]:
        lines.append(f"may classify: {', '.join(a for a in s['attributes'] if a not in pruned) or 'nothing'}")
    if pruned:
        lines.append(f"do not: {', '.join(f'{name} ({why})' for name, why in pruned.items())}")
    return lines


def matched(out: float, asked: int, joins: bool) -> str:
    """What an operator makes of a row: the share that a filter passes, the partners that a relation has."""
    return f"{out:.2f} matches per row, {asked:,} look-ups" if joins else f"passes {out:.1%} of {asked:,} rows"


def _route(order: list[int] | None) -> str:
    return "no rows of late" if order is None else " → ".join(f"O{f + 1}" for f in order)
