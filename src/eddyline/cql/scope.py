"""The scope of names inside one SELECT: the columns of its FROM, and those of the query around it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from sqlglot import exp

from eddyline.core.catalog import Catalog
from eddyline.core.errors import CqlError, Span, did_you_mean
from eddyline.core.time import TimeKind
from eddyline.cql.places import span_of
from eddyline.expr.nodes import Column, Expr, columns_of
from eddyline.plan.arrival_order import ArrivalOrder

MAX_DEPTH: Final = 100  # levels of an expression, and operators of a plan one below another
WINDOW_COLUMNS: Final = ("window_start", "window_end")
# A column of the query around a subquery, until the MarkJoin that joins the two is built: the same plan name may
# exist on both sides, so the outer one carries a mark that no name can contain.
OUTER: Final = "\x00outer:"


def outer_columns(e: Expr) -> frozenset[str]:
    return frozenset(n for n in columns_of(e) if n.startswith(OUTER))


@dataclass(slots=True)
class Context:
    """The data of one call of ``bind``: the catalog, the text for messages, and the kinds of time met so far."""

    catalog: Catalog
    text: str
    place: Span | None = None  # what is underlined where a mistake has no place of its own
    kinds: list[tuple[TimeKind, str, Any]] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    depth: int = 0  # of the expression that is being bound
    modelled: bool = False  # it is a query on models
    clauses: Any = None  # the ``ModelClauses`` behind it; None: there are none
    unread: dict[str, str] = field(default_factory=dict)  # columns that a query on models does not have, and why
    arrival_order: ArrivalOrder = field(init=False)

    def __post_init__(self) -> None:
        self.arrival_order = ArrivalOrder(self.fresh)

    @contextmanager
    def deeper(self, node: Any) -> Iterator[None]:
        """One level down in an expression. Everything that reads expressions later recurses, so there is a limit."""
        if self.depth >= MAX_DEPTH:
            message = f"this expression is nested more than {MAX_DEPTH} levels deep: compute a part of it in a view."
            raise self.error(message, node)
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def error(self, message: str, node: Any = None) -> CqlError:
        return self.error_at(message, span_of(node))

    def error_at(self, message: str, span: Span | None) -> CqlError:
        return CqlError(message, self.text, span or self.place)

    def fresh(self, prefix: str) -> str:
        self.counters[prefix] = self.counters.get(prefix, 0) + 1
        return f"{prefix}{self.counters[prefix]}"


@dataclass(frozen=True, slots=True)
class Visible:
    """A column that can be named: ``alias.name`` in the text, ``plan_name`` in the plan. ``implicit``: only by its
    name, ``*`` does not bring it."""

    alias: str
    name: str
    plan_name: str
    type: pa.DataType
    implicit: bool = False


@dataclass(slots=True)
class Scope:
    """The columns of a FROM clause.

    ``hidden`` are columns that ``USING`` merged into another: a bare name and ``*`` skip them. ``merged`` gives the
    value of a bare name where both sides of a full join may be missing. ``blocked`` is the scope of a query around
    this one whose columns must not be used, with the reason.
    """

    context: Context
    visible: list[Visible] = field(default_factory=list)
    hidden: set[str] = field(default_factory=set)
    merged: dict[str, Expr] = field(default_factory=dict)
    parent: Scope | None = None
    blocked: tuple[Scope, str] | None = None
    _class: dict[str, str] = field(default_factory=dict)
    _by_name: dict[str, list[Visible]] = field(default_factory=dict)
    _by_alias: dict[str, list[Visible]] = field(default_factory=dict)
    _indexed: int = 0

    def _index(self) -> None:
        """Note the columns that became visible since the last look-up: a FROM may have very many."""
        for v in self.visible[self._indexed :]:
            self._by_name.setdefault(v.name.lower(), []).append(v)
            self._by_alias.setdefault(v.alias.lower(), []).append(v)
        self._indexed = len(self.visible)

    def aliases(self) -> list[str]:
        return list(dict.fromkeys(v.alias for v in self.visible))

    def has_alias(self, name: str) -> bool:
        self._index()
        return name.lower() in self._by_alias

    def of_alias(self, alias: str) -> list[Visible]:
        self._index()
        return self._by_alias.get(alias.lower(), [])

    def named(self, name: str) -> list[Visible]:
        self._index()
        return self._by_name.get(name.lower(), [])

    def has_bare(self, name: str) -> bool:
        return bool(self.named(name))

    def equate(self, a: str, b: str) -> None:
        """Two plan names that a join makes equal."""
        self._class[self._root(a)] = self._root(b)

    def _root(self, name: str) -> str:
        path = []
        while name in self._class and self._class[name] != name:
            path.append(name)
            name = self._class[name]
        self._class.update(dict.fromkeys(path, name))  # a chain of joins is walked once
        return name

    def find(self, table: str, name: str, node: Any) -> Expr | None:
        """The column of this scope that a name means, None if there is none, an error if there are several."""
        if table:
            found = [v for v in self.named(name) if v.alias.lower() == table.lower()]
        else:
            found = [v for v in self.named(name) if v.plan_name not in self.hidden]
            if found and name.lower() in self.merged:
                return self.merged[name.lower()]
        if not found:
            return None
        if len({self._root(v.plan_name) for v in found}) > 1:
            candidates = ", ".join(f"{v.alias}.{v.name}" for v in found)
            raise self.context.error(f"the column {name!r} is ambiguous: it may be {candidates}.", node)
        return Column(found[0].plan_name, found[0].type, span_of(node))

    def column(self, node: exp.Column) -> Expr:
        """The meaning of a column as written, here or in the query around."""
        parts = [p.name for p in node.parts]
        if len(parts) > 1 and (inside := self._field(parts, node)) is not None:
            return inside
        if len(parts) > 2:
            raise self.unknown(node) if self._structure(parts) else self.unknown_field(parts, node)
        found = self.find(node.table, node.name, node)
        if found is not None:
            return found
        if not (node.table and self.has_alias(node.table)):
            if self.parent is not None and (outer := self.parent.find(node.table, node.name, node)) is not None:
                if not isinstance(outer, Column):
                    raise self.context.error("a column merged by a FULL JOIN cannot be used in a subquery.", node)
                return Column(OUTER + outer.name, outer.type, span_of(node))
            self._refuse_blocked(node)
        raise self.unknown(node)

    def _field(self, parts: list[str], node: Any) -> Expr | None:
        """A field of a structure, ``payload.user.id`` or ``S.payload.user.id``; a column of a stream comes first."""
        if self.find(parts[0], ".".join(parts[1:]), node) is not None:
            return self.find(parts[0], ".".join(parts[1:]), node)
        return None if self.has_alias(parts[0]) else self.find("", ".".join(parts), node)

    def _structure(self, parts: list[str]) -> bool:
        prefix = ".".join(parts).lower() + "."
        return any(v.name.lower().startswith(prefix) for v in self.visible)

    def unknown_field(self, parts: list[str], node: Any) -> CqlError:
        name = ".".join(parts)
        candidates = [v.name for v in self.visible if "." in v.name]
        hint = did_you_mean(name, [*candidates, *(f"{v.alias}.{v.name}" for v in self.visible if "." in v.name)])
        return self.context.error(f"unknown field {name!r}: no stream of this query has it.{hint}", node)

    def _refuse_blocked(self, node: exp.Column) -> None:
        around = self.parent
        while around is not None:
            if around.parent is not None and around.parent.find(node.table, node.name, node) is not None:
                raise self.context.error("a subquery may use columns of the query directly around it only.", node)
            around = around.parent
        if self.blocked is not None:
            scope, reason = self.blocked
            if scope.find(node.table, node.name, node) is not None:
                raise self.context.error(reason, node)

    def unknown(self, node: exp.Column) -> CqlError:
        table, name = node.table, node.name
        whole = ".".join(p.name for p in node.parts)
        inside = [v.name for v in self.visible if v.name.lower().startswith(f"{whole.lower()}.")]
        if inside:
            message = f"{whole!r} is a structure: name one of its fields ({', '.join(inside[:6])})."
            return self.context.error(message, node)
        if table and not self.has_alias(table):
            if self.parent is not None and self.parent.has_alias(table):
                return self.parent.unknown(node)
            hint = did_you_mean(table, self.aliases()) or f" It reads {', '.join(self.aliases())}."
            return self.context.error(f"unknown stream or relation {table!r} in this query.{hint}", node)
        if name.lower() in WINDOW_COLUMNS:
            which = f"{table} has none of them" if table else "no stream of this query has one of them"
            message = f"{name} is a column of TUMBLE, HOP, SESSION and RANGE … SLIDE windows, and {which}."
            return self.context.error(message, node)
        if name.lower() in self.context.unread:
            reason = self.context.unread[name.lower()]
            return self.context.error(f"{whole} is no column of a query with ERROR WITHIN: {reason}.", node)
        candidates = [v for v in (self.of_alias(table) if table else self.visible) if not v.implicit]
        of = f" of {table}" if table else ""
        hint = did_you_mean(name, (v.name for v in candidates)) or _columns_hint(v.name for v in candidates)
        return self.context.error(f"unknown column {name!r}{of}.{hint}", node)


def _columns_hint(names: Iterable[str]) -> str:
    known = list(dict.fromkeys(names))
    return f" The columns are {', '.join(known)}." if 0 < len(known) <= 12 else ""
