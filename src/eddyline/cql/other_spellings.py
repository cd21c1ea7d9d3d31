"""Windows as Flink and Spark spell them: refused, with the user's own query in our form.

Flink puts a function around the table (``TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECONDS))``) or groups
by a function of the time (``GROUP BY TUMBLE(ts, INTERVAL '10' SECONDS)``), and Spark does the latter (``GROUP BY
window(ts, '10 seconds')``, ``session_window``). The text is rewritten token by token, so that all that is not about the
window stays as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlglot.tokenizer_core import Token, TokenType

from eddyline.core.errors import CqlError, Span
from eddyline.cql.token_reader import Edit, TokenReader, edited, written_here

_AROUND: Final = ("TUMBLE", "HOP", "SESSION", "CUMULATE")
_GROUPING: Final = {"WINDOW": "spark", "SESSION_WINDOW": "spark", "TUMBLE": "flink", "HOP": "flink", "SESSION": "flink"}
_EDGES: Final = {
    f"{kind}_{edge}": column
    for kind in ("TUMBLE", "HOP", "SESSION")
    for edge, column in (("START", "window_start"), ("END", "window_end"), ("ROWTIME", "window_end"))
}
_BOTH: Final = "window_start, window_end"
_LENGTH: Final = re.compile(r"\s*\d+(\.\d+)?\s+[a-z]+\s*", re.IGNORECASE)
_ENDS_SOURCE: Final = ("WHERE", "GROUP BY", "HAVING", "UNION", "EXCEPT", "INTERSECT", "JOIN", "ON", "ORDER BY")


@dataclass(slots=True)
class Respelling:
    """What is to be said: where it stands, how it is changed; ``refused`` where we have no such window."""

    span: Span
    edits: list[Edit] = field(default_factory=list)
    refused: str = ""


def refuse_other_spellings(tokens: Sequence[Token], text: str) -> None:
    """Raise a ``CqlError`` that shows the query with our windows, if it has those of another engine.

    >>> from eddyline.cql.parsing import tokenize
    >>> query = "SELECT user, count(*) FROM clicks c GROUP BY window(ts, '10 seconds'), user"
    >>> refuse_other_spellings(tokenize(query), query)
    Traceback (most recent call last):
    ...
    eddyline.core.errors.CqlError: a window stands in brackets behind its stream. Here the query is written:
      SELECT Wstream(user, count(*)) FROM clicks [TUMBLE 10 SECONDS] c GROUP BY window_start, window_end, user
      line 1, column 46:
      SELECT user, count(*) FROM clicks c GROUP BY window(ts, '10 seconds'), user
                                                   ^^^^^^^^^^^^^^^^^^^^^^^^
    """
    reader = _Reader(tokens, text)
    found = reader.around_table() or reader.grouping()
    if found is None:
        return
    if found.refused:
        raise CqlError(found.refused, text, found.span)
    first, last = tokens[0].start, tokens[-1].end + 1
    rewritten = edited(text, [*found.edits, *reader.as_stream()], first, last)
    raise CqlError(f"a window stands in brackets behind its stream. {written_here(rewritten)}", text, found.span)


class _Reader(TokenReader):
    # ── a function around the table ───────────────────────────────────────────────────────────────────────────────

    def around_table(self) -> Respelling | None:
        """Flink's table functions; ``TABLE( … )`` may stand around them."""
        found: Respelling | None = None
        for i in range(len(self.tokens)):
            if self.word(i) not in _AROUND or not self.opens(i + 1) or (close := self.close(i + 1)) is None:
                continue
            parts = self.arguments(i + 1, close)
            if not parts or self.word(parts[0][0]) != "TABLE":
                continue
            first, last = i, close
            if self.word(i - 2) == "TABLE" and self.opens(i - 1) and close + 1 < len(self.tokens):
                first, last = i - 2, close + 1
            found = found or Respelling(self.span(first, last))
            window = self._flink_window(self.word(i), parts)
            if window is None:
                found.refused = f"write the window behind the stream, in brackets: {_form(self.word(i))}."
                if self.word(i) == "CUMULATE":
                    found.refused = (
                        "CUMULATE is not supported: [TUMBLE 10 SECONDS] behind the stream shows each window when it "
                        "closes, [RANGE 10 SECONDS] what the last 10 seconds hold at every instant."
                    )
                return found
            table = self.tokens[parts[0][0] + 1]
            found.edits.append(Edit(*_ends(self.span(first, last)), f"{table.text} {window}"))
        return found

    def _flink_window(self, kind: str, parts: list[tuple[int, int]]) -> str | None:
        lengths = [self.length(p) for p in parts if self.word(p[0]) not in ("TABLE", "DESCRIPTOR")]
        table = parts[0]
        match kind, lengths:
            case "TUMBLE", [size, *offset]:
                return f"[TUMBLE {size}{_offset(offset)}]"
            case "HOP", [slide, size, *offset]:
                return f"[HOP {size} EVERY {slide}{_offset(offset)}]"
            case "SESSION", [gap]:
                by = self.written((table[0] + 2, table[1])) if table[0] + 2 < table[1] else ""
                return f"[SESSION {gap} GAP{' ' + _bare(by) if by else ''}]"
            case _:
                return None

    # ── a function of the time in GROUP BY ────────────────────────────────────────────────────────────────────────

    def grouping(self) -> Respelling | None:
        """Spark's ``window`` and ``session_window``, and what Flink grouped by before it had table functions."""
        calls = [i for i in range(len(self.tokens)) if self._groups(i)]
        if not calls:
            return None
        first = next((i for i in calls if self._in_group_by(i)), calls[0])
        close = self.close(first + 1)
        assert close is not None
        found = Respelling(self.span(first, close))
        window = self._window(first, close)
        source = self._source(first)
        if window is None or source is None:
            found.refused = f"write the window behind the stream, in brackets: {_form(self.word(first))}."
            return found
        placed = self._placed(source, window, first)
        if placed is None:
            found.refused = (
                f"sessions are made of the rows that WHERE keeps: filter them in a view, and put {window} on it."
            )
            return found
        found.edits = [*placed, *self._mentions(calls)]
        return found

    def _placed(self, source: int, window: str, call: int) -> list[Edit] | None:
        """The window behind its source. In these engines WHERE comes before the window; for windows of regular steps
        that is the same, but sessions are made of the rows that it keeps. None: it cannot be moved."""
        end = self.tokens[source].end + 1
        depth = self.depths[call]
        level = [i for i in range(source, len(self.tokens)) if self.depths[i] == depth]
        where = next((i for i in level if self.word(i) == "WHERE"), None)
        if where is None or not window.startswith("[SESSION"):
            return [Edit(end, end, f" {window}")]
        between = range(source + 1, where)
        if self.is_close(source) or any(self.word(i) == "JOIN" or self.tokens[i].text == "," for i in between):
            return None
        group = next(i for i in level if self.word(i) == "GROUP BY")
        condition = self.written((where, group))
        alias = f" {self.written((source + 1, where))}" if between else ""
        name = self.tokens[source]
        stream = f"(SELECT * FROM {name.text}{alias} {condition}) {window}"
        return [Edit(name.start, end, stream), Edit(self.tokens[where].start, self.tokens[group].start, "")]

    def _groups(self, i: int) -> bool:
        kind = _GROUPING.get(self.word(i))
        if kind is None or not self.opens(i + 1) or (close := self.close(i + 1)) is None:
            return False
        parts = self.arguments(i + 1, close)
        if len(parts) < 2:
            return False
        second = self.tokens[parts[1][0]]
        if kind == "flink":
            return self.word(parts[1][0]) == "INTERVAL"
        return second.token_type == TokenType.STRING and _LENGTH.fullmatch(second.text) is not None

    def _in_group_by(self, i: int) -> bool:
        before = [j for j in range(i) if self.depths[j] == self.depths[i]]
        clause = next((self.word(j) for j in reversed(before) if self.word(j) in ("SELECT", "FROM", "GROUP BY")), "")
        return clause == "GROUP BY"

    def _window(self, i: int, close: int) -> str | None:
        lengths = [self.length(p) for p in self.arguments(i + 1, close)[1:]]
        match self.word(i), lengths:
            case (("WINDOW" | "TUMBLE"), [size]):
                return f"[TUMBLE {size}]"
            case "WINDOW", [size, slide, *offset]:
                form = f"TUMBLE {size}" if size == slide else f"HOP {size} EVERY {slide}"
                return f"[{form}{_offset(offset)}]"
            case "HOP", [slide, size]:
                return f"[HOP {size} EVERY {slide}]"
            case (("SESSION_WINDOW" | "SESSION"), [gap]):
                by = self._other_keys(i)
                return f"[SESSION {gap} GAP{f' PARTITION BY {by}' if by else ''}]"
            case _:
                return None

    def _other_keys(self, i: int) -> str:
        """The columns that are grouped by beside the window: sessions are those of a group."""
        depth = self.depths[i]
        starts = [j for j in range(len(self.tokens)) if self.depths[j] == depth and self.word(j) == "GROUP BY"]
        if not starts:
            return ""
        stop = next((j for j in range(starts[0] + 1, len(self.tokens)) if self.depths[j] < depth
                     or (self.depths[j] == depth and self.word(j) in _ENDS_SOURCE)), len(self.tokens))  # fmt: skip
        keys, begin = [], starts[0] + 1
        for j in range(begin, stop + 1):
            if j == stop or (self.tokens[j].token_type == TokenType.COMMA and self.depths[j] == depth):
                if begin < j and not any(self.opens(k) for k in range(begin, j)):
                    keys.append(self.written((begin, j)).rpartition(".")[2])
                begin = j + 1
        return ", ".join(keys)

    def _source(self, i: int) -> int | None:
        """The last token of the source that the window belongs to: the first one of the query's FROM, or the one whose
        alias stands before the time column."""
        depth = self.depths[i]
        starts = [j for j in range(len(self.tokens)) if self.depths[j] == depth and self.word(j) == "FROM"]
        if not starts:
            return None
        at = starts[0] + 1
        if self.opens(at):
            return self.close(at)
        alias = self.tokens[i + 2].text.upper() if self.tokens[i + 3].token_type == TokenType.DOT else ""
        for j in range(at, len(self.tokens) if alias else at):
            named = self.word(j + 1) == alias or (self.word(j + 1) in ("AS", "ALIAS") and self.word(j + 2) == alias)
            if self.depths[j] == depth and (self.word(j) == alias or named):
                return j
        return at if at < len(self.tokens) else None

    def _mentions(self, calls: list[int]) -> list[Edit]:
        """Where the window's columns are named: the calls themselves, ``window.start``, ``TUMBLE_START(…)``."""
        edits, names = [], {"WINDOW", "SESSION_WINDOW"}
        for i in calls:
            close = self.close(i + 1)
            assert close is not None
            last, text = close, _BOTH
            if self.word(close + 1) == "AS" and not self._in_group_by(i):
                names.add(self.word(close + 2))
                last = close + 2
            elif close + 2 < len(self.tokens) and self.tokens[close + 1].token_type == TokenType.DOT:
                last, text = close + 2, f"window_{self.tokens[close + 2].text.lower()}"
            edits.append(Edit(*_ends(self.span(i, last)), text))
        for i in range(len(self.tokens)):
            if self.word(i) in _EDGES and self.opens(i + 1) and (close := self.close(i + 1)) is not None:
                edits.append(Edit(*_ends(self.span(i, close)), _EDGES[self.word(i)]))
            elif self.word(i) in names and not self.opens(i + 1) and self.word(i - 1) not in ("AS", "."):
                dotted = i + 2 < len(self.tokens) and self.tokens[i + 1].token_type == TokenType.DOT
                text = f"window_{self.tokens[i + 2].text.lower()}" if dotted else _BOTH
                edits.append(Edit(*_ends(self.span(i, i + 2 if dotted else i)), text))
        return edits


def _ends(span: Span) -> tuple[int, int]:
    return span.start, span.end


def _offset(lengths: Sequence[str]) -> str:
    return f" OFFSET {lengths[0]}" if lengths else ""


def _bare(partition: str) -> str:
    """``PARTITION BY (a, b)`` without its parentheses."""
    return partition.replace("(", "").replace(")", "")


def _form(kind: str) -> str:
    forms = {"HOP": "[HOP 60 SECONDS EVERY 2 SECONDS]", "SESSION": "[SESSION 10 SECONDS GAP PARTITION BY user]"}
    return forms.get(kind.removesuffix("_WINDOW"), "[TUMBLE 10 SECONDS]")
