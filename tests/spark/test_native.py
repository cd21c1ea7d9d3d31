"""What Spark computes natively means what the engine means: random expressions over random rows, both ways."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline as ed
from eddyline.cql import bind
from eddyline.expr.evaluate import compile_expr
from eddyline.expr.functions import TypeMismatch, resolve
from eddyline.expr.nodes import Call, Case, Cast, Column, Expr, Literal, columns_of, walk
from eddyline.expr.predicates import Conjunction
from eddyline.expr.types import castable, type_name
from eddyline.plan.logical import Select
from eddyline.plan.traverse import walk as plan_walk
from eddyline.spark.native import _COMPARISONS, _FUNCTIONS, native, to_column
from eddyline.spark.types import from_spark, made_of_ntz, to_engine, to_spark, with_ntz
from tests.expr.build import call, lit, same

F = pytest.importorskip("pyspark.sql.functions")

NAN, INF = math.nan, math.inf
TS = pa.timestamp("us")
POOLS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [True, False, None]),
    "tiny": (pa.int8(), [0, 1, -1, 3, 127, -128, None]),
    "n": (pa.int32(), [0, 1, -1, 2, 7, 2**31 - 1, -(2**31), None]),
    "big": (pa.int64(), [0, 1, -1, 3, -7, 100, 2**53 + 1, 2**63 - 1, -(2**63), None]),
    "f": (pa.float32(), [0.0, -0.0, 0.5, 1.5, -2.5, 16777216.0, 0.1, NAN, INF, -INF, None]),
    "x": (pa.float64(), [0.0, -0.0, 0.5, 2.5, -2.5, 0.1, 1e10, -1e300, 9.3e18, NAN, INF, -INF, None]),
    "y": (pa.float64(), [0.0, -0.0, 0.5, 2.5, 1e-300, 4.0, NAN, INF, None]),
    "d": (pa.decimal128(6, 2), [Decimal("0.00"), Decimal("1.25"), Decimal("-7.55"), Decimal("9999.99"), None]),
    "s": (pa.string(), ["", "a", "ab", "Ab c", " a ", "b\n", "x%_y", "é😀z", "ﬀ", "\U0010ffff", "a\\b", "\t", None]),
    "u": (pa.string(), ["", "a", "b", "Ab", "😀", "%", "a b", "ba", None]),
    "raw": (pa.binary(), [b"", b"a", b"\xff\x00", b"\x7f", None]),
    "day": (pa.date32(), [dt.date(1970, 1, 1), dt.date(2024, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31), None]),
    "at": (TS, [dt.datetime(1970, 1, 1), dt.datetime(2024, 3, 10, 2, 30, 0, 161718), dt.datetime(1960, 1, 1, 1), None]),
    "clock": (TS, [dt.datetime(1970, 1, 1), dt.datetime(2024, 3, 10, 2, 30), dt.datetime(1, 1, 1, 0, 0, 0, 1), None]),
    "span": (pa.duration("us"), [dt.timedelta(0), dt.timedelta(days=1), dt.timedelta(microseconds=-1500), None]),
}  # fmt: skip
NTZ = frozenset({"clock"})
SCHEMA = with_ntz(pa.schema([(n, type) for n, (type, _) in POOLS.items()]), NTZ)
ROWS = 150
LITERALS = {pa.int64(): [0, 1, 2, -3, 5, None], pa.string(): ["", "a", "%b_", "\\%%", "b", " ", None]}
NAMES = sorted({*_FUNCTIONS, *_COMPARISONS, "and", "or", "in", "if", "nullif", "cast", "case"})


def rows(rng: random.Random) -> pa.Table:
    return pa.table(
        [pa.array([rng.choice(values) for _ in range(ROWS)], type) for type, values in POOLS.values()],
        names=list(POOLS),
    )


class Expressions:
    """Random typed expressions that grow from columns and literals; only those that Spark takes are kept."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.known: dict[pa.DataType, list[Expr]] = {}
        for name, (type, values) in POOLS.items():
            self.known.setdefault(type, []).append(Column(name, type))
            more = LITERALS.get(type, self.rng.sample(values, 2))
            self.known[type] += [Literal(v, type) for v in more]

    def some(self, type: pa.DataType | None = None) -> Expr:
        if type is None:
            type = self.rng.choice(list(self.known))
        known = self.known[type]
        return self.rng.choice(known[:6] if self.rng.random() < 0.5 else known)

    def draw(self, name: str) -> Expr | None:
        if name == "cast":
            operand, target = self.some(), self.rng.choice([*self.known, pa.decimal128(12, 3), pa.int16()])
            return Cast(operand, target) if castable(operand.type, target) else None
        if name == "case":
            type = self.rng.choice(list(self.known))
            branches = tuple((self.some(pa.bool_()), self.some(type)) for _ in range(self.rng.randint(1, 2)))
            return Case(branches, self.some(type), type)
        first = self.some()
        others = [self.some(first.type if self.rng.random() < 0.7 else None) for _ in range(self.rng.randint(0, 3))]
        try:
            r = resolve(name, [a.type for a in (first, *others)])
        except TypeMismatch:
            return None
        pairs = zip((first, *others), r.arguments, strict=True)
        return Call(r.function, tuple(a if a.type == want else Cast(a, want) for a, want in pairs), r.returns)

    def natives(self, each: int) -> list[Expr]:
        """So many of every function, of casts and of CASE; a function without any would be a mistake in the list."""
        found: dict[Expr, str] = {}
        for turn in range(each):
            for name in NAMES:
                drawn = (self.draw(name) for _ in range(2000 if turn else 20_000))
                new = (e for e in drawn if e is not None and columns_of(e) and e not in found and native(e, NTZ))
                e = next(new, None)
                if e is not None:
                    found[e] = name
                    if len(list(walk(e))) < 12:
                        self.known.setdefault(e.type, []).append(e)
        assert set(found.values()) == set(NAMES)
        return list(found)


def test_random_expressions_give_the_same_values(spark: Any, tmp_path: Path) -> None:
    rng = random.Random(7)
    table = rows(rng)
    frame = frame_of(spark, table, tmp_path)
    expressions = Expressions(11).natives(2)
    columns = {n: table.column(n).combine_chunks() for n in table.column_names}
    for start in range(0, len(expressions), 120):
        part = expressions[start : start + 120]
        got = select(frame, part)
        for i, e in enumerate(part):
            wanted = compile_expr(e)(columns, ROWS).to_pylist()
            found = got.column(i).to_pylist()
            wrong = [(w, g) for w, g in zip(wanted, found, strict=True) if not same(w, g)]
            assert not wrong, (e, type_name(e.type), wrong[:3])


def test_comparisons_of_floats_survive_the_statistics_of_files(spark: Any, tmp_path: Path) -> None:
    """Parquet's statistics ignore NaN and tell the zeros apart: what is pushed down must not ask them about these."""
    groups = [[1.0, NAN, 2.0], [1.0, NAN, 1.0], [-0.0] * 3, [0.0] * 3, [None, 7.0, -INF]]
    for i, values in enumerate(groups):
        pq.write_table(pa.table({"x": pa.array(values, pa.float64())}), tmp_path / f"{i}.parquet")
    column = pa.array([v for g in groups for v in g], pa.float64())
    frame = spark.read.parquet(str(tmp_path))
    session = ed.Session()
    session.stream("S", pa.table({"x": column, "t": range(len(column))}), timestamp="t")
    conditions = [conjuncts(session, text) for text in FLOAT_CONDITIONS]
    wanted = [int(Conjunction(c).evaluate({"S.x": column}, len(column)).keep.sum()) for c in conditions]
    made = [[to_column(e, {"S.x": F.col("x")}) for e in c] for c in conditions]
    kept = [frame.where(reduce(and_, c)).select(F.lit(i).alias("i")) for i, c in enumerate(made)]
    found = Counter(row["i"] for row in reduce(lambda a, b: a.union(b), kept).collect())
    assert [found[i] for i in range(len(wanted))] == wanted
    small = frame.where(made[FLOAT_CONDITIONS.index("x < 1.5")][0])
    assert "LessThan(x,1.5)" in small._jdf.queryExecution().executedPlan().toString()


FLOAT_CONDITIONS = [
    "x > 5", "x >= 5", "x <> 1", "x = 0", "x >= 0", "x <= -0.0", "x IN (0, 2)", "NOT x <= 5", "x BETWEEN -0.0 AND 0.5",
    "5 < x", "CASE WHEN x <= 5 THEN FALSE ELSE TRUE END", "x < 1.5", "x = 1 OR x > 5", "NOT (x = 1 OR x < 0)",
    "x <=> 0", "NULLIF(x, 0) IS NULL", "x NOT IN (1, 7)", "x = x", "-x < 0",
]  # fmt: skip


def conjuncts(session: ed.Session, condition: str) -> tuple[Expr, ...]:
    plan = bind(f"SELECT x FROM S WHERE {condition}", session.catalog).plan
    return next(n.conjuncts for n in plan_walk(plan) if isinstance(n, Select))


def test_what_stays_in_python() -> None:
    x, s, at, clock = Column("x", pa.float64()), Column("s", pa.string()), Column("at", TS), Column("clock", TS)
    n = Column("n", pa.int64())
    for e in (
        call("add", n, n),  # overflows
        call("divide", x, x),  # by zero
        Cast(s, pa.int64()),
        call("upper", s),
        call("rlike", s, lit("a.*")),
        call("exp", x),
        call("hour", at),
        Cast(at, pa.string()),
        Cast(x, pa.string()),
        call("lt", at, clock),
        call("greatest", x, x),
    ):
        assert native(e, NTZ) is None, e
    assert native(call("hour", clock), NTZ) is not None
    assert native(call("lt", clock, lit(dt.datetime(2024, 1, 1), TS)), NTZ) is not None


def frame_of(spark: Any, table: pa.Table, folder: Path) -> Any:
    """Through a file: Spark would compute over a local table in its optimizer, without its generated code."""
    pq.write_table(with_instants(table), folder / "rows.parquet")
    return spark.read.parquet(str(folder / "rows.parquet"))


def with_instants(table: pa.Table) -> pa.Table:
    at = table.schema.get_field_index("at")
    table = table.set_column(at, "at", table.column("at").cast(pa.timestamp("us", "UTC")))
    # Parquet has no durations; Spark reads the number back as one.
    span = table.schema.get_field_index("span")
    return table.set_column(span, "span", table.column("span").cast(pa.int64()))


def named(frame: Any) -> Any:
    micros = F.col("span")
    seconds = F.floor(micros / 1_000_000).cast("decimal(20,6)") + F.pmod(micros, F.lit(1_000_000)) / F.lit(
        Decimal(1_000_000)
    )
    return frame.withColumn("span", F.make_dt_interval(F.lit(0), F.lit(0), F.lit(0), seconds.cast("decimal(18,6)")))


def select(frame: Any, expressions: Sequence[Expr]) -> pa.Table:
    frame = named(frame)
    made = [to_column(e, {n: F.col(n) for n in POOLS}, NTZ) for e in expressions]
    result = frame.select(*(c.alias(f"e{i}") for i, c in enumerate(made) if c is not None))
    marked = {f"e{i}" for i, e in enumerate(expressions) if made_of_ntz([e], NTZ)}
    wanted = with_ntz(pa.schema([(f"e{i}", e.type) for i, e in enumerate(expressions)]), marked)
    assert result.schema.simpleString() == to_spark(wanted).simpleString()
    return pa.Table.from_batches([to_engine(b, from_spark(result.schema)) for b in result.toArrow().to_batches()])
