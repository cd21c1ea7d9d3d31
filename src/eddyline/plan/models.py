"""From a bound query to a query on models: operator by operator, as Pulse transforms a plan (2.5).

The binder reads a query on models like any other, with modelled values as columns of doubles. Here its plan becomes a
program over pieces, or is refused in a sentence. A window matters below an aggregate only: a join is instantaneous.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import pyarrow as pa

from eddyline.core.catalog import Catalog
from eddyline.core.errors import JobError, Span
from eddyline.core.schema import Field, Schema
from eddyline.core.time import TimeKind
from eddyline.core.window import Hop, Range, Slide, Unbounded, WindowSpec
from eddyline.expr.describe import describe
from eddyline.expr.nodes import AggregateCall, Call, Column, Expr, columns_of
from eddyline.models import program as pg
from eddyline.models.arithmetic import NotPolynomial, Shape, shape_of
from eddyline.models.extrapolated import ExtrapolatedRows
from eddyline.models.fitting import ErrorBound
from eddyline.models.inversion import inverted, lineage
from eddyline.models.margins import check_margins
from eddyline.models.predicted import PredictedRows
from eddyline.models.predicted_segments import PredictedSegments
from eddyline.models.segments import FROM, MAX_INPUT_DEGREE, TO
from eddyline.models.solving import check_condition, gives_points
from eddyline.models.sources import DeclaredRows, FittedRows, RowModel, SegmentRows, physical_schema
from eddyline.models.splits import EQUI, split_named
from eddyline.plan.logical import (
    Aggregate,
    AsOfJoin,
    Distinct,
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
)

CLOSED, UNCERTAIN, AT = "_closed", "_uncertain", "_at"
AGGREGATES = ("min", "max", "sum", "avg")
_REFUSED = {
    Distinct: "DISTINCT", OuterJoin: "outer joins", SetOperation: "UNION, EXCEPT or INTERSECT", Rank: "ranks or LIMIT",
    MarkJoin: "IN or EXISTS with a query", AsOfJoin: "as-of joins", Over: "OVER", RelationScan: "relations",
}  # fmt: skip
T = TypeVar("T")
ErrorAt = Callable[[str, Span | None], JobError]


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """The clauses of a query on models, in ticks."""

    sample: int | None = None
    horizon: int | None = None
    partial: bool = False
    bound: ErrorBound | None = None
    max_gap: int | None = None
    predict: bool = False
    split: str = EQUI.name


@dataclass(frozen=True, slots=True)
class _Part:
    """A translated sub-plan. ``key`` has a set of equal columns for each part of the key; any of them stands for it;
    an empty set is a part that was projected away."""

    node: pg.Node
    shapes: Mapping[str, Shape]
    key: tuple[frozenset[str], ...]
    window: WindowSpec | None = None
    points: bool = False
    slides: tuple[int, ...] = ()


def translate(plan: Plan, catalog: Catalog, kind: TimeKind, options: ModelOptions, error: ErrorAt) -> ModelQuery:
    """The model query of a bound plan; ``error`` makes a refusal with its place in the text."""
    translator = _Translator(catalog, options, error)
    try:
        split = split_named(options.split, catalog.splits)
    except JobError as refused:
        raise error(str(refused), None) from None
    part = translator.of(plan)
    modelled = [n for n in plan.schema.names if n in part.shapes]
    if not modelled:
        raise error("the result of a query on models has no modelled value: select one, or query the tuples.", None)
    sample = options.sample
    if sample is None and part.slides:
        sample = math.lcm(*part.slides)
    special = next((n for n in modelled if not part.shapes[n].plain), None)
    if sample is None and special is not None:
        raise error(f"{special!r} is no polynomial, so it has no segments: add SAMPLE EVERY.", None)
    columns = tuple((n, n in part.shapes) for n in plan.schema.names)
    program = pg.Program(part.node, columns, 1.0 / kind.ticks_per_second, sample, options.bound, split)
    schema = plan.schema if sample is not None else segment_schema(plan.schema, part.shapes, kind)
    models = translator.models()
    if options.predict:
        models = predicted_models(translator, program)
    elif options.bound is not None:
        models = fitted_models(translator, program)
    inputs = tuple(map(translator.input, translator.scans, models))
    if options.bound is not None:
        schema = Schema((*schema, Field(UNCERTAIN, pa.bool_())))
    if options.predict:
        schema = Schema((*schema, Field(AT, pa.int64() if kind is TimeKind.INTEGER else pa.timestamp("us"))))
    return ModelQuery(inputs, models, program, schema, kind, options.horizon, options.predict)


def predicted_models(translator: _Translator, program: pg.Program) -> tuple[RowModel, ...]:
    """The models of a query that predicts: declared or found by fitting samples, with the bounds within which tuples
    only validate them, or stored."""
    options, scans, models = translator.options, translator.scans, translator.models()
    bound = options.bound
    if program.sample is None:
        raise translator.error("PREDICT gives rows at instants to come: add SAMPLE EVERY.", None)
    if bound is not None and bound.relative:
        raise translator.error("PREDICT takes an absolute bound: ERROR WITHIN 0.5.", None)
    limits: dict[tuple[int, str], ErrorBound] = {}
    if bound is not None:
        results = tuple(n for n, modelled in program.columns if modelled)
        both = enumerate(zip(scans, models, strict=True))
        names = {i: {f"{s.alias}.{n}": n for n in m.degrees} for i, (s, m) in both}
        limits = inverted(lineage(program.root, names, {}, program.scale), results, bound, program.split)
    found: list[RowModel] = []
    for i, model in enumerate(models):
        if isinstance(model, FittedRows):
            values = tuple(n for n in model.values if (i, n) in limits)
            if not values:
                raise translator.unread(scans[i])
            amounts = tuple(limits[i, n].amount for n in values)
            found.append(ExtrapolatedRows(model.key, tuple((n, ()) for n in values), amounts, options.max_gap))
            continue
        if isinstance(model, SegmentRows):
            found.append(PredictedSegments.of(model))
            continue
        assert isinstance(model, DeclaredRows)
        own = tuple(limits[i, n].amount if (i, n) in limits else math.inf for n, _ in model.values)
        found.append(PredictedRows(model.key, model.values, own if bound is not None else ()))
    return tuple(found)


def fitted_models(translator: _Translator, program: pg.Program) -> tuple[RowModel, ...]:
    """The samples' models with the bounds that the result's bound leaves them, of the attributes that are read."""
    options, scans = translator.options, translator.scans
    assert options.bound is not None
    results = tuple(n for n, modelled in program.columns if modelled)
    names = {i: {f"{s.alias}.{n}": n for n in s.model.degrees} for i, s in enumerate(scans) if s.model is not None}
    found = lineage(program.root, names, {}, program.scale)
    limits = inverted(found, results, options.bound, program.split)
    models: list[RowModel] = []
    for i, scan in enumerate(scans):
        assert isinstance(scan.model, FittedRows)
        values = tuple(n for n in scan.model.values if (i, n) in limits)
        if not values:
            raise translator.unread(scan)
        bounds = tuple(limits[i, n] for n in values)
        models.append(FittedRows(scan.model.key, values, bounds, options.max_gap, options.horizon or 0))
    return tuple(models)


def segment_schema(schema: Schema, shapes: Mapping[str, Shape], kind: TimeKind) -> Schema:
    """Columns of a result of segments: what is constant, the interval, and coefficients ``value_0``, ``value_1`` …"""
    time = pa.float64() if kind is TimeKind.INTEGER else pa.timestamp("us")
    fields = [f for f in schema if f.name not in shapes]
    fields += [Field(FROM, time), Field(TO, time), Field(CLOSED, pa.string())]
    for f in schema:
        if f.name in shapes:
            fields += [Field(f"{f.name}_{i}", pa.float64()) for i in range(shapes[f.name].degree + 1)]
    return Schema(tuple(fields))


@dataclass(slots=True)
class _Translator:
    catalog: Catalog
    options: ModelOptions
    error: ErrorAt
    scans: list[StreamScan] = field(default_factory=list)

    def models(self) -> tuple[RowModel, ...]:
        return tuple(s.model for s in self.scans if s.model is not None)

    def unread(self, scan: StreamScan) -> JobError:
        return self.error(f"no column of {scan.alias} that is fitted is read: select or compare one.", None)

    def input(self, scan: StreamScan, model: RowModel) -> StreamScan:
        """The scan of the columns that a model reads."""
        physical = physical_schema(model, self.catalog.streams[scan.stream.lower()].schema)
        schema = Schema(tuple(Field(f"{scan.alias}.{f.name}", f.type) for f in physical))
        return StreamScan(scan.stream, scan.alias, schema, physical.names)

    def of(self, p: Plan) -> _Part:
        match p:
            case StreamScan():
                return self.scan(p)
            case Window():
                return self.window(p)
            case Select():
                return self.select(self.of(p.input), p.conjuncts)
            case Project():
                return self.project(p)
            case Join():
                return self.join(p)
            case Aggregate():
                return self.aggregate(p)
            case ToStream(kind="istream" | "rstream"):
                return self.of(p.input)
            case _:
                what = _REFUSED.get(type(p), type(p).__name__)
                raise self.error(
                    f"queries on models have no {what}: they select, project, join at each instant and aggregate. Do "
                    "that in a query over the rows of this one: make it a view with SAMPLE EVERY.", None,
                )  # fmt: skip

    def scan(self, p: StreamScan) -> _Part:
        if p.model is None:
            raise self.error(
                f"{p.stream} has no model, and this is a query on models: fit it (ed.fit), add MODEL to it, or add "
                "ERROR WITHIN to the query.", None,
            )  # fmt: skip
        declared_ahead = self.options.predict and isinstance(p.model, DeclaredRows)
        if self.options.bound is not None and not declared_ahead and not isinstance(p.model, FittedRows):
            declared = " add PREDICT, which foretells within it," if isinstance(p.model, DeclaredRows) else ""
            raise self.error(
                f"ERROR WITHIN fits tuples, and {p.stream} has models already: leave it out,{declared} or query the "
                "samples.", None,
            )  # fmt: skip
        if p not in self.scans:
            self.scans.append(p)
        for name, degree in p.model.degrees.items():
            if degree > MAX_INPUT_DEGREE:
                raise self.error(
                    f"the model of {name!r} has degree {degree}, and inputs have at most {MAX_INPUT_DEGREE}.", None
                )
        shapes = {f"{p.alias}.{n}": Shape(d) for n, d in p.model.degrees.items()}
        key = tuple(frozenset((f"{p.alias}.{k}",)) for k in p.model.key)
        return _Part(pg.Source(self.scans.index(p)), shapes, key)

    def window(self, p: Window) -> _Part:
        part = self.of(p.input)
        if part.window is not None and not isinstance(part.window, Unbounded):
            raise self.error("a window over a windowed stream of models needs an aggregate between the two.", None)
        if not isinstance(p.spec, Range | Slide | Hop | Unbounded):
            raise self.error(f"models have no rows to count: {p.spec} is for tuples; use [RANGE w SLIDE l].", None)
        return replace(part, window=p.spec)

    def select(self, part: _Part, conjuncts: Sequence[Expr]) -> _Part:
        for c in conjuncts:
            self.checked(lambda c=c: self.condition(c, part.shapes), c)  # type: ignore[misc]
        points = part.points or any(gives_points(c, part.shapes) for c in conjuncts)
        return replace(part, node=pg.Restrict(part.node, tuple(conjuncts)), points=points)

    def condition(self, c: Expr, shapes: Mapping[str, Shape]) -> None:
        check_condition(c, shapes)
        if self.options.bound is not None:
            check_margins(c, shapes)

    def project(self, p: Project) -> _Part:
        part = self.of(p.input)
        shapes = {}
        for name, e in p.items:
            shape = self.checked(lambda e=e: shape_of(e, part.shapes), e)  # type: ignore[misc]
            if shape is not None:
                shapes[name] = shape
        names: dict[str, set[str]] = {}
        for name, e in p.items:
            if isinstance(e, Column):
                names.setdefault(e.name, set()).add(name)
        key = tuple(frozenset(n for old in k for n in names.get(old, ())) for k in part.key)
        return replace(part, node=pg.Map(part.node, p.items), shapes=shapes, key=key)

    def join(self, p: Join) -> _Part:
        parts = [self.of(i) for i in p.inputs]
        found, known = parts[0], set(p.inputs[0].schema.names)
        waiting = list(p.conjuncts)
        for side, right in zip(p.inputs[1:], parts[1:], strict=True):
            mine = set(side.schema.names)
            shapes = {**found.shapes, **right.shapes}
            ready = [c for c in waiting if columns_of(c) <= known | mine]
            waiting = [c for c in waiting if c not in ready]
            keys, rest = self.keys(ready, known, mine, shapes)
            for c in rest:
                self.checked(lambda c=c, s=shapes: self.condition(c, s), c)  # type: ignore[misc]
            points = found.points or right.points or any(gives_points(c, shapes) for c in rest)
            key = merged((*found.key, *right.key), keys)
            node = pg.Join(found.node, right.node, tuple(keys), tuple(rest))
            found = _Part(node, shapes, key, None, points, (*found.slides, *right.slides))
            known |= mine
        return found

    def keys(
        self, conjuncts: Sequence[Expr], left: set[str], right: set[str], shapes: Mapping[str, Shape]
    ) -> tuple[list[tuple[str, str]], list[Expr]]:
        """Equalities of constant columns, one of each side; and the other conjuncts."""
        keys, rest = [], []
        for c in conjuncts:
            match c:
                case Call(function="eq", args=(Column(name=a), Column(name=b))) if not {a, b} & shapes.keys():
                    if a in left and b in right:
                        keys.append((a, b))
                        continue
                    if b in left and a in right:
                        keys.append((b, a))
                        continue
            rest.append(c)
        return keys, rest

    def aggregate(self, p: Aggregate) -> _Part:
        part = self.of(p.input)
        if part.points:
            raise self.error(
                "an equality of modelled values holds at single instants, which have no length: an aggregate over them "
                "is refused; compare with < or >, or select the instants themselves.", None,
            )  # fmt: skip
        width, slide = self.width(part.window)
        for _, e in p.keys:
            if columns_of(e) & part.shapes.keys():
                raise self.error(f"GROUP BY {describe(e)}: a modelled value changes all the time; group by keys.", None)
        functions = []
        shapes = {}
        named = {e.name for _, e in p.keys if isinstance(e, Column)}
        for name, call in p.aggregates:
            argument, shape = self.argument(call, part)
            if call.function in ("sum", "avg"):
                if call.function == "sum" and self.options.bound is not None:
                    raise self.error(
                        f"{describe_call(call)} over tuples depends on how many there are, and a bound against them is "
                        "promised (ERROR WITHIN): use avg, or fit the tuples first (ed.fit).", call.span,
                    )  # fmt: skip
                if width == 0:
                    raise self.error(f"{describe_call(call)} adds up over time: give its stream a window.", call.span)
                if not all(k & named for k in part.key):
                    keys = ", ".join(sorted(min(k) if k else "a key that is not selected" for k in part.key))
                    raise self.error(
                        f"{describe_call(call)} is of one signal: add GROUP BY with the whole key ({keys}).", call.span
                    )
                over = self.options.partial and call.function == "avg"
                shape = Shape(shape.degree + 1, over=over)
            functions.append((name, call.function, argument))
            shapes[name] = shape
        if not functions:
            raise self.error("GROUP BY without an aggregate is refused for models: select the keys' values.", None)
        order = tuple(min(k) for k in part.key if k)
        node = pg.Aggregate(part.node, p.keys, tuple(functions), width, self.options.partial, order)
        key = tuple(frozenset((n,)) for n, _ in p.keys)
        return _Part(node, shapes, key, None, False, (*part.slides, slide) if slide else part.slides)

    def argument(self, call: AggregateCall, part: _Part) -> tuple[Expr, Shape]:
        if call.function not in AGGREGATES or call.distinct:
            raise self.error(
                f"{describe_call(call)} depends on how many samples there were, which models do not say: use min, max, "
                "sum or avg, or query the tuples.", call.span,
            )  # fmt: skip
        (argument,) = call.args
        shape = self.checked(lambda: shape_of(argument, part.shapes), argument)
        if shape is None:
            raise self.error(f"{describe_call(call)} reads no modelled value.", call.span)
        if shape.over:
            raise self.error(
                f"{describe_call(call)} reads an average over partly covered windows, which is no polynomial: leave "
                "PARTIAL out.", call.span,
            )  # fmt: skip
        if not shape.root or call.function in ("min", "max"):
            return argument, shape  # the root is monotonic: its extreme is the root of the polynomial's
        if shape.degree <= 2:
            return argument, Shape(1)  # lines stand for it (``models.linearising``)
        raise self.error(
            f"{describe_call(call)}: avg takes the square root of a quadratic polynomial, as a distance of linear "
            "models is; aggregate its square.", call.span,
        )  # fmt: skip

    def width(self, spec: WindowSpec | None) -> tuple[int, int]:
        match spec:
            case None | Unbounded(implicit=True):
                return 0, 0
            case Range(width=width):
                return width, 0
            case Slide(width=width, slide=slide) | Hop(width=width, slide=slide, offset=0):
                return width, slide
            case _:
                raise self.error(f"an aggregate of models needs [RANGE w] or [RANGE w SLIDE l], not {spec}.", None)

    def checked(self, check: Callable[[], T], e: Expr) -> T:
        """Run a check, and give its refusal the expression's place."""
        try:
            return check()
        except NotPolynomial as refused:
            raise self.error(str(refused), e.span) from None
        except JobError as refused:
            raise self.error(str(refused), e.span) from None


def describe_call(call: AggregateCall) -> str:
    return f"{call.function}({', '.join(map(describe, call.args)) or '*'})"


def merged(key: Sequence[frozenset[str]], equal: Sequence[tuple[str, str]]) -> tuple[frozenset[str], ...]:
    """Parts of a key that a join equates are one.

    >>> merged((frozenset({"a.k"}), frozenset({"b.k"})), [("a.k", "b.k")]) == (frozenset({"a.k", "b.k"}),)
    True
    """
    parts = list(key)
    for a, b in equal:
        touched = [k for k in parts if k & {a, b}]
        if len(touched) > 1:
            parts = [k for k in parts if k not in touched] + [frozenset().union(*touched)]
    return tuple(parts)
