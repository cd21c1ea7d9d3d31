"""Windows as they are written: in brackets behind a stream, and as the suffix ``WINDOW`` behind a query."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from eddyline.core.errors import did_you_mean

STREAM_OPERATORS = ("ISTREAM", "DSTREAM", "RSTREAM", "WSTREAM")
WINDOW_WORDS = ("ROWS", "RANGE", "NOW", "PARTITION BY", "TUMBLE", "HOP", "SESSION", "UNTIL", "SIZE")
NO_UNITS = ("SLIDE", "ADVANCE", "EVERY", "OFFSET", "GAP")  # words that follow a length in a window


class Duration(exp.Expression):
    """A number with an optional unit, as written in a window or after SLACK."""

    arg_types: ClassVar[dict[str, bool]] = {"amount": True, "unit": False}


class WindowClause(exp.Expression):
    """``kind`` is the word that the window starts with; a size, a slide, an offset and columns where written."""

    arg_types: ClassVar[dict[str, bool]] = {
        "kind": True,
        "size": False,
        "slide": False,
        "offset": False,
        "columns": False,
    }


class PlacedParseError(ParseError):
    """A syntax error with the place of its token; it is raised by the parser and caught by ``cql.parsing``."""

    def __init__(self, message: str, start: int, end: int) -> None:
        super().__init__(message, [{"description": message}])
        self.description, self.start, self.end = message, start, end


class WindowParser(Parser):
    """The part of the parser that reads windows, and what all of it needs for places and errors."""

    # Errors ---------------------------------------------------------------------------------------------------

    def raise_error(self, message: str, token: Any = None) -> None:
        token = token or self._curr
        if token:
            raise PlacedParseError(message, token.start, token.end + 1)
        end = self._prev.end + 1 if self._prev else len(self.sql)
        raise PlacedParseError(message, end, end + 1)

    # Places ---------------------------------------------------------------------------------------------------

    def _placed(self, node: Any, first: Token) -> Any:
        node.meta["start"], node.meta["end"] = first.start, self._prev.end
        return node

    # Windows --------------------------------------------------------------------------------------------------

    def _parse_source_window(self, source: exp.Expression) -> None:
        while self._match(TokenType.L_BRACKET, advance=False):
            if source.args.get("window"):
                self.raise_error("a stream takes one window, and this is its second.")
            first = self._curr
            self._advance()
            window = self._parse_bracket_window()
            if not self._match(TokenType.R_BRACKET):
                found = f"found '{self._curr.text}'" if self._curr else "the text ends here"
                self.raise_error(f"expected ']' at the end of the window, but {found}.")
            source.set("window", self._placed(window, first))

    def _parse_bracket(self, this: Any = None) -> Any:
        """An element of a list (``a[1]``). A window that stands behind a condition looks like one, too."""
        if self._match(TokenType.L_BRACKET, advance=False) and self._is_window(self._index + 1):
            self.raise_error(
                "a window stands in FROM, behind the stream or the query that it is for: trades [RANGE 5 SECONDS] t.",
                self._tokens[self._index + 1],
            )
        return super()._parse_bracket(this)

    def _is_window(self, at: int) -> bool:
        """Whether a window begins there: its word with what belongs to it, not a column of that name (``a[size]``)."""
        words = [token.text.upper() for token in self._tokens[at : at + 2]]
        return bool(words) and words[0] in WINDOW_WORDS and (words[0] == "NOW" or words[1:] != ["]"])

    def _parse_bracket_window(self) -> WindowClause:
        if self._match_text_seq("NOW"):
            return WindowClause(kind="now")
        if self._match_text_seq("ROWS"):
            if self._match_text_seq("UNBOUNDED"):
                return WindowClause(kind="unbounded")
            size = self._parse_duration(unit=False)
            if self._match_text_seq("SLIDE"):
                self.raise_error("[ROWS n SLIDE m] is not supported: slide a time-based window instead.", self._prev)
            return WindowClause(kind="rows", size=size)
        if self._match_text_seq("RANGE"):
            if self._match_text_seq("UNBOUNDED"):
                return WindowClause(kind="unbounded")
            size = self._parse_duration()
            slide = self._parse_duration() if self._match_text_seq("SLIDE") else None
            return WindowClause(kind="range", size=size, slide=slide)
        if self._match_text_seq("SIZE"):
            size = self._parse_duration()
            slide = self._parse_duration() if self._match_text_seq("ADVANCE") else None
            return WindowClause(kind="size", size=size, slide=slide)
        columns = self._parse_window_partition()
        if columns:
            if not self._match_text_seq("ROWS"):
                self.raise_error("expected ROWS after the columns of PARTITION BY.")
            return WindowClause(kind="partition", columns=columns, size=self._parse_duration(unit=False))
        closing = self._parse_closing_window()
        if closing is not None:
            return closing
        found = f"found '{self._curr.text}'" if self._curr else "the text ends here"
        hint = did_you_mean(self._curr.text, list(WINDOW_WORDS)) if self._curr else ""
        self.raise_error(f"a window starts with {', '.join(WINDOW_WORDS[:-1])} or SIZE, but {found}.{hint}")
        raise AssertionError("unreachable")

    def _parse_window_partition(self) -> list[Any]:
        """``PARTITION BY a, b``; empty if it does not stand here."""
        if not (self._match(TokenType.PARTITION_BY) or self._match_text_seq("PARTITION", "BY")):
            return []
        columns = self._parse_csv(self._parse_column)
        if not columns or not all(isinstance(c, exp.Column) for c in columns):
            self.raise_error("PARTITION BY takes columns of the stream.", self._prev)
        return columns

    def _parse_closing_window(self) -> WindowClause | None:
        """``TUMBLE w``, ``HOP w EVERY l``, ``SESSION g GAP``, ``UNTIL c``; None if none of them stands here."""
        if self._match_text_seq("TUMBLE"):
            size = self._parse_duration()
            return WindowClause(kind="tumble", size=size, offset=self._parse_window_offset())
        if self._match_text_seq("HOP"):
            size = self._parse_duration()
            if not self._match_text_seq("EVERY"):
                self.raise_error("expected EVERY and how far windows are apart: [HOP 60 SECONDS EVERY 2 SECONDS].")
            slide = self._parse_duration()
            return WindowClause(kind="hop", size=size, slide=slide, offset=self._parse_window_offset())
        if self._match_text_seq("SESSION"):
            if self._match_text_seq("GAP"):
                self.raise_error("GAP stands behind its length: [SESSION 10 SECONDS GAP PARTITION BY user].")
            size = self._parse_duration()
            if not self._match_text_seq("GAP"):
                self.raise_error("expected GAP after its length: [SESSION 10 SECONDS GAP PARTITION BY user].")
            return WindowClause(kind="session", size=size, columns=self._parse_window_partition())
        if self._match_text_seq("UNTIL"):
            first = self._curr
            column = self._parse_column()
            if not isinstance(column, exp.Column):
                self.raise_error("UNTIL takes one column of the stream: [UNTIL expires].", first)
            return WindowClause(kind="until", columns=[column])
        return None

    def _parse_window_offset(self) -> Duration | None:
        return self._parse_duration() if self._match_text_seq("OFFSET") else None

    def _parse_window_clause(self) -> Any:
        """The suffix ``WINDOW 10000`` (rows) or ``WINDOW 30 seconds`` (range)."""
        first = self._curr
        if not self._match(TokenType.WINDOW):
            return None
        size = self._parse_duration()
        kind = "range" if size.args.get("unit") else "rows"
        return [self._placed(WindowClause(kind=kind, size=size), first)]

    def _parse_duration(self, unit: bool = True) -> Duration:
        first = self._curr
        self._match(TokenType.INTERVAL)
        sign = "-" if self._match(TokenType.DASH) else ""
        if self._match(TokenType.STRING):
            amount, _, rest = self._prev.text.strip().partition(" ")
            duration = Duration(amount=sign + amount)
            if rest.strip():
                duration.set("unit", exp.Var(this=rest.strip()).update_positions(self._prev))
        elif self._match(TokenType.NUMBER):
            amount = self._prev.text
            # 10,000: the comma belongs to the number if three digits touch it.
            while self._grouped_digits():
                self._advance(2)
                amount += self._prev.text
            duration = Duration(amount=sign + amount)
        else:
            found = f"found '{self._curr.text}'" if self._curr else "the text ends here"
            self.raise_error(f"expected a number, but {found}.")
        if unit and not duration.args.get("unit") and self._curr and self._is_word(self._curr):
            text = self._curr.text.upper()
            if text not in NO_UNITS and not self._ends_duration():
                self._advance()
                duration.set("unit", exp.Var(this=self._prev.text).update_positions(self._prev))
        placed: Duration = self._placed(duration, first)
        return placed

    def _grouped_digits(self) -> bool:
        comma, number = self._curr, self._next
        return bool(
            comma
            and comma.token_type == TokenType.COMMA
            and number.token_type == TokenType.NUMBER
            and len(number.text) == 3
            and self._prev.end + 1 == comma.start
            and comma.end + 1 == number.start
        )

    @staticmethod
    def _is_word(token: Token) -> bool:
        return token.text[:1].isalpha() and token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER)

    def _ends_duration(self) -> bool:
        """After the suffix WINDOW, or WITHIN, the query may go on; none of these words can be a unit."""
        if self._curr.token_type in {TokenType.JOIN} | self.JOIN_METHODS | self.JOIN_SIDES | self.JOIN_KINDS:
            return True
        return self._curr.token_type in self.SET_OPERATIONS or self._curr.token_type in self.QUERY_MODIFIER_PARSERS
