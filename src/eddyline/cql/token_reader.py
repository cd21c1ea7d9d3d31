"""The tokens of a query, read and rewritten: for messages that show a user's own query in CQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from eddyline.core.errors import Span
from eddyline.cql.window_syntax import STREAM_OPERATORS


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the text from ``start`` to ``end``."""

    start: int
    end: int
    text: str


def edited(text: str, edits: Sequence[Edit], first: int, last: int) -> str:
    parts, at = [], first
    for e in sorted(edits, key=lambda e: (e.start, e.end)):
        if e.start < at and e.start != e.end:
            continue  # inside what another edit has replaced
        parts += [text[at : e.start], e.text]
        at = max(at, e.end)
    return "".join([*parts, text[at:last]])


def written_here(query: str) -> str:
    """
    >>> print(written_here("SELECT a FROM S"))
    Here the query is written:
      SELECT a FROM S
    """
    lines = [query.strip()] if "\n" not in query else query.split("\n")
    return "Here the query is written:\n" + "\n".join(f"  {line}" for line in lines)


class TokenReader:
    def __init__(self, tokens: Sequence[Token], text: str) -> None:
        self.tokens, self.text = tokens, text
        self.depths: list[int] = []
        depth = 0
        for t in tokens:
            depth -= t.token_type == TokenType.R_PAREN
            self.depths.append(depth)
            depth += t.token_type == TokenType.L_PAREN

    def word(self, i: int) -> str:
        """A word in upper case; empty for what is quoted or not there."""
        if not 0 <= i < len(self.tokens) or self.tokens[i].token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            return ""
        return " ".join(self.tokens[i].text.upper().split())

    def opens(self, i: int) -> bool:
        return i < len(self.tokens) and self.tokens[i].token_type == TokenType.L_PAREN

    def close(self, i: int) -> int | None:
        """The parenthesis that closes the one at i."""
        later = range(i + 1, len(self.tokens))
        return next((j for j in later if self.depths[j] == self.depths[i] and self.is_close(j)), None)

    def is_close(self, i: int) -> bool:
        return self.tokens[i].token_type == TokenType.R_PAREN

    def arguments(self, i: int, close: int) -> list[tuple[int, int]]:
        """The token ranges of what stands between parentheses, split at its commas; names (``SIZE =>``) are skipped."""
        parts, begin = [], i + 1
        for j in range(i + 1, close + 1):
            ends = j == close or (self.tokens[j].token_type == TokenType.COMMA and self.depths[j] == self.depths[i] + 1)
            if ends:
                named = begin + 1 < j and self.tokens[begin + 1].token_type == TokenType.FARROW
                parts.append((begin + 2 if named else begin, j))
                begin = j + 1
        return [p for p in parts if p[0] < p[1]]

    def written(self, part: tuple[int, int]) -> str:
        return self.text[self.tokens[part[0]].start : self.tokens[part[1] - 1].end + 1]

    def length(self, part: tuple[int, int]) -> str:
        """``INTERVAL '10' SECONDS``, ``INTERVAL 10 SECONDS`` and ``'10 seconds'`` as ``10 SECONDS``."""
        words = self.written(part).replace("'", " ").split()
        return " ".join(w.upper() for w in words if w.upper() != "INTERVAL")

    def span(self, first: int, last: int) -> Span:
        return Span(self.tokens[first].start, self.tokens[last].end + 1)

    def as_stream(self) -> list[Edit]:
        """``Wstream`` around the outermost select list: these engines give one result for each window."""
        if any(self.word(i) in STREAM_OPERATORS for i in range(len(self.tokens))):
            return []
        top = [i for i in range(len(self.tokens)) if self.depths[i] == 0]
        selects = [i for i in top if self.word(i) == "SELECT"]
        if len(selects) != 1:
            first, last = self.tokens[0].start, self.tokens[-1].end + 1
            return [Edit(first, first, "Wstream("), Edit(last, last, ")")]
        start = self.tokens[selects[0] + 1].start
        stop = next((i for i in top if i > selects[0] and self.word(i) == "FROM"), None)
        if stop is None:
            return []
        end = self.tokens[stop - 1].end + 1
        return [Edit(start, start, "Wstream("), Edit(end, end, ")")]
