"""Bound expressions, plans and queries as readable text: for explain, error messages and plan snapshots."""

from __future__ import annotations

from typing import Final

from eddyline.expr.describe import literal_text
from eddyline.expr.nodes import AggregateCall, Call, Case, Cast, Column, Expr, Literal, UserCall
from eddyline.expr.types import type_name
from eddyline.plan.logical import (
    Aggregate,
    AsOfJoin,
    BoundQuery,
    Distinct,
    Explode,
    Frame,
    Join,
    MarkJoin,
    ModelQuery,
    Neighbour,
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
    children,
)
from eddyline.plan.traverse import MAX_PLACES_WALKED, count_places

# Operators with how tightly they bind: an operand that binds less tightly than its parent gets parentheses.
_INFIX: Final = {
    "or": ("OR", 1),
    "and": ("AND", 2),
    "eq": ("=", 4),
    "ne": ("<>", 4),
    "lt": ("<", 4),
    "le": ("<=", 4),
    "gt": (">", 4),
    "ge": (">=", 4),
    "null_safe_eq": ("<=>", 4),
    "add": ("+", 5),
    "subtract": ("-", 5),
    "multiply": ("*", 6),
    "divide": ("/", 6),
    "integer_divide": ("DIV", 6),
    "mod": ("%", 6),
}
_NOT_ASSOCIATIVE: Final = ("subtract", "divide", "integer_divide", "mod", "eq", "ne", "lt", "le", "gt", "ge")
_LIKE: Final = {"like": "LIKE", "ilike": "ILIKE", "rlike": "RLIKE"}
_ATOM: Final = 9


def format_expr(e: Expr | AggregateCall) -> str:
    """An expression as one would write it.

    >>> import pyarrow as pa
    >>> a, one = Column("S.a", pa.int32()), Literal(1, pa.int32())
    >>> format_expr(Call("multiply", (Call("add", (a, one), pa.int32()), a), pa.int32()))
    '(S.a + 1) * S.a'
    """
    return _expr(e)[0]


def _expr(e: Expr | AggregateCall) -> tuple[str, int]:
    match e:
        case Column(name=name):
            return name, _ATOM
        case Literal(value=value):
            return literal_text(value), _ATOM
        case Cast(operand=operand, type=t, safe=safe):
            return f"{'TRY_CAST' if safe else 'CAST'}({format_expr(operand)} AS {type_name(t).upper()})", _ATOM
        case Case(branches=branches, default=default):
            whens = " ".join(f"WHEN {format_expr(c)} THEN {format_expr(v)}" for c, v in branches)
            return f"CASE {whens} ELSE {format_expr(default)} END", _ATOM
        case UserCall(function=function, args=args):
            return f"{function.name}({', '.join(map(format_expr, args))})", _ATOM
        case AggregateCall():
            name = e.user.name if e.user is not None else e.function
            inside = ", ".join((*map(format_expr, e.args), *map(literal_text, e.parameters))) or "*"
            return f"{name}({'DISTINCT ' if e.distinct else ''}{inside})", _ATOM
        case Call():
            return _call(e)


def _call(e: Call) -> tuple[str, int]:
    name, args = e.function, e.args
    if name in _INFIX:
        sign, level = _INFIX[name]
        tight = level + 1 if name in _NOT_ASSOCIATIVE else level
        parts = [_inside(a, level if i == 0 else tight) for i, a in enumerate(args)]
        return f" {sign} ".join(parts), level
    if name in _LIKE:
        escape = f" ESCAPE {_inside(args[2], 5)}" if len(args) > 2 else ""
        return f"{_inside(args[0], 5)} {_LIKE[name]} {_inside(args[1], 5)}{escape}", 4
    match name:
        case "not":
            return f"NOT {_inside(args[0], 3)}", 3
        case "negate":
            return f"-{_inside(args[0], 8)}", 7
        case "is_null":
            return f"{_inside(args[0], 5)} IS NULL", 4
        case "is_not_null":
            return f"{_inside(args[0], 5)} IS NOT NULL", 4
        case "in":
            return f"{_inside(args[0], 5)} IN ({', '.join(map(format_expr, args[1:]))})", 4
        case _:
            return f"{name}({', '.join(map(format_expr, args))})", _ATOM


def _inside(e: Expr, level: int) -> str:
    text, own = _expr(e)
    return text if own >= level else f"({text})"


def format_plan(p: Plan) -> str:
    """A plan as an indented tree, root first.

    >>> import pyarrow as pa
    >>> from eddyline.core.schema import Field, Schema
    >>> from eddyline.core.window import Rows
    >>> scan = StreamScan("S", "x", Schema((Field("x.a", pa.int64()),)), ("a",))
    >>> print(format_plan(ToStream("istream", Window(scan, Rows(5)))))
    istream
    └─ window [ROWS 5]
       └─ stream S AS x (x.a)
    """
    lines: list[str] = []
    _tree(p, "", "", lines, None if count_places(p) <= MAX_PLACES_WALKED else {})
    return "\n".join(lines)


def _tree(p: Plan, first: str, rest: str, lines: list[str], shown: dict[int, int] | None) -> None:
    """``shown`` has the lines of nodes that need not be drawn again."""
    below = children(p)
    if shown is not None and below:
        if id(p) in shown:
            lines.append(f"{first}as in line {shown[id(p)]}")
            return
        shown[id(p)] = len(lines) + 1
    lines.append(first + _node(p))
    for i, child in enumerate(below):
        last = i == len(below) - 1
        _tree(child, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "), lines, shown)


def _conjunction(conjuncts: tuple[Expr, ...]) -> str:
    return " AND ".join(_inside(c, 2) for c in conjuncts)


def _node(p: Plan) -> str:
    match p:
        case StreamScan():
            return f"stream {p.stream}{_alias(p.stream, p.alias)} ({', '.join(p.schema.names)})"
        case RelationScan():
            kind = "relation" if p.constant else "changing relation"
            return f"{kind} {p.relation}{_alias(p.relation, p.alias)} ({', '.join(p.schema.names)})"
        case Window():
            return f"window {p.spec}"
        case Select():
            return f"select {_conjunction(p.conjuncts)}"
        case Project():
            return f"project {', '.join(_item(n, e) for n, e in p.items)}"
        case Join():
            return f"join on {_conjunction(p.conjuncts)}" if p.conjuncts else "product"
        case OuterJoin():
            return f"{p.kind} join on {_conjunction(p.conjuncts) or 'TRUE'}"
        case MarkJoin():
            return f"mark {p.mark} = {_mark(p)}"
        case Aggregate():
            calls = ", ".join(_item(n, a) for n, a in p.aggregates)
            keys = ", ".join(_item(n, e) for n, e in p.keys)
            return f"aggregate {calls}".rstrip() + (f" by {keys}" if p.grouped else "")
        case Explode():
            return f"explode {p.column} as {p.name}"
        case Distinct():
            return "distinct"
        case Rank():
            return f"{p.name} = {format_rank(p)}"
        case SetOperation():
            return f"{p.kind} all" if p.all else p.kind
        case AsOfJoin():
            return _as_of(p)
        case Over():
            return _over(p)
        case WithArrivals():
            return f"numbered as {p.number}, at {p.time}"
        case ModelQuery():
            from eddyline.models.describe import format_program

            return f"model query {format_program(p.program)}"
        case ToStream():
            return p.kind


COMPARISONS = {"le": "<=", "lt": "<", "ge": ">=", "gt": ">"}


def format_rank(p: Rank) -> str:
    """A rank as it would be written.

    >>> from eddyline.plan.logical import SortKey
    >>> from eddyline.core.schema import Schema
    >>> scan = RelationScan("R", "R", Schema(()), (), True)
    >>> format_rank(Rank(scan, "rank", ("R.a",), (SortKey("R.b", True, False),), "r", False, limit=3))
    'rank() over (partition by R.a order by R.b desc nulls last) <= 3'
    """
    partition = f"partition by {', '.join(p.partition)} " if p.partition else ""
    keys = (f"{k.column}{' desc' * k.descending} nulls {'first' if k.nulls_first else 'last'}" for k in p.order)
    limit = "" if p.limit is None else f" <= {p.limit}"
    return f"{p.function}() over ({partition}order by {', '.join(keys)}){limit}"


def _as_of(p: AsOfJoin) -> str:
    keys = " and ".join((*(f"{a} = {b}" for a, b in p.keys), f"right time {COMPARISONS[p.comparison]} left time"))
    within = "" if p.within is None else f" within {p.within} ticks"
    return f"{'left ' * p.outer}as-of join on {keys}{within}"


def _over(p: Over) -> str:
    partition = f" partition by {', '.join(p.partition)}" if p.partition else ""
    return f"over {', '.join(f'{n} = {_value(v)}' for n, v in p.values)}{partition}"


def _value(v: Neighbour | Frame) -> str:
    """
    >>> import pyarrow as pa
    >>> _value(Neighbour("S.x", -1, None, pa.int64())), _value(Neighbour("S.x", 2, "S.d", pa.int64()))
    ('lag(S.x, 1)', 'lead(S.x, 2, S.d)')
    """
    if isinstance(v, Neighbour):
        default = "" if v.default is None else f", {v.default}"
        return f"{'lead' if v.shift > 0 else 'lag'}({v.column}, {abs(v.shift)}{default})"
    first = "unbounded preceding" if v.rows is None else _row(v.shift - v.rows + 1)
    return f"{format_expr(v.call)} rows between {first} and {_row(v.shift)}"


def _row(shift: int) -> str:
    return "current row" if shift == 0 else f"{abs(shift)} {'following' if shift > 0 else 'preceding'}"


def _mark(p: MarkJoin) -> str:
    where = f" where {_conjunction(p.on)}" if p.on else ""
    if not p.operands:
        return f"exists{where}"
    left = ", ".join(format_expr(x) for x, _ in p.operands)
    right = ", ".join(format_expr(q) for _, q in p.operands)
    return f"({left}) in ({right}){where}"


def _item(name: str, e: Expr | AggregateCall) -> str:
    text = format_expr(e)
    return text if text == name else f"{text} AS {name}"


def _alias(name: str, alias: str) -> str:
    return "" if name == alias else f" AS {alias}"


def format_query(query: BoundQuery) -> str:
    """A bound query: its name and target, its text and its plan."""
    head = " ".join(
        part
        for part in (
            f"{query.name}:" if query.name else "",
            f"INSERT INTO '{query.target}'" if query.target else "",
            " ".join(query.text.split()),
        )
        if part
    )
    result = "a stream" if query.is_stream else "a relation, shown as signed changes"
    options = f"\noptions: {', '.join(f'{k} = {v!r}' for k, v in query.options.items())}" if query.options else ""
    return f"{head}\nresult: {result}; time: {query.time_kind.value}{options}\n{format_plan(query.plan)}"
