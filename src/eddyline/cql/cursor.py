"""A cursor over tokens, for the statements around queries (``CREATE STREAM`` …), which are ours alone."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from eddyline.core.errors import CqlError, Span


@dataclass(slots=True)
class Cursor:
    tokens: list[Token]
    text: str
    index: int = 0

    @property
    def current(self) -> Token | None:
        return self.tokens[self.index] if self.index < len(self.tokens) else None

    @property
    def rest(self) -> list[Token]:
        return self.tokens[self.index :]

    def error(self, message: str, token: Token | None = None) -> CqlError:
        token = token or self.current
        if token is not None:
            return CqlError(message, self.text, Span(token.start, token.end + 1))
        end = self.tokens[-1].end + 1 if self.tokens else 0
        return CqlError(message, self.text, Span(end, end + 1))

    def found(self) -> str:
        return "the statement ends here" if self.current is None else f"found '{self.current.text}'"

    def take(self, kind: TokenType) -> Token | None:
        token = self.current
        if token is not None and token.token_type == kind:
            self.index += 1
            return token
        return None

    def word(self, *words: str) -> bool:
        """Take these words if they come next; a quoted name is never a word of the language."""
        for offset, word in enumerate(words):
            at = self.index + offset
            if at >= len(self.tokens) or self.tokens[at].text.upper() != word:
                return False
            if self.tokens[at].token_type in (TokenType.STRING, TokenType.IDENTIFIER):
                return False
        self.index += len(words)
        return True

    def expect(self, kind: TokenType, shown: str) -> Token:
        token = self.take(kind)
        if token is None:
            raise self.error(f"expected '{shown}', but {self.found()}.")
        return token

    def name(self, what: str) -> str:
        token = self.current
        if token is None or not (
            token.token_type == TokenType.IDENTIFIER or token.text[:1].isalpha() or token.text[:1] == "_"
        ):
            raise self.error(f"expected {what}, but {self.found()}.")
        if token.token_type == TokenType.STRING:
            raise self.error(f"expected {what}, but found the string '{token.text}'.")
        self.index += 1
        return token.text

    def string(self, what: str) -> str:
        token = self.take(TokenType.STRING)
        if token is None:
            raise self.error(f"expected {what} in quotes, but {self.found()}.")
        return token.text
