"""Remedies for SQL of other engines that CQL does not have: the message shows the user's own query in CQL.

A remedy is looked for only where a query has been refused, so a valid query never gets one. Each rule reads the tokens
of the refused query; the first rule that matches replaces the message. Windows of other engines are in
``other_spellings``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot.tokenizer_core import Token, TokenType

from eddyline.core.errors import CqlError, Span
from eddyline.cql.remedy_reader import RemedyReader
from eddyline.cql.token_reader import Edit, written_here

Rule = Callable[[RemedyReader], "Remedy | None"]
RULES: list[Rule] = []


@dataclass(frozen=True, slots=True)
class Remedy:
    """A sentence, where it belongs, and what has to be changed in the query to have it in our form."""

    message: str
    first: int  # tokens
    last: int
    edits: tuple[Edit, ...] = ()
    query: str = ""  # the whole query, where edits would not do


def remedy(tokens: Sequence[Token], text: str) -> CqlError | None:
    """The better message for a refused query, if there is one.

    >>> from eddyline.cql.parsing import tokenize
    >>> query = "SELECT TOP 3 a FROM S ORDER BY a DESC"
    >>> print(remedy(tokenize(query), query).message)
    the first rows are those of ORDER BY … LIMIT. Here the query is written:
      SELECT a FROM S ORDER BY a DESC LIMIT 3
    """
    if not tokens:
        return None
    reader = RemedyReader(tokens, text)
    for rule in RULES:
        found = rule(reader)
        if found is not None:
            query = found.query or (reader.edited(found.edits) if found.edits else "")
            message = f"{found.message} {written_here(query)}" if query else found.message
            span = Span(tokens[found.first].start, tokens[found.last].end + 1)
            return CqlError(message, text, span)
    return None


def rule(function: Rule) -> Rule:
    RULES.append(function)
    return function


# ── values ────────────────────────────────────────────────────────────────────────────────────────────────────────


_NEIGHBOURS: Final = {
    # By function: the join, the comparison, and what the join does otherwise than the function.
    "LAG": ("LEFT ", "<", "rows of one timestamp do not see each other."),
    "LEAD": (
        "",
        ">",
        "rows of one timestamp do not see each other, and a row comes with its value, or never.",
    ),
    "LAST": ("LEFT ", "<=", "a row sees all rows of its timestamp, and values of any age (WITHIN bounds it)."),
}


@rule
def nulls_ignored(r: RemedyReader) -> Remedy | None:
    """``LAG(x) IGNORE NULLS OVER …``, and Spark's ``last_value(x, true)``."""
    for call in r.calls("LAG", "LEAD", "FIRST_VALUE", "LAST_VALUE", "FIRST", "LAST"):
        i, close, parts = call.at, call.close, call.parts
        outside = r.word(close + 1) == "IGNORE" and r.word(close + 2) == "NULLS"
        inside = any(r.word(j) == "IGNORE" and r.word(j + 1) == "NULLS" for j in range(i, close))
        flagged = len(parts) == 2 and r.word(parts[1][0]) == "TRUE"
        if not parts or not (outside or inside or flagged):
            continue
        value = r.written((parts[0][0], parts[0][0] + 1)) if inside else r.written(parts[0])
        over = close + 3 if outside else close + 1
        if r.word(over) != "OVER":
            message = f"IGNORE NULLS is not supported: keep the rows that have a value, WHERE {value} IS NOT NULL."
            return Remedy(message, i, close)
        stream, partition, order = r.stream(i), r.over_part(over, "PARTITION BY"), r.over_part(over, "ORDER BY") or "ts"
        name = call.name.removesuffix("_VALUE")
        if name == "FIRST":
            ranked = f"ROW_NUMBER() OVER ({f'PARTITION BY {partition} ' if partition else ''}ORDER BY {order}) = 1"
            message = (
                f"NULLs are not skipped; the first value of each partition is SELECT * FROM {stream} WHERE {value} IS"
                f" NOT NULL QUALIFY {ranked}, to be joined with the rows beside which it is wanted."
            )
            return Remedy(message, i, close)
        if name != "LAST" and len(parts) > 1:
            message = f"NULLs are not skipped; {call.name}({value}) alone could be an as-of join, of the nearest row."
            return Remedy(message, i, close)
        left, compare, otherwise = _NEIGHBOURS[name]
        keys = "".join(f"{stream}.{k} = v.{k} AND " for k in partition.split(", ") if k)
        query = (
            f"SELECT {stream}.*, v.{value} AS value FROM {stream} {left}ASOF JOIN (SELECT * FROM"
            f" {stream} WHERE {value} IS NOT NULL) v ON {keys}v.{order} {compare} {stream}.{order}"
        )
        message = (
            "NULLs are not skipped; the nearest row with a value is that of an as-of join with those rows. It compares"
            f" times only: {otherwise}"
        )
        if keys:
            message += " A row whose key is NULL has none."
        return Remedy(message, i, close, query=query)
    return None


_AGGREGATES: Final = {
    "PERCENTILE_CONT": "approx_percentile",
    "PERCENTILE_DISC": "approx_percentile",
}


@rule
def within_group(r: RemedyReader) -> Remedy | None:
    for i in range(len(r.tokens)):
        if r.word(i) != "WITHIN" or not r.word(i + 1).startswith("GROUP") or r.tokens[i - 1].text != ")":
            continue
        opened = next((j for j in range(i - 1, -1, -1) if r.opens(j) and r.close(j) == i - 1), None)
        end = next((r.close(j) for j in range(i + 1, min(i + 4, len(r.tokens))) if r.opens(j)), None)
        if opened is None or end is None:
            continue
        ordered = next((j for j in range(i, end) if r.word(j) == "ORDER BY"), None)
        name = _AGGREGATES.get(r.word(opened - 1))
        if name and ordered is not None:
            text = f"{name}({r.written((ordered + 1, end))}, {r.written((opened + 1, i - 1))})"
            message = (
                "WITHIN GROUP is not supported; percentiles are those of approx_percentile, with a declared error."
            )
            return Remedy(message, opened - 1, end, (r.edit(opened - 1, end, text),))
        message = (
            f"{r.tokens[opened - 1].text} … WITHIN GROUP is not supported: declare an aggregate of your own with"
            " session.aggregate."
        )
        return Remedy(message, opened - 1, end)
    return None


@rule
def best_row(r: RemedyReader) -> Remedy | None:
    """``max_by(x, y)``: the row with the largest y."""
    for call in r.calls("MAX_BY", "MIN_BY", "ARG_MAX", "ARG_MIN", "ARGMAX", "ARGMIN"):
        if len(call.parts) != 2:
            continue
        i, close = call.at, call.close
        value, by = map(r.written, call.parts)
        keys = r.group_keys(i)
        turned = " DESC" if "MAX" in call.name else " NULLS LAST"  # neither of them looks at NULLs
        partition = f"PARTITION BY {keys} " if keys else ""
        listed = f"{keys}, {value}" if keys else value
        query = f"SELECT {listed} FROM {r.stream(i)} QUALIFY ROW_NUMBER() OVER ({partition}ORDER BY {by}{turned}) = 1"
        return Remedy(
            f"{r.tokens[i].text} is not supported; the first row by an order has rank 1.", i, close, query=query
        )
    return None


@rule
def quantified(r: RemedyReader) -> Remedy | None:
    """``x > ANY (SELECT y …)`` is a comparison with the least or the greatest."""
    ends = {">": ("min", "max"), ">=": ("min", "max"), "<": ("max", "min"), "<=": ("max", "min")}
    for i in range(1, len(r.tokens) - 3):
        sign = r.tokens[i - 1].text
        if (
            r.word(i) not in ("ANY", "SOME", "ALL")
            or not r.opens(i + 1)
            or r.word(i + 2) != "SELECT"
            or sign not in (*ends, "=")
        ):
            continue
        if sign == "=":
            return Remedy("= ANY (…) is IN (…): write x IN (SELECT …).", i, i)
        stop = next((j for j in range(i + 2, len(r.tokens)) if r.word(j) == "FROM"), None)
        if stop is None:
            continue
        best = ends[sign][r.word(i) == "ALL"]
        item = f"{best}({r.written((i + 3, stop))})"
        edits = (Edit(r.tokens[i].start, r.tokens[i + 1].start, ""), r.edit(i + 3, stop - 1, item))
        return Remedy(f"{r.word(i)} is not supported; compare with the {best} of the subquery.", i, i, edits)
    return None


_FUNCTIONS: Final = {
    **dict.fromkeys(
        ("COLLECT_LIST", "COLLECT_SET", "ARRAY_AGG", "LISTAGG", "STRING_AGG", "GROUP_CONCAT", "MEDIAN", "MODE", "CORR"),
        "{0} is not supported: declare an aggregate of your own with session.aggregate({1!r}, …).",
    ),
    **dict.fromkeys(
        ("PROCTIME", "CURRENT_ROW_TIMESTAMP", "TUMBLE_PROCTIME", "HOP_PROCTIME", "SESSION_PROCTIME"),
        "{0} is not supported: a stream that is declared WITH (arrival = true) has the time at which its rows arrive,"
        " and its windows go by it.",
    ),
    "TIME_BUCKET": "{0} is not supported: a window stands behind the stream, {2} [TUMBLE 10 SECONDS], and has the"
    " columns window_start and window_end.",
    "CURRENT_WATERMARK": "{0} is not supported: rows behind the watermark are the stream late(q).",
    "STRUCT": "{0} is not supported: select its fields as columns.",
    "NAMED_STRUCT": "{0} is not supported: select its fields as columns.",
}


@rule
def functions(r: RemedyReader) -> Remedy | None:
    for call in r.calls(*_FUNCTIONS):
        name = r.tokens[call.at].text
        return Remedy(_FUNCTIONS[call.name].format(name, name.lower(), r.stream(call.at)), call.at, call.at)
    return None


@rule
def the_clock(r: RemedyReader) -> Remedy | None:
    """``WHERE ts > now() - INTERVAL '10' SECOND`` is a window."""
    names = ("NOW", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP")
    for i in range(2, len(r.tokens)):
        if r.word(i) not in names or r.tokens[i - 1].text not in (">", ">="):
            continue
        at = i + 3 if r.opens(i + 1) else i + 1
        if at < len(r.tokens) and r.tokens[at].text == "-" and r.word(at + 1) == "INTERVAL":
            quoted = r.tokens[at + 2].token_type == TokenType.STRING and " " in r.tokens[at + 2].text.strip()
            last = at + 2 if quoted else at + 3
            width = r.length((at + 1, min(last, len(r.tokens) - 1) + 1))
            message = (
                f"a query does not read the clock: the elements of the last {width.lower()} are a window on the stream,"
                f" {r.stream(i)} [RANGE {width}]."
            )
            return Remedy(message, i - 2, last)
    return None


# ── clauses ───────────────────────────────────────────────────────────────────────────────────────────────────────


@rule
def top(r: RemedyReader) -> Remedy | None:
    for i in range(len(r.tokens) - 1):
        if r.word(i) == "TOP" and r.word(i - 1) == "SELECT" and r.tokens[i + 1].token_type == TokenType.NUMBER:
            gone = Edit(r.tokens[i].start, r.tokens[i + 2].start, "")
            end = r.tokens[-1].end + 1
            order = "" if any(r.word(j) == "ORDER BY" for j in range(len(r.tokens))) else " ORDER BY …"
            limit = Edit(end, end, f"{order} LIMIT {r.tokens[i + 1].text}")
            return Remedy("the first rows are those of ORDER BY … LIMIT.", i, i + 1, (gone, limit))
    return None


@rule
def distinct_on(r: RemedyReader) -> Remedy | None:
    for i in range(len(r.tokens) - 2):
        close = r.close(i + 2) if r.word(i) == "DISTINCT" and r.word(i + 1) == "ON" and r.opens(i + 2) else None
        if close is None:
            continue
        keys = r.written((i + 3, close))
        order = next((j for j in range(close, len(r.tokens)) if r.word(j) == "ORDER BY"), None)
        by = r.written((order + 1, len(r.tokens))) if order is not None else "ts"
        end = r.tokens[order - 1].end + 1 if order is not None else r.tokens[-1].end + 1
        edits = (
            Edit(r.tokens[i].start, r.tokens[close + 1].start, ""),
            Edit(end, r.tokens[-1].end + 1, f" QUALIFY ROW_NUMBER() OVER (PARTITION BY {keys} ORDER BY {by}) = 1"),
        )
        return Remedy("DISTINCT ON is not supported; the first row of each has rank 1.", i, close, edits)
    return None


@rule
def semi_joins(r: RemedyReader) -> Remedy | None:
    for i in range(len(r.tokens)):
        kind = r.word(i).split()[-1:] if r.word(i) else []
        if kind not in (["SEMI"], ["ANTI"]) or "JOIN" not in (r.word(i + 1), r.word(i + 2)):
            continue
        join = i + 1 if r.word(i + 1) == "JOIN" else i + 2
        on = next((j for j in range(join, len(r.tokens)) if r.word(j) == "ON"), None)
        if on is None:
            continue
        first = i - 1 if r.word(i - 1) == "LEFT" else i
        stop = r.clause_end(on)
        source, condition = r.written((join + 1, on)), r.written((on + 1, stop))
        exists = f"{'NOT ' if kind == ['ANTI'] else ''}EXISTS (SELECT 1 AS one FROM {source} WHERE {condition})"
        more = r.word(stop) == "WHERE"
        edits = [r.edit(first, stop - 1, f"WHERE {exists}")]
        if more:
            edits.append(r.edit(stop, stop, "AND"))
        return Remedy(f"{kind[0]} JOIN is a condition in WHERE.", first, join, tuple(edits))
    return None


@rule
def grouping_sets(r: RemedyReader) -> Remedy | None:
    for i in range(len(r.tokens)):
        word = r.word(i)
        if word == "ALL" and r.word(i - 1) == "GROUP BY":
            message = "GROUP BY ALL is not needed: plain columns beside aggregates are grouped by. Leave it out."
            return Remedy(message, i - 1, i)
        with_rollup = word in ("ROLLUP", "CUBE") and r.word(i - 1) == "WITH"
        called = word in ("ROLLUP", "CUBE", "GROUPING SETS") and r.opens(i + 1)
        if with_rollup or called:
            message = (
                f"{word} is not supported: write one query for each grouping, with NULL for the columns that it leaves"
                " out, and put UNION ALL between them."
            )
            return Remedy(message, i, i)
    return None


@rule
def watermarks(r: RemedyReader) -> Remedy | None:
    for i in range(len(r.tokens)):
        if r.word(i) not in ("WATERMARK", "WITHWATERMARK") or r.word(i - 1) == "SELECT":
            continue
        lengths = [j for j in range(i, len(r.tokens)) if r.word(j) == "INTERVAL"]
        texts = [t.text for t in r.tokens[i:] if t.token_type == TokenType.STRING and t.text[:1].isdigit()]
        width = r.length((lengths[0], min(lengths[0] + 3, len(r.tokens)))) if lengths else (texts or ["10 seconds"])[-1]
        message = (
            "a watermark is said once, where the stream is declared: CREATE STREAM … SLACK "
            f"{width.upper()} (in Python: session.stream(…, slack='{width.lower()}'))."
        )
        return Remedy(message, i, i)
    return None


@rule
def sorted_rows(r: RemedyReader) -> Remedy | None:
    for i in range(len(r.tokens)):
        word = r.word(i)
        if word in ("SORT BY", "CLUSTER BY", "DISTRIBUTE BY"):
            message = (
                f"{word} is not supported: a relation has no order that could be shown; its first n rows are those of"
                " ORDER BY … LIMIT n."
            )
            return Remedy(message, i, i)
        if word == "TABLESAMPLE":
            message = (
                "TABLESAMPLE is not supported: keep a part of the rows by a condition, such as WHERE id % 10 = 0, or"
                " declare the stream with ON OVERLOAD SAMPLE."
            )
            return Remedy(message, i, i)
        if word == "STREAM" and r.word(i - 1) == "SELECT":
            message = "SELECT STREAM is SELECT here: every query runs on as its streams do. Leave STREAM out."
            return Remedy(message, i, i)
    return None
