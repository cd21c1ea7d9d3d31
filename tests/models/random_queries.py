"""Random texts of queries on models, and the reference of those on stored segments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eddyline.models.program import Node, Source
from eddyline.plan.logical import ModelQuery, StreamScan
from eddyline.testing.interpolated import Interpolated, Row

SECOND = 1_000_000


class Texts:
    """Queries over the streams S and T, with keys k and n and values x and y. ``magnitude`` is that of the values,
    ``unit`` how widths are written; ``{}`` stands where ERROR WITHIN may. Levels are no values that an average of small
    whole numbers can have."""

    def __init__(self, rng: np.random.Generator, magnitude: float, unit: str) -> None:
        self.rng, self.magnitude, self.unit = rng, magnitude, unit

    def one(self, *of: str) -> str:
        return str(self.rng.choice(of))

    def number(self, off: float = 0.0) -> str:
        return repr((float(self.rng.choice([0, 0.5, 1, 2, -1, 3])) + off) * self.magnitude)

    def width(self, low: int, high: int) -> str:
        return f"{self.rng.integers(low, high)}{self.unit}"

    def term(self, *columns: str) -> str:
        v, w = self.one(*columns), self.one(*columns)
        number = self.number()
        return self.one(v, v, f"{v} - {w}", f"2 * {v} + {w}", f"{v} / 4", f"-{v} + {number}", f"{v} + {number}")

    def comparison(self, *columns: str) -> str:
        op = self.one("<", "<=", ">", ">=", "=", "<>", "<", ">")
        first, last, m = columns[0], columns[-1], self.magnitude
        match int(self.rng.integers(0, 8)):
            case 0:
                return f"sqrt({first} * {first} + {last} * {last}) {op} {float(self.rng.choice([1, 2, 4])) * m!r}"
            case 1:
                return f"{first} * {last} {op} {float(self.rng.choice([0, 0.5, 1, 2, -1])) * m * m!r}"
            case 2:
                return f"{self.one(*columns)} BETWEEN {-m!r} AND {2 * m!r}"
            case 3 | 4:
                return f"{self.term(*columns)} {op} {self.term(*columns)}"
            case _:
                return f"{self.term(*columns)} {op} {self.number()}"

    def condition(self, *columns: str, deep: int = 2) -> str:
        share = self.rng.random()
        if deep and share < 0.4:
            both = self.one("AND", "OR")
            return f"({self.condition(*columns, deep=deep - 1)} {both} {self.condition(*columns, deep=deep - 1)})"
        if deep and share < 0.5:
            return f"NOT ({self.condition(*columns, deep=deep - 1)})"
        return self.comparison(*columns)

    def query(self) -> list[str]:
        """The statements: views, and the query."""
        every, level = f"SAMPLE EVERY {self.width(1, 4)}", self.number(0.0123)
        slide = f"[RANGE {self.width(1, 12)} SLIDE {self.width(1, 5)}]"
        around = f"[RANGE {self.width(1, 12)}]"
        partial = self.one("", "", " PARTIAL")
        f, extreme, less = self.one("min", "max", "avg"), self.one("min", "max"), self.one("<", ">", "<=", ">=")
        on = self.one("a.k = b.k", "a.k < b.k", "a.k <> b.k AND a.n = b.n", "a.k = b.k AND a.n = b.n")
        pairs = f"{self.one('S a JOIN S b', 'S a JOIN T b')} ON {on}"
        two = "a.k, a.n, b.k AS k2, b.n AS n2"
        distance = "sqrt((a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y))"
        single = self.condition("x", "y", deep=1)
        lasting = single.replace(" = ", " < ").replace("<>", ">")
        a = self.term("x", "y")
        texts = (
            [f"SELECT k, n, {a} AS a, {self.term('x', 'y')} AS b FROM S WHERE {self.condition('x', 'y')} {{}} {every}"],
            [f"SELECT k, n, {a} AS a FROM S WHERE {self.condition('x', 'y')} AND n = 1 {{}} {every}"],
            [f"SELECT {two}, {self.term('a.x', 'b.x', 'a.y')} AS d FROM {pairs} "
             f"WHERE {self.condition('a.x', 'b.x', 'a.y')} {{}} {every}"],
            [f"SELECT {two}, c.k AS k3, c.n AS n3, a.x - b.x AS d, b.x + c.y AS e FROM S a, T b, S c WHERE {on} "
             f"AND b.k {self.one('=', '<')} c.k AND {self.condition('a.x', 'b.x', 'c.x', deep=1)} {{}} {every}"],
            [f"SELECT k, n, {f}({a}) AS m FROM S {slide} GROUP BY k, n{partial} {{}}"],
            [f"SELECT k, n, {f}({a}) AS m FROM S {around} GROUP BY k, n HAVING {f}(x) {less} {level}{partial} {{}} "
             f"{every}"],
            [f"SELECT n, {extreme}({a}) AS m FROM S WHERE {lasting} GROUP BY n {{}} {every}"],
            [f"SELECT {extreme}({a}) AS m, {extreme}(y) AS z FROM S {around}{partial} {{}} {every}"],
            [f"SELECT p.k, p.n, p.m - q.m AS d FROM (SELECT k, n, avg(x) AS m FROM S {slide} GROUP BY k, n) AS p JOIN "
             f"(SELECT k, n, {f}(x) AS m FROM S {slide} GROUP BY k, n) AS q ON p.k = q.k AND p.n = q.n "
             f"WHERE p.m - q.m {less} {level} {{}}"],
            [f"SELECT k, n, k2, n2, {extreme}(d) AS m FROM (SELECT {two}, {self.one('a.x - b.x', distance)} AS d "
             f"FROM {pairs}) {slide} GROUP BY k, n, k2, n2{partial} {{}}"],
            [f"SELECT k, n, a + 1 AS z FROM (SELECT k, n, {a} AS a, y FROM S WHERE {single}) WHERE a < y {{}} {every}"],
            [f"CREATE VIEW v AS SELECT k, n, {a} AS a, y FROM S WHERE {single}",
             f"SELECT k, n, a - y AS z FROM v WHERE a > {self.number()} {{}} {every}"],
        )  # fmt: skip
        return texts[int(self.rng.integers(len(texts)))]


class Stored(Interpolated):
    """The same of stored segments: of each stream rows with a key (k, n), ``begin``, ``end``, and coefficients of x and
    y, in order of their beginnings. A later one of a key cuts the one before it, and one that begins with it takes its
    place."""

    def __init__(self, plan: ModelQuery, segments: Mapping[str, Sequence[Row]]) -> None:
        self.plan, self.scale = plan, plan.program.scale
        self.by_key: list[dict[tuple[Any, Any], list[Row]]] = []
        for scan in plan.inputs:
            assert isinstance(scan, StreamScan)
            found: dict[tuple[Any, Any], list[Row]] = {}
            for row in segments[scan.stream]:
                before = found.setdefault((row["k"], row["n"]), [])
                if before and before[-1]["begin"] == row["begin"]:
                    before.pop()
                if before:
                    before[-1] = {**before[-1], "end": min(before[-1]["end"], row["begin"])}
                before.append(row)
            self.by_key.append(found)
        rows = [r for signals in self.by_key for rows in signals.values() for r in rows]
        self.edges = sorted({t for r in rows for t in (r["begin"], r["end"]) if r["end"] > r["begin"]})

    def _rows(self, node: Node, t: float) -> list[Row]:
        if not isinstance(node, Source):
            return super()._rows(node, t)
        scan = self.plan.inputs[node.input]
        assert isinstance(scan, StreamScan)
        found = []
        for (k, n), rows in self.by_key[node.input].items():
            for r in rows:
                if r["begin"] <= t < r["end"] and np.isfinite([*r["x"], *r["y"]]).all():
                    u = (t - r["begin"]) * self.scale
                    values = {v: float(np.polynomial.polynomial.polyval(u, r[v])) for v in "xy"}
                    found.append({f"{scan.alias}.{c}": v for c, v in {"k": k, "n": n, **values}.items()})
        return found

    def _cuts(self, low: float, high: float) -> list[float]:
        return [low, *(float(t) for t in self.edges if low < t < high), high]
