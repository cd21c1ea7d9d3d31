"""What may come next in a text: keywords, streams, columns, functions, commands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

KEYWORDS = (
    "SELECT", "FROM", "WHERE", "GROUP", "BY", "HAVING", "ORDER", "LIMIT", "AS", "AND", "OR", "NOT", "IN", "EXISTS",
    "IS", "NULL", "LIKE", "BETWEEN", "CASE", "WHEN", "THEN", "ELSE", "END", "DISTINCT", "JOIN", "LEFT", "RIGHT",
    "FULL", "OUTER", "INNER", "ON", "UNION", "ALL", "EXCEPT", "INTERSECT", "ASOF", "OVER", "PARTITION", "Istream",
    "Dstream", "Rstream", "Wstream", "RANGE", "ROWS", "SLIDE", "NOW", "UNBOUNDED", "TUMBLE", "HOP", "SESSION",
    "UNTIL", "EVERY", "GAP", "SECONDS", "MINUTES", "HOURS", "DAYS", "INTERVAL", "CREATE", "STREAM", "RELATION",
    "VIEW", "TIMESTAMP", "SLACK", "AUTO", "FOR", "IDLE", "OVERLOAD", "DROP", "SAMPLE", "BLOCK", "ABOVE", "KEY",
    "SIGN", "WITH", "INSERT", "INTO", "ALTER", "QUERY", "SET", "PIN", "UNPIN", "UNDO", "DECISION", "OF",
)  # fmt: skip
COMMANDS = (
    "\\decisions",
    "\\drop",
    "\\explain",
    "\\help",
    "\\list",
    "\\pin",
    "\\plan",
    "\\quit",
    "\\undo",
    "\\unpin",
    "\\watch",
)


def completions(
    before: str, names: Mapping[str, Sequence[str]], functions: Iterable[str] = (), queries: Sequence[str] = ()
) -> Iterator[tuple[str, str]]:
    """Words that continue the text before the cursor, each with what it is.

    >>> names = {"packets": ["ts", "size", "subnet"]}
    >>> list(completions("SELECT si", names))
    [('size', 'column'), ('SIGN', 'keyword')]
    >>> list(completions("SELECT size FROM pa", names))
    [('packets', 'stream'), ('PARTITION', 'keyword')]
    >>> list(completions("SELECT packets.su", names))
    [('subnet', 'column')]
    >>> list(completions("\\\\pl", names)), list(completions("\\\\plan la", names, queries=["large"]))
    ([('\\\\plan', 'command')], [('large', 'query')])
    """
    if before.startswith("\\"):
        command, space, rest = before.partition(" ")
        if not space:
            yield from ((c, "command") for c in COMMANDS if c.startswith(command))
        else:
            yield from ((q, "query") for q in queries if q.lower().startswith(rest.strip().lower()))
        return
    found = re.search(r"(?:(\w+)\.)?(\w*)$", before)
    assert found is not None
    owner, word = found[1], found[2].lower()
    if owner is not None:
        columns = next((c for n, c in names.items() if n.lower() == owner.lower()), ())
        yield from ((c, "column") for c in columns if c.lower().startswith(word))
        return
    if not word:
        return
    after_from = re.search(r"\b(from|join|into)\s+\w*$|\bfrom\b[^;()]*,\s*\w*$", before, re.IGNORECASE) is not None
    if after_from:
        yield from ((n, "stream") for n in names if n.lower().startswith(word))
    else:
        columns = sorted({c for found in names.values() for c in found})
        yield from ((c, "column") for c in columns if c.lower().startswith(word))
        yield from ((f"{f}(", "function") for f in functions if f.startswith(word))
    yield from ((k, "keyword") for k in sorted(KEYWORDS, key=str.lower) if k.lower().startswith(word))
