"""The items of a select list: the columns that ``*`` stands for, and the names of result columns."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from eddyline.cql.scope import Context, Scope, Visible
from eddyline.expr.nodes import Column, Expr, columns_of


@dataclass(frozen=True, slots=True)
class SelectItem:
    """An output column: its name as written, its alias (other columns may have the same name), and its value."""

    name: str
    qualifier: str
    value: Expr


def star_items(context: Context, scope: Scope, star: exp.Star, alias: str) -> list[SelectItem]:
    """The columns of ``*`` or, with an alias, ``alias.*``; without those of EXCEPT."""
    if star.args.get("replace") or star.args.get("rename"):
        message = "'*' does not take REPLACE or RENAME: write the columns that stay, and the others with AS."
        raise context.error(message, star)
    items = _all_items(scope, alias)
    left_out = {e.name.lower(): e for e in star.args.get("except_") or ()}
    for name, e in left_out.items():
        if all(i.name.lower() != name for i in items):
            raise scope.unknown(exp.Column(this=exp.to_identifier(e.name)))
    if left_out and len(items) == sum(i.name.lower() in left_out for i in items):
        raise context.error("EXCEPT leaves no column.", star)
    return [i for i in items if i.name.lower() not in left_out]


def _all_items(scope: Scope, alias: str) -> list[SelectItem]:
    if alias:
        found = [v for v in scope.of_alias(alias) if not v.implicit]
        if not found:
            raise scope.unknown(exp.Column(this=exp.to_identifier("*"), table=exp.to_identifier(alias)))
        return [_item(scope, v) for v in found]
    shown = (v for v in scope.visible if not v.implicit and v.plan_name not in scope.hidden)
    return [_item(scope, v, merge=True) for v in shown]


def _item(scope: Scope, v: Visible, merge: bool = False) -> SelectItem:
    merged = scope.merged.get(v.name.lower()) if merge else None
    if merged is not None and v.plan_name in columns_of(merged):
        return SelectItem(v.name, v.alias, merged)
    return SelectItem(v.name, v.alias, Column(v.plan_name, v.type))


def unique_names(items: list[SelectItem]) -> list[tuple[str, Expr]]:
    """Output names: the first keeps its name ``a``, a namesake becomes ``alias_a``, and then ``a_2``, ``a_3`` …"""
    taken: set[str] = set()
    counts: dict[str, int] = {}  # the next number to try for a name: without it, n namesakes take n² tries
    named = []
    for item in items:
        name = item.name
        if name.lower() in taken and item.qualifier:
            name = f"{item.qualifier}_{item.name}"
        while name.lower() in taken:
            count = counts.get(item.name, 2)
            name, counts[item.name] = f"{item.name}_{count}", count + 1
        taken.add(name.lower())
        named.append((name, item.value))
    return named
