"""Remedies for refused OVER clauses: frames of time as windows, ranks that need the size of a partition."""

from __future__ import annotations

from typing import Any, Final

from sqlglot import exp

NOT_HERE: Final = ("ntile", "percent_rank", "cume_dist", "nth_value")


def stream_of(node: exp.Window) -> str:
    """The name that the FROM around begins with."""
    select = node.find_ancestor(exp.Select)
    named = None if select is None else select.args["from_"].this.this
    return named.name if isinstance(named, exp.Identifier) else "S"


def beside(node: exp.Window, width: str) -> str:
    """A query that has the aggregate over a window of time beside each element, in the names of the user's query."""
    stream, keys = stream_of(node), [p.sql() for p in node.args.get("partition_by") or ()]
    listed, group = "".join(f"{k}, " for k in keys), f" GROUP BY {', '.join(keys)}" if keys else ""
    where = f" WHERE {' AND '.join(f'{stream}.{k} = w.{k}' for k in keys)}" if keys else ""
    inner = f"SELECT {listed}{node.this.sql()} AS v FROM {stream} [RANGE {width}]{group}"
    return f"SELECT {stream}.*, w.v FROM {stream}, ({inner}) AS w{where}."


def instead_of(name: str, node: exp.Window, call: Any) -> str:
    """The message for a function of ``NOT_HERE``: a rank beside the number of rows of its partition."""
    stream, keys = stream_of(node), [p.sql() for p in node.args.get("partition_by") or ()]
    order = node.args["order"].sql().strip() if node.args.get("order") is not None else "ORDER BY ts"
    partition = f"PARTITION BY {', '.join(keys)} " if keys else ""
    if name == "nth_value":
        count = call.expressions[1].sql() if len(call.expressions) > 1 else "2"
        return (
            f"NTH_VALUE() is not supported; the n-th row of a partition has that row number: SELECT * FROM {stream}"
            f" QUALIFY ROW_NUMBER() OVER ({partition}{order}) = {count}."
        )
    tiles = call.expressions[0].sql() if name == "ntile" and call.expressions else "4"
    rank, value = {
        "percent_rank": ("RANK", "(r.place - 1) / greatest(c.n - 1, 1)"),
        "cume_dist": ("RANK", "(c.n - r.place + 1) / c.n"),
        "ntile": ("ROW_NUMBER", _ntile(tiles)),
    }[name]
    if name == "cume_dist":  # rows up to this one: all but those in front of it in the turned order
        order = (
            f"ORDER BY {', '.join(_turned(o) for o in node.args['order'].expressions)}"
            if node.args.get("order")
            else order
        )
    of = f"SELECT {''.join(f'{k}, ' for k in keys)}count(*) AS n FROM {stream}" + (
        f" GROUP BY {', '.join(keys)}" if keys else ""
    )
    where = f" WHERE {' AND '.join(f'r.{k} = c.{k}' for k in keys)}" if keys else ""
    ranked = f"SELECT *, {rank}() OVER ({partition}{order}) AS place FROM {stream}"
    there = f", where {' and '.join(keys)} {'is' if len(keys) == 1 else 'are'} not NULL" if keys else ""
    return (
        f"{name.upper()}() is not supported; a rank beside the number of rows of its partition gives the same{there}: "
        f"SELECT r.*, {value} AS {name} FROM ({ranked}) r, ({of}) c{where}."
    )


def _turned(key: exp.Ordered) -> str:
    return f"{key.this.sql()}{'' if key.args.get('desc') else ' DESC'}"


def _ntile(tiles: str) -> str:
    """The first groups are larger by one row where the number of rows does not divide."""
    size = f"c.n div {tiles}"
    return (
        f"CASE WHEN r.place <= c.n % {tiles} * ({size} + 1) THEN 1 + (r.place - 1) div ({size} + 1)"
        f" ELSE {tiles} - (c.n - r.place) div greatest({size}, 1) END"
    )
