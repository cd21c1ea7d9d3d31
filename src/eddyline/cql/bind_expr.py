"""Expressions: from the syntax tree to typed nodes, with every coercion made explicit."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pyarrow as pa
from sqlglot import exp

from eddyline.core.errors import DataError, quoted
from eddyline.cql.bind_call import NO_CLOCK, bind_call, bind_filter, date_part, list_refusal, unknown_function
from eddyline.cql.bind_condition import bind_between, bind_exists, bind_in, bind_is, bind_not
from eddyline.cql.bind_literal import (
    bind_bytes,
    bind_date,
    bind_interval,
    bind_literal,
    bind_number,
    bind_timestamp,
    coerce,
    interval_unit,
)
from eddyline.cql.dialect import StreamList, StreamQuery
from eddyline.cql.places import span_of
from eddyline.cql.scope import Context, Scope
from eddyline.cql.text_numbers import ALIKE, text_beside_number
from eddyline.expr.builtins import argument_mistake
from eddyline.expr.builtins.patterns import pattern_mistake
from eddyline.expr.evaluate import compile_expr
from eddyline.expr.functions import (
    Resolution,
    TypeMismatch,
    UnknownFunction,
    resolve,
)
from eddyline.expr.nodes import Call, Case, Cast, Expr, Literal
from eddyline.expr.types import (
    BOOLEAN,
    DATE,
    DURATION,
    INT32,
    NULL,
    STRING,
    TIMESTAMP,
    castable,
    common_type,
    parse_type,
    type_name,
)


class Marks(Protocol):
    """Where subqueries in conditions go: each becomes a MarkJoin, and the expression uses its mark."""

    def mark_in(self, operands: Sequence[Expr], query: exp.Expression, node: exp.Expression) -> Expr: ...

    def mark_exists(self, query: exp.Expression, node: exp.Expression) -> Expr: ...


class Aggregates(Protocol):
    """Where aggregate calls go: the expression uses a column of the Aggregate node."""

    def call(
        self, name: str, node: exp.Anonymous, arguments: ExpressionBinder, where: exp.Expression | None = None
    ) -> Expr: ...


class Ranks(Protocol):
    """Where ranks go: the expression uses a column of the Rank node."""

    def bind(self, node: exp.Window, binder: ExpressionBinder) -> Expr: ...


class Scalars(Protocol):
    """Where subqueries as values go: the expression uses a column of theirs."""

    def bind(self, node: exp.Subquery) -> Expr: ...


_BINARY: Final[dict[type[exp.Expression], str]] = {
    exp.Add: "add",
    exp.Sub: "subtract",
    exp.Mul: "multiply",
    exp.Div: "divide",
    exp.IntDiv: "integer_divide",
    exp.Mod: "mod",
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
    exp.NullSafeEQ: "null_safe_eq",
    exp.And: "and",
    exp.Or: "or",
    exp.DPipe: "concat",
    exp.Like: "like",
    exp.ILike: "ilike",
    exp.RegexpLike: "rlike",
}


@dataclass(slots=True)
class ExpressionBinder:
    """Binds expressions in one scope.

    ``marks`` None means that subqueries are refused here, ``aggregates`` None that aggregates are (``where`` names
    the place for the message). ``aliases`` are select items that may be named where no column has that name.
    """

    context: Context
    scope: Scope
    where: str = "here"
    marks: Marks | None = None
    aggregates: Aggregates | None = None
    aliases: dict[str, exp.Expression] = field(default_factory=dict)
    ranks: Ranks | None = None
    scalars: Scalars | None = None

    def bind(self, node: Any) -> Expr:
        """The typed form of a node."""
        with self.context.deeper(node):
            if isinstance(node, exp.Expression) and node.args.get("negate"):
                # sqlglot writes NOT LIKE as a flag on LIKE, but NOT IN as a node around IN.
                return self.call("not", (self._positive(node),), node)
            return self._positive(node)

    def _positive(self, node: Any) -> Expr:
        if type(node) in _BINARY:
            return self._binary(_BINARY[type(node)], node)
        handler = _HANDLERS.get(type(node))
        if handler is not None:
            return handler(self, node)
        if node is None:
            raise self.context.error("something is missing in this expression.")
        raise self.context.error(f"{_describe(node)} is not supported in CQL.", node)

    def _over(self, node: exp.Window) -> Expr:
        if self.ranks is None:
            message = (
                f"OVER is not allowed {self.where}: give it a name in the select list of a query in FROM (SELECT …),"
                " and use that."
            )
            raise self.context.error(message, node)
        return self.ranks.bind(node, ExpressionBinder(self.context, self.scope, "in OVER", None, self.aggregates))

    def _subquery(self, node: exp.Subquery) -> Expr:
        if self.scalars is None:
            raise self.context.error(f"a subquery as a value is not allowed {self.where}.", node)
        return self.scalars.bind(node)

    def inside(self, where: str) -> ExpressionBinder:
        """The same scope at a place where neither subqueries nor aggregates are allowed."""
        return ExpressionBinder(self.context, self.scope, where)

    def condition(self, node: Any, clause: str) -> Expr:
        """A bound condition; anything else than a Boolean is refused."""
        bound = self.bind(node)
        if bound.type not in (BOOLEAN, NULL):
            raise self.context.error(f"{clause} needs a condition, not {type_name(bound.type)}.", node)
        return coerce(bound, BOOLEAN)

    # Calls ----------------------------------------------------------------------------------------------------

    def call(self, name: str, args: Sequence[Expr], node: Any) -> Expr:
        """A built-in function of bound arguments, with the casts it asks for."""
        found = self._resolved(name, args, node)
        if found.function in ALIKE:
            self._refuse_text(args, found.arguments[0], node)
        cast = tuple(self._coerced(a, t, node) for a, t in zip(args, found.arguments, strict=True))
        self._check_pattern(found.function, cast[1:], node)
        return Call(found.function, cast, found.returns, span_of(node))

    def _resolved(self, name: str, args: Sequence[Expr], node: Any) -> Resolution:
        try:
            return resolve(name, [a.type for a in args])
        except TypeMismatch as error:
            raise self.context.error(error.message, node) from None
        except UnknownFunction:
            raise unknown_function(self.context, name, node) from None

    def _coerced(self, e: Expr, target: Any, node: Any) -> Expr:
        """``coerce``, but a text that can never be read in the wanted type is a mistake here, not in every row."""
        cast = coerce(e, target)
        if isinstance(e, Literal) and e.type == STRING and isinstance(cast, Cast):
            try:
                compile_expr(cast)({}, 1)
            except DataError:
                message = f"the text {quoted(e.value)} cannot be read as {type_name(target)}, which is wanted here."
                raise self.context.error_at(message, e.span or span_of(node)) from None
        return cast

    def _refuse_text(self, values: Sequence[Expr], target: pa.DataType, node: Any) -> None:
        if (mistake := text_beside_number(values, target)) is not None:
            raise self.context.error(mistake, node)

    def _check_pattern(self, function: str, args: Sequence[Expr], node: Any) -> None:
        """A constant pattern that can never match is a mistake here, not in every row."""
        values = [a.value if isinstance(a, Literal) else None for a in args]
        mistake = pattern_mistake(function, values) or argument_mistake(function, values)
        if mistake is not None:
            raise self.context.error_at(f"{mistake}.", args[0].span or span_of(node))

    def _binary(self, name: str, node: exp.Binary) -> Expr:
        if name in ("and", "or", "concat"):
            return self._connective(name, node)
        left, right = self.bind(node.this), self.bind(node.expression)
        if name == "eq":
            # x = TRUE is x, NULL included; the papers write their filters so.
            for side, other in ((left, right), (right, left)):
                if isinstance(other, Literal) and other.value is True and side.type == BOOLEAN:
                    return side
        return self.call(name, (left, right), node)

    def _connective(self, name: str, node: exp.Binary) -> Expr:
        """A chain of AND, OR or || is one call: as a tree, a long list of alternatives would be as deep as long."""
        operands: list[Any] = []
        current: Any = node
        while type(current) is type(node):
            operands.append(current.expression)
            current = current.this
        bound = []
        for operand in (current, *reversed(operands)):
            bound.append(self.bind(operand))
            self._resolved(name, (bound[-1], bound[-1]), operand)  # reported at its own place
        return self.call(name, bound, node)

    # Conditions -----------------------------------------------------------------------------------------------

    def _escape(self, node: exp.Escape) -> Expr:
        like = node.this
        if type(like) not in (exp.Like, exp.ILike):
            raise self.context.error("ESCAPE belongs to LIKE.", node)
        args = (self.bind(like.this), self.bind(like.expression), self.bind(node.expression))
        bound = self.call(_BINARY[type(like)], args, node)
        return self.call("not", (bound,), node) if like.args.get("negate") else bound

    # Values ---------------------------------------------------------------------------------------------------

    def _column(self, node: exp.Column) -> Expr:
        if isinstance(node.this, exp.Star):
            raise self.context.error("'*' stands alone in the select list.", node)
        if not node.table and not self.scope.has_bare(node.name):
            alias = self.aliases.get(node.name.lower())
            if alias is not None:
                return self.bind(alias)
            if self.scope.has_alias(node.name):
                message = f"{node.name!r} is a stream; as a tuple it can stand only on the left of IN."
                raise self.context.error(message, node)
        found = self.scope.column(node)
        if pa.types.is_nested(found.type):
            raise self.context.error(list_refusal(node.name), node)
        return found

    def _negative(self, node: exp.Neg) -> Expr:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return bind_number("-" + node.this.this, span_of(node), self.context, node)
        return self.call("negate", (self.bind(node.this),), node)

    def _case(self, node: exp.Case) -> Expr:
        subject = None if node.this is None else self.bind(node.this)
        conditions, values = [], []
        for branch in node.args["ifs"]:
            if subject is None:
                conditions.append(self.condition(branch.this, "WHEN"))
            else:
                conditions.append(self.call("eq", (subject, self.bind(branch.this)), branch))
            values.append(self.bind(branch.args["true"]))
        default = node.args.get("default")
        values.append(Literal(None, NULL) if default is None else self.bind(default))
        return self._cases(conditions, values, node)

    def _if(self, node: exp.If) -> Expr:
        otherwise = node.args.get("false")
        values = [
            self.bind(node.args["true"]),
            Literal(None, NULL) if otherwise is None else self.bind(otherwise),
        ]
        return self._cases([self.condition(node.this, "IF")], values, node)

    def _cases(self, conditions: list[Expr], values: list[Expr], node: Any) -> Expr:
        common: pa.DataType | None = NULL
        for v in values:
            common = common_type(common, v.type)
            if common is None:
                names = " and ".join(dict.fromkeys(type_name(v.type) for v in values))
                raise self.context.error(f"the branches have no common type: {names}; cast one of them.", node)
        common = STRING if common == NULL else common
        self._refuse_text(values, common, node)
        branches = tuple(zip(conditions, (coerce(v, common) for v in values[:-1]), strict=True))
        return Case(branches, coerce(values[-1], common), common, span_of(node))

    def _cast(self, node: exp.Cast) -> Expr:
        target = self.data_type(node.to)
        operand = node.this
        if isinstance(operand, exp.Literal) and operand.is_string and not isinstance(node, exp.TryCast):
            if target == DATE:
                return bind_date(operand.this, self.context, node)
            if target == TIMESTAMP:
                return bind_timestamp(operand.this, self.context, node)
        return self.cast_to(self.bind(operand), target, node, isinstance(node, exp.TryCast))

    def cast_to(self, value: Expr, target: pa.DataType, node: Any, safe: bool = False) -> Expr:
        if not castable(value.type, target):
            message = f"{type_name(value.type)} cannot be cast to {type_name(target)}."
            raise self.context.error(message, node)
        if value.type == target:
            return value
        return Cast(value, target, safe, span_of(node))

    def data_type(self, node: exp.Var | exp.DataType) -> pa.DataType:
        """A type as written in CAST, or sqlglot's after ``::``."""
        written = node.name if isinstance(node, exp.Var) else node.sql().lower()
        written = {"timestamptz": "timestamp", "timestampltz": "timestamp", "timestampntz": "timestamp"}.get(
            written, written
        )
        try:
            return parse_type(written)
        except ValueError as error:
            raise self.context.error(str(error), node if isinstance(node, exp.Var) else node.parent) from None

    def _interval(self, node: exp.Interval) -> Expr:
        if isinstance(node.this, exp.Literal):
            return bind_interval(node, self.context)
        unit = datetime.timedelta(microseconds=interval_unit(node, self.context))
        return self.call("multiply", (self.bind(node.this), Literal(unit, DURATION)), node)

    def _extract(self, node: exp.Extract) -> Expr:
        return self.call(date_part(node.this.name), (self.bind(node.expression),), node)

    def _substring(self, node: exp.Substring) -> Expr:
        parts = [node.this, node.args.get("start"), node.args.get("length")]
        start = [Literal(1, INT32)] if parts[1] is None and parts[2] is not None else []  # SUBSTRING(x FOR 3)
        args = [self.bind(parts[0]), *start, *(self.bind(p) for p in parts[1:] if p is not None)]
        return self.call("substring", args, node)

    def _trim(self, node: exp.Trim) -> Expr:
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get((node.args.get("position") or "").upper(), "trim")
        args = [self.bind(node.this), *([] if node.expression is None else [self.bind(node.expression)])]
        return self.call(name, args, node)

    def _position(self, node: exp.StrPosition) -> Expr:
        return self.call("locate", (self.bind(node.args["substr"]), self.bind(node.this)), node)

    def _coalesce(self, node: exp.Coalesce) -> Expr:
        return self.call("coalesce", [self.bind(node.this), *map(self.bind, node.expressions)], node)


Handler = Callable[[ExpressionBinder, Any], Expr]


def _refuse(message: str) -> Handler:
    def handler(binder: ExpressionBinder, node: Any) -> Expr:
        raise binder.context.error(message, node)

    return handler


_STREAM_OPERATOR = "Istream, Dstream and Rstream enclose the whole select list or the whole query."

_HANDLERS: Final[dict[type, Handler]] = {
    exp.Literal: lambda b, n: bind_literal(n, b.context),
    exp.HexString: lambda b, n: bind_bytes(n.this, b.context, n),
    exp.Boolean: lambda b, n: Literal(bool(n.this), BOOLEAN, span_of(n)),
    exp.Null: lambda b, n: Literal(None, NULL, span_of(n)),
    exp.Paren: lambda b, n: b.bind(n.this),
    exp.Column: ExpressionBinder._column,
    exp.Neg: ExpressionBinder._negative,
    exp.Not: bind_not,
    exp.NullSafeNEQ: lambda b, n: b.call(
        "not", (b.call("null_safe_eq", (b.bind(n.this), b.bind(n.expression)), n),), n
    ),
    exp.In: bind_in,
    exp.Between: bind_between,
    exp.Is: bind_is,
    exp.Exists: bind_exists,
    exp.Escape: ExpressionBinder._escape,
    exp.Case: ExpressionBinder._case,
    exp.If: ExpressionBinder._if,
    exp.Cast: ExpressionBinder._cast,
    exp.TryCast: ExpressionBinder._cast,
    exp.Interval: ExpressionBinder._interval,
    exp.Extract: ExpressionBinder._extract,
    exp.Substring: ExpressionBinder._substring,
    exp.Trim: ExpressionBinder._trim,
    exp.StrPosition: ExpressionBinder._position,
    exp.Coalesce: ExpressionBinder._coalesce,
    exp.Anonymous: bind_call,
    exp.Window: ExpressionBinder._over,
    exp.Filter: bind_filter,
    exp.Alias: _refuse("AS belongs to the select list and to FROM."),
    exp.Star: _refuse("'*' stands alone in the select list."),
    exp.Tuple: _refuse("a row of several values can stand only on the left of IN."),
    exp.Subquery: ExpressionBinder._subquery,
    exp.Select: _refuse("a subquery as a value stands in parentheses."),
    exp.Bracket: _refuse(
        "an index in brackets is not supported: write element_at(tags, 1) for the first element of a list, and "
        "payload.user for a field of a structure."
    ),
    exp.Distinct: _refuse("DISTINCT stands at the start of the select list or inside an aggregate."),
    StreamList: _refuse(_STREAM_OPERATOR),
    StreamQuery: _refuse(_STREAM_OPERATOR),
    exp.CurrentTimestamp: _refuse(f"CURRENT_TIMESTAMP {NO_CLOCK}"),
    exp.CurrentDate: _refuse(f"CURRENT_DATE {NO_CLOCK}"),
    exp.CurrentTime: _refuse(f"CURRENT_TIME {NO_CLOCK}"),
}


_OPERATORS: Final = {
    exp.BitwiseXor: "the operator '^'",
    exp.BitwiseAnd: "the operator '&'",
    exp.BitwiseOr: "the operator '|'",
    exp.BitwiseNot: "the operator '~'",
    exp.AtTimeZone: "AT TIME ZONE",
    exp.Placeholder: "a parameter",
    exp.Parameter: "a parameter",
}


def _describe(node: Any) -> str:
    return _OPERATORS.get(type(node), f"'{node.key}'")
