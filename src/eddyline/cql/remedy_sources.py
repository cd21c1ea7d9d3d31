"""Remedies for what other engines have in FROM: patterns, versions of tables, lists, pivots, and windows of ksqlDB,
RisingWave and Azure Stream Analytics."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from eddyline.cql.remedies import Remedy, rule
from eddyline.cql.remedy_reader import RemedyReader
from eddyline.cql.token_reader import Edit


@rule
def match_recognize(r: RemedyReader) -> Remedy | None:
    for call in r.calls("MATCH_RECOGNIZE"):
        i, close = call.at, call.close
        keys = _inside(r, i + 2, close, "PARTITION BY")
        order = _inside(r, i + 2, close, "ORDER BY") or "ts"
        stream = r.tokens[i - 1].text
        partition = f"PARTITION BY {keys} " if keys else ""
        query = (
            f"SELECT * FROM (SELECT *, LAG(price) OVER ({partition}ORDER BY {order}) AS before FROM {stream})"
            " WHERE price > before"
        )
        message = (
            "MATCH_RECOGNIZE is not supported. A pattern of a fixed number of rows, one after another, is a condition"
            " on LAG and LEAD, and rows in a row are counted with OVER (… ROWS n PRECEDING); each row is judged, so"
            " matches may overlap. Patterns of any length (A B+) have no form here. Not your pattern, but the way to"
            " write one, rows whose price is above that of the row before:"
        )
        return Remedy(f"{message}\n  {query}", i, close)
    return None


def _inside(r: RemedyReader, first: int, close: int, clause: str) -> str:
    ends = ("ORDER BY", "MEASURES", "ONE ROW PER MATCH", "ONE", "ALL", "AFTER", "PATTERN", "DEFINE")
    start = next((j for j in range(first, close) if r.word(j) == clause), None)
    if start is None:
        return ""
    stop = next((j for j in range(start + 1, close) if r.word(j) in ends), close)
    return r.written((start + 1, stop))


@rule
def versions(r: RemedyReader) -> Remedy | None:
    """Flink's temporal join: ``JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON …``."""
    for i in range(1, len(r.tokens) - 4):
        if r.word(i) != "FOR" or r.word(i + 1) not in ("SYSTEM_TIME", "VERSION"):
            continue
        at = next((j for j in range(i + 2, min(i + 5, len(r.tokens))) if r.word(j) == "OF"), None)
        on = next((j for j in range(i, len(r.tokens)) if r.word(j) == "ON"), None)
        join = next((j for j in range(i - 1, -1, -1) if r.word(j) == "JOIN"), None)
        if at is None or on is None or join is None:
            message = "FOR SYSTEM_TIME AS OF goes with a join here: FROM s ASOF JOIN t ON s.k = t.k AND t.ts <= s.ts."
            return Remedy(message, i, i + 1)
        dotted = at + 3 < len(r.tokens) and r.tokens[at + 2].token_type == TokenType.DOT
        stop = at + 4 if dotted else at + 2
        time = r.written((at + 1, stop))
        alias = r.written((stop, on)).removeprefix("AS ").removeprefix("as ").strip() or r.tokens[i - 1].text
        column = time.rpartition(".")[2]
        left = "LEFT " if r.word(join - 1) == "LEFT" else ""
        end = r.tokens[r.clause_end(on) - 1].end + 1
        edits = (
            r.edit(join - 1 if left else join, join, f"{left}ASOF JOIN"),
            r.edit(i, on - 1, alias),
            Edit(end, end, f" AND {alias}.{column} <= {time}"),
        )
        message = (
            "what a stream had at a time is an as-of join (a relation with KEY is joined with JOIN alone: it is read at"
            " each instant)."
        )
        return Remedy(message, i, on, edits)
    return None


@rule
def table_functions(r: RemedyReader) -> Remedy | None:
    """Flink's temporal table function: ``, LATERAL TABLE (rates(o.ts)) AS r WHERE o.k = r.k``."""
    for i in range(1, len(r.tokens) - 5):
        if r.word(i) != "LATERAL" or r.word(i + 1) != "TABLE" or not (r.opens(i + 2) and r.opens(i + 4)):
            continue
        inner, outer = r.close(i + 4), r.close(i + 2)
        if inner is None or outer is None or r.word(outer + 1) != "AS" or r.opens(outer + 3):
            continue  # with columns behind the name it is a list
        table, time, alias = r.tokens[i + 3].text, r.written((i + 5, inner)), r.tokens[outer + 2].text
        where = next((j for j in range(outer, len(r.tokens)) if r.word(j) == "WHERE"), None)
        bound = f"{alias}.{time.rpartition('.')[2]} <= {time}"
        gap = Edit(r.tokens[i - 1].start, r.tokens[outer + 2].end + 1, f" ASOF JOIN {table} {alias}")
        if where is None:
            edits = (gap, Edit(r.tokens[outer + 2].end + 1, r.tokens[outer + 2].end + 1, f" ON {bound}"))
        else:
            edits = (gap, r.edit(where, where, f"ON {bound} AND"))
        return Remedy("what a stream had at a time is an as-of join.", i, outer + 2, edits)
    return None


@rule
def lists(r: RemedyReader) -> Remedy | None:
    """``LATERAL VIEW explode(x) t AS y``, ``CROSS JOIN UNNEST(x) AS t(y)``, ``LATERAL TABLE(f(x)) AS t(y)``."""
    for i in range(1, len(r.tokens) - 1):
        word = r.word(i)
        if word == "LATERAL" and r.opens(i + 1):
            message = (
                "a query in FROM does not read the sources beside it: join with its rows, … JOIN (SELECT …) t ON …."
            )
            return Remedy(message, i, i)
        called = _called(r, i)
        if called is None:
            continue
        first, argument, last = called
        close = r.close(argument)
        assert close is not None
        names = [t for t in r.tokens[close + 1 : last + 1] if t.token_type not in _NO_NAME]
        element, table = (names[-1].text if names else "element"), (names[0].text if len(names) > 1 else "")
        lists = r.written((argument + 1, close))
        gone = Edit(r.tokens[first - 1].end + 1, r.tokens[last].end + 1, "")
        edits = [gone, *_mentions(r, first, element, table, f"explode({lists}) AS {element}")]
        message = "the elements of a list are those of explode in the select list, which takes a column."
        return Remedy(message, first, last, tuple(edits))
    return None


_NO_NAME = (TokenType.ALIAS, TokenType.L_PAREN, TokenType.R_PAREN, TokenType.COMMA)


def _called(r: RemedyReader, i: int) -> tuple[int, int, int] | None:
    """Where the clause begins, the parenthesis of the list, and where the clause ends."""
    word = r.word(i)
    if word in ("LATERAL VIEW", "LATERAL") and any(r.word(j) in ("VIEW", "LATERAL VIEW") for j in (i, i + 1)):
        at = next((j for j in range(i, len(r.tokens)) if r.opens(j)), None)
        first = i
    elif word == "UNNEST" and r.opens(i + 1):
        at, first = i + 1, _joined_from(r, i)
    elif word == "LATERAL" and r.word(i + 1) == "TABLE" and r.opens(i + 2) and r.opens(i + 4):
        around = r.close(i + 2)
        return None if around is None else (_joined_from(r, i), i + 4, r.clause_end(around) - 1)
    else:
        return None
    close = r.close(at) if at is not None else None
    if at is None or close is None:
        return None
    last = r.clause_end(close) - 1
    return first, at, max(last, close)


def _joined_from(r: RemedyReader, i: int) -> int:
    """Where the join begins whose source is at i."""
    while i > 0 and (r.word(i - 1) in ("CROSS", "JOIN", "LEFT", "INNER") or r.tokens[i - 1].text == ","):
        i -= 1
    return i


def _mentions(r: RemedyReader, before: int, element: str, table: str, text: str) -> list[Edit]:
    """Where the select list names the element."""
    edits = []
    for j in range(before):
        if r.tokens[j].text.lower() != element.lower() or r.word(j - 1) == "FROM":
            continue
        dotted = j > 1 and r.tokens[j - 1].token_type == TokenType.DOT and r.tokens[j - 2].text.lower() == table.lower()
        edits.append(r.edit(j - 2 if dotted else j, j, text))
    return edits[:1]


@rule
def pivots(r: RemedyReader) -> Remedy | None:
    for call in r.calls("PIVOT", "UNPIVOT"):
        i, close = call.at, call.close
        middle = next((j for j in range(i + 2, close) if r.word(j) == "FOR"), None)
        listed = next((j for j in range(i + 2, close) if r.word(j) == "IN"), None)
        if call.name == "UNPIVOT" or middle is None or listed is None or not r.opens(listed + 1):
            message = "UNPIVOT is not supported: write one SELECT for each column and put UNION ALL between them."
            return Remedy(message, i, close)
        end = r.close(listed + 1)
        assert end is not None
        column, aggregate = r.written((middle + 1, listed)), r.written((i + 2, middle))
        items = []
        for part in r.arguments(listed + 1, end):
            value = r.written((part[0], part[0] + 1))
            name = r.tokens[part[1] - 1].text if part[1] > part[0] + 1 else value.strip("'")
            named = name if name.isidentifier() else f"v{name}"
            items.append(f"{aggregate} FILTER (WHERE {column} = {value}) AS {named}")
        query = f"SELECT {', '.join(items)} FROM {r.tokens[i - 1].text}"
        message = (
            "PIVOT is not supported; a column for each value is an aggregate with FILTER (add keys with GROUP BY)."
        )
        return Remedy(message, i, close, query=query)
    return None


@rule
def ksql_windows(r: RemedyReader) -> Remedy | None:
    """``WINDOW TUMBLING (SIZE 10 SECONDS)`` of ksqlDB."""
    for i in range(len(r.tokens) - 2):
        kind = r.word(i + 1)
        if r.word(i) != "WINDOW" or kind not in ("TUMBLING", "HOPPING", "SESSION") or not r.opens(i + 2):
            continue
        close, at = r.close(i + 2), r.from_(i)
        if close is None or at is None:
            continue
        lengths = [" ".join(w for w in r.written(p).split() if w.upper() not in ("SIZE", "ADVANCE", "BY"))
                   for p in r.arguments(i + 2, close)]  # fmt: skip
        return _windowed(
            r, kind, lengths, at + 1, [Edit(r.tokens[i - 1].end + 1, r.tokens[close].end + 1, "")], i, close
        )
    return None


@rule
def azure_windows(r: RemedyReader) -> Remedy | None:
    """``GROUP BY …, TumblingWindow(second, 10)`` of Azure Stream Analytics."""
    for call in r.calls("TUMBLINGWINDOW", "HOPPINGWINDOW", "SESSIONWINDOW", "SLIDINGWINDOW"):
        i, close = call.at, call.close
        before = [j for j in range(i) if r.word(j) == "FROM"]
        if not before:
            continue
        at = before[-1]
        unit, *numbers = [r.written(p) for p in call.parts]
        lengths = [f"{n} {unit.upper()}S" for n in numbers]
        gone = [r.edit(i, close, "window_end")]
        kind = call.name.removesuffix("WINDOW")
        if kind == "SLIDING":
            return Remedy(f"a sliding window is [RANGE {' '.join(lengths[:1])}] behind the stream.", i, close)
        timed = [j for j in range(at, i) if r.word(j) == "TIMESTAMP" and r.word(j + 1) == "BY"]
        gone += [Edit(r.tokens[j - 1].end + 1, r.tokens[j + 2].end + 1, "") for j in timed]
        return _windowed(r, kind, lengths, at + 1, gone, i, close)
    return None


@rule
def risingwave_windows(r: RemedyReader) -> Remedy | None:
    """``FROM TUMBLE(bids, ts, INTERVAL '10 seconds')``."""
    for call in r.calls("TUMBLE", "HOP"):
        i, close, parts = call.at, call.close, call.parts
        if not parts or parts[0][1] > parts[0][0] + 1:
            continue  # TABLE s: Flink's
        if r.word(i - 1) not in ("FROM", "JOIN") and r.tokens[i - 1].text != ",":
            continue
        lengths = [r.length(p) for p in parts[2:] if r.word(p[0]) == "INTERVAL"]
        stream = r.written(parts[0])
        if call.name == "TUMBLE" and len(lengths) == 1:
            window = f"[TUMBLE {lengths[0]}]"
        elif call.name == "HOP" and len(lengths) == 2:
            window = f"[HOP {lengths[1]} EVERY {lengths[0]}]"
        else:
            continue
        message = "a window stands in brackets behind its stream."
        return Remedy(message, i, close, (r.edit(i, close, f"{stream} {window}"), *_as_stream(r)))
    return None


def _windowed(
    r: RemedyReader, kind: str, lengths: list[str], source: int, gone: list[Edit], first: int, last: int
) -> Remedy | None:
    match kind, [x.upper() for x in lengths]:
        case "TUMBLING", [size]:
            window = f"[TUMBLE {size}]"
        case "HOPPING", [size, advance]:
            window = f"[HOP {size} EVERY {advance}]"
        case "SESSION", [gap, *_]:
            keys = r.group_keys(source)
            plain = ", ".join(k for k in keys.split(", ") if k.isidentifier())
            window = f"[SESSION {gap} GAP{f' PARTITION BY {plain}' if plain else ''}]"
        case _:
            return None
    end = r.tokens[source].end + 1
    edits = (*gone, *_as_stream(r), Edit(end, end, f" {window}"))
    return Remedy("a window stands in brackets behind its stream.", first, last, edits)


def _as_stream(r: RemedyReader) -> list[Edit]:
    """One result for each window, as these engines give it; what they say about it with EMIT is taken off."""
    emit = [i for i in range(1, len(r.tokens)) if r.word(i) == "EMIT"]
    gone = [Edit(r.tokens[i - 1].end + 1, r.tokens[-1].end + 1, "") for i in emit[:1]]
    return [*r.as_stream(), *gone]


@rule
def emitted(r: RemedyReader) -> Remedy | None:
    """ksqlDB's and RisingWave's EMIT."""
    for i in range(len(r.tokens) - 1):
        if r.word(i) != "EMIT":
            continue
        if r.word(i + 1) in ("CHANGES", "FINAL"):
            message = (
                "EMIT is not needed: a query without a stream operator gives its changes with _sign, and SELECT"
                " Wstream(…) what each window showed when it closed. Leave it out."
            )
        else:
            message = "EMIT ON WINDOW CLOSE is a stream operator: write SELECT Wstream(…) around the select list."
        return Remedy(message, i, len(r.tokens) - 1)
    return None
