"""Random continuous queries as CQL text.

A query is drawn around a *focus*: an operator of Table 2.1, a window and a relation-to-stream operator that it should
contain. The rest is drawn freely. The text goes through the binder like any user's.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from eddyline.core.time import TimeKind
from eddyline.testing.case_aggregates import aggregate_block, grouped
from eddyline.testing.case_as_of import as_of_block
from eddyline.testing.case_blocks import Block, Scale, Source
from eddyline.testing.case_expressions import Attribute, Expressions, Type
from eddyline.testing.case_memberships import membership_block
from eddyline.testing.case_over import over_block
from eddyline.testing.case_ranks import ranked_block
from eddyline.testing.case_windows import CLOSING_WINDOWS, WINDOWS, window_text

OPERATORS: Final = (
    "select",
    "project",
    "binary-join",
    "mjoin",
    "outer-join",
    "union",
    "union-all",
    "except",
    "except-all",
    "intersect",
    "intersect-all",
    "semijoin",
    "antijoin",
    "aggregate",
    "duplicate-eliminate",
    "top-n",
)
SET_OPERATORS: Final = OPERATORS[5:11]
TO_STREAM: Final = ("istream", "dstream", "rstream", "none")
# With windows that close there is a second plane of cases.
CLOSING_TO_STREAM: Final = ("istream", "dstream", "rstream", "wstream", "none")

STREAMS: Final = ("S", "T", "U", "V")
STREAM_COLUMNS: Final[tuple[tuple[str, Type], ...]] = (
    ("ts", "int"),
    ("a", "int"),
    ("b", "int"),
    ("x", "double"),
    ("s", "string"),
)
EXPIRY: Final[tuple[tuple[str, Type], ...]] = (("u", "int"),)  # when an element expires, where a case has that
RELATIONS: Final = {"K": "constant", "P": "KEY", "Q": "SIGN", "B": "KEY and SIGN", "R": "insertions"}
RELATION_COLUMNS: Final[tuple[tuple[str, Type], ...]] = (("k", "int"), ("v", "int"), ("w", "string"))


@dataclass(frozen=True, slots=True)
class Focus:
    """What a case should contain, and operators that would be welcome inside."""

    operator: str
    window: str
    to_stream: str
    welcome: tuple[str, ...] = OPERATORS


@dataclass(slots=True)
class QueryWriter:
    """Draws one query; ``used`` lists the streams and relations it reads."""

    rng: random.Random
    focus: Focus
    scale: Scale
    plain: bool = False
    views: dict[str, str] = field(default_factory=dict)
    used: list[str] = field(default_factory=list)
    sources: int = 0
    windows: int = 0
    drawn: str = ""  # the kind of the last window
    approximate: bool = False  # aggregates have a declared error
    expressions: Expressions = field(init=False)

    def __post_init__(self) -> None:
        self.expressions = Expressions(self.rng)

    # -- the whole query ---------------------------------------------------------------------------------------

    def query(self) -> str:
        body = self.body(self.focus.operator, depth=0)
        kind = self.focus.to_stream
        if kind == "none":
            return body.text() if isinstance(body, Block) else body
        kind = kind.capitalize()
        if isinstance(body, str):
            return f"{kind}({body})"
        if self.rng.random() < 0.3:
            return f"{kind}({body.text()})"
        if not body.distinct:
            return f"SELECT {kind}({body.listed()}) {body.tail}"
        if self.rng.random() < 0.5:
            return f"SELECT {kind}(DISTINCT {body.listed()}) {body.tail}"
        return f"SELECT DISTINCT {kind}({body.listed()}) {body.tail}"

    def body(self, operator: str, depth: int) -> Block | str:
        """A query that contains the operator: a block, or the text of a set operation."""
        match operator:
            case "select":
                return self.select_block(depth, conjuncts=self.rng.randint(1, 3), plain=True)
            case "project":
                return self.select_block(depth, conjuncts=self.rng.choice([0, 0, 1]), plain=False)
            case "duplicate-eliminate":
                block = self.select_block(depth, conjuncts=self.rng.choice([0, 1]), plain=self.rng.random() < 0.6)
                return replace(block, items=block.items[: self.rng.randint(1, 2)], distinct=True)
            case "binary-join":
                return self.join_block(2, depth)
            case "mjoin":
                return self.join_block(self.rng.choice([3, 3, 3, 4]), depth)
            case "outer-join":
                return self.outer_join_block(depth)
            case "semijoin" | "antijoin":
                return membership_block(self, operator == "antijoin", depth)
            case "aggregate":
                return aggregate_block(self, depth)
            case "approximate":
                self.approximate = True
                return aggregate_block(self, depth)
            case "top-n":
                return ranked_block(self, depth)
            case "as-of-join":
                return as_of_block(self, depth)
            case "over":
                return over_block(self, depth)
            case _:
                return self.set_operation(operator, depth)

    @property
    def columns(self) -> tuple[tuple[str, Type], ...]:
        """Those of a stream."""
        columns = STREAM_COLUMNS + EXPIRY if self.scale.expiring else STREAM_COLUMNS
        return tuple((n, self.time if n in ("ts", "u") else t) for n, t in columns)

    @property
    def time(self) -> Type:
        return "time" if self.timestamps else "int"

    @property
    def closing(self) -> bool:
        return self.focus.window in CLOSING_WINDOWS

    @property
    def timestamps(self) -> bool:
        return self.scale.kind is TimeKind.TIMESTAMP

    # -- sources -----------------------------------------------------------------------------------------------

    def window(self, kind: str | None = None, columns: Sequence[str] = ("a", "s")) -> str:
        """A window in brackets: first the focus' kind, then any, so that one case covers several cells."""
        if kind is None:
            pool = (*WINDOWS, *CLOSING_WINDOWS) if self.closing else WINDOWS
            kind = self.focus.window if self.windows == 0 or self.rng.random() < 0.3 else self.rng.choice(pool)
            if kind == "until" and "u" not in columns:
                kind = "hop"
        self.windows += 1
        self.drawn = kind
        return window_text(kind, columns, self.scale, self.rng)

    def edges(self) -> tuple[tuple[str, Type], ...]:
        """The columns of the window that was drawn last, now and then."""
        if not self.closing or self.drawn not in ("tumble", "hop", "session", "slide") or self.rng.random() < 0.35:
            return ()
        return ("window_start", self.time), ("window_end", self.time)

    def alias(self) -> str:
        self.sources += 1
        return f"p{self.sources - 1}"

    def stream(self, window: str | None = None) -> Source:
        name = self.rng.choice(STREAMS[: self.rng.choice([2, 3, 4])])
        self.used.append(name)
        alias = self.alias()
        edges: tuple[tuple[str, Type], ...] = ()
        if window is None:
            window = self.window(columns=("a", "s", "u") if self.scale.expiring else ("a", "s"))
            edges = self.edges()
        parts = [name, window, alias] if self.rng.random() < 0.8 else [name, alias, window]
        return Source(" ".join(p for p in parts if p), alias, (*self.columns, *edges), ordered=True)

    def relation(self) -> Source:
        name = self.rng.choice(["K", "K", *("K" if self.plain else RELATIONS)])
        self.used.append(name)
        alias = self.alias()
        return Source(f"{name} {alias}", alias, RELATION_COLUMNS)

    def source(self, depth: int, nested: float = 0.4) -> Source:
        return self.derived(depth + 1) if depth < 1 and self.rng.random() < nested else self.stream()

    def derived(self, depth: int) -> Source:
        """A subquery in FROM: a relation as it is, or a window on its stream."""
        welcome = self.focus.welcome if self.rng.random() < 0.7 else OPERATORS
        operator = self.rng.choice([o for o in welcome if o != "mjoin"] or ["project"])
        if not self.plain and self.rng.random() < 0.08:
            operator = self.rng.choice(["as-of-join", "over"])
        body = self.body(operator, depth)
        items = body.items if isinstance(body, Block) else self._set_items
        columns = tuple((f"c{i}", t) for i, (_, t) in enumerate(items))
        text = body.text() if isinstance(body, Block) else body
        alias = self.alias()
        if self.rng.random() < 0.5:
            return Source(f"{self.named(text)} {alias}", alias, columns)
        if isinstance(body, Block) and not body.distinct and self.rng.random() < 0.5:
            kind = self.rng.choice(["Istream", "Dstream", "Rstream", *(["Wstream"] if self.closing else [])])
            text = f"SELECT {kind}({body.listed()}) {body.tail}"
        window = self.window(columns=[n for n, _ in columns])
        return Source(f"{self.named(text)} {window} {alias}", alias, (*columns, *self.edges()), ordered=True)

    def named(self, text: str) -> str:
        """A subquery in parentheses, or the name of a view of it."""
        if self.plain or self.rng.random() < 0.7:
            return f"({text})"
        name = f"view{len(self.views)}"
        self.views[name] = text
        return name

    # -- blocks ------------------------------------------------------------------------------------------------

    def where(self, conjuncts: Sequence[str]) -> str:
        return f" WHERE {' AND '.join(conjuncts)}" if conjuncts else ""

    def items(self, scope: Sequence[Attribute], plain: bool, most: int = 3) -> tuple[tuple[str, Type], ...]:
        count = self.rng.randint(1, most)
        stamps = [(c.text, c.type) for c in scope if c.text.endswith(".ts")]
        if plain and stamps and self.rng.random() < 0.25:  # a planner may think that these tell all rows apart
            return tuple(stamps)
        if plain:
            chosen = self.rng.sample(list(scope), min(count, len(scope)))
            return tuple((c.text, c.type) for c in chosen)
        types: list[Type] = [self.rng.choice(["int", "int", "double", "string"]) for _ in range(count)]
        return tuple((self.expressions.value(scope, t), t) for t in types)

    def select_block(self, depth: int, conjuncts: int, plain: bool) -> Block:
        # Now and then no window at all: the default for streams.
        bare = depth == 0 and self.focus.window == "unbounded" and self.rng.random() < 0.4
        source = self.stream(window="") if bare else self.source(depth)
        scope = source.scope()
        conditions = [self.expressions.predicate(scope) for _ in range(conjuncts)]
        if depth == 0 and not self.plain and self.rng.random() < 0.1:
            conditions.append(self.compared_with_aggregate(scope))
        return Block(self.items(scope, plain), f"FROM {source.text}{self.where(conditions)}")

    def compared_with_aggregate(self, scope: Sequence[Attribute]) -> str:
        """A condition with a subquery as a value."""
        other = self.stream()
        mine = [c.text for c in scope if c.type in ("int", "double") and not c.text.endswith(".ts")] or ["1"]
        value = f"{self.rng.choice(['max', 'min', 'avg', 'sum', 'count'])}({other.alias}.{self.rng.choice('abx')})"
        where = f" WHERE {self.expressions.predicate(other.scope(), 1)}" if self.rng.random() < 0.4 else ""
        sign = self.rng.choice(["<=", ">", "<>", ">="])
        return f"{self.rng.choice(mine)} {sign} (SELECT {value} FROM {other.text}{where})"

    def windowless(self, sources: list[Source]) -> None:
        """Now and then the first source is a stream without a window: each of its elements is judged once."""
        if not self.plain and self.rng.random() < 0.12:
            sources[0] = self.stream(window="")

    def suffix(self) -> str:
        """The window of all streams behind the query, where the focus is on one that can stand there."""
        self.windows += 1
        match self.focus.window:
            case "rows":
                return f" WINDOW {self.rng.randint(1, 6)}"
            case "range":
                return f" WINDOW {self.scale.width(self.rng.randint(1, 15), self.rng, bare=False)}"
            case _:
                return ""

    def equality(self, left: Source, right: Source) -> list[str]:
        """One or two equated columns of the same type, keys from small domains; seldom none."""
        pairs = [
            f"{x.text} = {y.text}"
            for x in left.scope()
            for y in right.scope()
            if x.type == y.type and x.type != "double" and not x.text.endswith(".ts") and not y.text.endswith(".ts")
        ]
        if not pairs or self.rng.random() < 0.05:
            return []
        natural = [p for p in pairs if len({side.split(".")[1] for side in p.split(" = ")}) == 1]
        chosen = [self.rng.choice(natural or pairs)]
        if self.rng.random() < 0.25:
            chosen.append(self.rng.choice(pairs))
        return list(dict.fromkeys(chosen))

    def residual(self, scope: Sequence[Attribute]) -> list[str]:
        if self.rng.random() < 0.6:
            return []
        numbers = [c.text for c in scope if c.type == "int"] or ["1"]
        left, right = self.rng.choice(numbers), self.rng.choice(numbers)
        return [self.rng.choice([f"{left} <= {right}", f"{left} + 1 > {right}", f"{left} <> {right} + 2"])]

    def join_block(self, inputs: int, depth: int) -> Block:
        suffix = self.suffix() if depth == 0 and not self.plain and self.rng.random() < 0.15 else ""
        if suffix:
            sources = [self.stream(window="") for _ in range(inputs)]
        else:
            sources = [self.source(depth, nested=0.3 if inputs == 2 else 0.1) for _ in range(inputs)]
            self.windowless(sources)
        if self.rng.random() < 0.2:
            sources[-1] = self.relation()
        star = self.rng.random() < 0.4
        conditions: list[str] = []
        joins = [sources[0].text]
        written_join = inputs == 2 and self.rng.random() < 0.4
        for i in range(1, inputs):
            equal = self.equality(sources[0 if star else i - 1], sources[i])
            if written_join and equal:
                joins.append(f" JOIN {sources[i].text} ON {' AND '.join(equal)}")
            else:
                joins.append(f", {sources[i].text}")
                conditions += equal
        scope = [c for s in sources for c in s.scope()]
        conditions += self.residual(scope)
        if self.rng.random() < 0.3:
            conditions.append(self.expressions.predicate(scope, 1))
        self.rng.shuffle(conditions)
        tail = f"FROM {''.join(joins)}{self.where(conditions)}{suffix}"
        if not suffix and self.rng.random() < 0.15:
            return grouped(self, scope, tail, ordered=False)
        return Block(self.items(scope, plain=self.rng.random() < 0.8, most=4), tail, self.rng.random() < 0.2)

    def outer_join_block(self, depth: int) -> Block:
        left, right = self.source(depth, nested=0.3), self.source(depth, nested=0.15)
        if self.rng.random() < 0.15:
            right = self.relation()
        scope = left.scope() + right.scope()
        on = self.equality(left, right) + self.residual(scope) or ["1 = 1"]
        kind = self.rng.choice(["LEFT", "RIGHT", "FULL", "LEFT OUTER"])
        conditions = [self.expressions.predicate(scope, 1)] if self.rng.random() < 0.3 else []
        tail = f"FROM {left.text} {kind} JOIN {right.text} ON {' AND '.join(on)}{self.where(conditions)}"
        return Block(self.items(scope, plain=self.rng.random() < 0.8, most=4), tail, self.rng.random() < 0.2)

    # -- set operations ----------------------------------------------------------------------------------------

    _set_items: tuple[tuple[str, Type], ...] = ()

    def set_operation(self, operator: str, depth: int) -> str:
        word = operator.upper().replace("-", " ")
        types: list[Type] = [self.rng.choice(["int", "int", "string", "double"]) for _ in range(self.rng.randint(1, 2))]
        sides = [self.side(types, depth) for _ in range(2)]
        text = f"{sides[0]} {word} {sides[1]}"
        if depth == 0 and self.rng.random() < 0.4:
            other = self.rng.choice([o for o in self.focus.welcome if o in SET_OPERATORS] or SET_OPERATORS)
            text = f"({text}) {other.upper().replace('-', ' ')} {self.side(types, depth)}"
        self._set_items = tuple(("", t) for t in types)
        return text

    def side(self, types: Sequence[Type], depth: int) -> str:
        source = self.source(depth, nested=0.2)
        if self.rng.random() < 0.08:
            source = self.relation()
        scope = source.scope()
        items = []
        for t in types:
            same = [c.text for c in scope if c.type == t and not c.text.endswith(".ts")]
            items.append((self.rng.choice(same) if same else self.expressions.value(scope, t, 1), t))
        conditions = [self.expressions.predicate(scope, 1)] if self.rng.random() < 0.3 else []
        return Block(tuple(items), f"FROM {source.text}{self.where(conditions)}").text()
