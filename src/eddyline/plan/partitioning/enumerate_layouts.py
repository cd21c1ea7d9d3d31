"""Which dimensions are correct: how the rows below each node may lie along one axis of shards.

Bottom-up, every node has a list of *layouts*. A layout says for each scan below how its rows lie (by a column, ``ANY``
or copied) and what follows for the node: it is *copied* (every coordinate has all of it) or *split* (every row is at
exactly one coordinate). The *visible* columns of a split node are those whose hash is the coordinate: rows that agree
in one of them meet. A rule keeps the layouts in which each shard, knowing only its rows, makes exactly its rows of the
result.

Ways that look right and are wrong:

- *A node that is copied below one that is split does no harm, so a global aggregate may be copied and joined*: it may;
  but ``Rstream`` of something copied may not: it emits rows at the instants of all inputs, and those of a split input
  are not known to every shard.
- *Rows of an outer join lie by the equated columns of both sides*: those of the padded side are NULL.
- *IN finds its partner where the values are equal, so both sides may be split by them*: a NULL anywhere else makes IN
  unknown instead of false. That is right only where the difference does not matter (a semijoin).
- *Equal columns have equal hashes*: 1 and 1.0 have not. Only casts that widen a number keep its hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa

from eddyline.core.catalog import Catalog
from eddyline.core.window import PartitionRows, Rows, Session
from eddyline.expr.describe import describe, describe_aggregate
from eddyline.expr.nodes import Call, Column
from eddyline.plan.closing_windows import own_sessions
from eddyline.plan.conjuncts import bare_mark
from eddyline.plan.deletions import cannot_net
from eddyline.plan.graph import alias_of
from eddyline.plan.logical import (
    Aggregate,
    AsOfJoin,
    Distinct,
    Explode,
    Join,
    MarkJoin,
    ModelQuery,
    OuterJoin,
    Over,
    Plan,
    Project,
    Rank,
    RelationScan,
    Select,
    SetOperation,
    StreamScan,
    ToStream,
    Window,
    WithArrivals,
    is_stream,
)
from eddyline.plan.partitioning.grid import ANY, Choice
from eddyline.plan.partitioning.layout import (
    Layout,
    Scans,
    best,
    classes,
    closure,
    hashed_like,
    lying_by,
    met,
    projected,
)
from eddyline.plan.partitioning.model_places import layouts_of_models
from eddyline.plan.partitioning.momentary import momentary
from eddyline.plan.partitioning.places import Places
from eddyline.plan.partitioning.unpredictable import unpredictable
from eddyline.plan.traverse import each


class Layouts:
    """``choices`` are the correct dimensions of a plan; ``obstacles`` says what stood in their way at some node where
    nothing remains split, ``hints`` what would have helped."""

    def __init__(self, catalog: Catalog, places: Places) -> None:
        self.catalog, self.places = catalog, places
        self._next = 0  # the place of the next scan, where each has its own
        self._known: dict[int, list[Layout]] = {}  # by number of a node, where equal ones have the same places
        self.obstacles: list[str] = []
        self.hints: list[str] = []

    def choices(self, plan: Plan) -> list[Choice]:
        if all(isinstance(n, RelationScan) and n.constant for n in each(plan) if _is_scan(n)):
            self.obstacles.append("only constant relations are read, at one instant")
            return []
        for function in unpredictable(plan):
            self.obstacles.append(f"{function} is declared as not deterministic, and shards would not agree on it")
            return []
        found = self.of(plan)
        if not is_stream(plan):
            found = self.netted(plan, found, "the changes that are shown")
        return list(dict.fromkeys(x.choice for x in found if x.visible is not None))

    def of(self, p: Plan) -> list[Layout]:
        if not self.places.shared:
            return self.found(p)
        number = self.places.numbers.of(p)
        if number not in self._known:
            self._known[number] = self.found(p)
        return self._known[number]

    def place(self, p: StreamScan | RelationScan) -> int:
        """Scans are asked about from left to right."""
        if self.places.shared:
            return self.places.by_number[self.places.numbers.of(p)]
        self._next += 1
        return self._next - 1

    def found(self, p: Plan) -> list[Layout]:
        match p:
            case StreamScan():
                return self.stream_scan(p)
            case RelationScan():
                return self.relation_scan(p)
            case Window():
                return self.window(p)
            case Select():
                return self.select(p)
            case Project():
                return [projected(p, x) for x in self.of(p.input)]
            case Join():
                return self.join(p)
            case OuterJoin():
                return self.outer_join(p)
            case MarkJoin():
                return self.mark_join(p)
            case Aggregate():
                return self.aggregate(p)
            case Distinct():
                obstacle = "DISTINCT must see equal rows together, and no column of its rows determines their shard"
                return self.kept(self.of(p.input), Layout.meets, obstacle)
            case Explode() | WithArrivals():
                return self.of(p.input)
            case Rank():
                return self.rank(p)
            case SetOperation():
                return self.set_operation(p)
            case AsOfJoin():
                return self.as_of_join(p)
            case Over():
                return self.over(p)
            case ModelQuery():
                return self.model_query(p)
            case ToStream():
                return self.to_stream(p)

    def kept(self, given: Sequence[Layout], may: Callable[[Layout], bool], obstacle: str) -> list[Layout]:
        """Copied layouts, and the split ones that may stay."""
        found = [x for x in given if x.visible is None or may(x)]
        return self.best_of(given, found, obstacle)

    def best_of(self, given: Iterable[Layout], found: list[Layout], obstacle: str) -> list[Layout]:
        """The best of the layouts found. If an input was split and no layout found is, the obstacle is recorded."""
        had = any(x.visible is not None for x in given)
        if had and not any(x.visible is not None for x in found) and obstacle not in self.obstacles:
            self.obstacles.append(obstacle)
        return best(found)

    # ── scans and windows ─────────────────────────────────────────────────────────────────────────────────────────

    def stream_scan(self, p: StreamScan) -> list[Layout]:
        definition = self.catalog.streams.get(p.stream.lower())
        place = self.place(p)
        anywhere = Layout(frozenset(), (ANY,), places=(place,))
        if definition is None:
            return [anywhere]  # late(q), invalid(q): made inside the shards, as they fall
        columns = _preferred(p, definition.timestamp)
        if definition.unique:  # an element must meet the one whose key it repeats
            key = definition.unique[0]
            chosen = [c for c in columns if c in key] or [
                c for c in key if not pa.types.is_nested(definition.schema[c].type)
            ][:1]
            hint = f"{definition.name} is split by a column of its key only, or copied: UNIQUE ({', '.join(key)})"
            if len(chosen) < len(columns) and hint not in self.hints:
                self.hints.append(hint)
            return [*(lying_by(p, c, place) for c in chosen), Layout(None, (None,), places=(place,))]
        return [anywhere, *(lying_by(p, c, place) for c in columns), Layout(None, (None,), places=(place,))]

    def relation_scan(self, p: RelationScan) -> list[Layout]:
        """A replacement must find what it replaces, and a deletion the row that it deletes."""
        definition = self.catalog.relations[p.relation.lower()]
        apart = (definition.timestamp, definition.sign)
        allowed = definition.key or tuple(n for n in definition.schema.names if n not in apart)
        columns = [c for c in _preferred(p, definition.timestamp) if c in allowed]
        if not columns:
            columns = [c for c in allowed if not pa.types.is_nested(definition.schema[c].type)][:1]
        place = self.place(p)
        return [*(lying_by(p, c, place) for c in columns), Layout(None, (None,), places=(place,))]

    def window(self, p: Window) -> list[Layout]:
        given = self.of(p.input)
        match p.spec:
            case Rows():
                obstacle = f"{alias_of(p)} {p.spec} counts the elements of the whole stream"
                return self.kept(given, lambda x: False, obstacle)
            case PartitionRows(columns=columns):
                obstacle = f"{alias_of(p)} {p.spec} counts elements that no column puts into one shard"
                return self.kept(given, lambda x: x.meets(columns), obstacle)
            case Session(columns=columns):
                obstacle = f"{alias_of(p)} {p.spec} makes sessions of elements that no column puts into one shard"
                return self.kept(given, lambda x: x.meets(columns), obstacle)
            case _:
                return given  # whether an element is in a window of time depends on the element alone

    # ── row by row ────────────────────────────────────────────────────────────────────────────────────────────────

    def select(self, p: Select) -> list[Layout]:
        equal = classes(p.conjuncts)
        if isinstance(p.input, MarkJoin) and bare_mark(p) == "semi":
            given = self.semijoin(p.input)
        else:
            given = self.of(p.input)
        return [x.closed(equal) for x in given]

    # ── joins ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def join(self, p: Join) -> list[Layout]:
        """A row of the result is where all its parts are: at one coordinate if the split ones agree on it."""
        equal = classes(p.conjuncts)
        sides = [self.of(i) for i in p.inputs]
        found = sides[0]
        for side in sides[1:]:
            pairs = [met(x, y, equal) for x in found for y in side]
            found = best([x for x in pairs if x is not None])
        obstacle = (
            f"the join of {', '.join(map(alias_of, p.inputs))} has no equality of columns, and none can be copied"
        )
        return self.best_of([x for s in sides for x in s], [x.closed(equal) for x in found], obstacle)

    def outer_join(self, p: OuterJoin) -> list[Layout]:
        """Each row that is kept must meet all its partners, or it would be padded where it has none."""
        equal = classes(p.conjuncts)
        lefts, rights = self.of(p.left), self.of(p.right)
        found = []
        for x, y, scans in _pairs(lefts, rights):
            if x.visible is None and y.visible is None:
                found.append(Layout(None).on(scans))
            elif y.visible is None and p.kind == "left":
                found.append(x.on(scans))
            elif x.visible is None and p.kind == "right":
                found.append(y.on(scans))
            elif x.visible and y.visible and closure(x.visible, equal) & y.visible:
                both = Layout(frozenset(), sides=(x.visible, y.visible))
                kept = {"left": x, "right": y, "full": both}[p.kind]  # the other side's columns may be padded
                found.append(kept.on(scans))
        obstacle = (
            f"the {p.kind.upper()} JOIN of {alias_of(p.left)} and {alias_of(p.right)} needs rows and partners together"
        )
        return self.best_of((*lefts, *rights), found, obstacle)

    def mark_join(self, p: MarkJoin) -> list[Layout]:
        """The mark of a row needs all rows that the correlation admits; IN looks at their NULLs, too."""
        equal = classes(p.on)
        lefts, rights = self.of(p.left), self.of(p.right)
        found = [
            x.on(scans)
            for x, y, scans in _pairs(lefts, rights)
            if y.visible is None or (x.visible and closure(x.visible, equal) & y.visible)
        ]
        return self.best_of((*lefts, *rights), found, _must_see_all(p))

    def semijoin(self, p: MarkJoin) -> list[Layout]:
        """Rows with a partner: where the partners are is enough. A copied left row finds all its partners at one
        coordinate or none, if they are split by a column that is equal to one of its own."""
        pairs = tuple(Call("eq", pair, pa.bool_()) for pair in p.operands)
        equal = classes((*p.on, *pairs))
        lefts, rights = self.of(p.left), self.of(p.right)
        mine = frozenset(p.left.schema.names)
        found = []
        for x, y, scans in _pairs(lefts, rights):
            if y.visible is None:
                found.append(x.on(scans))
                continue
            reached = closure(y.visible, equal) & mine
            if x.visible is None and reached:
                found.append(Layout(reached).on(scans))
            elif x.visible is not None and reached & x.visible:
                found.append(Layout(x.visible | reached).on(scans))
        return self.best_of((*lefts, *rights), found, _must_see_all(p))

    def as_of_join(self, p: AsOfJoin) -> list[Layout]:
        """An element must meet all that could be its partner: the nearest one is not known before."""
        types = p.schema
        pairs = tuple(Call("eq", (Column(a, types[a].type), Column(b, types[b].type)), pa.bool_()) for a, b in p.keys)
        equal = classes(pairs)
        lefts, rights = self.of(p.left), self.of(p.right)
        found = [
            x.on(scans)
            for x, y, scans in _pairs(lefts, rights)
            if y.visible is None or (x.visible and closure(x.visible, equal) & y.visible)
        ]
        obstacle = (
            f"the ASOF JOIN of {alias_of(p.left)} and {alias_of(p.right)} has no equality, and every row is a partner"
        )
        return self.best_of((*lefts, *rights), found, obstacle)

    def model_query(self, p: ModelQuery) -> list[Layout]:
        """Segments of a signal are together; whether signals must meet depends on the program."""
        given = [self.of(i) for i in p.inputs]
        found, obstacle = layouts_of_models(p, given)
        return self.best_of([x for layouts in given for x in layouts], found, obstacle)

    # ── aggregates and sets ───────────────────────────────────────────────────────────────────────────────────────

    def aggregate(self, p: Aggregate) -> list[Layout]:
        given = self.of(p.input)
        keys = [(n, hashed_like(e)) for n, e in p.keys]
        read = [old for _, old in keys if old is not None]
        found = [x.renamed(keys) for x in given if x.visible is None or x.meets(read)]
        if p.grouped:
            obstacle = f"no input is split by a column of GROUP BY {', '.join(describe(e) for _, e in p.keys)}"
        else:
            calls = ", ".join(describe_aggregate(a) for _, a in p.aggregates) or "an aggregate"
            obstacle = f"{calls} without GROUP BY is over all rows"
        return self.best_of(given, found, obstacle)

    def rank(self, p: Rank) -> list[Layout]:
        """A rank is known where all rows of the partition are."""
        if p.partition:
            obstacle = (
                f"{p.function.upper()}() must see its partition together, and no input is split by a column of it"
            )
        else:
            obstacle = f"ORDER BY … LIMIT and {p.function.upper()}() without PARTITION BY rank all rows"
        return self.kept(self.of(p.input), lambda x: x.meets(p.partition), obstacle)

    def over(self, p: Over) -> list[Layout]:
        """The rows around an element are known where all rows of the partition are."""
        if p.partition:
            obstacle = "OVER (…) must see its partition together, and no input is split by a column of it"
        else:
            obstacle = "OVER (…) without PARTITION BY counts the elements of the whole stream"
        return self.kept(self.of(p.input), lambda x: x.meets(p.partition), obstacle)

    def set_operation(self, p: SetOperation) -> list[Layout]:
        """Equal rows of both sides must meet, but for ``UNION ALL``, which does not look at them."""
        lefts, rights = self.of(p.left), self.of(p.right)
        names = tuple(zip(p.left.schema.names, p.right.schema.names, strict=True))
        same = [y.renamed(names) for y in rights]
        found = [z for x, y, scans in _pairs(lefts, same) if (z := _combined(p, x, y, scans)) is not None]
        obstacle = f"{p.kind.upper()}{' ALL' if p.all else ''} must see equal rows of both sides together"
        if p.kind == "union" and p.all:
            obstacle = "UNION ALL of something that is split and something that every shard has would repeat the latter"
        return self.best_of((*lefts, *rights), found, obstacle)

    # ── streams ───────────────────────────────────────────────────────────────────────────────────────────────────

    def to_stream(self, p: ToStream) -> list[Layout]:
        given = self.of(p.input)
        if p.kind in ("istream", "dstream"):
            return self.netted(p.input, given, p.kind.capitalize())
        if momentary(p.input):
            return given
        if p.kind == "wstream":
            if not own_sessions(p.input):
                return given  # windows of regular steps close at the same instants in every shard
            obstacle = "Wstream repeats its rows when any session closes, and a shard does not know those of the others"
            return self.best_of(given, [], obstacle)
        obstacle = (
            "Rstream repeats its rows at the instants of every input, which a shard does not know;"
            " only rows of [NOW] windows are gone by then"
        )
        return self.best_of(given, [], obstacle)  # not even copied: the shards would emit rows at different instants

    def netted(self, p: Plan, given: Sequence[Layout], who: str) -> list[Layout]:
        """What leaves and what enters at one instant cancel where they are equal, so equal rows must meet."""
        if cannot_net(p, self.catalog):
            return list(given)
        obstacle = (
            f"{who} must see equal rows together, since one that leaves cancels one that enters;"
            " no column of the result determines their shard"
        )
        found = self.kept(given, Layout.meets, obstacle)
        self.regret(p, given, found)
        return found

    def regret(self, p: Plan, given: Sequence[Layout], found: Sequence[Layout]) -> None:
        """Say what the result would have to keep for less to be copied, or for anything to be split at all."""
        scans = self.places.scans
        below = max((len(x.places) for x in given), default=0)
        fewest = min((_copied(x, scans) for x in found if x.visible is not None), default=below)
        for x in sorted((x for x in given if x.visible is not None and not x.meets()), key=lambda x: _copied(x, scans)):
            pairs = zip(x.places, x.choice, strict=True)
            columns = [f"{scans[place].alias}.{c}" for place, c in pairs if c not in (None, ANY)]
            if columns and _copied(x, scans) < fewest:
                less = " with less copied" if any(y.visible is not None for y in found) else ""
                self.hints.append(f"if the result kept {columns[0]}, it could be split by it{less}")
                return


def _must_see_all(p: MarkJoin) -> str:
    return f"{'IN' if p.operands else 'EXISTS'} for {alias_of(p.left)} must see all of {alias_of(p.right)}"


def _copied(x: Layout, scans: Sequence[StreamScan | RelationScan]) -> int:
    """How many inputs are shipped to every coordinate."""
    pairs = ((c, scans[place]) for place, c in zip(x.places, x.choice, strict=True))
    return sum(c is None and not (isinstance(n, RelationScan) and n.constant) for c, n in pairs)


def _pairs(lefts: Sequence[Layout], rights: Sequence[Layout]) -> Iterator[tuple[Layout, Layout, Scans]]:
    """What can be combined: how the scans below both sides lie."""
    for x in lefts:
        for y in rights:
            scans = x.beside(y)
            if scans is not None:
                yield x, y, scans


def _combined(p: SetOperation, x: Layout, y: Layout, scans: Scans) -> Layout | None:
    """A set operation of two layouts, both in the left side's names; None where equal rows would not meet."""
    left, right = x.visible, y.visible
    if left is None and right is None:
        return Layout(None).on(scans)
    if left is not None and right is not None:
        common = left & right
        if p.kind == "union":
            return Layout(common).on(scans) if common or p.all else None
        return Layout(left | right if p.kind == "intersect" else left).on(scans) if common else None
    # One side is complete everywhere: then the other alone decides where a row of the result is.
    if right is None and x.meets() and p.kind in ("except", "intersect"):
        return x.on(scans)
    return y.on(scans) if left is None and y.meets() and p.kind == "intersect" else None


def _is_scan(p: Plan) -> bool:
    return isinstance(p, StreamScan | RelationScan)


def _preferred(p: StreamScan | RelationScan, timestamp: str | None) -> list[str]:
    """Columns to split by, those that spread rows well first: all rows of an instant have one timestamp, and a
    Boolean has two values."""
    pairs = [(f.type, c) for f, c in zip(p.schema, p.columns, strict=True) if not pa.types.is_nested(f.type)]
    pairs.sort(key=lambda pair: (pair[1] == timestamp, pa.types.is_boolean(pair[0]), pa.types.is_floating(pair[0])))
    return list(dict.fromkeys(c for _, c in pairs))
