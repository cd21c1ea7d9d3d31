"""Clauses of a query that CQL does not have: each is refused in one sentence."""

from __future__ import annotations

from sqlglot import exp

from eddyline.cql.scope import Context

_REFUSED = {
    "order": "ORDER BY … LIMIT belongs into the query: write it inside the parentheses.",
    "limit": "LIMIT belongs into the query: write ORDER BY … LIMIT inside the parentheses.",
    "offset": "OFFSET belongs into the query: write ORDER BY … LIMIT … OFFSET inside the parentheses.",
    "sort": "SORT BY is not supported.",
    "qualify": "QUALIFY belongs into the query: write it inside the parentheses.",
    "sample": "sampling is not supported.",
    "laterals": "LATERAL is not supported.",
    "connect": "CONNECT BY is not supported.",
}


def refuse_modifiers(context: Context, node: exp.Expression, allowed: tuple[str, ...]) -> None:
    """Refuse each clause of a query that nothing here reads, in one sentence."""
    for key, value in node.args.items():
        if key in allowed or value in (None, False, []):
            continue
        place = value[0] if isinstance(value, list) else value
        message = _REFUSED.get(key, f"{key.strip('_').upper()} is not supported in CQL.")
        raise context.error(message, place if isinstance(place, exp.Expression) else node)
