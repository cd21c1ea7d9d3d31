"""A reader for the tokens of a refused query: the searches that remedies need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eddyline.cql.token_reader import Edit, TokenReader, edited

_CLAUSES = ("WHERE", "GROUP BY", "HAVING", "QUALIFY", "ORDER BY", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "WINDOW")
_JOINS = ("JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "ASOF", "ON")


@dataclass(frozen=True, slots=True)
class FoundCall:
    """A call: its name in upper case, where that stands, where its parentheses close, and its arguments as ranges of
    tokens."""

    name: str
    at: int
    close: int
    parts: list[tuple[int, int]]


class RemedyReader(TokenReader):
    def calls(self, *names: str) -> Iterator[FoundCall]:
        """Where one of these functions is called, and its parentheses close."""
        for i in range(len(self.tokens)):
            close = self.close(i + 1) if self.word(i) in names and self.opens(i + 1) else None
            if close is not None:
                yield FoundCall(self.word(i), i, close, self.arguments(i + 1, close))

    def edit(self, first: int, last: int, text: str) -> Edit:
        """Replace tokens."""
        return Edit(self.tokens[first].start, self.tokens[last].end + 1, text)

    def edited(self, edits: Sequence[Edit]) -> str:
        return edited(self.text, edits, self.tokens[0].start, self.tokens[-1].end + 1)

    def clause_end(self, i: int) -> int:
        """The token behind the clause that begins at i: the next clause or join at its depth, or the end."""
        depth = self.depths[i]
        for j in range(i + 1, len(self.tokens)):
            if self.depths[j] < depth or (self.depths[j] == depth and self.word(j) in (*_CLAUSES, *_JOINS)):
                return j
        return len(self.tokens)

    def stream(self, i: int) -> str:
        """The name that the FROM of the query around token i begins with."""
        at = self.from_(i)
        return self.tokens[at + 1].text if at is not None and at + 1 < len(self.tokens) else "S"

    def from_(self, i: int) -> int | None:
        """The FROM of the query around token i: the next at its depth or above it, or else the last before it."""
        depth = self.depths[i]
        for j in range(i, len(self.tokens)):
            depth = min(depth, self.depths[j])
            if self.depths[j] == depth and self.word(j) == "FROM":
                return j
        before = [j for j in range(i) if self.word(j) == "FROM" and self.depths[j] <= self.depths[i]]
        return before[-1] if before else None

    def group_keys(self, i: int) -> str:
        """What the query around token i groups by, as written."""
        at = self.from_(i)
        if at is None:
            return ""
        found = [
            j for j in range(at, len(self.tokens)) if self.word(j) == "GROUP BY" and self.depths[j] == self.depths[at]
        ]
        return self.written((found[0] + 1, self.clause_end(found[0]))) if found else ""

    def over_part(self, over: int, clause: str) -> str:
        """The expressions of PARTITION BY or ORDER BY in the parentheses behind OVER."""
        close = self.close(over + 1) if self.opens(over + 1) else None
        if close is None:
            return ""
        start = next((j for j in range(over + 2, close) if self.word(j) == clause), None)
        if start is None:
            return ""
        ends = ("ORDER BY", "ROWS", "RANGE", "GROUPS")
        stop = next((j for j in range(start + 1, close) if self.word(j) in ends), close)
        return self.written((start + 1, stop))
