"""The grammar of queries on models: the expression of ``MODEL``, and the clauses at the end of a query.

::

    FROM S MODEL S.a = S.a + S.v * t          a polynomial in t, the time since the tuple's own timestamp
    … [ERROR WITHIN 0.5 | 1 % [FLOOR 0.1] [BY key] [SPLIT EQUI | GRADIENT | f]] [SAMPLE EVERY d] [HORIZON d]
      [MAX GAP d] [PARTIAL] [PREDICT]

In ``MODEL`` a name that is no column, but a column's followed by ``t``, is a product as the papers print it: ``S.vt``
is S.v · t, and ``S.at^2`` is S.a · t².
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from eddyline.core.errors import CqlError, Span, did_you_mean
from eddyline.cql.cursor import Cursor
from eddyline.cql.widths import read_width
from eddyline.cql.windows import IntervalText

# A coefficient as a sum of products: for each power of t, (factor, columns).
Terms = dict[int, list[tuple[float, tuple[str, ...]]]]
_CLAUSES = (("ERROR", "WITHIN"), ("SAMPLE", "EVERY"), ("MAX", "GAP"), ("HORIZON",), ("PARTIAL",), ("PREDICT",))
_WORDS = frozenset(c[0] for c in _CLAUSES)


@dataclass(frozen=True, slots=True)
class ModelClauses:
    """As written; widths become ticks when the kind of time is known."""

    span: Span
    error: float | None = None
    relative: bool = False
    floor: float = 0.0
    by: tuple[str, ...] = ()
    sample: IntervalText | None = None
    horizon: IntervalText | None = None
    max_gap: IntervalText | None = None
    partial: bool = False
    predict: bool = False
    split: str = "equi"


def split_model_clauses(tokens: list[Token], text: str) -> tuple[list[Token], ModelClauses | None]:
    """Split a query's tokens from the clauses behind it."""
    depth = 0
    for i, token in enumerate(tokens):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
        if depth == 0 and i and _begins(tokens, i):
            return tokens[:i], _parse(Cursor(tokens[i:], text))
    return tokens, None


def clause_at(tokens: list[Token], place: int) -> str | None:
    """The clause whose first or second word stands at a place of the text; None: no clause does."""
    i = next((i for i, t in enumerate(tokens) if t.start <= place <= t.end), 0)
    for words in _CLAUSES:
        for start in (i, i - 1):
            if start >= 0 and tuple(map(_word, tokens[start : start + len(words)])) == words:
                return " ".join(words)
    return None


def _begins(tokens: list[Token], i: int) -> bool:
    if tokens[i - 1].token_type is TokenType.DOT:
        return False  # the name of a column
    after = tokens[i + 1] if i + 1 < len(tokens) else None
    match _word(tokens[i]):
        case "ERROR" | "SAMPLE" | "MAX":
            return after is not None and (_word(tokens[i]), _word(after)) in _CLAUSES
        case "HORIZON":
            return after is not None and after.token_type in (TokenType.NUMBER, TokenType.STRING, TokenType.INTERVAL)
        case "PARTIAL" | "PREDICT":  # not the name behind AS
            return _word(tokens[i - 1]) != "AS" and (after is None or _begins(tokens, i + 1))
        case _:
            return False


def _word(token: Token) -> str:
    return token.text.upper() if token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER) else ""


def _parse(cursor: Cursor) -> ModelClauses:
    first = cursor.tokens[0]
    found: dict[str, object] = {}
    while (place := cursor.current) is not None:
        clause = next((c for c in _CLAUSES if cursor.word(*c)), None)
        if clause is None:
            second = next((w for first, *w in _CLAUSES if w and first == _word(place)), None)
            if second is not None:
                word = _word(place)
                raise cursor.error(f"{word} is followed by {second[0]}: write {word} {second[0]} ….", place)
            names = [" ".join(c) for c in _CLAUSES]
            hint = did_you_mean(place.text, [w for c in _CLAUSES for w in c])
            raise cursor.error(f"expected {', '.join(names)} or the end of the query, but {cursor.found()}.{hint}")
        name = {"MAX": "max_gap"}.get(clause[0], clause[0].lower())
        if name in found:
            raise cursor.error(f"{' '.join(clause)} is given twice.", place)
        if name == "error":
            found.update(_bound(cursor))
        else:
            found[name] = True if name in ("partial", "predict") else _width(cursor, " ".join(clause))
    return ModelClauses(Span(first.start, cursor.tokens[-1].end + 1), **found)  # type: ignore[arg-type]


def _bound(cursor: Cursor) -> dict[str, object]:
    error = _number(cursor, "ERROR WITHIN needs a bound such as 0.5 or 1 %")
    place = cursor.tokens[cursor.index - 1]
    relative = cursor.take(TokenType.MOD) is not None or cursor.word("PERCENT")
    found: dict[str, object] = {"error": error / 100 if relative else error, "relative": relative}
    if error <= 0 or (relative and error >= 50):
        raise cursor.error("ERROR WITHIN takes a bound above 0, and a share below 50 %.", place)
    if cursor.word("FLOOR"):
        if not relative:
            raise cursor.error("FLOOR is for a relative bound: an absolute one is its own floor.")
        found["floor"] = _number(cursor, "FLOOR needs an absolute bound such as 0.1")
    if cursor.word("BY"):
        paren = cursor.take(TokenType.L_PAREN) is not None
        names = [cursor.name("a column")]
        while cursor.take(TokenType.COMMA):
            names.append(cursor.name("a column"))
        if paren:
            cursor.expect(TokenType.R_PAREN, ")")
        found["by"] = tuple(names)
    if cursor.word("SPLIT"):
        needed = "EQUI, GRADIENT or the name of a split function"
        if cursor.current is not None and _begins(cursor.tokens, cursor.index):
            raise cursor.error(f"expected {needed}, but {cursor.found()}.")
        found["split"] = cursor.name(needed)
    return found


def _number(cursor: Cursor, needs: str) -> float:
    number = cursor.take(TokenType.NUMBER)
    if number is None:
        raise cursor.error(f"{needs}, but {cursor.found()}.")
    found = float(number.text)
    if not math.isfinite(found):
        raise cursor.error(f"{needs}, and {number.text} is larger than any number here.", number)
    return found


def _width(cursor: Cursor, clause: str) -> IntervalText:
    value = read_width(cursor, clause, _WORDS)
    if value.amount <= 0:
        raise CqlError(f"{clause} must be larger than 0.", cursor.text, value.span)
    return value


def parse_model(
    text: str, tokens: list[Token], aliases: Collection[str], columns: Collection[str]
) -> tuple[str, Terms]:
    """The column that ``MODEL`` models and its polynomial; ``tokens`` are those behind the word MODEL."""
    parser = _ModelParser(Cursor(tokens, text), {a.lower() for a in aliases}, {c.lower(): c for c in columns})
    return parser.equation()


class _ModelParser:
    """A polynomial by recursive descent; sqlglot reads ^ as an operator that binds less tightly than +."""

    def __init__(self, cursor: Cursor, aliases: Collection[str], columns: dict[str, str]) -> None:
        self.cursor, self.aliases, self.columns = cursor, aliases, columns

    def equation(self) -> tuple[str, Terms]:
        place = self.cursor.current
        name = self._name()
        if name.lower() not in self.columns:
            hint = did_you_mean(name, self.columns.values())
            raise self.cursor.error(f"MODEL models a column of its stream, and {name!r} is none.{hint}", place)
        self.cursor.expect(TokenType.EQ, "=")
        terms = self._sum()
        if self.cursor.current is not None:
            raise self.cursor.error(f"expected an operator in MODEL, but {self.cursor.found()}.")
        return self.columns[name.lower()], terms

    def _name(self) -> str:
        """A column, with or without the alias of its stream."""
        place = self.cursor.current
        name = self.cursor.name("a column")
        if self.cursor.take(TokenType.DOT):
            if name.lower() not in self.aliases:
                raise self.cursor.error(f"MODEL reads columns of its own stream, and {name!r} is another.", place)
            name = self.cursor.name("a column")
        return name

    def _sum(self) -> Terms:
        total = self._product()
        while self.cursor.current is not None:
            if self.cursor.take(TokenType.PLUS):
                total = _added(total, self._product())
            elif self.cursor.take(TokenType.DASH):
                total = _added(total, _times(self._product(), {0: [(-1.0, ())]}))
            else:
                break
        return total

    def _product(self) -> Terms:
        found = self._factor()
        while self.cursor.current is not None:
            if self.cursor.take(TokenType.STAR):
                found = _times(found, self._factor())
            elif self.cursor.take(TokenType.SLASH):
                number = self.cursor.take(TokenType.NUMBER)
                if number is None:
                    raise self.cursor.error(
                        f"MODEL divides by numbers alone, but {self.cursor.found()}: what is divided by a column is no "
                        "polynomial of columns."
                    )
                if float(number.text) == 0:
                    raise self.cursor.error("MODEL divides by zero.", number)
                found = _times(found, {0: [(1 / float(number.text), ())]})
            else:
                break
        return found

    def _factor(self) -> Terms:
        if self.cursor.take(TokenType.DASH):
            return _times(self._factor(), {0: [(-1.0, ())]})
        if self.cursor.take(TokenType.L_PAREN):
            inner = self._sum()
            self.cursor.expect(TokenType.R_PAREN, ")")
            return _power(inner, self._exponent())
        if number := self.cursor.take(TokenType.NUMBER):
            return _power({0: [(float(number.text), ())]}, self._exponent())
        place = self.cursor.current
        bare = place is not None and place.text.lower() == "t" and not self._dotted()
        name = self._name()
        place = self.cursor.tokens[self.cursor.index - 1]
        if bare:
            return {self._exponent(): [(1.0, ())]}
        lower = name.lower()
        if lower in self.columns:
            return _power({0: [(1.0, (self.columns[lower],))]}, self._exponent())
        if lower.endswith("t") and lower[:-1] in self.columns:  # a product as the papers print it
            return {self._exponent(): [(1.0, (self.columns[lower[:-1]],))]}
        hint = did_you_mean(name, self.columns.values())
        raise self.cursor.error(f"unknown column {name!r} in MODEL.{hint}", place)

    def _dotted(self) -> bool:
        at = self.cursor.index + 1
        return at < len(self.cursor.tokens) and self.cursor.tokens[at].token_type == TokenType.DOT

    def _exponent(self) -> int:
        if not self.cursor.take(TokenType.CARET):
            return 1
        number = self.cursor.expect(TokenType.NUMBER, "a whole power")
        if not number.text.isdigit():
            raise self.cursor.error(f"MODEL takes whole powers, not {number.text}.", number)
        return int(number.text)


def _added(a: Terms, b: Terms) -> Terms:
    return {k: [*a.get(k, []), *b.get(k, [])] for k in {*a, *b}}


def _times(a: Terms, b: Terms) -> Terms:
    out: Terms = {}
    for i, left in a.items():
        for j, right in b.items():
            out.setdefault(i + j, []).extend((x * y, (*c, *d)) for x, c in left for y, d in right)
    return out


def _power(a: Terms, n: int) -> Terms:
    out: Terms = {0: [(1.0, ())]}
    for _ in range(n):
        out = _times(out, a)
    return out
