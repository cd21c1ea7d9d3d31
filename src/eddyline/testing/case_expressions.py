"""Random scalar expressions and predicates as CQL text, over columns of known types.

They never fail on any data of the generator (no division by zero, no overflow, no failing cast): errors have tests of
their own, and a random query should say something about windows and joins.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Type = Literal["int", "double", "string", "time"]


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column that an expression may use, as it is written (``p0.a``)."""

    text: str
    type: Type


class Expressions:
    """Draws expressions. Small domains on purpose, so that equal values and groups are frequent."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def literal(self, type_: Type) -> str:
        match type_:
            case "int":
                return str(self.rng.randint(-1, 4))
            case "double":
                return self.rng.choice(["0.5", "-0.25", "1.0", "2.75"])
            case "string":
                return self.rng.choice(["'u'", "'v'", "'w'", "''"])
            case "time":
                return f"TIMESTAMP '1970-01-01 00:00:{self.rng.randint(0, 20):02}'"

    def value(self, scope: Sequence[Attribute], type_: Type, depth: int = 2) -> str:
        """An expression of the given type."""
        columns = [c.text for c in scope if c.type == type_]
        if type_ == "time" or depth == 0 or self.rng.random() < 0.35:
            return self.rng.choice(columns) if columns and self.rng.random() < 0.85 else self.literal(type_)

        def sub(of: Type) -> str:
            return self.value(scope, of, depth - 1)

        if self.rng.random() < 0.2:
            condition = self.predicate(scope, depth - 1)
            return f"CASE WHEN {condition} THEN {sub(type_)} ELSE {self.rng.choice([sub(type_), 'NULL'])} END"
        if self.rng.random() < 0.15:
            return self.rng.choice(
                [
                    f"COALESCE({sub(type_)}, {self.literal(type_)})",
                    f"NULLIF({sub(type_)}, {self.literal(type_)})",
                    f"GREATEST({sub(type_)}, {sub(type_)})",
                    f"LEAST({sub(type_)}, {sub(type_)})",
                ]
            )
        match type_:
            case "int":
                return self.rng.choice(
                    [
                        f"({sub('int')} + {sub('int')})",
                        f"({sub('int')} - {sub('int')})",
                        f"({sub('int')} * 2)",
                        f"({sub('int')} % 3)",
                        f"ABS({sub('int')})",
                        f"(-({sub('int')}))",
                        f"LENGTH({sub('string')})",
                        f"({sub('int')} DIV NULLIF({sub('int')}, 0))",
                    ]
                )
            case "double":
                return self.rng.choice(
                    [
                        f"({sub('double')} + {sub('double')})",
                        f"({sub('double')} * 0.5)",
                        f"({sub('int')} / 2)",
                        f"CAST({sub('int')} AS DOUBLE)",
                        f"ROUND({sub('double')})",
                        f"ABS({sub('double')})",
                        f"(-({sub('double')}))",
                    ]
                )
            case "string":
                return self.rng.choice(
                    [
                        f"CONCAT({sub('string')}, {sub('string')})",
                        f"UPPER({sub('string')})",
                        f"SUBSTRING({sub('string')}, 1, 1)",
                        f"CAST({sub('int')} AS STRING)",
                        f"({sub('string')} || 'z')",
                    ]
                )

    def predicate(self, scope: Sequence[Attribute], depth: int = 2) -> str:
        """A condition; most hold for most rows."""
        choice = self.rng.random()
        if depth > 0 and choice < 0.12:
            return f"({self.predicate(scope, depth - 1)} OR {self.predicate(scope, depth - 1)})"
        if depth > 0 and choice < 0.18:
            return f"NOT ({self.predicate(scope, depth - 1)})"
        if depth > 0 and choice < 0.22:
            return f"({self.predicate(scope, depth - 1)} AND {self.predicate(scope, depth - 1)})"
        column = self.rng.choice([c for c in scope if not c.text.endswith(".ts")] or list(scope))
        c = column.text if choice < 0.75 else self.value(scope, column.type, min(depth, 1))
        if self.rng.random() < 0.2:
            return self.rng.choice([f"{c} IS NOT NULL", f"{c} IS NULL", f"{c} IS NOT NULL"])
        match column.type:
            case "int":
                return self.rng.choice(
                    [
                        f"{c} >= {self.rng.randint(-1, 2)}",
                        f"{c} <= {self.rng.randint(2, 5)}",
                        f"{c} <> {self.rng.randint(0, 4)}",
                        f"{c} BETWEEN 0 AND {self.rng.randint(1, 4)}",
                        f"{c} IN (1, 2, {self.rng.choice(['3', 'NULL', '0'])})",
                        f"{c} NOT IN (0, {self.rng.choice(['3', '4'])})",
                        f"{c} <> {self.value(scope, 'int', 0)}",
                        f"{c} <= {self.value(scope, 'int', 0)}",
                    ]
                )
            case "time":
                return self.rng.choice([f"{c} >= {self.literal('time')}", f"{c} <> {self.literal('time')}"])
            case "double":
                return self.rng.choice([f"{c} > -0.5", f"{c} < 2.5", f"{c} >= 0.25", f"{c} <> 1.0", f"{c} < 100"])
            case "string":
                return self.rng.choice(
                    [
                        f"{c} <> 'u'",
                        f"{c} LIKE '%'",
                        f"{c} LIKE '_%'",
                        f"{c} IN ('u', 'v')",
                        f"{c} >= 'v'",
                        f"{c} < 'w'",
                    ]
                )
