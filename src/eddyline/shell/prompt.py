"""The line editor: history, completion, several lines, and mistakes shown while one types."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application.current import get_app_or_none
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, ThreadedCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.lexers import Lexer

from eddyline.core.errors import CqlError, EddylineError
from eddyline.cql.job import QueryStatement, parse_job
from eddyline.shell.commands import command_of
from eddyline.shell.completion import KEYWORDS, completions
from eddyline.shell.sessions import Target

KNOWN_SECONDS = 2.0  # that names of streams and columns are remembered
_WORDS = frozenset(k.upper() for k in KEYWORDS)


class Names:
    """What is declared, asked for at most every so often."""

    def __init__(self, target: Target) -> None:
        self._target, self._when = target, float("-inf")
        self._known: dict[str, list[str]] = {}
        self._queries: list[str] = []
        self._functions: list[str] = []

    def forget(self) -> None:
        """Something may have been declared."""
        self._when = float("-inf")

    def get(self) -> tuple[dict[str, list[str]], list[str], list[str]]:
        if time.monotonic() - self._when > KNOWN_SECONDS:
            self._when = time.monotonic()
            try:
                self._known, self._functions = self._target.names(), self._target.functions()
                self._queries = [name for kind, name, _ in self._target.listed() if kind == "query"]
            except EddylineError:
                pass  # the server is away: what was known is offered
        return self._known, self._functions, self._queries


class CqlCompleter(Completer):
    def __init__(self, names: Names) -> None:
        self._names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        known, functions, queries = self._names.get()
        typed = before.rpartition(" ")[2] if before.startswith("\\") else _word(before)
        for text, what in completions(before, known, functions, queries):
            yield Completion(text, -len(typed), display_meta=what)


class CqlLexer(Lexer):
    """Keywords in colour, and a mistake underlined where it is."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._checked: tuple[str, tuple[int, int] | None] = ("", None)
        self.message = ""

    def lex_document(self, document: Document) -> Any:
        place = self._mistake(document.text)
        starts = [0]
        for line in document.lines:
            starts.append(starts[-1] + len(line) + 1)

        def line_of(number: int) -> StyleAndTextTuples:
            return list(styled(document.lines[number], starts[number], place))

        return line_of

    def _mistake(self, text: str) -> tuple[int, int] | None:
        """The place of the mistake in a query that is typed to its end."""
        if not text.rstrip().endswith(";"):
            self.message = ""
            return None
        if self._checked[0] != text:
            self.message, place = "", None
            try:
                statements = parse_job(text)
                if len(statements) == 1 and isinstance(statements[0], QueryStatement):
                    self._target.check(text)
            except CqlError as error:
                self.message = error.message
                place = None if error.span is None else (error.span.start, error.span.end)
            except EddylineError as error:
                self.message = str(error)
            self._checked = text, place
            app = get_app_or_none()
            if app is not None:  # the line below was laid out before: draw once more, with the message
                app.invalidate()
        return self._checked[1]


def styled(line: str, start: int, place: tuple[int, int] | None) -> Iterator[tuple[str, str]]:
    """Pieces of a line with their styles.

    >>> list(styled("SELECT x", 0, (7, 8)))
    [('bold', 'SELECT'), ('', ' '), ('underline ansired', 'x')]
    """
    for found in re.finditer(r"\w+|\W", line):
        word, at = found[0], start + found.start()
        if place is not None and place[0] <= at < max(place[1], place[0] + 1):
            yield "underline ansired", word
        else:
            yield ("bold" if word.upper() in _WORDS else ""), word


def _word(text: str) -> str:
    end = len(text)
    while end and (text[end - 1].isalnum() or text[end - 1] == "_"):
        end -= 1
    return text[end:]


def complete(text: str) -> bool:
    """Whether Enter sends the text: a command is one line, statements end with a semicolon.

    >>> complete("\\\\plan"), complete("SELECT a"), complete("SELECT a FROM S; "), complete(""), complete("exit")
    (True, False, True, True, True)
    """
    text = text.strip()
    return not text or text.endswith(";") or command_of(text) is not None


def editor(target: Target, history: Path | None, **more: Any) -> PromptSession[str]:
    keys = KeyBindings()
    lexer, names = CqlLexer(target), Names(target)

    @Condition
    def ready() -> bool:
        from prompt_toolkit.application import get_app

        return complete(get_app().current_buffer.text)

    @keys.add("enter", filter=has_focus(DEFAULT_BUFFER) & ready)
    def send(event: Any) -> None:
        names.forget()
        event.current_buffer.validate_and_handle()

    @keys.add("c-c")
    @keys.add("<sigint>")
    def interrupt(event: Any) -> None:
        """As prompt_toolkit does it, but a Ctrl-C right behind Enter finds an input that is over: nothing to leave."""
        if event.app.future is not None and not event.app.future.done():
            event.app.exit(exception=KeyboardInterrupt, style="class:aborting")

    return PromptSession(
        "cql> ",
        multiline=True,
        prompt_continuation="...> ",
        key_bindings=keys,
        lexer=lexer,
        completer=ThreadedCompleter(CqlCompleter(names)),
        complete_while_typing=True,
        history=InMemoryHistory() if history is None else FileHistory(str(history)),
        bottom_toolbar=lambda: lexer.message or None,
        **more,
    )
